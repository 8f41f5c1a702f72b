// SPDX-License-Identifier: Apache-2.0
// HF-1: a confirmed job is on the disk. Commits of a node do not wait for the disk; replies wait for a sync on another
// connection. Here the database crashes in between, in the most difficult orders.
import assert from 'node:assert/strict';
import path from 'node:path';
import { before, test } from 'node:test';

import { until } from '../e2e/lib/server.mjs';
import { Node } from './lib/cluster.mjs';
import { killDatabase, socket, sql, startDatabase, url } from './lib/postgres.mjs';
import { Proxy } from './lib/proxy.mjs';

const patient = { env: { HOLDFAST_TIMEOUTS_BACKEND_MS: '60s' } };
const jobs = (schema) => Number(sql(`SELECT count(*) FROM ${schema}.job`));
const send = (node, key) => node.api.post('/v1/queues/q/jobs', { payload: `payload ${key}` }, { headers: { 'idempotency-key': key } });

async function started(t, backend, number) {
  const node = await new Node(backend, number, patient).start();
  t.after(() => (node.server.exit ? null : node.kill()));
  await until('it serves', async () => (await send(node, `warm-${number}`)).status === 201);
  return node;
}

async function proxied(t, schema) {
  const proxy = await new Proxy({ path: path.join(socket, '.s.PGSQL.5432') }).listen();
  t.after(() => proxy.close());
  return [proxy, `postgres://holdfast@127.0.0.1:${proxy.port}/postgres?schema=${schema}`];
}

// Commits without a sync stay in memory: a crash certainly loses them.
before(() => {
  sql("ALTER SYSTEM SET wal_writer_delay = '10s'");
  sql('SELECT pg_reload_conf()');
});

test('HF-1 a sync after a crash does not confirm a commit before it', async (t) => {
  const [proxy, backend] = await proxied(t, 'older');
  const node = await started(t, backend, 1);
  const held = proxy.cut({ marker: 'payload lost', hold: true });
  const answer = send(node, 'lost');
  const release = await held; // committed, and the node does not know yet
  assert.equal(jobs('older'), 2);
  await killDatabase();
  startDatabase();
  assert.equal(jobs('older'), 1, 'the crash has lost it');
  await until('all but the one that waits are connected again', async () => (await node.cluster()).backend.connections === 4);
  release();
  assert.equal((await answer).status, 504);
  const again = await until('it is done', async () => {
    const repeat = await send(node, 'lost');
    return repeat.status < 300 ? repeat : null;
  });
  assert.equal(again.status, 201);
  assert.equal(jobs('older'), 2);
  await node.stop();
});

test('HF-2 a repetition on another node is confirmed only when the job is on the disk', async (t) => {
  const [proxy, backend] = await proxied(t, 'other');
  const one = await started(t, backend, 1);
  const two = await started(t, url('other'), 2);
  // The first node never learns that its job is on the disk, since its sync never starts.
  const asked = proxy.cut({ known: 'n.syncs + 1', before: true });
  const first = send(one, 'twice');
  await asked;
  assert.equal((await first).status, 504);
  assert.equal(jobs('other'), 3);
  const repeat = await send(two, 'twice');
  await killDatabase();
  assert.equal(repeat.status, 200);
  startDatabase();
  assert.equal(sql(`SELECT count(*) FROM other.job WHERE payload = '"payload twice"'`), '1', 'it was confirmed, and exists');
  for (const node of [one, two]) {
    await until('it serves', async () => (await node.api.get('/readyz')).status === 200);
    await node.stop();
  }
});
