// SPDX-License-Identifier: Apache-2.0
// Two servers on one PostgreSQL database: operations on which all nodes must agree. The file runs itself with
// scripts/with-postgres.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { Client, openStream } from '../lib/client.mjs';
import { alertCases, declareCases } from '../lib/node_cases.mjs';
import { sql, url } from '../lib/postgres.mjs';
import { Receiver } from '../lib/receiver.mjs';
import { killServer, startServer, stopServer, until } from '../lib/server.mjs';

const startNode = (schema, n, env = {}) => startServer({ backend: url(schema), args: ['--node', String(n)], env });

async function startNodes(schema, env = {}) {
  const nodes = await Promise.all([1, 2].map((n) => startNode(schema, n, env)));
  const apis = nodes.map((node) => new Client(node));
  // A node that does not know another one yet does not notify it of changes of keys.
  await until('they know each other', async () => (await Promise.all(apis.map((api) => api.get('/v1/cluster')))).every(({ json }) => json.nodes.length === 2));
  return { nodes, apis };
}

async function stopNodes({ nodes, apis }) {
  for (const api of apis) api.close();
  for (const node of nodes) if (!node.exit) await stopServer(node);
}

/** Which of the two leads: found by its node number. */
const leadingIn = async (schema) =>
  (await until('one leads', () => Number(sql(`SELECT n.number FROM ${schema}.leader l JOIN ${schema}.node n ON n.epoch = l.holder`)))) - 1;

const get = async (api, key) => (await api.post('/v1/kv/get', { keys: [key] })).json.keys[0];

