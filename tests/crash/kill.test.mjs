// SPDX-License-Identifier: Apache-2.0
// kill -9 under load, many times; then every promise is checked over what the clients saw
// (HF-1, HF-2). HF_SEED=n repeats a plan, HF_KILLS=n makes it longer.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rmSync } from 'node:fs';
import { test } from 'node:test';

import { binary, killServer, startServer, stopServer, temporaryDirectory } from '../e2e/lib/server.mjs';
import { check } from './checker.mjs';
import { Load } from './load.mjs';

const kills = Number(process.env.HF_KILLS ?? 20);
const seed = Number(process.env.HF_SEED ?? Date.now() % 1_000_000);
const args = ['--queue-defaults-keep-done', '1000000'];

test(`${kills} kills, seed ${seed}`, async () => {
  const data = temporaryDirectory();
  const load = new Load(seed);
  let server = await startServer({ data, args });
  load.serve(server);
  load.start();
  for (let i = 0; i < kills; i++) {
    await new Promise((resolve) => setTimeout(resolve, 100 + load.random.below(600)));
    const at = performance.timeOrigin + performance.now();
    await killServer(server);
    load.down();
    server = await startServer({ data, args });
    load.history.crashes.push({ at, ready: performance.timeOrigin + performance.now() });
    load.serve(server);
  }
  await load.stopProducing();
  await load.drain();
  await load.takeOrdered();
  await load.collect();
  const { entries } = load.history;
  const confirmed = entries.filter((e) => e.kind === 'enqueue' && e.sure && e.created).length;
  console.log(`# ${entries.length} entries, ${confirmed} confirmed jobs, ${load.history.final.jobs.size} found, ${load.history.crashes.length} crashes`);
  const violations = check(load.history);
  assert.deepEqual(violations.slice(0, 10), [], `seed ${seed}`);
  assert.ok(confirmed > 50 * kills, 'too little happened to prove anything');
  await stopServer(server);
  execFileSync(binary, ['check', data]);
  rmSync(data, { recursive: true, force: true });
});
