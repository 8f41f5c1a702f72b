// SPDX-License-Identifier: Apache-2.0
// The registry of workers over hours, on the test clock; and how long a cancel that one node receives takes to reach a worker
// of another. Runs itself below scripts/with-postgres and scripts/with-redis.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Client } from '../lib/client.mjs';
import { startServer, stopServer, until } from '../lib/server.mjs';

for (const [name, script] of [['HF_POSTGRES', 'with-postgres'], ['HF_REDIS', 'with-redis']]) {
  if (process.env[name]) continue;
  const wrapper = fileURLToPath(new URL(`../../../scripts/${script}`, import.meta.url));
  const words = ['node', ...process.execArgv, fileURLToPath(import.meta.url)];
  process.exit(spawnSync(wrapper, words, { stdio: 'inherit' }).status ?? 1);
}

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE;
const ok = (reply) => {
  assert.ok(reply.status < 300, `${reply.status} ${reply.text}`);
  return reply.json;
};
const statesOf = async (api) => Object.fromEntries(ok(await api.get('/v1/workers')).workers.map((w) => [w.name, w.state]));

for (const backend of ['sqlite', 'memory']) {
  describe(`the registry on the test clock (${backend})`, () => {
    let server, api;
    before(async () => {
      server = await startServer({ backend, args: ['--test-clock'] });
      api = new Client(server);
    });
    after(async () => {
      api.close();
      await stopServer(server);
    });
    const advance = async (ms) => ok(await api.post('/v1/test/clock', { advance_ms: ms }));

    test('NOM-16 a worker without jobs is silent after a minute and removed after an hour, to the millisecond', async () => {
      assert.deepEqual(ok(await api.post('/v1/queues/idle/claim', { worker: 'idle' })).jobs, []);
      ok(await api.post('/v1/workers/reports/heartbeat', { leases: [] }));
      ok(await api.post('/v1/workers/leaves/heartbeat', { leases: [], stopping: true }));
      assert.deepEqual(await statesOf(api), { idle: 'active', reports: 'active', leaves: 'stopped' });
      await advance(MINUTE);
      assert.deepEqual(await statesOf(api), { idle: 'active', reports: 'active', leaves: 'stopped' });
      await advance(1);
      assert.deepEqual(await statesOf(api), { idle: 'silent', reports: 'silent', leaves: 'stopped' });
      ok(await api.post('/v1/workers/reports/heartbeat', { leases: [] }));
      assert.equal((await statesOf(api)).reports, 'active');
      await advance(HOUR - MINUTE - 2);
      assert.deepEqual(await statesOf(api), { idle: 'silent', reports: 'silent', leaves: 'stopped' });
      await advance(1);
      assert.deepEqual(await statesOf(api), { reports: 'silent' });
      await advance(MINUTE + 1);
      assert.deepEqual(await statesOf(api), {});
    });

    test('NOM-16 a worker that holds a job is silent, too, and stays for an hour after the end of its lease', async () => {
      ok(await api.post('/v1/queues/held/jobs', { payload: 1 }));
      const [job] = ok(await api.post('/v1/queues/held/claim', { worker: 'holder', lease_ms: 2 * HOUR })).jobs;
      await advance(MINUTE + 1);
      assert.deepEqual(await statesOf(api), { holder: 'silent' });
      assert.deepEqual(ok(await api.get('/v1/workers')).workers[0].jobs, [job.id]);
      await advance(2 * HOUR - MINUTE - 2);
      assert.deepEqual(await statesOf(api), { holder: 'silent' });
      await advance(1); // The lease ends.
      assert.equal(ok(await api.get('/v1/workers')).workers[0].running, 0);
      await advance(HOUR - 1);
      assert.deepEqual(await statesOf(api), { holder: 'silent' });
      await advance(1);
      assert.deepEqual(await statesOf(api), {});
    });
  });
}

const stores = {
  PostgreSQL: `${process.env.HF_POSTGRES}&schema=registry`,
  Redis: `${process.env.HF_REDIS}?prefix=registry:`,
};
for (const [store, backend] of Object.entries(stores)) {
  describe(`two servers on ${store}`, () => {
    const servers = [];
    const apis = [];
    before(async () => {
      for (const node of [1, 2]) {
        servers.push(await startServer({ backend, args: ['--node', `${node}`] }));
        apis.push(new Client(servers.at(-1)));
      }
      await until('the servers know each other', async () => (await Promise.all(apis.map((api) => api.get('/v1/cluster')))).every(({ json }) => json.nodes.length === 2));
    });
    after(async () => {
      for (const api of apis) api.close();
      await Promise.all(servers.map((server) => stopServer(server)));
    });

    /** Milliseconds until a waiting heartbeat at one server tells of a cancel that the other received. */
    async function cancelTime() {
      ok(await apis[0].post('/v1/queues/stop/jobs', { payload: 1 }));
      const [job] = ok(await apis[0].post('/v1/queues/stop/claim', { worker: 'w', wait_ms: 60_000 })).jobs;
      const told = apis[0].post('/v1/workers/w/heartbeat', { leases: [{ id: job.id, token: job.token }], wait_ms: 60_000 });
      await until('the heartbeat waits', async () => (await apis[0].get('/metrics')).text.includes('holdfast_heartbeats_waiting 1'));
      assert.equal((await apis[1].post(`/v1/jobs/${job.id}/cancel`, {})).status, 202);
      const sent = performance.now();
      assert.deepEqual(ok(await told), { cancel: [job.id], lost: [], cancel_tokens: [job.token], lost_tokens: [] });
      const took = performance.now() - sent;
      ok(await apis[0].post(`/v1/jobs/${job.id}/release`, { token: job.token }));
      return took;
    }

    test('HF-21 a cancel that one node receives reaches a worker of another within a second', async (t) => {
      const times = [];
      // A busy machine may delay any of them; one that is in time shows that the store passes it on at once.
      await until('a cancel arrived within a second', async () => times.push(Math.round(await cancelTime())) >= 3 && Math.min(...times) < SECOND);
      t.diagnostic(`milliseconds: ${times.join(', ')}`);
    });
  });
}
