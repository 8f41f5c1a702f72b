// SPDX-License-Identifier: Apache-2.0
// Two servers on one PostgreSQL database: what needs all of them to agree. Runs itself below
// scripts/with-postgres.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { after, before, describe, test } from 'node:test';

import { Client } from './lib/client.mjs';
import { startServer, stopServer, until } from './lib/server.mjs';

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
