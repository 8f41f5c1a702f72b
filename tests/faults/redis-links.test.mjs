// SPDX-License-Identifier: Apache-2.0
// HF-2: connections to Redis that break at the worst moment. TF-3, TF-4: leaders that are stopped and replaced. A repeated
// request is done once; a node that no longer leads does nothing. HF_FULL=1 uses the default times.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { logged, until } from '../e2e/lib/server.mjs';
import { leaderOf, Node, startNodes, times } from './lib/cluster.mjs';
import { dueOnce, stoppedLeader } from './lib/leading.mjs';
import { darkNetwork, noNamespaces } from './lib/namespaces.mjs';
import { Proxy } from './lib/proxy.mjs';
import { checkIndexes, redis, socket, storeAt, url } from './lib/redis.mjs';

// ---- connections that are closed ----

/** A node behind a proxy, and a second one if the store is to be shared. */
async function behindProxy(t, prefix, { beside = 0, env } = {}) {
  const proxy = await new Proxy({ path: socket }).listen();
  const node = new Node(url(prefix, proxy.port), 1, { env });
  const others = beside ? await startNodes(t, url(prefix), beside, { env, args: ['--node', '2'] }) : [];
  await node.start();
  t.after(async () => {
    if (!node.server.exit) await node.kill();
    proxy.close();
  });
  await until('it has seen the others', async () => (await node.cluster()).nodes.length === 1 + beside);
  return { proxy, node, other: others[0] };
}

/** The connection of the request is closed at each place, and the request is repeated until it is known to be done. A place:
 * the text that it contains, and whether the request or its reply is dropped. */
async function insist(proxy, places, ask) {
  for (const place of places) {
    let done = false;
    const cut = proxy.cut(place).then(() => (done = true));
    await until(`it is cut: ${JSON.stringify(place)}`, async () => {
      const { status } = await ask();
      assert.ok(!done || [503, 504].includes(status), `${JSON.stringify(place)}: ${status}`);
      return done;
    });
    await cut;
  }
  return until('it is answered', async () => {
    const answer = await ask();
    return [503, 504].includes(answer.status) ? null : answer;
  });
}

for (const beside of [0, 1])
  test(`HF-2 connections that are closed between request and reply, ${beside ? 'beside another node' : 'alone'}`, async (t) => {
    const prefix = `cuts${beside}`;
    const { proxy, node, other } = await behindProxy(t, prefix, { beside });
    // Neither the write nor its reply passes, then only the write does; then the read of the repetition.
    const places = (marker) => [{ marker, before: true }, { marker }, { marker: 'some-queue' }];
    const enqueue = () => node.api.post('/v1/queues/some-queue/jobs', { payload: 'the payload', unique: 'u' }, { headers: { 'idempotency-key': 'k' } });
    const made = await insist(proxy, places('the payload'), enqueue);
    assert.equal(made.status, 200, 'it had been stored, although its reply was lost');
    assert.equal(redis('HLEN', `${prefix}:row`), 1);

    // No client has the token of a claim whose reply is lost: it is released, uncounted, long before its lease ends.
    const claim = () => node.api.post('/v1/queues/some-queue/claim', { worker: 'the claimer', lease_ms: 600_000, wait_ms: 5000 });
    const claimed = await insist(proxy, places('the claimer'), claim);
    const [job] = claimed.json.jobs;
    assert.deepEqual([job.id, job.attempt], [made.json.id, 1]);
    for (const { api } of [node, other ?? node]) assert.deepEqual((await api.post('/v1/queues/some-queue/claim', {})).json.jobs, []);

    const ack = () => node.api.post(`/v1/jobs/${job.id}/ack`, { token: job.token, result: 'the result' });
    const acked = await insist(proxy, places('the result').slice(0, 2), ack);
    assert.deepEqual([acked.status, acked.json.state], [200, 'done']);
    const { json } = await (other ?? node).api.get('/v1/queues/some-queue/stats');
    assert.deepEqual([json.counts.done, json.counts.ready, json.counts.running], [1, 0, 0]);
    const { enqueued, claimed: claims, released, acked: acks } = json.totals;
    assert.deepEqual([enqueued, claims - released, acks], [1, 1, 1], 'each was done once');
    checkIndexes(prefix);
    for (const one of [node, other]) await one?.stop();
  });

