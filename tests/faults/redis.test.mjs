// SPDX-License-Identifier: Apache-2.0
// Producers, workers and an administrator on two and on three nodes of one Redis server that syncs every write
// (appendfsync always), while Redis and the nodes are killed and frozen; then every promise (C1 to C10, and
// C20 to C22 with limits and dependencies, of docs/durability.md) is checked with the replies that the clients got. HF_SEED=n repeats a plan, HF_FAULTS=n makes it
// longer, HF_FULL=1 uses the default times.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { countOf } from '../crash/lib/trial.mjs';
import { faultsUnderLoad, seed } from './lib/load.mjs';
import { checkIndexes, storeAt } from './lib/redis.mjs';

const plans = [
  { count: 2, first: ['storeKilled', 'nodeKilled', 'storeFrozen'] },
  { count: 3, first: ['leaderKilled', 'storeKilled', 'leaseTaken', 'leaderFrozen'] },
  { count: 2, first: ['nodeKilled', 'storeKilled', 'leaderKilled'], flow: true },
];
for (const { count, first, flow } of plans) {
  const faults = countOf('HF_FAULTS', first.length);
  const load = flow ? 'HF-9 HF-28 a load with limits and dependencies' : 'HF-1 HF-2 a load';
  test(`${load}: ${faults} faults of ${count} nodes and Redis, seed ${seed}`, async (t) => {
    const prefix = `load${count}${flow ? 'flow' : ''}`;
    const store = storeAt(prefix);
    const nodes = await faultsUnderLoad(t, { url: store.url, store, count, faults, first, flow });
    for (const { server } of nodes) assert.doesNotMatch(server.stderr, /redis_data_lost/);
    checkIndexes(prefix);
    for (const node of nodes) await node.stop();
  });
}