describe('keys and values', () => {
  let shared;
  before(async () => (shared = await startNodes('keys')));
  after(() => stopNodes(shared));

  test('KV-10 HF-2 no update is lost when two nodes compare and set', async () => {
    const { apis } = shared;
    const key = ['counter'];
    let refused = 0;
    const versions = [];
    const add = async (api, times) => {
      for (let done = 0; done < times; ) {
        const { version, value = 0 } = await get(api, key);
        const answer = await api.post('/v1/kv/commit', { checks: [{ key, version }], sets: [{ key, value: value + 1 }] });
        if (answer.status === 200) {
          versions.push(answer.json.version);
          done++;
        } else {
          assert.equal(answer.status, 412, answer.text);
          refused++;
        }
      }
    };
    await Promise.all([add(apis[0], 30), add(apis[1], 30), add(apis[0], 30), add(apis[1], 30)]);
    assert.equal((await get(apis[0], key)).value, 120);
    assert.equal((await get(apis[1], key)).value, 120);
    assert.equal(new Set(versions).size, 120, 'a version is used once');
    assert.equal(Math.max(...versions), (await get(apis[1], key)).version);
    assert.ok(refused > 0, 'they did compete');
  });

  test('KV-10 a check that a key is absent also holds against another node', async () => {
    const { apis } = shared;
    for (let round = 0; round < 20; round++) {
      // Each sets the key that the other requires to be absent: at most one may succeed.
      const keys = [[round, 'a'], [round, 'b']];
      const answers = await Promise.all(
        apis.map((api, n) => api.post('/v1/kv/commit', { checks: [{ key: keys[1 - n], version: null }], sets: [{ key: keys[n], value: n }] })),
      );
      const there = await Promise.all(keys.map((key) => get(apis[round % 2], key)));
      assert.equal(there.filter((k) => k.version !== null).length, 1);
      assert.deepEqual(answers.map((a) => a.status).sort(), [200, 412]);
    }
  });

  test('KV-10 a refused commit has no effect: no key, no job, no queue', async () => {
    const { apis } = shared;
    const key = ['all', 'or', 'nothing'];
    await apis[0].put('/v1/queues/closed', { refuse_new: true });
    const enqueues = [{ queue: 'fresh', payload: 1 }, { queue: 'closed', payload: 2 }];
    const refused = await apis[1].post('/v1/kv/commit', { sets: [{ key, value: 1 }], enqueues });
    assert.ok(refused.status >= 400, refused.text);
    assert.equal((await get(apis[0], key)).version, null);
    assert.equal((await apis[0].get('/v1/queues/fresh')).status, 404);
    await apis[0].patch('/v1/queues/closed', { refuse_new: false });
    const done = await apis[1].post('/v1/kv/commit', { sets: [{ key, value: 1 }], enqueues });
    assert.equal(done.status, 200, done.text);
    assert.equal((await get(apis[0], key)).value, 1);
    assert.equal(sql("SELECT count(*) FROM keys.job j JOIN keys.queues q ON q.number = j.queue WHERE q.name IN ('fresh', 'closed')"), '2');
  });

  test('KV-10 a watch on one node receives changes on the other', async () => {
    const { nodes, apis } = shared;
    const stream = openStream(nodes[1], '/v1/kv/watch?prefix=seen');
    await stream.opened;
    const next = async () => {
      const { event, data } = await stream.next();
      return { event, ...JSON.parse(data) };
    };
    const key = ['seen', 'ü', 1.5, true];
    const { json } = await apis[0].post('/v1/kv/commit', { sets: [{ key, value: 'x' }, { key: ['else'], value: 1 }] });
    assert.deepEqual(await next(), { event: 'set', key, version: json.version, value: 'x' });
    await apis[0].post('/v1/kv/commit', { deletes: [key] });
    const gone = await next();
    assert.deepEqual([gone.event, gone.key], ['deleted', key]);
    assert.ok(gone.version > json.version);
    // A node that loses its notification connection reports that changes may be missing.
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND (query LIKE 'LISTEN keys_wake%' OR query LIKE '%pg_notify%')");
    await until('there is a gap', async () => (await stream.next()).event === 'gap');
    stream.close();
  });

  test('KV-10 a commit may create a hundred queues', async () => {
    const { apis } = shared;
    const enqueues = Array.from({ length: 100 }, (_, i) => ({ queue: `many-${i}`, payload: i }));
    const done = await apis[0].post('/v1/kv/commit', { enqueues });
    assert.equal(done.status, 200, done.text);
    assert.equal(sql("SELECT count(*) FROM keys.job j JOIN keys.queues q ON q.number = j.queue WHERE q.name LIKE 'many-%'"), '100');
    assert.equal((await apis[1].get('/v1/queues/many-99')).json.counts.ready, 1);
  });

  test('KV-9 every node sees the keys that a dead job leaves', async () => {
    const { apis } = shared;
    const job = { payload: { amount: 99.99 }, max_attempts: 1, keys_if_undelivered: [['failed', 1], ['failed', 2]] };
    const made = await apis[0].post('/v1/queues/pay/jobs', job);
    assert.equal(made.status, 201, made.text);
    const { json } = await apis[1].post('/v1/queues/pay/claim', {});
    const failed = await apis[1].post(`/v1/jobs/${made.json.id}/fail`, { token: json.jobs[0].token, error: 'no' });
    assert.equal(failed.json.state, 'dead');
    for (const n of [1, 2]) assert.deepEqual((await get(apis[0], ['failed', n])).value, { amount: 99.99 });
    const late = { payload: 'late', delay_ms: 60_000, expires_in_ms: 1, keys_if_undelivered: [['late']] };
    await apis[1].post('/v1/queues/pay/jobs', late);
    await until('it has expired', async () => (await get(apis[0], ['late'])).version !== null);
    assert.equal((await get(apis[1], ['late'])).value, 'late');
  });

  test('KV-10 an expired key is absent on both nodes, and is deleted from the table', async () => {
    const { apis } = shared;
    await apis[0].post('/v1/kv/commit', { sets: [{ key: ['short'], value: 1, expires_in_ms: 1 }] });
    await until('the leader has deleted it', () => sql('SELECT count(*) FROM keys.kv WHERE expires_at > 0') === '0');
    for (const api of apis) assert.equal((await get(api, ['short'])).version, null);
  });
});

