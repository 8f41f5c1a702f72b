// SPDX-License-Identifier: Apache-2.0
// BullMQ: Queue.add, or addBulk of depth; one Worker with as many jobs at a time as there are consumers.
import { Queue, Worker } from 'bullmq';

import { drive } from './load.mjs';

const AT_A_TIME_MAX = 200; // more than that in one Worker makes it slower

await drive('bullmq', async (options, load) => {
  const connection = { host: '127.0.0.1', port: options.port, maxRetriesPerRequest: null };
  const queue = new Queue(options.queue, { connection, defaultJobOptions: { removeOnComplete: true } });
  await queue.waitUntilReady();
  if (options.consumers > 0) {
    const concurrency = Math.min(options.consumers * options.depth, AT_A_TIME_MAX);
    const worker = new Worker(options.queue, async (job) => load.received(job.data.d), { connection, concurrency });
    worker.on('completed', () => load.done());
    worker.on('failed', (job, problem) => Promise.reject(problem));
    await worker.waitUntilReady();
  }
  return {
    put: (payloads) =>
      payloads.length === 1 ? queue.add('job', { d: payloads[0] }) : queue.addBulk(payloads.map((d) => ({ name: 'job', data: { d } }))),
  };
});
