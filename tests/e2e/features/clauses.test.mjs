// SPDX-License-Identifier: Apache-2.0
// Numbers that requirements name and that other suites, with their few jobs, do not reach: the default page of dead letters
// (KV-8) and the last 1,000 exceptions (PDQ-10). Runs on every store; tests/suite.d/66-e2e-shared.sh has the shared ones.
import assert from 'node:assert/strict';
import net from 'node:net';
import { test } from 'node:test';

import { startServer, until } from '../lib/server.mjs';
import { freshQueue, onStores } from '../lib/suite.mjs';

async function ok(answer, status = 200) {
  const got = await answer;
  assert.equal(got.status, status, got.text);
  return got.json;
}

/** Enqueues this many jobs and lets all of them die, oldest first. Returns their ids in that order. */
async function dead(api, queue, count) {
  const ids = [];
  for (let from = 0; from < count; from += 200) {
    const list = Array.from({ length: Math.min(200, count - from) }, (_, i) => ({ payload: { n: from + i } }));
    ids.push(...(await ok(api.post(`/v1/queues/${queue}/jobs`, list))).jobs.map((job) => job.id));
  }
  for (let left = count; left > 0; ) {
    const { jobs } = await ok(api.post(`/v1/queues/${queue}/claim`, { count: 200, worker: 'w' }));
    assert.ok(jobs.length > 0);
    const ends = jobs.map(({ id, token, payload }) => ({ id, token, error: `failure ${payload.n}`, error_type: 'NumberError', retry: false }));
    const outcomes = (await ok(api.post('/v1/fail', { jobs: ends }))).jobs;
    assert.ok(outcomes.every((one) => one.state === 'dead'));
    left -= jobs.length;
  }
  return ids;
}

onStores('clauses', ['memory', 'sqlite'], {}, (use) => {
  test('KV-8 a page of dead letters has 50 entries by default and 1,000 at most', async () => {
    const { api } = use;
    const queue = freshQueue('kv');
    const list = async (query) => (await ok(api.get(`/keyval/api/queue/dlq?queue=${queue}${query}`))).map((entry) => entry.id);
    await ok(api.post('/keyval/api/queue/enqueue', { value: 0, options: { queue } }));
    await ok(api.post(`/v1/queues/${queue}/purge`));
    const ids = await dead(api, queue, 60);
    const all = await list('&limit=1000');
    assert.deepEqual([...all].sort(), [...ids].sort());
    assert.deepEqual(await list(''), all.slice(0, 50));
    assert.deepEqual(await list('&offset=50'), all.slice(50));
    assert.equal((await api.get(`/keyval/api/queue/dlq?queue=${queue}&limit=1001`)).status, 422);
    assert.equal((await ok(api.get(`/v1/queues/${queue}`))).counts.dead, 60);
  });

  test('PDQ-10 the last 1,000 exceptions are listed, newest first, and no more', async () => {
    const { api } = use;
    const queue = freshQueue('exceptions');
    const count = 1010;
    await dead(api, queue, count);
    assert.equal((await ok(api.get(`/v1/queues/${queue}`))).counts.dead, count);
    const found = [];
    for (let cursor = ''; cursor !== null; ) {
      const page = await ok(api.get(`/v1/exceptions?queue=${queue}&limit=300${cursor && `&cursor=${encodeURIComponent(cursor)}`}`));
      found.push(...page.exceptions);
      cursor = page.next_cursor ?? null;
    }
    assert.equal(found.length, 1000);
    assert.equal(new Set(found.map((one) => one.job_id)).size, 1000);
    const times = found.map((one) => Date.parse(one.at));
    assert.ok(times.every((at, i) => i === 0 || at <= times[i - 1]));
    assert.ok(found.every((one) => one.type === 'NumberError' && one.worker === 'w' && /^failure \d+$/.test(one.error)));
    assert.equal((await ok(api.get(`/v1/exceptions?queue=${queue}&limit=1000`))).exceptions.length, 1000);
    assert.equal((await api.get(`/v1/exceptions?queue=${queue}&limit=1001`)).status, 422);
  });
});

test('PDQ-10 a snapshot taken while the server drains says so', async () => {
  const server = await startServer({ backend: 'memory' });
  const socket = net.connect(server.port, server.host).setEncoding('utf8');
  let text = '';
  socket.on('data', (chunk) => (text += chunk));
  // The reply 100 shows that the server has read the head, so that it waits for the body while it drains.
  socket.write('GET /v1/snapshot HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n');
  await until('the head was read', () => text.includes('100 Continue'));
  server.process.kill('SIGTERM');
  await until('the server drains', () => /draining/.test(server.stderr));
  socket.write('{}');
  await until('the snapshot arrived', () => text.includes('"shutdown"'));
  assert.match(text, /"shutdown":true/);
  socket.destroy();
  assert.equal((await server.exited).code, 0);
});
