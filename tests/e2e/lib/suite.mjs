// SPDX-License-Identifier: Apache-2.0
// One server and one client for a group of tests, on each store of a list.
import { after, before, describe } from 'node:test';

import { storesOf } from './backend.mjs';
import { Client } from './client.mjs';
import { startServer, stopServer } from './server.mjs';

/** The stores on which every behaviour is tested; the fault wrapper delays and loses replies. */
export const stores = ['memory', 'sqlite', 'fault+sqlite'];

let queues = 0;
/** A new queue name for each test, so that tests share a server and nothing else. */
export const freshQueue = (stem = 'q') => `${stem}-${process.pid}-${++queues}`;

/** define(use) declares tests; use() gives {server, api} once the server runs. */
export function onStores(title, list, options, define) {
  for (const backend of storesOf(list)) {
    describe(`${title} on ${backend}`, () => {
      const use = {};
      before(async () => {
        use.server = await startServer({ backend, ...options });
        use.api = new Client(use.server);
        use.backend = backend;
      });
      after(async () => {
        use.api?.close();
        if (use.server) await stopServer(use.server);
      });
      define(use);
    });
  }
}

/** The headers of a request that has a trace context. */
export const trace = { traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01', tracestate: 'v=1' };

/** Enqueues with an idempotency key, so that a lost reply of the store does not create a second job. */
let keys = 0;
export async function enqueue(api, queue, job, headers = {}) {
  const answer = await api.post(`/v1/queues/${queue}/jobs`, job, { headers: { 'idempotency-key': `k${process.pid}-${++keys}`, ...headers } });
  if (answer.status !== 201 && answer.status !== 200) throw new Error(`enqueue: ${answer.status} ${answer.text}`);
  return answer.json;
}

/** Claims one job, waiting for it if necessary. */
export async function claimOne(api, queue, more = {}) {
  for (let tries = 0; tries < 50; tries++) {
    const answer = await api.post(`/v1/queues/${queue}/claim`, { wait_ms: 200, ...more });
    if (answer.status !== 200) throw new Error(`claim: ${answer.status} ${answer.text}`);
    if (answer.json.jobs.length) return answer.json.jobs[0];
  }
  throw new Error(`nothing to claim in ${queue}`);
}
