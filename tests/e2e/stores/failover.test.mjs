// SPDX-License-Identifier: Apache-2.0
// PDQ-6, PDQ-7, PDQ-10: failover from a shared store to the spool of a node, and back. PostgreSQL is the example of
// a shared store; a small proxy between it and the server is the network that fails. Runs itself below
// scripts/with-postgres.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { sql } from '../lib/postgres.mjs';
import { PostgresProxy } from '../lib/proxy.mjs';
import { binary, killServer, logged, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';

const unavailable = async (api) => (await api.get('/v1/server')).json.failover.primary_up === false;
const back = async (api) => {
  const { failover } = (await api.get('/v1/server')).json;
  return failover.primary_up && failover.spool_jobs === 0;
};

describe('failover', { concurrency: false }, () => {
  const proxy = new PostgresProxy();
  const servers = [];
  // The proxy is part of this process, which may have to wait for the processor: only a connection that is cut shows that
  // the store is unavailable, not an answer that is late.
  const patient = { HOLDFAST_FAILOVER_HEALTH_CHECK_MS: '5m', HOLDFAST_TIMEOUTS_BACKEND_MS: '5m' };
  const start = async (options) => {
    const server = await startServer({ backend: '', ...options, env: patient });
    servers.push(server);
    return server;
  };
  before(() => proxy.open());
  after(async () => {
    for (const server of servers) if (!server.exit) await killServer(server);
    await proxy.cut();
  });

  test('PDQ-7 PDQ-10 work continues while the shared store is unavailable, and the jobs are moved to it afterwards', async () => {
    const server = await start({ args: ['--node', '9', '--failover-primary', proxy.url('go')] });
    const api = new Client(server);
    const post = (words, headers) => api.post('/v1/queues/q/jobs', words, { headers });
    const held = (await post({ payload: 'held' })).json;
    assert.equal(held.spooled, undefined);
    const [running] = (await api.post('/v1/queues/q/claim', { count: 1 })).json.jobs;
    assert.equal(running.id, held.id);
    assert.equal((await api.get('/v1/snapshot')).json.redis_active, true);
    assert.deepEqual((await api.get('/readyz')).json, { status: 'ready' });
    assert.match((await api.get('/metrics')).text, /^holdfast_failover_active 0$/m);
    assert.match((await api.get('/metrics')).text, /^holdfast_metrics_stores_left_out 0$/m);
    const upSince = (await api.get('/v1/cluster')).json.failover.since;
    await proxy.cut();
    await until('the server notices', () => unavailable(api));
    // Jobs without keys are accepted, on the disk of this node, and given to workers.
    const made = (await post([1, 2, 3].map((n) => ({ payload: n, priority: n === 3 ? 5 : 0 })))).json.jobs;
    assert.ok(made.every((job) => job.spooled === true && job.created));
    const later = (await post({ payload: 'later', delay_ms: 3_600_000 })).json;
    const { json: got } = await api.post('/v1/queues/q/claim', { count: 1 });
    assert.equal(got.jobs[0].id, made[2].id);
    assert.equal((await api.post(`/v1/jobs/${made[2].id}/ack`, { token: got.jobs[0].token })).status, 200);
    // What only the shared store can decide is refused, with a time to try again.
    for (const answer of [
      await post({ payload: 1, unique: 'u' }),
      await post({ payload: 1 }, { 'Idempotency-Key': 'k' }),
      await api.post(`/v1/jobs/${held.id}/ack`, { token: running.token }),
    ]) {
      assert.equal(answer.status, 503);
      assert.ok(answer.headers['retry-after']);
      assert.match(answer.json.detail, /shared store/);
    }
    const snapshot = (await api.get('/v1/snapshot?queue=q')).json;
    assert.deepEqual([snapshot.ready, snapshot.scheduled, snapshot.redis_active], [2, 1, false]);
    const metrics = (await api.get('/metrics')).text;
    assert.match(metrics, /^holdfast_redis_up 0$/m);
    assert.match(metrics, /^holdfast_spool_jobs 3$/m);
    assert.match(metrics, /^holdfast_failover_active 1$/m);
    assert.match(metrics, /^holdfast_backend_up 1$/m);
    // HF-12 The figures by queue are those of the spool, and the page says what is missing.
    assert.match(metrics, /^holdfast_queue_depth\{queue="q",state="ready"\} 2$/m);
    assert.match(metrics, /^holdfast_metrics_stores_left_out 1$/m);
    // The node is ready for requests, and shows what is wrong.
    const { primary_up, since, spool_jobs } = (await api.get('/v1/server')).json.failover;
    assert.deepEqual([primary_up, spool_jobs], [false, 3]);
    assert.ok(since > upSince);
    assert.match(metrics, new RegExp(`^holdfast_failover_changed_timestamp_seconds ${Math.floor(Date.parse(since) / 1000)}$`, 'm'));
    const ready = await api.get('/readyz');
    assert.equal(ready.status, 200);
    assert.deepEqual(ready.json, { status: 'degraded', away: [{ number: 0, type: 'failover+postgres', since }] });
    const seen = (await api.get('/v1/cluster')).json;
    assert.deepEqual(seen.failover, { primary_up, since, spool_jobs });
    assert.deepEqual([seen.backend.up, seen.backend.since], [true, since]);
    assert.ok(seen.backend.last_error);
    assert.equal(seen.backends, undefined);
    assert.equal(sql('SELECT count(*) FROM go.job'), '1');
    // Afterwards the shared store has the jobs under the same ids.
    await proxy.restore();
    await until('the jobs were moved', () => back(api));
    assert.deepEqual((await api.get('/readyz')).json, { status: 'ready' });
    assert.match((await api.get('/metrics')).text, /^holdfast_failover_active 0$/m);
    assert.match((await api.get('/metrics')).text, /^holdfast_metrics_stores_left_out 0$/m);
    assert.match((await api.get('/metrics')).text, /^holdfast_metrics_queues_left_out 0$/m);
    assert.equal((await api.get('/v1/snapshot')).json.redis_active, true);
    assert.equal(sql(`SELECT count(*) FROM go.job WHERE seq IN (${[made[0], made[1], later].map((job) => job.seq)})`), '3');
    assert.equal((await api.get(`/v1/jobs/${later.id}`)).json.state, 'scheduled');
    assert.equal((await api.post(`/v1/jobs/${held.id}/ack`, { token: running.token })).json.state, 'done');
    const { json: rest } = await api.post('/v1/queues/q/claim', { count: 10 });
    assert.deepEqual(rest.jobs.map((job) => job.id), [made[0].id, made[1].id]);
    for (const job of rest.jobs) assert.equal((await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token })).status, 200);
    assert.equal((await post({ payload: 1, unique: 'u' })).status, 201);
    api.close();
    await stopServer(server);
    assert.match(server.stderr, / warn primary_lost primary=postgres why=/);
    assert.doesNotMatch(server.stderr, / backend=\d/); // there is one store
    assert.match(server.stderr, /primary_back/);
  });

  test('PDQ-7 a kill while jobs are moved loses no job and duplicates none', async () => {
    const data = temporaryDirectory();
    const args = ['--node', '7', '--failover-primary', proxy.url('kill')];
    let server = await start({ data, args });
    let api = new Client(server);
    await proxy.cut();
    await until('the server notices', () => unavailable(api));
    const jobs = Array.from({ length: 400 }, (_, n) => ({ payload: { n } }));
    const made = (await api.post('/v1/queues/q/jobs', jobs)).json.jobs;
    assert.ok(made.every((job) => job.spooled));
    // The APIs create their queues with these, in the spool and then in PostgreSQL.
    const others = [];
    for (let n = 0; n < 50; n++) {
      const message = await api.post('/keyval/api/queue/enqueue', { value: n, options: { queue: `kv-${n % 5}` } });
      const task = await api.post('/api/tasks', { name: 'mail', queue: `t${n % 5}` });
      for (const { status, text, json } of [message, task]) {
        assert.ok(status < 300 && json.spooled, text);
        others.push(json.id);
      }
    }
    // The first batches arrive; then the replies are lost, and the server is killed.
    await proxy.restore();
    await until('some were moved', () => Number(sql('SELECT count(*) FROM kill.job')) > 0);
    proxy.deaf = true;
    await killServer(server);
    api.close();
    await proxy.cut();
    await proxy.restore();
    server = await start({ data, args });
    api = new Client(server);
    await until('all were moved', () => back(api));
    assert.equal(sql('SELECT count(*) FROM kill.job'), '500');
    assert.equal(sql("SELECT string_agg(DISTINCT owner, ',') FROM kill.queues WHERE name ~ '^(kv|tasks)'"), 'keyval,tasks');
    for (const id of others) assert.equal((await api.get(`/v1/jobs/${id}`)).json.state, 'ready');
    const { tasks } = (await api.post('/api/tasks/claim', { queue: 't0', count: 100 })).json;
    assert.equal(new Set(tasks.map((task) => task.id)).size, 10);
    assert.ok(tasks.every((task) => others.includes(task.id)));
    const ran = new Map();
    for (;;) {
      const { json } = await api.post('/v1/queues/q/claim', { count: 100 });
      if (json.jobs.length === 0) break;
      for (const job of json.jobs) ran.set(job.id, (ran.get(job.id) ?? 0) + 1);
      const acks = json.jobs.map(({ id, token }) => ({ id, token }));
      assert.equal((await api.post('/v1/ack', { jobs: acks })).status, 200);
    }
    assert.deepEqual([...ran.keys()].sort(), made.map((job) => job.id).sort());
    assert.ok([...ran.values()].every((times) => times === 1));
    api.close();
    await stopServer(server);
  });

  test('PDQ-7 unavailable at the start: the node starts, works, and moves its jobs later', async () => {
    await proxy.cut();
    const server = await start({ args: ['--failover-primary', proxy.url('late')] });
    const api = new Client(server);
    const job = (await api.post('/v1/queues/q/jobs', { payload: 1 })).json;
    assert.equal(job.spooled, true);
    await logged(server, / warn primary_not_reached/);
    const { status, json } = await api.get('/readyz');
    assert.deepEqual([status, json.status], [200, 'degraded']);
    assert.equal((await api.get('/v1/cluster')).json.backend.last_error, 'no server listens at its address');
    await proxy.restore();
    await until('the job was moved', () => back(api));
    assert.equal(sql('SELECT seq FROM late.job'), String(job.seq));
    api.close();
    await stopServer(server);
  });

  test('HF-5 why: a job of the shared store is not known, one of the spool says where it is', async () => {
    const server = await start({ args: ['--node', '4', '--failover-primary', proxy.url('why')] });
    const api = new Client(server);
    const post = async (payload) => (await api.post('/v1/queues/q/jobs', { payload })).json;
    const why = async (id) => (await api.get(`/v1/jobs/${id}/why`)).json;
    const held = await post('held');
    assert.deepEqual((await why(held.id)).reasons.map((reason) => reason.code), ['no_workers']);
    await proxy.cut();
    await until('the server notices', () => unavailable(api));
    const { since } = (await api.get('/v1/server')).json.failover;
    const unknown = await why(held.id);
    assert.deepEqual([unknown.id, unknown.state, unknown.reasons.length], [held.id, null, 1]);
    assert.equal(unknown.reasons[0].code, 'store_away');
    assert.match(unknown.reasons[0].detail, new RegExp(`^The store that has the job has not answered since ${since} \\(.+\\)\\. The state of the job is not known`));
    const said = spawnSync(binary, ['why', held.id, '--server', server.url], { encoding: 'utf8' });
    assert.match(said.stdout, new RegExp(`^The state of the job ${held.id} is not known\\.\n1\\. The store .* \\(store_away\\)\n$`));
    const first = await post('first');
    const next = await post('next');
    const { state, reasons } = await why(next.id);
    assert.equal(state, 'ready');
    assert.deepEqual(reasons.map((reason) => reason.code), ['store_away', 'no_workers', 'behind']);
    assert.match(reasons[0].detail, /The job is in the spool of this node, and only claims through this node get it\.$/);
    assert.equal(reasons[2].count, 1);
    const [job] = (await api.post('/v1/queues/q/claim', { worker: 'anna' })).json.jobs;
    assert.equal(job.id, first.id);
    assert.deepEqual((await why(first.id)).reasons.map((reason) => reason.code), ['store_away', 'running']);
    assert.equal((await api.post(`/v1/jobs/${first.id}/ack`, { token: job.token })).status, 200);
    await proxy.restore();
    await until('the jobs were moved', () => back(api));
    assert.deepEqual((await why(next.id)).reasons, [{ code: 'behind', detail: '1 ready job comes before it.', count: 1, exact: true }]);
    api.close();
    await stopServer(server);
  });

  test('PDQ-7 a server that answers and cannot be used is an error at the start', async () => {
    sql("CREATE ROLE guarded LOGIN PASSWORD 'right'");
    const url = proxy.url('no').replace('holdfast@', 'guarded:s3cret@').replace('/postgres?', '/nowhere?');
    const error = await start({ args: ['--failover-primary', url] }).then(
      () => assert.fail('it started'),
      (e) => e,
    );
    assert.match(error.message, /ended before it was ready \([1-9]/);
    assert.match(error.message, /PostgreSQL cannot be used/);
    assert.doesNotMatch(error.message, /s3cret/);
  });
});

test('PDQ-1 PDQ-6 use_redis and its environment choose Redis and a spool', () => {
  const dir = temporaryDirectory();
  const load = (env) =>
    spawnSync(binary, ['serve', '--print-config', '--data', dir], { encoding: 'utf8', env: { ...process.env, ...env } });
  const good = load({ USE_REDIS_QUEUE: 'true', REDIS_URL: 'redis://u:s3cret@127.0.0.1:1/0', REDIS_HEALTH_CHECK_TIMEOUT: '0.5' });
  assert.equal(good.status, 0, good.stderr);
  assert.match(good.stdout, /redis_health_check_timeout: 500ms/);
  assert.doesNotMatch(good.stdout, /s3cret/);
  assert.match(load({ USE_REDIS_QUEUE: 'true' }).stderr, /REDIS_URL.* is empty; it must be redis:\/\//);
  assert.match(load({ USE_REDIS_QUEUE: 'true', REDIS_URL: 'http://x' }).stderr, /something else/);
  const both = load({ USE_REDIS_QUEUE: 'true', REDIS_URL: 'redis://h', HOLDFAST_BACKEND: 'memory:' });
  assert.match(both.stderr, /backend cannot be combined with queue_settings.use_redis/);
});
