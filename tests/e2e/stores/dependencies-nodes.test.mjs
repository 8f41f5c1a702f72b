// SPDX-License-Identifier: Apache-2.0
// HF-28: dependencies over several nodes of one store: jobs that many others wait for, jobs that wait for many others,
// parents that end on two nodes at the same moment, and a node that is killed between. The file runs itself with
// scripts/with-postgres and scripts/with-redis.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { killServer, startServer, stopServer, until } from '../lib/server.mjs';

const stores = {
  postgres: { variable: 'HF_POSTGRES', wrapper: 'with-postgres', url: (name) => `${process.env.HF_POSTGRES}&schema=${name}` },
  redis: { variable: 'HF_REDIS', wrapper: 'with-redis', url: (name) => `${process.env.HF_REDIS}?prefix=${encodeURIComponent(`{${name}}:`)}` },
};
for (const { variable, wrapper } of Object.values(stores)) {
  if (process.env[variable]) continue;
  const path = fileURLToPath(new URL(`../../../scripts/${wrapper}`, import.meta.url));
  const words = ['node', ...process.execArgv, fileURLToPath(import.meta.url)];
  process.exit(spawnSync(path, words, { stdio: 'inherit' }).status ?? 1);
}

const settings = { HOLDFAST_CLUSTER_LEADER_TTL_MS: '2s', HOLDFAST_CLUSTER_SILENT_MS: '3s' };

async function startNodes(t, backend, count = 2) {
  const nodes = await Promise.all(Array.from({ length: count }, (_, i) => startServer({ backend, env: settings, args: ['--node', String(i + 1)] })));
  const apis = nodes.map((node) => new Client(node));
  t.after(async () => {
    for (const api of apis) api.close();
    for (const node of nodes) if (!node.exit) await stopServer(node);
  });
  await until('they know each other', async () => (await Promise.all(apis.map((api) => api.get('/v1/cluster')))).every(({ json }) => json.nodes.length === count));
  return { nodes, apis };
}

async function post(api, where, body, wanted = 200) {
  const answer = await api.post(where, body);
  assert.equal(answer.status, wanted, answer.text);
  return answer.json;
}

const counts = async (api, queue) => (await api.get(`/v1/queues/${queue}`)).json.counts;

async function claimAll(api, queue, total) {
  const held = [];
  await until(`${total} jobs of ${queue} are claimed`, async () => {
    held.push(...(await post(api, `/v1/queues/${queue}/claim`, { count: 1000, lease_ms: 600_000 })).jobs);
    return held.length >= total;
  });
  assert.equal(held.length, total);
  return held;
}

const ackAll = (api, jobs) => post(api, '/v1/ack', { jobs: jobs.map(({ id, token }) => ({ id, token })) });

async function openBatch(api, queue, total) {
  const { batch } = await post(api, '/v1/batches', { jobs: [], then: { queue: `${queue}-then` }, open: true }, 201);
  for (let at = 0; at < total; at += 1000)
    await post(api, `/v1/batches/${batch}/jobs`, { jobs: Array.from({ length: Math.min(1000, total - at) }, () => ({ queue })) });
  assert.equal((await post(api, `/v1/batches/${batch}/close`)).counts.total, total);
  return batch;
}

