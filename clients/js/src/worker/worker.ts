// SPDX-License-Identifier: Apache-2.0
// A worker claims jobs, runs the handler for each and reports the outcome.
//
// It holds at most `concurrency + prefetch` leases, from the claim until the report is confirmed. One loop claims, one sends
// heartbeats; handlers run in between. Every lease that the worker holds is renewed, also that of a job that waits for a free
// handler. A handler is told through its signal when its work must stop. What it returns then is still reported, because the
// server decides whether a report is accepted; only after the server itself has ended the lease nothing is sent.
import type { Holdfast } from '../client.js';
import { AbortedError, JobCancelledError, LeaseLostError, type ProblemError, WorkerStoppedError } from '../errors.js';
import { randomId } from '../random.js';
import { backoffMs, monotonicMs, pause, quietTimer } from '../time.js';
import type { AckOptions, Job } from '../types.js';
import { JobContext } from './context.js';
import { Heartbeats, type WorkerFacts } from './heartbeat.js';
import { Held } from './held.js';
import { callHook, type WorkerHooks } from './hooks.js';
import { LagMonitor } from './lag.js';
import { endingOf } from './outcome.js';

export type Handler<P = any, R = any> = (job: Job<P>, ctx: JobContext<P>) => Promise<R> | R;
export type Middleware<P = any> = (job: Job<P>, ctx: JobContext<P>, next: () => Promise<unknown>) => Promise<unknown>;

export interface WorkerOptions {
  /** The number of handlers that run at the same time (1). */
  concurrency?: number;
  /** The number of jobs that wait in this process for a free handler (0). Together with `concurrency` at most 1,000. */
  prefetch?: number;
  /** The length of a lease; default: that of the queue. */
  leaseMs?: number;
  /** The time for which the server holds a claim when there is no job (30,000). */
  waitMs?: number;
  /** The name in GET /v1/workers; default: one that contains the host, if it is known, and a random part. */
  name?: string;
  middleware?: Middleware[];
  hooks?: WorkerHooks;
  /** Shown in GET /v1/workers. */
  facts?: WorkerFacts;
}

export interface StopOptions {
  /** After this time the signals of the running handlers abort and their jobs are released (30,000). */
  timeoutMs?: number;
  /** First process all jobs that are ready. */
  drain?: boolean;
}

const HELD_MAX = 1000;
/** Reports are repeated until the server replies; the server keeps replies to reports for at least this time. */
const REPORT_MS = 3_600_000;
const STOP_MS = 30_000;

interface Process {
  process?: { pid?: number; env?: Record<string, string | undefined>; versions?: { node?: string } };
}

export class Worker<P = any, R = any> {
  readonly name: string;
  /** Resolves when the worker has stopped. Never rejects. */
  readonly ended: Promise<void>;
  readonly #client: Holdfast;
  readonly #queues: string | readonly string[];
  readonly #handler: Handler<P, R>;
  readonly #options: WorkerOptions;
  readonly #hooks: WorkerHooks<P>;
  readonly #middleware: Middleware<P>[];
  readonly #concurrency: number;
  readonly #capacity: number;
  readonly #held = new Map<string, Held<P>>();
  readonly #waiting: Held<P>[] = [];
  readonly #claiming = new AbortController();
  readonly #heartbeats: Heartbeats;
  readonly #lag: LagMonitor;
  readonly #resolveEnded: () => void;
  #running = 0;
  #done = 0;
  #failed = 0;
  #leaseMs = 30_000;
  #state: 'active' | 'draining' | 'stopping' = 'active';
  #stopped: Promise<void> | undefined;
  #drained: Promise<void> | undefined;
  #hardStop: () => void = () => {};
  #room: () => void = () => {};
  #idle: () => void = () => {};
  #expiry: { at: number; timer: { clear(): void } } | undefined;
  readonly #claims: Promise<void>;

