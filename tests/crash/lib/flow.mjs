// SPDX-License-Identifier: Apache-2.0
// Clients of queues with limits, fair share, dependencies and batches. One group has most of the jobs, policies change, and jobs
// depend on recent ones. They have their own queues; ../checker_flow.mjs checks what they saw.
import { until } from '../../e2e/lib/server.mjs';
import { pause } from './recorder.mjs';

const LEASE_MS = 1000;
const GROUPS = ['large', 'large', 'large', 'small', 'other'];
const RULES = ['cancel', 'dead', 'run'];
/** Jobs that wait in the queues with limits, at most about this many of each. */
const BACKLOG_MAX = 60;
const LIMIT_MS = 600_000; // only ends a test that fails

/** The policies that a queue has by turns; f-fair keeps its policy, so that turns can be counted. */
const POLICIES = {
  'f-slots': [
    { max_running: 3, max_running_per_group: 2 },
    { max_running: 5, max_running_per_group: 1, fair: 'group' },
    { max_running: 2, max_running_per_group: 0, ageing_ms: 200 },
    { max_running: 4, max_running_per_group: 2, fair: 'group' },
  ],
  'f-rate': [
    { claim_rate: { count: 8, window_ms: 500, per: 'queue' }, max_running: 0 },
    { claim_rate: { count: 8, window_ms: 500, per: 'queue' }, max_running: 6, ageing_ms: 100 },
    { claim_rate: { count: 4, window_ms: 400, per: 'group' } },
    { claim_rate: { count: 4, window_ms: 400, per: 'group' }, fair: 'group' },
  ],
  'f-fair': [{ max_running: 6, fair: 'group' }],
  'f-children': [{}],
};
const COMMON = { backoff_ms: [5], keep_done: 1_000_000, max_attempts: 4, max_crashes: 0, lease_ms: LEASE_MS };
const NONE = { max_running: 0, max_running_per_group: 0, claim_rate: null, fair: 'none', ageing_ms: 0 };
const LIMITED = ['f-slots', 'f-rate', 'f-fair'];

export class Flow {
  constructor(load) {
    this.load = load;
    this.marks = 0;
    this.waiting = new Map(LIMITED.map((queue) => [queue, 0]));
    this.recent = []; // ids of jobs in f-children
    this.working = true;
  }

  async start() {
    for (const queue of Object.keys(POLICIES)) await this.setPolicy(queue, POLICIES[queue][0], { ...COMMON });
    this.producers = [...LIMITED.map((queue) => this.producer(queue)), this.parent(), this.batcher(), this.changer()];
    this.workers = [...LIMITED, ...LIMITED, 'f-children', 'f-children'].map((queue) => this.worker(queue));
  }

  // ---- policies ----

  /** Repeats the request until it is known to have succeeded: every attempt may have taken effect. */
  async setPolicy(queue, limits, common = {}) {
    const policy = { ...NONE, ...limits };
    for (let again = true; again; ) {
      const answer = await this.load.call('PATCH', `/v1/queues/${queue}`, { ...common, ...policy });
      if (answer.status === 404) {
        await this.create(queue, { ...COMMON, ...policy });
        continue;
      }
      if (answer.sure && answer.status >= 400 && answer.status < 500) throw new Error(`PATCH ${queue}: ${answer.status} ${JSON.stringify(answer.json)}`);
      this.load.seen('f_policy', answer, { queue, policy });
      again = !(answer.sure && answer.status === 200);
    }
  }

  async create(queue, policy) {
    const answer = await this.load.call('PUT', `/v1/queues/${queue}`, policy);
    if (answer.sure && answer.status >= 400 && answer.status < 500) throw new Error(`PUT ${queue}: ${answer.status} ${JSON.stringify(answer.json)}`);
  }

  async changer() {
    const { random } = this.load;
    while (this.load.producing) {
      const queue = random.of(['f-slots', 'f-rate']);
      await this.setPolicy(queue, random.of(POLICIES[queue]));
      await pause(200 + random.below(800));
    }
  }

  // ---- producers ----

  async producer(queue) {
    const { random } = this.load;
    while (this.load.producing) {
      const jobs = Array.from({ length: 1 + random.below(6) }, () => ({ payload: { flow: ++this.marks }, group: random.of(GROUPS) }));
      const answer = await this.load.call('POST', `/v1/queues/${queue}/jobs`, jobs);
      jobs.forEach((job, i) => this.noteJob(queue, job, answer, answer.status === 200 ? answer.json.jobs[i].id : undefined));
      do await pause(random.below(30));
      while (this.load.producing && this.waiting.get(queue) > BACKLOG_MAX);
    }
  }

  noteJob(queue, job, answer, id, more = {}) {
    this.load.seen('f_put', answer, { queue, mark: job.payload.flow, group: job.group, id, ...more });
    if (id && this.waiting.has(queue)) this.waiting.set(queue, this.waiting.get(queue) + 1);
    if (id && queue === 'f-children') this.recent.push(id);
    if (this.recent.length > 12) this.recent.shift();
  }

