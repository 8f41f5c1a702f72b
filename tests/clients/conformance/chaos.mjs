#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// node chaos.mjs [--seconds N] [--faults kill,freeze,cut,slow] -- ADAPTER ARGUMENT…: four processes with a worker each, and one that
// enqueues, while the server is killed, frozen, or behind a bad network. Then the promises C1 to C6 and C10 of
// tests/crash/checker.mjs are checked over what passed the proxy; no handler may have continued without notice after another
// worker had its job, and no adapter may have failed. HF_SEED repeats a plan. Prints TAP.
import { parseArgs } from 'node:util';

import { check, stories } from '../../crash/checker.mjs';
import { now, pause, randomOf } from '../../crash/lib/recorder.mjs';
import { Client } from '../../e2e/lib/client.mjs';
import { killServer, startServer, stopServer, temporaryDirectory, until } from '../../e2e/lib/server.mjs';
import { Adapter } from './lib/adapter.mjs';
import { Proxy } from './lib/proxy.mjs';
import { markerOf, Recording } from './lib/recording.mjs';

const { values, positionals: command } = parseArgs({ options: { seconds: { type: 'string', default: '4' }, faults: { type: 'string', default: 'kill,freeze,cut,slow' } }, allowPositionals: true });
const seconds = Number(values.seconds);
const seed = Number(process.env.HF_SEED ?? Date.now() % 1_000_000);
const LEASE_MS = 1500;
const WORKERS = 4;
/** A signal from one process to another takes time on a busy machine. */
const NOTICE_MS = 1000;
const QUEUE = 'chaos';

class Trial {
  constructor(fault) {
    this.fault = fault;
    this.random = randomOf(seed);
    this.recording = new Recording({ leaseMs: LEASE_MS, maxAttempts: 1000 });
    this.proxy = new Proxy();
    this.proxy.recording = this.recording;
    this.data = temporaryDirectory();
    this.enqueued = 0;
    this.outcomes = { accepted: 0, unknown: 0, refused: 0 };
  }

  async startServer() {
    this.server = await startServer({ data: this.data, args: ['--queue-defaults-keep-done', '1000000'] });
    this.proxy.target(this.server);
  }

  async open() {
    await this.startServer();
    await this.proxy.open();
    const api = new Client(this.server);
    await api.put(`/v1/queues/${QUEUE}`, { lease_ms: LEASE_MS, max_attempts: 1000, max_crashes: 1000, backoff_ms: [50], keep_done: 1_000_000 });
    api.close();
    this.adapters = Array.from({ length: WORKERS + 1 }, () => new Adapter(command));
    this.producer = this.adapters[WORKERS];
    await Promise.all(this.adapters.map((adapter) => this.call(adapter, { do: 'open', url: this.proxy.url, options: { retry_for_ms: 60_000, timeout_ms: 3000 } })));
    await Promise.all(
      this.adapters.slice(0, WORKERS).map((adapter, i) => this.call(adapter, { do: 'worker', worker: 'w', queue: QUEUE, options: { name: `chaos-${i}`, concurrency: 5, prefetch: 5, lease_ms: LEASE_MS, wait_ms: 2000 } })),
    );
  }

  async call(adapter, words) {
    const [seq] = adapter.send([words]);
    const reply = await adapter.reply(seq);
    adapter.replies.delete(seq);
    return reply;
  }

  /** Short, middle and long jobs; some fail, some report. */
  payload() {
    const { random } = this;
    const actions = [['note', `m${++this.enqueued}`], ['wait', random.of([0, 0, 5, 20, 100, 400, random.chance(10) ? 2 * LEASE_MS : 50])]];
    if (random.chance(10)) actions.push(['progress', random.below(101), 'on the way']);
    if (random.chance(10)) actions.push(['log', 'a line']);
    if (random.chance(5)) actions.push(['first', 'throw', 'ChaosError', 'this attempt fails']);
    return actions;
  }

  /** Keeps a limited number of enqueues on their way. */
  async produce() {
    let open = 0;
    while (this.producing) {
      await pause(10);
      if (open > 50) continue;
      open++;
      this.call(this.producer, { do: 'enqueue', queue: QUEUE, payload: this.payload() })
        .then(({ ok, error }) => this.outcomes[ok ? 'accepted' : error.code === 'unknown' ? 'unknown' : 'refused']++)
        .catch((error) => (this.failed = error))
        .finally(() => open--);
    }
    await until('all enqueues have an outcome', () => this.failed || open === 0, 120_000);
    if (this.failed) throw this.failed;
  }

  async disturb() {
    const end = Date.now() + seconds * 1000;
    const act = { kill: () => this.kill(), freeze: () => this.freeze(), cut: () => pause(100), slow: () => pause(100) }[this.fault];
    if (this.fault === 'cut') this.proxy.mishap = () => (this.random.chance(8) ? { drop: this.random.chance(60) ? 'reply' : 'request' } : {});
    if (this.fault === 'slow') this.proxy.mishap = () => ({ delayMs: this.random.below(400) });
    do await act();
    while (Date.now() < end);
    this.proxy.mishap = undefined;
  }

