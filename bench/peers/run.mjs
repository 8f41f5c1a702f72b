#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// run.mjs: Holdfast and other queue servers under the same loads, in turn. `make bench-peers` calls it.
//
//   --peers 'NAME …'   some (redis stands for redis-list and redis-stream); all when not given
//   --works 'W1 …'     some of W1 … W6
//   --rounds N         of every measurement, one peer after the other in each (3); medians are told
//   --seconds S        of every measurement (3)
//   --jobs N           that stand in W4, or are pending in W5 (1000000)
//   --dir DIRECTORY    below which servers keep their data (build/bench-peers)
//   --docs yes|no      rewrite docs/benchmarks.md and its charts; without it when everything was
//                      measured with at least 3 rounds of 2 seconds
//
// Raw figures go to build/bench-peers/figures.json after each measurement; report.mjs makes the rest.
import { execFileSync } from 'node:child_process';
import { cpus, release, totalmem } from 'node:os';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseArgs } from 'node:util';

import { choosePeers, closeInstance, holdfastBinary, loadBinary, openInstance, peers as allPeers, root } from './peers.mjs';
import { endAll, freeze, makeDirectory, pause, runProgram as run, thaw } from './processes.mjs';
import { writeReport } from './report.mjs';
import { cells, chooseWorks, has, pendingFill, standingFill, standingLoad, works as allWorks } from './works.mjs';

const here = path.dirname(new URL(import.meta.url).pathname);
const words = (text) => (text ?? '').split(/[\s,]+/).filter(Boolean);

function readOptions() {
  const text = { type: 'string' };
  const { values } = parseArgs({ options: { peers: text, works: text, rounds: text, seconds: text, jobs: text, dir: text, docs: text } });
  const number = (name, preset, low) => {
    const value = values[name] ? Number(values[name]) : preset;
    if (!(value >= low)) throw new Error(`--${name} takes a number of at least ${low}, not '${values[name]}'`);
    return value;
  };
  const docs = values.docs || undefined;
  if (docs && docs !== 'yes' && docs !== 'no') throw new Error(`--docs takes yes or no, not '${docs}'`);
  return {
    peers: choosePeers(words(values.peers)),
    works: chooseWorks(words(values.works)),
    rounds: Math.round(number('rounds', 3, 1)),
    seconds: number('seconds', 3, 0.1),
    jobs: Math.round(number('jobs', 1_000_000, 1000)),
    dir: path.resolve(values.dir || path.join(root, 'build/bench-peers')),
    docs,
  };
}

// ---- progress ----

class Progress {
  constructor(total) {
    Object.assign(this, { total, done: 0, began: Date.now(), tty: process.stderr.isTTY });
  }
  show(text) {
    const s = Math.round((Date.now() - this.began) / 1000);
    const left = this.done > 0 ? Math.round((s / this.done) * (this.total - this.done)) : null;
    const clock = (t) => `${Math.floor(t / 60)}:${String(t % 60).padStart(2, '0')}`;
    this.line = `[${this.done}/${this.total}] ${clock(s)}${left === null ? '' : `, about ${clock(left)} left`}  ${text}`;
    if (this.tty) process.stderr.write(`\r\x1b[K${this.line.slice(0, (process.stderr.columns ?? 80) - 1)}`);
  }
  step(text) {
    this.done++;
    process.stderr.write(this.tty ? `\r\x1b[K${text}\n` : `[${this.done}/${this.total}] ${text}\n`);
  }
  end() {
    if (this.tty) process.stderr.write('\r\x1b[K');
  }
}

// ---- one measurement ----

async function load(instance, options, protocol = null) {
  const { peer } = instance;
  const args = ['--port', String(instance.port), '--pids', instance.pids, ...options];
  const [file, ...head] = peer.program
    ? [process.execPath, path.join(here, 'node', peer.program)]
    : [loadBinary, '--protocol', protocol ?? peer.protocol, ...(peer.load ?? [])];
  try {
    const { stdout } = await run(file, [...head, ...args], { env: { ...process.env, PEERLOAD: loadBinary }, timeout: 900_000, maxBuffer: 1 << 20 });
    return JSON.parse(stdout);
  } catch (problem) {
    throw new Error(`${peer.name}: ${(problem.stderr || problem.message).trim()}`);
  }
}

async function usage(instance) {
  return JSON.parse((await run(loadBinary, ['--usage', '--pids', instance.pids])).stdout);
}

/** Until the server is idle: it may still be writing down what it was given. */
async function settled(instance, seconds = 60) {
  const end = Date.now() + seconds * 1000;
  let before = (await usage(instance)).server_cpu_us;
  for (let quiet = 0; quiet < 2 && Date.now() < end; ) {
    await pause(1000);
    const now = (await usage(instance)).server_cpu_us;
    quiet = now - before < 50_000 ? quiet + 1 : 0;
    before = now;
  }
}