  /** @internal Use Holdfast.worker(). */
  constructor(client: Holdfast, queues: string | readonly string[], handler: Handler<P, R>, options: WorkerOptions) {
    this.#client = client;
    this.#queues = queues;
    this.#handler = handler;
    this.#options = options;
    this.#hooks = options.hooks ?? {};
    this.#middleware = [...(options.middleware ?? [])];
    this.#concurrency = whole('concurrency', options.concurrency ?? 1, 1);
    this.#capacity = this.#concurrency + whole('prefetch', options.prefetch ?? 0, 0);
    if (this.#capacity > HELD_MAX) throw new RangeError(`concurrency and prefetch are ${this.#capacity} together; at most ${HELD_MAX} jobs can be held, use several workers for more`);
    const { process } = globalThis as unknown as Process;
    const host = options.facts?.host ?? process?.env?.['HOSTNAME'];
    this.name = options.name ?? `${host ? `${host.slice(0, 60)}-` : 'js-'}${randomId().slice(0, 12)}`;
    const facts: WorkerFacts = { ...(host && { host }), ...(process?.pid !== undefined && { pid: process.pid }), ...options.facts };
    let resolveEnded = () => {};
    this.ended = new Promise((resolve) => (resolveEnded = resolve));
    this.#resolveEnded = resolveEnded;
    this.#lag = new LagMonitor(
      () => Math.min(1000, this.#leaseMs / 3),
      (ms) => {
        // Replies may have waited in the socket during the block, so that their leases are older than they seem.
        for (const held of this.#held.values()) held.renewedAt = -Infinity;
        callHook(this.#hooks, 'blocked', ms);
      },
    );
    this.#heartbeats = new Heartbeats(client, this.#holder(), facts);
    this.#claims = this.#claimLoop();
  }

  /** Adds a middleware around the handler; the first one added is the outermost. */
  use(middleware: Middleware<P>): this {
    this.#middleware.push(middleware);
    return this;
  }

  /** The number of handlers that are running. */
  get running(): number {
    return this.#running;
  }

  /**
   * Stops: no further job is claimed, jobs that have not started are released, and running handlers may finish. After
   * `timeoutMs` their signals abort and their jobs are released, uncounted. A second call can shorten the time.
   */
  stop(options: StopOptions = {}): Promise<void> {
    const drain = options.drain === true && this.#state === 'active';
    if (this.#state !== 'stopping') this.#state = drain ? 'draining' : 'stopping';
    if (drain) this.#drained = this.#drain();
    else this.#claiming.abort();
    this.#stopped ??= this.#stop();
    this.#room();
    const timer = quietTimer(() => this.#hardStop(), options.timeoutMs ?? (drain ? Infinity : STOP_MS));
    return this.#stopped.finally(() => timer.clear());
  }

  async #stop(): Promise<void> {
    let hard = false;
    const hardStop = new Promise<void>((resolve) => {
      this.#hardStop = () => {
        hard = true;
        this.#claiming.abort();
        resolve();
      };
    });
    await Promise.race([Promise.all([this.#claims, this.#drained]), hardStop]);
    this.#state = 'stopping';
    for (const held of this.#waiting.splice(0)) void this.#release(held);
    await Promise.race([this.#untilIdle(), hardStop]);
    if (hard) await this.#abandon();
    await this.#heartbeats.end(1000);
    this.#lag.close();
    this.#expiry?.timer.clear();
    this.#resolveEnded();
  }

  /** Aborts what runs and releases it; waits for the replies, but not for the handlers. */
  async #abandon(): Promise<void> {
    for (const held of this.#held.values()) held.stop(new WorkerStoppedError());
    const releases = [...this.#held.values()].map((held) => (held.phase === 'reporting' ? undefined : this.#release(held)));
    await Promise.race([Promise.all(releases), pause(5000)]);
  }

  #untilIdle(): Promise<void> {
    return new Promise((resolve) => {
      this.#idle = () => {
        if (this.#held.size === 0 && this.#running === 0) resolve();
      };
      this.#idle();
    });
  }

  // ---- claims ----

  async #claimLoop(): Promise<void> {
    await Promise.resolve(); // middleware can be added first
    for (let failures = 0; this.#state === 'active' && !this.#isStopping; ) {
      const free = this.#capacity - this.#held.size;
      if (free < this.#leastFree()) {
        await this.#change();
        continue;
      }
      try {
        this.#take(await this.#claim(free, this.#options.waitMs ?? 30_000, this.#claiming.signal));
        failures = 0;
      } catch (error) {
        if (error instanceof AbortedError) continue;
        callHook(this.#hooks, 'error', error);
        await pause(backoffMs(failures++, 100, 5000), this.#claiming.signal);
      }
    }
  }

  /**
   * Claims until nothing is ready and nothing is held. The claim that may be waiting stays open until then: jobs that it gets
   * are processed, and would come back to the queue too late if it were aborted now.
   */
  async #drain(): Promise<void> {
    for (let failures = 0; !this.#isStopping; ) {
      try {
        const free = this.#capacity - this.#held.size;
        const jobs = free > 0 ? await this.#claim(free, 0) : [];
        failures = 0;
        this.#take(jobs);
        if (jobs.length > 0) continue;
        // Jobs that are held may enqueue more when they end.
        if (this.#held.size > 0) {
          await this.#change();
          continue;
        }
        this.#claiming.abort();
        await this.#claims;
        if (this.#held.size === 0) return;
      } catch (error) {
        if (error instanceof AbortedError) return;
        callHook(this.#hooks, 'error', error);
        await pause(backoffMs(failures++, 100, 5000));
      }
    }
  }

  /** The next end of a job, or a stop. */
  #change(): Promise<void> {
    return new Promise((resolve) => (this.#room = resolve));
  }

  get #isStopping(): boolean {
    return this.#state === 'stopping' || this.#client.transport.closed;
  }

  /** A claim for one job while handlers are busy would make many small claims. */
  #leastFree(): number {
    const starving = this.#waiting.length === 0 && this.#running < this.#concurrency;
    return starving ? 1 : Math.ceil(this.#capacity / 4);
  }

  #claim(count: number, waitMs: number, signal?: AbortSignal): Promise<Job<P>[]> {
    const { leaseMs } = this.#options;
    const members = { count, waitMs, worker: this.name, ...(leaseMs !== undefined && { leaseMs }), ...(signal && { signal }) };
    return this.#client.claim(this.#queues, members, { retryForMs: 0 }) as Promise<Job<P>[]>;
  }

  #take(jobs: Job<P>[]): void {
    const now = monotonicMs();
    for (const job of jobs) {
      const held = new Held(job, now);
      this.#leaseMs = job.leaseMs;
      this.#held.set(job.token, held);
      // A claim that stop() could not abort any more.
      if (this.#isStopping) void this.#release(held);
      else this.#waiting.push(held);
      this.#watchExpiry(held.deadline);
    }
    this.#startWaiting();
  }

  #startWaiting(): void {
    while (this.#running < this.#concurrency) {
      const held = this.#waiting.shift();
      if (!held) return;
      void this.#run(held);
    }
  }

  // ---- one job ----

  async #run(held: Held<P>): Promise<void> {
    held.phase = 'running';
    this.#running++;
    const ctx = new JobContext<P>(this.#client, this.name, held, this.#news);
    callHook(this.#hooks, 'started', held.job);
    let report: () => Promise<void>;
    try {
      const result = await this.#handle(held.job, ctx);
      report = () => this.#ack(held, { ...ctx.handOff, result });
    } catch (error) {
      report = () => this.#unfinished(held, error);
    }
    await ctx.flush();
    this.#freeHandler(held);
    await report();
  }

  #handle(job: Job<P>, ctx: JobContext<P>): Promise<unknown> {
    const call = (index: number): Promise<unknown> => {
      const middleware = this.#middleware[index];
      return middleware ? Promise.resolve(middleware(job, ctx, () => call(index + 1))) : Promise.resolve(this.#handler(job, ctx));
    };
    const { tracing } = this.#client.options;
    const run = async () => call(0);
    if (!tracing?.handle) return run();
    const { queue, id, attempt, kind } = job;
    return tracing.handle(job.headers ?? {}, { queue, id, attempt, ...(kind !== undefined && { kind }) }, run);
  }

  #freeHandler(held: Held<P>): void {
    held.phase = 'reporting';
    this.#running--;
    this.#startWaiting();
    this.#room();
  }

  /** The lease is over or was given back. */
  #forget(held: Held<P>): void {
    this.#held.delete(held.job.token);
    this.#room();
    this.#idle();
  }

  async #ack(held: Held<P>, options: AckOptions): Promise<void> {
    if (this.#isOver(held)) return;
    try {
      const reply = await this.#client.ack(held.job, options, { retryForMs: REPORT_MS });
      this.#done++;
      this.#forget(held);
      callHook(this.#hooks, 'done', held.job, reply);
    } catch (error) {
      if (this.#endedByServer(held, error)) return;
      // The result or the hand-off was refused: the job cannot be done in this way.
      callHook(this.#hooks, 'error', error, held.job);
      await this.#fail(held, error);
    }
  }

  async #unfinished(held: Held<P>, error: unknown): Promise<void> {
    if (this.#isOver(held)) return;
    // The handler stopped because it was told to: that is not a failure of the job.
    if (held.stopReason) return this.#release(held);
    const ending = endingOf(error);
    if (ending.word === 'fail') return this.#fail(held, error);
    return this.#release(held, ending.report);
  }

  async #fail(held: Held<P>, error: unknown): Promise<void> {
    const ending = endingOf(error);
    try {
      const reply = await this.#client.fail(held.job, ending.report, { retryForMs: REPORT_MS });
      this.#failed++;
      this.#forget(held);
      callHook(this.#hooks, 'failed', held.job, error, reply);
    } catch (refused) {
      if (this.#endedByServer(held, refused)) return;
      callHook(this.#hooks, 'error', refused, held.job);
      this.#forget(held);
    }
  }

  async #release(held: Held<P>, report = {}): Promise<void> {
    if (this.#isOver(held)) return;
    const running = held.phase === 'running';
    held.phase = 'reporting';
    try {
      const reply = await this.#client.release(held.job, report, { retryForMs: REPORT_MS });
      this.#forget(held);
      callHook(this.#hooks, reply.state === 'cancelled' ? 'cancelled' : 'released', held.job, reply);
    } catch (error) {
      // A handler that still runs is counted until it ends.
      if (running && !held.lost) held.lost = true;
      if (this.#endedByServer(held, error)) return;
      callHook(this.#hooks, 'error', error, held.job);
      this.#forget(held);
    }
  }

  /** Whether nothing is left to report. */
  #isOver(held: Held<P>): boolean {
    if (!held.lost && this.#held.has(held.job.token)) return false;
    this.#forget(held);
    return true;
  }

  /** Whether the refusal of a report says that the lease was over. */
  #endedByServer(held: Held<P>, error: unknown): boolean {
    if (!(error instanceof LeaseLostError) && !(error instanceof JobCancelledError)) return false;
    this.#lose(held, error, true);
    this.#forget(held);
    return true;
  }

  // ---- leases ----

  #lose(held: Held<P>, error: LeaseLostError | JobCancelledError, late = false): void {
    held.lost = true;
    held.stop(error);
    if (error instanceof JobCancelledError) return callHook(this.#hooks, 'cancelled', held.job);
    callHook(this.#hooks, 'lost', held.job, { error, late, blockedMs: this.#lag.longestSince(held.since) });
  }

  #cancelRequested(held: Held<P>): void {
    const problem = { code: 'cancelled', title: 'The cancel of the job is requested', id: held.job.id };
    if (!held.stop(new JobCancelledError(202, problem))) return;
    if (held.phase === 'waiting') this.#dropWaiting(held, true);
  }

  /** The server says that the lease is over. */
  #leaseLost(held: Held<P>, error?: LeaseLostError | JobCancelledError): void {
    // A report that has just been accepted ends the lease as well.
    if (held.phase === 'reporting' || held.lost) return;
    this.#lose(held, error ?? lostError(held.job, 'the server has ended the lease'));
    if (held.phase === 'waiting') this.#dropWaiting(held, false);
  }

  #dropWaiting(held: Held<P>, release: boolean): void {
    const at = this.#waiting.indexOf(held);
    if (at >= 0) this.#waiting.splice(at, 1);
    if (release) void this.#release(held);
    else this.#forget(held);
  }

  readonly #news = {
    cancelRequested: (held: Held) => this.#cancelRequested(held as Held<P>),
    lost: (held: Held, error: LeaseLostError | JobCancelledError) => this.#leaseLost(held as Held<P>, error),
    failed: (error: unknown, held: Held) => callHook(this.#hooks, 'error', error, held.job as Job<P>),
  };

  #holder() {
    const worker = this;
    return {
      name: this.name,
      get done() {
        return worker.#done;
      },
      get failed() {
        return worker.#failed;
      },
      held: () => [...worker.#held.values()].filter((held) => !held.lost && !(held.stopReason instanceof LeaseLostError)) as Held[],
      cancelRequested: this.#news.cancelRequested,
      leaseLost: (held: Held) => worker.#leaseLost(held as Held<P>),
      heartbeatFailed: (error: unknown) => callHook(worker.#hooks, 'error', error),
    };
  }

  /** Tells handlers to stop when their leases end without a renewal, whether or not the server can be reached. */
  #watchExpiry(deadline: number): void {
    if (this.#expiry && this.#expiry.at <= deadline) return;
    this.#expiry?.timer.clear();
    this.#expiry = { at: deadline, timer: quietTimer(() => this.#expire(), deadline - monotonicMs() + 1) };
  }

  #expire(): void {
    this.#expiry = undefined;
    const now = monotonicMs();
    let next = Infinity;
    for (const held of [...this.#held.values()]) {
      if (held.phase === 'reporting' || held.stopReason) continue;
      if (held.deadline > now) next = Math.min(next, held.deadline);
      else this.#expired(held);
    }
    if (next < Infinity) this.#watchExpiry(next);
  }

  #expired(held: Held<P>): void {
    const error = lostError(held.job, 'the lease was not renewed in time');
    held.stop(error);
    callHook(this.#hooks, 'lost', held.job, { error, late: false, blockedMs: this.#lag.longestSince(held.since) });
    if (held.phase === 'waiting') this.#dropWaiting(held, false);
  }
}

function lostError(job: Job, detail: string): LeaseLostError {
  return new LeaseLostError(409, { code: 'lease_lost', title: 'The lease is lost', detail, id: job.id, seq: job.seq } satisfies ProblemError['problem']);
}

function whole(name: string, value: number, least: number): number {
  if (!Number.isInteger(value) || value < least) throw new RangeError(`${name} is ${value}; it must be a whole number from ${least}`);
  return value;
}
