// SPDX-License-Identifier: Apache-2.0
// The keyval API: exact numbers, orders and refusals (KV-1, KV-5, KV-6, KV-8, KV-10). Each state is checked through /v1.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { freshQueue, onStores } from '../lib/suite.mjs';

const API = '/keyval/api';
const ok = (answer) => {
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
};
const refusal = (answer, status, code) => {
  assert.deepEqual([answer.status, answer.json.code], [status, code], answer.text);
  return answer.json;
};
const enqueue = async (api, value, options) => ok(await api.post(`${API}/queue/enqueue`, { value, options })).id;
const poll = async (api, queue) => ok(await api.get(`${API}/queue/poll?queue=${queue}`)).message;
const nack = async (api, id, more = {}) => ok(await api.post(`${API}/queue/nack`, { id, ...more }));
const dlq = async (api, queue, more = '') => ok(await api.get(`${API}/queue/dlq?queue=${queue}${more}`));
const stats = async (api, queue) => ok(await api.get(`${API}/queue/stats?queue=${queue}`));
const job = async (api, id) => ok(await api.get(`/v1/jobs/${id}`));
const advance = async (api, ms) => ok(await api.post('/v1/test/clock', { advance_ms: ms }));
/** Creates a dead letter. */
const dead = async (api, queue, value, options = {}) => {
  const id = await enqueue(api, value, { queue, backoffSchedule: [], ...options });
  assert.equal((await poll(api, queue)).id, id);
  await nack(api, id, { error: 'no' });
  return id;
};

