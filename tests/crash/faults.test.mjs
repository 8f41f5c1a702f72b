// SPDX-License-Identifier: Apache-2.0
// Calls that fail under a server: syncs, writes, opens, descriptors, memory; the nth of each kind, under
// load and while it starts. It either goes on and answers correctly, or ends at once with an error and a
// word why, and starts again; a failed sync or write is always the end, and nothing is confirmed after it.
// Every promise is checked over the whole run (HF-1, HF-2). HF_SWEEP=n goes n times as far, HF_SEED=n
// repeats a plan.
import './lib/release.mjs';

import assert from 'node:assert/strict';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';

import { killServer, temporaryDirectory, until } from '../e2e/lib/server.mjs';
import { Faults } from './lib/faults.mjs';
import { countOf, seedOf, Trial } from './lib/trial.mjs';

const far = countOf('HF_SWEEP', 1);
const seed = seedOf();

/**
 * then: 'ends' (the server must end), 'goes on' (it must not), 'either'.
 * running, starting: how many times; a start is swept from its first call on, `startStep` apart.
 */
const sweeps = [
  { name: 'a sync fails', call: 'sync', fault: 'EIO', then: 'ends', running: 12, starting: 12 },
  { name: 'a write fails', call: 'write', fault: 'EIO', then: 'ends', running: 12, starting: 12 },
  { name: 'a write is short', call: 'write', fault: 'short', then: 'goes on', running: 20, starting: 12 },
  { name: 'many writes are short', call: 'write', fault: 'short', every: 3, then: 'goes on', running: 3, starting: 3 },
  { name: 'a write finds no room', call: 'write', fault: 'ENOSPC', then: 'goes on', running: 12, starting: 12, startThen: 'either' },
  { name: 'a file cannot be opened', call: 'open', fault: 'EMFILE', then: 'either', running: 0, starting: 12 },
  { name: 'no descriptor is left', call: 'descriptor', fault: 'EMFILE', then: 'goes on', running: 12, starting: 12, startThen: 'either', newConnections: true },
  { name: 'no descriptor is left for a while', call: 'descriptor', fault: 'EMFILE', every: 2, then: 'goes on', running: 3, starting: 0, newConnections: true },
  { name: 'no memory is left', call: 'memory', fault: 'ENOMEM', then: 'either', running: 20, starting: 15, startStep: 60 },
  { name: 'its own memory is gone', call: 'ownMemory', fault: 'ENOMEM', then: 'either', running: 30, starting: 20, startStep: 7 },
  { name: 'memory is short for a while', call: 'memory', fault: 'ENOMEM', every: 97, then: 'either', running: 4, starting: 3 },
  { name: 'its own memory is short for a while', call: 'ownMemory', fault: 'ENOMEM', every: 7, then: 'either', running: 6, starting: 3 },
];

/** What a server cannot help, or need not mind. */
const excused = [
  { what: /^fdatasync \S+\/data$/, then: 'either', why: 'SQLite ignores it when the directory of its log cannot be synced' },
  { what: /^\w+ \S+\/journal\/\d+$/, fault: 'ENOSPC', then: 'either', why: 'what the journal writes to was given its room before: then it is an error of the disk' },
  { what: /^\w+ \S+\/holdfast\.db-shm$/, then: 'either', why: 'nothing durable is in it; SQLite says alike whether there was no room for it or no disk' },
  { what: /^write \S+\/lock$/, then: 'either', why: 'who holds the lock is a courtesy; the lock is what counts' },
  { what: /^realloc \S*libuv/, then: 'either', abort: true, why: 'libuv ends the process when its table of descriptors cannot grow' },
  { what: /^pipe2 /, then: 'either', abort: true, why: 'libuv ends the process when signals get no pipe' },
];
/** The files that make a change durable. What is in them stays confirmed while the server ends because of another one. */
const confirming = /\/journal\/\d+$/;
const excuse = (what, fault) => excused.find((e) => e.what.test(what) && (e.fault ?? fault) === fault);

