// SPDX-License-Identifier: Apache-2.0
// PostgreSQL stores the jobs, and lists in Redis dispatch their ids: TF-2, TF-6, TF-7, with two servers and two real
// Redis servers, which the tests stop and empty. The file runs itself with scripts/with-postgres.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { status } from '../lib/expect.mjs';
import { socket, sql, url } from '../lib/postgres.mjs';
import { killServer, startServer, stopServer, until } from '../lib/server.mjs';

const backend = url('dispatch');

// ---- Redis ----

class Redis {
  constructor() {
    this.directory = mkdtempSync(path.join(tmpdir(), 'holdfast-dispatch-'));
    this.socket = path.join(this.directory, 'redis.sock');
    this.url = `redis://localhost/0?socket=${encodeURIComponent(this.socket)}`;
  }
  call(...words) {
    const run = spawnSync('redis-cli', ['-s', this.socket, '--json', ...words.map(String)], { encoding: 'utf8' });
    return run.status === 0 && !run.stdout.startsWith('error:') ? JSON.parse(run.stdout) : null; // it may still be loading
  }
  async start() {
    const words = ['--port', '0', '--unixsocket', this.socket, '--dir', this.directory, '--save', '', '--appendonly', 'no'];
    this.server = spawn('redis-server', words, { stdio: 'ignore' });
    await until('Redis answers', () => this.call('PING') === 'PONG');
  }
  async stop() {
    if (!this.server) return;
    const gone = new Promise((resolve) => this.server.once('exit', resolve));
    this.server.kill('SIGKILL');
    await gone;
    this.server = null;
  }
  ids(side, queue) {
    const texts = this.call('LRANGE', `{holdfast}:dispatch:${side}:${queue}`, 0, -1);
    for (const text of texts) assert.match(text, /^\{"task_id": ?"[0-9a-f-]{36}"\}$/, 'TF-2 the message is {"task_id": id}');
    return texts.map((text) => JSON.parse(text).task_id).reverse(); // oldest first
  }
  pop(side, queue) {
    const text = this.call('RPOP', `{holdfast}:dispatch:${side}:${queue}`);
    return text && JSON.parse(text).task_id;
  }
}

const locks = () => {
  const text = `SELECT count(*) FROM pg_stat_activity WHERE xact_start < now() - interval '1 s' AND state LIKE 'idle in%'`;
  return Number(sql(text));
};

