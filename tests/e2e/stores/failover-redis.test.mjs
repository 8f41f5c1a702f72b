// SPDX-License-Identifier: Apache-2.0
// PDQ-1, PDQ-6, PDQ-7 with a real Redis, chosen by the names of the priority-queue document: killed, started
// again, stopped, and refusing this node. Runs itself below scripts/with-redis. failover.test.mjs has the details.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, describe, test } from 'node:test';

import { killRedis, startRedis } from '../../faults/lib/redis.mjs';
import { Client } from '../lib/client.mjs';
import { Receiver } from '../lib/receiver.mjs';
import { killServer, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';

const url = process.env.HF_REDIS.replace(/\d+$/, '3');

const state = async (api) => (await api.get('/v1/server')).json.failover;

describe('use_redis', { concurrency: false }, () => {
  const servers = [];
  const start = async (env, data = null) => {
    // Only a Redis that was killed is unavailable, not one whose answer is late on a slow machine.
    const patient = { REDIS_HEALTH_CHECK_TIMEOUT: '300.0', HOLDFAST_TIMEOUTS_BACKEND_MS: '5m' };
    const server = await startServer({ backend: '', data, env: { USE_REDIS_QUEUE: 'true', REDIS_URL: url, ...patient, ...env } });
    servers.push(server);
    return server;
  };
  after(async () => {
    for (const server of servers) if (!server.exit) await killServer(server);
  });

  test('PDQ-6 PDQ-7 Redis is killed and comes back: no enqueue is refused, no job is lost or duplicated', async () => {
    const server = await start({});
    const api = new Client(server);
    const enqueue = async (n) => {
      const { status, json } = await api.post('/v1/queues/q/jobs', { payload: n });
      assert.equal(status, 201);
      return json;
    };
    assert.equal((await api.get('/v1/server')).json.backend, 'failover+redis');
    assert.equal((await api.get('/v1/snapshot')).json.redis_active, true);
    const made = [await enqueue(0)];
    await killRedis();
    await until('the server notices', async () => !(await state(api)).primary_up);
    for (let n = 1; n <= 20; n++) made.push(await enqueue(n));
    assert.ok(made.slice(1).every((job) => job.spooled));
    assert.equal((await api.get('/v1/snapshot')).json.redis_active, false);
    assert.equal((await api.get('/readyz')).status, 200);
    assert.match((await api.get('/metrics')).text, /^holdfast_redis_up 0$/m);
    // HF-10, HF-21: steps and log of an attempt on the spool are moved with its job.
    const { id } = (await api.post('/v1/queues/logged/jobs', { payload: 1 })).json;
    const [{ token }] = (await api.post('/v1/queues/logged/claim', {})).json.jobs;
    assert.equal((await api.post(`/v1/jobs/${id}/log`, { token, lines: ['written on the spool'] })).status, 200);
    assert.equal((await api.post(`/v1/jobs/${id}/steps/charge`, { token, result: { receipt: 7 } })).status, 200);
    assert.equal((await api.post(`/v1/jobs/${id}/fail`, { token, error: 'once', delay_ms: 3_600_000 })).status, 200);
    await startRedis();
    await until('the jobs were moved', async () => {
      const { primary_up: up, spool_jobs: left } = await state(api);
      return up && left === 0;
    });
    assert.deepEqual((await api.get(`/v1/jobs/${id}/log`)).json.lines.map((line) => line.text), ['written on the spool']);
    assert.deepEqual((await api.get(`/v1/jobs/${id}`)).json.steps, { charge: { receipt: 7 } });
    const { json } = await api.post('/v1/queues/q/claim', { count: 100 });
    assert.deepEqual(json.jobs.map((job) => job.payload), made.map((_, n) => n));
    assert.deepEqual(json.jobs.map((job) => job.id), made.map((job) => job.id));
    const acks = json.jobs.map(({ id, token }) => ({ id, token }));
    const answers = (await api.post('/v1/ack', { jobs: acks })).json.jobs;
    assert.ok(answers.every((answer) => answer.state === 'done'));
    api.close();
    await stopServer(server);
  });

  test('PDQ-7 Redis hangs: requests in progress are answered, and queues are not shown with wrong ids', { timeout: 120_000 }, async () => {
    const server = await start({ REDIS_HEALTH_CHECK_TIMEOUT: '2.0' }); // timeouts.backend_ms stays at 5 minutes
    const api = new Client(server);
    const enqueues = (n, queueId) => [
      api.post('/v1/queues/hung/jobs', { payload: n }),
      api.post('/keyval/api/queue/enqueue', { value: n, options: { queue: `hung-kv-${n}` } }),
      api.post('/api/tasks', { name: `hung ${n}`, queue: `hung${n}` }),
      api.post('/api/queue-items', { queue_id: queueId, payload: n }),
    ];
    for (const name of ['zeta', 'alpha']) assert.equal((await api.post('/api/queues', { name })).status, 201);
    const ids = async () => (await api.get('/api/queues')).json.map((q) => [q.name, q.id]);
    const before = await ids();
    const spooled = [];
    const pid = Number(readFileSync(path.join(process.env.HF_REDIS_DIR, 'redis.pid'), 'utf8'));
    process.kill(pid, 'SIGSTOP');
    try {
      // The outcome of some is unknown (504), the others are spooled; none waits for 5 minutes.
      const answers = await Promise.all([1, 2, 3, 4].flatMap((n) => enqueues(n, before[0][1])));
      // An item is refused if the node had not read its queue.
      answers.forEach(({ status, json, text }, n) => assert.ok(status === 504 || (status < 300 && json.spooled) || (status === 503 && n % 4 === 3), text));
      await until('the server notices', async () => !(await state(api)).primary_up);
      answers.push(...(await Promise.all(enqueues(5, before[0][1]))));
      assert.ok(answers.slice(-3, -1).every(({ json }) => json.spooled), answers.at(-2).text);
      spooled.push(...answers.filter(({ json }) => json.spooled).map(({ json }) => json.id));
      assert.equal((await api.get('/api/queues')).status, 503);
    } finally {
      process.kill(pid, 'SIGCONT');
    }
    await until('it is back', async () => (await state(api)).primary_up && (await state(api)).spool_jobs === 0, 60_000);
    assert.deepEqual(await ids(), before);
    // What was confirmed is in Redis once; what got 504 may be there, too.
    const all = (await api.get('/v1/jobs?limit=1000')).json.jobs.map((job) => job.seq);
    assert.equal(new Set(all).size, all.length);
    for (const id of spooled) {
      const { status, json } = await api.get(`/v1/jobs/${id}`);
      assert.deepEqual([status, json.state], [200, 'ready']);
      assert.ok(all.includes(json.seq));
    }
    api.close();
    await stopServer(server);
  });

  test('PDQ-7 Redis and the node are killed at once, several times: each job of every API is there once', { timeout: 300_000 }, async () => {
    const data = temporaryDirectory();
    const env = { REDIS_URL: url.replace(/3$/, '4') };
    const made = [];
    let server = await start(env, data);
    let api = new Client(server);
    const queue = (await api.post('/api/queues', { name: 'robots' })).json.id;
    const outage = async () => {
      await killRedis();
      await until('the server notices', async () => !(await state(api)).primary_up);
    };
    await until('the node has read the queue', async () => {
      await outage();
      const known = (await api.get(`/api/queues/${queue}/stats`)).status === 200;
      await startRedis();
      await until('it is back', async () => (await state(api)).primary_up);
      return known;
    });
    for (let round = 0; round < 4; round++) {
      await outage();
      for (let n = 0; n < 20; n++) {
        const answers = [
          await api.post(`/v1/queues/q${n % 3}/jobs`, { payload: n }),
          await api.post('/keyval/api/queue/enqueue', { value: n, options: { queue: `kv-${round}-${n % 3}` } }),
          await api.post('/api/tasks', { name: 'mail', queue: `t${round}` }),
          await api.post('/api/queue-items', { queue_id: queue, reference: `r${n}` }),
        ];
        for (const { status, json, text } of answers) {
          assert.ok(status < 300 && json.spooled, text);
          made.push(json.id);
        }
      }
      await startRedis();
      if (round < 3) await until('some jobs were moved', async () => (await state(api)).spool_jobs < made.length);
      await killServer(server);
      api.close();
      server = await start(env, data);
      api = new Client(server);
      await until('all jobs were moved', async () => (await state(api)).primary_up && (await state(api)).spool_jobs === 0);
    }
    const seen = [];
    for (let cursor = ''; cursor !== null; ) {
      const { jobs, next_cursor: next } = (await api.get(`/v1/jobs?limit=500&payload=false${cursor && `&cursor=${cursor}`}`)).json;
      seen.push(...jobs.map((job) => job.seq));
      cursor = next;
    }
    assert.equal(seen.length, made.length);
    assert.equal(new Set(seen).size, made.length);
    for (const id of made) assert.ok(seen.includes((await api.get(`/v1/jobs/${id}`)).json.seq), id);
    api.close();
    await stopServer(server);
  });

  test('PDQ-6 PDQ-7 a stock Redis (appendonly no) does not prevent the start: the log says what to set, and the node moves over', async () => {
    const set = (value) => assert.equal(spawnSync('redis-cli', ['-s', path.join(process.env.HF_REDIS_DIR, 'redis.sock'), 'CONFIG', 'SET', 'appendonly', value]).status, 0);
    set('no');
    let api;
    try {
      const server = await start({});
      api = new Client(server);
      assert.match(server.stderr, /primary_not_usable.*set appendonly yes and maxmemory-policy noeviction/);
      assert.equal((await api.post('/v1/queues/stock/jobs', { payload: 1 })).json.spooled, true);
      assert.equal((await state(api)).primary_up, false);
    } finally {
      set('yes');
    }
    await until('it has moved over', async () => (await state(api)).primary_up && (await state(api)).spool_jobs === 0, 60_000);
    assert.equal((await api.post('/v1/queues/stock/claim', {})).json.jobs[0].payload, 1);
    api.close();
  });

  test('PDQ-7 a Redis that is unavailable at the start is no error, a wrong password is', async () => {
    const wrong = await start({ REDIS_URL: url.replace('//', '//stranger:s3cret@') }).then(
      () => assert.fail('it started'),
      (e) => e,
    );
    assert.match(wrong.message, /ended before it was ready \([1-9]/);
    assert.doesNotMatch(wrong.message, /s3cret/);
    await killRedis();
    const receiver = await new Receiver().listen();
    const server = await start({ HOLDFAST_FAILOVER_ALERT_URL: receiver.url, HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8' });
    const api = new Client(server);
    const { json: job } = await api.post('/v1/queues/late/jobs', { payload: 1 });
    assert.equal(job.spooled, true);
    // The rule of the settings reports an outage that began before the first start.
    const [{ json: raised }] = await receiver.wait(1);
    assert.deepEqual([raised.event, raised.alert, raised.on], ['alert_raised', 'failover', 'failover']);
    assert.match(raised.detail, /^node \d+: no server listens at its address$/);
    await startRedis();
    await until('the job was moved', async () => (await state(api)).primary_up && (await state(api)).spool_jobs === 0);
    assert.equal((await api.get(`/v1/jobs/${job.seq}`)).json.id, job.id);
    assert.equal((await receiver.wait(2))[1].json.event, 'alert_cleared');
    await until('Redis has the rule', async () => (await api.get('/v1/alerts/failover')).json.on === 'failover');
    api.close();
    await stopServer(server);
    await receiver.close();
  });

  test('PDQ-7 a plain --backend redis:// never falls back', async () => {
    await killRedis();
    const error = await startServer({ backend: url }).then(
      () => assert.fail('it started'),
      (e) => e,
    );
    assert.match(error.message, /ended before it was ready \([1-9]/);
    await startRedis();
  });
});
