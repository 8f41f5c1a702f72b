// SPDX-License-Identifier: Apache-2.0
// Power cuts under load: the file system stops at once and loses what was not synced, the server is killed,
// the disk is mounted again, and the server restarts; then every promise is checked (HF-1, HF-2).
// HF_SEED=n repeats a plan, HF_CUTS=n makes it longer. Needs root, for loop mounts.
import './lib/release.mjs';

import assert from 'node:assert/strict';
import { mkdirSync } from 'node:fs';
import { test } from 'node:test';

import { killServer, stopServer } from '../e2e/lib/server.mjs';
import { check } from './checker.mjs';
import { Disk, whyNoDisk } from './lib/disk.mjs';
import { Faults } from './lib/faults.mjs';
import { pause } from './lib/recorder.mjs';
import { countOf, seedOf, Trial } from './lib/trial.mjs';

const cuts = countOf('HF_CUTS', 30);
const seed = seedOf();
const skip = whyNoDisk();
if (skip) console.log(`# power cuts are not tested here: ${skip}`);

/** Mostly everything that was not synced is lost; sometimes the log of the file system, or everything, is still written. */
const FLAGS = [2, 2, 2, 2, 2, 2, 2, 2, 1, 0];
/** One start in three is interrupted at a random moment of the time that a start takes. */
const EARLY_PERCENT = 33;
const START_MS = 40;

/** A server that noticed the failure before it was killed must have ended by itself, with an exit status and a message. */
async function checkEnd(server, counts) {
  const { code, signal } = await server.closed;
  if (signal === 'SIGKILL') return;
  counts.noticed++;
  assert.equal(code, 1, `exit ${code ?? signal}\n${server.stderr}`);
  assert.match(server.stderr.trim(), /(error (fatal|store_failed) why=|^holdfast: .*)[^\n]*$/m, 'the log says why');
}

test(`${cuts} power cuts, seed ${seed}`, { skip }, async (t) => {
  const disk = new Disk();
  const trial = new Trial({ seed, data: disk.data, load: { keepers: true, flow: true } });
  t.after(() => trial.abandon().finally(() => disk.remove()));
  const { random } = trial;
  const counts = { early: 0, noticed: 0 };
  const cutEarly = async (server) => {
    await pause(random.below(START_MS));
    disk.cut(random.of(FLAGS));
    if (random.chance(70)) await killServer(server);
    else await Promise.race([server.exited, pause(200)]).then(() => killServer(server));
    await checkEnd(server, counts);
  };
  await trial.start();
  for (let i = 0; i < cuts; i++) {
    await pause(50 + random.below(600));
    await trial.load.hasConfirmed(20 * i); // also on a slow machine each cut meets a load
    await trial.kill(() => disk.cut(random.of(FLAGS)), random.chance(30) ? 100 : 0);
    await checkEnd(trial.server, counts);
    disk.restore();
    for (; i + 1 < cuts && random.chance(EARLY_PERCENT); i++) {
      counts.early += (await trial.startAndStrike(cutEarly)) ? 0 : 1;
      disk.restore();
    }
    await trial.start();
  }
  console.log(`# of ${cuts} cuts ${counts.early} came before the server was ready; ${counts.noticed} times it ended by itself`);
  await trial.finish({ confirmed: 20 * cuts });
});

test('a disk that lies is caught', { skip }, async (t) => {
  const disk = new Disk();
  const trial = new Trial({ seed, data: disk.data });
  t.after(() => trial.abandon().finally(() => disk.remove()));
  mkdirSync(disk.data);
  const faults = new Faults(disk.home, disk.data);
  t.after(() => faults.close());
  await trial.start();
  await trial.load.hasConfirmed(100);
  await trial.kill();
  disk.sync();
  faults.arm({ call: 'sync', fault: 'lie', every: 1 });
  await trial.start({ env: faults.env });
  await trial.load.hasConfirmed(400);
  await trial.kill(() => disk.cut(2));
  assert.ok(faults.seen().fired > 0, 'the server did not call sync');
  disk.restore();
  await trial.start();
  await trial.load.finish();
  const lost = check(trial.load.history).filter((v) => v.check === 'C1');
  console.log(`# ${lost.length} lost jobs were found`);
  assert.ok(lost.length >= 100, `only ${lost.length} lost jobs were found`);
  await stopServer(trial.server);
});
