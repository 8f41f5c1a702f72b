// SPDX-License-Identifier: Apache-2.0
// The tasks API: exact numbers, statuses and refusals (TF-1 … TF-5, TF-9). Each state is checked through /v1 or SQL.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import path from 'node:path';
import { test } from 'node:test';

import { only, testBackend } from '../lib/backend.mjs';
import { Client } from '../lib/client.mjs';
import { startServer, stopServer, until } from '../lib/server.mjs';
import { onStores } from '../lib/suite.mjs';

const ok = (answer, status = 200) => {
  assert.equal(answer.status, status, answer.text);
  return answer.json;
};
const create = async (api, more = {}) => ok(await api.post('/api/tasks', { name: 'report', ...more }), 201);
const get = async (api, id) => ok(await api.get(`/api/tasks/${id}`));
const claim = async (api, more = {}) => ok(await api.post('/api/tasks/claim', more)).tasks;
const act = async (api, id, word, body = {}) => ok(await api.post(`/api/tasks/${id}/${word}`, body));
const native = async (api, id) => ok(await api.get(`/v1/jobs/${id}`));
const advance = async (api, ms) => ok(await api.post('/v1/test/clock', { advance_ms: ms }));
const now = async (api) => Date.parse(ok(await api.get('/v1/test/clock')).now);

let queues = 0;
const freshQueue = () => `clauses-${process.pid}-${++queues}`;

