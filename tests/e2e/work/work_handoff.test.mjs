// SPDX-License-Identifier: Apache-2.0
// What the targets of `holdfast work` hand off (HF-28): the file of a command, the reply of an HTTP target.
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { claimOne, enqueue, freshQueue, onStores, trace } from '../lib/suite.mjs';
import { temporaryDirectory } from '../lib/server.mjs';
import { job, runWork, startHook } from '../lib/worker.mjs';

onStores('hand-off of holdfast work', ['memory'], {}, (use) => {
  const readyIn = async (queue) => {
    const answer = await use.api.get(`/v1/queues/${queue}`);
    return answer.status === 404 ? 0 : answer.json.counts.ready;
  };

  /** Runs a shell script for one job: {code, stderr, …the job}. */
  async function once(script, { more = {}, headers = {}, args = [], env, server = use.server } = {}) {
    const queue = freshQueue();
    const { id } = await enqueue(use.api, queue, { payload: { order: 7 }, ...more }, headers);
    const { code, stderr } = await runWork(server, [queue, '--once', ...args, '--', 'sh', '-c', script], { env });
    return { code, stderr, ...(await job(use.api, id)) };
  }

  test('HF-28: a command hands off through the file of HOLDFAST_HANDOFF', async () => {
    const next = freshQueue('ship');
    const done = await once(
      `test ! -e "$HOLDFAST_HANDOFF" && jq -c '{enqueues: [{queue: "${next}", payload: .}], sets: [{key: ["order", .order], value: "charged"}]}' >"$HOLDFAST_HANDOFF" && echo '{"ok":true}'`,
      { headers: trace },
    );
    assert.equal(done.code, 0, done.stderr);
    assert.deepEqual([done.state, done.result], ['done', { ok: true }]);
    const shipped = await claimOne(use.api, next);
    assert.deepEqual(shipped.payload, { order: 7 });
    assert.equal(shipped.headers.traceparent, trace.traceparent, 'the trace goes on');
    assert.equal((await use.api.post('/v1/kv/get', { keys: [['order', 7]] })).json.keys[0].value, 'charged');
  });

  test('HF-28: without a file, or with an empty one, nothing is handed off', async () => {
    for (const script of ['true', ': >"$HOLDFAST_HANDOFF"']) {
      const done = await once(script);
      assert.deepEqual([done.code, done.state], [0, 'done'], done.stderr);
    }
  });

  test('HF-28: a hand-off of a command that fails is not used', async () => {
    const next = freshQueue('next');
    const failed = await once(`echo '{"enqueues":[{"queue":"${next}","payload":1}]}' >"$HOLDFAST_HANDOFF"; exit 3`);
    assert.deepEqual([failed.state, failed.error_type], ['scheduled', 'exit 3']);
    assert.equal(await readyIn(next), 0);
  });

  for (const [what, script, error] of [
    ['is no JSON', `echo '{"enqueues":[' >"$HOLDFAST_HANDOFF"`, /the hand-off must be one JSON object.*at byte \d+/],
    ['is no object', `echo '[]' >"$HOLDFAST_HANDOFF"`, /the hand-off must be one JSON object/],
    ['has an unknown member', `echo '{"enqueue":[]}' >"$HOLDFAST_HANDOFF"`, /a member "enqueue"; it can have enqueues, sets and deletes/],
    ['is a directory', 'mkdir "$HOLDFAST_HANDOFF"', /not a regular file/],
    ['is too large', `head -c 1100000 /dev/zero | tr '\\0' ' ' >"$HOLDFAST_HANDOFF"`, /more than 1048576 bytes/],
    ['is refused by the server', `echo '{"enqueues":[{"queue":"q","payloud":1}]}' >"$HOLDFAST_HANDOFF"`, /the server refused the hand-off: enqueues\[0\]: .*payloud.*"payload"/],
  ])
    test(`HF-28: a hand-off that ${what} fails the attempt`, async () => {
      const failed = await once(`${script}; echo fine`);
      assert.equal(failed.code, 5, failed.stderr);
      assert.deepEqual([failed.state, failed.attempts, failed.error_type], ['scheduled', 1, 'handoff']);
      assert.match(failed.error, error);
    });

  test('HF-28: an enqueue that is refused fails the attempt, and nothing is enqueued', async () => {
    const next = freshQueue('next');
    await enqueue(use.api, next, { payload: 1, unique: 'u' });
    const failed = await once(`echo '{"enqueues":[{"queue":"${next}"},{"queue":"${next}","unique":"u","unique_mode":"reject"}]}' >"$HOLDFAST_HANDOFF"`);
    assert.deepEqual([failed.state, failed.error_type], ['scheduled', 'handoff']);
    assert.match(failed.error, /enqueues\[1\]: /);
    assert.equal(await readyIn(next), 1);
  });

  test('HF-28: an ack whose reply is lost is repeated, and the next job exists once', async () => {
    const next = freshQueue('next');
    let acks = 0;
    const proxy = await startHook(use.api, async (request, body, forward) => {
      const answer = await forward();
      const lost = request.url.endsWith('/ack') && ++acks === 1;
      return lost ? { status: 503, raw: '{}' } : { status: answer.status, raw: answer.text };
    });
    try {
      const done = await once(`echo '{"enqueues":[{"queue":"${next}","payload":1}]}' >"$HOLDFAST_HANDOFF"`, { server: proxy });
      assert.deepEqual([done.code, done.state], [0, 'done'], done.stderr);
      assert.equal(acks, 2);
      assert.equal(await readyIn(next), 1);
    } finally {
      proxy.close();
    }
  });

  test('HF-28: no file is left behind', async () => {
    const TMPDIR = path.join(temporaryDirectory(), 'tmp');
    mkdirSync(TMPDIR);
    const done = await once(`ls -ld "$(dirname "$HOLDFAST_HANDOFF")" | cut -c1-10; echo '{"sets":[{"key":["x"],"value":1}]}' >"$HOLDFAST_HANDOFF"`, { env: { TMPDIR } });
    assert.deepEqual([done.state, done.result], ['done', 'drwx------']);
    assert.deepEqual(readdirSync(TMPDIR), []);
  });

  test('HF-28: without a directory for the files, commands run without the variable', async () => {
    const done = await once('echo "${HOLDFAST_HANDOFF-none}"', { env: { TMPDIR: '/nonexistent' } });
    assert.deepEqual([done.state, done.result], ['done', 'none']);
    assert.match(done.stderr, /warn no_handoffs reason="no directory for hand-offs could be created in \/nonexistent/);
  });

  // ---- HTTP targets ----

  const target = { answer: null };
  before(async () => {
    target.server = http.createServer((request, response) => request.resume().on('end', () => response.writeHead(200, { 'content-type': target.type }).end(target.answer)));
    await new Promise((resolve) => target.server.listen(0, '127.0.0.1', resolve));
    target.url = `http://127.0.0.1:${target.server.address().port}/`;
  });
  after(() => {
    target.server.closeAllConnections?.();
    target.server.close();
  });
  async function post(answer, type) {
    const queue = freshQueue();
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    Object.assign(target, { answer, type });
    const { code, stderr } = await runWork(use.server, [queue, '--once', '--url', target.url]);
    return { code, stderr, ...(await job(use.api, id)) };
  }

  test('HF-28: an HTTP target hands off with the content type of hand-offs', async () => {
    const next = freshQueue('next');
    const body = JSON.stringify({ result: { n: 1 }, enqueues: [{ queue: next, payload: 2 }] });
    const done = await post(body, 'application/vnd.holdfast.handoff+json; charset=utf-8');
    assert.deepEqual([done.code, done.state, done.result], [0, 'done', { n: 1 }], done.stderr);
    assert.equal((await claimOne(use.api, next)).payload, 2);
    const plain = await post(body, 'application/json');
    assert.deepEqual(plain.result, JSON.parse(body), 'any other type is a result');
    assert.equal(await readyIn(next), 0);
  });

  test('HF-28: a malformed hand-off of an HTTP target fails the attempt', async () => {
    for (const body of ['{"enqueues":', '{"results":1}', JSON.stringify({ result: 'x'.repeat(70000) })]) {
      const failed = await post(body, 'application/vnd.holdfast.handoff+json');
      assert.deepEqual([failed.state, failed.error_type], ['scheduled', 'handoff'], failed.stderr);
      assert.match(failed.error, /^the hand-off /);
    }
  });
});
