// SPDX-License-Identifier: Apache-2.0
// `holdfast work --url` (PDQ-8): what the target gets, and what its reply means for the job.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';

import { enqueue, freshQueue, onStores } from '../lib/suite.mjs';
import { until } from '../lib/server.mjs';
import { job, runWork, startWork } from '../lib/worker.mjs';

onStores('an HTTP target', ['memory'], {}, (use) => {
  const target = { requests: [], answer: (request, response) => response.end('{"ok":true}') };
  before(async () => {
    target.server = http.createServer((request, response) => {
      const chunks = [];
      request.on('data', (chunk) => chunks.push(chunk));
      request.on('end', () => {
        target.requests.push({ method: request.method, url: request.url, headers: request.headers, body: Buffer.concat(chunks).toString() });
        target.answer(request, response);
      });
    });
    await new Promise((resolve) => target.server.listen(0, '127.0.0.1', resolve));
    target.url = `http://127.0.0.1:${target.server.address().port}/hook?x=1`;
  });
  after(() => {
    target.server.closeAllConnections?.();
    target.server.close();
  });

  async function once(answer, { args = [], more = {}, env } = {}) {
    const queue = freshQueue();
    const { id } = await enqueue(use.api, queue, { payload: { a: 1 }, ...more });
    target.answer = answer;
    target.requests = [];
    const { code, stderr } = await runWork(use.server, [queue, '--once', '--url', target.url, ...args], { env });
    return { code, stderr, queue, ...(await job(use.api, id)) };
  }
  const status = (number, headers = {}, body = 'said') => (request, response) => response.writeHead(number, headers).end(body);

  test('PDQ-8: it gets the payload with its type and Holdfast-* headers, and 2xx acks', async () => {
    const done = await once(status(201, {}, '{"ok":true}'), { more: { correlation_id: 'c\r\nX-Evil: 1' } });
    assert.equal(done.code, 0, done.stderr);
    assert.deepEqual([done.state, done.result], ['done', { ok: true }]);
    const [request] = target.requests;
    assert.deepEqual([request.method, request.url, request.body], ['POST', '/hook?x=1', '{"a":1}']);
    assert.equal(request.headers['content-type'], 'application/json');
    assert.equal(request.headers['holdfast-id'], done.id);
    assert.equal(request.headers['holdfast-queue'], done.queue);
    assert.equal(request.headers['holdfast-attempt'], '1');
    assert.equal(request.headers['holdfast-correlation-id'], 'c%0D%0AX-Evil: 1');
    assert.equal(request.headers['x-evil'], undefined);
  });

  test('PDQ-8: a header of the job without a value is sent, too', async () => {
    await once(status(200), { more: { headers: { empty: '', full: 'x' } } });
    assert.deepEqual([target.requests[0].headers['holdfast-header-empty'], target.requests[0].headers['holdfast-header-full']], ['', 'x']);
  });

  test('PDQ-8: the log says why there was no reply', async () => {
    const queue = freshQueue();
    await enqueue(use.api, queue, { payload: 1 });
    const { stderr } = await runWork(use.server, [queue, '--once', '--url', 'http://127.0.0.1:1/']);
    assert.match(stderr, /outcome=failed .* type="http no reply" error="no reply: .*connect/i);
  });

  test('PDQ-8: an empty reply acks without a result', async () => {
    const done = await once(status(204, {}, undefined));
    assert.deepEqual([done.state, done.result], ['done', undefined]);
  });

  test('PDQ-8: a long reply is truncated and marked', async () => {
    const done = await once(status(200, {}, 'z'.repeat(300_000)));
    assert.deepEqual([done.result.truncated, done.result.text.length], [true, 65536]);
    assert.equal((await once(status(200, { 'content-length': 5_000_000 }, 'z'.repeat(5_000_000)))).result.bytes, 5_000_000);
  });

  test('PDQ-8: 422 makes the job dead', async () => {
    const dead = await once(status(422));
    assert.deepEqual([dead.code, dead.state, dead.error_kind, dead.error], [5, 'dead', 'business', 'status 422: said']);
  });

  for (const number of [429, 503])
    test(`PDQ-8: ${number} releases the job until Retry-After, uncounted`, async () => {
      const released = await once(status(number, { 'retry-after': '120' }));
      assert.deepEqual([released.state, released.attempts], ['scheduled', 0]);
      const wait = Date.parse(released.run_at) - Date.parse(released.state_since);
      assert.ok(wait >= 119_000 && wait <= 121_000, String(wait));
    });

  test('PDQ-8: beyond --max-age it fails instead', async () => {
    const failed = await once(status(503), { args: ['--max-age', '0'] });
    assert.deepEqual([failed.failures, failed.error], [1, 'status 503: said']);
  });

  test('PDQ-8: anything else fails the job; redirects are not followed', async () => {
    const failed = await once(status(500));
    assert.deepEqual([failed.failures, failed.error], [1, 'status 500: said']);
    assert.match(failed.stderr, /type="http 500"/);
    const moved = await once(status(307, { location: target.url }));
    assert.equal(moved.failures, 1);
    assert.equal(target.requests.length, 1);
    const broken = await once((request) => request.socket.destroy());
    assert.match(broken.error, /^no reply: /);
  });

  test('PDQ-8: no proxy of the environment is used', async () => {
    const done = await once(status(200), { env: { http_proxy: 'http://127.0.0.1:1', ALL_PROXY: 'http://127.0.0.1:1' } });
    assert.equal(done.state, 'done');
  });

  test('PDQ-8: a request that takes longer than --timeout is aborted, and the job fails', async () => {
    const failed = await once(() => {}, { args: ['--timeout', '300ms'] });
    assert.match(failed.error, /longer than --timeout 300/);
    assert.equal(failed.failures, 1);
  });

  test('PDQ-8: the second signal aborts requests and releases the jobs', async () => {
    const queue = freshQueue();
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    target.answer = () => {};
    target.requests = [];
    const runner = startWork(use.server, [queue, '--poll', '200ms', '--url', target.url]);
    await until('the request is there', () => target.requests.length === 1);
    runner.process.kill('SIGTERM');
    await runner.logged(/info stopping/);
    runner.process.kill('SIGTERM');
    assert.deepEqual(await runner.exited, { code: 0, signal: null });
    const { state, attempts } = await job(use.api, id);
    assert.deepEqual([state, attempts], ['ready', 0]);
  });
});