onStores('clauses of tasks', ['memory', 'sqlite'], { args: ['--test-clock'] }, (use) => {
  test('TF-9 each status: in the task, in the list of that status and in no other, and the state in /v1', async () => {
    const { api } = use;
    const queue = freshQueue();
    const at = new Date((await now(api)) + 3_600_000).toISOString();
    const ids = {};
    const end = async (word, more) => {
      const { id } = await create(api, { queue, max_retries: 0 });
      assert.equal((await claim(api, { queue }))[0].id, id);
      await act(api, id, word, more);
      return id;
    };
    ids.SCHEDULED = (await create(api, { queue, scheduled_at: at })).id;
    ids.COMPLETED = await end('complete', { result: 1 });
    ids.FAILED = await end('fail', { error: 'x' });
    ids.IN_PROGRESS = (await create(api, { queue })).id;
    assert.equal((await claim(api, { queue })).length, 1);
    ids.CANCELLED = (await create(api, { queue })).id;
    ok(await api.post(`/v1/jobs/${ids.CANCELLED}/cancel`, {}));
    ids.QUEUED = (await create(api, { queue })).id;
    const states = { SCHEDULED: 'scheduled', QUEUED: 'ready', IN_PROGRESS: 'running', COMPLETED: 'done', FAILED: 'dead', CANCELLED: 'cancelled' };
    for (const [status, id] of Object.entries(ids)) {
      assert.deepEqual([(await get(api, id)).status, (await native(api, id)).state], [status, states[status]]);
      const answer = await api.get(`/api/tasks?queue=${queue}&status=${status}`);
      assert.deepEqual([ok(answer).map((task) => task.id), answer.headers['x-total-count']], [[id], '1'], status);
    }
    assert.deepEqual(ok(await api.get(`/api/tasks?queue=${queue}&status=PENDING`)), []);
    assert.deepEqual(ok(await api.get(`/api/tasks?queue=${queue}`)).map((task) => task.id).sort(), Object.values(ids).sort());
    ok(await api.delete(`/v1/queues/tasks.${queue}.low`));
  });

  test('TF-4 TF-9 a task is SCHEDULED until its time, QUEUED at it, also when its time has passed at the create', async () => {
    const { api } = use;
    const queue = freshQueue();
    const start = await now(api);
    const made = await create(api, { queue, scheduled_at: new Date(start + 5000).toISOString(), wait_queued: true });
    assert.deepEqual([made.status, made.pending_reason], ['SCHEDULED', undefined], 'a create does not wait for the time of a task');
    await advance(api, 4999);
    assert.equal((await get(api, made.id)).status, 'SCHEDULED');
    const past = await create(api, { queue, scheduled_at: new Date(start - 60_000).toISOString() });
    assert.equal(past.status, 'QUEUED');
    assert.equal(past.scheduled_at, new Date(start - 60_000).toISOString());
    await advance(api, 1);
    assert.equal((await get(api, made.id)).status, 'QUEUED');
    assert.deepEqual((await claim(api, { queue, count: 5 })).map((task) => task.id), [past.id, made.id], 'oldest first');
    ok(await api.delete(`/v1/queues/tasks.${queue}.low`));
  });

  test('TF-5 a worker that is gone: the run is counted at 300 s, not earlier; with max_retries 0 the first is the last', async () => {
    const { api, server } = use;
    const queue = freshQueue();
    const once = await create(api, { queue, max_retries: 0 });
    const again = await create(api, { queue, max_retries: 1 });
    await claim(api, { queue, count: 2, worker: 'gone' });
    await advance(api, 299_999);
    for (const { id } of [once, again]) assert.deepEqual([(await get(api, id)).status, (await native(api, id)).crashes], ['IN_PROGRESS', 0]);
    await advance(api, 1);
    const failed = await get(api, once.id);
    assert.deepEqual([failed.status, failed.retry_count, failed.error], ['FAILED', 0, 'Timeout after 300s']);
    assert.deepEqual([(await native(api, once.id)).state, (await native(api, once.id)).crashes], ['dead', 1]);
    await until('it is logged as an error', () => server.stderr.split('\n').some((line) => /\berror task_failed\b/.test(line) && line.includes(once.id)));
    const back = await get(api, again.id);
    assert.deepEqual([back.status, back.retry_count, back.worker], ['QUEUED', 1, null]);
    assert.deepEqual((await claim(api, { queue, count: 5, worker: 'next' })).map((task) => [task.id, task.worker]), [[again.id, 'next']]);
    assert.equal((await act(api, again.id, 'fail', { error: 'smtp' })).status, 'FAILED', 'failures and crashes share the count');
    ok(await api.delete(`/v1/queues/tasks.${queue}.low`));
  });

  test('TF-2 TF-9 a task without a priority is low; its two queues are the same as those of /v1', async () => {
    const { api } = use;
    const queue = freshQueue();
    for (const priority of [undefined, 'low', 'high']) {
      const task = await create(api, { queue, priority });
      assert.equal(task.priority, priority ?? 'low');
      assert.equal((await native(api, task.id)).queue, `tasks.${queue}.${priority ?? 'low'}`);
    }
    const answer = await api.post('/api/tasks', { name: 'x', queue, priority: 'medium' });
    assert.deepEqual([answer.status, answer.json.field, answer.json.allowed?.sort()], [422, 'priority', ['high', 'low']], answer.text);
    const depth = async (side) => ok(await api.get(`/v1/queues/tasks.${queue}.${side}`)).counts.ready;
    assert.deepEqual([await depth('high'), await depth('low')], [1, 2]);
    for (const side of ['high', 'low']) ok(await api.delete(`/v1/queues/tasks.${queue}.${side}`));
  });

  test('TF-1 TF-9 a task has the priority it was given, in every list and claim of /v1', async () => {
    const { api } = use;
    const queue = freshQueue();
    const given = { high: 10, low: -10 };
    for (const [priority, number] of Object.entries(given)) {
      const { id } = await create(api, { queue, priority });
      const name = `tasks.${queue}.${priority}`;
      const shown = async (where) => ok(await api.get(where)).jobs.filter((one) => one.id === job.id).map((one) => [one.priority, one.priority_label]);
      const job = await native(api, id);
      for (const where of [`/v1/jobs?queue=${name}`, `/v1/jobs?queue=${name}&state=ready`, `/v1/jobs?queue=${name}&payload=false`, '/v1/jobs?limit=1000', `/v1/queues/${name}/jobs`, `/v1/queues/${name}/peek`])
        assert.deepEqual((await shown(where)).map(([shownNumber]) => shownNumber), [number], where);
      assert.deepEqual([job.priority, job.priority_label], [number, priority]);
      const { jobs } = ok(await api.post(`/v1/queues/${name}/claim`, {}));
      assert.deepEqual(jobs.map((one) => [one.id, one.priority]), [[job.id, number]]);
      for (const state of ['running', 'done']) {
        assert.deepEqual((await shown(`/v1/jobs?queue=${name}&state=${state}`)).map(([shownNumber]) => shownNumber), [number], state);
        if (state === 'running') ok(await api.post(`/v1/jobs/${job.id}/ack`, { token: jobs[0].token }));
      }
      ok(await api.delete(`/v1/queues/${name}`));
    }
  });

  test('TF-1 a claim skips the row that another transaction has locked, and does not wait for it', { skip: testBackend !== 'postgres' && 'of PostgreSQL' }, async () => {
    const { api, server } = use;
    const queue = freshQueue();
    const socket = decodeURIComponent(process.env.HF_POSTGRES.replace(/.*host=/, ''));
    const schema = `e2e_${path.basename(server.data).toLowerCase().replaceAll(/[^a-z0-9]/g, '_')}`;
    const made = [];
    for (let i = 0; i < 3; i++) made.push(await create(api, { queue }));
    const other = spawn('psql', ['-h', socket, '-U', 'holdfast', '-d', 'postgres', '-qAt'], { stdio: ['pipe', 'pipe', 'inherit'] });
    try {
      let said = '';
      other.stdout.on('data', (chunk) => (said += chunk));
      const { seq } = await native(api, made[0].id);
      other.stdin.write(`BEGIN;\nSELECT 'locked', seq FROM ${schema}.job WHERE seq = ${seq} FOR UPDATE;\n`);
      await until('the row is locked', () => said.includes(`locked|${seq}`));
      assert.deepEqual((await claim(api, { queue })).map((task) => task.id), [made[1].id]);
      other.stdin.write('ROLLBACK;\nSELECT \'free\';\n');
      await until('the row is free', () => said.includes('free'));
      assert.deepEqual((await claim(api, { queue, count: 2 })).map((task) => task.id).sort(), [made[0].id, made[2].id].sort());
    } finally {
      other.kill();
    }
    ok(await api.delete(`/v1/queues/tasks.${queue}.low`));
  });
});