describe('schedules and triggers', { concurrency: false }, () => {
  const schema = 'schedules';
  let shared;
  before(async () => (shared = await startNodes(schema)));
  after(() => stopNodes(shared));

  const leading = () => leadingIn(schema);
  const jobsIn = (queue) => Number(sql(`SELECT count(*) FROM ${schema}.job j JOIN ${schema}.queues q ON q.number = j.queue WHERE q.name = '${queue}'`));

  test('HF-8 ORC-17 a time is fired once, also for a schedule that was set through a node that does not lead', async () => {
    const { apis } = shared;
    const leader = await leading();
    const made = await apis[1 - leader].put('/v1/schedules/often', { every_ms: 1000, queue: 'ticks', job: { payload: { n: 1 } } });
    assert.equal(made.status, 201, made.text);
    // From time to time the other node becomes the leader; for a moment both nodes believe that they lead.
    let looks = 0;
    const fired = () => {
      if (++looks % 4 === 0)
        sql(`UPDATE ${schema}.leader SET epoch = epoch + 1, holder = (SELECT n.epoch FROM ${schema}.node n WHERE n.epoch <> holder)`);
      return jobsIn('ticks') >= 3;
    };
    await until('it has fired three times', fired);
    await apis[leader].post('/v1/schedules/often/pause', {});
    const { json } = await apis[1 - leader].get('/v1/schedules/often');
    const times = sql(`SELECT string_agg(j.attributes::json ->> 'fire_time', ',' ORDER BY j.seq) FROM ${schema}.job j JOIN ${schema}.queues q ON q.number = j.queue WHERE q.name = 'ticks'`).split(',');
    assert.equal(new Set(times).size, times.length, 'no time twice');
    assert.equal(json.fired, times.length);
  });

  test('HF-8 both nodes run a schedule with a unique key on request: one job', async () => {
    const { apis } = shared;
    for (let round = 0; round < 5; round++) {
      const name = `same-${round}`;
      const spec = { every_ms: 86_400_000, queue: name, job: { unique: 'one', payload: 1 } };
      assert.equal((await apis[round % 2].put(`/v1/schedules/${name}`, spec)).status, 201);
      await Promise.all(apis.map((api) => api.post(`/v1/schedules/${name}/run`, {})));
      assert.equal(jobsIn(name), 1);
    }
  });

  test('ORC-16 ORC-19 an item goes to one job, whichever node received it', async () => {
    const { apis } = shared;
    const leader = await leading();
    const spec = { source_queue: 'items', batch_size: 3, eager: true, queue: 'batches' };
    assert.equal((await apis[1 - leader].put('/v1/schedules/catcher', spec)).status, 201);
    for (let i = 0; i < 12; i++) await apis[i % 2].post('/v1/queues/items/jobs', { payload: i });
    await until('all are taken', () => sql(`SELECT count(*) FROM ${schema}.job j JOIN ${schema}.queues q ON q.number = j.queue WHERE q.name = 'items' AND j.state = 3`) === '12');
    const taken = [];
    while (taken.length < 12) {
      const { json } = await apis[taken.length % 2].post('/v1/queues/batches/claim', { wait_ms: 20_000 });
      assert.equal(json.jobs.length, 1);
      const [job] = json.jobs;
      for (const item of job.payload.items) {
        taken.push(item.id);
        // The token is valid on both nodes.
        assert.equal((await apis[taken.length % 2].post(`/v1/jobs/${item.id}/ack`, { token: item.token })).status, 200);
      }
      assert.equal((await apis[0].post(`/v1/jobs/${job.id}/ack`, { token: job.token })).status, 200);
    }
    assert.equal(taken.length, 12);
    assert.equal(new Set(taken).size, 12);
    for (const api of apis) assert.deepEqual((await api.post('/v1/queues/batches/claim', {})).json.jobs, []);
    // The leader fails the items that a job has left open at its end.
    await apis[1 - leader].post('/v1/queues/items/jobs', { payload: 'left' });
    const { json } = await apis[leader].post('/v1/queues/batches/claim', { wait_ms: 20_000 });
    await apis[leader].post(`/v1/jobs/${json.jobs[0].id}/ack`, { token: json.jobs[0].token });
    const left = json.jobs[0].payload.items[0].id;
    const item = await until('it has failed', async () => {
      const answer = await apis[1 - leader].get(`/v1/jobs/${left}`);
      return answer.json.state !== 'running' ? answer.json : null;
    });
    assert.match(item.error.text ?? item.error, /left it open/);
  });

  test('HF-8 another node fires when the leader has been killed', async () => {
    const { nodes, apis } = shared;
    const leader = await leading();
    const spec = { every_ms: 1000, queue: 'after', misfire: 'skip' };
    assert.equal((await apis[leader].put('/v1/schedules/survivor', spec)).status, 201);
    await until('it fires', () => jobsIn('after') > 0);
    await killServer(nodes[leader]);
    // The lease is ended early, so that the test does not have to wait for it.
    sql(`UPDATE ${schema}.leader SET until = 0`);
    const before = jobsIn('after');
    await until('it fires again', () => jobsIn('after') > before + 1);
    const times = sql(`SELECT string_agg(j.attributes::json ->> 'fire_time', ',' ORDER BY j.seq) FROM ${schema}.job j JOIN ${schema}.queues q ON q.number = j.queue WHERE q.name = 'after'`).split(',');
    assert.equal(new Set(times).size, times.length, 'no time twice');
  });
});

