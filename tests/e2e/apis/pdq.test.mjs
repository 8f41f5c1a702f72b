// SPDX-License-Identifier: Apache-2.0
// The priority and delay queue's requirements, as far as they need no Redis and no worker runner.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';

import { has } from '../lib/backend.mjs';
import { Client, openStream } from '../lib/client.mjs';
import { startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue, onStores, stores } from '../lib/suite.mjs';

const faulty = (use) => use.backend.startsWith('fault+');

onStores('priority and delay', stores, { args: ['--capacity', '500'] }, (use) => {
  test('PDQ-2 PDQ-3: a far-future high job blocks nothing; FIFO within one priority', async () => {
    const { api } = use;
    const q = freshQueue();
    await enqueue(api, q, { payload: 'future', priority: 1000, delay_ms: 3_600_000 });
    for (let i = 0; i < 5; i++) await enqueue(api, q, { payload: i, priority: i === 3 ? 1 : 0 });
    const got = [];
    while (got.length < 5) got.push((await claimOne(api, q)).payload);
    if (faulty(use)) assert.deepEqual([...got].sort(), [0, 1, 2, 3, 4]);
    else assert.deepEqual(got, [3, 0, 1, 2, 4]);
    const stats = (await api.get(`/v1/queues/${q}/stats`)).json;
    assert.equal(stats.counts.scheduled, 1);
    assert.equal(stats.counts.running, 5);
  });

  test('PDQ-4: a claim that waits is woken by a new job and by one that becomes due', async () => {
    const { api } = use;
    const q = freshQueue();
    const waiting = claimOne(api, q, { wait_ms: 10000 });
    await enqueue(api, q, { payload: 'new' });
    assert.equal((await waiting).payload, 'new');
    const due = claimOne(api, q, { wait_ms: 10000 });
    const begun = Date.now();
    await enqueue(api, q, { payload: 'due', delay_ms: 150 });
    assert.equal((await due).payload, 'due');
    assert.ok(Date.now() - begun >= 149);
    const start = Date.now();
    const empty = await api.post(`/v1/queues/${q}/claim`, { wait_ms: 60 });
    assert.deepEqual(empty.json.jobs, []);
    assert.ok(faulty(use) || Date.now() - start >= 59);
  });

  test('PDQ-5: past its capacity a queue refuses, and says when to come back', async () => {
    const { api } = use;
    const q = freshQueue();
    await api.put(`/v1/queues/${q}`, { capacity: 2 });
    await enqueue(api, q, { payload: 1 });
    await enqueue(api, q, { payload: 2 });
    const full = await api.post(`/v1/queues/${q}/jobs`, { payload: 3 });
    assert.equal(full.status, 429, full.text);
    assert.equal(full.json.code, 'queue_full');
    assert.ok(Number(full.headers['retry-after']) >= 1);
    const job = await claimOne(api, q);
    assert.equal((await api.post(`/v1/queues/${q}/jobs`, { payload: 3 })).status, 429, 'a running job still counts');
    await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token });
    await enqueue(api, q, { payload: 3 });
  });

  test('PDQ-5: warn_depth is told once, as an event', async () => {
    const { api, server } = use;
    const q = freshQueue();
    await api.put(`/v1/queues/${q}`, { warn_depth: 3 });
    const events = await openStream(server, `/v1/events?queue=${q}&events=queue_deep`).opened;
    assert.equal(events.status, 200);
    for (let i = 0; i < 5; i++) await enqueue(api, q, { payload: i });
    const deep = await events.next();
    assert.equal(deep.event, 'queue_deep');
    assert.equal(JSON.parse(deep.data).queue, q);
    events.close();
    const told = () => server.stderr.split('\n').filter((line) => line.includes('queue_deep') && line.includes(q));
    await until('a line in the log', () => told().length > 0);
    if (!faulty(use)) assert.equal(told().length, 1, 'once, not for each job');
  });

  test('PDQ-10: snapshot and exceptions', async () => {
    const { api } = use;
    const q = freshQueue();
    await api.put(`/v1/queues/${q}`, { max_attempts: 1 });
    await enqueue(api, q, { payload: 1 });
    await enqueue(api, q, { payload: 2, delay_ms: 60000 });
    const snapshot = (await api.get(`/v1/snapshot?queue=${q}`)).json;
    assert.equal(snapshot.depth, 2);
    assert.equal(snapshot.ready, 1);
    assert.equal(snapshot.scheduled, 1);
    assert.equal(snapshot.shutdown, false);
    assert.equal(snapshot.redis_active, has('redis'));
    const job = await claimOne(api, q, { worker: 'w9' });
    const failed = await api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: 'ValueError: no', error_kind: 'business' });
    assert.equal(failed.json.state, 'dead');
    const { exceptions } = (await api.get(`/v1/exceptions?queue=${q}`)).json;
    assert.equal(exceptions.length, 1);
    assert.equal(exceptions[0].job_id, job.id);
    assert.equal(exceptions[0].error, 'ValueError: no');
    assert.equal(exceptions[0].type, 'business');
    assert.equal(exceptions[0].worker, 'w9');
    assert.ok(Math.abs(Date.parse(exceptions[0].at) - Date.now()) < 60000);
    await api.post(`/v1/queues/${q}/purge`, {});
    assert.equal((await api.get(`/v1/snapshot?queue=${q}`)).json.depth, 0, 'purge covers ready and scheduled');
  });

  test('PDQ-11: correlation_id travels from enqueue to worker, events and log', async () => {
    const { api, server } = use;
    const q = freshQueue();
    const events = await openStream(server, `/v1/events?queue=${q}`).opened;
    const { id } = await enqueue(api, q, { payload: 1, correlation_id: 'order-7' });
    const job = await claimOne(api, q);
    assert.equal(job.correlation_id, 'order-7');
    assert.equal((await api.get(`/v1/jobs/${id}`)).json.correlation_id, 'order-7');
    for (let seen = ''; seen !== 'claimed'; ) {
      const event = await events.next();
      seen = event.event;
      const { id: about, correlation_id: told } = JSON.parse(event.data).job ?? {};
      if (about === id) assert.ok(told === 'order-7' || (faulty(use) && told === undefined), event.data);
    }
    events.close();
    await api.post(`/v1/jobs/${id}/fail`, { token: job.token, error: 'no', retry: false });
    // A store that fails to read now and then may not know the text: event and line come without it.
    const text = server.backend.startsWith('fault+') ? '' : 'correlation_id=order-7';
    await until('a line in the log', () => server.stderr.split('\n').some((line) => line.includes('job_dead') && line.includes(id) && line.includes(text)));
    const listed = (await api.get('/v1/jobs?correlation_id=order-7')).json.jobs;
    assert.ok(listed.some((one) => one.id === id));
  });

  test('PDQ-12: the metrics have their names and true values', async () => {
    const { api } = use;
    const q = freshQueue('metric');
    await enqueue(api, q, { payload: 1 });
    await enqueue(api, q, { payload: 2 });
    const job = await claimOne(api, q);
    await api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: 'x', delay_ms: 60000 });
    // HF-12 While the store does not answer, the figures by queue are left out, and the page says so.
    const pages = {};
    for (let tries = 0; tries < 2000 && !(pages.whole && (pages.lacking || !faulty(use))); tries++) {
      const page = await api.get('/metrics');
      const leftOut = Number(page.text.match(/^holdfast_metrics_stores_left_out (\S+)$/m)[1]);
      const queuesLeftOut = Number(page.text.match(/^holdfast_metrics_queues_left_out (\S+)$/m)[1]);
      const shown = page.text.includes(`holdfast_queue_depth{queue="${q}"`);
      assert.equal(leftOut, shown ? 0 : 1);
      assert.ok(shown ? queuesLeftOut === 0 : faulty(use) && !page.text.includes('{queue='));
      pages[shown ? 'whole' : 'lacking'] = page;
    }
    assert.ok(pages.lacking || !faulty(use), 'one query in fifty is refused');
    const { text, headers } = pages.whole;
    assert.match(headers['content-type'], /^text\/plain; version=0\.0\.4/);
    const value = (line) => Number(text.match(new RegExp(`^${line.replace(/[{}"]/g, '\\$&')} (\\S+)$`, 'm'))?.[1]);
    assert.equal(value(`holdfast_queue_depth{queue="${q}",state="ready"}`), 1);
    assert.equal(value(`holdfast_queue_depth{queue="${q}",state="scheduled"}`), 1);
    if (!faulty(use)) {
      assert.equal(value(`holdfast_enqueued_total{queue="${q}"}`), 2);
      assert.equal(value(`holdfast_dequeued_total{queue="${q}"}`), 1);
      assert.equal(value(`holdfast_job_failures_total{queue="${q}"}`), 1);
      assert.equal(value(`holdfast_dequeue_latency_seconds_count{queue="${q}"}`), 1);
      assert.equal(value(`holdfast_job_processing_seconds_count{queue="${q}"}`), 1);
    }
    // No Redis, no sample: an alert on 0 must not fire on a server that has none.
    if (has('redis')) assert.equal(value('holdfast_redis_up'), 1);
    else assert.doesNotMatch(text, /^holdfast_redis_up /m);
    for (const name of ['holdfast_queue_oldest_ready_seconds', 'holdfast_commit_seconds', 'holdfast_commit_records', 'holdfast_http_connections', 'holdfast_build_info'])
      assert.match(text, new RegExp(`^# TYPE ${name} `, 'm'));
  });

  test('PDQ-13: a rate limit per key at enqueue, with the time to come back', async () => {
    if (faulty(use)) return; // an answer that is lost may have made a job
    const { api } = use;
    const q = freshQueue();
    const enqueue_rate = { per: 'group', count: 2, window_ms: 600_000 }; // no token is added while this test waits for the processor
    const made = await api.put(`/v1/queues/${q}`, { enqueue_rate });
    assert.deepEqual(made.json.policy.enqueue_rate, enqueue_rate);
    const put = (group, queue = q) => api.post(`/v1/queues/${queue}/jobs`, { payload: 1, group });
    for (const group of ['affiliate-1', 'affiliate-1', 'affiliate-2']) assert.equal((await put(group)).status, 201);
    const refused = await put('affiliate-1');
    assert.equal(refused.status, 429, refused.text);
    assert.equal(refused.json.code, 'rate_limited');
    assert.ok(refused.json.retry_after_ms > 0 && refused.json.retry_after_ms <= 300_000, refused.text);
    assert.equal(refused.headers['retry-after'], String(Math.ceil(refused.json.retry_after_ms / 1000)));
    assert.equal((await put('affiliate-2')).status, 201, 'one key does not wait for another');
    const batch = await api.post(`/v1/queues/${q}/jobs`, [{ payload: 1, group: 'affiliate-3' }, { payload: 2, group: 'affiliate-1' }]);
    assert.deepEqual(batch.json.jobs.map((job) => job.error?.code ?? null), [null, 'rate_limited']);
    assert.equal((await api.get(`/v1/queues/${q}/stats`)).json.counts.ready, 5);
    const soon = freshQueue();
    await api.put(`/v1/queues/${soon}`, { enqueue_rate: { ...enqueue_rate, window_ms: 4000 } });
    await until('it is refused', async () => (await put('affiliate-1', soon)).status === 429);
    let due = Infinity;
    await until('it is let in', async () => {
      const sent = Date.now();
      const answer = await put('affiliate-1', soon);
      if (answer.status === 201) return true;
      assert.ok(sent <= due + 1, `refused ${sent - due} ms after the time that was told`);
      due = Math.min(due, Date.now() + answer.json.retry_after_ms);
      return false;
    });
    const patched = await api.patch(`/v1/queues/${q}`, { lease_ms: 5000 });
    assert.deepEqual(patched.json.policy.enqueue_rate, enqueue_rate, 'another change leaves it');
    assert.equal((await api.patch(`/v1/queues/${q}`, { enqueue_rate: null })).json.policy.enqueue_rate, null);
    for (let i = 0; i < 5; i++) assert.equal((await put('affiliate-1')).status, 201);
    for (const [bad, field] of [[7, 'enqueue_rate'], [{ count: 1 }, 'enqueue_rate.window_ms'], [{ count: 0, window_ms: 1 }, 'enqueue_rate.count'], [{ count: 1, window_ms: 1, per: 'worker' }, 'enqueue_rate.per'], [{ count: 1, window_ms: 1, burst: 2 }, 'enqueue_rate.burst']]) {
      const answer = await api.patch(`/v1/queues/${q}`, { enqueue_rate: bad });
      assert.equal(answer.status, 422, answer.text);
      assert.equal(answer.json.field, field, answer.text);
    }
    assert.equal((await api.get(`/v1/queues/${q}`)).json.policy.enqueue_rate, null);
  });

  test('PDQ-14: fail and release with a delay or a time', async () => {
    const { api } = use;
    const q = freshQueue();
    const { id } = await enqueue(api, q, { payload: 1 });
    let job = await claimOne(api, q);
    const sent = Date.now();
    const failed = await api.post(`/v1/jobs/${id}/fail`, { token: job.token, error: 'busy', delay_ms: 120 });
    assert.equal(failed.json.state, 'scheduled');
    assert.ok(Date.parse(failed.json.run_at) >= sent + 120, failed.text);
    job = await claimOne(api, q, { wait_ms: 2000 });
    assert.equal(job.attempt, 2);
    const at = new Date(Date.now() + 150).toISOString();
    const released = await api.post(`/v1/jobs/${id}/release`, { token: job.token, run_at: at, reason: 'rate limited' });
    assert.ok(released.json.run_at === at || Date.now() >= Date.parse(at), released.text);
    job = await claimOne(api, q, { wait_ms: 2000 });
    assert.ok(Date.now() >= Date.parse(at) - 1);
    assert.equal(job.attempt, 2, 'a release is not counted');
  });

  test('PDQ-14: priority, run_at and payload of a waiting job can be changed; of a running one they cannot', async () => {
    const { api } = use;
    const q = freshQueue();
    const later = await enqueue(api, q, { payload: 'old', delay_ms: 3_600_000 });
    const plain = await enqueue(api, q, { payload: 'plain' });
    const changed = await api.patch(`/v1/jobs/${later.id}`, { priority: 9, run_at: new Date(Date.now() - 1000).toISOString(), payload: { new: true } });
    assert.equal(changed.status, 200, changed.text);
    const view = (await api.get(`/v1/jobs/${later.id}`)).json;
    assert.deepEqual([view.state, view.priority, view.payload], ['ready', 9, { new: true }]);
    if (!faulty(use)) assert.deepEqual((await api.get(`/v1/queues/${q}/stats`)).json.counts.ready, 2);
    const first = await claimOne(api, q);
    if (!faulty(use)) assert.deepEqual([first.id, first.payload], [later.id, { new: true }]);
    const refused = await api.patch(`/v1/jobs/${first.id}`, { priority: 1 });
    assert.deepEqual([refused.status, refused.json.code], [409, 'illegal_move'], refused.text);
    if (faulty(use)) return;
    const moved = await api.patch(`/v1/jobs/${plain.id}`, { run_at: new Date(Date.now() + 3_600_000).toISOString() });
    assert.equal(moved.json.state, 'scheduled', moved.text);
  });

  test('PDQ-10: an exception that no worker reported is a crash', async () => {
    if (faulty(use)) return; // what is claimed there may be given back
    const { api } = use;
    const q = freshQueue();
    await api.put(`/v1/queues/${q}`, { max_crashes: 1 });
    await enqueue(api, q, { payload: 1 });
    const { id } = await claimOne(api, q, { worker: 'gone', lease_ms: 100 });
    await until('its lease has ended', async () => (await api.get(`/v1/jobs/${id}`)).json.state === 'dead');
    const [exception] = (await api.get(`/v1/exceptions?queue=${q}`)).json.exceptions;
    assert.deepEqual([exception.job_id, exception.type, exception.worker], [id, 'crash', 'gone']);
    assert.equal((await api.get('/v1/exceptions?limit=1001')).status, 422, 'the last 1,000 are kept');
  });

  test('PDQ-15: every attempt is in the history', async () => {
    const { api } = use;
    const q = freshQueue();
    const { id } = await enqueue(api, q, { payload: 1, backoff_ms: [0] });
    let job = await claimOne(api, q, { worker: 'ann' });
    await api.post(`/v1/jobs/${id}/fail`, { token: job.token, error: 'first', error_kind: 'app' });
    job = await claimOne(api, q, { worker: 'bob', lease_ms: 100 });
    const third = await claimOne(api, q, { worker: 'cid', wait_ms: 5000 });
    await api.post(`/v1/jobs/${id}/ack`, { token: third.token });
    const { history } = (await api.get(`/v1/jobs/${id}`)).json;
    const shown = history.map(({ number, worker, outcome, error }) => [number, worker, outcome, error ?? null]);
    if (!faulty(use)) assert.deepEqual(shown, [[1, 'ann', 'failed', 'first'], [2, 'bob', 'lease_expired', null], [3, 'cid', 'done', null]]);
    for (const one of history.filter((each) => each.outcome !== 'running')) assert.ok(Date.parse(one.started_at) <= Date.parse(one.ended_at));
  });
});