test('TF-3 TF-5 the lease of the leader lasts at most 10 s; a task has 3 retries and 300 s, in /v1, too', async (t) => {
  const server = await startServer({ env: { HOLDFAST_CLUSTER_LEADER_TTL_MS: '10s' } });
  const api = new Client(server);
  t.after(() => stopServer(server));
  t.after(() => api.close());
  const { leader } = await until('there is a leader', async () => {
    const cluster = ok(await api.get('/v1/cluster'));
    return cluster.leader && cluster;
  });
  assert.equal(leader.self, true);
  if (testBackend !== 'embedded') assert.ok(leader.lease_left_ms > 0 && leader.lease_left_ms <= 10_000, JSON.stringify(leader));
  assert.equal((await create(api)).max_retries, 3);
  const { policy } = ok(await api.get('/v1/queues/tasks.low'));
  assert.deepEqual([policy.max_attempts, policy.lease_ms, policy.lease_end, policy.by_due], [4, 300_000, 'requeue_counted', true]);
});

test('TF-4 TF-8 a task that became due while no server ran is QUEUED at the start; its lag is in the histogram', only('alone'), async (t) => {
  let server = await startServer({});
  let api = new Client(server);
  t.after(() => stopServer(server));
  t.after(() => api.close());
  const due = Date.now() + 1500;
  const { id } = await create(api, { scheduled_at: new Date(due).toISOString(), name: 'lagging' });
  const lag = async (suffix) => Number((await api.get('/metrics')).text.match(new RegExp(`^holdfast_tasks_schedule_lag_seconds_${suffix} (\\S+)$`, 'm'))?.[1]);
  api.close();
  server.ownsData = false;
  await stopServer(server);
  if (Date.now() < due + 1000) await until('it has been due for a second', () => Date.now() >= due + 1000);
  const least = (Date.now() - due) / 1000;
  server = await startServer({ data: server.data });
  server.ownsData = true;
  api = new Client(server);
  await until('it is QUEUED', async () => (await get(api, id)).status === 'QUEUED');
  assert.equal((await native(api, id)).state, 'ready');
  await until('its lag is known', async () => (await lag('count')) === 1);
  assert.ok((await lag('sum')) >= least, `${await lag('sum')} s; it was due for ${least} s before the start`);
  assert.deepEqual([await lag('bucket\\{le="0.001"\\}'), await lag('bucket\\{le="\\+Inf"\\}')], [0, 1]);
});
