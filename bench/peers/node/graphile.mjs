// SPDX-License-Identifier: Apache-2.0
// graphile-worker: addJob, or its SQL function add_jobs with depth of them; one runner with as many jobs at
// a time as there are consumers. It is woken by NOTIFY.
import { Logger, makeWorkerUtils, run } from 'graphile-worker';
import pg from 'pg';

import { drive } from './load.mjs';

const SEVERAL = `SELECT graphile_worker.add_jobs(ARRAY(
  SELECT json_populate_record(NULL::graphile_worker.job_spec, j) FROM json_array_elements($1::json) AS j))`;

await drive('graphile-worker', async (options, load) => {
  const logger = new Logger(() => () => {});
  const pgPool = new pg.Pool({ host: '127.0.0.1', port: options.port, user: 'postgres', database: 'postgres', max: Math.min(options.producers + options.consumers + 4, 80) });
  const utils = await makeWorkerUtils({ pgPool, logger });
  await utils.migrate();
  if (options.consumers > 0) {
    const taskList = { [options.queue]: async (payload) => load.received(payload.d) };
    const runner = await run({ pgPool, logger, concurrency: options.consumers, pollInterval: 1000, noHandleSignals: true, taskList });
    runner.events.on('job:complete', ({ error }) => (error ? Promise.reject(error) : load.done()));
  }
  const several = (payloads) => pgPool.query(SEVERAL, [JSON.stringify(payloads.map((d) => ({ identifier: options.queue, payload: { d } })))]);
  return { put: (payloads) => (payloads.length === 1 ? utils.addJob(options.queue, { d: payloads[0] }) : several(payloads)) };
});
