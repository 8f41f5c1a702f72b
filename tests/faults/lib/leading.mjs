// SPDX-License-Identifier: Apache-2.0
// Cases about leaders that hold on every store. A store has a url; leader(), which returns the holder and the epoch of
// the leader's lease; endLead(), after which any node may become the leader; and jobs(), all rows as text.
import assert from 'node:assert/strict';

import { pause } from '../../crash/lib/recorder.mjs';
import { until } from '../../e2e/lib/server.mjs';
import { leaderOf, startNodes, times } from './cluster.mjs';

/** Creates work for a leader while no node leads: the lease of one job expires, and another job becomes due. */
async function leaveWork(api, queue) {
  await api.post(`/v1/queues/${queue}/jobs`, [{ payload: 'crash' }, { payload: 'due', delay_ms: times.ttl }]);
  const { json } = await api.post(`/v1/queues/${queue}/claim`, { lease_ms: times.ttl });
  assert.equal(json.jobs.length, 1);
}

/** Claims both jobs, each once. */
async function workDone(api, queue) {
  const got = [];
  await until('both jobs are ready', async () => {
    const more = await api.post(`/v1/queues/${queue}/claim`, { count: 2, lease_ms: 60_000 });
    got.push(...(more.json.jobs ?? [])); // a slow store may not have answered in time
    return got.length === 2;
  });
  assert.deepEqual(got.map((job) => [job.payload, job.attempt]).sort(), [['crash', 2], ['due', 1]]);
  return got;
}

/** Starts two nodes and stops the one that leads (SIGSTOP) until the other leads. */
async function stopLeader(t, store, more, queue) {
  const nodes = await startNodes(t, store.url, 2, more);
  const old = await leaderOf(nodes);
  const other = nodes.find((node) => node !== old);
  const { epoch } = store.leader();
  await leaveWork(other.api, queue);
  old.freeze();
  const frozenAt = Date.now();
  const taken = await until('the other node leads', async () => ((await other.cluster()).leader?.self ? Date.now() : null));
  return { nodes, old, other, epoch, frozenAt, took: taken - frozenAt };
}

/** The same; the change of the leader takes at most twice the lease, and the time of a heartbeat. The machine may be
 * busy: one of several attempts must be in time. */
async function stopLeaderInTime(t, store, more) {
  for (let tries = 1; ; tries++) {
    const queue = `q${tries}`;
    const change = await stopLeader(t, store, more, queue);
    if (change.took <= 2 * times.ttl + 500) return { queue, ...change };
    assert.ok(tries < 5, `the change took ${change.took} ms; the lease is ${times.ttl} ms`);
    change.old.thaw();
    for (const node of change.nodes) await node.stop();
  }
}

/** TF-3: a leader is stopped for three times its lease. Resolves to it and the other node, which still run. */
export async function stoppedLeader(t, store, more) {
  const { nodes, old, other, epoch, frozenAt, queue } = await stopLeaderInTime(t, store, more);
  assert.ok(store.leader().epoch > epoch);
  const got = await workDone(other.api, queue);
  await pause(Math.max(0, 3 * times.ttl - (Date.now() - frozenAt)));

  const before = store.leader();
  const rows = store.jobs();
  old.thaw();
  await until('the old leader logs that it no longer leads', () => /leader_lost/.test(old.server.stderr));
  const view = await until('it sees that the other node leads', async () => {
    const seen = await old.cluster();
    return seen.leader && !seen.leader.self ? seen : null;
  });
  assert.equal(view.leader.node, other.number);
  assert.equal(store.jobs(), rows);
  assert.deepEqual(store.leader(), before);
  assert.equal(await old.metric('holdfast_leader'), 0);
  assert.equal(await other.metric('holdfast_leader'), 1);
  // Both nodes serve, and both accept tokens from before the change.
  for (const [i, job] of got.entries()) assert.equal((await nodes[i].api.post(`/v1/jobs/${job.id}/ack`, { token: job.token })).status, 200);
  return { old, other };
}

/** TF-4, TF-8: three nodes make `total` jobs ready, each once; restless: while the leader changes all the time. */
export async function dueOnce(t, store, { restless, total = 600 }) {
  const nodes = await startNodes(t, store.url, 3, { env: { HOLDFAST_TIMEOUTS_BACKEND_MS: '60s' } }); // also on a slow machine
  await leaderOf(nodes);
  const begin = Date.now() + 500;
  const dueAt = (i) => begin + Math.floor((i * 2 * times.ttl) / total); // long enough for several leaders
  for (let i = 0; i < total; i += 100) {
    const jobs = Array.from({ length: 100 }, (_, k) => ({ payload: i + k, run_at: new Date(dueAt(i + k)).toISOString() }));
    const { json } = await nodes[(i / 100) % 3].api.post('/v1/queues/due/jobs', jobs);
    assert.ok(json.jobs.every((job) => job.created));
  }
  const got = new Map();
  let early = 0;
  const lags = [];
  const worker = async (node) => {
    while (got.size < total) {
      const { json } = await node.api.post('/v1/queues/due/claim', { count: 20, wait_ms: 500, lease_ms: 60_000 });
      for (const job of json.jobs) {
        assert.ok(!got.has(job.id), `job ${job.payload} was handed out twice`);
        got.set(job.id, job);
        lags.push(Date.now() - dueAt(job.payload));
        early += lags.at(-1) < -2 ? 1 : 0;
        assert.equal(job.attempt, 1);
        assert.equal((await node.api.post(`/v1/jobs/${job.id}/ack`, { token: job.token })).status, 200);
      }
    }
  };
  // The leader's lease is ended again and again; the first node that asks becomes the leader.
  let changing = restless;
  const changes = (async () => {
    while (changing) {
      store.endLead();
      await pause(150);
    }
  })();
  await Promise.all(nodes.map(worker));
  changing = false;
  await changes;
  assert.equal(early, 0);
  lags.sort((a, b) => a - b);
  console.log(`# schedule lag of ${total} jobs${restless ? ', with changing leaders' : ''}: p50 ${lags[total >> 1]} ms, p99 ${lags[Math.floor(total * 0.99)]} ms`);
  assert.ok(!restless || store.leader().epoch > 3, 'the leader changed');
  const { json } = await nodes[0].api.get('/v1/queues/due');
  assert.deepEqual([json.counts.done, json.counts.ready, json.counts.scheduled, json.counts.running], [total, 0, 0, 0]);
  for (const node of nodes) await node.stop();
}
