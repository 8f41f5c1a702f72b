// SPDX-License-Identifier: Apache-2.0
// The orchestrator's queues and items: defaults, exact times, and settings that /v1 made (ORC-1, ORC-7, ORC-9, ORC-12 …
// ORC-14, ORC-18, ORC-21). Each state is checked through /v1 as well.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { problem, status } from '../lib/expect.mjs';
import { add, advance, item, makeQueue, next, put } from '../lib/orchestrator.mjs';
import { Receiver } from '../lib/receiver.mjs';
import { until } from '../lib/server.mjs';
import { freshQueue, onStores } from '../lib/suite.mjs';

const day = 24 * 3600 * 1000;
const job = async (api, id) => status(await api.get(`/v1/jobs/${id}`), 200);
const native = async (api, queue) => status(await api.get(`/v1/queues/${encodeURIComponent(queue.name)}`), 200);

onStores('clauses of the orchestrator', ['memory', 'sqlite'], { args: ['--test-clock'], env: { HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8' } }, (use) => {
  test('ORC-1 ORC-21 the defaults of a queue: no retries, references not unique, active, a lease of 300 s, 30 days of retention', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    assert.deepEqual(
      [queue.description, queue.max_retries, queue.enforce_unique_reference, queue.is_active, queue.lease_seconds, queue.retention_days],
      [null, 0, false, true, 300, 30],
    );
    const { policy, paused } = await native(api, queue);
    assert.deepEqual([policy.max_attempts, policy.unique_scope, policy.refuse_new, paused, policy.lease_ms], [1, 'none', false, false, 300_000]);
    assert.deepEqual([policy.keep_done_ms, policy.keep_dead_ms, policy.keep_done, policy.keep_dead], [30 * day, 30 * day, null, null]);
    const asleep = await makeQueue(api, { is_active: false });
    assert.deepEqual([asleep.is_active, (await native(api, asleep)).paused], [false, true]);
    problem(await api.post('/api/queue-items', { queue_id: asleep.id }), 409, 'refused_new');
  });

  test('ORC-1 a change sets the members that are given; what /v1 set stays', async () => {
    const { api } = use;
    const queue = await makeQueue(api, { max_retries: 2 });
    const set = { lease_ms: 1500, max_crashes: 9, keep_done: 7, keep_done_ms: 90_000, priority: 3 };
    status(await api.patch(`/v1/queues/${queue.name}`, set), 200);
    status(await api.post(`/v1/queues/${queue.name}/pause`, {}), 200);
    const changed = status(await api.put(`/api/queues/${queue.id}`, { description: 'Invoices' }), 200);
    assert.deepEqual([changed.description, changed.max_retries, changed.is_active], ['Invoices', 2, true]);
    const kept = await native(api, queue);
    for (const [key, value] of Object.entries(set)) assert.equal(kept.policy[key], value, key);
    assert.equal(kept.paused, true, 'a pause is not ended by a new description');
    const active = status(await api.patch(`/api/queues/${queue.id}`, { is_active: true, lease_seconds: 20, retention_days: 3 }), 200);
    assert.deepEqual([active.lease_seconds, active.retention_days, active.max_retries], [20, 3, 2]);
    const now = await native(api, queue);
    assert.deepEqual([now.paused, now.policy.lease_ms, now.policy.keep_done_ms, now.policy.keep_done, now.policy.max_crashes], [false, 20_000, 3 * day, null, 9]);
  });

  test('ORC-1 a queue that was created with quotation marks in its name can be changed', async () => {
    const { api } = use;
    const name = `${freshQueue('say')} "hello" \\ again`;
    const queue = await makeQueue(api, { name });
    assert.equal(status(await api.put(`/api/queues/${queue.id}`, { max_retries: 4 }), 200).max_retries, 4);
    assert.equal(status(await api.put(`/api/queues/${queue.id}`, { name, description: 'quoted' }), 200).name, name);
    assert.equal((await native(api, queue)).policy.max_attempts, 5);
    problem(await api.put(`/api/queues/${queue.id}`, { name: `${name}"` }), 422, 'invalid_field');
    const plain = freshQueue('plain');
    assert.equal(status(await api.put(`/api/queues/${queue.id}`, { name: plain }), 200).name, plain);
    assert.equal(status(await api.post('/api/queue-items/add', { queue_name: plain }), 201).queue_id, queue.id);
  });

  test('ORC-7 nothing is possible from DELETED, also for the robot that held the item', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const made = await add(api, queue);
    const { token } = status(await next(api, queue), 200);
    status(await api.delete(`/api/queue-items/${made.id}`), 200);
    for (const to of ['NEW', 'IN_PROGRESS', 'DONE', 'FAILED', 'waiting'])
      for (const more of [{}, { token }]) {
        const refusal = problem(await put(api, made.id, { status: to, ...more }), 409, 'illegal_move');
        assert.deepEqual([refusal.id, refusal.state, refusal.legal_moves], [made.id, 'DELETED', []], to);
      }
    assert.equal((await job(api, made.id)).state, 'cancelled');
    assert.equal(problem(await api.get('/api/queue-items/no-id'), 422, 'invalid_id').title, 'Invalid id');
  });

  test('ORC-7 a custom status does not change the lease', async () => {
    const { api } = use;
    const queue = await makeQueue(api, { lease_seconds: 60 });
    await add(api, queue);
    const held = status(await next(api, queue, '&robot_id=2'), 200);
    const before = await job(api, held.id);
    await advance(api, 20_000);
    const labelled = status(await put(api, held.id, { status: 'waiting', token: held.token }), 200);
    assert.deepEqual([labelled.status, labelled.label, labelled.lease_until, labelled.locked_at], ['IN_PROGRESS', 'WAITING', held.lease_until, held.locked_at]);
    const after = await job(api, held.id);
    assert.deepEqual([after.lease_until, after.worker, after.attempts, after.priority_label], [before.lease_until, 'robot-2', 1, 'WAITING']);
    await advance(api, 39_999);
    assert.equal((await item(api, held.id)).status, 'IN_PROGRESS');
    await advance(api, 1);
    assert.equal((await item(api, held.id)).status, 'NEW');
  });

  test('ORC-9 a reference is free again when its item was pruned', async () => {
    const { api } = use;
    const queue = await makeQueue(api, { enforce_unique_reference: true, retention_days: 1 });
    const made = await add(api, queue, { reference: 'INV-1' });
    status(await put(api, made.id, { status: 'IN_PROGRESS' }), 200);
    status(await put(api, made.id, { status: 'DONE' }), 200);
    problem(await api.post('/api/queue-items', { queue_id: queue.id, reference: 'INV-1' }), 409, 'duplicate');
    for (let hours = 0; hours < 26; hours++) await advance(api, 3_600_000 - 1);
    await api.post('/v1/clock/accept');
    await until('it is pruned', async () => (await api.get(`/v1/jobs/${made.id}`)).status === 404);
    assert.equal((await job(api, (await add(api, queue, { reference: 'INV-1' })).id)).unique, 'INV-1');
  });

  test('ORC-12 a robot_id that is given must be that of the holder, also if the holder is no robot', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const made = await add(api, queue);
    const byNobody = status(await next(api, queue), 200);
    const refused = async () => {
      for (const body of [{ status: 'DONE', robot_id: 8 }, { status: 'waiting', robot_id: 8 }]) problem(await put(api, made.id, body), 409, 'lease_lost');
      problem(await api.post(`/api/queue-items/${made.id}/renew`, { robot_id: 8 }), 409, 'lease_lost');
      assert.equal((await job(api, made.id)).state, 'running');
    };
    await refused();
    status(await put(api, made.id, { status: 'NEW', robot_id: 8, token: byNobody.token }), 200);
    const [claimed] = status(await api.post(`/v1/queues/${queue.name}/claim`, { worker: 'w1' }), 200).jobs;
    await refused();
    assert.equal(status(await put(api, made.id, { status: 'DONE', robot_id: 8, token: claimed.token }), 200).status, 'DONE');
  });

  test('ORC-13 ORC-18 a retry waits for the queue\'s back-off; the last failure is one webhook', async (t) => {
    const { api } = use;
    const queue = await makeQueue(api, { max_retries: 2 });
    const receiver = await new Receiver().listen();
    t.after(() => receiver.close());
    status(await api.patch(`/v1/queues/${queue.name}`, { backoff_ms: [7000, 11_000] }), 200);
    status(await api.put(`/v1/alerts/${queue.name}`, { on: 'dead', queue: queue.name, webhook: { url: receiver.url } }), 201);
    const made = await add(api, queue);
    for (const [i, wait] of [7000, 11_000].entries()) {
      status(await next(api, queue), 200);
      const failed = status(await put(api, made.id, { status: 'FAILED', error_message: 'no' }), 200);
      assert.deepEqual([failed.status, failed.retries, Date.parse(failed.not_before) - Date.parse(failed.updated_at)], ['NEW', i + 1, wait]);
      // An item that waits is NEW: DONE is refused, with the moves of NEW.
      assert.deepEqual(problem(await put(api, made.id, { status: 'DONE' }), 409, 'illegal_move').legal_moves, ['IN_PROGRESS', 'DELETED']);
      await advance(api, wait - 1);
      assert.equal((await next(api, queue)).status, 204);
      await advance(api, 1);
    }
    assert.equal(receiver.requests.length, 0);
    status(await next(api, queue), 200);
    assert.equal(status(await put(api, made.id, { status: 'FAILED', error_message: 'for good' }), 200).status, 'FAILED');
    const [call] = await receiver.wait(1);
    assert.ok(call.raw.includes((await job(api, made.id)).id), call.raw);
    assert.match(call.raw, /for good/);
    assert.equal(receiver.requests.length, 1);
    status(await api.delete(`/v1/alerts/${queue.name}`), 200);
  });

  test('ORC-7 each legal move of an item that waits for its retry is possible', async () => {
    const { api } = use;
    const queue = await makeQueue(api, { max_retries: 1 });
    for (const to of ['IN_PROGRESS', 'DELETED']) {
      const made = await add(api, queue);
      status(await put(api, made.id, { status: 'IN_PROGRESS' }), 200);
      assert.ok(status(await put(api, made.id, { status: 'FAILED' }), 200).not_before);
      assert.equal(status(await put(api, made.id, { status: to }), 200).status, to);
      assert.equal((await job(api, made.id)).state, to === 'DELETED' ? 'cancelled' : 'running');
    }
  });

  test('ORC-14 the time of an item that failed without having been locked begins at created_at', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const sent = status(await api.post(`/v1/queues/${queue.name}/jobs`, { payload: 1, expires_in_ms: 5000 }), 201);
    await advance(api, 5000);
    await until('it has expired', async () => (await job(api, sent.id)).state === 'dead');
    const stats = status(await api.get(`/api/queues/${queue.id}/stats`), 200);
    assert.deepEqual(stats, { new: 0, inProgress: 0, done: 0, failed: 1, appExceptions: 0, bizExceptions: 0, avgProcessingMs: 5000 });
  });
});
