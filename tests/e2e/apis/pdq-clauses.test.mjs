// SPDX-License-Identifier: Apache-2.0
// The priority and delay queue: exact numbers, orders and refusals (PDQ-1, PDQ-4, PDQ-5, PDQ-10 … PDQ-15). Each state is
// checked in a second view: lists, counts, snapshot or metrics.
import assert from 'node:assert/strict';
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { only } from '../lib/backend.mjs';
import { Client } from '../lib/client.mjs';
import { processorSeconds, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { freshQueue, onStores } from '../lib/suite.mjs';

const ok = (answer, status = 200) => {
  assert.equal(answer.status, status, answer.text);
  return answer.json;
};
const refused = (answer, status, code) => {
  assert.deepEqual([answer.status, answer.json.code], [status, code], answer.text);
  return answer.json;
};
const put = async (api, queue, job) => ok(await api.post(`/v1/queues/${queue}/jobs`, job), 201);
const claim = async (api, queue, more = {}) => ok(await api.post(`/v1/queues/${queue}/claim`, more)).jobs;
const view = async (api, id) => ok(await api.get(`/v1/jobs/${id}`));
const act = async (api, job, word, more = {}) => ok(await api.post(`/v1/jobs/${job.id}/${word}`, { token: job.token, ...more }));
const counts = async (api, queue) => ok(await api.get(`/v1/queues/${queue}`)).counts;
const advance = async (api, ms) => ok(await api.post('/v1/test/clock', { advance_ms: ms }));
const now = async (api) => Date.parse(ok(await api.get('/v1/test/clock')).now);
/** The sum and count of a histogram, or the value of a counter, of a queue. */
const metric = async (api, name, queue) => Number((await api.get('/metrics')).text.match(new RegExp(`^holdfast_${name}\\{queue="${queue}"\\} (\\S+)$`, 'm'))?.[1]);

onStores('clauses of the priority and delay queue', ['memory', 'sqlite'], { args: ['--test-clock'] }, (use) => {
  test('PDQ-2 PDQ-4 a job is ready at its time and not a millisecond earlier; then its priority decides', async () => {
    const { api } = use;
    const queue = freshQueue();
    await put(api, queue, { payload: 'now' });
    await put(api, queue, { payload: 'soon', delay_ms: 1000, priority: 5 });
    await put(api, queue, { payload: 'later', delay_ms: 60_000, priority: 9 });
    await advance(api, 999);
    assert.deepEqual([(await counts(api, queue)).ready, (await counts(api, queue)).scheduled], [1, 2]);
    await advance(api, 1);
    const got = [];
    for (let jobs; (jobs = await claim(api, queue)).length; ) got.push(jobs[0].payload);
    assert.deepEqual(got, ['soon', 'now']);
    await advance(api, 59_000);
    assert.deepEqual((await claim(api, queue)).map((job) => job.payload), ['later']);
  });

  test('PDQ-5 scheduled jobs use the capacity; a batch is accepted up to it, and the rest is refused by item', async () => {
    const { api } = use;
    const queue = freshQueue();
    ok(await api.put(`/v1/queues/${queue}`, { capacity: 3 }), 201);
    await put(api, queue, { payload: 0, delay_ms: 60_000 });
    const { jobs } = ok(await api.post(`/v1/queues/${queue}/jobs`, [1, 2, 3, 4].map((payload) => ({ payload }))));
    assert.deepEqual(jobs.map((job) => job.error?.code ?? null), [null, null, 'queue_full', 'queue_full']);
    assert.deepEqual(jobs.map((job) => job.error?.status ?? 201), [201, 201, 429, 429]);
    const answer = await api.post(`/v1/queues/${queue}/jobs`, { payload: 5 });
    refused(answer, 429, 'queue_full');
    assert.match(answer.headers['retry-after'], /^[1-9]\d*$/);
    assert.deepEqual([(await counts(api, queue)).ready, (await counts(api, queue)).scheduled], [2, 1]);
    ok(await api.post(`/v1/jobs/${jobs[0].id}/cancel`, {}));
    await put(api, queue, { payload: 6 }); // a job that ended uses no capacity
    refused(await api.post(`/v1/queues/${queue}/jobs`, { payload: 7 }), 429, 'queue_full');
  });

  test('PDQ-10 depth is ready and scheduled; a snapshot without a queue has all; purge leaves what is running', async () => {
    const { api } = use;
    const queues = [freshQueue(), freshQueue()];
    const snapshot = async (query = '') => ok(await api.get(`/v1/snapshot${query}`));
    const before = await snapshot();
    for (const queue of queues) {
      for (let i = 0; i < 3; i++) await put(api, queue, { payload: i });
      await put(api, queue, { payload: 3, delay_ms: 60_000 });
    }
    const [held] = await claim(api, queues[0]);
    assert.deepEqual(Object.keys(before).filter((name) => ['depth', 'ready', 'scheduled', 'shutdown', 'redis_active'].includes(name)).sort(), ['depth', 'ready', 'redis_active', 'scheduled', 'shutdown']);
    const all = await snapshot();
    assert.deepEqual([all.depth - before.depth, all.ready - before.ready, all.scheduled - before.scheduled], [7, 5, 2]);
    const one = await snapshot(`?queue=${queues[0]}`);
    assert.deepEqual([one.depth, one.ready, one.scheduled], [3, 2, 1]);
    ok(await api.post(`/v1/queues/${queues[0]}/purge`));
    const purged = await snapshot(`?queue=${queues[0]}`);
    assert.deepEqual([purged.depth, purged.ready, purged.scheduled], [0, 0, 0]);
    assert.equal((await snapshot(`?queue=${queues[1]}`)).depth, 4, 'only the queue that is named');
    assert.equal((await act(api, held, 'ack')).state, 'done');
    ok(await api.delete(`/v1/queues/${queues[1]}`));
  });

  test('PDQ-10 the type of an exception: the class that the worker gave, otherwise business, app or crash', async () => {
    const { api } = use;
    const queue = freshQueue();
    ok(await api.put(`/v1/queues/${queue}`, { max_attempts: 1, max_crashes: 1 }), 201);
    const fails = [{ error: 'a', error_type: 'ValueError' }, { error: 'b', error_type: 'KeyError', error_kind: 'business' }, { error: 'c', error_kind: 'business' }, { error: 'd' }, {}, null];
    const ids = [];
    for (const [i, body] of fails.entries()) {
      const { id } = await put(api, queue, { payload: i });
      const [job] = await claim(api, queue, { worker: `w${i}`, lease_ms: 1000 });
      assert.equal(job.id, id);
      if (body) await act(api, job, 'fail', body);
      ids.push(id);
      await advance(api, 1000);
    }
    await until('the lease has ended', async () => (await view(api, ids[5])).state === 'dead');
    const { exceptions } = ok(await api.get(`/v1/exceptions?queue=${queue}`));
    assert.deepEqual(exceptions.map((one) => [one.job_id, one.type, one.worker]), [5, 4, 3, 2, 1, 0].map((i) => [ids[i], ['ValueError', 'KeyError', 'business', 'app', 'app', 'crash'][i], `w${i}`]));
    assert.deepEqual(exceptions.slice(2).map((one) => one.error), ['d', 'c', 'b', 'a']);
    // A failure is listed with its time, a crash with the end of its lease.
    const times = exceptions.map((one) => Date.parse(one.at));
    assert.deepEqual(times.slice(1).map((at, i) => times[i] - at), [2000, 1000, 1000, 1000, 1000]);
  });

  test('PDQ-12 the histograms have the times from ready to claimed, and from claimed to the end', async () => {
    const { api } = use;
    const queue = freshQueue();
    await put(api, queue, { payload: 1, delay_ms: 7000 });
    await advance(api, 7000);
    await advance(api, 3000);
    const [first] = await claim(api, queue);
    await advance(api, 2000);
    await act(api, first, 'fail', { error: 'x', delay_ms: 0 });
    const [second] = await claim(api, queue);
    await advance(api, 4000);
    await act(api, second, 'ack');
    assert.deepEqual([await metric(api, 'dequeue_latency_seconds_count', queue), await metric(api, 'dequeue_latency_seconds_sum', queue)], [2, 3]);
    assert.deepEqual([await metric(api, 'job_processing_seconds_count', queue), await metric(api, 'job_processing_seconds_sum', queue)], [2, 6]);
    assert.deepEqual([await metric(api, 'enqueued_total', queue), await metric(api, 'dequeued_total', queue), await metric(api, 'job_failures_total', queue)], [1, 2, 1]);
  });

  test('PDQ-14 fail and release take delay_ms or run_at, and nothing else decides when the job is ready', async () => {
    const { api } = use;
    const queue = freshQueue();
    const { id } = await put(api, queue, { payload: 1, backoff_ms: [123_000], max_attempts: 9 });
    for (const word of ['fail', 'release']) {
      for (const form of ['delay_ms', 'run_at']) {
        const [job] = await claim(api, queue);
        const due = (await now(api)) + 5000;
        const before = (await view(api, id)).failures;
        const answer = await act(api, job, word, form === 'delay_ms' ? { delay_ms: 5000 } : { run_at: new Date(due).toISOString() });
        assert.deepEqual([answer.state, Date.parse(answer.run_at)], ['scheduled', due], `${word} with ${form}`);
        assert.equal((await view(api, id)).failures - before, word === 'fail' ? 1 : 0);
        await advance(api, 4999);
        assert.deepEqual(await claim(api, queue), []);
        await advance(api, 1);
      }
    }
    const [job] = await claim(api, queue);
    for (const word of ['fail', 'release']) {
      const both = await api.post(`/v1/jobs/${id}/${word}`, { token: job.token, delay_ms: 1, run_at: new Date().toISOString() });
      assert.equal(both.status, 422, both.text);
    }
    assert.equal((await view(api, id)).state, 'running', 'a refused report changes nothing');
    assert.equal((await act(api, job, 'release', { run_at: new Date((await now(api)) - 60_000).toISOString() })).state, 'ready', 'a time that has passed');
  });

  test('PDQ-14 a waiting job is changed member by member; an ended one is refused, and nothing changes', async () => {
    const { api } = use;
    const queue = freshQueue();
    const made = await put(api, queue, { payload: { a: 1 }, priority: 2, delay_ms: 60_000, kind: 'k', correlation_id: 'c' });
    const before = await view(api, made.id);
    const change = async (members) => ok(await api.patch(`/v1/jobs/${made.id}`, members));
    await change({ priority: 7 });
    assert.deepEqual({ ...(await view(api, made.id)), priority: 2 }, before);
    await change({ payload: 'text' });
    assert.deepEqual({ ...(await view(api, made.id)), priority: 2, payload: before.payload, payload_bytes: before.payload_bytes }, before);
    const due = new Date((await now(api)) + 30_000).toISOString();
    await change({ run_at: due });
    assert.deepEqual([(await view(api, made.id)).run_at, (await view(api, made.id)).priority, (await view(api, made.id)).payload], [due, 7, 'text']);
    await advance(api, 30_000);
    const [job] = await claim(api, queue);
    assert.deepEqual([job.id, job.priority, job.payload, job.correlation_id], [made.id, 7, 'text', 'c']);
    await act(api, job, 'ack');
    const done = await view(api, made.id);
    for (const members of [{ priority: 1 }, { payload: 1 }, { run_at: due }]) refused(await api.patch(`/v1/jobs/${made.id}`, members), 409, 'illegal_move');
    assert.deepEqual(await view(api, made.id), done);
  });

  test('PDQ-15 the history has the newest 20 attempts; the counts have all of them', async () => {
    const { api } = use;
    const queue = freshQueue();
    const { id } = await put(api, queue, { payload: 1, max_attempts: 100 });
    for (let i = 1; i <= 25; i++) {
      const [job] = await claim(api, queue, { worker: `w${i}` });
      assert.equal(job.attempt, i);
      await act(api, job, 'fail', { error: `error ${i}`, delay_ms: 0 });
    }
    await claim(api, queue, { worker: 'last' });
    const { history, attempts, failures } = await view(api, id);
    assert.deepEqual([attempts, failures], [26, 25]);
    assert.deepEqual(history.map((one) => one.number), Array.from({ length: 20 }, (_, i) => i + 7));
    for (const one of history.slice(0, -1)) assert.deepEqual([one.worker, one.outcome, one.error], [`w${one.number}`, 'failed', `error ${one.number}`]);
    assert.deepEqual([history.at(-1).worker, history.at(-1).outcome, history.at(-1).ended_at ?? null], ['last', 'running', null]);
  });
});

test('PDQ-1 PDQ-5 QUEUE_SETTINGS: lower numbers first, an additional label, warn_depth of every queue, max_in_memory of the server', async (t) => {
  const file = path.join(temporaryDirectory(), 'holdfast.yaml');
  writeFileSync(file, 'QUEUE_SETTINGS:\n  priorities:\n    urgent: -3\n    high: 0\n    normal: 5\n    low: 10\n  max_in_memory: 6\n  warn_depth: 4\n');
  const server = await startServer({ backend: 'memory', args: ['--config', file] });
  const api = new Client(server);
  t.after(() => stopServer(server));
  t.after(() => api.close());
  const labels = { low: -10, normal: -5, high: 0, urgent: 3 };
  for (const [label, priority] of Object.entries(labels)) {
    const { id } = await put(api, 'pdq', { payload: label, priority: label });
    const { priority: number, priority_label } = await view(api, id);
    assert.deepEqual([priority_label, number], [label, priority]);
  }
  const told = () => server.stderr.split('\n').filter((line) => /\bqueue_deep\b/.test(line) && /\bqueue=pdq\b/.test(line));
  await until('the depth is logged', () => told().length > 0);
  const problem = refused(await api.post('/v1/queues/pdq/jobs', { payload: 1, priority: 'asap' }), 422, 'invalid_field');
  assert.deepEqual([problem.field, problem.allowed.sort()], ['priority', ['high', 'low', 'normal', 'urgent']]);
  for (const queue of ['a', 'b']) await put(api, queue, { payload: 1, delay_ms: 60_000 });
  const full = await api.post('/v1/queues/c/jobs', { payload: 1, priority: 'urgent' });
  refused(full, 429, 'server_full');
  assert.match(full.headers['retry-after'], /^[1-9]\d*$/);
  const got = [];
  for (let i = 0; i < 4; i++) got.push(...(await claim(api, 'pdq')));
  assert.deepEqual(got.map((job) => [job.payload, job.priority_label]), ['urgent', 'high', 'normal', 'low'].map((label) => [label, label]));
  refused(await api.post('/v1/queues/c/jobs', { payload: 1 }), 429, 'server_full'); // running jobs use the capacity, too
  await act(api, got[0], 'ack');
  await put(api, 'c', { payload: 1 });
  assert.equal(told().length, 1, 'once');
});

test('PDQ-6 the in-memory engine writes no file, and is empty after a restart; nothing else chooses it', only('memory'), async (t) => {
  const written = (dir) => readdirSync(dir, { recursive: true }).filter((name) => statSync(path.join(dir, name)).size > 0);
  const server = await startServer({ backend: 'memory' });
  const api = new Client(server);
  t.after(() => stopServer(server));
  t.after(() => api.close());
  for (let i = 0; i < 50; i++) await put(api, 'kept', { payload: 'x'.repeat(10_000), delay_ms: i % 2 ? 60_000 : 0 });
  const [job] = await claim(api, 'kept');
  await act(api, job, 'ack');
  assert.deepEqual(await counts(api, 'kept').then(({ ready, scheduled, done }) => [ready, scheduled, done]), [24, 25, 1]);
  assert.equal(ok(await api.get('/v1/server')).durable, false);
  assert.deepEqual(written(server.data), []);
  const again = await startServer({ backend: 'memory', data: server.data });
  const other = new Client(again);
  t.after(() => stopServer(again));
  t.after(() => other.close());
  assert.equal((await other.get('/v1/queues/kept')).status, 404);
  const files = await startServer({});
  const third = new Client(files);
  t.after(() => stopServer(files));
  t.after(() => third.close());
  await put(third, 'kept', { payload: 1 });
  assert.equal(ok(await third.get('/v1/server')).durable, true);
  assert.notDeepEqual(written(files.data), []);
});

test('PDQ-4 a claim that waits uses no processor time, and ends after its timeout', async (t) => {
  const server = await startServer({ backend: 'memory' });
  t.after(() => stopServer(server));
  const clients = Array.from({ length: 40 }, () => new Client(server));
  const wait_ms = 4000;
  await put(clients[0], 'idle', { payload: 1, delay_ms: 3_600_000 });
  const used = async (calls) => {
    const before = processorSeconds(server);
    await calls();
    return processorSeconds(server) - before;
  };
  // The same requests without waiting show what sending them costs on this machine.
  const sending = await used(() => Promise.all(clients.map((api) => claim(api, 'idle'))));
  const waiting = await used(async () => {
    const begun = performance.now();
    const replies = await Promise.all(clients.map((api) => claim(api, 'idle', { wait_ms })));
    assert.ok(replies.every((jobs) => jobs.length === 0));
    assert.ok(performance.now() - begun >= wait_ms - 1);
  });
  for (const api of clients) api.close();
  assert.ok(waiting <= 2 * sending + 1, `${waiting} s of processor time for ${clients.length} claims that wait for ${wait_ms} ms; ${sending} s without waiting`);
});