describe('dispatch', () => {
  let high, low, nodes, apis;
  before(async () => {
    high = new Redis();
    low = new Redis();
    await Promise.all([high.start(), low.start()]);
    const args = ['--dispatch-high', high.url, '--dispatch-low', low.url, '--dispatch-interval-ms', '200', '--cluster-leader-ttl-ms', '2s'];
    nodes = await Promise.all([1, 2].map((n) => startServer({ backend, args: ['--node', String(n), ...args] })));
    apis = nodes.map((node) => new Client(node));
  });
  after(async () => {
    for (const api of apis ?? []) api.close();
    for (const node of nodes ?? []) if (!node.exit) await stopServer(node);
    for (const redis of [high, low]) {
      await redis?.stop();
      if (redis) rmSync(redis.directory, { recursive: true, force: true });
    }
  });

  const create = async (api, more = {}) => status(await api.post('/api/tasks', { name: 'send_mail', ...more }), 201);
  const word = async (id, api = apis[0]) => status(await api.get(`/api/tasks/${id}`), 200).status;
  const queued = (id) => until(`${id} is QUEUED`, async () => (await word(id)) === 'QUEUED');
  const listed = async (wanted) => status(await apis[0].get(`/api/tasks?status=${wanted}&limit=1000`), 200).map(({ id }) => id);
  const metric = async (api, name) => Number((await api.get('/metrics')).text.match(new RegExp(`^${name.replace(/[{}"]/g, '\\$&')} (\\S+)$`, 'm'))[1]);
  const finish = async (id, api = apis[1]) => {
    const held = status(await api.post(`/api/tasks/${id}/claim`, { worker: 'w' }), 200);
    assert.deepEqual([held.id, held.status, held.worker], [id, 'IN_PROGRESS', 'w']);
    status(await api.post(`/api/tasks/${id}/complete`, { token: held.token }), 200);
  };

  test('TF-2 ids go to the server of their priority, oldest first, and are QUEUED once Redis confirmed', async () => {
    const made = [];
    for (let i = 0; i < 6; i++) made.push(await create(apis[i % 2], { priority: i < 3 ? 'high' : 'low' }));
    for (const { id } of made) await queued(id);
    // The first pass of the leader may push ids again that the other node was about to push.
    const once = (ids) => [...new Set(ids)].sort();
    assert.deepEqual(once(high.ids('high', 'tasks.high')), made.slice(0, 3).map(({ id }) => id).sort());
    assert.deepEqual(once(low.ids('low', 'tasks.low')), made.slice(3).map(({ id }) => id).sort());
    assert.deepEqual(high.call('KEYS', '*').filter((key) => key !== 'taskflow:leader'), ['{holdfast}:dispatch:high:tasks.high']);
    assert.deepEqual(await listed('PENDING'), []);
    assert.equal((await listed('QUEUED')).length, 6);
    const wrong = await apis[0].post('/api/tasks', { name: 'x', priority: 'middle' });
    assert.equal(wrong.status, 422, 'an unknown priority');
    for (const { id } of made) await finish(id);
    high.call('DEL', '{holdfast}:dispatch:high:tasks.high');
    low.call('DEL', '{holdfast}:dispatch:low:tasks.low');
  });

  test('TF-3 the leader is visible in both Redis servers, with its TTL', async () => {
    for (const redis of [high, low]) {
      await until('the leader shows itself', () => /^node [12] epoch \d+$/.test(redis.call('GET', 'taskflow:leader')));
      const ttl = redis.call('PTTL', 'taskflow:leader');
      assert.ok(ttl > 0 && ttl <= 2000, `${ttl} ms`);
    }
    const { leader } = status(await apis[0].get('/v1/cluster'), 200);
    assert.match(low.call('GET', 'taskflow:leader'), new RegExp(`^node ${leader.node} `));
  });

  test('TF-2 with wait_queued a create replies when Redis has confirmed, in any queue', async () => {
    for (const more of [{ priority: 'high' }, { priority: 'low' }, { priority: 'low', queue: 'reports' }]) {
      const made = await create(apis[0], { ...more, wait_queued: true });
      assert.equal(made.status, 'QUEUED');
      const queue = `tasks.${more.queue ? `${more.queue}.` : ''}${more.priority}`;
      const redis = more.priority === 'high' ? high : low;
      assert.ok(redis.ids(more.priority, queue).includes(made.id));
      await finish(made.id);
      redis.call('DEL', `{holdfast}:dispatch:${more.priority}:${queue}`);
    }
  });

  test('TF-1 the view tasks: only tasks, in the document\'s words, without a prefix in a session that sets search_path', async () => {
    const query = (text) => {
      const env = { ...process.env, PGOPTIONS: '-c search_path=dispatch,public' };
      const run = spawnSync('psql', ['-h', socket, '-U', 'holdfast', '-d', 'postgres', '-qAtc', text], { encoding: 'utf8', env });
      return run.stdout.trim() || run.stderr.trim();
    };
    status(await apis[0].post('/v1/queues/bystander/jobs', { payload: 1, priority: 7 }), 201);
    const at = new Date(Date.now() + 3600_000).toISOString();
    const later = await create(apis[0], { name: 'report', priority: 'low', scheduled_at: at });
    const soon = await create(apis[0], { name: 'otp', priority: 'high', wait_queued: true });
    const row = (id) => query(`SELECT name, status, priority, scheduled_at = '${at}', retry_count FROM tasks WHERE id = '${id}'`);
    assert.equal(row(later.id), 'report|SCHEDULED|low|t|0');
    assert.equal(row(soon.id), 'otp|QUEUED|high||0');
    assert.equal(query(`SELECT count(*) FROM tasks WHERE status IN ('SCHEDULED', 'QUEUED', 'PENDING')`), '2', 'no job of another queue');
    const held = status(await apis[0].post(`/api/tasks/${soon.id}/claim`, { worker: 'w' }), 200);
    const updated = `SELECT extract(epoch FROM updated_at) * 1000 FROM tasks WHERE id = '${soon.id}' AND status = 'IN_PROGRESS'`;
    const first = Number(query(updated));
    await until('a heartbeat updates updated_at', async () => {
      status(await apis[0].post(`/api/tasks/${soon.id}/heartbeat`, { token: held.token }), 200);
      return Number(query(updated)) > first;
    });
    status(await apis[0].post(`/api/tasks/${soon.id}/fail`, { token: held.token, error: 'smtp', retry: false }), 200);
    assert.equal(query(`SELECT status, retry_count, error FROM tasks WHERE id = '${soon.id}'`), 'FAILED|0|smtp');
    assert.match(query(`UPDATE tasks SET status = 'QUEUED'`), /tasks can only be read; use: POST/);
    assert.match(query('DELETE FROM tasks'), /tasks can only be read; use: DELETE/);
    assert.equal(query('SELECT count(*) FROM pg_db_role_setting WHERE setconfig::text LIKE \'%search_path%\''), '0', 'the server changed no search_path');
    high.call('DEL', '{holdfast}:dispatch:high:tasks.high');
    status(await apis[0].delete(`/v1/jobs/${later.id}`), 200);
  });

  test('TF-2 a scheduled task is pushed when it is due, and another API sees the same job', async () => {
    const at = Date.now() + 1500;
    const { id } = await create(apis[0], { priority: 'low', scheduled_at: new Date(at).toISOString() });
    const before = [await word(id), low.ids('low', 'tasks.low')];
    if (Date.now() < at) assert.deepEqual(before, ['SCHEDULED', []]);
    await queued(id);
    assert.equal(low.pop('low', 'tasks.low'), id);
    assert.equal(status(await apis[1].get(`/v1/jobs/${id}`), 200).state, 'ready');
    await finish(id);
  });

  test('HF-28 a job that is ready because those it depends on have ended is pushed', async () => {
    const { then } = (await apis[0].post('/v1/batches', { jobs: [{ queue: 'before' }], then: { queue: 'after' } })).json;
    assert.equal(then.state, 'blocked');
    const [{ id, token }] = (await apis[1].post('/v1/queues/before/claim', { wait_ms: 5000 })).json.jobs;
    assert.deepEqual(low.ids('low', 'after'), []);
    assert.equal((await apis[1].post(`/v1/jobs/${id}/ack`, { token })).status, 200);
    await until('its id is in the list', () => low.ids('low', 'after').length === 1);
  });

  test('TF-2 the list of a queue is deleted with the queue', async () => {
    const list = '{holdfast}:dispatch:low:passing';
    for (let i = 0; i < 20; i++) status(await apis[0].post('/v1/queues/passing/jobs', { payload: i }), 201);
    await until('the ids are listed', () => low.call('LLEN', list) === 20);
    for (let i = 0; i < 20; i++) apis[0].post('/v1/queues/passing/jobs', { payload: i }).catch(() => {}); // in progress
    status(await apis[0].delete('/v1/queues/passing'), 200);
    await until('no list is left', async () => {
      await apis[0].delete('/v1/queues/passing'); // an enqueue after the delete may have created it again
      return low.call('EXISTS', list) === 0;
    });
  });

  test('TF-6 refused pushes are not logged once per job', async () => {
    const list = '{holdfast}:dispatch:low:spoiled';
    low.call('SET', list, 'no list');
    const before = nodes[0].stderr.length;
    const failures = await metric(apis[0], 'holdfast_dispatch_push_failures_total');
    for (let i = 0; i < 10; i++) status(await apis[0].post('/v1/queues/spoiled/jobs', { payload: i }), 201);
    await until('all were refused', async () => (await metric(apis[0], 'holdfast_dispatch_push_failures_total')) >= failures + 40);
    const told = (await until('it is logged', () => nodes[0].stderr.slice(before).match(/dispatch_refused/g))).length;
    assert.ok(told >= 1 && told < 10, `${told} lines for ten jobs`); // after a push that succeeds, the next refusal is logged again
    low.call('DEL', list);
    await until('the ids are listed in the end', () => low.call('LLEN', list) >= 10);
    status(await apis[0].delete('/v1/queues/spoiled'), 200);
  });

  test('TF-6 an id that is listed twice runs once; the second claim is refused', async () => {
    const { id } = await create(apis[0]);
    await queued(id);
    low.call('LPUSH', '{holdfast}:dispatch:low:tasks.low', JSON.stringify({ task_id: id }));
    assert.equal(low.pop('low', 'tasks.low'), id);
    assert.equal(low.pop('low', 'tasks.low'), id);
    const [first, second] = await Promise.all(apis.map((api) => api.post(`/api/tasks/${id}/claim`, {})));
    assert.deepEqual([first.status, second.status].sort(), [200, 409], `${first.text} ${second.text}`);
    const held = [first, second].find((answer) => answer.status === 200).json;
    status(await apis[0].post(`/api/tasks/${id}/complete`, { token: held.token }), 200);
    assert.equal((await apis[0].post(`/api/tasks/${id}/claim`, {})).status, 409, 'done');
    assert.equal((await apis[0].post('/api/tasks/018f0000-0000-7000-8000-000000000000/claim', {})).status, 404);
  });

  test('TF-6 a task that failed is pushed again when it may run', async () => {
    const { id } = await create(apis[0]);
    await queued(id);
    assert.equal(low.pop('low', 'tasks.low'), id);
    const held = status(await apis[0].post(`/api/tasks/${id}/claim`, {}), 200);
    assert.deepEqual(low.ids('low', 'tasks.low'), []);
    status(await apis[1].post(`/api/tasks/${id}/fail`, { token: held.token, error: 'no' }), 200);
    await until('it is listed again', () => low.ids('low', 'tasks.low').length === 1);
    assert.equal(low.pop('low', 'tasks.low'), id);
    await queued(id);
    await finish(id);
  });

  test('TF-6 ids that Redis lost are found and pushed again', async () => {
    const ids = [];
    for (let i = 0; i < 20; i++) ids.push((await create(apis[i % 2])).id);
    for (const id of ids) await queued(id);
    low.call('FLUSHALL');
    await until('the list is created again', () => low.ids('low', 'tasks.low').length === 20);
    assert.deepEqual(low.ids('low', 'tasks.low').sort(), [...ids].sort());
    for (const id of ids) assert.ok(low.pop('low', 'tasks.low'), id);
    for (const id of ids) await finish(id);
  });

  test('TF-7 without Redis tasks stay PENDING, nothing is locked, and the other Redis server continues to work', async () => {
    await low.stop();
    await until('the outage is seen', async () => (await metric(apis[0], 'holdfast_dispatch_up{side="low"}')) === 0);
    const ids = [];
    const failures = async () => (await metric(apis[0], 'holdfast_tasks_push_failures_total')) + (await metric(apis[1], 'holdfast_tasks_push_failures_total'));
    const failed = await failures();
    for (let i = 0; i < 10; i++) ids.push((await create(apis[i % 2])).id);
    await until('TF-8 pushes to a server that is away are counted as failed', async () => (await failures()) >= failed + 10);
    const unconfirmed = await create(apis[0], { wait_queued: true });
    assert.equal(unconfirmed.status, 'PENDING');
    assert.match(unconfirmed.pending_reason, /Redis server .* does not answer/);
    ids.push(unconfirmed.id);
    const urgent = await create(apis[0], { priority: 'high' });
    await queued(urgent.id);
    assert.equal(high.pop('high', 'tasks.high'), urgent.id);
    for (const id of ids) assert.equal(await word(id), 'PENDING');
    assert.deepEqual((await listed('PENDING')).sort(), [...ids].sort());
    assert.equal((await listed('QUEUED')).filter((id) => ids.includes(id)).length, 0);
    assert.equal(locks(), 0, 'no transaction stands open');
    // A worker that claims from Holdfast needs no Redis.
    const [held] = status(await apis[0].post('/api/tasks/claim', { priority: 'low' }), 200).tasks;
    status(await apis[0].post(`/api/tasks/${held.id}/complete`, { token: held.token }), 200);
    await low.start();
    const left = ids.filter((id) => id !== held.id);
    for (const id of left) await queued(id);
    const found = new Set();
    for (let id; (id = low.pop('low', 'tasks.low')); ) found.add(id);
    assert.deepEqual([...found].sort(), left.sort());
    for (const id of left) await finish(id);
    await finish(urgent.id);
    assert.ok((await metric(apis[0], 'holdfast_dispatch_pushed_total')) > 0);
  });

  test('TF-6 a node pushes the ids that a killed node had not pushed', async () => {
    const ids = (await Promise.all(Array.from({ length: 40 }, (_, i) => create(apis[i % 2])))).map(({ id }) => id);
    await killServer(nodes[0]);
    for (const id of ids) await until(`${id} is QUEUED`, async () => (await word(id, apis[1])) === 'QUEUED', 60_000);
    assert.equal(new Set(low.ids('low', 'tasks.low')).size, 40);
  });
});

