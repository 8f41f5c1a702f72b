// SPDX-License-Identifier: Apache-2.0
// Two servers on one PostgreSQL database: what needs all of them to agree. Runs itself below
// scripts/with-postgres.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { after, before, describe, test } from 'node:test';

import { Client } from './lib/client.mjs';
import { killServer, startServer, stopServer, until } from './lib/server.mjs';

if (!process.env.HF_POSTGRES) {
  const wrapper = fileURLToPath(new URL('../../scripts/with-postgres', import.meta.url));
  const words = ['node', ...process.execArgv, fileURLToPath(import.meta.url)];
  process.exit(spawnSync(wrapper, words, { stdio: 'inherit' }).status ?? 1);
}

const base = process.env.HF_POSTGRES;
const socket = decodeURIComponent(base.replace(/.*host=/, ''));
const url = (schema) => `${base}&schema=${schema}`;

function sql(text) {
  const words = ['-h', socket, '-U', 'holdfast', '-d', 'postgres', '-qAt', '-v', 'ON_ERROR_STOP=1', '-c', text];
  const run = spawnSync('psql', words, { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  return run.stdout.trim();
}

async function startNodes(schema, args = []) {
  const nodes = await Promise.all([1, 2].map((n) => startServer({ backend: url(schema), args: ['--node', String(n), ...args] })));
  return { nodes, apis: nodes.map((node) => new Client(node)) };
}

async function stopNodes({ nodes, apis }) {
  for (const api of apis) api.close();
  for (const node of nodes) if (!node.exit) await stopServer(node);
}

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

  test('KV-10 a check of what is not there holds against another node', async () => {
    const { apis } = shared;
    for (let round = 0; round < 20; round++) {
      // Each sets what the other wants to be absent: at most one may do it.
      const keys = [[round, 'a'], [round, 'b']];
      const answers = await Promise.all(
        apis.map((api, n) => api.post('/v1/kv/commit', { checks: [{ key: keys[1 - n], version: null }], sets: [{ key: keys[n], value: n }] })),
      );
      const there = await Promise.all(keys.map((key) => get(apis[round % 2], key)));
      assert.equal(there.filter((k) => k.version !== null).length, 1);
      assert.deepEqual(answers.map((a) => a.status).sort(), [200, 412]);
    }
  });

  test('KV-10 a refused commit leaves nothing: no key, no job, no queue', async () => {
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
    assert.equal(sql("SELECT count(*) FROM keys.job j JOIN keys.queue q ON q.number = j.queue WHERE q.name IN ('fresh', 'closed')"), '2');
  });

  test('KV-9 what a job leaves when it dies is there for every node', async () => {
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

  test('KV-10 a key that has expired is gone on both, and leaves the table', async () => {
    const { apis } = shared;
    await apis[0].post('/v1/kv/commit', { sets: [{ key: ['short'], value: 1, expires_in_ms: 1 }] });
    await until('the leader has taken it away', () => sql('SELECT count(*) FROM keys.kv WHERE expires_at > 0') === '0');
    for (const api of apis) assert.equal((await get(api, ['short'])).version, null);
  });
});

describe('schedules and triggers', { concurrency: false }, () => {
  const schema = 'schedules';
  let shared;
  before(async () => (shared = await startNodes(schema)));
  after(() => stopNodes(shared));

  /** Which of the two leads: found by its node number. */
  const leading = async () =>
    (await until('one leads', () => Number(sql(`SELECT n.number FROM ${schema}.leader l JOIN ${schema}.node n ON n.epoch = l.holder`)))) - 1;
  const jobsIn = (queue) => Number(sql(`SELECT count(*) FROM ${schema}.job j JOIN ${schema}.queue q ON q.number = j.queue WHERE q.name = '${queue}'`));

  test('HF-8 ORC-17 a time is fired once, put through a node that does not lead', async () => {
    const { apis } = shared;
    const leader = await leading();
    const made = await apis[1 - leader].put('/v1/schedules/often', { every_ms: 1000, queue: 'ticks', job: { payload: { n: 1 } } });
    assert.equal(made.status, 201, made.text);
    // Now and then the other one is made the leader; for a moment both believe that they are.
    let looks = 0;
    const fired = () => {
      if (++looks % 4 === 0)
        sql(`UPDATE ${schema}.leader SET epoch = epoch + 1, holder = (SELECT n.epoch FROM ${schema}.node n WHERE n.epoch <> holder)`);
      return jobsIn('ticks') >= 4;
    };
    await until('it has fired four times', fired, 30_000);
    await apis[leader].post('/v1/schedules/often/pause', {});
    const { json } = await apis[1 - leader].get('/v1/schedules/often');
    const times = sql(`SELECT string_agg(j.attributes::json ->> 'fire_time', ',' ORDER BY j.seq) FROM ${schema}.job j JOIN ${schema}.queue q ON q.number = j.queue WHERE q.name = 'ticks'`).split(',');
    assert.equal(new Set(times).size, times.length, 'no time twice');
    assert.equal(json.fired, times.length);
  });

  test('HF-8 both nodes run it out of turn under a unique key: one job', async () => {
    const { apis } = shared;
    for (let round = 0; round < 5; round++) {
      const name = `same-${round}`;
      const spec = { every_ms: 86_400_000, queue: name, job: { unique: 'one', payload: 1 } };
      assert.equal((await apis[round % 2].put(`/v1/schedules/${name}`, spec)).status, 201);
      await Promise.all(apis.map((api) => api.post(`/v1/schedules/${name}/run`, {})));
      assert.equal(jobsIn(name), 1);
    }
  });

  test('ORC-16 ORC-19 an item goes to one job, whichever node it came in by', async () => {
    const { apis } = shared;
    const leader = await leading();
    const spec = { source_queue: 'items', batch_size: 3, eager: true, queue: 'batches' };
    assert.equal((await apis[1 - leader].put('/v1/schedules/catcher', spec)).status, 201);
    for (let i = 0; i < 12; i++) await apis[i % 2].post('/v1/queues/items/jobs', { payload: i });
    await until('all are taken', () => sql(`SELECT count(*) FROM ${schema}.job j JOIN ${schema}.queue q ON q.number = j.queue WHERE q.name = 'items' AND j.state = 3`) === '12', 30_000);
    const taken = [];
    for (;;) {
      const { json } = await apis[taken.length % 2].post('/v1/queues/batches/claim', {});
      if (json.jobs.length === 0) break;
      const [job] = json.jobs;
      for (const item of job.payload.items) {
        taken.push(item.id);
        // The token is good on either node.
        assert.equal((await apis[taken.length % 2].post(`/v1/jobs/${item.id}/ack`, { token: item.token })).status, 200);
      }
      assert.equal((await apis[0].post(`/v1/jobs/${job.id}/ack`, { token: job.token })).status, 200);
    }
    assert.equal(taken.length, 12);
    assert.equal(new Set(taken).size, 12);
    // What a job leaves open when it ends fails, by the leader.
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

  test('HF-8 another node fires when the one that did has died', async () => {
    const { nodes, apis } = shared;
    const leader = await leading();
    const spec = { every_ms: 1000, queue: 'after', misfire: 'skip' };
    assert.equal((await apis[leader].put('/v1/schedules/survivor', spec)).status, 201);
    await until('it fires', () => jobsIn('after') > 0, 30_000);
    await killServer(nodes[leader]);
    // Its lease is brought to its end, so that the test need not wait for it.
    sql(`UPDATE ${schema}.leader SET until = 0`);
    const before = jobsIn('after');
    await until('it fires again', () => jobsIn('after') > before + 1, 30_000);
    const times = sql(`SELECT string_agg(j.attributes::json ->> 'fire_time', ',' ORDER BY j.seq) FROM ${schema}.job j JOIN ${schema}.queue q ON q.number = j.queue WHERE q.name = 'after'`).split(',');
    assert.equal(new Set(times).size, times.length, 'no time twice');
  });
});
