// SPDX-License-Identifier: Apache-2.0
// The adapter of the JavaScript client for tests/clients/conformance, whose README describes commands and events.
import { FailJob, Holdfast, JobCancelledError, LeaseLostError, rawJson, ReleaseJob } from '../../../clients/js/dist/esm/index.js';

const write = (message) => process.stdout.write(`${JSON.stringify('event' in message ? { ...message, at: Date.now() } : message)}\n`);

const camel = (name) => name.replace(/_([a-z])/g, (_, letter) => letter.toUpperCase());
const camelAll = (members = {}) => Object.fromEntries(Object.entries(members).map(([name, value]) => [camel(name), value]));
const snakeAll = (members) =>
  members && Object.fromEntries(Object.entries(members).map(([name, value]) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), value]));
const errorOf = (error) => ({ code: error.code ?? 'none', class: error.name, message: error.message });

let client;
let traceparent;
const tracing = {
  inject(carrier) {
    if (traceparent) carrier.traceparent = traceparent;
  },
  handle(carrier, info, run) {
    contexts.set(info.id, carrier.traceparent);
    return run();
  },
};
const contexts = new Map();
const workers = new Map();
const holds = new Map(); // id → function that lets the handler continue

const payloadOf = ({ payload, payload_raw: raw }) => (raw === undefined ? payload : rawJson(raw));
const withRaw = (job) => job && { ...snakeAll(job), payload_raw: job.payloadText };
const why = (reason) => (reason instanceof LeaseLostError ? 'lease_lost' : reason instanceof JobCancelledError ? 'cancelled' : 'worker_stopped');

/** Until `resume`, or for a time; ends early when the handler is told to stop. */
function hold(job, ctx, ignoreStop, ms) {
  if (ms === undefined) write({ event: 'holding', job: job.id });
  return new Promise((resolve, reject) => {
    const timer = ms === undefined ? undefined : setTimeout(() => holds.get(job.id)(), ms);
    const end = () => {
      clearTimeout(timer);
      holds.delete(job.id);
      ctx.signal.removeEventListener('abort', onAbort);
    };
    const onAbort = () => {
      end();
      if (ignoreStop) resolve();
      else reject(ctx.signal.reason);
    };
    holds.set(job.id, () => {
      end();
      resolve();
    });
    ctx.signal.addEventListener('abort', onAbort);
    if (ctx.signal.aborted) onAbort();
  });
}

const actions = {
  note() {},
  first: (job, ctx, name, ...words) => (job.attempt === 1 ? actions[name](job, ctx, ...words) : undefined),
  wait: (job, ctx, ms) => hold(job, ctx, false, ms),
  hold: (job, ctx) => hold(job, ctx, false),
  ignore_stop: (job, ctx) => hold(job, ctx, true),
  progress: (job, ctx, percent, message) => ctx.progress({ percent, message }),
  log: (job, ctx, ...lines) => ctx.log(...lines),
  step: (job, ctx, name, value) =>
    ctx.step(name, () => {
      write({ event: 'step_ran', job: job.id, name });
      return value;
    }),
  block(job, ctx, ms) {
    const end = Date.now() + ms;
    while (Date.now() < end);
  },
  hand_off: (job, ctx, queue, payload) => ctx.onAck({ enqueues: [{ queue, payload }] }),
  trace: (job) => contexts.get(job.id) ?? null,
  throw(job, ctx, name, message) {
    throw Object.assign(new Error(message), { name });
  },
  fail(job, ctx, message, { retry, error_kind: kind, delay_ms: delayMs } = {}) {
    throw new FailJob(message, { retry, kind, delayMs });
  },
  release(job, ctx, reason, { delay_ms: delayMs } = {}) {
    throw new ReleaseJob(reason, { delayMs });
  },
};

