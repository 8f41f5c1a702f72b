// SPDX-License-Identifier: Apache-2.0
// Keepers: clients that use what is written in the same commit as a state change of a job. They commit keys together with jobs that
// leave a key when they die, hand off jobs and keys with their acks, and have schedules that fire each second, a trigger whose jobs hold items, and an alert rule whose
// notices go to a receiver. They have their own queues; ../checker_keeps.mjs checks what they saw.
import { Receiver } from '../../e2e/lib/receiver.mjs';
import { until } from '../../e2e/lib/server.mjs';
import { pause } from './recorder.mjs';

const QUEUES = { 'k-jobs': {}, 'k-next': {}, 'k-closed': { refuse_new: true }, 'k-fired': {}, 'k-items': { max_attempts: 3 }, 'k-work': { max_attempts: 1000, max_crashes: 0 } };
const SCHEDULES = {
  'k-first': { every_ms: 1000, queue: 'k-fired' },
  'k-second': { every_ms: 1000, queue: 'k-fired', misfire: 'all' },
  'k-never': { every_ms: 86_400_000, queue: 'k-fired' }, // fired out of turn
  'k-items': { source_queue: 'k-items', queue: 'k-work', batch_size: 3, eager: true, interval_ms: 1000 },
};
const LEASE_MS = 1000;
const REFUSED_PERCENT = 3; // deliveries that the receiver answers with an error
const LIMIT_MS = 600_000; // only ends a test that fails

export class Keepers {
  constructor(load) {
    this.load = load;
    this.receiver = new Receiver();
    this.receiver.answer = (kept, response) => response.writeHead(load.random.chance(REFUSED_PERCENT) ? 500 : 200).end();
    this.commits = 0;
    this.handoffs = 0;
    this.working = true;
  }

