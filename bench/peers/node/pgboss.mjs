// SPDX-License-Identifier: Apache-2.0
// pg-boss: send, or insert of depth; consumers fetch and complete, and poll when there is nothing, since
// its own work() polls no oftener than each half second.
import PgBoss from 'pg-boss';

import { drive } from './load.mjs';

const POLL_MS = 2;

await drive('pg-boss', async (options, load) => {
  const max = Math.min(options.producers + options.consumers, 64);
  const boss = new PgBoss({ host: '127.0.0.1', port: options.port, user: 'postgres', database: 'postgres', max, noSupervisor: true, noScheduling: true });
  boss.on('error', (problem) => Promise.reject(problem));
  await boss.start();
  const consumer = async () => {
    for (;;) {
      const jobs = await boss.fetch(options.queue, options.depth);
      if (!jobs || jobs.length === 0) {
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
        continue;
      }
      for (const job of jobs) load.received(job.data.d);
      await boss.complete(jobs.map((job) => job.id));
      load.done(jobs.length);
    }
  };
  for (let i = 0; i < options.consumers; i++) consumer();
  return {
    put: (payloads) =>
      payloads.length === 1 ? boss.send(options.queue, { d: payloads[0] }) : boss.insert(payloads.map((d) => ({ name: options.queue, data: { d } }))),
  };
});
