// SPDX-License-Identifier: Apache-2.0
// HF-3: the native API, request by request, on every store.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { claimOne, enqueue, freshQueue, onStores, stores } from '../lib/suite.mjs';

const id26 = /^[0-9A-HJKMNP-TV-Z]{26}$/;
const problem = (answer, status, code) => {
  assert.equal(answer.status, status, answer.text);
  assert.match(answer.headers['content-type'], /^application\/problem\+json/);
  assert.equal(answer.json.status, status);
  assert.equal(answer.json.code, code, answer.text);
  assert.equal(answer.json.type, `/problems/${code}`);
  assert.ok(answer.json.title.length > 3 && answer.json.detail.length > 3);
  return answer.json;
};

/** Another node may hold a job for a moment, so the order is not guaranteed with the fault wrapper. */
const inOrder = (use, list) => (use.backend.startsWith('fault+') ? [...list].sort() : list);

onStores('native API', stores, {}, (use) => {
  test('an unknown member of a query is refused by its name, with the members that exist', async () => {
    const { api } = use;
    const q = freshQueue();
    await enqueue(api, q, { payload: 1 });
    for (const [query, name] of [['zzz=', 'zzz'], ['zzz=1', 'zzz'], ['zzz', 'zzz'], [`queue=${q}&zzz=x&limit=1`, 'zzz'], ['Queue=x', 'Queue'], ['%7A=1', 'z']]) {
      const { field, allowed, detail } = problem(await api.get(`/v1/jobs?${query}`), 422, 'unknown_field');
      assert.equal(field, name, query);
      assert.ok(allowed.includes('queue') && allowed.includes('state') && !allowed.includes(name), `${allowed}`);
      assert.ok(detail.includes(`no field ${name}`), detail);
    }
    for (const at of ['/v1/queues', '/v1/exceptions', '/v1/snapshot', '/v1/workers', '/v1/alerts', '/v1/breakers', '/v1/kv', `/v1/queues/${q}`, `/v1/queues/${q}/jobs`])
      assert.equal(problem(await api.get(`${at}?zzz=1`), 422, 'unknown_field').field, 'zzz', at);
  });

  test('a queue is created, shown, changed, listed and deleted', async () => {
    const { api } = use;
    const q = freshQueue('shop ü');
    const at = `/v1/queues/${encodeURIComponent(q)}`;
    problem(await api.get(at), 404, 'no_queue');
    const made = await api.put(at, { lease_ms: 5000, max_attempts: 3, backoff_ms: [10, 20], description: 'Orders', capacity: 50 });
    assert.ok([200, 201].includes(made.status), made.text);
    assert.equal(made.json.name, q);
    assert.equal(made.json.policy.lease_ms, 5000);
    assert.deepEqual(made.json.policy.backoff, { type: 'list', steps_ms: [10, 20] });
    const patched = await api.patch(at, { lease_ms: 7000 });
    assert.equal(patched.status, 200);
    assert.equal(patched.json.policy.lease_ms, 7000);
    assert.equal(patched.json.policy.max_attempts, 3);
    const put = await api.put(at, { max_attempts: 4 });
    assert.equal(put.json.policy.lease_ms, 30000, 'PUT sets the rest to the defaults');
    const all = await api.get('/v1/queues?limit=1000');
    assert.ok(all.json.queues.some((one) => one.name === q));
    const gone = await api.delete(at);
    if (!gone.repeated) assert.equal(gone.status, 200, gone.text);
    problem(await api.get(at), 404, 'no_queue');
  });

  test('If-None-Match: * makes only new queues', async () => {
    const { api } = use;
    const q = freshQueue();
    const made = await api.put(`/v1/queues/${q}`, {}, { headers: { 'if-none-match': '*' } });
    if (!made.repeated) assert.equal(made.status, 201, made.text); // a repeat may find its own queue
    problem(await api.put(`/v1/queues/${q}`, {}, { headers: { 'if-none-match': '*' } }), 409, 'exists');
  });

  test('a done job shows the error of an earlier attempt in its history only', async () => {
    const { api } = use;
    const q = freshQueue('done');
    const { id } = await enqueue(api, q, {});
    const claim = async () => (await api.post(`/v1/queues/${q}/claim`, { wait_ms: 10_000 })).json.jobs[0];
    await api.post(`/v1/jobs/${id}/fail`, { token: (await claim()).token, error: 'no', delay_ms: 0 });
    assert.equal((await api.get(`/v1/jobs/${id}`)).json.error, 'no');
    await api.post(`/v1/jobs/${id}/ack`, { token: (await claim()).token });
    const { json } = await api.get(`/v1/jobs/${id}`);
    assert.deepEqual([json.state, json.error, json.error_kind, json.history.map((a) => a.error)], ['done', undefined, undefined, ['no', undefined]]);
  });

  test('queues are listed page by page, by name', async () => {
    const { api } = use;
    const stem = freshQueue('page');
    const names = ['a', 'b', 'c', 'd', 'e'].map((x) => `${stem}-${x}`);
    for (const name of names) await api.put(`/v1/queues/${name}`, {});
    const seen = [];
    for (let cursor = `${stem}-`; cursor !== null; ) {
      const page = await api.get(`/v1/queues?cursor=${encodeURIComponent(cursor)}&limit=2`);
      assert.equal(page.status, 200, page.text);
      seen.push(...page.json.queues.map((one) => one.name));
      cursor = page.json.next_cursor;
      if (seen.length > 50) break;
    }
    assert.deepEqual(seen.filter((name) => name.startsWith(stem)), names);
  });

  test('ORC-7 ORC-14 labels, attributes, results of failures and discards are available in the native API', async () => {
    const { api } = use;
    const q = freshQueue();
    await api.put(`/v1/queues/${q}`, { max_attempts: 1, unique_scope: 'kept', ranked: true });
    const { id } = await enqueue(api, q, { payload: 1, unique: 'u' });
    const noted = await api.patch(`/v1/jobs/${id}`, { priority_label: 'seen', attributes: { by: 7 } });
    assert.equal(noted.status, 200, noted.text);
    assert.equal(noted.json.state, 'ready');
    const job = await claimOne(api, q);
    assert.equal((await api.patch(`/v1/jobs/${id}`, { priority_label: 'half' })).json.state, 'running');
    problem(await api.patch(`/v1/jobs/${id}`, { priority_label: 'x', priority: 1 }), 422, 'invalid_field');
    problem(await api.patch(`/v1/jobs/${id}`, { attributes: [1] }), 422, 'invalid_field');
    const failed = await api.post(`/v1/jobs/${id}/fail`, { token: job.token, error: 'no', error_kind: 'business', result: { reason: 'stock' } });
    assert.equal(failed.status, 200, failed.text);
    const view = (await api.get(`/v1/jobs/${id}`)).json;
    assert.deepEqual([view.state, view.priority_label, view.attributes, view.result, view.error_kind], ['dead', 'half', { by: 7 }, { reason: 'stock' }, 'business']);
    problem(await api.post(`/v1/queues/${q}/jobs`, { unique: 'u' }), 409, 'duplicate');
    problem(await api.post(`/v1/jobs/${id}/cancel`), 409, 'illegal_move');
    const gone = await api.post(`/v1/jobs/${id}/discard`);
    if (!gone.repeated) assert.equal(gone.json.state, 'cancelled', gone.text);
    assert.equal((await api.get(`/v1/jobs/${id}`)).json.reason, 'discarded');
    const again = await enqueue(api, q, { unique: 'u' });
    const page = (await api.get(`/v1/queues/${q}/jobs?unique=u&offset=1`)).json;
    assert.deepEqual([page.total, page.offset, page.jobs.map((one) => one.id)], [2, 1, [again.id]]);
    problem(await api.post(`/v1/jobs/${id}/requeue`), 409, 'duplicate');
    await api.patch(`/v1/jobs/${id}`, { priority_label: '', attributes: null });
    assert.deepEqual([(await api.get(`/v1/jobs/${id}`)).json.priority_label, (await api.get(`/v1/jobs/${id}`)).json.attributes], [undefined, undefined]);
    const plain = freshQueue();
    await api.put(`/v1/queues/${plain}`, {});
    problem(await api.get(`/v1/queues/${plain}/jobs`), 422, 'invalid_field');
    problem(await api.get(`/v1/queues/${freshQueue()}/history`), 404, 'no_queue');
  });

  test('a list of running jobs shows when their leases end', async () => {
    const { api } = use;
    const q = freshQueue();
    const { id } = await enqueue(api, q, { payload: 1 });
    const claimed = await api.post(`/v1/queues/${q}/claim`, { lease_ms: 3_600_000 });
    assert.equal(claimed.json.jobs[0].id, id, claimed.text);
    const listed = (await api.get(`/v1/jobs?queue=${q}&state=running`)).json.jobs;
    assert.deepEqual(listed.map((job) => job.id), [id]);
    const end = Date.parse(listed[0].lease_until);
    assert.ok(end >= Date.parse(listed[0].state_since) + 3_599_000, `${listed[0].lease_until} is not an hour after ${listed[0].state_since}`);
    assert.ok(end <= Date.parse((await api.get(`/v1/jobs/${id}`)).json.lease_until) + 1000);
  });

  test('payloads are returned byte for byte', async () => {
    const { api } = use;
    const q = freshQueue();
    const texts = ['{"a": 1.0, "b":  12345678901234567890,\n "c":"\\u00e9\\/", "a":1e400}', '[]', '"\\ud800"', 'null', '  -0.0e-1  '];
    for (const [i, text] of texts.entries()) {
      const body = `{"payload":${text},"priority":${texts.length - i}}`;
      const answer = await api.request('POST', `/v1/queues/${q}/jobs`, { body, headers: { 'content-type': 'application/json', 'idempotency-key': `${q}-${i}` } });
      assert.ok([200, 201].includes(answer.status), answer.text);
    }
    const got = [];
    for (let tries = 0; got.length < texts.length && tries < 50; tries++) {
      const answer = await api.post(`/v1/queues/${q}/claim`, { wait_ms: 200 });
      if (answer.json.jobs.length) got.push(answer.text.match(/"payload":(.*?)(,"[a-z_]+":|\}\]\}\n$)/s)[1]);
    }
    assert.deepEqual(inOrder(use, got), inOrder(use, texts.map((text) => text.trim())));
  });

  test('raw bodies are bytes, with options in the query', async () => {
    const { api } = use;
    const q = freshQueue();
    const bytes = Buffer.from([0, 1, 2, 255, 254]);
    const made = await api.request('POST', `/v1/queues/${q}/jobs?priority=7&correlation_id=c1`, { body: bytes, headers: { 'content-type': 'application/octet-stream', 'idempotency-key': q } });
    assert.ok([200, 201].includes(made.status), made.text);
    const job = await claimOne(api, q);
    assert.equal(job.payload_base64, bytes.toString('base64'));
    assert.equal(job.priority, 7);
    assert.equal(job.correlation_id, 'c1');
    await api.post(`/v1/jobs/${job.id}/release`, { token: job.token });
    let raw;
    do raw = await api.post(`/v1/queues/${q}/claim`, { wait_ms: 200 }, { headers: { accept: 'application/octet-stream' } });
    while (raw.status === 204);
    assert.equal(raw.status, 200);
    assert.deepEqual(raw.raw, bytes);
    assert.equal(raw.headers['holdfast-id'], job.id);
    assert.ok(raw.headers['holdfast-token']);
    const text = await api.request('POST', `/v1/queues/${q}/jobs`, { body: 'plain text', headers: { 'content-type': 'text/plain', 'idempotency-key': `${q}t` } });
    assert.ok([200, 201].includes(text.status));
    assert.equal((await claimOne(api, q)).payload_text, 'plain text');
  });

  test('a body that curl -d sends without a type is JSON', async () => {
    const { api } = use;
    const q = freshQueue();
    const headers = { 'content-type': 'application/x-www-form-urlencoded', 'idempotency-key': q };
    const made = await api.request('POST', `/v1/queues/${q}/jobs`, { body: '{"payload":{"to":"ann"}}', headers });
    assert.ok([200, 201].includes(made.status), made.text);
    assert.deepEqual((await claimOne(api, q)).payload, { to: 'ann' });
    problem(await api.request('POST', `/v1/queues/${q}/jobs`, { body: 'to=ann', headers: { 'content-type': 'application/x-www-form-urlencoded' } }), 400, 'malformed_json');
  });

  test('many jobs at once: an array and NDJSON, with one outcome for each job', async () => {
    const { api } = use;
    const q = freshQueue();
    const list = [{ payload: 1 }, { payload: 2, priority: 'nonsense' }, { payload: 3, delay_ms: 60000 }];
    const array = await api.post(`/v1/queues/${q}/jobs`, list, { headers: { 'idempotency-key': `${q}-a` } });
    assert.equal(array.status, 200, array.text);
    assert.equal(array.json.jobs.length, 3);
    assert.match(array.json.jobs[0].id, id26);
    assert.equal(array.json.jobs[1].error.code, 'invalid_field');
    assert.equal(array.json.jobs[1].error.field, 'priority');
    assert.deepEqual(array.json.jobs[1].error.allowed, ['high', 'normal', 'low']);
    assert.equal(array.json.jobs[2].state, 'scheduled');
    const lines = await api.request('POST', `/v1/queues/${q}/jobs`, { body: '{"payload":4}\n\n{"payload":5}\n', headers: { 'content-type': 'application/x-ndjson', 'idempotency-key': `${q}-n` } });
    assert.equal(lines.status, 200, lines.text);
    assert.equal(lines.json.jobs.length, 2);
    const broken = await api.request('POST', `/v1/queues/${q}/jobs`, { body: '[{"payload":6},', headers: { 'content-type': 'application/json' } });
    problem(broken, 400, 'malformed_json');
    const stats = await api.get(`/v1/queues/${q}/stats`);
    assert.equal(stats.json.counts.ready, 3, 'the broken request enqueued nothing');
    assert.equal(stats.json.counts.scheduled, 1);
  });

  test('an idempotency key creates one job; with another body it is refused', async () => {
    const { api } = use;
    const q = freshQueue();
    const headers = { 'idempotency-key': `${q}-one` };
    const first = await api.post(`/v1/queues/${q}/jobs`, { payload: 1 }, { headers });
    const again = await api.post(`/v1/queues/${q}/jobs`, { payload: 1 }, { headers });
    assert.equal(again.status, 200);
    assert.equal(again.json.created, false);
    assert.equal(again.json.id, first.json.id);
    problem(await api.post(`/v1/queues/${q}/jobs`, { payload: 2 }, { headers }), 422, 'key_reused');
    assert.equal((await api.get(`/v1/queues/${q}`)).json.counts.ready, 1);
  });

  test('HF-1: only the replies of a relaxed queue say that they are relaxed', async () => {
    const { api } = use;
    for (const durability of ['relaxed', 'fsync']) {
      const q = freshQueue(durability);
      await api.put(`/v1/queues/${q}`, { durability });
      const told = [await enqueue(api, q, { payload: 1 })];
      const tell = (answer) => answer.repeated || told.push(answer.json); // a repeat finds what the first try left
      const many = await api.post(`/v1/queues/${q}/jobs`, [{}, {}], { headers: { 'idempotency-key': `${q}-many` } });
      told.push(...many.json.jobs);
      const { id, token } = await claimOne(api, q);
      for (const word of ['extend', 'ack']) tell(await api.post(`/v1/jobs/${id}/${word}`, { token }));
      const [, waiting] = many.json.jobs;
      tell(await api.patch(`/v1/jobs/${waiting.id}`, { priority: 5 }));
      tell(await api.post(`/v1/jobs/${waiting.id}/cancel`));
      tell(await api.delete(`/v1/jobs/${waiting.id}`));
      const expected = durability === 'relaxed' ? 'relaxed' : undefined;
      const first = told.filter((answer) => !answer.repeat && answer.created !== false); // a repeat may find it durable
      assert.ok(first.length > 1 || use.backend.startsWith('fault+'));
      for (const answer of first) assert.equal(answer.durability, expected, JSON.stringify(answer));
    }
  });

  test('unique keys: reject, return, replace', async () => {
    const { api } = use;
    const q = freshQueue();
    const first = await enqueue(api, q, { payload: 1, unique: 'k' });
    const refused = problem(await api.post(`/v1/queues/${q}/jobs`, { payload: 2, unique: 'k', unique_mode: 'reject' }), 409, 'duplicate');
    assert.equal(refused.id, first.id);
    const returned = await api.post(`/v1/queues/${q}/jobs`, { payload: 2, unique: 'k', unique_mode: 'return' });
    assert.equal(returned.status, 200);
    assert.equal(returned.json.id, first.id);
    assert.equal(returned.json.created, false);
    const replaced = await enqueue(api, q, { payload: 3, unique: 'k', unique_mode: 'replace' });
    assert.notEqual(replaced.id, first.id);
    assert.equal((await api.get(`/v1/jobs/${first.id}`)).json.state, 'cancelled');
    assert.equal((await claimOne(api, q)).payload, 3);
  });

  test('all three spellings of an id name the job', async () => {
    const { api } = use;
    const q = freshQueue();
    const made = await enqueue(api, q, { payload: 1 });
    const view = (await api.get(`/v1/jobs/${made.id}`)).json;
    for (const spelling of [made.id, made.id.toLowerCase(), view.uuid, String(made.seq)])
      assert.equal((await api.get(`/v1/jobs/${spelling}`)).json.id, made.id);
    problem(await api.get('/v1/jobs/not-an-id'), 422, 'invalid_id');
    problem(await api.get('/v1/jobs/9007199254740000'), 404, 'not_found');
  });

  test('leases: extend, release, fail, ack, and only by the newest token (HF-2)', async () => {
    const { api } = use;
    const q = freshQueue();
    await api.put(`/v1/queues/${q}`, { backoff_ms: [0] });
    const { id } = await enqueue(api, q, { payload: 1 });
    const first = await claimOne(api, q);
    assert.equal(first.attempt, 1);
    const extended = await api.post(`/v1/jobs/${id}/extend`, { token: first.token, lease_ms: 60000 });
    assert.equal(extended.status, 200, extended.text);
    assert.ok(Date.parse(extended.json.lease_until) > Date.now() + 50000);
    const released = await api.post(`/v1/jobs/${id}/release`, { token: first.token, reason: 'later' });
    assert.equal(released.json.state, 'ready');
    const second = await claimOne(api, q);
    assert.equal(second.attempt, 1, 'a release is not counted');
    const lost = problem(await api.post(`/v1/jobs/${id}/ack`, { token: first.token }), 409, 'lease_lost');
    assert.ok(lost.detail.length > 10);
    const failed = await api.post(`/v1/jobs/${id}/fail`, { token: second.token, error: 'boom' });
    assert.equal(failed.status, 200, failed.text);
    assert.ok(['ready', 'scheduled'].includes(failed.json.state));
    const repeated = await api.post(`/v1/jobs/${id}/fail`, { token: second.token, error: 'boom' });
    assert.equal(repeated.status, 200);
    assert.equal(repeated.json.repeat, true);
    const third = await claimOne(api, q);
    assert.equal(third.attempt, 2);
    assert.equal((await api.post(`/v1/jobs/${id}/ack`, { token: third.token, result: [1, 2] })).json.state, 'done');
    assert.equal((await api.post(`/v1/jobs/${id}/ack`, { token: third.token })).json.repeat, true);
    const view = (await api.get(`/v1/jobs/${id}`)).json;
    assert.deepEqual(view.result, [1, 2]);
    problem(await api.post(`/v1/jobs/${id}/fail`, {}), 422, 'missing_field');
    problem(await api.post(`/v1/jobs/${id}/ack`, { token: 'rubbish!' }), 422, 'invalid_field');
  });

  test('many leases at once, with one outcome for each', async () => {
    const { api } = use;
    const q = freshQueue();
    for (let i = 0; i < 3; i++) await enqueue(api, q, { payload: i });
    const jobs = [];
    while (jobs.length < 3) jobs.push(...(await api.post(`/v1/queues/${q}/claim`, { count: 3, wait_ms: 100 })).json.jobs);
    const answer = await api.post('/v1/ack', { jobs: [{ id: jobs[0].id, token: jobs[0].token, result: 1 }, { id: jobs[1].seq, token: jobs[1].token }, { id: jobs[2].id, token: '1-1' }, { id: 'x', token: jobs[2].token }] });
    assert.equal(answer.status, 200, answer.text);
    const [a, b, c, d] = answer.json.jobs;
    assert.equal(a.state, 'done');
    assert.equal(b.state, 'done');
    assert.equal(c.error.code, 'lease_lost');
    assert.equal(d.error.code, 'invalid_id');
  });

  test('an illegal move is refused with the legal ones', async () => {
    const { api } = use;
    const q = freshQueue();
    const { id } = await enqueue(api, q, { payload: 1 });
    const job = await claimOne(api, q);
    await api.post(`/v1/jobs/${id}/ack`, { token: job.token });
    const refused = problem(await api.post(`/v1/jobs/${id}/cancel`, {}), 409, 'illegal_move');
    assert.equal(refused.state, 'done');
    assert.ok(Array.isArray(refused.legal_moves));
    problem(await api.patch(`/v1/jobs/${id}`, { priority: 1 }), 409, 'illegal_move');
  });

  test('a waiting job is patched (PDQ-14), cancelled, requeued and removed', async () => {
    const { api } = use;
    const q = freshQueue();
    const { id } = await enqueue(api, q, { payload: { v: 1 } });
    const patched = await api.patch(`/v1/jobs/${id}`, { priority: 5, payload: { v: 2 }, delay_ms: 60000 });
    assert.equal(patched.status, 200, patched.text);
    let view = (await api.get(`/v1/jobs/${id}`)).json;
    assert.equal(view.state, 'scheduled');
    assert.equal(view.priority, 5);
    assert.deepEqual(view.payload, { v: 2 });
    await api.post(`/v1/jobs/${id}/cancel`, {});
    assert.equal((await api.get(`/v1/jobs/${id}`)).json.state, 'cancelled');
    await api.post(`/v1/jobs/${id}/requeue`, { delay_ms: 0 });
    view = (await api.get(`/v1/jobs/${id}`)).json;
    assert.equal(view.state, 'ready');
    const removed = await api.delete(`/v1/jobs/${id}`);
    assert.ok(removed.status === 200 || (removed.repeated && removed.status === 404), removed.text);
    problem(await api.get(`/v1/jobs/${id}`), 404, 'not_found');
  });

  test('lists by filter, page by page', async () => {
    const { api } = use;
    const q = freshQueue();
    const ids = [];
    for (let i = 0; i < 7; i++) ids.push((await enqueue(api, q, { payload: i, group: i % 2 ? 'odd' : 'even', priority: i })).id);
    const seen = [];
    for (let cursor = ''; cursor !== null; ) {
      const page = await api.get(`/v1/jobs?queue=${q}&state=ready&limit=3${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
      assert.equal(page.status, 200, page.text);
      assert.ok(page.json.jobs.length <= 3);
      seen.push(...page.json.jobs.map((job) => job.id));
      cursor = page.json.next_cursor;
    }
    assert.deepEqual(seen, ids);
    const newest = await api.get(`/v1/jobs?queue=${q}&order=newest&limit=2`);
    assert.deepEqual(newest.json.jobs.map((job) => job.payload), [6, 5]);
    assert.ok(Number.isInteger(newest.json.as_of));
    const odd = await api.get(`/v1/jobs?queue=${q}&group=odd`);
    assert.deepEqual(odd.json.jobs.map((job) => job.payload), [1, 3, 5]);
    const high = await api.get(`/v1/jobs?queue=${q}&priority_min=5`);
    assert.deepEqual(high.json.jobs.map((job) => job.payload), [5, 6]);
    const none = await api.get(`/v1/jobs?queue=${q}&state=dead,cancelled`);
    assert.deepEqual(none.json.jobs, []);
    problem(await api.get(`/v1/jobs?queue=${q}&state=reddy`), 422, 'invalid_field');
    problem(await api.get(`/v1/jobs?queue=${q}&sate=ready`), 422, 'unknown_field');
    problem(await api.get('/v1/jobs?cursor=%21%21'), 422, 'invalid_field');
  });

  test('pause, resume, purge, peek', async () => {
    const { api } = use;
    const q = freshQueue();
    for (let i = 0; i < 3; i++) await enqueue(api, q, { payload: i, priority: i });
    const paused = await api.post(`/v1/queues/${q}/pause`, {});
    assert.equal(paused.json.paused, true, paused.text);
    assert.deepEqual((await api.post(`/v1/queues/${q}/claim`, {})).json.jobs, []);
    await api.post(`/v1/queues/${q}/resume`, {});
    const peek = await api.get(`/v1/queues/${q}/peek?state=ready&limit=2`);
    assert.deepEqual(peek.json.jobs.map((job) => job.payload), [2, 1]);
    const purged = await api.post(`/v1/queues/${q}/purge`, {});
    assert.equal(purged.status, 200);
    assert.ok(purged.repeated || purged.json.purged === 3, purged.text);
    assert.equal((await api.get(`/v1/queues/${q}`)).json.counts.ready, 0);
  });

  test('bulk: dead jobs are requeued together', async () => {
    const { api } = use;
    const q = freshQueue();
    await api.put(`/v1/queues/${q}`, { max_attempts: 1 });
    for (let i = 0; i < 3; i++) {
      await enqueue(api, q, { payload: i });
      const job = await claimOne(api, q);
      const failed = await api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: 'no', error_kind: 'business' });
      assert.equal(failed.json.state, 'dead');
    }
    const back = await api.post(`/v1/queues/${q}/requeue`, { states: ['dead'] });
    assert.equal(back.status, 200, back.text);
    assert.equal((await api.get(`/v1/queues/${q}`)).json.counts.ready, 3);
  });

  test('bulk: cancel and remove name their states, a requeue means dead jobs, a dry run counts', async () => {
    const { api } = use;
    const q = freshQueue();
    await enqueue(api, q, { payload: 1 });
    await enqueue(api, q, { payload: 2, delay_ms: 3600_000, group: 'g' });
    for (const [word, allowed] of [['cancel', ['scheduled', 'ready', 'running', 'blocked']], ['remove', ['scheduled', 'ready', 'done', 'dead', 'cancelled', 'blocked']]]) {
      for (const body of [undefined, {}, { group: 'g' }, { dry_run: true }]) {
        const refused = await api.post(`/v1/queues/${q}/${word}`, body);
        problem(refused, 422, 'missing_field');
        assert.deepEqual([refused.json.field, refused.json.allowed], ['states', allowed]);
      }
    }
    const dry = await api.post(`/v1/queues/${q}/remove`, { states: ['ready', 'scheduled', 'dead'], dry_run: true });
    assert.deepEqual(dry.json, { action: 'remove', dry_run: true, count: 2, by_queue: { [q]: 2 }, by_state: { scheduled: 1, ready: 1 } });
    const group = await api.post(`/v1/queues/${q}/cancel`, { states: ['ready', 'scheduled'], group: 'g', dry_run: true });
    assert.deepEqual([group.json.count, group.json.by_state], [1, { scheduled: 1 }]);
    for (const word of ['requeue', 'cancel', 'remove']) {
      for (const dry_run of [true, false]) {
        const refused = await api.post(`/v1/queues/${q}/${word}`, { states: ['ready', 'scheduled'], group: '', dry_run });
        problem(refused, 422, 'invalid_field');
        assert.deepEqual([refused.json.field, refused.json.detail], ['group', 'group is empty; give a value, or leave group out to select all']);
      }
    }
    assert.equal((await api.post(`/v1/queues/${q}/requeue`, {})).json.changed, 0);
    const { counts } = (await api.get(`/v1/queues/${q}`)).json;
    assert.deepEqual([counts.ready, counts.scheduled], [1, 1]);
  });

  test('an empty filter does not select everything', async () => {
    const { api } = use;
    const q = freshQueue();
    await enqueue(api, q, { payload: 1, group: 'g', unique: 'u' });
    const lists = ['queue', 'group', 'unique', 'correlation_id', 'state', 'reason'].map((name) => ['/v1/jobs', name]);
    for (const [path, name] of [...lists, [`/v1/queues/${q}/stats`, 'group'], [`/v1/queues/${q}/jobs`, 'unique'], ['/v1/exceptions', 'queue'], ['/v1/snapshot', 'queue'], ['/v1/events', 'queue']]) {
      const refused = await api.get(`${path}?${name}=`);
      problem(refused, 422, 'invalid_field');
      assert.equal(refused.json.field, name, refused.text);
    }
  });

  test('a done job: only the lease token that ended it is known', async () => {
    const { api } = use;
    const q = freshQueue();
    await enqueue(api, q, { payload: 1 });
    await enqueue(api, q, { payload: 2 });
    const job = await claimOne(api, q);
    const other = await claimOne(api, q);
    const ack = (token) => api.post(`/v1/jobs/${job.id}/ack`, { token });
    assert.equal((await ack(job.token)).json.state, 'done');
    const [epoch] = job.token.split('-');
    for (const token of [other.token, `${epoch}-zzzzzz`, `zzz-${job.token.split('-')[1]}`]) problem(await ack(token), 409, 'lease_lost');
    problem(await ack('nonsense'), 422, 'invalid_field');
    assert.equal((await ack(job.token)).json.state, 'done', 'a repeat');
  });

  test('claims over several queues go by priority', async () => {
    const { api } = use;
    const [a, b] = [freshQueue('a'), freshQueue('b')];
    await enqueue(api, a, { payload: 'low', priority: 1 });
    await enqueue(api, b, { payload: 'high', priority: 9 });
    const got = [];
    while (got.length < 2) got.push(...(await api.post('/v1/claim', { queues: [a, b], count: 2, wait_ms: 100 })).json.jobs);
    assert.deepEqual(inOrder(use, got.map((job) => [job.queue, job.payload])), inOrder(use, [[b, 'high'], [a, 'low']]));
  });
});

onStores('a store that forgets', ['fault+sqlite'], {}, (use) => {
  const made = {
    'a queue': (name) => ['PUT', `/v1/queues/${name}`, {}],
    'an alert rule': (name) => ['PUT', `/v1/alerts/${name}`, { on: 'dead' }],
    'a schedule': (name) => ['PUT', `/v1/schedules/${name}`, { every_ms: 86_400_000 }],
  };
  for (const [what, request] of Object.entries(made))
    test(`503 says that ${what} was certainly not created, whatever failed`, async () => {
      const once = new Client(use.server, { retryUnavailable: false });
      const seen = new Set();
      for (let i = 0; i < 200 || seen.size < 3; i++) {
        const [method, path, json] = request(freshQueue('sure'));
        const { status, text } = await once.request(method, path, { json });
        seen.add(status);
        assert.ok([201, 503, 504].includes(status), text);
        if (status !== 504) assert.equal((await use.api.get(path)).status, status === 503 ? 404 : 200, text);
        await use.api.delete(path);
      }
      once.close();
    });
});