function diskBytes(directory) {
  return Number(execFileSync('du', ['-sk', directory], { encoding: 'utf8' }).split('\t')[0]) * 1024;
}

// ---- the run ----

class Bench {
  constructor(options) {
    this.options = options;
    this.kept = new Map();
    this.out = path.join(root, 'build/bench-peers');
    mkdirSync(this.out, { recursive: true });
    this.base = makeDirectory(options.dir, 'run');
    this.figures = { about: about(options), cells: {}, standing: {}, pending: {}, fdatasync: [], left_out: {} };
    this.usable();
    this.progress = new Progress(this.plan());
  }

  /** Peers whose programs are not here are left out, and the report says so. */
  usable() {
    for (const peer of this.options.peers) {
      const version = peer.version();
      if (version || peer.name === 'null') this.figures.about.versions[peer.name] = version;
      else this.leaveOut(peer, 'is not installed');
    }
    this.peers = this.options.peers.filter((peer) => !this.figures.left_out[peer.name]);
  }
  leaveOut(peer, why) {
    this.figures.left_out[peer.name] = why;
    process.stderr.write(`${peer.name} ${why}: left out\n`);
  }
  wanted = (work) => this.options.works.includes(work);
  rateCells = () => cells.filter((cell) => this.wanted(cell.work));

  plan() {
    const rates = this.rateCells().reduce((n, cell) => n + this.peers.filter((peer) => has(peer, cell)).length, 0);
    const standing = this.wanted('W4') ? this.peers.filter((peer) => peer.standing).length : 0;
    const pending = this.wanted('W5') ? this.peers.filter((peer) => peer.memory).length : 0;
    return rates * this.options.rounds + standing * this.options.rounds + pending;
  }

  save() {
    const file = path.join(this.out, 'figures.json');
    writeFileSync(`${file}.new`, `${JSON.stringify(this.figures, null, 1)}\n`);
    renameSync(`${file}.new`, file);
  }

  /** A fresh server, or the kept one, thawed. */
  async open(peer, mode) {
    if (!peer.kept) return openInstance(peer, mode, this.base);
    const key = `${peer.kept} ${mode}`;
    if (!this.kept.has(key)) this.kept.set(key, await openInstance(peer, mode, this.base));
    const instance = { ...this.kept.get(key), peer };
    instance.servers.forEach(thaw);
    return instance;
  }
  async release(instance) {
    if (!instance.peer.kept) return closeInstance(instance);
    instance.peer.reset?.(instance);
    instance.servers.forEach(freeze);
  }

  /** Other people's servers may fail: such a peer is left out from then on, and the rest goes on. */
  async attempt(peer, measure) {
    try {
      await measure();
    } catch (problem) {
      this.failed = true;
      this.leaveOut(peer, `failed (${problem.message.split('\n')[0]})`);
      process.stderr.write(`${problem.message}\n`);
      this.peers = this.peers.filter((other) => other !== peer);
    }
  }

  async cell(cell, peer, round) {
    this.progress.show(`round ${round}: ${cell.title}, ${peer.label}`);
    const instance = await this.open(peer, cell.mode);
    try {
      const timing = ['--seconds', String(this.options.seconds), '--warmup', String(Math.min(0.5, this.options.seconds / 2))];
      const figure = await load(instance, [...cell.load, ...timing, '--queue', `${peer.name}-${cell.id}-${round}`], cell.protocol);
      ((this.figures.cells[cell.id] ??= {})[peer.name] ??= []).push(figure);
      const value = cell.figure === 'jobs_per_s' ? `${Math.round(figure.jobs_per_s)} jobs/s` : `${Math.round(figure.wake_p50_us)} us`;
      this.progress.step(`round ${round}  ${cell.title.padEnd(12)} ${peer.label.padEnd(28)} ${value}`);
    } finally {
      await this.release(instance);
    }
  }

  async fdatasync() {
    const { stdout } = await run(loadBinary, ['--fdatasync', this.base, '--seconds', '1']);
    this.figures.fdatasync.push(JSON.parse(stdout));
  }

  async rounds() {
    for (let round = 1; round <= this.options.rounds; round++) {
      await this.fdatasync();
      for (const cell of this.rateCells())
        for (const peer of this.peers.filter((p) => has(p, cell))) await this.attempt(peer, () => this.cell(cell, peer, round));
      this.save();
    }
    for (const instance of this.kept.values()) await closeInstance(instance);
    this.kept.clear();
  }

  /** Fills a server in the mode that takes seconds, and returns it in the one that is measured. */
  async filled(instance, mode, fills) {
    const { peer } = instance;
    for (const fill of fills) await load(instance, [...fill, '--queue', 'w4']);
    await settled(instance);
    if (instance.mode === mode) return instance;
    await closeInstance(instance, { keep: true });
    return openInstance(peer, mode, this.base, instance);
  }

