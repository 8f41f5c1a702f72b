// SPDX-License-Identifier: Apache-2.0
// One store, one load, and a server that ends many times; at the end every promise is checked.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';

import { binary, killServer, startServer, stopServer, until } from '../../e2e/lib/server.mjs';
import { check, stories } from '../checker.mjs';
import { Load } from '../load.mjs';
import { Keepers } from './keepers.mjs';
import { now, pause } from './recorder.mjs';

// Finished jobs must still exist when the checker reads them; workers have little time to react to a cancel, and keyval messages
// are locked for a short time.
const args = ['--queue-defaults-keep-done', '1000000', '--queue-defaults-cancel-grace-ms', '300', '--queue-lockDuration', '1000'];

// A server that ends while it writes leaves an incomplete last entry, which later checks warn of.
const CHECK_GOOD = 0, CHECK_WARNED = 3;

/** The seed of a run: HF_SEED repeats one. */
export const seedOf = () => Number(process.env.HF_SEED ?? Date.now() % 1_000_000);
/** A count: n, or the value of the environment variable. */
export const countOf = (name, n) => Number(process.env[name] ?? n);

/** Fails if keepers did nothing, because then their checks prove nothing. */
export function checkKeepers(load) {
  const { jobs, keys, schedules, told } = load.history.final.keeps;
  const seen = (kind) => load.history.entries.filter((e) => e.kind === kind && e.sure && e.ok).length;
  const counts = {
    commits: seen('k_commit'), handoffs: load.history.entries.filter((e) => e.kind === 'k_ack' && e.handoff && e.sure && e.ok).length,
    left: [...keys.keys()].filter((key) => key.startsWith('["u"')).length, runs: seen('k_run'),
    fired: schedules.reduce((n, s) => n + (s.every_ms === 1000 ? s.fired : 0), 0), triggered: schedules.find((s) => s.source_queue).fired,
    looks: seen('k_look'), dead: [...jobs.values()].filter((job) => job.state === 'dead').length, told: told.length,
  };
  console.log(`# keepers: ${countsText(counts)}`);
  for (const [what, n] of Object.entries(counts)) assert.ok(n > 0, `keepers: no ${what}`);
}

/** How often clients used what C15 to C18 are about; each number must be above 0, or the checks prove nothing. */
export function reportCounts({ entries }) {
  const timeouts = new Map(entries.filter((e) => e.kind === 'claim' && e.timeoutAt).map((e) => [e.token, e.timeoutAt]));
  const count = (...kinds) => (more) => entries.filter((e) => kinds.includes(e.kind) && e.sure && more(e)).length;
  return {
    cancels_requested: count('cancel')((e) => e.ok && e.requested),
    cancels_told: count('heartbeat', 'extend', 'progress')((e) => e.cancel),
    timeouts: count('ack', 'extend')((e) => !e.ok && e.t0 > timeouts.get(e.token)),
    heartbeats: count('heartbeat')((e) => e.ok),
    log_lines: count('log')((e) => e.ok),
    progress: count('progress')((e) => e.ok),
    steps: count('step')((e) => e.ok),
    failures: count('fail')((e) => e.ok),
    replaced: count('letter_requeue')((e) => e.ok),
  };
}

/** A slow machine takes longer to do enough. */
async function reportsDone(history) {
  await until('clients have used everything that they can report', () => Object.values(reportCounts(history)).every((n) => n > 0), 600_000);
}

const countsText = (counts) => Object.entries(counts).map(([what, n]) => `${n} ${what}`).join(', ');

export class Trial {
  constructor({ seed, data, load = {} }) {
    this.seed = seed;
    this.data = data;
    this.load = new Load(seed, load);
    this.random = this.load.random;
    this.server = null;
    this.ended = null;
  }

  /** Starts or restarts; `more` as for startServer. */
  async start(more = {}) {
    const env = this.load.keepers ? { ...Keepers.env, ...more.env } : more.env;
    this.server = await startServer({ data: this.data, ...more, env, args: [...args, ...(more.args ?? [])] });
    if (this.ended !== null) this.load.history.crashes.push({ at: this.ended, ready: now() });
    this.ended = null;
    this.load.serve(this.server);
    if (!this.load.workers) this.load.start();
    return this.server;
  }

  /** Starts a server that `strike(server)` ends, perhaps before it is ready. Returns true if it was ready before. */
  async startAndStrike(strike, more = {}) {
    let struck;
    let ready = true;
    try {
      await this.start({ ...more, spawned: (server) => (struck = strike(server)) });
    } catch (error) {
      if (!/ended before it was ready/.test(error.message)) throw error;
      ready = false;
    }
    await struck;
    this.noteEnd();
    this.load.down();
    return ready;
  }

  /** Calls `before` under full load and sends SIGKILL; the server has `graceMs` to end by itself. */
  async kill(before = () => {}, graceMs = 0) {
    before();
    this.noteEnd();
    if (graceMs > 0) await Promise.race([this.server.exited, pause(graceMs)]);
    await killServer(this.server);
    this.load.down();
  }

  /** The server is about to end, or just did. */
  noteEnd() {
    this.ended ??= now();
    this.load.hold();
  }

  /** Drains the queues, checks what the clients saw, stops the server and checks its store. */
  async finish({ confirmed = 0 } = {}) {
    await this.load.hasConfirmed(confirmed); // a slow machine takes longer to do enough
    await this.load.keepers?.haveDoneAll();
    await this.load.flow?.haveDoneAll();
    await reportsDone(this.load.history);
    await this.load.finish();
    const { entries, crashes, final } = this.load.history;
    const made = this.load.confirmed();
    console.log(`# ${entries.length} entries, ${made} confirmed jobs, ${final.jobs.size} found, ${crashes.length} crashes, seed ${this.seed}`);
    const violations = check(this.load.history).slice(0, 10);
    for (const line of stories(this.load.history, violations.slice(0, 3))) console.log(`# ${line}`);
    assert.deepEqual(violations, [], `seed ${this.seed}`);
    assert.ok(made >= confirmed, `too little happened to prove anything: ${made} jobs, not ${confirmed}`);
    console.log(`# reports: ${countsText(reportCounts(this.load.history))}`);
    if (final.keeps) checkKeepers(this.load);
    if (final.flow) console.log(`# flow: ${countsText(this.load.flow.counts())}`);
    await stopServer(this.server);
    const looked = spawnSync(binary, ['check', this.data], { encoding: 'utf8' });
    assert.ok(looked.status === CHECK_GOOD || looked.status === CHECK_WARNED, looked.stdout);
  }

  /** After a failure: stops clients and server, so that the test can end. */
  async abandon() {
    this.load.abandon();
    if (this.server && !this.server.exit) await killServer(this.server);
  }
}
