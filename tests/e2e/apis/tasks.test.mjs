// SPDX-License-Identifier: Apache-2.0
// Tasks: TF-4, TF-5, TF-8, TF-9 and TF-10 on the embedded store, checked through /v1.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { only } from '../lib/backend.mjs';
import { Client } from '../lib/client.mjs';
import { problem, status } from '../lib/expect.mjs';
import { refusalFault } from '../lib/problem.mjs';
import { killServer, startServer, stopServer, until } from '../lib/server.mjs';
import { onStores, trace } from '../lib/suite.mjs';

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const create = async (api, more = {}) => status(await api.post('/api/tasks', { name: 'send_mail', ...more }), 201);
const get = async (api, id) => status(await api.get(`/api/tasks/${id}`), 200);
const claim = async (api, more = {}) => status(await api.post('/api/tasks/claim', more), 200).tasks;
const native = async (api, id) => status(await api.get(`/v1/jobs/${id}`), 200);
const act = (api, id, word, body = {}) => api.post(`/api/tasks/${id}/${word}`, body);
const drain = async (api) => {
  for (let tasks; (tasks = await claim(api, { count: 100 })).length; ) for (const task of tasks) status(await act(api, task.id, 'complete', { token: task.token }), 200);
};
const advance = async (api, ms) => status(await api.post('/v1/test/clock', { advance_ms: ms }), 200);
const now = async (api) => Date.parse(status(await api.get('/v1/test/clock'), 200).now);
const figures = async (api) => {
  const text = (await api.get('/metrics')).text;
  return Object.fromEntries([...text.matchAll(/^holdfast_tasks_(\S+) (\S+)$/gm)].map(([, name, value]) => [name, Number(value)]));
};