  /** An empty and a filled server of the same kind, in turn. */
  async standing(peer) {
    const mode = 'durable' in peer.modes ? 'durable' : 'relaxed';
    this.progress.show(`W4: filling ${peer.label}`);
    let full = await openInstance(peer, peer.fill ?? mode, this.base);
    let empty;
    try {
      full = await this.filled(full, mode, standingFill(peer, this.options.jobs));
      empty = await openInstance(peer, mode, this.base);
      await this.standingRounds(peer, empty, full);
    } finally {
      for (const instance of [empty, full]) if (instance) await closeInstance(instance);
    }
  }

  async standingRounds(peer, empty, full) {
    const figures = (this.figures.standing[peer.name] = { mode: full.mode, jobs: this.options.jobs, what: peer.standing, empty: [], full: [] });
    for (let round = 1; round <= this.options.rounds; round++) {
      for (const [name, instance, other] of [['empty', empty, full], ['full', full, empty]]) {
        other.servers.forEach(freeze);
        instance.servers.forEach(thaw);
        figures[name].push(await load(instance, [...standingLoad(peer), '--seconds', String(this.options.seconds), '--queue', 'w4']));
      }
      const [a, b] = [figures.empty.at(-1).jobs_per_s, figures.full.at(-1).jobs_per_s];
      this.progress.step(`round ${round}  W4           ${peer.label.padEnd(28)} ${Math.round(a)} empty, ${Math.round(b)} full: ${(b / a).toFixed(2)}`);
    }
  }

  async pending(peer) {
    const mode = peer.fill ?? ('durable' in peer.modes ? 'durable' : 'relaxed');
    this.progress.show(`W5: filling ${peer.label}`);
    const instance = await openInstance(peer, mode, this.base);
    try {
      const figure = (this.figures.pending[peer.name] = { mode, jobs: this.options.jobs, what: peer.memory === 'disk' ? 'disk' : 'memory', ...(await this.pendingBytes(instance)) });
      this.progress.step(`W5  ${peer.label.padEnd(28)} ${Math.round(figure.what === 'disk' ? figure.disk_bytes : figure.bytes)} bytes a job`);
    } finally {
      await closeInstance(instance);
    }
  }

  /** At once, and when the server has come to rest. */
  async pendingBytes(instance) {
    await settled(instance);
    const [before, disk] = [await usage(instance), diskBytes(instance.directory)];
    await load(instance, [...pendingFill(this.options.jobs), '--queue', 'w5']);
    const full = await usage(instance);
    await settled(instance);
    const after = await usage(instance);
    const each = (bytes) => bytes / this.options.jobs;
    return {
      bytes_at_once: each(full.server_rss - before.server_rss), bytes: each(after.server_rss - before.server_rss),
      disk_bytes: each(diskBytes(instance.directory) - disk),
    };
  }

  async each(work, can, measure) {
    if (!this.wanted(work)) return;
    for (const peer of this.peers.filter(can)) {
      await this.attempt(peer, () => measure.call(this, peer));
      this.save();
    }
  }

  async all() {
    if (this.rateCells().length > 0) await this.rounds();
    await this.each('W4', (peer) => peer.standing, this.standing);
    await this.each('W5', (peer) => peer.memory, this.pending);
    this.figures.about.seconds_taken = Math.round((Date.now() - this.progress.began) / 1000);
    this.progress.end();
    this.save();
  }
}

function about(options) {
  const model = cpus()[0]?.model.replace(/\s+/g, ' ').trim() ?? 'unknown';
  const system = readFileSync('/etc/os-release', 'utf8').match(/^PRETTY_NAME="?([^"\n]*)/m)?.[1] ?? 'Linux';
  return {
    date: new Date().toISOString().slice(0, 10),
    machine: { cpus: cpus().length, model, memory_bytes: totalmem(), system, kernel: release() },
    rounds: options.rounds, seconds: options.seconds, jobs: options.jobs, payload_bytes: 200, versions: {},
  };
}

function everything(options) {
  return options.peers.length === allPeers.length && options.works.length === Object.keys(allWorks).length && options.rounds >= 3 && options.seconds >= 2 && options.jobs >= 1_000_000;
}

async function main() {
  const options = readOptions();
  for (const file of [holdfastBinary, loadBinary])
    if (!existsSync(file)) throw new Error(`${path.relative(root, file)} is not there: make bench-peers builds it`);
  const bench = new Bench(options);
  await bench.all();
  const docs = options.docs ? options.docs === 'yes' : everything(options) && !bench.failed;
  process.stdout.write(writeReport(bench.figures, { folder: bench.out, root, docs }));
  const written = docs ? 'docs/benchmarks.md is rewritten' : `docs/benchmarks.md is as it was (DOCS=yes rewrites it)`;
  process.stderr.write(`figures and charts are in build/bench-peers; ${written}\n`);
  if (bench.failed) process.exitCode = 1;
}

main().catch((problem) => {
  process.stderr.write(`\nbench-peers: ${problem.message}\n`);
  endAll();
  process.exit(1);
});
