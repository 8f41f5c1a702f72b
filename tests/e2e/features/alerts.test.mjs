// SPDX-License-Identifier: Apache-2.0
// NOM-11, PDQ-5: a condition is raised once and cleared once. Both changes are reported by webhook, as events and in
// GET /v1/alerts. The tests use the test clock.
import assert from 'node:assert/strict';
import { after, before, beforeEach, describe, test } from 'node:test';

import { has } from '../lib/backend.mjs';
import { Client, openStream } from '../lib/client.mjs';
import { Receiver } from '../lib/receiver.mjs';
import { logged, startServer, stopServer, until } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue } from '../lib/suite.mjs';

const options = { backend: 'sqlite', args: ['--test-clock', '--capacity', '40'], env: { HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8' } };

describe('conditions (NOM-11)', () => {
  let server, api, receiver, events, q, name;
  before(async () => {
    receiver = await new Receiver().listen();
    server = await startServer(options);
    api = new Client(server);
    events = openStream(server, '/v1/events?events=alert_raised,alert_cleared');
    await events.opened;
  });
  after(async () => {
    events.close();
    api.close();
    await stopServer(server);
    await receiver.close();
  });
  beforeEach(() => {
    q = freshQueue();
    name = `on-${q}`;
  });

  const advance = async (ms) => assert.equal((await api.post('/v1/test/clock', { advance_ms: ms })).status, 200);
  const rule = async (members) => {
    const answer = await api.put(`/v1/alerts/${name}`, { queue: q, webhook: { url: receiver.url }, ...members });
    assert.equal(answer.status, 201, answer.text);
  };
  const raised = async () => (await api.get(`/v1/alerts/${name}`)).json.raised;
  const told = () => receiver.requests.filter((r) => r.json.alert === name).map((r) => r.json);
  /** Exactly these changes were reported since the last call: in the reply, by webhook, as events. */
  const seen = [];
  const expectEdge = async (edge, on, value, limit, queue = q, eventQueue = queue) => {
    await advance(1);
    const list = await raised();
    assert.equal(list.length, edge === 'raised' ? 1 : 0);
    if (edge === 'raised') assert.deepEqual([list[0].queue, list[0].value, list[0].limit], [queue, value, limit]);
    const event = await events.next();
    assert.equal(event.event, `alert_${edge}`);
    const data = JSON.parse(event.data);
    assert.deepEqual([data.alert, data.value], [name, value]);
    assert.equal(data.queue ?? null, eventQueue ?? null);
    const count = seen.filter((s) => s === name).length + 1;
    seen.push(name);
    await receiver.wait(count, (r) => r.json.alert === name);
    const last = told()[count - 1];
    assert.deepEqual([last.event, last.on, last.queue ?? null, last.value, last.limit], [`alert_${edge}`, on, queue, value, limit]);
    assert.equal(told().length, count);
  };
  const expectNothing = async () => {
    const count = seen.filter((s) => s === name).length;
    const before = await raised();
    await advance(1000);
    assert.deepEqual(await raised(), before);
    assert.equal(told().length, count);
  };
  const work = async (good) => {
    const job = await claimOne(api, q);
    const answer = good
      ? await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token })
      : await api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: 'x', retry: false });
    assert.equal(answer.status, 200, answer.text);
  };
  const nameOfGone = () => (has('names_gone_queues') ? q : null);
  const drain = async () => assert.equal((await api.delete(`/v1/queues/${q}`)).status, 200);

  test('deep: raised at the depth, cleared below 90 % of it', async () => {
    await rule({ on: 'deep', depth: 10 });
    for (let i = 0; i < 9; i++) await enqueue(api, q, { payload: i, delay_ms: i % 2 ? 3600_000 : 0 });
    await expectNothing();
    await enqueue(api, q, { payload: 9 });
    await expectEdge('raised', 'deep', 10, 10);
    await enqueue(api, q, { payload: 10 });
    await expectNothing(); // once
    await work(true);
    await work(true);
    await expectNothing(); // nine: above 90 %
    await work(true);
    await expectEdge('cleared', 'deep', 8, 10);
    await enqueue(api, q, { payload: 1 });
    await expectNothing();
    await enqueue(api, q, { payload: 1 });
    await expectEdge('raised', 'deep', 10, 10);
    await drain(); // a deleted queue is not deep
    await expectEdge('cleared', 'deep', 0, 10, q, nameOfGone());
  });

  test("deep with depth 0: uses the queue's warn_depth, at once and without waiting for a timer (PDQ-5)", async () => {
    await api.put(`/v1/queues/${q}`, { warn_depth: 3 });
    await rule({ on: 'deep', depth: 0 });
    for (let i = 0; i < 3; i++) await enqueue(api, q, { payload: i });
    const event = JSON.parse((await events.next()).data);
    assert.deepEqual([event.event, event.alert, event.value], ['alert_raised', name, 3]);
    seen.push(name);
    await receiver.wait(1, (r) => r.json.alert === name);
    await logged(server, new RegExp(`queue_deep queue=${q}`));
    await expectNothing();
    await work(true);
    await expectEdge('cleared', 'deep', 2, 3);
    await drain();
  });

  test('error_share: raised above the limit if enough jobs ended, cleared below it or when the window has passed', async () => {
    await rule({ on: 'error_share', percent: 20, min_ends: 10, window_ms: 60_000 });
    for (let i = 0; i < 34; i++) await enqueue(api, q, { payload: i });
    for (let i = 0; i < 9; i++) await work(i >= 3);
    await expectNothing(); // a third, but of nine
    await work(true);
    await expectEdge('raised', 'error_share', 30, 20);
    for (let i = 0; i < 5; i++) await work(true);
    await expectNothing(); // 3 of 15: at the limit, not yet cleared
    for (let i = 0; i < 2; i++) await work(true);
    await expectEdge('cleared', 'error_share', 17, 20);
    for (let i = 0; i < 10; i++) await work(i % 2 === 0);
    await expectEdge('raised', 'error_share', 29, 20);
    await advance(65_000); // nothing ended in the last minute
    await expectEdge('cleared', 'error_share', 0, 20);
    await drain();
  });

  test('no_claim: raised for ready jobs without a claim; a claim, a pause or an empty queue clears it', async () => {
    await rule({ on: 'no_claim', after_ms: 60_000 });
    await advance(120_000); // nothing is ready: nothing to claim
    await expectNothing();
    await enqueue(api, q, { payload: 1 });
    await advance(58_000);
    await expectNothing(); // 59 s
    await advance(999);
    await expectEdge('raised', 'no_claim', 60_000, 60_000);
    await enqueue(api, q, { payload: 2 });
    await work(true);
    await expectEdge('cleared', 'no_claim', 0, 60_000);
    await api.post(`/v1/queues/${q}/pause`, {});
    await advance(120_000);
    await expectNothing();
    await api.post(`/v1/queues/${q}/resume`);
    await advance(1);
    assert.equal((await raised()).length, 1);
    assert.equal((await events.next()).event, 'alert_raised');
    seen.push(name);
    await receiver.wait(3, (r) => r.json.alert === name);
    await api.post(`/v1/queues/${q}/purge`);
    await expectEdge('cleared', 'no_claim', 0, 60_000);
    await drain();
  });

  test('capacity: of a queue', async () => {
    await api.put(`/v1/queues/${q}`, { capacity: 10 });
    await rule({ on: 'capacity', percent: 80 });
    for (let i = 0; i < 7; i++) await enqueue(api, q, { payload: i });
    await expectNothing();
    await enqueue(api, q, { payload: 8 });
    await expectEdge('raised', 'capacity', 80, 80);
    await work(true);
    await expectEdge('cleared', 'capacity', 70, 80);
    await drain();
  });

  test('capacity: of the whole server', async () => {
    await rule({ on: 'capacity', queue: '*', percent: 50 });
    for (let i = 0; i < 20; i++) await enqueue(api, q, { payload: i });
    await expectEdge('raised', 'capacity', 50, 50, null);
    await drain();
    await expectEdge('cleared', 'capacity', 0, 50, null);
    await api.delete(`/v1/alerts/${name}`);
  });

  test('a disabled rule raises nothing; a changed rule starts again', async () => {
    await rule({ on: 'deep', depth: 1 });
    await enqueue(api, q, { payload: 1 });
    await expectEdge('raised', 'deep', 1, 1);
    assert.equal((await api.patch(`/v1/alerts/${name}`, { enabled: false })).json.raised_count, 0);
    await expectNothing();
    assert.equal((await api.patch(`/v1/alerts/${name}`, { enabled: true })).status, 200);
    await expectEdge('raised', 'deep', 1, 1);
    await drain();
    await expectEdge('cleared', 'deep', 0, 1, q, nameOfGone());
  });
});