for (const [store, { url }] of Object.entries(stores)) {
  test(`HF-28 on ${store}: two parents that end on two nodes at the same moment make their child ready once`, async (t) => {
    const { apis } = await startNodes(t, url('same_moment'));
    const rounds = 40;
    for (let i = 0; i < rounds; i++) {
      const q = `q${i}`;
      const { then } = await post(apis[0], '/v1/batches', { jobs: [{ queue: q }, { queue: q }], then: { queue: 'then', payload: i } }, 201);
      assert.equal(then.state, 'blocked');
      const jobs = await claimAll(apis[1], q, 2);
      await Promise.all(jobs.map((job, k) => post(apis[k], `/v1/jobs/${job.id}/ack`, { token: job.token })));
    }
    const started = await claimAll(apis[0], 'then', rounds);
    assert.deepEqual(started.map((job) => job.payload).sort((a, b) => a - b), Array.from({ length: rounds }, (_, i) => i));
    await ackAll(apis[1], started);
    assert.deepEqual([(await counts(apis[0], 'then')).done, (await counts(apis[0], 'then')).blocked], [rounds, 0]);
  });

  test(`HF-28 on ${store}: a batch of 10,000 jobs that two nodes work on, one of which is killed`, async (t) => {
    const { nodes, apis } = await startNodes(t, url('many_parents'), 3);
    const batch = await openBatch(apis[0], 'many', 10_000);
    const held = await claimAll(apis[1], 'many', 10_000);
    const parts = Array.from({ length: 20 }, (_, i) => held.slice(i * 500, (i + 1) * 500));
    await Promise.all(parts.slice(0, 8).map((part, i) => ackAll(apis[i % 3], part)));
    // The third node is killed while it acks; the rest is acked by the others, whatever became of its requests.
    const last = parts.slice(8, 14).map((part) => ackAll(apis[2], part).catch(() => null));
    await last[0];
    await killServer(nodes[2]);
    await Promise.all(last);
    await Promise.all(parts.slice(8).map((part, i) => apis[i % 2].post('/v1/ack', { jobs: part.map(({ id, token }) => ({ id, token })) })));
    const [then] = await claimAll(apis[1], 'many-then', 1);
    assert.equal(then.id, batch);
    const { counts: seen } = (await apis[0].get(`/v1/batches/${batch}`)).json;
    assert.deepEqual([seen.total, seen.done, seen.waiting], [10_000, 10_000, 0]);
    await ackAll(apis[0], [then]);
    assert.equal((await post(apis[1], '/v1/queues/many-then/claim', {})).jobs.length, 0);
  });

  test(`HF-28 on ${store}: a job with 10,000 dependents, and the node that acked it is killed at once`, async (t) => {
    const { nodes, apis } = await startNodes(t, url('many_children'), 2);
    const parent = await post(apis[0], '/v1/queues/p/jobs', { payload: 1 }, 201);
    for (let at = 0; at < 10; at++)
      await post(apis[at % 2], '/v1/queues/c/jobs', Array.from({ length: 1000 }, (_, i) => ({ payload: i, depends_on: [parent.id] })));
    assert.equal((await counts(apis[0], 'c')).blocked, 10_000);
    const [job] = await claimAll(apis[1], 'p', 1);
    const began = Date.now();
    await post(apis[1], `/v1/jobs/${job.id}/ack`, { token: job.token });
    await killServer(nodes[1]);
    await until('all are ready', async () => (await counts(apis[0], 'c')).blocked === 0, 60_000);
    console.log(`# all of them are ready ${Date.now() - began} ms after the ack`);
    const children = await claimAll(apis[0], 'c', 10_000);
    assert.equal(new Set(children.map(({ id }) => id)).size, 10_000);
  });

  test(`HF-28 on ${store}: the rule for a parent that fails, across nodes`, async (t) => {
    const { apis } = await startNodes(t, url('rules'));
    const [a, b] = await Promise.all([0, 1].map((i) => post(apis[i], '/v1/queues/p/jobs', { payload: i }, 201)));
    const child = async (i, rule) => (await post(apis[i], '/v1/queues/c/jobs', { depends_on: [a.id, b.id], on_dependency_failure: rule }, 201)).id;
    const ids = { cancelled: await child(0, 'cancel'), dead: await child(1, 'dead'), ready: await child(0, 'run') };
    const grandchild = (await post(apis[1], '/v1/queues/g/jobs', { depends_on: [ids.cancelled], on_dependency_failure: 'dead' }, 201)).id;
    assert.equal((await apis[1].delete(`/v1/jobs/${a.id}`)).status, 200);
    const state = async (id) => (await apis[0].get(`/v1/jobs/${id}`)).json;
    await until('the rules have been applied', async () => (await state(grandchild)).state === 'dead');
    assert.deepEqual([(await state(ids.cancelled)).state, (await state(ids.dead)).state, (await state(ids.ready)).state], ['cancelled', 'dead', 'blocked']);
    assert.equal((await state(ids.dead)).reason, 'dependency_failed');
    await post(apis[0], `/v1/jobs/${b.id}/cancel`, {});
    await until('the other one runs', async () => (await state(ids.ready)).state === 'ready');
  });
}
