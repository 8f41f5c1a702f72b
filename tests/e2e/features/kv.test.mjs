// SPDX-License-Identifier: Apache-2.0
// The key-value store at /v1/kv (KV-10) and keys_if_undelivered (KV-9).
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { only } from '../lib/backend.mjs';
import { Client, openStream } from '../lib/client.mjs';
import { binary, killServer, startServer, stopServer, temporaryDirectory } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue, onStores, stores } from '../lib/suite.mjs';

const run = (args) => promisify(execFile)(binary, args);
let n = 0;
const fresh = () => `t${process.pid}-${++n}`;
const commit = (api, json) => api.post('/v1/kv/commit', json);
const set = async (api, key, value, more = {}) => {
  const answer = await commit(api, { sets: [{ key, value, ...more }] });
  assert.equal(answer.status, 200, answer.text);
  return answer.json.version;
};
const get = async (api, ...keys) => {
  const answer = await api.post('/v1/kv/get', { keys });
  assert.equal(answer.status, 200, answer.text);
  return answer.json.keys;
};
const list = async (api, query) => {
  const answer = await api.get(`/v1/kv?${new URLSearchParams(query)}`);
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
};

onStores('keys', stores, {}, (use) => {
  test('KV-10 set, get, list and delete; versions rise', async () => {
    const { api } = use;
    const t = fresh();
    assert.deepEqual(await get(api, [t]), [{ key: [t], version: null }]);
    const first = await set(api, [t, 'a', 1, true], { deep: [1, null] });
    const second = await set(api, [t, 'b'], 'text');
    assert.ok(second > first);
    assert.deepEqual(await get(api, [t, 'b'], [t, 'none'], [t, 'a', 1.0, true]), [
      { key: [t, 'b'], version: second, value: 'text' },
      { key: [t, 'none'], version: null },
      { key: [t, 'a', 1, true], version: first, value: { deep: [1, null] } },
    ]);
    const page = await list(api, { prefix: t });
    assert.deepEqual(page.keys.map((k) => k.key), [[t, 'a', 1, true], [t, 'b']]);
    assert.equal(page.next_cursor, null);
    assert.ok(page.as_of > 0);
    const gone = await commit(api, { deletes: [[t, 'b'], [t, 'none']] });
    assert.equal(gone.status, 200);
    if (!gone.repeated) assert.equal(gone.json.deleted, 1, gone.text); // a repeat finds nothing left
    assert.equal((await list(api, { prefix: JSON.stringify([t]) })).keys.length, 1);
    assert.ok((await set(api, [t, 'b'], 1)) > second);
  });

  test('KV-10 values are returned byte for byte', async () => {
    const { api } = use;
    const t = fresh();
    const value = '{"big": 12345678901234567890,  "e": 1E+2, "s": "\\u00e9"}';
    const answer = await api.request('PUT', `/v1/kv/keys/${t}`, { body: value, headers: { 'content-type': 'application/json' } });
    assert.equal(answer.status, 200, answer.text);
    assert.ok((await api.get(`/v1/kv/keys/${t}`)).text.includes(value));
    assert.ok((await api.get(`/v1/kv?prefix=${t}`)).text.includes(value));
  });

  test('KV-10 pages, both ways, and ranges', async () => {
    const { api } = use;
    const t = fresh();
    const keys = [[t, false], [t, -1], [t, 2], [t, 10], [t, 'a'], [t, 'a', 'b'], [t, 'b']];
    await commit(api, { sets: [...keys].reverse().map((key) => ({ key, value: 0 })) });
    for (const reverse of [false, true]) {
      const seen = [];
      for (let cursor = ''; cursor !== null; ) {
        const page = await list(api, { prefix: t, limit: 3, reverse, values: false, ...(cursor && { cursor }) });
        seen.push(...page.keys.map((k) => k.key));
        assert.ok(page.keys.every((k) => !('value' in k)));
        cursor = page.next_cursor;
      }
      assert.deepEqual(seen, reverse ? [...keys].reverse() : keys);
    }
    const some = await list(api, { prefix: t, from: JSON.stringify([t, 2]), to: JSON.stringify([t, 'a', 'b']) });
    assert.deepEqual(some.keys.map((k) => k.key), [[t, 2], [t, 10], [t, 'a']]);
  });

  test('KV-10 refusals say what is wrong', async () => {
    const { api } = use;
    const wrong = async (json, word, status = 422) => {
      const answer = await commit(api, json);
      assert.equal(answer.status, status, answer.text);
      assert.match(answer.json.detail, word);
    };
    await wrong({}, /at least one of/);
    await wrong({ sets: [{ key: [], value: 1 }] }, /at least one part/);
    await wrong({ sets: [{ key: [null], value: 1 }] }, /text, a number or a boolean/);
    await wrong({ sets: [{ key: ['a\u0000'], value: 1 }] }, /U\+0000/);
    await wrong({ sets: [{ key: ['a'] }] }, /value/);
    await wrong({ sets: [{ key: ['a'], value: 1, ttl: 5 }] }, /ttl/);
    await wrong({ sets: [{ key: ['a'], value: 1 }], deletes: [['a']] }, /only once/);
    await wrong({ checks: [{ key: ['a'] }] }, /version/);
    await wrong([], /the body is an array/);
    const queue = freshQueue('rated');
    const rated = await api.put(`/v1/queues/${queue}`, { enqueue_rate: { per: 'queue', count: 1, window_ms: 86_400_000 } });
    assert.ok(rated.status === 201 || (rated.repeated && rated.status === 200), rated.text);
    const t = fresh();
    const refusal = await commit(api, { sets: [{ key: [t], value: 1 }], enqueues: [{ queue }, { queue }] });
    assert.deepEqual([refusal.status, refusal.json.code, refusal.json.field], [429, 'rate_limited', 'enqueues'], refusal.text);
    assert.match(refusal.json.detail, /^enqueues\[1\]: the queue has accepted as many new jobs as its enqueue_rate allows/);
    assert.ok(refusal.json.retry_after_ms > 1000, refusal.text);
    assert.deepEqual(await get(api, [t]), [{ key: [t], version: null }], 'all or nothing');
    assert.equal((await api.get('/v1/kv?cursor=zz')).json.code, 'invalid_field');
    assert.equal((await api.get(`/v1/kv/keys/${fresh()}`)).json.code, 'no_key');
  });
});

