// SPDX-License-Identifier: Apache-2.0
// TF-3: one node leads, by a lease with an epoch. One that was stopped and overtaken does nothing when it
// goes on; another leads within twice the lease. TF-4: what becomes due is made ready once, whoever leads.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { until } from '../e2e/lib/server.mjs';
import { leaderOf, Node, startNodes, times } from './lib/cluster.mjs';
import { sql, url } from './lib/postgres.mjs';

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const schemaOf = (name) => url(name);
const epochOf = (schema) => Number(sql(`SELECT epoch FROM ${schema}.leader`));

test('TF-3 a leader that is stopped is overtaken, and does nothing when it goes on', async (t) => {
  const nodes = await startNodes(t, schemaOf('frozen'), 2);
  const old = await leaderOf(nodes);
  const other = nodes.find((node) => node !== old);
  const epoch = epochOf('frozen');
  // Something that the leader has to do while nobody leads: the lease of one job ends, another becomes due.
  const api = other.api;
  await api.post('/v1/queues/q/jobs', [{ payload: 'crash' }, { payload: 'due', delay_ms: times.ttl }]);
  const { json } = await api.post('/v1/queues/q/claim', { lease_ms: times.ttl });
  assert.equal(json.jobs.length, 1);
  old.freeze();
  const frozenAt = Date.now();
  const taken = await until('the other leads', async () => ((await other.cluster()).leader?.self ? Date.now() : null), 10 * times.ttl);
  // A sign of life each fifth of the lease, and what a loaded machine needs for it.
  assert.ok(taken - frozenAt <= 2 * times.ttl + 500, `it took ${taken - frozenAt} ms; the lease is ${times.ttl} ms`);
  assert.ok(epochOf('frozen') > epoch);
  const got = [];
  await until('what was due is ready', async () => {
    const more = await api.post('/v1/queues/q/claim', { count: 2, lease_ms: 60_000 });
    got.push(...more.json.jobs);
    return got.length === 2;
  }, 10 * times.ttl);
  assert.deepEqual(got.map((job) => [job.payload, job.attempt]).sort(), [['crash', 2], ['due', 1]]);
  await pause(Math.max(0, 3 * times.ttl - (Date.now() - frozenAt)));

  const before = sql('SELECT * FROM frozen.leader');
  const rows = sql('SELECT seq, state, crashes, tok_epoch, tok_counter FROM frozen.job ORDER BY seq');
  old.thaw();
  // It finds another epoch; or, stopped in the middle of a transaction, that the database has ended its connection.
  await until('it knows that it leads no more', () => /leader_lost/.test(old.server.stderr));
  const view = await until('it sees the other lead', async () => {
    const seen = await old.cluster();
    return seen.leader && !seen.leader.self ? seen : null;
  });
  assert.equal(view.leader.node, other.number);
  assert.equal(sql('SELECT seq, state, crashes, tok_epoch, tok_counter FROM frozen.job ORDER BY seq'), rows);
  assert.deepEqual(sql('SELECT epoch, holder FROM frozen.leader'), before.split('|').slice(1, 3).join('|'));
  assert.equal(await old.metric('holdfast_leader'), 0);
  assert.equal(await other.metric('holdfast_leader'), 1);
  // Both serve: tokens of before the change are good at either.
  for (const [i, job] of got.entries()) assert.equal((await nodes[i].api.post(`/v1/jobs/${job.id}/ack`, { token: job.token })).status, 200);
  for (const node of nodes) await node.stop();
});

test('TF-3 a leader that does not know yet that it was overtaken finds another epoch and changes nothing', async (t) => {
  // Signs of life are far apart, so that it is the work of the leader that meets the epoch first.
  const far = { env: { HOLDFAST_CLUSTER_LEADER_TTL_MS: '60s', HOLDFAST_CLUSTER_SILENT_MS: '60s' } };
  const [node] = await startNodes(t, schemaOf('fenced'), 1, far);
  await leaderOf([node]);
  sql('UPDATE fenced.leader SET epoch = epoch + 1, holder = -1');
  await node.api.post('/v1/queues/q/jobs', { payload: 1, delay_ms: 50 });
  await until('it finds that another leads', async () => (await node.metric('holdfast_leader_overtaken_total')) === 1);
  await pause(500); // the job is due since long
  assert.equal(sql('SELECT state FROM fenced.job'), '1');
  assert.equal((await node.api.post('/v1/queues/q/claim', {})).json.jobs.length, 0);
  await node.stop();
  // The next one waits for the end of that lease, and no longer.
  sql('UPDATE fenced.leader SET until = 0');
  const next = await new Node(schemaOf('fenced'), 2).start();
  t.after(() => (next.server.exit ? null : next.kill()));
  const { json } = await next.api.post('/v1/queues/q/claim', { wait_ms: 30_000 });
  assert.equal(json.jobs[0]?.attempt, 1);
  await next.stop();
});

test('TF-3 a node whose clock is wrong neither takes the lead nor looks dead', async (t) => {
  const [node] = await startNodes(t, schemaOf('clocks'), 1);
  await leaderOf([node]);
  const epoch = epochOf('clocks');
  const hour = 3_600_000;
  // Its wall clock is two hours ahead, or behind: only in this process, by a library in front of the C library's.
  for (const ms of [2 * hour, -2 * hour]) {
    const other = new Node(schemaOf('clocks'), 2, { env: { HF_CLOCK_SKEW_MS: String(ms) } });
    await other.start();
    const view = await until('it has seen the leader', async () => {
      const seen = await other.cluster();
      return seen.leader ? seen : null;
    });
    assert.equal(view.leader.node, 1);
    assert.ok(Math.abs(view.backend.clock_offset_ms + ms) < 60_000, `offset ${view.backend.clock_offset_ms}`);
    const seen = (await until('the leader has seen it', async () => {
      const { nodes } = await node.cluster();
      return nodes.length === 2 ? nodes : null;
    })).find((one) => one.node === 2);
    assert.equal(seen.silent, false);
    assert.equal(epochOf('clocks'), epoch);
    await other.stop();
  }
  await node.stop();
});

for (const restless of [false, true])
  test(`TF-4 TF-8 several nodes make each delayed job ready once, ${restless ? 'while the lead changes all the time' : 'one of them leading'}`, async (t) => {
    const schema = restless ? 'restless' : 'due';
    const nodes = await startNodes(t, schemaOf(schema), 3);
    await leaderOf(nodes);
    const total = 600;
    const begin = Date.now() + 500;
    const dueAt = (i) => begin + Math.floor((i * 2000) / total);
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
    // The lease is taken away again and again: whoever asks first has it.
    let changing = restless;
    const changes = (async () => {
      while (changing) {
        sql(`UPDATE ${schema}.leader SET until = 0, holder = 0`);
        await pause(150);
      }
    })();
    await Promise.all(nodes.map(worker));
    changing = false;
    await changes;
    assert.equal(early, 0);
    lags.sort((a, b) => a - b);
    console.log(`# schedule lag of ${total} jobs${restless ? ', the lead changing all the time' : ''}: p50 ${lags[total >> 1]} ms, p99 ${lags[Math.floor(total * 0.99)]} ms`);
    assert.ok(!restless || epochOf(schema) > 3, 'the lead did change');
    const { json } = await nodes[0].api.get('/v1/queues/due');
    assert.deepEqual([json.counts.done, json.counts.ready, json.counts.scheduled, json.counts.running], [total, 0, 0, 0]);
    assert.equal(sql(`SELECT count(*) FROM ${schema}.job WHERE state = 4 AND failures + crashes = 0`), String(total));
    for (const node of nodes) await node.stop();
  });