onStores('tasks', ['memory', 'sqlite'], { args: ['--test-clock'] }, (use) => {
  test('HF-20: the trace context of a request is copied into the headers of the task', async () => {
    const { api } = use;
    const created = status(await api.post('/api/tasks', { name: 'send_mail' }, { headers: trace }), 201);
    assert.deepEqual((await native(api, created.id)).headers, trace);
    assert.equal((await native(api, (await create(api)).id)).headers, undefined);
  });

  test('TF-9 create, get, claim, heartbeat, complete: the statuses in order', async () => {
    const { api } = use;
    await drain(api);
    const at = new Date((await now(api)) + 60_000).toISOString();
    const made = await create(api, { payload: { to: 'ann' }, priority: 'high', scheduled_at: at, max_retries: 1 });
    assert.match(made.id, uuid);
    assert.deepEqual(
      { ...made, id: 0, created_at: 0, updated_at: 0 },
      {
        id: 0, name: 'send_mail', payload: { to: 'ann' }, queue: 'default', priority: 'high', status: 'SCHEDULED', scheduled_at: at, retry_count: 0, max_retries: 1, worker: null,
        result: null, error: null, created_at: 0, updated_at: 0,
      },
    );
    const job = await native(api, made.id);
    assert.deepEqual([job.state, job.queue, job.max_attempts], ['scheduled', 'tasks.high', 2]);
    assert.deepEqual(await claim(api), []);
    await advance(api, 60_000);
    assert.equal((await get(api, made.id)).status, 'QUEUED', 'dispatched when due');
    const [held] = await claim(api, { worker: 'w1' });
    assert.equal(held.id, made.id);
    assert.deepEqual([held.status, held.worker], ['IN_PROGRESS', 'w1']);
    assert.equal((await native(api, made.id)).state, 'running');
    const renewed = status(await act(api, made.id, 'heartbeat', { token: held.token }), 200);
    assert.equal(renewed.status, 'IN_PROGRESS');
    const done = status(await act(api, made.id, 'complete', { token: held.token, result: { sent: true } }), 200);
    assert.deepEqual([done.status, done.result], ['COMPLETED', { sent: true }]);
    assert.equal((await native(api, made.id)).state, 'done');
    assert.equal(status(await act(api, made.id, 'complete', { token: held.token }), 200).status, 'COMPLETED', 'said twice is said once');
    problem(await act(api, made.id, 'complete'), 409, 'illegal_move');
    problem(await act(api, made.id, 'heartbeat', { token: held.token }), 409, 'lease_lost');
    // Without a time, and without a priority.
    const plain = await create(api);
    assert.deepEqual([plain.status, plain.priority, plain.scheduled_at, plain.payload, plain.max_retries], ['QUEUED', 'low', null, null, 3]);
    assert.equal((await native(api, plain.id)).queue, 'tasks.low');
  });

  test('TF-9 fail counts a retry and makes the task PENDING again, or FAILED at last', async () => {
    const { api } = use;
    await drain(api);
    const made = await create(api, { max_retries: 1 });
    const [first] = await claim(api);
    const back = status(await act(api, made.id, 'fail', { token: first.token, error: 'smtp' }), 200);
    assert.deepEqual([back.status, back.retry_count, back.error], ['QUEUED', 1, 'smtp']);
    await claim(api);
    const failed = status(await act(api, made.id, 'fail', { error: 'smtp again' }), 200);
    assert.deepEqual([failed.status, failed.retry_count], ['FAILED', 1]);
    assert.deepEqual([(await native(api, made.id)).state, (await native(api, made.id)).failures], ['dead', 2]);
    const hopeless = await create(api, { max_retries: 5 });
    await claim(api);
    assert.equal(status(await act(api, hopeless.id, 'fail', { retry: false }), 200).status, 'FAILED');
    assert.deepEqual(await claim(api), []);
  });

  test('TF-9 a move that the status does not allow lists the allowed ones, with the names of this API', async () => {
    const { api } = use;
    await drain(api);
    const legal = async (id, wanted, ...words) => {
      for (const word of words) assert.deepEqual(problem(await act(api, id, word), 409, 'illegal_move').legal_moves ?? [], wanted, word);
    };
    const later = await create(api, { scheduled_at: new Date((await now(api)) + 60_000).toISOString() });
    await legal(later.id, [], 'heartbeat', 'complete', 'fail', 'claim');
    const made = await create(api);
    await legal(made.id, ['claim'], 'heartbeat', 'complete', 'fail');
    const [held] = await claim(api);
    await legal(made.id, ['heartbeat', 'complete', 'fail'], 'claim');
    status(await act(api, made.id, 'complete', { token: held.token }), 200);
    await legal(made.id, [], 'heartbeat', 'complete', 'fail', 'claim');
    await advance(api, 60_000);
  });

  test('HF-28 a claim that a limit of the queue refuses names the limit', async () => {
    const { api } = use;
    await drain(api);
    const tasks = [await create(api, { queue: 'limited' }), await create(api, { queue: 'limited' })];
    const { queue } = await native(api, tasks[0].id);
    status(await api.patch(`/v1/queues/${queue}`, { max_running: 1 }), 200);
    const first = status(await act(api, tasks[0].id, 'claim'), 200);
    const refused = await act(api, tasks[1].id, 'claim');
    assert.equal(refused.json.code, 'illegal_move', refused.text);
    assert.match(refused.json.detail, /as its max_running allows/);
    assert.deepEqual([refused.json.state, refused.json.legal_moves], [undefined, undefined]);
    status(await act(api, tasks[0].id, 'complete', { token: first.token }), 200);
    await drain(api);
  });

  test('TF-9 a heartbeat updates updated_at, and the lease', async () => {
    const { api } = use;
    await drain(api);
    const made = await create(api);
    await claim(api);
    const begun = await now(api);
    await advance(api, 100_000);
    assert.equal(Date.parse((await get(api, made.id)).updated_at), begun);
    const renewed = status(await act(api, made.id, 'heartbeat'), 200);
    assert.equal(Date.parse(renewed.updated_at), begun + 100_000);
    assert.equal(Date.parse((await native(api, made.id)).lease_until), begun + 400_000, 'in /v1');
    status(await act(api, made.id, 'complete'), 200);
  });

  test('TF-1 TF-9 a task has the priority it was given, in /v1 too, and can be patched there', async () => {
    const { api } = use;
    await drain(api);
    const labels = { high: 10, low: -10 };
    for (const priority of ['high', 'low']) {
      const at = new Date((await now(api)) + 5000).toISOString();
      const made = await create(api, { priority, scheduled_at: at });
      const { priority: number, priority_label } = await native(api, made.id);
      assert.deepEqual([number, priority_label], [labels[priority], priority]);
      status(await api.patch(`/v1/jobs/${made.id}`, { priority: 3 }), 200);
      assert.equal((await native(api, made.id)).priority, 3);
      for (const job of status(await api.get(`/v1/queues/tasks.${priority}/jobs?limit=100`), 200).jobs) assert.ok(Math.abs(job.priority) <= 10, 'listed');
    }
    await advance(api, 5000);
  });

  test('TF-2 tasks of another queue are in their own pair of queues', async () => {
    const { api } = use;
    await drain(api);
    const made = await create(api, { queue: 'reports', priority: 'high', wait_queued: true });
    assert.deepEqual([made.queue, made.status], ['reports', 'QUEUED'], 'without dispatch a task that is due is QUEUED at once');
    assert.equal((await native(api, made.id)).queue, 'tasks.reports.high');
    assert.deepEqual(await claim(api), []);
    assert.deepEqual((await claim(api, { queue: 'reports' })).map((task) => task.id), [made.id]);
    assert.deepEqual(status(await api.get('/api/tasks?queue=reports'), 200).map((task) => task.id), [made.id]);
    assert.ok(!status(await api.get('/api/tasks?limit=1000'), 200).some((task) => task.id === made.id));
    assert.equal(status(await act(api, made.id, 'complete'), 200).status, 'COMPLETED');
  });

  test('TF-9 tasks are listed by status and priority, in pages', async () => {
    const { api } = use;
    await drain(api);
    const before = Number((await api.get('/api/tasks?limit=1')).headers['x-total-count']);
    const made = [];
    for (let i = 0; i < 6; i++) made.push(await create(api, { priority: i % 2 ? 'high' : 'low', payload: i }));
    const list = async (query) => status(await api.get(`/api/tasks${query}`), 200);
    const payloads = async (query) => (await list(query)).map((task) => task.payload);
    assert.deepEqual(await payloads('?status=QUEUED'), [1, 3, 5, 0, 2, 4]);
    assert.deepEqual(await payloads('?status=QUEUED&priority=low'), [0, 2, 4]);
    assert.deepEqual(await payloads('?status=QUEUED&limit=2&offset=2'), [5, 0]);
    assert.deepEqual(await payloads('?status=PENDING'), [], 'due is dispatched');
    assert.equal((await api.get('/api/tasks?limit=1')).headers['x-total-count'], String(before + 6));
    const [held] = await claim(api);
    assert.deepEqual((await list('?status=IN_PROGRESS')).map((task) => task.id), [held.id]);
    await act(api, held.id, 'complete');
    assert.ok((await list('?status=COMPLETED&limit=1000')).some((task) => task.id === held.id));
    for (const one of await list('?status=FAILED&limit=1000')) assert.equal(one.status, 'FAILED');
  });

  test('TF-4 due tasks go oldest first, at their time, in any number', async () => {
    const { api } = use;
    await drain(api);
    const start = await now(api);
    const order = [7, 3, 9, 1, 5];
    for (const s of order) await create(api, { payload: s, scheduled_at: new Date(start + s * 1000).toISOString() });
    for (let i = 0; i < 250; i++) await create(api, { payload: 100 + i, scheduled_at: new Date(start + 20_000 + i).toISOString() });
    assert.deepEqual(await claim(api, { count: 100 }), []);
    await advance(api, 5_000);
    assert.deepEqual((await claim(api, { count: 100 })).map((task) => task.payload), [1, 3, 5]);
    await advance(api, 60_000);
    const seen = [];
    for (let tasks; (tasks = await claim(api, { count: 100 })).length; ) seen.push(...tasks.map((task) => task.payload));
    assert.deepEqual(seen, [7, 9, ...Array.from({ length: 250 }, (_, i) => 100 + i)]);
  });

  test('TF-4 TF-8 counters and the lag of the schedule', async () => {
    const { api } = use;
    await drain(api);
    const before = await figures(api);
    const start = await now(api);
    await create(api);
    for (let i = 0; i < 3; i++) await create(api, { scheduled_at: new Date(start + 10_000).toISOString() });
    await advance(api, 10_000);
    await until('three found due', async () => (await figures(api)).scanned_total === before.scanned_total + 3);
    const after = await figures(api);
    assert.equal(after.queued_total - before.queued_total, 4);
    assert.equal(after.push_failures_total, 0);
    assert.equal(after.schedule_lag_seconds_count - before.schedule_lag_seconds_count, 3);
    assert.equal(after.schedule_lag_seconds_sum - before.schedule_lag_seconds_sum, 0, 'at their time');
    const [held] = await claim(api);
    await act(api, held.id, 'fail');
    await until('the returned one is queued again', async () => (await figures(api)).queued_total === after.queued_total + 1);
  });

  test('TF-5 the janitor: after 300 s without a heartbeat a task is PENDING again and counted; crashes and failures share 4 runs', async () => {
    const { api, server } = use;
    await drain(api);
    const made = await create(api, { priority: 'high' });
    await claim(api, { worker: 'alive' });
    for (let i = 0; i < 4; i++) {
      await advance(api, 299_000);
      status(await act(api, made.id, 'heartbeat', { worker: 'alive' }), 200);
    }
    assert.deepEqual([(await get(api, made.id)).status, (await get(api, made.id)).retry_count], ['IN_PROGRESS', 0], 'a live worker keeps its task');
    problem(await act(api, made.id, 'heartbeat', { worker: 'other' }), 409, 'lease_lost');
    await advance(api, 301_000);
    assert.deepEqual([(await get(api, made.id)).status, (await get(api, made.id)).retry_count], ['QUEUED', 1]);
    const [second] = await claim(api);
    assert.equal(status(await act(api, made.id, 'fail', { token: second.token }), 200).retry_count, 2);
    for (let run = 3; run <= 4; run++) {
      const [held] = await claim(api);
      assert.equal(held.id, made.id);
      await advance(api, 301_000);
      problem(await act(api, made.id, 'complete', { token: held.token }), 409, 'lease_lost');
    }
    const failed = await get(api, made.id);
    assert.deepEqual([failed.status, failed.retry_count, failed.error], ['FAILED', 3, 'Timeout after 300s'], 'it says why');
    const job = await native(api, made.id);
    assert.deepEqual([job.state, job.failures, job.crashes], ['dead', 1, 3]);
    await until('it is logged as an error', () => server.stderr.split('\n').some((line) => /\berror task_failed\b/.test(line) && line.includes(made.id)));
  });

  test('TF-10 high goes first, and low keeps its share', async () => {
    const { api } = use;
    await drain(api);
    const share = 5;
    for (let i = 0; i < 300; i++) {
      await create(api, { priority: 'low', name: 'report' });
      await create(api, { priority: 'high', name: 'otp' });
    }
    const ranks = [];
    for (let i = 0; i < 200; i++) ranks.push((await claim(api))[0].priority);
    const low = ranks.filter((rank) => rank === 'low').length;
    assert.ok(low >= (200 * share) / 100 - 1 && low <= (200 * share) / 100 + 1, `${low} of 200 were low`);
    assert.equal(ranks[0] === 'high' || ranks[1] === 'high', true);
    const many = (await claim(api, { count: 100 })).map((task) => task.priority);
    assert.equal(many.filter((rank) => rank === 'low').length, share, 'also of many at once');
    assert.deepEqual(new Set((await claim(api, { count: 10, priority: 'low' })).map((task) => task.priority)), new Set(['low']));
    // Without high tasks the low ones get all claims.
    await drain(api);
    for (let i = 0; i < 3; i++) await create(api);
    assert.equal((await claim(api, { count: 100 })).length, 3);
  });

  test('HF-16 the API does not show or change other queues', async () => {
    const { api } = use;
    const job = status(await api.post('/v1/queues/plain/jobs', { payload: 1 }), 201);
    const { uuid: id } = await native(api, job.id);
    for (const answer of [await api.get(`/api/tasks/${id}`), await act(api, id, 'complete'), await act(api, id, 'heartbeat'), await act(api, id, 'fail')]) problem(answer, 404, 'not_found');
    assert.ok(!status(await api.get('/api/tasks?limit=1000'), 200).some((task) => task.id === id));
    assert.equal((await native(api, job.id)).state, 'ready');
  });

  test('a waiting claim gets the next task of either priority', async () => {
    const { api } = use;
    await drain(api);
    for (const priority of ['low', 'high']) {
      const waiting = claim(api, { wait_ms: 20_000 });
      await until('it waits', async () => /^holdfast_claims_waiting 1$/m.test((await api.get('/metrics')).text));
      const made = await create(api, { priority });
      assert.deepEqual((await waiting).map((task) => task.id), [made.id]);
    }
  });

  test('bad input is refused by name, and nothing changes', async () => {
    const { api } = use;
    await drain(api);
    const made = await create(api, { scheduled_at: new Date((await now(api)) + 1e9).toISOString() });
    const one = `/api/tasks/${made.id}`;
    const total = (await api.get('/api/tasks')).headers['x-total-count'];
    const cases = [
      ['POST', '/api/tasks', {}, 'missing_field', 'name'],
      ['POST', '/api/tasks', { name: '' }, 'invalid_field', 'name'],
      ['POST', '/api/tasks', { name: 'x'.repeat(201) }, 'invalid_field', 'name'],
      ['POST', '/api/tasks', { name: 'x', priority: 'urgent' }, 'invalid_field', 'priority'],
      ['POST', '/api/tasks', { name: 'x', priority: 5 }, 'invalid_field', 'priority'],
      ['POST', '/api/tasks', { name: 'x', scheduled_at: 'soon' }, 'invalid_field', 'scheduled_at'],
      ['POST', '/api/tasks', { name: 'x', max_retries: -1 }, 'invalid_field', 'max_retries'],
      ['POST', '/api/tasks', { name: 'x', queue: 'a b' }, 'invalid_field', 'queue'],
      ['POST', '/api/tasks', { name: 'x', queue: '' }, 'invalid_field', 'queue'],
      ['POST', '/api/tasks', { name: 'x', wait_queued: 1 }, 'invalid_field', 'wait_queued'],
      ['POST', '/api/tasks', { name: 'x', color: 'y' }, 'unknown_field'],
      ['POST', '/api/tasks/claim', { queue: 'a/b' }, 'invalid_field', 'queue'],
      ['GET', '/api/tasks?queue=a%2Fb', undefined, 'invalid_field', 'queue'],
      ['GET', '/api/tasks?status=DONE', undefined, 'invalid_field', 'status'],
      ['GET', '/api/tasks?priority=x', undefined, 'invalid_field', 'priority'],
      ['GET', '/api/tasks?limit=0', undefined, 'invalid_field', 'limit'],
      ['GET', '/api/tasks/x', undefined, 'invalid_id', 'id'],
      ['GET', '/api/tasks/00000000-0000-4000-8000-000000000000', undefined, 'not_found'],
      ['POST', '/api/tasks/claim', { count: 0 }, 'invalid_field', 'count'],
      ['POST', '/api/tasks/claim', { count: 101 }, 'invalid_field', 'count'],
      ['POST', '/api/tasks/claim', { wait_ms: -1 }, 'invalid_field', 'wait_ms'],
      ['POST', '/api/tasks/claim', { priority: 'x' }, 'invalid_field', 'priority'],
      ['POST', '/api/tasks/claim', { robot: 1 }, 'unknown_field'],
      ['POST', `${one}/complete`, { token: 7 }, 'invalid_field', 'token'],
      ['POST', `${one}/complete`, { error: 'x' }, 'unknown_field'],
      ['POST', `${one}/fail`, { retry: 'no' }, 'invalid_field', 'retry'],
      ['POST', `${one}/heartbeat`, { result: 1 }, 'unknown_field'],
      ['POST', '/api/tasks/x/fail', {}, 'invalid_id', 'id'],
    ];
    for (const [method, at, json, code, field] of cases) {
      const fault = refusalFault(await api.request(method, at, { json }), code, field);
      assert.equal(fault, null, `${method} ${at} ${JSON.stringify(json)}: ${fault}`);
    }
    for (const word of ['complete', 'fail', 'heartbeat']) problem(await act(api, made.id, word), 409, 'illegal_move');
    assert.deepEqual(await get(api, made.id), made);
    assert.equal((await api.get('/api/tasks')).headers['x-total-count'], total);
  });
});

