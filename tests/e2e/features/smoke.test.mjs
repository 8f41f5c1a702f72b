// SPDX-License-Identifier: Apache-2.0
// The first steps of the README, on every store.
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { startServer, stopServer } from '../lib/server.mjs';

for (const backend of ['memory', 'sqlite', 'fault+sqlite']) {
  describe(`first steps on ${backend}`, () => {
    let server, api;
    before(async () => {
      server = await startServer({ backend });
      api = new Client(server);
    });
    after(async () => {
      api.close();
      await stopServer(server);
    });

    test('a job goes from enqueue to done', async () => {
      const created = await api.post('/v1/queues/mail/jobs', { payload: { to: 'ann' }, priority: 'high' }, { headers: { 'idempotency-key': 'first' } });
      assert.ok([200, 201].includes(created.status), created.text);
      const { id } = created.json;
      const claimed = await api.post('/v1/queues/mail/claim', { worker: 'w1', wait_ms: 1000 });
      assert.equal(claimed.status, 200);
      assert.equal(claimed.json.jobs.length, 1);
      const [job] = claimed.json.jobs;
      assert.equal(job.id, id);
      assert.deepEqual(job.payload, { to: 'ann' });
      const acked = await api.post(`/v1/jobs/${id}/ack`, { token: job.token, result: { sent: true } });
      assert.equal(acked.status, 200, acked.text);
      assert.equal(acked.json.state, 'done');
      const seen = await api.get(`/v1/jobs/${id}`);
      assert.equal(seen.json.state, 'done');
      assert.deepEqual(seen.json.result, { sent: true });
    });
  });
}