describe('PDQ-1, PDQ-5: settings of the document', () => {
  test('its queue_settings block is taken as printed', async () => {
    const file = path.join(temporaryDirectory(), 'holdfast.yaml');
    writeFileSync(file, ['queue_settings:', '  priorities:', '    high: 0', '    normal: 5', '    low: 10', '  max_in_memory: 4', '  warn_depth: 3', '  use_redis: false', '  redis_url: redis://localhost:6379/0', '  redis_ready_key: ready', '  redis_scheduled_key: scheduled', '  redis_health_check_timeout: 2.0', ''].join('\n'));
    const server = await startServer({ backend: 'memory', args: ['--config', file] });
    const api = new Client(server);
    for (const label of ['low', 'normal', 'high']) await enqueue(api, 'pdq', { payload: label, priority: label });
    const unknown = await api.post('/v1/queues/pdq/jobs', { payload: 1, priority: 'urgent' });
    assert.equal(unknown.status, 422);
    assert.deepEqual(unknown.json.allowed.sort(), ['high', 'low', 'normal']);
    const got = [];
    for (let i = 0; i < 3; i++) got.push(await claimOne(api, 'pdq'));
    assert.deepEqual(got.map((job) => job.payload), ['high', 'normal', 'low']);
    assert.equal(got[0].priority_label, 'high', 'the job keeps its label');
    await enqueue(api, 'pdq', { payload: 4 });
    const full = await api.post('/v1/queues/other/jobs', { payload: 5 });
    assert.equal(full.status, 429, 'max_in_memory is for the whole server');
    assert.equal(full.json.code, 'server_full');
    assert.ok(Number(full.headers['retry-after']) >= 1);
    assert.equal((await api.get(`/v1/jobs/${got[0].id}`)).json.priority_label, 'high');
    assert.equal((await api.get('/v1/snapshot')).json.redis_active, has('redis'), 'use_redis is false');
    api.close();
    await stopServer(server);
  });
});

