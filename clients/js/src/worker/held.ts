// SPDX-License-Identifier: Apache-2.0
// A job that the worker holds: waiting → running → reporting. Its lease is measured from the moment at which the reply that
// granted it arrived (or the request that renewed it was sent), with the clock of this process. The worker stops the work
// when the server says so, or when the lease would have ended without a renewal, whichever comes first.
import type { HoldfastError } from '../errors.js';
import type { Job } from '../types.js';

export type Phase = 'waiting' | 'running' | 'reporting';

export class Held<P = unknown> {
  readonly job: Job<P>;
  /** When the worker got it. */
  readonly since: number;
  /** When the lease was granted or last renewed, at the earliest. */
  renewedAt: number;
  phase: Phase = 'waiting';
  /** The lease is over, for this worker, at this time. */
  deadline: number;
  /** The server has said that the lease is over: no report is sent. */
  lost = false;
  /** Why the work must stop. */
  stopReason: HoldfastError | undefined;
  readonly #latest: number;
  #controller: AbortController | undefined;

  constructor(job: Job<P>, now: number) {
    this.job = job;
    this.since = now;
    this.renewedAt = now;
    // An attempt ends at this time even if its lease is renewed.
    this.#latest = job.timeoutMs ? now + job.timeoutMs : Infinity;
    this.deadline = Math.min(now + job.leaseMs, this.#latest);
  }

  get signal(): AbortSignal {
    if (!this.#controller) {
      this.#controller = new AbortController();
      if (this.stopReason) this.#controller.abort(this.stopReason);
    }
    return this.#controller.signal;
  }

  renewed(from: number): void {
    this.renewedAt = Math.max(this.renewedAt, from);
    this.deadline = Math.max(this.deadline, Math.min(from + this.job.leaseMs, this.#latest));
  }

  /** Aborts the signal, once; false if the work was told to stop before. */
  stop(reason: HoldfastError): boolean {
    if (this.stopReason) return false;
    this.stopReason = reason;
    this.#controller?.abort(reason);
    return true;
  }
}