describe('alerts, notices and breakers', { concurrency: false }, () => {
  const schema = 'alerts';
  // The cooldown must not end before the test does.
  const env = { HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8', HOLDFAST_BREAKER_OPEN_COOLDOWN_SECONDS: '3600' };
  let shared, receiver;
  before(async () => {
    receiver = await new Receiver().listen();
    shared = await startNodes(schema, env);
  });
  after(async () => {
    await stopNodes(shared);
    await receiver.close();
  });

  /** A job of this queue dies, enqueued on one node and failed on the other. */
  async function die(queue, n) {
    const { apis } = shared;
    const made = await apis[n % 2].post(`/v1/queues/${queue}/jobs`, { payload: n });
    const { json } = await apis[(n + 1) % 2].post(`/v1/queues/${queue}/claim`, {});
    const failed = await apis[n % 2].post(`/v1/jobs/${json.jobs[0].id}/fail`, { token: json.jobs[0].token, error: 'no', retry: false });
    assert.equal(failed.json.state, 'dead', failed.text);
    return made.json.id;
  }
  const told = (alert) => receiver.requests.filter((r) => r.json.alert === alert);
  const pending = (alert) => Number(sql(`SELECT count(*) FROM ${schema}.notice WHERE alert = '${alert}'`));

  test('ORC-18 a notice is delivered once, whichever node failed the job', async () => {
    const { apis } = shared;
    const leader = await leadingIn(schema);
    const rule = { on: 'dead', queue: 'mail', webhook: { url: receiver.url } };
    assert.equal((await apis[1 - leader].put('/v1/alerts/ops', rule)).status, 201);
    const jobs = [];
    for (let n = 0; n < 8; n++) jobs.push(await die('mail', n));
    await receiver.wait(8, (r) => r.json.alert === 'ops', 30_000);
    await until('the outbox is empty', () => pending('ops') === 0);
    assert.deepEqual(told('ops').map((r) => r.json.job.id).sort(), jobs.sort());
    assert.equal(new Set(told('ops').map((r) => r.headers['holdfast-notice'])).size, 8);
    // A rule that was deleted on one node has no effect on any node.
    assert.equal((await apis[leader].delete('/v1/alerts/ops')).status, 200);
    await die('mail', 8);
    assert.equal(pending('ops'), 0);
    assert.equal(told('ops').length, 8);
  });

  test('ORC-20 a schedule that cannot create its job is reported once', async () => {
    const { apis } = shared;
    await apis[0].put('/v1/queues/shut', { refuse_new: true });
    assert.equal((await apis[1].put('/v1/alerts/late', { on: 'schedule_failed', webhook: { url: receiver.url } })).status, 201);
    await apis[0].put('/v1/schedules/wants', { every_ms: 1000, queue: 'shut' });
    await receiver.wait(1, (r) => r.json.alert === 'late', 30_000);
    const failures = async () => Number(sql(`SELECT failures FROM ${schema}.schedule WHERE name = 'wants'`));
    await until('it has failed again', async () => (await failures()) >= 2);
    assert.equal(told('late').length, 1);
    await apis[1].delete('/v1/schedules/wants');
  });

  declareCases(alertCases, () => ({ ...shared, receiver, leading: () => leadingIn(schema) }));

  test('PDQ-9 a breaker that one node opened denies calls on the other, also after a restart', async () => {
    const { nodes, apis } = shared;
    const leader = await leadingIn(schema);
    const other = 1 - leader;
    receiver.answer = 500;
    assert.equal((await apis[0].put('/v1/alerts/broken', { on: 'dead', queue: 'bad', webhook: { url: receiver.url } })).status, 201);
    for (let n = 0; n < 5; n++) await die('bad', n);
    const target = `http://127.0.0.1:${receiver.port}`;
    const breaker = async (api) => (await api.get('/v1/breakers')).json.breakers.find((b) => b.target === target);
    await until('it opens', async () => (await breaker(apis[leader]))?.state === 'open');
    assert.equal((await breaker(apis[other])).state, 'open');
    await killServer(nodes[leader]);
    // The other node soon leads and checks all notices.
    sql(`UPDATE ${schema}.notice SET check_at = 0, holder = 0`);
    sql(`UPDATE ${schema}.leader SET until = 0`);
    await until('the other leads', async () => (await leadingIn(schema)) === other);
    const calls = told('broken').length;
    const denied = () => sql(`SELECT count(*) FROM ${schema}.notice n, ${schema}.breaker b WHERE n.alert = 'broken' AND n.state = 0 AND n.check_at = b.until AND b.target = '${target}'`);
    await until('all of them are denied', () => denied() === '5');
    assert.equal(told('broken').length, calls, 'no request was sent');
    apis[other].close();
    await stopServer(nodes[other]);
    nodes[other] = await startNode(schema, other + 1, env);
    apis[other] = new Client(nodes[other]);
    assert.equal((await breaker(apis[other])).state, 'open');
    assert.equal(told('broken').length, calls);
    // After the cooldown one call is the probe; it succeeds, and all the others follow.
    receiver.answer = 200;
    sql(`UPDATE ${schema}.breaker SET until = 0; UPDATE ${schema}.notice SET check_at = 0, due = 0`);
    await until('all are delivered', () => pending('broken') === 0);
    assert.equal((await breaker(apis[other])).state, 'closed');
    assert.equal(new Set(told('broken').slice(calls).map((r) => r.headers['holdfast-notice'])).size, 5);
  });
});
