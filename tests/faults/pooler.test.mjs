// SPDX-License-Identifier: Apache-2.0
// PgBouncer between the nodes and the database, each transaction on any connection of few (`pooler=yes`).
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { Client } from '../e2e/lib/client.mjs';
import { until } from '../e2e/lib/server.mjs';
import { leaderOf, startNodes } from './lib/cluster.mjs';
import { socket, sql } from './lib/postgres.mjs';

const directory = mkdtempSync(path.join(socket, 'pooler-'));
const port = 6432; // of a Unix socket in its own directory
const backend = `postgres://holdfast@/postgres?host=${encodeURIComponent(directory)}&port=${port}&schema=pooled&pooler=yes`;
let pooler;

before(async () => {
  const settings = [
    '[databases]', `postgres = host=${socket} port=5432 user=holdfast`, '[pgbouncer]', 'listen_addr =', `listen_port = ${port}`,
    `unix_socket_dir = ${directory}`, 'auth_type = any', 'pool_mode = transaction', 'default_pool_size = 4', 'max_client_conn = 50',
    `logfile = ${directory}/log`, `pidfile = ${directory}/pid`,
  ];
  writeFileSync(`${directory}/ini`, `${settings.join('\n')}\n`);
  chmodSync(directory, 0o777);
  const owner = (process.env.HF_POSTGRES_AS ?? '').split(' ').filter(Boolean);
  const [file, ...words] = [...owner, '/usr/sbin/pgbouncer', '-q', `${directory}/ini`];
  pooler = spawn(file, words, { stdio: 'ignore' });
  pooler.gone = new Promise((resolve) => pooler.on('exit', resolve));
  process.on('exit', () => pooler.kill('SIGKILL'));
  await until('the pooler answers', () => spawnSync('psql', ['-qAt', '-h', directory, '-p', port, '-U', 'holdfast', '-d', 'postgres', '-c', 'SELECT 1']).status === 0);
});
after(async () => {
  pooler.kill('SIGINT');
  await pooler.gone;
  rmSync(directory, { recursive: true, force: true });
});

test('two nodes behind a pooler: enqueue, claim, ack, delay, leases that end, unique keys', async (t) => {
  const nodes = await startNodes(t, backend, 2, { env: { HOLDFAST_TIMEOUTS_BACKEND_MS: '60s' } }); // also on a slow machine
  await leaderOf(nodes);
  const [one, two] = nodes.map((node) => node.api);
  const made = await one.post('/v1/queues/q/jobs', Array.from({ length: 200 }, (_, i) => ({ payload: i })));
  assert.ok(made.json.jobs.every((job) => job.created));
  const got = new Set();
  const drain = async (api) => {
    for (;;) {
      const { json } = await api.post('/v1/queues/q/claim', { count: 9 });
      if (json.jobs.length === 0) return;
      for (const job of json.jobs) {
        assert.ok(!got.has(job.id));
        got.add(job.id);
      }
      const acks = await api.post('/v1/ack', { jobs: json.jobs.map(({ id, token }) => ({ id, token })) });
      assert.equal(acks.status, 200);
    }
  };
  await Promise.all([drain(one), drain(two)]);
  assert.equal(got.size, 200);
  assert.equal(sql('SELECT count(*) FROM pooled.job WHERE state = 4'), '200');

  // A job of another node, and one that becomes due, are noticed without a notification.
  for (const delay of [0, 300]) {
    const waiting = two.post('/v1/queues/late/claim', { wait_ms: 30_000 });
    const { json } = await one.post('/v1/queues/late/jobs', { payload: delay, delay_ms: delay });
    assert.equal((await waiting).json.jobs[0]?.id, json.id);
  }
  await one.post('/v1/queues/lease/jobs', { payload: 1 });
  await one.post('/v1/queues/lease/claim', { lease_ms: 1000 });
  const again = await two.post('/v1/queues/lease/claim', { wait_ms: 30_000 });
  assert.equal(again.json.jobs[0]?.attempt, 2);

  const answers = await Promise.all(Array.from({ length: 12 }, (_, i) => [one, two][i % 2].post('/v1/queues/u/jobs', { payload: i, unique: 'same' })));
  assert.equal(answers.filter((a) => a.status === 201).length, 1);
  const { backend: health } = (await one.get('/v1/cluster')).json;
  assert.deepEqual([health.up, health.connections, health.connections_wanted], [true, 3, 3]);
  // Nothing was left in a session of the pooler.
  const probe = new Client((await startNodes(t, backend, 1))[0].server);
  assert.equal((await probe.get('/v1/queues/q')).json.counts.done, 200);
  probe.close();
});

test('the limits of a transaction also hold behind a pooler', async (t) => {
  const [node] = await startNodes(t, backend, 1);
  await leaderOf([node]);
  // Another session holds the queue: the unit is given up in bounded time, and nothing stays locked.
  await node.api.put('/v1/queues/held', {});
  const holder = spawn('psql', ['-qAt', '-h', socket, '-U', 'holdfast', '-d', 'postgres'], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => holder.kill('SIGKILL'));
  holder.stdin.write("BEGIN; LOCK TABLE pooled.job IN ACCESS EXCLUSIVE MODE; SELECT 'locked';\n");
  await new Promise((resolve) => holder.stdout.once('data', resolve));
  const answer = await node.api.post('/v1/queues/held/jobs', { payload: 1 });
  assert.ok([503, 504].includes(answer.status), String(answer.status));
  holder.stdin.end('ROLLBACK;\n');
  await until('it goes on', async () => (await node.api.post('/v1/queues/held/jobs', { payload: 2 })).status === 201);
  await node.stop();
});

test('HF-29 a job that is enqueued with SQL through the pooler', async (t) => {
  const [node] = await startNodes(t, backend, 1, { env: { HOLDFAST_TIMEOUTS_BACKEND_MS: '60s' } });
  for (let i = 0; i < 3; i++) {
    const waiting = node.api.post('/v1/queues/inbox/claim', { wait_ms: 60_000 });
    const words = ['-qAt', '-h', directory, '-p', port, '-U', 'holdfast', '-d', 'postgres', '-c', `SELECT pooled.enqueue('inbox', '${i}')`];
    const id = spawnSync('psql', words, { encoding: 'utf8' }).stdout.trim();
    assert.equal((await waiting).json.jobs[0]?.id, id);
  }
  await node.stop();
});