test('TF-6 TF-7 TF-8 a refused push is tried four times, for each task by itself; then the task waits as PENDING', async (t) => {
  const redis = new Redis();
  await redis.start();
  const server = await startServer({ backend: url('limited'), args: ['--dispatch-low', redis.url, '--dispatch-interval-ms', '10m'] });
  const api = new Client(server);
  t.after(async () => {
    await stopServer(server);
    await redis.stop();
    rmSync(redis.directory, { recursive: true, force: true });
  });
  t.after(() => api.close());
  const failures = async () => Number((await api.get('/metrics')).text.match(/^holdfast_dispatch_push_failures_total (\S+)$/m)[1]);
  const create = async (queue) => status(await api.post('/api/tasks', { name: 'x', queue }), 201).id;
  const state = async (id) => [status(await api.get(`/api/tasks/${id}`), 200).status, status(await api.get(`/v1/jobs/${id}`), 200).state];
  // The first pass of the leader is over once another job is QUEUED and the leader is known.
  await until('it leads', async () => status(await api.get('/v1/cluster'), 200).leader?.self);
  await until('a task is QUEUED', async () => (await state(await create('other')))[0] === 'QUEUED');
  const before = await failures();
  redis.call('SET', '{holdfast}:dispatch:low:tasks.spoiled.low', 'no list');
  for (let n = 1; n <= 3; n++) {
    const id = await create('spoiled');
    await until('its pushes have failed', async () => (await failures()) >= before + 4 * n);
    const other = await create('other');
    await until('another task is pushed meanwhile', async () => (await state(other))[0] === 'QUEUED');
    assert.deepEqual(await state(id), ['PENDING', 'ready']);
    assert.equal(await failures(), before + 4 * n, 'earlier tasks are not tried again with it');
  }
  redis.call('DEL', '{holdfast}:dispatch:low:tasks.spoiled.low');
});

test('dispatch needs PostgreSQL and the URL of a Redis server', async () => {
  const wrong = async (args, words) => {
    await assert.rejects(startServer({ ...args }), (problem) => {
      assert.match(problem.message, words);
      return true;
    });
  };
  await wrong({ args: ['--dispatch-low', 'redis://127.0.0.1:1'] }, /need a store on PostgreSQL/);
  await wrong({ backend, args: ['--dispatch-low', 'http://127.0.0.1:1'] }, /dispatch\.(high|low) must be redis:/);
});
