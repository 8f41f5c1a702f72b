// SPDX-License-Identifier: Apache-2.0
// Kind, headers and types of errors between the server and `holdfast work` (PDQ-8, PDQ-10).
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { enqueue, freshQueue, onStores } from '../lib/suite.mjs';
import { job, runWork } from '../lib/worker.mjs';

onStores('kinds and headers of holdfast work', ['memory'], {}, (use) => {
  test('PDQ-8: kind, headers and the trace context are in the environment', async () => {
    const queue = freshQueue();
    const headers = { 'x-tenant.id': 'a b', traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01' };
    const { id } = await enqueue(use.api, queue, { payload: 1, kind: 'letter', headers });
    await runWork(use.server, [queue, '--once', '--', 'env']);
    const lines = (await job(use.api, id)).result.split('\n');
    for (const line of ['HOLDFAST_KIND=letter', 'HOLDFAST_HEADER_X_TENANT_ID=a b', `TRACEPARENT=${headers.traceparent}`]) assert.ok(lines.includes(line), line);
  });

  test('PDQ-8, PDQ-10: GET /v1/exceptions shows the type of each failure', async () => {
    const queue = freshQueue();
    for (const script of ['exit 3', 'kill -9 $$']) {
      await enqueue(use.api, queue, { payload: 1, max_attempts: 1 });
      await runWork(use.server, [queue, '--once', '--', 'sh', '-c', script]);
    }
    const { exceptions } = (await use.api.get(`/v1/exceptions?queue=${queue}`)).json;
    assert.deepEqual(exceptions.map(({ type }) => type), ['SIGKILL', 'exit 3']);
  });
});