test('HF-2 jobs that a lost connection was about to claim are released with the next heartbeat', async (t) => {
  // Nothing else would release them soon: the node that held them sends no more requests.
  const { proxy, node, other } = await behindProxy(t, 'held', { beside: 1, env: { HOLDFAST_CLUSTER_SILENT_MS: '10m' } });
  await other.api.post('/v1/queues/some-queue/jobs', { payload: 1 });
  const cut = proxy.cut({ marker: 'some-queue' });
  const lost = await node.api.post('/v1/queues/some-queue/claim', {});
  await cut;
  assert.equal(lost.status, 503);
  const { json } = await other.api.post('/v1/queues/some-queue/claim', { wait_ms: 60_000 });
  assert.equal(json.jobs[0]?.attempt, 1);
  assert.equal(redis('EXISTS', 'held:holds'), 0);
  for (const one of [node, other]) await one.stop();
});

// ---- leaders ----

/** Replies may take long. */
const patient = { HOLDFAST_TIMEOUTS_BACKEND_MS: '60s' };

test('TF-3 a leader that is stopped is replaced, finds another epoch when it continues, and does nothing', async (t) => {
  const { old, other } = await stoppedLeader(t, storeAt('frozen'), { env: patient });
  await logged(old.server, /leader_lost .*the pending work of this node as the leader was not done/);
  assert.equal(await old.metric('holdfast_leader_overtaken_total'), 1);
  assert.equal(await other.metric('holdfast_leader_overtaken_total'), 0);
  for (const node of [old, other]) await node.stop();
});

test('TF-3 a write of a leader that was replaced is refused because of its epoch', async (t) => {
  // Only the query for due jobs contains this number.
  const marker = '612345';
  const { proxy, node } = await behindProxy(t, 'fenced', { env: { ...patient, HOLDFAST_CLUSTER_SILENT_MS: `${marker}ms` } });
  await leaderOf([node]);
  // The leader has read that a job is due, and is held there. If it has read too early, it is released.
  let job, release;
  await until('it has read that a job is due', async () => {
    job = (await node.api.post('/v1/queues/q/jobs', { payload: 1, delay_ms: 100 })).json;
    release = await proxy.cut({ marker, hold: true, on: true });
    const wire = Buffer.alloc(8);
    wire.writeBigUInt64BE(BigInt(job.seq));
    if (release.kept().includes(wire)) return true;
    release();
    return false;
  });
  const next = await new Node(url('fenced'), 2).start();
  t.after(() => (next.server.exit ? null : next.kill()));
  await until('the other node leads', async () => (await next.cluster()).leader?.self);
  await until('the job is ready', async () => (await next.api.get(`/v1/jobs/${job.id}`)).json.state === 'ready');
  const { json } = await next.api.post('/v1/queues/q/claim', { count: 100, lease_ms: 600_000 });
  const claimed = json.jobs.find(({ id }) => id === job.id);
  assert.equal(claimed?.attempt, 1);
  const rows = storeAt('fenced').jobs();
  release();
  await until('it finds that another leads', async () => (await node.metric('holdfast_leader_overtaken_total')) === 1);
  await logged(node.server, /leader_lost .*was not done/);
  assert.equal(storeAt('fenced').jobs(), rows);
  assert.equal((await node.api.post(`/v1/jobs/${claimed.id}/ack`, { token: claimed.token })).status, 200);
  for (const one of [node, next]) await one.stop();
});

test('TF-4 TF-8 several nodes make each delayed job ready once, while the leader changes all the time', (t) => dueOnce(t, storeAt('restless'), { restless: true, total: 300 }));

test('HF-2 a server can be stopped while Redis is unavailable, and when its leave message is lost', async (t) => {
  for (const [mode, busy] of [['stall', true], ['stall', false], ['refuse', false]]) {
    const { proxy, node } = await behindProxy(t, `stops-${mode}-${busy}`);
    proxy.set(mode);
    const open = busy ? node.api.post('/v1/queues/q/jobs', { payload: 1 }).then(({ status }) => status) : 503;
    if (busy) await until('it asks Redis', () => proxy.held() > 0);
    node.server.process.kill('SIGTERM');
    await until(`it ends, ${mode}`, () => node.server.exit, times.answer + 20_000);
    assert.equal(node.server.exit.code, 0, node.server.stderr);
    assert.ok([503, 504].includes(await open));
    node.api.close();
    proxy.close();
  }
});

test('HF-2 a network that drops every packet', { skip: noNamespaces() }, async (t) => {
  const send = (node, key) => node.api.post('/v1/queues/q/jobs', { payload: key }, { headers: { 'idempotency-key': key } });
  await darkNetwork(t, { socket, urlOf: (at) => url('netns', at), send });
  assert.equal(redis('HLEN', 'netns:row'), 2);
});