async function handler(job, ctx) {
  write({ event: 'started', job: job.id, attempt: job.attempt, payload_raw: job.payloadText });
  ctx.signal.addEventListener('abort', () => write({ event: 'stopped', job: job.id, why: why(ctx.signal.reason) }));
  if (!Array.isArray(job.payload)) return job.payload;
  let result;
  for (const [name, ...words] of job.payload) {
    if (name === 'return') return words[0];
    const value = await actions[name](job, ctx, ...words);
    if (name === 'trace' || name === 'step') result = value;
  }
  return result;
}

const hooks = {
  done: (job) => write({ event: 'ended', job: job.id, how: 'done' }),
  failed: (job) => write({ event: 'ended', job: job.id, how: 'failed' }),
  released: (job) => write({ event: 'ended', job: job.id, how: 'released' }),
  cancelled: (job) => write({ event: 'cancelled', job: job.id }),
  lost: (job, { late, blockedMs }) => write({ event: 'lost', job: job.id, late, blocked_ms: blockedMs }),
  error: (error) => process.stderr.write(`${error.name} ${error.code ?? ''}: ${error.message}\n`),
};

const lease = ({ id, token }) => ({ id, token });
const rest = ({ seq, do: name, id, token, ...members }) => camelAll(members);
const commands = {
  async open({ url, token, options }) {
    client = new Holdfast({ url, token, tracing, onRetry: hooks.error, ...camelAll(options) });
    return null;
  },
  close: async () => (await client.close(), null),
  enqueue: async (command) => snakeAll(await client.enqueue(command.queue, payloadOf(command), camelAll(command.options))),
  async enqueue_many({ queue, jobs }) {
    const outcomes = await client.enqueueMany(queue, jobs.map((job) => camelAll(job)));
    return outcomes.map((outcome) => (outcome.error ? { error: errorOf(outcome.error) } : snakeAll(outcome)));
  },
  get: async ({ id }) => withRaw(await client.get(id)) ?? null,
  async list(command) {
    const { jobs, nextCursor } = await client.list(rest(command));
    return { jobs: jobs.map(withRaw), next_cursor: nextCursor };
  },
  cancel: async ({ id, force }) => snakeAll(await client.cancel(id, { force })),
  requeue: async ({ id, delay_ms: delayMs }) => snakeAll(await client.requeue(id, { delayMs })),
  async claim(command) {
    const { queue, queues, ...options } = rest(command);
    return (await client.claim(queues ?? queue, options)).map(withRaw);
  },
  ack: async (command) => snakeAll(await client.ack(lease(command), rest(command))),
  fail: async (command) => snakeAll(await client.fail(lease(command), rest(command))),
  release: async (command) => snakeAll(await client.release(lease(command), rest(command))),
  extend: async (command) => snakeAll(await client.extend(lease(command), rest(command))),
  progress: async (command) => snakeAll(await client.progress(lease(command), rest(command))),
  log: async (command) => snakeAll(await client.log(lease(command), command.lines)),
  step: async (command) => snakeAll(await client.storeStep(lease(command), command.name, command.result)),
  async worker({ worker, queue, queues, options }) {
    workers.set(worker, client.worker(queues ?? queue, handler, { ...camelAll(options), hooks }));
    return null;
  },
  stop: async ({ worker, timeout_ms: timeoutMs, drain }) => (await workers.get(worker).stop({ timeoutMs, drain }), null),
  async resume({ job }) {
    holds.get(job)();
    return null;
  },
  async trace(command) {
    traceparent = command.traceparent;
    return null;
  },
};

function carryOut(line) {
  const command = JSON.parse(line);
  commands[command.do](command).then(
    (ok) => write({ seq: command.seq, ok: ok ?? null }),
    (error) => write({ seq: command.seq, error: errorOf(error) }),
  );
}

let text = '';
process.stdin.setEncoding('utf8');
process.stdin.on('data', (chunk) => {
  const lines = (text + chunk).split('\n');
  text = lines.pop();
  for (const line of lines) carryOut(line);
});
process.stdin.on('end', async () => {
  for (const worker of workers.values()) await worker.stop({ timeoutMs: 0 });
  await client?.close();
});
