// SPDX-License-Identifier: Apache-2.0
// The heartbeats of a worker, which are of two kinds. A *renewal* gets its reply at once and moves the deadlines of all
// leases. A *watch* is held by the server until one of its jobs must stop; it may be abandoned at any time, because the next
// request asks the same again. Most jobs end sooner than a watch could tell anything, so it contains only jobs that the
// worker has held for COVER_MS.
import type { Holdfast } from '../client.js';
import { paths } from '../requests.js';
import { backoffMs, monotonicMs, pause, quietTimer } from '../time.js';
import type { Held } from './held.js';

const COVER_MS = 250;
const PACE_MS = 250;
const IDLE_MS = 15_000;
const WATCH_MS_MAX = 30_000;

export interface Holder {
  readonly name: string;
  readonly done: number;
  readonly failed: number;
  /** The jobs whose leases are to be renewed. */
  held(): Held[];
  cancelRequested(held: Held): void;
  leaseLost(held: Held): void;
  heartbeatFailed(error: unknown): void;
}

/** What GET /v1/workers shows about this process. */
export interface WorkerFacts {
  host?: string;
  pid?: number;
  version?: string;
}

interface HeartbeatReply {
  cancel_tokens?: string[];
  lost_tokens?: string[];
}

const watchable = (held: Held, now: number) => held.phase !== 'reporting' && !held.stopReason && now - held.since >= coverMs(held);
const coverMs = (held: Held) => Math.min(COVER_MS, held.job.leaseMs / 4);

export class Heartbeats {
  readonly #client: Holdfast;
  readonly #holder: Holder;
  readonly #facts: WorkerFacts;
  readonly #ending = new AbortController();
  readonly #done: Promise<void>;
  #renewedAt = -Infinity;

  constructor(client: Holdfast, holder: Holder, facts: WorkerFacts) {
    this.#client = client;
    this.#holder = holder;
    this.#facts = facts;
    this.#done = this.#run();
  }

  /** Ends the heartbeats and tells the server that the worker has stopped. */
  async end(timeoutMs: number): Promise<void> {
    this.#ending.abort();
    await this.#done;
    const limit = limited(timeoutMs);
    await this.#send([], { stopping: true }, { retryForMs: 0, signal: limit.signal }).catch(() => {});
    limit.done();
  }

  async #run(): Promise<void> {
    for (let failures = 0; !this.#ending.signal.aborted; ) {
      try {
        if (this.#renewalDue() <= monotonicMs()) await this.#renew();
        failures = 0;
        await this.#watch();
      } catch (error) {
        if (this.#ending.signal.aborted) return;
        this.#holder.heartbeatFailed(error);
        await pause(backoffMs(failures++, 50, 1000), this.#ending.signal);
      }
    }
  }

  /** A third of each lease may pass before it is renewed; the rest is for renewals that fail. */
  #renewalDue(): number {
    return this.#holder.held().reduce((due, held) => Math.min(due, held.renewedAt + held.job.leaseMs / 3), this.#renewedAt + IDLE_MS);
  }

  async #renew(): Promise<void> {
    const leases = this.#holder.held();
    const sent = monotonicMs();
    // A connection that hangs must not use up the whole lease.
    const shortest = leases.reduce((least, { job }) => Math.min(least, job.leaseMs), IDLE_MS);
    const limit = limited(Math.max(shortest / 2, 1000), this.#ending.signal);
    try {
      const reply = await this.#send(leases, {}, { retryForMs: 0, signal: limit.signal });
      const lost = new Set(reply.lost_tokens);
      for (const held of leases) if (!lost.has(held.job.token)) held.renewed(sent);
      this.#renewedAt = sent;
      this.#take(leases, reply);
    } finally {
      limit.done();
    }
  }

  /** Waits until a renewal is due, a job must stop, or other jobs are to be watched. */
  async #watch(): Promise<void> {
    const begin = monotonicMs();
    const ms = this.#renewalDue() - begin;
    const watched = new Set(this.#holder.held().filter((held) => watchable(held, begin)));
    const limit = limited(ms, this.#ending.signal);
    const shortest = this.#holder.held().reduce((least, held) => Math.min(least, coverMs(held)), COVER_MS);
    const check = setInterval(() => this.#covers(watched) || limit.end(), shortest);
    try {
      if (watched.size === 0) await pause(ms, limit.signal);
      else {
        const leases = [...watched];
        const waitMs = Math.max(1, Math.round(Math.min(ms, WATCH_MS_MAX)));
        this.#take(leases, await this.#send(leases, { wait_ms: waitMs }, { retryForMs: 0, waitMs, signal: limit.signal }));
        await pause(begin + PACE_MS - monotonicMs(), limit.signal);
      }
    } catch (error) {
      if (!limit.signal.aborted) throw error;
    } finally {
      clearInterval(check);
      limit.done();
    }
  }

  /** Whether this watch is still the right one. */
  #covers(watched: Set<Held>): boolean {
    const now = monotonicMs();
    return this.#renewalDue() > now && !this.#holder.held().some((held) => watchable(held, now) && !watched.has(held));
  }

  #take(leases: Held[], reply: HeartbeatReply): void {
    const cancelled = new Set(reply.cancel_tokens);
    const lost = new Set(reply.lost_tokens);
    for (const held of leases) {
      if (lost.has(held.job.token)) this.#holder.leaseLost(held);
      else if (cancelled.has(held.job.token)) this.#holder.cancelRequested(held);
    }
  }

  async #send(leases: Held[], members: Record<string, unknown>, call: { retryForMs: number; waitMs?: number; signal?: AbortSignal }): Promise<HeartbeatReply> {
    const body = JSON.stringify({
      ...this.#facts,
      done: this.#holder.done,
      failed: this.#holder.failed,
      leases: leases.map(({ job: { id, token } }) => ({ id, token })),
      ...members,
    });
    return (await this.#client.transport.request('POST', paths.heartbeat(this.#holder.name), { body, repeatable: true, ...call })).json;
  }
}

/** A signal that aborts after a time, with end(), or with another signal. */
function limited(ms: number, outer?: AbortSignal): { signal: AbortSignal; end(): void; done(): void } {
  const controller = new AbortController();
  const end = () => controller.abort();
  const timer = quietTimer(end, ms);
  if (outer?.aborted) end();
  outer?.addEventListener('abort', end);
  const done = () => {
    timer.clear();
    outer?.removeEventListener('abort', end);
  };
  return { signal: controller.signal, end, done };
}