test('a raised condition survives a restart, is not reported twice, and is cleared (NOM-11)', async () => {
  const receiver = await new Receiver().listen();
  let server = await startServer(options);
  let api = new Client(server);
  const q = freshQueue();
  const advance = async (ms) => assert.equal((await api.post('/v1/test/clock', { advance_ms: ms })).status, 200);
  const now = async () => Date.parse((await api.get('/v1/test/clock')).json.now);
  await api.put('/v1/alerts/backlog', { on: 'deep', depth: 2, webhook: { url: receiver.url } });
  await api.put('/v1/alerts/stuck', { on: 'no_claim', after_ms: 60_000, webhook: { url: receiver.url } });
  await enqueue(api, q, { payload: 1 });
  await enqueue(api, q, { payload: 2 });
  await advance(60_001);
  await receiver.wait(2);
  const stopped = await now();
  api.close();
  server.ownsData = false;
  await stopServer(server);
  server = await startServer({ ...options, data: server.data });
  api = new Client(server);
  const alerts = async () => Object.fromEntries((await api.get('/v1/alerts')).json.alerts.map((a) => [a.name, a.raised_count]));
  await advance(Math.max(stopped - (await now()), 0) + 1000); // the test clock may have started again
  assert.deepEqual(await alerts(), { backlog: 1, stuck: 1 });
  assert.equal(receiver.requests.length, 2);
  const job = await claimOne(api, q);
  assert.equal((await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token })).status, 200);
  await advance(1);
  await receiver.wait(2, (r) => r.json.event === 'alert_cleared');
  assert.deepEqual(await alerts(), { backlog: 0, stuck: 0 });
  await until('an empty outbox', async () => (await api.get('/v1/notices')).json.notices.length === 0);
  api.close();
  await stopServer(server);
  await receiver.close();
});