  async kill() {
    await pause(200 + this.random.below(1000));
    const at = now();
    await killServer(this.server);
    await pause(this.random.below(300));
    await this.startServer();
    this.recording.history.crashes.push({ at, ready: now() });
  }

  async freeze() {
    await pause(200 + this.random.below(1000));
    process.kill(this.server.pid, 'SIGSTOP');
    await pause(2 * LEASE_MS);
    process.kill(this.server.pid, 'SIGCONT');
    await pause(LEASE_MS);
  }

  async run() {
    await this.open();
    this.producing = true;
    const producing = this.produce();
    producing.catch(() => {});
    await this.disturb();
    this.producing = false;
    await producing;
    const api = new Client(this.server);
    await until('the queue is empty', async () => {
      const { counts } = (await api.get(`/v1/queues/${QUEUE}`)).json;
      return counts.ready + counts.scheduled + counts.running === 0;
    }, 180_000);
    await Promise.all(this.adapters.slice(0, WORKERS).map((adapter) => this.call(adapter, { do: 'stop', worker: 'w' })));
    const statuses = await Promise.all(this.adapters.map((adapter) => adapter.end()));
    await this.readFinal(api);
    api.close();
    return this.verdict(statuses);
  }

  async readFinal(api) {
    const jobs = new Map();
    const listed = {};
    for (let cursor = ''; cursor !== null; ) {
      const page = (await api.get(`/v1/jobs?queue=${QUEUE}&limit=1000${cursor && `&cursor=${encodeURIComponent(cursor)}`}`)).json;
      for (const job of page.jobs) {
        jobs.set(job.id, { state: job.state, queue: job.queue, marker: markerOf(job.payload) });
        listed[job.state] = (listed[job.state] ?? 0) + 1;
      }
      cursor = page.next_cursor;
    }
    const { counts } = (await api.get(`/v1/queues/${QUEUE}`)).json;
    this.recording.history.final = { jobs, queues: new Map([[QUEUE, { counts, listed }]]), letters: new Map(), reports: new Map() };
  }

  verdict(statuses) {
    const { history } = this.recording;
    const violations = check(history);
    const problems = violations.map(({ check: name, text }) => `${name}: ${text}`);
    if (violations.length) problems.push(...stories(history, violations).slice(0, 40));
    this.adapters.forEach((adapter, i) => statuses[i] !== 0 && problems.push(`adapter ${i} ended with ${statuses[i]}: ${adapter.errors.slice(-2000)}`));
    const events = this.adapters.flatMap((adapter, worker) => adapter.events.map((event) => ({ ...event, worker })));
    problems.push(...unnoticed(events));
    const count = (name, more = () => true) => events.filter((event) => event.event === name && more(event)).length;
    const figures = {
      enqueued: this.enqueued, ...this.outcomes, claims: history.entries.filter(({ kind }) => kind === 'claim').length, done: count('ended', ({ how }) => how === 'done'),
      stopped: count('stopped'), lost: count('lost'), repeats: history.entries.filter(({ repeat }) => repeat).length, crashes: history.crashes.length,
    };
    if (history.final.jobs.size < this.outcomes.accepted) problems.push(`${this.outcomes.accepted} enqueues were accepted, and there are ${history.final.jobs.size} jobs`);
    if (figures.done === 0) problems.push('no job was done');
    return { problems, figures };
  }

  async close() {
    for (const adapter of this.adapters ?? []) adapter.child.kill('SIGKILL');
    await this.proxy.close();
    if (!this.server || this.server.exit) return;
    process.kill(this.server.pid, 'SIGCONT');
    await stopServer(this.server);
  }
}

/** Handlers that were not told to stop although another attempt of their job had started. */
function unnoticed(events) {
  const runs = new Map();
  for (const event of events.sort((a, b) => a.at - b.at)) {
    const key = `${event.job}/${event.worker}`;
    if (event.event === 'started') {
      const list = runs.get(event.job) ?? [];
      list.push({ key, worker: event.worker, from: event.at, to: Infinity });
      runs.set(event.job, list);
    } else if (['stopped', 'ended', 'returned', 'lost', 'cancelled'].includes(event.event)) {
      const run = (runs.get(event.job) ?? []).find((one) => one.worker === event.worker && one.to === Infinity);
      if (run) run.to = event.at;
    }
  }
  const found = [];
  for (const [job, list] of runs)
    list.forEach((run, i) => {
      const next = list[i + 1];
      if (next && run.to > next.from + NOTICE_MS) found.push(`a handler of job ${job} continued for ${Math.round(run.to - next.from)} ms after another attempt had started, without notice`);
    });
  return found;
}

let [number, bad] = [0, 0];
for (const fault of values.faults.split(',')) {
  const trial = new Trial(fault);
  const title = `${fault}, ${seconds} s, seed ${seed}`;
  number++;
  try {
    const { problems, figures } = await trial.run();
    if (problems.length) throw new Error(problems.slice(0, 60).join('\n'));
    console.log(`ok ${number} - ${title}\n# ${JSON.stringify(figures)}`);
  } catch (error) {
    bad++;
    console.log(`not ok ${number} - ${title}\n${String(error.stack ?? error).replaceAll(/^/gm, '# ')}`);
  } finally {
    await trial.close();
  }
}
console.log(`1..${number}`);
process.exit(bad ? 1 : 0);
