// SPDX-License-Identifier: Apache-2.0
// HF-28: jobs that depend on others, graphs in one request, and batches with a final job (docs/howto/dependencies-and-batches.md).
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { has } from '../lib/backend.mjs';
import { Client, openStream } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { killServer, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue, onStores } from '../lib/suite.mjs';

const state = async (api, id) => (await api.get(`/v1/jobs/${id}`)).json.state;
const reaches = (api, id, wanted) => until(`job ${id} is ${wanted}`, async () => (await state(api, id)) === wanted);
const ack = async (api, q) => {
  const job = await claimOne(api, q);
  const answer = await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token });
  assert.equal(answer.status, 200, answer.text);
  return job;
};

onStores('dependencies', ['memory', 'sqlite'], {}, (use) => {
  test('HF-28: a job waits for the jobs that it depends on', async () => {
    const { api, server } = use;
    const q = freshQueue();
    const events = await openStream(server, `/v1/events?queue=${q}-after`).opened;
    const a = await enqueue(api, q, { payload: 'a' });
    const b = await enqueue(api, q, { payload: 'b' });
    const made = await api.post(`/v1/queues/${q}-after/jobs`, { payload: 'c', depends_on: [a.id, b.id], on_dependency_failure: 'dead' });
    assert.equal(made.status, 201, made.text);
    assert.equal(made.json.state, 'blocked');
    const view = (await api.get(`/v1/jobs/${made.json.id}?dependencies=true`)).json;
    assert.equal(view.state, 'blocked');
    assert.equal(view.on_dependency_failure, 'dead');
    assert.deepEqual(view.dependencies, { total: 2, waiting: 2, done: 0, dead: 0, cancelled: 0, removed: 0 });
    assert.deepEqual(view.waits_for.sort(), [a.id, b.id].sort());
    assert.equal((await api.get(`/v1/queues/${q}-after`)).json.counts.blocked, 1);
    assert.equal((await api.get(`/v1/jobs?queue=${q}-after&state=blocked`)).json.jobs.length, 1);
    assert.match((await api.get('/metrics')).text, /holdfast_queue_depth\{[^}]*-after",state="blocked"\} 1/);
    assert.equal((await api.post(`/v1/queues/${q}-after/claim`, {})).json.jobs.length, 0);
    await ack(api, q);
    await ack(api, q);
    const job = await ack(api, `${q}-after`);
    assert.equal(job.id, made.json.id);
    const seen = [];
    while (seen.at(-1) !== 'done') {
      const event = await events.next();
      if (JSON.parse(event.data).job?.id === made.json.id) seen.push(event.event);
    }
    assert.deepEqual(seen, ['enqueued', 'unblocked', 'claimed', 'done']);
    events.close();
  });

  test('HF-28: a graph is enqueued in one request, all or nothing', async () => {
    const { api } = use;
    const q = freshQueue();
    const path = `/v1/queues/${q}/jobs`;
    const answer = await api.post(path, [{ payload: 0 }, { payload: 1 }, { payload: 2, depends_on: ['#0', '#1'] }, { payload: 3, depends_on: ['#2'] }]);
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual(answer.json.jobs.map((job) => job.state), ['ready', 'ready', 'blocked', 'blocked']);
    for (const jobs of [[{ payload: 0, depends_on: ['#0'] }], [{ payload: 0, depends_on: ['#1'] }, { payload: 1 }], [{ payload: 0 }, { payload: 1, depends_on: ['#0', 'x'] }], [{ payload: 0, depends_on: ['#-1'] }],
      [{ payload: 0 }, { priority: 'hgh', depends_on: ['#0'] }], [{ payload: 0 }, { bogus: 1, depends_on: ['#0'] }], [{ payload: 0 }, { depends_on: ['#99999999'] }]]) {
      const refused = await api.post(path, jobs);
      assert.notEqual(refused.json.jobs?.[0]?.created, true, refused.text);
    }
    assert.deepEqual((await api.get(`/v1/queues/${q}`)).json.counts.ready, 2);
    const order = [];
    for (let i = 0; i < 4; i++) order.push((await ack(api, q)).payload);
    assert.deepEqual([order.slice(0, 2).sort(), order.slice(2)], [[0, 1], [2, 3]]);
  });

  test('HF-28: unknown jobs are refused with a sentence that names them', async () => {
    const { api } = use;
    const q = freshQueue();
    const a = await enqueue(api, q, { payload: 1 });
    await api.delete(`/v1/jobs/${a.id}`);
    const refused = await api.post(`/v1/queues/${q}/jobs`, { payload: 2, depends_on: [a.id] });
    assert.equal(refused.status, 422, refused.text);
    assert.match(refused.json.detail, new RegExp(`^depends_on\\[0\\]: job ${a.id} does not exist`));
    const b = await enqueue(api, q, { payload: 1 });
    const number = await api.post(`/v1/queues/${q}/jobs`, { payload: 2, depends_on: [b.id, String(a.seq)] });
    assert.match(number.json.detail, new RegExp(`^depends_on\\[1\\]: job ${a.seq} does not exist`));
    const open = (await api.post('/v1/batches', { jobs: [], then: { queue: q }, open: true })).json;
    const added = await api.post(`/v1/jobs/${open.batch}/dependencies`, { depends_on: [String(a.seq)] });
    assert.match(added.json.detail, new RegExp(`^depends_on\\[0\\]: job ${a.seq} does not exist`));
    await api.delete(`/v1/jobs/${open.batch}`);
    assert.equal((await api.post(`/v1/queues/${q}/jobs`, { payload: 2, on_dependency_failure: 'run' })).status, 422);
  });

  test('HF-28: the final job of a batch runs once, after all others', async () => {
    const { api } = use;
    const q = freshQueue();
    const body = { jobs: [0, 1, 2].map((n) => ({ queue: q, payload: n })), then: { queue: `${q}-then`, payload: 'then' }, on_failure: 'run' };
    const made = await api.post('/v1/batches', body, { headers: { 'idempotency-key': `batch-${q}` } });
    assert.equal(made.status, 201, made.text);
    assert.equal(made.json.batch, made.json.then.id);
    assert.equal(made.json.jobs.length, 3);
    const again = await api.post('/v1/batches', body, { headers: { 'idempotency-key': `batch-${q}` } });
    assert.equal(again.status, 200, again.text);
    assert.equal(again.json.batch, made.json.batch);
    assert.deepEqual(again.json.jobs.map((job) => job.id), made.json.jobs.map((job) => job.id));
    await ack(api, q);
    assert.equal((await api.post(`/v1/jobs/${made.json.jobs[1].id}/cancel`, {})).status, 200);
    const batch = await until('two have ended', async () => {
      const got = (await api.get(`/v1/batches/${made.json.batch}`)).json;
      return got.counts.waiting === 1 && got;
    });
    assert.deepEqual(batch.counts, { total: 3, waiting: 1, done: 1, dead: 0, cancelled: 1, removed: 0 });
    assert.deepEqual([batch.open, batch.on_failure, batch.then.state], [false, 'run', 'blocked']);
    await ack(api, q);
    const then = await ack(api, `${q}-then`);
    assert.equal(then.id, made.json.batch);
    assert.equal((await api.get(`/v1/batches/${made.json.batch}`)).json.then.state, 'done');
    assert.equal((await api.get(`/v1/batches/${made.json.jobs[0].id}`)).status, 404);
  });

  test('HF-28: a refused job refuses the batch, and says which', async () => {
    const { api } = use;
    const q = freshQueue();
    for (const [body, where] of [
      [{ jobs: [{ queue: q }, { queue: q, delay_ms: -1 }], then: { queue: q } }, /jobs\[1\]/],
      [{ jobs: [{ queue: q }], then: { queue: '' } }, /then/],
      [{ jobs: [{ queue: q }], then: { queue: q, depends_on: ['#7'] } }, /then/],
    ]) {
      const refused = await api.post('/v1/batches', body);
      assert.equal(refused.status, 422, refused.text);
      assert.match(refused.json.detail, where);
    }
    assert.equal((await api.get(`/v1/queues/${q}`)).status, 404);
  });

  test('HF-28: an Idempotency-Key belongs to the whole batch', async () => {
    const { api } = use;
    const q = freshQueue();
    const key = { headers: { 'idempotency-key': `whole-${q}` } };
    const jobs = [{ queue: q, payload: 1 }, { queue: q, payload: 2 }];
    const body = { jobs, then: { queue: `${q}-then` } };
    const first = await api.post('/v1/batches', body, key);
    assert.equal(first.status, first.repeated ? 200 : 201, first.text);
    const others = [{ ...body, jobs: [...jobs, { queue: q, payload: 3 }] }, { ...body, jobs: jobs.slice(1) }, { ...body, on_failure: 'run' }];
    for (const other of others) {
      const refused = await api.post('/v1/batches', other, key);
      assert.equal(refused.json.code, 'key_reused', refused.text);
    }
    assert.equal((await api.get(`/v1/queues/${q}`)).json.counts.ready, 2);
    const open = (await api.post('/v1/batches', { jobs: [], then: { queue: `${q}-open` }, open: true }, { headers: { 'idempotency-key': `a-${q}` } })).json;
    const more = (await api.post('/v1/batches', { jobs: [], then: { queue: `${q}-open` }, open: true }, { headers: { 'idempotency-key': `b-${q}` } })).json;
    const add = (batch) => api.post(`/v1/batches/${batch}/jobs`, { jobs: [{ queue: q, payload: 4, idempotency_key: `own-${q}` }] });
    assert.equal((await add(open.batch)).status, 200);
    assert.equal((await add(open.batch)).json.jobs[0].created, false);
    assert.equal((await add(more.batch)).json.code, 'key_reused');
    assert.equal((await api.get(`/v1/batches/${open.batch}`)).json.counts.total, 1);
  });

  test('HF-28: only a batch that is open says so', async () => {
    const { api } = use;
    const q = freshQueue();
    const made = (await api.post('/v1/batches', { jobs: [], then: { queue: q }, open: true }, { headers: { 'idempotency-key': `o-${q}` } })).json;
    const path = `/v1/batches/${made.batch}`;
    assert.equal((await api.get(path)).json.open, true);
    assert.equal((await api.get(`/v1/jobs/${made.batch}`)).json.open, true);
    await api.post(`/v1/jobs/${made.batch}/cancel`, {});
    assert.equal((await api.get(path)).json.open, false);
    assert.equal((await api.get(`/v1/jobs/${made.batch}`)).json.open, undefined);
    for (const refused of [await api.post(`${path}/close`), await api.post(`${path}/jobs`, { jobs: [{ queue: q }] })]) {
      assert.equal(refused.json.code, 'illegal_move', refused.text);
      assert.match(refused.json.detail, /the job is not open/);
    }
    const rule = await api.post('/v1/batches', { jobs: [], then: { queue: q, on_dependency_failure: 'run' } });
    assert.match(rule.json.detail, /the rule of a batch is its on_failure/);
  });

  test('HF-28: an open batch gets more jobs until it is closed', async () => {
    const { api } = use;
    const q = freshQueue();
    const made = await api.post('/v1/batches', { jobs: [], then: { queue: `${q}-then` }, open: true });
    assert.equal(made.status, 201, made.text);
    const path = `/v1/batches/${made.json.batch}`;
    for (let i = 0; i < 2; i++) {
      const more = await api.post(`${path}/jobs`, { jobs: [{ queue: q }, { queue: q }] });
      assert.equal(more.status, 200, more.text);
    }
    for (let i = 0; i < 4; i++) await ack(api, q);
    assert.equal(await state(api, made.json.batch), 'blocked');
    const closed = await api.post(`${path}/close`);
    assert.equal(closed.status, 200, closed.text);
    assert.equal(closed.json.counts.total, 4);
    await reaches(api, made.json.batch, 'ready');
    const late = await api.post(`${path}/jobs`, { jobs: [{ queue: q }] });
    assert.equal(late.status, 409, late.text);
  });
});

test('HF-28: a batch of 10,000 jobs survives kill -9, and its final job runs once', async () => {
  const data = temporaryDirectory();
  let server = await startServer({ data });
  let api = new Client(server);
  const made = (await api.post('/v1/batches', { jobs: [], then: { queue: 'then' }, open: true })).json;
  for (let i = 0; i < 10; i++) {
    const more = await api.post(`/v1/batches/${made.batch}/jobs`, { jobs: Array.from({ length: 1000 }, () => ({ queue: 'many' })) });
    assert.equal(more.status, 200, more.text);
  }
  assert.equal((await api.post(`/v1/batches/${made.batch}/close`)).json.counts.total, 10_000);
  let left = 10_000;
  for (let round = 0; left > 0; round++) {
    const { jobs } = (await api.post('/v1/queues/many/claim', { count: 1000 })).json;
    const acked = (await api.post('/v1/ack', { jobs: jobs.map(({ id, token }) => ({ id, token })) })).json.jobs;
    left -= acked.filter((job) => job.state === 'done').length;
    if (round % 3 !== 1) continue;
    api.close();
    await killServer(server);
    server = await startServer({ data });
    api = new Client(server);
    if (left > 0) assert.equal(await state(api, made.batch), 'blocked');
  }
  assert.equal((await ack(api, 'then')).id, made.batch);
  assert.equal((await api.post('/v1/queues/then/claim', {})).json.jobs.length, 0);
  assert.equal((await api.get(`/v1/batches/${made.batch}`)).json.counts.done, 10_000);
  api.close();
  await stopServer(server);
  if (!has('files')) return;
  const checked = await run(['check', data]);
  assert.equal(checked.code, 0, checked.stdout + checked.stderr);
});

test('HF-28: a job starts with the end of the last one, not with the next heartbeat', async () => {
  const server = await startServer({ env: { HOLDFAST_CLUSTER_LEADER_TTL_MS: '10m', HOLDFAST_CLUSTER_SILENT_MS: '15m' } });
  const api = new Client(server);
  for (let i = 0; i < 3; i++) {
    const { json } = await api.post('/v1/queues/a/jobs', [{ payload: 0 }, { payload: 1, depends_on: ['#0'] }]);
    await ack(api, 'a');
    const next = (await api.post('/v1/queues/a/claim', { wait_ms: 30_000 })).json.jobs[0];
    assert.equal(next?.id, json.jobs[1].id);
    await api.post(`/v1/jobs/${next.id}/ack`, { token: next.token });
  }
  api.close();
  await stopServer(server);
});
