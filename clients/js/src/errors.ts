// SPDX-License-Identifier: Apache-2.0
// Every error of this library. A program decides by class or by `code`, never by the message.

/** The problem document (RFC 9457) of a refused request. `code` is stable. */
export interface Problem {
  code: string;
  title?: string;
  status?: number;
  detail?: string;
  type?: string;
  field?: string;
  allowed?: unknown[];
  id?: string;
  seq?: number;
  state?: string;
  legal_moves?: string[];
  duplicate_of?: string;
  retry_after_ms?: number;
  [member: string]: unknown;
}

export class HoldfastError extends Error {
  readonly code: string;
  constructor(code: string, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.code = code;
    this.name = new.target.name;
  }
}

/** The server refused the request; nothing was changed. */
export class ProblemError extends HoldfastError {
  readonly status: number;
  readonly problem: Problem;
  constructor(status: number, problem: Problem) {
    super(problem.code, `${problem.title ?? problem.code} (${status} ${problem.code})${problem.detail ? `: ${problem.detail}` : ''}`);
    this.status = status;
    this.problem = problem;
  }
}

/** The lease ended: another worker may have the job. The work must stop. */
export class LeaseLostError extends ProblemError {}

/** The job was cancelled, or its cancel was requested. The work must stop. */
export class JobCancelledError extends ProblemError {}

/** There was no reply, so the request may have taken effect. */
export class UnknownOutcomeError extends HoldfastError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('unknown', message, options);
  }
}

/** The server could not be reached; nothing was changed. */
export class ConnectionError extends HoldfastError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('no_connection', message, options);
  }
}

/** The client was closed, or its caller aborted the request. */
export class AbortedError extends HoldfastError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('aborted', message, options);
  }
}

/** The reason of `ctx.signal` when the worker stops before the handler has ended. */
export class WorkerStoppedError extends HoldfastError {
  constructor() {
    super('worker_stopped', 'the worker stops; the job is released');
  }
}

export interface FailOptions {
  /** `business`: the request itself is wrong; `app` (default): the program failed. */
  kind?: 'app' | 'business';
  /** false: the job becomes dead at once. */
  retry?: boolean;
  /** The next attempt starts after this time, instead of the back-off of the policy. */
  delayMs?: number;
  runAt?: Date | string;
  /** The class of the error that is stored; default: the class of `cause`, or the name of this error. */
  type?: string;
  /** Stored with the job, as with an ack. */
  result?: unknown;
  cause?: unknown;
}

/** A handler throws it to say how its attempt failed. Any other error fails the attempt with the defaults. */
export class FailJob extends HoldfastError {
  readonly options: FailOptions;
  constructor(message: string, options: FailOptions = {}) {
    super('failed', message, options.cause === undefined ? undefined : { cause: options.cause });
    this.options = options;
  }
}

export interface ReleaseOptions {
  delayMs?: number;
  runAt?: Date | string;
}

/** A handler throws it to give its job back. The attempt is not counted. */
export class ReleaseJob extends HoldfastError {
  readonly options: ReleaseOptions;
  constructor(reason = '', options: ReleaseOptions = {}) {
    super('released', reason);
    this.options = options;
  }
}

/** The error of a refused request, by its code. */
export function problemError(status: number, problem: Problem): ProblemError {
  if (problem.code === 'lease_lost' || problem.code === 'gone') return new LeaseLostError(status, problem);
  if (problem.code === 'cancelled') return new JobCancelledError(status, problem);
  return new ProblemError(status, problem);
}
