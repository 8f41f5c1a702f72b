// SPDX-License-Identifier: Apache-2.0
// Durable steps in a command of `holdfast work` (HF-10): `holdfast step` with HOLDFAST_LEASE_TOKEN, and the header of an HTTP target.
import assert from 'node:assert/strict';
import http from 'node:http';
import path from 'node:path';
import { test } from 'node:test';

import { enqueue, freshQueue, onStores } from '../lib/suite.mjs';
import { binary } from '../lib/server.mjs';
import { job, runWork } from '../lib/worker.mjs';

/** Charges once, and packs only in the second attempt. */
const SCRIPT = `
step() { holdfast step "$HOLDFAST_ID" "$@"; }
charged=$(step charge 2>/dev/null) || { charged=$(date +%s%N); step charge "$charged"; }
[ "$HOLDFAST_ATTEMPT" -gt 1 ] || exit 3
echo "[$charged]"
`;

onStores('steps of holdfast work', ['memory', 'sqlite'], {}, (use) => {
  const env = { PATH: `${path.dirname(binary)}:${process.env.PATH}` };
  const work = (queue, ...more) => runWork(use.server, [queue, '--once', ...more], { env });

  test('HF-10 a command stores a step, and the next attempt reads it', async () => {
    const queue = freshQueue();
    await use.api.put(`/v1/queues/${queue}`, { backoff_ms: [0] });
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    const first = await work(queue, '--', 'sh', '-c', SCRIPT);
    const failed = await job(use.api, id);
    assert.deepEqual([failed.state, failed.error_type], ['ready', 'exit 3'], first.stderr);
    assert.ok(failed.steps.charge > 0, first.stderr);
    await work(queue, '--', 'sh', '-c', SCRIPT);
    const done = await job(use.api, id);
    assert.equal(done.state, 'done');
    assert.deepEqual(done.result, [failed.steps.charge]);
  });

  test('HF-10 an HTTP target gets the token of the lease', async () => {
    const queue = freshQueue();
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    const target = http.createServer(async (request, response) => {
      const { 'holdfast-id': job, 'holdfast-lease-token': token } = request.headers;
      const answer = await use.api.post(`/v1/jobs/${job}/steps/pay`, { token, result: 7 });
      response.writeHead(answer.status).end();
    });
    await new Promise((resolve) => target.listen(0, '127.0.0.1', resolve));
    try {
      await work(queue, '--url', `http://127.0.0.1:${target.address().port}/`);
    } finally {
      target.closeAllConnections();
      target.close();
    }
    const done = await job(use.api, id);
    assert.deepEqual([done.state, done.steps], ['done', { pay: 7 }]);
  });
});
