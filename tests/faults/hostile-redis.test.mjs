// SPDX-License-Identifier: Apache-2.0
// HF-18: no reply of a Redis server can crash a node, stop it or use up its memory. A proxy in front of the
// real server changes numbers, texts, lists and the protocol; another server sends random bytes. HF_SEED repeats a round,
// HF_LIES is how many there are.
import { test } from 'node:test';

import { until } from '../e2e/lib/server.mjs';
import { HostileProxy, liedTo, Random, randomServer, startedOn } from './lib/hostile.mjs';
import { redisLies } from './lib/hostile_redis.mjs';
import { socket, url } from './lib/redis.mjs';

const first = Number(process.env.HF_SEED ?? 1);
const rounds = Number(process.env.HF_LIES ?? 3);
const actions = Number(process.env.HF_ACTIONS ?? 20);

async function hostile(t, seed, more) {
  const proxy = await new HostileProxy({ path: socket }, (random, rate) => redisLies(random, rate, more), new Random(seed)).listen();
  t.after(() => proxy.close());
  return proxy;
}

for (let seed = first; seed < first + rounds; seed++)
  test(`HF-18 a Redis server with invalid replies, seed ${seed}`, async (t) => {
    const proxy = await hostile(t, seed, { structure: seed % 3 === 0 ? 1 : 0.02 });
    await liedTo({ proxy, url: url(`hostile${seed}`, proxy.port), seed, rate: [0.02, 0.05, 0.2][seed % 3], actions });
  });

test('HF-18 a Redis server with invalid replies while the node starts', async (t) => {
  for (let seed = first; seed < first + rounds; seed++) {
    const proxy = await hostile(t, seed, { structure: 0.3, first: 0 });
    proxy.set(0.2);
    await startedOn({ url: url(`starting${seed}`, proxy.port), seed });
  }
});

test('HF-18 a Redis server that sends random bytes', async (t) => {
  for (let seed = first; seed < first + rounds; seed++) {
    const server = await randomServer(t, seed);
    await startedOn({ url: url(`random${seed}`, server.port), seed });
    await until(`seed ${seed}: it was asked something`, () => server.asked > 0);
  }
});
