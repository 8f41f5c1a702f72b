// SPDX-License-Identifier: Apache-2.0
// HF-14: with --test-clock time advances only on request, and everything that became due has happened before the reply.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { startServer, stopServer, until } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue, onStores, stores } from '../lib/suite.mjs';

const minute = 60_000;

onStores('test clock (HF-14)', stores, { args: ['--test-clock'] }, (use) => {
  const advance = async (ms) => {
    const answer = await use.api.once('POST', '/v1/test/clock', { json: { advance_ms: ms } });
    assert.equal(answer.status, 200, answer.text);
    return Date.parse(answer.json.now);
  };

  test('it stands still, and advances exactly as far as requested', async () => {
    const a = Date.parse((await use.api.get('/v1/test/clock')).json.now);
    await new Promise((resolve) => setTimeout(resolve, 20));
    const b = Date.parse((await use.api.get('/v1/test/clock')).json.now);
    assert.equal(a, b);
    assert.equal(await advance(90 * minute), a + 90 * minute);
    assert.equal(Date.parse((await use.api.get('/v1/test/clock')).json.now), a + 90 * minute);
  });

  test('a delayed job is ready at its time and not a millisecond before', async () => {
    const q = freshQueue();
    const job = await enqueue(use.api, q, { payload: 1, delay_ms: 10 * minute });
    assert.equal(job.state, 'scheduled');
    await advance(10 * minute - 1);
    assert.equal((await use.api.get(`/v1/jobs/${job.id}`)).json.state, 'scheduled');
    await advance(1);
    assert.equal((await use.api.get(`/v1/jobs/${job.id}`)).json.state, 'ready');
  });

  test('a lease expires, and a waiting claim gets the job', async () => {
    const q = freshQueue();
    const { id } = await enqueue(use.api, q, { payload: 1 });
    const first = await claimOne(use.api, q, { lease_ms: 5 * minute });
    await advance(5 * minute - 1);
    assert.equal((await use.api.get(`/v1/jobs/${id}`)).json.state, 'running');
    const waiting = claimOne(use.api, q, { wait_ms: 20000 });
    await advance(2);
    const second = await waiting;
    assert.equal(second.id, id);
    assert.equal(second.attempt, 2);
    const stale = await use.api.post(`/v1/jobs/${id}/ack`, { token: first.token });
    assert.equal(stale.status, 409);
    assert.equal(stale.json.code, 'lease_lost');
  });

  test('retention removes finished jobs', async () => {
    const q = freshQueue();
    await use.api.put(`/v1/queues/${q}`, { keep_done_ms: 30 * minute });
    const { id } = await enqueue(use.api, q, { payload: 1 });
    const job = await claimOne(use.api, q);
    await use.api.post(`/v1/jobs/${id}/ack`, { token: job.token });
    await advance(29 * minute);
    assert.equal((await use.api.get(`/v1/jobs/${id}`)).json.state, 'done');
    await advance(2 * minute);
    assert.equal((await use.api.get(`/v1/jobs/${id}`)).status, 404);
  });

  test('a job that expires is dead', async () => {
    const q = freshQueue();
    const { id } = await enqueue(use.api, q, { payload: 1, expires_in_ms: minute });
    await advance(minute + 1);
    const view = (await use.api.get(`/v1/jobs/${id}`)).json;
    assert.equal(view.state, 'dead');
    assert.equal(view.reason, 'expired');
  });

  test('invalid requests to advance it', async () => {
    for (const json of [{}, { advance_ms: -1 }, { advance_ms: 'x' }, { advance: 1 }]) {
      const answer = await use.api.post('/v1/test/clock', json);
      assert.equal(answer.status, 422, answer.text);
    }
  });
});

// Longer than the lease. What the test does within one lease must be done in this time, also on a busy machine.
const STOPPED_MS = 5500;
const LEASE_MS = 5000;
const stopped = (server) => until('the server is stopped', () => /\) T /.test(readFileSync(`/proc/${server.pid}/stat`, 'utf8')));

test('the time for which a server was stopped does not count for leases, and requests come before expiry', async () => {
  const server = await startServer();
  const api = new Client(server);
  const short = freshQueue('short'), long = freshQueue('long');
  const ids = [];
  for (const queue of [short, long]) ids.push((await enqueue(api, queue, { payload: 1 })).id);
  const ends = async (id) => Date.parse((await api.get(`/v1/jobs/${id}`)).json.lease_until);
  const held = await claimOne(api, short, { lease_ms: LEASE_MS });
  await claimOne(api, long, { lease_ms: 60_000 });
  const before = await ends(ids[1]);

  server.process.kill('SIGSTOP');
  await stopped(server);
  const ack = api.post(`/v1/jobs/${held.id}/ack`, { token: held.token });
  await new Promise((resolve) => setTimeout(resolve, STOPPED_MS)); // the time itself is what is tested
  server.process.kill('SIGCONT');
  assert.equal((await ack).json.state, 'done', 'the lease was extended by the time of the stop');
  assert.ok((await ends(ids[1])) - before >= LEASE_MS, 'so was the other lease');

  // Without a request during the stop the lease continues as well, and then it expires.
  await enqueue(api, short, { payload: 2 });
  const idle = await claimOne(api, short, { lease_ms: LEASE_MS });
  server.process.kill('SIGSTOP');
  await stopped(server);
  await new Promise((resolve) => setTimeout(resolve, STOPPED_MS));
  server.process.kill('SIGCONT');
  assert.equal((await api.get(`/v1/jobs/${idle.id}`)).json.state, 'running');
  await until('the lease expires', async () => (await api.get(`/v1/jobs/${idle.id}`)).json.state === 'ready');
  api.close();
  await stopServer(server);
});

test('without --test-clock there is no such route', async () => {
  const server = await startServer({ backend: 'memory' });
  const api = new Client(server);
  assert.equal((await api.post('/v1/test/clock', { advance_ms: 1 })).status, 404);
  api.close();
  await stopServer(server);
});