onStores('commits', ['memory', 'sqlite'], { args: ['--test-clock'] }, (use) => {
  test('KV-10 check, set, delete and enqueue in one commit', async () => {
    const { api } = use;
    const [t, q] = [fresh(), freshQueue()];
    const version = await set(api, [t, 'old'], 1);
    const all = (old) => ({
      checks: [{ key: [t, 'new'], version: null }, { key: [t, 'old'], version: old }],
      sets: [{ key: [t, 'new'], value: 2 }],
      deletes: [[t, 'old']],
      enqueues: [{ queue: q, payload: { n: 1 }, priority: 'high' }, { queue: q, payload: 2, delay_ms: 60000 }],
    });
    const refused = await commit(api, all(version + 1));
    assert.deepEqual([refused.status, refused.json.code], [412, 'version_mismatch']);
    assert.match(refused.json.detail, /^checks\[1\]: the key has version \d+/);
    assert.equal((await api.get(`/v1/queues/${q}`)).status, 404);
    const done = await commit(api, all(version));
    assert.equal(done.status, 200, done.text);
    assert.deepEqual(done.json.jobs.map((j) => [j.created, j.state]), [[true, 'ready'], [true, 'scheduled']]);
    assert.deepEqual((await get(api, [t, 'new'], [t, 'old'])).map((k) => k.version), [done.json.version, null]);
    assert.deepEqual((await claimOne(api, q)).payload, { n: 1 });
    const again = await commit(api, all(version));
    assert.match(again.json.detail, /^checks\[0\]/);
    const duplicate = await commit(api, {
      sets: [{ key: [t, 'never'], value: 1 }],
      enqueues: [{ queue: q, unique: 'u' }, { queue: freshQueue(), unique: 'u' }].concat([{ queue: q, unique: 'u' }]),
    });
    assert.equal(duplicate.status, 422);
    assert.match(duplicate.json.detail, /^enqueues\[2\]/);
    assert.equal((await get(api, [t, 'never']))[0].version, null);
  });

  test('KV-10 one key: versions as ETag, If-Match, If-None-Match, ?version=', async () => {
    const { api } = use;
    const path = `/v1/kv/keys/${fresh()}%20x`;
    const made = await api.put(path, { a: 1 }, { headers: { 'if-none-match': '*' } });
    assert.equal(made.status, 200, made.text);
    assert.equal(made.headers.etag, `"${made.json.version}"`);
    assert.equal((await api.put(path, 2, { headers: { 'if-none-match': '*' } })).status, 412);
    assert.equal((await api.put(path, 2, { headers: { 'if-match': '"1"' } })).status, 412);
    const next = await api.put(path, 2, { headers: { 'if-match': made.headers.etag } });
    assert.equal(next.status, 200);
    assert.equal((await api.request('DELETE', `${path}?version=${made.json.version}`)).status, 412);
    const got = await api.get(path);
    assert.deepEqual([got.json.value, got.headers.etag], [2, next.headers.etag]);
    assert.equal((await api.request('DELETE', `${path}?version=${next.json.version}`)).status, 200);
    assert.equal((await api.get(path)).status, 404);
    assert.equal((await api.request('DELETE', path)).status, 404);
  });

  test('KV-10 expiry', async () => {
    const { api } = use;
    const t = fresh();
    const version = await set(api, [t], 1, { expires_in_ms: 5000 });
    assert.ok((await get(api, [t]))[0].expires_at);
    await api.post('/v1/test/clock', { advance_ms: 4999 });
    assert.equal((await get(api, [t]))[0].version, version);
    await api.post('/v1/test/clock', { advance_ms: 1 });
    assert.equal((await get(api, [t]))[0].version, null);
    assert.equal((await list(api, { prefix: t })).keys.length, 0);
  });

  test('KV-10 watch: sets and deletes of a prefix, with values, and resuming', async () => {
    const { api, server } = use;
    const t = fresh();
    const stream = await openStream(server, `/v1/kv/watch?prefix=${t}`).opened;
    assert.equal(stream.status, 200);
    await set(api, [`${t}x`], 'another');
    const version = await set(api, [t, 1], { v: 1 });
    const first = await stream.next();
    assert.equal(first.event, 'set');
    assert.deepEqual(JSON.parse(first.data), { key: [t, 1], version, value: { v: 1 } });
    await commit(api, { deletes: [[t, 1]] });
    const second = await stream.next();
    assert.equal(second.event, 'deleted');
    assert.deepEqual(JSON.parse(second.data).key, [t, 1]);
    assert.ok(JSON.parse(second.data).version > version);
    stream.close();
    await set(api, [t, 2], 'meanwhile');
    const resumed = await openStream(server, `/v1/kv/watch?prefix=${t}`, { headers: { 'last-event-id': second.id } }).opened;
    assert.deepEqual(JSON.parse((await resumed.next()).data).value, 'meanwhile');
    resumed.close();
  });

  test('KV-10 a watcher of a busy key receives the last change', async () => {
    const { api, server } = use;
    const t = fresh();
    const stream = await openStream(server, `/v1/kv/watch?prefix=${t}`).opened;
    for (let i = 0; i < 200; i++) await set(api, [t], i);
    let last = 0;
    let seen = -1;
    while (seen < 199) {
      const { version, value } = JSON.parse((await stream.next()).data);
      assert.ok(version > last, 'versions rise');
      [last, seen] = [version, value];
    }
    stream.close();
  });

  test('KV-9 keys_if_undelivered: by failing, and by expiry', async () => {
    const { api } = use;
    const [t, q] = [fresh(), freshQueue()];
    const keys = [['failed', t], ['alerts', t, 1]];
    const job = await enqueue(api, q, { payload: { amount: 99.99 }, max_attempts: 1, keys_if_undelivered: keys });
    assert.deepEqual((await api.get(`/v1/jobs/${job.id}`)).json.keys_if_undelivered, keys);
    const claimed = await claimOne(api, q);
    assert.deepEqual((await get(api, ...keys)).map((k) => k.version), [null, null]);
    assert.equal((await api.post(`/v1/jobs/${job.id}/fail`, { token: claimed.token, error: 'no' })).json.state, 'dead');
    for (const key of await get(api, ...keys)) assert.deepEqual(key.value, { amount: 99.99 });
    const late = await enqueue(api, q, { payload: 'late', expires_in_ms: 1000, delay_ms: 60000, keys_if_undelivered: [[t, 'late']] });
    await api.post('/v1/test/clock', { advance_ms: 1000 });
    assert.equal((await api.get(`/v1/jobs/${late.id}`)).json.state, 'dead');
    assert.equal((await get(api, [t, 'late']))[0].value, 'late');
    const bad = await api.post(`/v1/queues/${q}/jobs`, { payload: 1, keys_if_undelivered: [['a'], ['a']] });
    assert.equal(bad.status, 422, bad.text);
  });
});