describe('settings for new queues', () => {
  const defaults = ['ranked', 'unique-scope=none', 'capacity=none', 'enqueue-rate=2/1d', 'keep-done=all'].map((one) => `--queue-defaults-${one}`);
  test('a queue that an enqueue creates has them, and a definition can change them', async () => {
    const server = await startServer({ backend: 'memory', args: defaults, env: { HOLDFAST_QUEUE_DEFAULTS_MAX_CRASHES: '0' } });
    const api = new Client(server);
    for (const payload of [1, 2]) await enqueue(api, 'new', { payload, unique: 'same' });
    assert.equal((await api.post('/v1/queues/new/jobs', { payload: 3 })).json.code, 'rate_limited');
    const { policy } = (await api.get('/v1/queues/new')).json;
    const some = (each) => [each.ranked, each.unique_scope, each.capacity, each.enqueue_rate, each.keep_done, each.max_crashes];
    assert.deepEqual(some(policy), [true, 'none', null, { per: 'queue', count: 2, window_ms: 86_400_000 }, null, 0]);
    const defined = await api.put('/v1/queues/defined', { ranked: false, capacity: 7, enqueue_rate: null });
    assert.deepEqual(some(defined.json.policy), [false, 'none', 7, null, null, 0]);
    api.close();
    await stopServer(server);
  });
  test('refuse_new: queues are closed until one is opened', async () => {
    const server = await startServer({ backend: 'memory', args: ['--queue-defaults-refuse-new'] });
    const api = new Client(server);
    const refused = await api.post('/v1/queues/q/jobs', { payload: 1 });
    assert.ok(refused.status >= 400 && refused.status < 500, refused.text);
    assert.equal((await api.put('/v1/queues/q', { refuse_new: false })).json.policy.refuse_new, false);
    await enqueue(api, 'q', { payload: 1 });
    api.close();
    await stopServer(server);
  });
});
