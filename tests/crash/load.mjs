// SPDX-License-Identifier: Apache-2.0
// Clients that record everything they see: eight producers, nine workers, a client with dead letters, an administrator. They
// continue through crashes. At the end the queues are drained and everything is read again.
import { until } from '../e2e/lib/server.mjs';
import { administrator, cancelHeld, OWN_QUEUES } from './lib/administrator.mjs';
import { DEAD_LETTER_QUEUE, startDeadLetters } from './lib/dead_letters.mjs';
import { Flow } from './lib/flow.mjs';
import { Keepers } from './lib/keepers.mjs';
import { markerOf, startProducers, WORK_QUEUES } from './lib/producers.mjs';
import { pause, Recorder } from './lib/recorder.mjs';
import { end, noteClaim, startWorkers } from './lib/workers.mjs';

export class Load extends Recorder {
  /** paceMs: the longest pause of a producer between requests; keepers, flow: whether these clients run, too. */
  constructor(seed, { paceMs = 12, keepers = false, flow = false } = {}) {
    super(seed);
    this.flow = flow ? new Flow(this) : null;
    this.keepers = keepers ? new Keepers(this) : null;
    this.paceMs = paceMs;
    this.heavy = false;
    this.backlog = 0; // confirmed jobs that are not known to have ended; roughly
    this.producing = true;
    this.working = true;
    this.queues = WORK_QUEUES;
    this.recent = [];
    this.held = new Map(); // jobs that workers hold for a while, by token
    this.tasks = new Set();
  }

  /** Remembers the last confirmed jobs of the queues that workers claim from. */
  noteRecent(entry) {
    if (!WORK_QUEUES.includes(entry.queue)) return;
    this.backlog++;
    this.recent.push(entry);
    if (this.recent.length > 64) this.recent.shift();
  }
  recentJob() {
    return this.recent.length === 0 ? null : this.random.of(this.recent);
  }

  /** Runs in parallel; drain waits for it. */
  task(promise) {
    this.tasks.add(promise);
    promise.finally(() => this.tasks.delete(promise));
  }

  start() {
    const letters = startDeadLetters(this);
    this.producers = [...startProducers(this), administrator(this), cancelHeld(this), letters.producer];
    this.workers = [...startWorkers(this), letters.worker];
    this.keeping = this.keepers?.start();
    this.flowing = this.flow?.start();
  }

  confirmed() {
    return this.history.entries.reduce((n, e) => n + (e.kind === 'enqueue' && e.sure && e.created ? 1 : 0), 0);
  }

  /** Waits until this many jobs are confirmed. */
  async hasConfirmed(count) {
    await until(`${count} jobs are confirmed`, () => this.confirmed() >= count, 600_000);
  }

  // ---- the end ----

  /** For good: clients stop, even with unfinished work. */
  abandon() {
    this.producing = this.working = false;
    super.abandon();
    this.keepers?.close();
  }

  async stopProducing() {
    this.producing = false;
    await Promise.all([...this.producers, this.keeping, this.flowing]);
    await this.keepers?.stopProducing();
    await this.flow?.stopProducing();
    this.queues = [...WORK_QUEUES, ...OWN_QUEUES];
  }

  async read(path) {
    const answer = await this.call('GET', path);
    if (answer.status !== 200) throw new Error(`GET ${path}: ${answer.status} ${JSON.stringify(answer.json)}`);
    return answer.json;
  }

  /** Lets the workers finish everything. */
  async drain(limitMs = 600_000) {
    const limit = Date.now() + limitMs;
    for (;;) {
      const { queues } = await this.read('/v1/queues');
      const live = queues.filter((q) => q.name !== 'ordered').reduce((n, q) => n + q.counts.ready + q.counts.scheduled + q.counts.running + (q.counts.blocked ?? 0), 0);
      if (live === 0) break;
      if (Date.now() > limit) throw new Error(`${live} jobs do not drain: ${JSON.stringify(queues.map((q) => [q.name, q.paused, q.counts]))}`);
      await pause(50);
    }
    this.working = false;
    await Promise.all(this.workers);
    await Promise.all(this.tasks);
  }

  /** One consumer claims the jobs of the queue that only filled up until now. */
  async takeOrdered() {
    for (;;) {
      const answer = await this.call('POST', '/v1/queues/ordered/claim', { count: 100, lease_ms: 60_000 });
      if (answer.status !== 200) {
        // Jobs that this claim may have leased come first when their leases have ended.
        while ((await this.read('/v1/queues/ordered')).counts.running > 0) await pause(20);
        continue;
      }
      if (answer.json.jobs.length === 0) return;
      for (const job of answer.json.jobs) {
        noteClaim(this, job, answer, { lease: 60_000 });
        // The order is that of first deliveries: on a slow machine, the run time of a job can be over before its ack.
        if (job.attempt === 1) this.history.ordered.push({ id: job.id, priority: job.priority, seq: job.seq });
      }
      await Promise.all(answer.json.jobs.map((job) => end(this, 'ack', job)));
    }
  }

  /** History, progress and log of the jobs about which something was reported. */
  async collectReports() {
    const reported = this.history.entries.filter((e) => ['fail', 'log', 'progress', 'step'].includes(e.kind) || (e.kind === 'claim' && e.timeoutAt));
    const ids = [...new Set(reported.map((e) => e.id))].filter((id) => this.history.final.jobs.has(id));
    const reports = new Map();
    const readNext = async () => {
      for (let id; (id = ids.pop()) !== undefined; ) {
        const { history, progress, steps } = await this.read(`/v1/jobs/${id}?payload=false`);
        const { lines } = await this.read(`/v1/jobs/${id}/log`);
        reports.set(id, { history, progress, steps, lines: lines.map((line) => line.text) });
      }
    };
    await Promise.all(Array.from({ length: 16 }, readNext));
    this.history.final.reports = reports;
  }

  /** Everything the server has, by reading lists. */
  async collect() {
    const jobs = new Map();
    const letters = new Map();
    const kept = new Map();
    const flow = new Map();
    const queues = new Map();
    for (const queue of (await this.read('/v1/queues')).queues) {
      const listed = {};
      for (let cursor = ''; cursor !== null; ) {
        const page = await this.read(`/v1/jobs?queue=${queue.name}&limit=1000${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`);
        for (const job of page.jobs) {
          listed[job.state] = (listed[job.state] ?? 0) + 1;
          if (queue.name.startsWith('f-')) flow.set(job.id, { state: job.state, reason: job.reason, queue: queue.name, mark: job.payload?.flow });
          else if (queue.name.startsWith('k-')) kept.set(job.id, { ...job, queue: queue.name });
          else if (queue.name === DEAD_LETTER_QUEUE) letters.set(job.id, { state: job.state, marker: job.payload?.marker });
          else jobs.set(job.id, { state: job.state, queue: queue.name, marker: markerOf(job), error: job.error, error_type: job.error_type, stack: job.stack });
        }
        cursor = page.next_cursor;
      }
      queues.set(queue.name, { counts: queue.counts, listed });
    }
    this.history.final = { jobs, queues, letters };
    await this.collectReports();
    if (this.keepers) this.history.final.keeps = { jobs: kept, ...(await this.keepers.collect()) };
    if (this.flow) this.history.final.flow = { jobs: flow, ...(await this.flow.collect()) };
  }

  /** Drains the queues and reads everything; then the history can be checked. */
  async finish() {
    await this.stopProducing();
    await this.drain();
    await this.takeOrdered();
    await this.keepers?.finish();
    await this.flow?.finish();
    await this.collect();
    await this.keepers?.close();
  }
}
