// SPDX-License-Identifier: Apache-2.0
// What the API takes and returns, with the names of this library: delay_ms is delayMs. docs/api.md explains every member.

/** The payload and result of the jobs of one queue. */
export interface QueueType {
  payload?: unknown;
  result?: unknown;
}
/** Any queue, with any payload and result. */
export type AnyQueues = Record<string, { payload: any; result: any }>;
export type PayloadOf<Q, K extends keyof Q> = Q[K] extends { payload: infer P } ? P : unknown;
export type ResultOf<Q, K extends keyof Q> = Q[K] extends { result: infer R } ? R : unknown;

export type JobState = 'blocked' | 'scheduled' | 'ready' | 'running' | 'done' | 'dead' | 'cancelled';

export interface Backoff {
  type?: string;
  [member: string]: unknown;
}

export interface EnqueueOptions {
  /** Higher first; or a label: high (10), normal (0), low (-10). */
  priority?: number | 'high' | 'normal' | 'low' | (string & {});
  priorityLabel?: string;
  delayMs?: number;
  runAt?: Date | string;
  /** The queue has only one live job with this key. */
  unique?: string;
  uniqueMode?: 'reject' | 'return' | 'replace';
  maxAttempts?: number;
  maxCrashes?: number;
  leaseMs?: number;
  timeoutMs?: number;
  backoffMs?: number[];
  backoff?: Backoff;
  expiresAt?: Date | string;
  expiresInMs?: number;
  group?: string;
  correlationId?: string;
  kind?: string;
  headers?: Record<string, string>;
  keysIfUndelivered?: unknown[];
  /** Default: a random key, so that a repeated request enqueues once. */
  idempotencyKey?: string;
  dependsOn?: string[];
  onDependencyFailure?: 'cancel' | 'dead' | 'run';
  /** How long to try if the server cannot be reached or refuses for a time, in milliseconds. */
  retryForMs?: number;
}

export interface NewJob<P = unknown> extends EnqueueOptions {
  payload: P;
}

export interface Enqueued {
  id: string;
  seq: number;
  state: JobState;
  /** false: the job existed (`uniqueMode: 'return'`, or an idempotency key that was used before). */
  created: boolean;
  runAt?: string;
  duplicateOf?: string;
  /** The sequence number of the job that `uniqueMode: 'replace'` cancelled. */
  replaced?: number;
  spooled?: boolean;
  durability?: string;
}

export interface Progress {
  percent?: number;
  message?: string;
  data?: unknown;
  at?: string;
}

export interface AttemptView {
  number: number;
  worker?: string;
  outcome?: string;
  error?: string;
  errorKind?: string;
  errorType?: string;
  stack?: string;
  startedAt?: string;
  endedAt?: string;
  [member: string]: unknown;
}

/** A job as GET /v1/jobs/{id} shows it. */
export interface JobView<P = unknown, R = unknown> {
  id: string;
  seq: number;
  queue: string;
  state: JobState;
  payload: P;
  /** The payload as the server stores it. */
  payloadText?: string;
  result?: R;
  resultText?: string;
  reason?: string;
  priority: number;
  attempts: number;
  createdAt: string;
  stateSince?: string;
  runAt?: string;
  error?: string;
  errorKind?: string;
  errorType?: string;
  stack?: string;
  kind?: string;
  headers?: Record<string, string>;
  group?: string;
  correlationId?: string;
  progress?: Progress;
  history?: AttemptView[];
  leaseUntil?: string;
  cancelRequestedAt?: string;
  cancelDeadline?: string;
  [member: string]: unknown;
}

export interface ListOptions {
  queue?: string;
  state?: JobState | JobState[];
  kind?: string;
  group?: string;
  unique?: string;
  correlationId?: string;
  priorityLabel?: string;
  priorityMin?: number;
  priorityMax?: number;
  createdFrom?: Date | string;
  createdTo?: Date | string;
  reason?: string;
  order?: 'oldest' | 'newest';
  limit?: number;
  cursor?: string;
  payload?: boolean;
}

export interface JobList<P = unknown, R = unknown> {
  jobs: JobView<P, R>[];
  nextCursor: string | null;
  [member: string]: unknown;
}

/** A claimed job: the lease token proves that this worker holds it. */
export interface Job<P = unknown> {
  id: string;
  seq: number;
  queue: string;
  /** The lease token of this claim. */
  token: string;
  attempt: number;
  maxAttempts: number;
  priority: number;
  leaseMs: number;
  createdAt: string;
  payload: P;
  /** The payload as the producer sent it, byte for byte; undefined if it is not JSON. */
  readonly payloadText: string | undefined;
  kind?: string;
  headers?: Record<string, string>;
  group?: string;
  correlationId?: string;
  priorityLabel?: string;
  timeoutMs?: number;
  /** The results of steps that earlier attempts completed. */
  steps?: Record<string, unknown>;
  [member: string]: unknown;
}

export interface ClaimOptions {
  count?: number;
  waitMs?: number;
  leaseMs?: number;
  worker?: string;
  signal?: AbortSignal;
}

/** What proves a lease: a claimed job, or its id and lease token. */
export interface Lease {
  id: string;
  token: string;
}

/** Changes in the commit of an ack: all of them take effect with it, or none. */
export interface HandOff {
  enqueues?: (NewJob & { queue: string })[];
  sets?: { key: unknown[]; value?: unknown; expiresInMs?: number; expiresAt?: Date | string }[];
  deletes?: unknown[][];
}

export interface AckOptions extends HandOff {
  result?: unknown;
}

export interface FailReport {
  error?: string;
  errorType?: string;
  errorKind?: 'app' | 'business';
  stack?: string;
  retry?: boolean;
  delayMs?: number;
  runAt?: Date | string;
  result?: unknown;
}

export interface ReleaseReport {
  reason?: string;
  errorType?: string;
  delayMs?: number;
  runAt?: Date | string;
}

/** The reply to ack, fail, release, extend and progress. */
export interface LeaseReply {
  id: string;
  seq: number;
  state: JobState;
  /** The call was accepted before. */
  repeat?: boolean;
  runAt?: string;
  leaseUntil?: string;
  /** The cancel of the job is requested: stop the work. */
  cancel?: boolean;
  cancelDeadline?: string;
  [member: string]: unknown;
}

export interface ProgressReport {
  percent?: number;
  message?: string;
  data?: unknown;
  leaseMs?: number;
}

export interface CallOptions {
  signal?: AbortSignal;
  retryForMs?: number;
}