test('HF-16 a queue with the right name that another API created is not changed', async () => {
  const server = await startServer({ backend: 'memory' });
  const api = new Client(server);
  const job = status(await api.post('/v1/queues/tasks.low/jobs', { payload: 1 }), 201);
  assert.deepEqual(await claim(api, { count: 5 }), []);
  assert.deepEqual(await claim(api, { priority: 'low', wait_ms: 1 }), []);
  problem(await api.post('/api/tasks', { name: 'a', priority: 'low' }), 409, 'exists');
  const made = await create(api, { priority: 'high' });
  assert.deepEqual((await claim(api, { count: 5 })).map((task) => task.id), [made.id], 'the other queue is its own');
  assert.deepEqual(status(await api.get('/api/tasks'), 200).map((task) => task.id), [made.id]);
  assert.deepEqual([(await native(api, job.id)).state, (await native(api, job.id)).attempts], ['ready', 0]);
  api.close();
  await stopServer(server);
});

test('TF-5 TF-9 tasks, their counts and their leases survive a crash', async () => {
  let server = await startServer({});
  let api = new Client(server);
  const held = await create(api, { priority: 'high', payload: 1 });
  const [task] = await claim(api);
  const waits = await create(api, { priority: 'low', scheduled_at: new Date(Date.now() + 3600_000).toISOString() });
  api.close();
  server.ownsData = false;
  await killServer(server);
  server = await startServer({ data: server.data });
  api = new Client(server);
  assert.equal((await get(api, waits.id)).status, 'SCHEDULED');
  assert.equal((await get(api, held.id)).status, 'IN_PROGRESS');
  assert.equal(status(await act(api, held.id, 'complete', { token: task.token }), 200).status, 'COMPLETED');
  await stopServer(server);
  api.close();
});

