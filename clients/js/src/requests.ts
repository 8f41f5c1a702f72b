// SPDX-License-Identifier: Apache-2.0
// The bodies of requests. The only place that knows how options become members of the API.
import { toJson } from './json.js';
import { snakeObject } from './names.js';
import { tracedHeaders, type Tracing } from './trace.js';
import type { AckOptions, EnqueueOptions, HandOff, NewJob, ProgressReport } from './types.js';

/** The JSON of a job in an enqueue. `more` are members for this job alone. */
export function jobText(payload: unknown, options: EnqueueOptions | undefined, tracing: Tracing | undefined, more: Record<string, unknown> = {}): string {
  const members: Record<string, unknown> = { payload };
  if (options) {
    const { retryForMs: _, ...sent } = options;
    Object.assign(members, snakeObject(sent));
  }
  const headers = tracedHeaders(tracing, options?.headers);
  if (headers) members['headers'] = headers;
  return toJson(Object.assign(members, more));
}

function handOffMembers({ enqueues, sets, deletes }: HandOff, tracing: Tracing | undefined): Record<string, unknown> {
  const members: Record<string, unknown> = {};
  if (enqueues?.length)
    members['enqueues'] = enqueues.map((job) => {
      const headers = tracedHeaders(tracing, job.headers);
      const { retryForMs: _, ...sent } = job;
      return { ...snakeObject(sent), ...(headers && { headers }) };
    });
  if (sets?.length) members['sets'] = sets.map(snakeObject);
  if (deletes?.length) members['deletes'] = deletes;
  return members;
}

export function ackMembers(options: AckOptions, tracing: Tracing | undefined): Record<string, unknown> {
  return { ...(options.result === undefined ? {} : { result: options.result }), ...handOffMembers(options, tracing) };
}

export function progressMembers(report: number | ProgressReport): Record<string, unknown> {
  return typeof report === 'number' ? { percent: report } : snakeObject(report);
}

/** Whether jobs refer to others of the same request ("#0"), which must then stay one request. */
export const refersWithin = (jobs: NewJob[]): boolean => jobs.some(({ dependsOn }) => dependsOn?.some((id) => id.startsWith("#")));

const encode = encodeURIComponent;
export const paths = {
  enqueue: (queue: string) => `/v1/queues/${encode(queue)}/jobs`,
  claim: (queue: string) => `/v1/queues/${encode(queue)}/claim`,
  queue: (queue: string) => `/v1/queues/${encode(queue)}`,
  job: (id: string, action = '') => `/v1/jobs/${encode(id)}${action && `/${action}`}`,
  step: (id: string, name: string) => `/v1/jobs/${encode(id)}/steps/${encode(name)}`,
  heartbeat: (worker: string) => `/v1/workers/${encode(worker)}/heartbeat`,
};

export function queryText(members: Record<string, unknown>): string {
  const parts = Object.entries(members).map(([name, value]) => `${name}=${encode(Array.isArray(value) ? value.join(',') : String(value))}`);
  return parts.length ? `?${parts.join('&')}` : '';
}
