// SPDX-License-Identifier: Apache-2.0
// TF-3: one node leads, by a lease with an epoch. A leader that was stopped and replaced does nothing when it continues;
// another node leads within twice the lease. TF-4: each due job becomes ready once, whichever node leads.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { pause } from '../crash/lib/recorder.mjs';
import { until } from '../e2e/lib/server.mjs';
import { leaderOf, Node, startNodes } from './lib/cluster.mjs';
import { dueOnce, stoppedLeader } from './lib/leading.mjs';
import { sql, url } from './lib/postgres.mjs';

const schemaOf = (name) => url(name);
const epochOf = (schema) => Number(sql(`SELECT epoch FROM ${schema}.leader`));
const storeIn = (schema) => ({
  url: schemaOf(schema),
  leader: () => ({ holder: sql(`SELECT holder FROM ${schema}.leader`), epoch: epochOf(schema) }),
  endLead: () => sql(`UPDATE ${schema}.leader SET until = 0, holder = 0`),
  jobs: () => sql(`SELECT seq, state, crashes, token_epoch, token_counter FROM ${schema}.job ORDER BY seq`),
});

test('TF-3 a leader that is stopped is replaced, and does nothing when it continues', async (t) => {
  // It finds another epoch; or, if it was stopped in a transaction, that the database has ended its connection.
  const { old, other } = await stoppedLeader(t, storeIn('frozen'));
  for (const node of [old, other]) await node.stop();
});

test('TF-3 a leader that does not know yet that it was replaced finds another epoch and changes nothing', async (t) => {
  // Heartbeats are rare, so that the work of the leader meets the epoch first.
  const far = { env: { HOLDFAST_CLUSTER_LEADER_TTL_MS: '60s', HOLDFAST_CLUSTER_SILENT_MS: '60s' } };
  const [node] = await startNodes(t, schemaOf('fenced'), 1, far);
  await leaderOf([node]);
  sql('UPDATE fenced.leader SET epoch = epoch + 1, holder = -1');
  await node.api.post('/v1/queues/q/jobs', { payload: 1, delay_ms: 50 });
  await until('it finds that another leads', async () => (await node.metric('holdfast_leader_overtaken_total')) === 1);
  await pause(500); // the job has been due for a long time
  assert.equal(sql('SELECT state FROM fenced.job'), '1');
  assert.equal((await node.api.post('/v1/queues/q/claim', {})).json.jobs.length, 0);
  await node.stop();
  // The next node waits until the end of that lease, and no longer.
  sql('UPDATE fenced.leader SET until = 0');
  const next = await new Node(schemaOf('fenced'), 2).start();
  t.after(() => (next.server.exit ? null : next.kill()));
  const { json } = await next.api.post('/v1/queues/q/claim', { wait_ms: 30_000 });
  assert.equal(json.jobs[0]?.attempt, 1);
  await next.stop();
});

test('TF-3 a node with a wrong clock neither becomes the leader nor looks dead', async (t) => {
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
    // On a slow machine it may be silent for a moment, but with its clock it would be so for hours.
    await until('the leader has seen it alive', async () => (await node.cluster()).nodes.find((one) => one.node === 2)?.silent === false);
    assert.equal(epochOf('clocks'), epoch);
    await other.stop();
  }
  await node.stop();
});

for (const restless of [false, true])
  test(`TF-4 TF-8 several nodes make each delayed job ready once, ${restless ? 'while the leader changes all the time' : 'while one of them leads'}`, async (t) => {
    const schema = restless ? 'restless' : 'due';
    await dueOnce(t, storeIn(schema), { restless });
    assert.equal(sql(`SELECT count(*) FROM ${schema}.job WHERE state = 4 AND failures + crashes = 0`), '600');
  });
