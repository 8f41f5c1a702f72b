// SPDX-License-Identifier: Apache-2.0
// Clients that write down everything they see: producers and workers of several kinds, and an
// administrator. They go on through crashes; a broken connection makes an outcome unsure.
import http from 'node:http';

import { openStream } from '../e2e/lib/client.mjs';

export const LEASE_MS = 1500;
export const MAX_ATTEMPTS = 8;
const now = () => performance.timeOrigin + performance.now();

/** A small seeded generator, so that a failing run's plan can be had again. */
export function randomOf(seed) {
  let s = seed >>> 0 || 1;
  const next = () => {
    s ^= s << 13;
    s ^= s >>> 17;
    s ^= s << 5;
    s >>>= 0;
    return s;
  };
  return { below: (n) => next() % n, chance: (percent) => next() % 100 < percent };
}

export class Load {
  constructor(seed) {
    this.random = randomOf(seed);
    this.history = { entries: [], crashes: [], ordered: [], final: null };
    this.server = null;
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 256 });
    this.markers = 0;
    this.producing = true;
    this.working = true;
    this.tasks = [];
    this.up = new Promise((resolve) => (this.setUp = resolve));
  }

  /** The server is there (again). */
  serve(server) {
    this.server = server;
    this.setUp();
  }

  /** It was killed. */
  down() {
    this.agent.destroy();
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 256 });
    this.up = new Promise((resolve) => (this.setUp = resolve));
  }

  record(entry) {
    this.history.entries.push(entry);
    return entry;
  }

  /** {sure, status, json, t0, t1}; sure = an answer came that says whether it happened. */
  async call(method, path, json) {
    await this.up;
    const body = JSON.stringify(json ?? {});
    const t0 = now();
    try {
      const answer = await new Promise((resolve, reject) => {
        const { host, port } = this.server;
        const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
        const request = http.request({ host, port, method, path, headers: { ...headers, ...json?.headers }, agent: this.agent }, (response) => {
          let text = '';
          response.setEncoding('utf8');
          response.on('data', (chunk) => (text += chunk));
          response.on('error', reject);
          response.on('end', () => (response.complete ? resolve({ status: response.statusCode, text }) : reject(new Error('cut off'))));
        });
        request.on('error', reject);
        request.end(body);
      });
      const sure = answer.status < 500 || answer.status === 503;
      return { sure, status: answer.status, json: JSON.parse(answer.text), t0, t1: now() };
    } catch {
      await new Promise((resolve) => setTimeout(resolve, 2));
      return { sure: false, status: 0, t0, t1: now() };
    }
  }

  // ---- producers ----

  marker() {
    return `m${++this.markers}`;
  }

  noteEnqueue(job, answer, outcome) {
    return this.record({
      kind: 'enqueue', marker: job.payload.marker, unique: job.unique, priority: job.priority ?? 0, runAt: job.runAt,
      t0: answer.t0, t1: answer.t1, sure: answer.sure, created: outcome?.created === true, id: outcome?.id,
    });
  }

  plain() {
    return { payload: { marker: this.marker(), pad: 'x'.repeat(this.random.below(300)) }, max_attempts: MAX_ATTEMPTS, backoff_ms: [5, 10] };
  }

  wire(job) {
    const { runAt, ...sent } = job;
    return runAt ? { ...sent, run_at: new Date(runAt).toISOString() } : sent;
  }

  async produceOne(queue, job) {
    const answer = await this.call('POST', `/v1/queues/${queue}/jobs`, this.wire(job));
    this.noteEnqueue(job, answer, answer.status === 201 || answer.status === 200 ? answer.json : null);
    return answer;
  }

  async produceBatch(queue) {
    const jobs = Array.from({ length: 2 + this.random.below(20) }, () => this.plain());
    await this.up;
    const answer = await this.callArray(`/v1/queues/${queue}/jobs`, jobs);
    jobs.forEach((job, i) => this.noteEnqueue(job, answer, answer.status === 200 ? answer.json.jobs[i] : null));
  }

  callArray(path, list) {
    const proxy = { toJSON: () => list };
    return this.call('POST', path, proxy);
  }

  /** Repeats under one key until it is sure: never two jobs. */
  async produceIdempotent(queue) {
    const job = this.plain();
    const key = `key-${job.payload.marker}`;
    for (;;) {
      const answer = await this.call('POST', `/v1/queues/${queue}/jobs`, { toJSON: () => job, headers: { 'idempotency-key': key } });
      const done = answer.status === 200 || answer.status === 201;
      if (done) {
        this.noteEnqueue(job, answer, { id: answer.json.id, created: true });
        return;
      }
      if (!this.producing && !answer.sure) {
        this.noteEnqueue(job, answer, null);
        return;
      }
    }
  }

  async producer(kind) {
    const queue = `q${this.random.below(3)}`;
    while (this.producing) {
      const job = this.plain();
      if (kind === 'batch') await this.produceBatch(queue);
      else if (kind === 'idempotent') await this.produceIdempotent(queue);
      else if (kind === 'unique') await this.produceOne(queue, { ...job, unique: `${queue}-u${this.random.below(5)}`, unique_mode: 'reject' });
      else if (kind === 'delayed') await this.produceOne(queue, { ...job, runAt: Math.ceil(Date.now() + this.random.below(400)) });
      else if (kind === 'priority') await this.produceOne(queue, { ...job, priority: this.random.below(10) - 5 });
      else if (kind === 'ordered') await this.produceOne('ordered', { ...job, priority: this.random.below(7) });
      else await this.produceOne(queue, job);
      await new Promise((resolve) => setTimeout(resolve, this.random.below(8)));
    }
  }

  // ---- workers ----

  noteClaim(job, answer, bound) {
    return this.record({
      kind: 'claim', id: job.id, token: job.token, attempt: job.attempt, marker: job.payload?.marker, lease: LEASE_MS,
      bound, maxAttempts: MAX_ATTEMPTS, t0: answer.t0, t1: answer.t1,
    });
  }

  async end(kind, job, body = {}) {
    for (;;) {
      const answer = await this.call('POST', `/v1/jobs/${job.id}/${kind}`, { token: job.token, ...body });
      this.record({
        kind, id: job.id, token: job.token, t0: answer.t0, t1: answer.t1, sure: answer.sure && answer.status !== 503,
        ok: answer.status === 200, repeat: answer.json?.repeat === true,
      });
      if (answer.sure && answer.status !== 503) return answer;
    }
  }

  async work(job) {
    const dice = this.random.below(100);
    if (dice < 70) await this.end('ack', job, { result: { ok: true } });
    else if (dice < 80) await this.end('fail', job, { error: 'made to fail' });
    else if (dice < 86) await this.end('release', job, { reason: 'not now' });
    else if (dice < 92) {
      await this.call('POST', `/v1/jobs/${job.id}/extend`, { token: job.token, lease_ms: LEASE_MS });
      await this.end('ack', job);
    } else if (dice < 95) {
      /* A worker that dies: the lease runs out; then its stale ack must not count. */
      await new Promise((resolve) => setTimeout(resolve, LEASE_MS * 1.3));
      await this.end('ack', job);
    } else await this.end('ack', job).then(() => this.end('ack', job));
  }

  async worker(kind) {
    const queues = ['q0', 'q1', 'q2'];
    while (this.working) {
      const body = { count: 1 + this.random.below(4), lease_ms: LEASE_MS, worker: kind, wait_ms: kind === 'wait' ? 200 : 0 };
      const answer = this.random.chance(50)
        ? await this.call('POST', '/v1/claim', { queues, ...body })
        : await this.call('POST', `/v1/queues/${queues[this.random.below(3)]}/claim`, body);
      const jobs = answer.status === 200 ? answer.json.jobs : [];
      for (const job of jobs) this.noteClaim(job, answer, false);
      await Promise.all(jobs.map((job) => this.work(job)));
      if (jobs.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  /** Jobs pushed over server-sent events; the connection goes now and then. */
  async streamer() {
    while (this.working) {
      await this.up;
      const t0 = now();
      const stream = openStream(this.server, `/v1/queues/q${this.random.below(3)}/listen`, {
        method: 'POST', json: { prefetch: 3, lease_ms: LEASE_MS, worker: 'stream' },
      });
      const held = [];
      const close = setTimeout(() => stream.close(), 50 + this.random.below(500));
      try {
        for (;;) {
          const job = JSON.parse((await stream.next()).data);
          const entry = this.noteClaim(job, { t0, t1: now() }, true);
          held.push(entry);
          this.tasks.push(this.work(job));
        }
      } catch {
        for (const entry of held) entry.dropped = now() - 20;
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
      clearTimeout(close);
      stream.close();
    }
  }

  /** Pauses and resumes, brings dead jobs back. */
  async administrator() {
    while (this.working) {
      const queue = `q${this.random.below(3)}`;
      await this.call('POST', `/v1/queues/${queue}/pause`, { for_ms: 50 });
      await new Promise((resolve) => setTimeout(resolve, this.random.below(60)));
      await this.call('POST', `/v1/queues/${queue}/resume`, {});
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  }

  start() {
    const producers = ['single', 'single', 'batch', 'unique', 'unique', 'delayed', 'priority', 'idempotent', 'ordered'];
    this.producers = producers.map((kind) => this.producer(kind));
    this.workers = ['poll', 'poll', 'poll', 'wait', 'wait', 'wait'].map((kind) => this.worker(kind));
    this.workers.push(this.streamer(), this.streamer(), this.administrator());
  }

  // ---- the end ----

  async stopProducing() {
    this.producing = false;
    await Promise.all(this.producers);
  }

  /** Lets the workers finish everything. */
  async drain(limitMs = 60_000) {
    const end = Date.now() + limitMs;
    for (;;) {
      const { json } = await this.call('GET', '/v1/queues');
      const live = json.queues.filter((q) => q.name !== 'ordered').reduce((n, q) => n + q.counts.ready + q.counts.scheduled + q.counts.running, 0);
      if (live === 0) break;
      if (Date.now() > end) throw new Error(`${live} jobs do not drain: ${JSON.stringify(json.queues.map((q) => [q.name, q.paused, q.counts]))}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    this.working = false;
    await Promise.all(this.workers);
    await Promise.all(this.tasks);
  }

  /** One consumer takes the queue that only filled up until now. */
  async takeOrdered() {
    for (;;) {
      const answer = await this.call('POST', '/v1/queues/ordered/claim', { count: 50, lease_ms: 60_000 });
      if (answer.json.jobs.length === 0) return;
      for (const job of answer.json.jobs) {
        this.noteClaim(job, answer, false).lease = 60_000;
        this.history.ordered.push({ id: job.id, priority: job.priority, seq: job.seq });
      }
      for (const job of answer.json.jobs) await this.end('ack', job);
    }
  }

  /** Everything the server has, by reading lists. */
  async collect() {
    const jobs = new Map();
    const queues = new Map();
    const { json } = await this.call('GET', '/v1/queues');
    for (const queue of json.queues) {
      const listed = {};
      for (let cursor = ''; cursor !== null; ) {
        const page = (await this.call('GET', `/v1/jobs?queue=${queue.name}&limit=1000${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ''}`)).json;
        for (const job of page.jobs) {
          listed[job.state] = (listed[job.state] ?? 0) + 1;
          jobs.set(job.id, { state: job.state, queue: queue.name, marker: job.payload?.marker });
        }
        cursor = page.cursor;
      }
      queues.set(queue.name, { counts: queue.counts, listed });
    }
    this.history.final = { jobs, queues };
  }
}
