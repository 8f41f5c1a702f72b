// SPDX-License-Identifier: Apache-2.0
// kill -9 under load, many times, also while the server is starting or recovering; then every promise is
// checked over what the clients saw (HF-1, HF-2). HF_SEED=n repeats a plan, HF_KILLS=n makes it longer.
import './lib/release.mjs';

import { test } from 'node:test';

import { killServer, temporaryDirectory } from '../e2e/lib/server.mjs';
import { pause } from './lib/recorder.mjs';
import { countOf, seedOf, Trial } from './lib/trial.mjs';

const kills = countOf('HF_KILLS', 50);
const seed = seedOf();
/** One restart in three is killed again at a random moment of the time that a start takes. */
const AGAIN_PERCENT = 33;
const START_MS = 40;

test(`${kills} kills, seed ${seed}`, async (t) => {
  const trial = new Trial({ seed, data: temporaryDirectory(), load: { keepers: true, flow: true } });
  t.after(() => trial.abandon());
  const { random } = trial;
  const killEarly = async (server) => {
    await pause(random.below(START_MS));
    trial.noteEnd();
    await killServer(server);
  };
  let early = 0;
  await trial.start();
  for (let i = 0; i < kills; i++) {
    await pause(50 + random.below(500));
    await trial.load.hasConfirmed(20 * i); // also on a slow machine each kill meets a load
    await trial.kill();
    for (; i + 1 < kills && random.chance(AGAIN_PERCENT); i++) early += (await trial.startAndStrike(killEarly)) ? 0 : 1;
    await trial.start();
  }
  console.log(`# ${early} of ${kills} kills came before the server was ready`);
  await trial.finish({ confirmed: 20 * kills });
});
