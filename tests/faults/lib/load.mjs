// SPDX-License-Identifier: Apache-2.0
// Producers, workers and an administrator that use any of several nodes of one store, while a plan of faults runs; then
// every promise (C1 to C10 of docs/durability.md) is checked with the replies that the clients got.
// HF_SEED=n repeats a plan, HF_KEEPERS=1 adds clients of keys, schedules, triggers and notices (C11 to C14).
import assert from 'node:assert/strict';

import { check, stories } from '../../crash/checker.mjs';
import { Load } from '../../crash/load.mjs';
import { Keepers } from '../../crash/lib/keepers.mjs';
import { now, pause } from '../../crash/lib/recorder.mjs';
import { checkKeepers, seedOf } from '../../crash/lib/trial.mjs';
import { until } from '../../e2e/lib/server.mjs';
import { leaderOf, startNodes, times } from './cluster.mjs';

export const seed = seedOf();
const keepers = process.env.HF_KEEPERS === '1';

/** A load that uses any node. */
class ClusterLoad extends Load {
  get server() {
    return this.nodes ? this.random.of(this.nodes).server : null;
  }
  set server(_) {}

  /** Repeats a request if the node is late with the reply, or has closed an idle connection. */
  async read(where) {
    for (let tries = 0; ; tries++) {
      for (const { number, server } of this.nodes) assert.equal(server.exit, undefined, `node ${number} has ended\n${server.stderr}`);
      try {
        return await super.read(where);
      } catch (error) {
        if (tries > 20) throw error;
        await pause(100);
      }
    }
  }

  over(nodes) {
    this.nodes = nodes;
    this.serve(null);
  }
}

/** Faults of nodes. */
const ofNodes = {
  async nodeKilled({ nodes, random }) {
    const node = random.of(nodes);
    await node.kill();
    await node.start();
  },
  async leaderKilled({ nodes }) {
    const node = await leaderOf(nodes);
    await node.kill();
    await pause(times.ttl);
    await node.start();
  },
  async leaderFrozen({ nodes }) {
    const node = await leaderOf(nodes);
    node.freeze();
    await pause(3 * times.ttl);
    node.thaw();
  },
};

/** Faults of the server that the nodes share: how to kill and start it, to freeze and to thaw it, to end the leader's lease. */
const ofStore = ({ kill, start, freeze, thaw, endLead }) => ({
  async storeKilled({ load, random }) {
    const crash = { at: now(), ready: Infinity };
    load.history.crashes.push(crash);
    await kill();
    await pause(random.below(300));
    await start();
    crash.ready = now();
  },
  async storeFrozen({ random }) {
    freeze();
    await pause(random.below(2.5 * times.answer));
    thaw();
  },
  async leaseTaken() {
    endLead();
  },
});

function verdict(load, faults) {
  const { entries, crashes, final } = load.history;
  const made = load.confirmed();
  console.log(`# ${entries.length} entries, ${made} confirmed jobs, ${final.jobs.size} found, ${crashes.length} crashes, seed ${seed}`);
  const violations = check(load.history).slice(0, 10);
  for (const line of stories(load.history, violations.slice(0, 3))) console.log(`# ${line}`);
  assert.deepEqual(violations, [], `seed ${seed}`);
  assert.ok(made >= 10 * faults, `too little happened to prove anything: ${made} jobs`);
  assert.ok(crashes.length > 0);
  if (keepers) checkKeepers(load);
}

/** Runs `count` faults: one of each kind in `first`, then random ones. Resolves to the nodes, which still run. */
export async function faultsUnderLoad(t, { url, store, count, faults, first, flow = false }) {
  const kinds = { ...ofStore(store), ...ofNodes };
  const args = ['--queue-defaults-keep-done', '1000000'];
  const nodes = await startNodes(t, url, count, { args, env: Keepers.env });
  const load = new ClusterLoad(seed, { paceMs: 40, keepers, flow });
  t.after(() => load.abandon());
  load.over(nodes);
  load.start();
  for (let i = 0; i < faults; i++) {
    await pause(300 + load.random.below(700));
    const kind = first[i] ?? load.random.of(Object.keys(kinds));
    await kinds[kind]({ load, nodes, random: load.random });
  }
  await until('every node serves', async () => (await Promise.all(nodes.map((n) => n.api.get('/readyz')))).every((a) => a.status === 200), 60_000);
  await load.finish();
  verdict(load, faults);
  return nodes;
}