  someParents() {
    const { random } = this.load;
    return [...new Set(Array.from({ length: random.below(4) }, () => random.of(this.recent)))];
  }

  /** Jobs that depend on recent ones. */
  async parent() {
    const { random } = this.load;
    while (this.load.producing) {
      const parents = this.recent.length > 0 ? this.someParents() : [];
      const rule = random.of(RULES);
      const job = { payload: { flow: ++this.marks } };
      const body = parents.length > 0 ? { ...job, depends_on: parents, on_dependency_failure: rule } : job;
      const answer = await this.load.call('POST', '/v1/queues/f-children/jobs', body);
      this.noteJob('f-children', job, answer, answer.status === 201 ? answer.json.id : undefined, { parents, rule });
      await pause(random.below(60));
    }
  }

  /** A batch is repeated under its key until its outcome is known: it exists once. */
  async batcher() {
    const { random } = this.load;
    while (this.load.producing) {
      const jobs = Array.from({ length: 1 + random.below(8) }, () => ({ queue: 'f-children', payload: { flow: ++this.marks } }));
      const then = { queue: 'f-children', payload: { flow: ++this.marks } };
      const rule = random.of(RULES);
      const marks = jobs.map((job) => job.payload.flow);
      for (let again = true; again; ) {
        const answer = await this.load.call('POST', '/v1/batches', { jobs, then, on_failure: rule }, { 'idempotency-key': `batch-${then.payload.flow}` });
        const { batch, jobs: made } = answer.status < 300 ? answer.json ?? {} : {};
        this.load.seen('f_batch', answer, { batch, marks, then: then.payload.flow, rule, ids: made?.map((job) => job.id) });
        again = !answer.sure || answer.status === 503;
      }
      await pause(20 + random.below(150));
    }
  }

  // ---- workers ----

  async end(kind, job, body = {}) {
    for (let again = true; again; ) {
      const answer = await this.load.call('POST', `/v1/jobs/${job.id}/${kind}`, { token: job.token, ...body });
      this.load.seen(`f_${kind}`, answer, { id: job.id, token: job.token, state: answer.json?.state, repeat: answer.json?.repeat === true });
      again = !answer.sure;
    }
    if (kind === 'ack' && this.waiting.has(job.queue)) this.waiting.set(job.queue, this.waiting.get(job.queue) - 1);
  }

  async work(job) {
    const { random } = this.load;
    if (random.chance(30)) await pause(random.below(120));
    const dice = random.below(100);
    if (dice < 80) await this.end('ack', job);
    else if (dice < 88) await this.end('fail', job, { retry: false });
    else if (dice < 93) await this.end('fail', job);
    else if (dice < 98) await this.end('release', job);
    if (dice >= 80 && dice < 88 && this.waiting.has(job.queue)) this.waiting.set(job.queue, this.waiting.get(job.queue) - 1);
  }

  async worker(queue) {
    const { random } = this.load;
    while (this.working) {
      const body = { count: 1 + random.below(4), lease_ms: LEASE_MS, worker: queue, wait_ms: 100 };
      const answer = await this.load.call('POST', `/v1/queues/${queue}/claim`, body);
      const jobs = answer.status === 200 ? answer.json.jobs : [];
      for (const job of jobs)
        this.load.seen('f_claim', answer, { queue, id: job.id, token: job.token, group: job.group ?? '', mark: job.payload.flow, lease: LEASE_MS, attempt: job.attempt });
      await Promise.all(jobs.map((job) => this.work(job)));
    }
  }

  // ---- the end ----

  counts() {
    const { entries } = this.load.history;
    const seen = (kind, more = () => true) => entries.filter((e) => e.kind === kind && e.sure && e.ok && more(e)).length;
    const starts = (queue) => seen('f_claim', (e) => e.queue === queue);
    return {
      slots: starts('f-slots'), tokens: starts('f-rate'), turns: starts('f-fair'), children: starts('f-children'),
      depending: seen('f_put', (e) => e.parents?.length > 0), batches: seen('f_batch'), policies: seen('f_policy'),
    };
  }

  async haveDoneAll() {
    await until('clients of limits and dependencies have done everything', () => Object.values(this.counts()).every((n) => n >= 10), LIMIT_MS);
  }

  async stopProducing() {
    await Promise.all(this.producers);
  }

  async finish() {
    this.working = false;
    await Promise.all(this.workers);
  }

  /** What is left to read beside the jobs: the counts of the batches, and what jobs are said to wait for. */
  async collect() {
    const batches = new Map();
    const ids = new Set(this.load.history.entries.filter((e) => e.kind === 'f_batch' && e.batch).map((e) => e.batch));
    for (const id of ids) batches.set(id, await this.load.read(`/v1/batches/${id}`));
    const limited = new Map();
    for (const queue of LIMITED) limited.set(queue, (await this.load.read(`/v1/queues/${queue}`)).limited);
    return { batches, limited };
  }
}