test('KV-10, KV-9 keys and keys_if_undelivered survive kill -9', async () => {
  const server = await startServer({ backend: 'sqlite' });
  const api = new Client(server);
  const q = freshQueue();
  const version = await set(api, ['kept', 1], { v: 1 });
  await set(api, ['gone'], 1);
  await commit(api, { deletes: [['gone']] });
  const job = await enqueue(api, q, { payload: 'p', max_attempts: 1, keys_if_undelivered: [['left']] });
  api.close();
  await killServer(server);
  const next = await startServer({ backend: 'sqlite', data: server.data });
  const again = new Client(next);
  assert.deepEqual(await get(again, ['kept', 1], ['gone']), [
    { key: ['kept', 1], version, value: { v: 1 } },
    { key: ['gone'], version: null },
  ]);
  const claimed = await claimOne(again, q);
  await again.post(`/v1/jobs/${job.id}/fail`, { token: claimed.token });
  assert.equal((await get(again, ['left']))[0].value, 'p');
  again.close();
  await stopServer(next);
});

test('KV-10 a backup contains the keys; a store restored from it repeats no version', only('files'), async () => {
  const server = await startServer({ backend: 'sqlite' });
  const api = new Client(server);
  const version = await set(api, ['in', 'the backup'], { v: 1 });
  const dir = temporaryDirectory();
  const copy = path.join(dir, 'copy.db');
  await run(['backup', copy, '--server', server.url]);
  let last = 0;
  for (let i = 0; i < 20; i++) last = await set(api, ['later'], i);
  api.close();
  await stopServer(server);
  const data = path.join(dir, 'restored');
  await run(['restore', copy, '--data', data]);
  const next = await startServer({ backend: 'sqlite', data });
  const again = new Client(next);
  assert.deepEqual(await get(again, ['in', 'the backup'], ['later']), [
    { key: ['in', 'the backup'], version, value: { v: 1 } },
    { key: ['later'], version: null },
  ]);
  assert.ok((await set(again, ['later'], 'another')) > last);
  again.close();
  await stopServer(next);
  await run(['check', data]);
});
