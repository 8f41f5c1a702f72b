// SPDX-License-Identifier: Apache-2.0
// What a worker reports to its program. A hook that throws does not affect the worker.
import type { JobCancelledError, LeaseLostError } from '../errors.js';
import type { Job, LeaseReply } from '../types.js';

export interface WorkerHooks<P = any> {
  /** A handler starts. */
  started?(job: Job<P>): void;
  /** The job is done. */
  done?(job: Job<P>, reply: LeaseReply): void;
  /** The attempt failed; `reply.state` says what follows: scheduled, ready or dead. */
  failed?(job: Job<P>, error: unknown, reply: LeaseReply): void;
  /** The job was given back. */
  released?(job: Job<P>, reply: LeaseReply): void;
  /** The job was cancelled, or its cancel was requested. */
  cancelled?(job: Job<P>): void;
  /**
   * The lease ended while this worker had the job. `late`: the report came after the end, and the work may be done twice;
   * `blockedMs`: the longest time for which the event loop was blocked since the claim, which is the usual cause.
   */
  lost?(job: Job<P>, details: { error: LeaseLostError | JobCancelledError; late: boolean; blockedMs: number }): void;
  /** The event loop was blocked for this time: no lease was renewed. Move the work to another thread. */
  blocked?(ms: number): void;
  /** Something failed that the worker repeats: a claim, a heartbeat, a report. */
  error?(error: unknown, job?: Job<P>): void;
}

/** Calls a hook; what it throws goes to the hook `error`, or nowhere. */
export function callHook<P, K extends keyof WorkerHooks<P>>(hooks: WorkerHooks<P>, name: K, ...args: Parameters<NonNullable<WorkerHooks<P>[K]>>): void {
  const failed = (error: unknown) => {
    if (name === 'error') return;
    callHook(hooks, 'error', error);
  };
  try {
    const returned = (hooks[name] as ((...all: unknown[]) => unknown) | undefined)?.(...args);
    if (returned instanceof Promise) returned.catch(failed);
  } catch (error) {
    failed(error);
  }
}