test('TF-10 the share is a setting; a share of 0 makes low tasks wait', async () => {
  for (const [share, wanted] of [['0', 0], ['50', 20]]) {
    const server = await startServer({ backend: 'memory', args: ['--tasks-low-share', share] });
    const api = new Client(server);
    for (let i = 0; i < 50; i++) {
      await create(api, { priority: 'low' });
      await create(api, { priority: 'high' });
    }
    let low = 0;
    for (let i = 0; i < 40; i++) low += (await claim(api))[0].priority === 'low';
    assert.equal(low, wanted);
    await stopServer(server);
    api.close();
  }
});

test('TF-10 with many low tasks waiting a high one starts as soon as in an empty system', only('figures'), async (t) => {
  const [empty, full] = await Promise.all([0, 1].map(async () => {
    const server = await startServer({});
    const api = new Client(server);
    t.after(() => stopServer(server));
    t.after(() => api.close());
    await create(api, { priority: 'low' });
    await drain(api);
    return api;
  }));
  const many = Array.from({ length: 1000 }, () => ({ payload: 1, priority: 0 }));
  for (let i = 0; i < 50; i++) status(await full.post('/v1/queues/tasks.low/jobs', many), 200);
  const start = async (api) => {
    const { id } = await create(api, { priority: 'high' });
    const from = process.hrtime.bigint();
    for (;;) {
      const [task] = await claim(api);
      const took = Number(process.hrtime.bigint() - from);
      status(await act(api, task.id, 'complete', { token: task.token }), 200);
      if (task.id === id) return took;
    }
  };
  // Alternately, so that other load on the machine disturbs both; one undisturbed measurement is enough.
  const ratio = async () => {
    const times = [[], []];
    for (let i = 0; i < 150; i++) for (const [n, api] of [empty, full].entries()) times[n].push(await start(api));
    const [without, having] = times.map((list) => list.sort((a, b) => a - b)[75]);
    return having / without;
  };
  await ratio();
  let best = Infinity;
  for (let tries = 0; tries < 8 && best > 1.2; tries++) best = Math.min(best, await ratio());
  assert.ok(best <= 1.2, `with 50,000 low tasks it takes ${best.toFixed(2)} times as long`);
});