describe(`calls that fail, seed ${seed}`, () => {
  const work = temporaryDirectory();
  const data = path.join(work, 'data');
  const trial = new Trial({ seed, data, load: { keepers: true } });
  const faults = new Faults(work, data);
  const { random, load } = trial;
  const { entries } = load.history;
  let over = false;

  before(async () => {
    await trial.start({ env: faults.env });
  });
  after(async () => {
    await trial.abandon();
    faults.close();
  });

  const confirms = (e) => e.sure && (e.kind === 'enqueue' ? e.created : ['ack', 'fail', 'release'].includes(e.kind) && e.ok && !e.repeat);

  /** The server ended: by itself, with an error and a word. */
  async function checkEnded(server) {
    const { code, signal } = await server.closed;
    if (signal === 'SIGABRT' && excuse(faults.seen().what)?.abort) return;
    assert.ok(code > 0, `exit ${code ?? signal} after ${faults.seen().what}\n${server.stderr}`);
    assert.match(server.stderr, /( error \w+ why=".+)|(^holdfast: .+)/m, 'it says why');
  }

  const restart = async () => {
    faults.disarm();
    await trial.start({ env: faults.env });
  };

  /** A server in which a call failed may still end of it. The next one has met no failure. */
  async function replaced() {
    await trial.kill();
    await restart();
    return 'went on';
  }

  /** Under load: arms the nth call from now on, and waits for what follows. */
  async function whileRunning(sweep, nth) {
    const { server } = trial;
    const from = entries.length;
    if (sweep.newConnections) load.reconnect();
    faults.arm({ ...sweep, nth });
    await until(`${sweep.name} (call ${nth})`, () => {
      if (sweep.newConnections) load.reconnect();
      return faults.seen().fired > 0 || server.exit;
    });
    const { firedMs, what } = faults.seen();
    const then = excuse(what, sweep.fault)?.then ?? sweep.then;
    const wentOn = () => entries.slice(from).some((e) => confirms(e) && e.t0 > firedMs + 1);
    await until(`it ends or goes on after ${what}`, () => server.exit || (then !== 'ends' && wentOn()));
    faults.disarm();
    if (!server.exit && then === sweep.then) return 'went on';
    if (!server.exit) return replaced();
    trial.noteEnd();
    load.down();
    await checkEnded(server);
    assert.notEqual(then, 'goes on', `it ended after ${what}\n${server.stderr}`);
    assert.ok(then !== 'ends' || !confirming.test(what) || !wentOn(), `something was confirmed after ${what}`);
    await restart();
    return 'ended';
  }

  /** From the start: the nth call fails; then it starts for good. */
  async function whileStarting(sweep, nth) {
    await trial.kill();
    faults.arm({ ...sweep, nth });
    let server;
    const ready = await trial.start({ env: faults.env, spawned: (s) => (server = s) }).then(
      () => true,
      async (error) => {
        if (!/ended before it was ready/.test(error.message)) throw error;
        await checkEnded(server);
        return false;
      },
    );
    faults.disarm();
    const { fired, what } = faults.seen();
    const then = excuse(what, sweep.fault)?.then ?? sweep.startThen ?? sweep.then;
    if (fired && then === 'ends') assert.ok(!ready || (await endsSoon(server)), `it started in spite of ${faults.seen().what}`);
    if (!ready) assert.notEqual(then, 'goes on', `it did not start after ${faults.seen().what}\n${server.stderr}`);
    if (!ready || server.exit) await restart();
    return !fired ? 'not reached' : ready ? 'went on' : 'ended';
  }

  /** A thread may meet the failure when others already say that all is ready. */
  async function endsSoon(server) {
    await until(`it ends because of ${faults.seen().what}`, () => server.exit);
    trial.noteEnd();
    load.down();
    await checkEnded(server);
    return true;
  }

  afterEach(async () => {
    faults.disarm();
    if (trial.server.exit && !over) await restart();
  });

  for (const sweep of sweeps) {
    test(sweep.name, async () => {
      const counts = {};
      const count = (what) => (counts[what] = (counts[what] ?? 0) + 1);
      for (let i = 0; i < sweep.running * far; i++) count(`under load: ${await whileRunning(sweep, 1 + random.below(sweep.call === 'memory' ? 2000 : sweep.call === 'ownMemory' ? 300 : 30))}`);
      for (let nth = 1, i = 0; i < sweep.starting * far; i++, nth += 1 + random.below(sweep.startStep ?? 1)) {
        const outcome = await whileStarting(sweep, nth);
        count(`at start: ${outcome}`);
        if (outcome === 'not reached') break;
      }
      await replaced();
      console.log(`# ${sweep.name}: ${Object.entries(counts).map(([what, n]) => `${what} ${n}`).join(', ')}`);
    });
  }

  test('every promise was kept', async () => {
    over = true;
    await trial.finish({ confirmed: 1000 });
  });
});
