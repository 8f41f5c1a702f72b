// SPDX-License-Identifier: Apache-2.0
// The steps of a case, one function for each.
import { killServer, startServer, until } from '../../../e2e/lib/server.mjs';
import { filled, mismatch } from './patterns.mjs';

function expectMatch(value, pattern, names) {
  if (pattern === undefined) return;
  const found = mismatch(value, pattern, names);
  if (found) throw new Error(`${found}\nthe whole value: ${JSON.stringify(value)?.slice(0, 3000)}`);
}

async function replyTo(run, seqs, step) {
  const many = Array.isArray(seqs);
  const replies = [];
  for (const seq of many ? seqs : [seqs]) replies.push(await run.adapter.reply(seq));
  const failed = replies.find((reply) => reply.error !== undefined);
  if (step.error !== undefined) {
    if (!failed) throw new Error(`the command succeeded: ${JSON.stringify(replies)}`);
    return failed.error;
  }
  if (failed) throw new Error(`the command failed: ${JSON.stringify(failed.error)}`);
  return many ? replies.map(({ ok }) => ok) : replies[0].ok;
}

/** One request past the proxy: {status, body}. */
async function ask(run, [method, path, body]) {
  const { status, json, text } = await run.api.request(method, path, body === undefined ? {} : { json: body });
  return { status, body: json ?? text };
}

const servers = {
  kill: async (run) => killServer(run.server),
  async start(run) {
    run.server = await startServer({ ...run.serverOptions, data: run.server.data });
    run.useServer();
  },
  freeze: async (run) => process.kill(run.server.pid, 'SIGSTOP'),
  thaw: async (run) => process.kill(run.server.pid, 'SIGCONT'),
};

/** Each returns the value that `as` stores and `expect` is about. */
const kinds = {
  async call(run, step) {
    const many = Array.isArray(step.call);
    const seqs = run.adapter.send(many ? step.call : [step.call]);
    return replyTo(run, many ? seqs : seqs[0], step);
  },
  async start(run, step) {
    const many = Array.isArray(step.start);
    const seqs = run.adapter.send(many ? step.start : [step.start]);
    run.started.set(step.as, many ? seqs : seqs[0]);
  },
  reply: (run, step) => replyTo(run, run.started.get(step.reply), step),
  http: (run, step) => ask(run, step.http),
  async until(run, step) {
    let last;
    try {
      return await until(JSON.stringify(step.until), async () => {
        last = await ask(run, step.until);
        return mismatch(last, step.expect, run.names) ? null : last;
      });
    } catch (error) {
      throw new Error(`${error.message}: ${mismatch(last, step.expect, run.names)}`);
    }
  },
  event: (run, step) => run.adapter.event(`the event ${JSON.stringify(step.event)}`, (event) => !mismatch(event, step.event, run.names)),
  async no_event(run, step) {
    const found = run.adapter.events.find((event) => !mismatch(event, step.no_event, run.names));
    if (found) throw new Error(`there was the event ${JSON.stringify(found)}`);
  },
  advance: async (run, step) => (await ask(run, ['POST', '/v1/test/clock', { advance_ms: step.advance }])).body,
  proxy: async (run, step) => run.proxy.setRules(step.proxy),
  unhold: async (run, step) => run.proxy.unhold(step.unhold),
  async requests(run, { requests: { method, path } }) {
    return run.proxy.requests.filter((seen) => (!method || seen.method === method) && (!path || new RegExp(path).test(seen.path)));
  },
  server: (run, step) => servers[step.server](run),
};
const MATCHED_BY_ITSELF = new Set(['event', 'no_event']);

export async function runStep(run, raw) {
  const kind = Object.keys(kinds).find((name) => name in raw);
  if (!kind) throw new Error('a step of unknown kind');
  // References are replaced in what is sent; patterns may contain them as well.
  const step = filled(raw, run.names);
  const value = await kinds[kind](run, step);
  if (!MATCHED_BY_ITSELF.has(kind)) expectMatch(value, step.error ?? step.expect, run.names);
  if (raw.as && kind !== 'start') run.names[raw.as] = value;
}
