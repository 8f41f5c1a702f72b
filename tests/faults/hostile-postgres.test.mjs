// SPDX-License-Identifier: Apache-2.0
// HF-18: no reply of a PostgreSQL server can crash a node, stop it or use up its memory. A proxy in front of the
// real server changes values, rows and messages; another server sends random bytes. HF_SEED repeats a round, HF_LIES is
// how many there are.
import path from 'node:path';
import { test } from 'node:test';

import { until } from '../e2e/lib/server.mjs';
import { HostileProxy, liedTo, Random, randomServer, startedOn } from './lib/hostile.mjs';
import { postgresLies } from './lib/hostile_postgres.mjs';
import { socket } from './lib/postgres.mjs';

const first = Number(process.env.HF_SEED ?? 1);
const rounds = Number(process.env.HF_LIES ?? 3);
const actions = Number(process.env.HF_ACTIONS ?? 8);
const urlAt = (port, schema) => `postgres://holdfast@127.0.0.1:${port}/postgres?sslmode=disable&schema=${schema}`;

async function hostile(t, seed, more) {
  const proxy = await new HostileProxy({ path: path.join(socket, '.s.PGSQL.5432') }, (random, rate) => postgresLies(random, rate, more), new Random(seed)).listen();
  t.after(() => proxy.close());
  return proxy;
}

for (let seed = first; seed < first + rounds; seed++)
  test(`HF-18 a PostgreSQL server with invalid replies, seed ${seed}`, async (t) => {
    const structure = seed % 3 === 0 ? 1 : 0.02;
    const proxy = await hostile(t, seed, { structure });
    await liedTo({ proxy, url: urlAt(proxy.port, `hostile_${seed}`), seed, rate: [0.02, 0.1, 0.3][seed % 3], actions });
  });

test('HF-18 a PostgreSQL server with invalid replies while the node starts', async (t) => {
  for (let seed = first; seed < first + rounds; seed++) {
    const proxy = await hostile(t, seed, { structure: 0.3, first: 0 });
    proxy.set(0.2);
    await startedOn({ url: urlAt(proxy.port, `starting_${seed}`), seed });
  }
});

test('HF-18 a PostgreSQL server that sends random bytes', async (t) => {
  for (let seed = first; seed < first + rounds; seed++) {
    const server = await randomServer(t, seed);
    await startedOn({ url: urlAt(server.port, 'random'), seed });
    await until(`seed ${seed}: it was asked something`, () => server.asked > 0);
  }
});