onStores('clauses of keyval', ['memory', 'sqlite'], { args: ['--test-clock'] }, (use) => {
  test('KV-8 the list has 50 entries by default, and at most 1,000', async () => {
    const { api } = use;
    const queue = freshQueue('kv');
    const ids = [];
    for (let i = 0; i < 53; i++) {
      ids.unshift(await dead(api, queue, i));
      await advance(api, 1);
    }
    const listed = async (more) => (await dlq(api, queue, more)).map((entry) => entry.id);
    assert.deepEqual(await listed(), ids.slice(0, 50));
    assert.deepEqual(await listed('&offset=50'), ids.slice(50));
    assert.deepEqual(await listed('&limit=1000'), ids);
    for (const limit of ['0', '1001', 'x']) refusal(await api.get(`${API}/queue/dlq?queue=${queue}&limit=${limit}`), 422, 'invalid_field');
    assert.equal((await stats(api, queue)).dlq, 53);
    assert.equal(ok(await api.get(`/v1/queues/${queue}`)).counts.dead, 53);
  });

  test('KV-8 newest first: by the time of the failure; times are those of /v1 in ms', async () => {
    const { api } = use;
    const queue = freshQueue('kv');
    const ids = [];
    for (const value of ['a', 'b', 'c']) {
      ids.push(await enqueue(api, value, { queue, backoffSchedule: [] }));
      await advance(api, 10);
    }
    for (let i = 0; i < 3; i++) await poll(api, queue);
    for (const i of [1, 2, 0]) {
      await nack(api, ids[i]);
      await advance(api, 10);
    }
    const entries = await dlq(api, queue);
    assert.deepEqual(entries.map((one) => one.value), ['a', 'c', 'b']);
    for (const entry of entries) {
      const view = await job(api, entry.id);
      assert.deepEqual([entry.originalCreatedAt, entry.failedAt], [Date.parse(view.created_at), Date.parse(view.state_since)]);
    }
  });

  test('KV-8 a requeued message has the same options, except for its delay', async () => {
    const { api } = use;
    const queue = freshQueue('kv');
    const id = await enqueue(api, 'again', { queue, backoffSchedule: [2000, 7000], priority: 'high', delay: 30_000, keysIfUndelivered: [['left', queue]] });
    await advance(api, 30_000);
    for (const wait of [2000, 7000, 0]) {
      assert.equal((await poll(api, queue)).id, id);
      await nack(api, id);
      await advance(api, wait);
    }
    const [entry] = await dlq(api, queue);
    assert.deepEqual([entry.id, entry.attempts], [id, 3]);
    const { newId } = ok(await api.post(`${API}/queue/dlq/${id}/requeue?queue=${queue}`));
    const fresh = await job(api, newId);
    assert.deepEqual([fresh.state, fresh.attempts, fresh.priority, fresh.priority_label, fresh.max_attempts], ['ready', 0, 10, 'high', 3]);
    assert.deepEqual(fresh.keys_if_undelivered, [['left', queue]]);
    for (const [i, wait] of [2000, 7000].entries()) {
      assert.deepEqual(await poll(api, queue), { id: newId, value: 'again', attempts: i + 1 });
      await nack(api, newId);
      await advance(api, wait - 1);
      assert.equal(await poll(api, queue), null);
      await advance(api, 1);
    }
    assert.equal((await poll(api, queue)).attempts, 3);
    await nack(api, newId);
    assert.equal((await job(api, newId)).state, 'dead');
  });

  test('KV-8 a purge or a delete with a body is refused, and nothing is removed', async () => {
    const { api } = use;
    const queue = freshQueue('kv');
    const id = await dead(api, queue, 1);
    for (const where of [`/queue/dlq?queue=${queue}`, `/queue/dlq/${id}?queue=${queue}`])
      refusal(await api.request('DELETE', `${API}${where}`, { json: { id } }), 422, 'unknown_field');
    assert.deepEqual((await dlq(api, queue)).map((one) => one.id), [id]);
    assert.equal((await job(api, id)).state, 'dead');
    assert.deepEqual(ok(await api.delete(`${API}/queue/dlq?queue=${queue}`)), { deletedCount: 1 });
  });

  test('KV-5 a token is always checked, and required if the queue says so', async () => {
    const { api } = use;
    const queue = freshQueue('kv');
    const id = await enqueue(api, 1, { queue });
    const [held] = ok(await api.post(`/v1/queues/${queue}/claim`, {})).jobs;
    assert.equal(held.id, id);
    for (const what of ['ack', 'nack']) refusal(await api.post(`${API}/queue/${what}`, { id, token: '1-1' }), 409, 'lease_lost');
    ok(await api.patch(`/v1/queues/${queue}`, { require_token: true }));
    for (const what of ['ack', 'nack']) {
      const problem = refusal(await api.post(`${API}/queue/${what}`, { id }), 422, 'invalid_field');
      assert.equal(problem.field, 'token');
      assert.doesNotMatch(JSON.stringify(problem), /\bjobs?\b/);
    }
    assert.equal((await job(api, id)).state, 'running', 'nothing was changed');
    assert.deepEqual(ok(await api.post(`${API}/queue/nack`, { id, token: held.token, delay: 0 })), { ok: true });
    const [again] = ok(await api.post(`/v1/queues/${queue}/claim`, {})).jobs;
    refusal(await api.post(`${API}/queue/ack`, { id, token: held.token }), 409, 'lease_lost');
    assert.deepEqual(ok(await api.post(`${API}/queue/ack`, { id, token: again.token })), { ok: true });
    assert.equal((await api.get(`/v1/jobs/${id}`)).status, 404);
  });

  test('KV-6 the fifth expired lock makes a dead letter; the others make the message available at that time', async () => {
    const { api } = use;
    const queue = freshQueue('kv');
    const id = await enqueue(api, 'kills', { queue });
    for (let crash = 1; crash <= 5; crash++) {
      assert.equal((await poll(api, queue))?.attempts, crash);
      await advance(api, 30_000);
      assert.equal((await job(api, id)).crashes, crash);
    }
    assert.equal((await job(api, id)).reason, 'crash_loop');
    assert.deepEqual((await dlq(api, queue)).map((one) => [one.id, one.attempts, one.errorMessage]), [[id, 5, 'crash_loop']]);
    assert.deepEqual(await stats(api, queue), { pending: 0, processing: 0, dlq: 1, total: 1 });
  });

  test('KV-10 keys by prefix, in pages; parts are strings, numbers and booleans', async () => {
    const { api } = use;
    const stem = freshQueue('keys');
    const keys = [[stem, false], [stem, 7], [stem, 7, 'x'], [stem, 10], [stem, '7']];
    ok(await api.post('/v1/kv/commit', { sets: [...keys, [`${stem}x`]].map((key) => ({ key, value: { key } })) }));
    const list = async (prefix, more = '') => ok(await api.get(`${API}/keys?prefix=${encodeURIComponent(prefix)}${more}`));
    const seen = [];
    for (let cursor = ''; cursor !== null; ) {
      const page = await list(stem, `&limit=2${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
      assert.deepEqual(Object.keys(page), ['keys', 'cursor']);
      assert.ok(page.keys.length <= 2);
      seen.push(...page.keys);
      cursor = page.cursor;
    }
    assert.deepEqual(seen.map((one) => one.key), keys);
    const stored = ok(await api.post('/v1/kv/get', { keys })).keys;
    assert.deepEqual(seen, stored.map(({ key, value, version }) => ({ key, value, version })));
    assert.deepEqual((await list(JSON.stringify([stem]))).keys, seen);
    assert.deepEqual((await list(JSON.stringify([stem, 7]))).keys.map((one) => one.key), [[stem, 7], [stem, 7, 'x']]);
    assert.deepEqual((await list(JSON.stringify([stem, '7']))).keys.map((one) => one.key), [[stem, '7']]);
    for (const wrong of ['[', '[null]', '[1']) refusal(await api.get(`${API}/keys?prefix=${encodeURIComponent(wrong)}`), 422, 'invalid_field');
  });

  test('KV-1 values and options at their limits; wrong types are refused by name, and nothing is created', async () => {
    const { api } = use;
    const queue = freshQueue('kv');
    const send = (text) => api.request('POST', `${API}/queue/enqueue?queue=${queue}`, { body: text, headers: { 'content-type': 'application/json' } });
    const wrong = [
      ['{"value":1,"options":{"delay":1.5}}', 'delay'], ['{"value":1,"options":{"delay":"5"}}', 'delay'], ['{"value":1,"options":{"delay":1e18}}', 'delay'],
      ['{"value":1,"options":{"backoffSchedule":{}}}', 'backoffSchedule'], [`{"value":1,"options":{"backoffSchedule":[${Array(33).fill(1)}]}}`, 'backoffSchedule'],
      ['{"value":1,"options":{"backoffSchedule":[1e15]}}', 'backoffSchedule'], ['{"value":1,"options":{"keysIfUndelivered":[[null]]}}', 'keysIfUndelivered'],
      ['{"value":1,"options":{"priority":"urgent"}}', 'priority'], ['{"value":1,"options":{"queue":7}}', 'queue'], ['{"value":1,"options":[]}', 'options'],
    ];
    for (const [text, field] of wrong) assert.equal(refusal(await send(text), 422, 'invalid_field').field, field, text);
    for (const text of ['', '{', '{"value":1}{"value":2}', '{"value":1,"value":2}']) refusal(await send(text), 400, 'malformed_json');
    assert.equal((await api.get(`/v1/queues/${queue}`)).status, 404, 'no queue was created');
    const texts = ['null', '12345678901234567890', '1e999', '"\\u00e9"', '[ ]', `{"d":${'['.repeat(20)}${']'.repeat(20)}}`];
    for (const text of texts) {
      const { id } = ok(await send(`{"value": ${text}}`));
      const got = await api.get(`${API}/queue/poll?queue=${queue}`);
      assert.equal(got.text.trim(), `{"message":{"id":"${id}","value":${text},"attempts":1}}`);
      ok(await api.post(`${API}/queue/ack`, { id }));
    }
  });
});