  /** The server may call its receiver. */
  static env = { HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8' };

  async start() {
    await this.receiver.listen();
    for (const [name, policy] of Object.entries(QUEUES)) await this.surely('PUT', `/v1/queues/${name}`, { backoff_ms: [5], keep_done: 1_000_000, ...policy });
    await this.surely('PUT', '/v1/alerts/k-dead', { on: 'dead', queue: 'k-*', webhook: { url: this.receiver.url } });
    for (const [name, definition] of Object.entries(SCHEDULES)) await this.surely('PUT', `/v1/schedules/${name}`, definition);
    this.tasks = [this.committer(), this.runner(), this.feeder()];
    this.workers = ['k-jobs', 'k-next', 'k-fired', 'k-work', 'k-work'].map((queue) => this.worker(queue));
  }

  /** Repeats the request until it is known to have succeeded. */
  async surely(method, path, json) {
    for (;;) {
      const answer = await this.load.call(method, path, json);
      if (answer.status === 200 || answer.status === 201) return answer.json;
      if (answer.sure && answer.status !== 503) throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.json)}`);
    }
  }

  // ---- producers ----

  /** The commit has a check, so that it can be repeated: a refusal means that it succeeded before. */
  async commit() {
    const mark = ++this.commits;
    const payload = { commit: mark, pad: 'x'.repeat(this.load.random.below(400)) };
    const body = {
      checks: [{ key: ['c', mark], version: null }],
      sets: [{ key: ['c', mark], value: mark }, { key: ['last'], value: mark }],
      enqueues: [{ queue: 'k-jobs', payload, max_attempts: 3, keys_if_undelivered: [['u', mark]] }],
    };
    for (let again = true; again; ) {
      const answer = await this.load.call('POST', '/v1/kv/commit', body);
      this.load.seen('k_commit', answer, { mark, payload, id: answer.json?.jobs?.[0]?.id, version: answer.json?.version, status: answer.status });
      again = !answer.sure && this.load.random.chance(70);
    }
  }

  async committer() {
    while (this.load.producing) {
      await this.commit();
      await pause(this.load.random.below(30));
    }
  }

  async runner() {
    while (this.load.producing) {
      const answer = await this.load.call('POST', '/v1/schedules/k-never/run');
      this.load.seen('k_run', answer, { id: answer.json?.job?.id });
      await pause(this.load.random.below(200));
    }
  }

  async feeder() {
    while (this.load.producing) {
      const answer = await this.load.call('POST', '/v1/queues/k-items/jobs', { payload: 'item' });
      this.load.seen('k_item', answer, { id: answer.json?.id });
      await pause(this.load.random.below(40));
    }
  }

  // ---- workers ----

  async end(kind, id, token, body = {}) {
    for (let again = true; again; ) {
      const answer = await this.load.call('POST', `/v1/jobs/${id}/${kind}`, { token, ...body });
      this.load.seen(`k_${kind}`, answer, { id, token, state: answer.json?.state, handoff: body.enqueues?.[0].payload.handoff, next: answer.json?.jobs?.[0]?.id });
      again = !answer.sure;
    }
  }

  async look(job, item) {
    const answer = await this.load.call('GET', `/v1/jobs/${item.id}`);
    const { state, job: holder } = answer.json ?? {};
    this.load.seen('k_look', answer, { item: item.id, itemToken: item.token, id: job.id, state, holder });
  }

  /** Acks the job with the next job and a key. Some hand-offs are refused as a whole, because of their second job. */
  async handOff(job) {
    const mark = ++this.handoffs;
    const enqueues = [{ queue: 'k-next', payload: { handoff: mark } }];
    if (this.load.random.chance(20)) enqueues.push({ queue: 'k-closed', payload: 'refused' });
    await this.end('ack', job.id, job.token, { enqueues, sets: [{ key: ['h', mark], value: mark }] });
  }

  async workOnItems(job) {
    const { random } = this.load;
    for (const item of job.payload.items) {
      await this.look(job, item);
      if (random.chance(50)) await pause(random.below(60));
      if (random.chance(60)) await this.end(random.of(['ack', 'ack', 'ack', 'fail', 'release']), item.id, item.token);
      else await this.look(job, item);
    }
  }

  async work(job) {
    const { random } = this.load;
    if (job.payload?.items) await this.workOnItems(job);
    const dice = random.below(100);
    if (dice < 40 && job.queue === 'k-jobs') await this.handOff(job);
    else if (dice < 60) await this.end('ack', job.id, job.token);
    else if (dice < 80) await this.end('fail', job.id, job.token, { retry: false, error: 'a keeper lets it die' });
    else if (dice < 90) await this.end('fail', job.id, job.token);
    else if (dice < 95) await this.end('release', job.id, job.token);
  }

  async worker(queue) {
    while (this.working) {
      const answer = await this.load.call('POST', `/v1/queues/${queue}/claim`, { count: 3, lease_ms: LEASE_MS, worker: queue, wait_ms: 100 });
      const jobs = answer.status === 200 ? answer.json.jobs : [];
      for (const job of jobs) this.load.seen('k_claim', answer, { id: job.id, token: job.token, queue, items: job.payload?.items ?? [] });
      await Promise.all(jobs.map((job) => this.work(job)));
    }
  }

  // ---- the end ----

  /** Waits until everything that the checks need has happened, for as long as it takes. */
  async haveDoneAll() {
    const { entries } = this.load.history;
    const seen = (kind, more = () => true) => entries.some((e) => e.kind === kind && e.sure && e.ok && more(e));
    const died = () => {
      const committed = new Set(entries.filter((e) => e.kind === 'k_claim' && e.queue === 'k-jobs').map((e) => e.id));
      return seen('k_fail', (e) => e.state === 'dead' && committed.has(e.id)); // so it left its key
    };
    const fired = async () => {
      const { schedules } = await this.surely('GET', '/v1/schedules');
      return schedules.some((s) => s.every_ms === 1000 && s.fired > 0) && schedules.some((s) => s.source_queue && s.fired > 0);
    };
    await until('keepers have done everything', async () => {
      const handed = seen('k_ack', (e) => e.handoff) && entries.some((e) => e.kind === 'k_ack' && e.handoff && e.sure && !e.ok);
      const done = handed && seen('k_commit') && seen('k_run') && seen('k_look') && died() && this.receiver.requests.length > 0;
      return done && (await fired());
    }, LIMIT_MS);
  }

  /** Stops the producers and schedules; a trigger still takes items. */
  async stopProducing() {
    await Promise.all(this.tasks);
    for (const name of Object.keys(SCHEDULES)) if (!SCHEDULES[name].source_queue) await this.surely('POST', `/v1/schedules/${name}/pause`);
  }

  /** The queues are empty: stops the workers and waits for the last notices. */
  async finish() {
    this.working = false;
    await Promise.all(this.workers);
    const limit = Date.now() + LIMIT_MS;
    while ((await this.load.read('/v1/notices')).notices.length > 0) {
      if (Date.now() > limit) throw new Error(`notices are not delivered: ${JSON.stringify((await this.load.read('/v1/notices')).notices.slice(0, 3))}`);
      await pause(50);
    }
  }

  /** Reads their keys and schedules from the server, and what the receiver got. */
  async collect() {
    const keys = new Map();
    for (let cursor = ''; cursor !== null; ) {
      const page = await this.load.read(`/v1/kv?limit=1000${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`);
      for (const one of page.keys) keys.set(JSON.stringify(one.key), one);
      cursor = page.next_cursor ?? null;
    }
    const { schedules } = await this.load.read('/v1/schedules');
    const told = this.receiver.requests.map(({ json }) => ({ id: json.id, job: json.job?.id }));
    return { keys, schedules, told };
  }

  async close() {
    await this.receiver.close();
  }
}
