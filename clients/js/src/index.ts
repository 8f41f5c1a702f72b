// SPDX-License-Identifier: Apache-2.0
// The core of the library. It needs `fetch`, `URL`, `AbortController` and timers, and nothing of Node.
export { Holdfast, type HoldfastOptions } from './client.js';
export {
  AbortedError, ConnectionError, FailJob, type FailOptions, HoldfastError, JobCancelledError, LeaseLostError, type Problem, ProblemError, ReleaseJob,
  type ReleaseOptions, UnknownOutcomeError, WorkerStoppedError,
} from './errors.js';
export { parseExact, RawJson, rawJson, toJson } from './json.js';
export type { Carrier, Tracing } from './trace.js';
export type { Fetch } from './transport.js';
export type * from './types.js';
export { JobContext } from './worker/context.js';
export type { WorkerFacts } from './worker/heartbeat.js';
export type { WorkerHooks } from './worker/hooks.js';
export { type Handler, type Middleware, type StopOptions, Worker, type WorkerOptions } from './worker/worker.js';
