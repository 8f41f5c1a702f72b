// SPDX-License-Identifier: Apache-2.0
// Producers, workers and an administrator on two and on three nodes of one Redis server that syncs every write
// (appendfsync always), while Redis and the nodes are killed and frozen; then every promise (C1 to C10 of
// docs/durability.md) is checked with the replies that the clients got. HF_SEED=n repeats a plan, HF_FAULTS=n makes it
// longer, HF_FULL=1 uses the default times.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { countOf } from '../crash/lib/trial.mjs';
import { faultsUnderLoad, seed } from './lib/load.mjs';
import { checkIndexes, storeAt } from './lib/redis.mjs';

const plans = {
  2: ['storeKilled', 'nodeKilled', 'storeFrozen'],
  3: ['leaderKilled', 'storeKilled', 'leaseTaken', 'leaderFrozen'],
};
for (const [count, first] of Object.entries(plans)) {
  const faults = countOf('HF_FAULTS', first.length);
  test(`HF-1 HF-2 ${faults} faults of ${count} nodes and Redis under load, seed ${seed}`, async (t) => {
    const prefix = `load${count}`;
    const store = storeAt(prefix);
    const nodes = await faultsUnderLoad(t, { url: store.url, store, count: Number(count), faults, first });
    for (const { server } of nodes) assert.doesNotMatch(server.stderr, /redis_data_lost/);
    checkIndexes(prefix);
    for (const node of nodes) await node.stop();
  });
}
