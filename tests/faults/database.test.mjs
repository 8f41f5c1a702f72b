// SPDX-License-Identifier: Apache-2.0
// Producers, workers and an administrator on three nodes of one database, while the database and the nodes are killed and
// frozen; then every promise (C1 to C10 of docs/durability.md) is checked with the replies that the clients got.
// HF_SEED=n repeats a plan, HF_FAULTS=n makes it longer, HF_FULL=1 uses the default times.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { countOf } from '../crash/lib/trial.mjs';
import { openStream } from '../e2e/lib/client.mjs';
import { until } from '../e2e/lib/server.mjs';
import { leaderOf, startNodes, times } from './lib/cluster.mjs';
import { faultsUnderLoad, seed } from './lib/load.mjs';
import { freezeDatabase, killDatabase, sql, startDatabase, thawDatabase, url } from './lib/postgres.mjs';

const faults = countOf('HF_FAULTS', 6); // one of each kind

test(`${faults} faults under load, seed ${seed}`, async (t) => {
  const endLead = () => sql('UPDATE load.leader SET until = 0');
  const store = { kill: killDatabase, start: startDatabase, freeze: freezeDatabase, thaw: thawDatabase, endLead };
  const first = ['storeKilled', 'storeFrozen', 'nodeKilled', 'leaderKilled', 'leaderFrozen', 'leaseTaken'];
  const nodes = await faultsUnderLoad(t, { url: url('load'), store, count: 3, faults, first });
  // The tables must agree with the API.
  assert.equal(sql("SELECT count(*) FROM (SELECT queue, unique_key FROM load.job WHERE holds_key GROUP BY 1, 2 HAVING count(*) > 1) x"), '0');
  assert.equal(sql('SELECT count(*) FROM load.job WHERE state = 3'), '0');
  for (const node of nodes) await node.stop();
});

test('HF-1 a database that crashes right after a sync loses nothing that was confirmed', async (t) => {
  // The database is killed right after a reply, again and again: data that are not on the disk by then are lost.
  const [node] = await startNodes(t, url('edge'), 1);
  const confirmed = new Map();
  const rounds = countOf('HF_EDGES', 3);
  for (let round = 0; round < rounds; round++) {
    await until('it serves', async () => (await node.api.post('/v1/queues/warm/jobs', { payload: 0 })).status === 201);
    let killed = false;
    const sender = async (n) => {
      for (let i = 0; !killed; i++) {
        const key = `${round}-${n}-${i}`;
        const answer = await node.api.post('/v1/queues/edge/jobs', { payload: key }, { headers: { 'idempotency-key': key } });
        if (answer.status === 201 || answer.status === 200) confirmed.set(key, answer.json.id);
      }
    };
    const senders = Array.from({ length: 8 }, (_, n) => sender(n));
    const enough = confirmed.size + 50;
    await until('jobs are confirmed', () => confirmed.size >= enough);
    await killDatabase();
    killed = true;
    await Promise.all(senders);
    startDatabase();
  }
  const kept = new Set(sql(`SELECT convert_from(payload, 'UTF8') FROM edge.job j JOIN edge.queues q ON q.number = j.queue WHERE q.name = 'edge'`).split('\n'));
  for (const key of confirmed.keys()) assert.ok(kept.has(JSON.stringify(key)), `${key} was confirmed and is lost`);
  assert.equal(Number(sql("SELECT count(*) FROM edge.job j JOIN edge.queues q ON q.number = j.queue WHERE q.name = 'edge'")), kept.size);
  await until('it serves again', async () => (await node.api.get('/readyz')).status === 200);
  await node.stop();
});

test('the jobs that connections of a killed node held become ready on the others', async (t) => {
  const nodes = await startNodes(t, url('bound'), 2);
  await leaderOf(nodes);
  const [one, two] = nodes;
  await one.api.post('/v1/queues/q/jobs', { payload: 1 });
  const stream = openStream(one.server, '/v1/queues/q/listen', { method: 'POST', json: { prefetch: 1, lease_ms: 600_000, worker: 'w' } });
  await stream.next();
  assert.equal((await two.api.post('/v1/queues/q/claim', {})).json.jobs.length, 0);
  await one.kill();
  const [job] = await until('the job is back', async () => {
    const { json } = await two.api.post('/v1/queues/q/claim', { wait_ms: 500 });
    return json.jobs?.length ? json.jobs : null;
  }, 4 * (times.silent + times.ttl) + 10_000);
  assert.equal(job.attempt, 1);
  // Its entry shows the state at its last heartbeat.
  await until('it says so', async () => (await two.cluster()).nodes.find((node) => node.node === 1)?.silent);
  assert.equal(await two.metric('holdfast_cluster_nodes'), 1);
  await two.stop();
});
