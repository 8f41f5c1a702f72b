// SPDX-License-Identifier: Apache-2.0
// Workers: progress, log lines, heartbeats that wait, and the registry; on the embedded store and with two
// servers on PostgreSQL and on Redis. The file runs itself with scripts/with-postgres and scripts/with-redis.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { after, before, describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { killServer, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';

if (!process.env.HF_POSTGRES || !process.env.HF_REDIS) {
  const script = (name) => fileURLToPath(new URL(`../../../scripts/${name}`, import.meta.url));
  const words = [script('with-redis'), 'node', ...process.execArgv, fileURLToPath(import.meta.url)];
  process.exit(spawnSync(script('with-postgres'), words, { stdio: 'inherit' }).status ?? 1);
}

const ok = (reply) => {
  assert.ok(reply.status < 300, `${reply.status} ${JSON.stringify(reply.json)}`);
  return reply.json;
};
const problem = (reply, status, code) => {
  assert.equal(reply.status, status, JSON.stringify(reply.json));
  assert.equal(reply.json.code, code);
  return reply.json;
};

const refused = (reply, why) => assert.ok([400, 422].includes(reply.status) && reply.json.detail, `${JSON.stringify(why).slice(0, 80)}: ${reply.status} ${reply.text}`);

async function claimed(api, queue, worker, lease_ms = 60000) {
  ok(await api.post(`/v1/queues/${queue}/jobs`, { payload: { n: 1 } }));
  const [job] = ok(await api.post(`/v1/queues/${queue}/claim`, { worker, lease_ms })).jobs;
  return job;
}

const held = (job) => ({ id: job.id, token: job.token });
const view = async (api, job) => ok(await api.get(`/v1/jobs/${job.id}`));
const workers = async (api) => ok(await api.get('/v1/workers')).workers;
const worker = async (api, name) => (await workers(api)).find((w) => w.name === name);

/** Cases for every store, with one server or with two of them (`a` and `b` are clients of servers). */
function cases(name, a, b) {
  test(`HF-21: progress and log lines of a running job (${name})`, async () => {
    const job = await claimed(a(), 'p', 'w1');
    const path = `/v1/jobs/${job.id}`;
    assert.equal((await view(b(), job)).progress, undefined);
    const reply = ok(await a().post(`${path}/progress`, { token: job.token, percent: 12.5, message: 'reading', data: { rows: 3 }, lease_ms: 90000 }));
    assert.equal(reply.state, 'running');
    assert.ok(reply.lease_until);
    const shown = (await view(b(), job)).progress;
    assert.deepEqual([shown.percent, shown.message, shown.data], [12.5, 'reading', { rows: 3 }]);
    assert.ok(shown.at);
    ok(await b().post(`${path}/progress`, { token: job.token, percent: 50 }));
    assert.deepEqual(Object.keys((await view(a(), job)).progress), ['percent', 'at']);
    ok(await a().post(`${path}/log`, { token: job.token, lines: ['one', 'two\nthree'] }));
    const lines = ok(await b().get(`${path}/log`)).lines;
    assert.deepEqual(lines.map((l) => [l.attempt, l.text]), [[1, 'one'], [1, 'two'], [1, 'three']]);
    ok(await a().post(`${path}/ack`, { token: job.token }));
    problem(await a().post(`${path}/progress`, { token: job.token, percent: 1 }), 409, 'lease_lost');
    problem(await a().post(`${path}/log`, { token: job.token, lines: ['late'] }), 409, 'lease_lost');
    assert.equal(ok(await b().get(`${path}/log`)).lines.length, 3);
    assert.equal((await view(b(), job)).progress.percent, 50);
  });

  test(`HF-21: progress and log lines are checked (${name})`, async () => {
    const job = await claimed(a(), 'c', 'w1');
    const path = `/v1/jobs/${job.id}`;
    for (const bad of [{ percent: 101 }, { percent: -1 }, { percent: '50' }, { data: 'x'.repeat(5000) }, { message: 'x'.repeat(2000) }, {}]) {
      refused(await a().post(`${path}/progress`, { token: job.token, ...bad }), bad);
    }
    for (const bad of [{ lines: [] }, { lines: ['x'.repeat(20000)] }, { lines: 'x' }, {}]) {
      refused(await a().post(`${path}/log`, { token: job.token, ...bad }), bad);
    }
    assert.equal((await a().get('/v1/jobs/999999999/log')).status, 404);
    ok(await a().post(`${path}/ack`, { token: job.token }));
  });

  test(`NOM-16: a heartbeat registers a worker and renews its leases (${name})`, async () => {
    const [x, y] = [await claimed(a(), 'h', 'renews', 10_000), await claimed(a(), 'h', 'renews', 10_000)];
    const heartbeat = { host: 'box', pid: 4711, version: '1.2', done: 7, failed: 2, leases: [held(x), held(y)], extend_ms: 60000 };
    assert.deepEqual(ok(await a().post('/v1/workers/renews/heartbeat', heartbeat)), { cancel: [], lost: [], cancel_tokens: [], lost_tokens: [] });
    assert.ok(new Date((await view(b(), y)).lease_until) - Date.now() > 20000);
    const seen = await until('the other server knows the worker', async () => {
      const w = await worker(b(), 'renews');
      return w?.host === 'box' && w;
    });
    assert.deepEqual([seen.pid, seen.version, seen.done, seen.failed, seen.running, seen.state], [4711, '1.2', 7, 2, 2, 'active']);
    assert.deepEqual(seen.jobs.sort(), [x.id, y.id].sort());
    ok(await a().post(`/v1/jobs/${x.id}/ack`, { token: x.token }));
    assert.deepEqual(ok(await b().post('/v1/workers/renews/heartbeat', { leases: [held(x), held(y)] })), { cancel: [], lost: [x.id], cancel_tokens: [], lost_tokens: [x.token] });
    ok(await b().post(`/v1/jobs/${y.id}/ack`, { token: y.token }));
    ok(await b().post('/v1/workers/renews/heartbeat', { leases: [], stopping: true }));
    await until('the worker is shown as stopped', async () => (await worker(a(), 'renews'))?.state === 'stopped');
    const named = async (query) => ok(await a().get(`/v1/workers?limit=1000&${query}`)).workers.filter((one) => one.name === 'renews').length;
    assert.deepEqual([await named('state=stopped'), await named('state=active,silent'), await named('state=silent,stopped')], [1, 0, 1]);
    assert.equal((await a().get('/v1/workers?state=idle')).status, 422);
  });

  test(`NOM-16: a worker that stopped is shown as stopped even if it left a lease (${name})`, async () => {
    const job = await claimed(a(), 's', 'leaves');
    ok(await a().post('/v1/workers/leaves/heartbeat', { leases: [], stopping: true }));
    assert.deepEqual([(await worker(a(), 'leaves')).state, (await worker(a(), 'leaves')).running], ['stopped', 1]);
    ok(await a().post(`/v1/jobs/${job.id}/ack`, { token: job.token }));
  });

  test(`NOM-16: a worker that only claims is listed, too (${name})`, async () => {
    const job = await claimed(a(), 'n', 'plain');
    assert.deepEqual((await worker(b(), 'plain')).jobs, [job.id]);
    ok(await a().post(`/v1/jobs/${job.id}/ack`, { token: job.token }));
    const seen = await until('the other server knows what it did', async () => {
      const w = await worker(b(), 'plain');
      return w?.done === 1 && w;
    });
    assert.deepEqual([seen.running, seen.claimed, seen.failed, seen.state], [0, 1, 0, 'active']);
  });

  test(`HF-21: a heartbeat that waits replies when a lease is lost (${name})`, async () => {
    const job = await claimed(a(), 'l', 'waits');
    const wait = a().post('/v1/workers/waits/heartbeat', { leases: [held(job)], wait_ms: 60000 });
    await until('the heartbeat waits', async () => (await a().get('/metrics')).text.includes('holdfast_heartbeats_waiting 1'));
    ok(await b().post(`/v1/jobs/${job.id}/discard`, {}));
    assert.deepEqual(ok(await wait), { cancel: [], lost: [job.id], cancel_tokens: [], lost_tokens: [job.token] });
  });

  test(`HF-21: a heartbeat that waits is not disturbed by the worker's own reports (${name})`, async () => {
    const job = await claimed(a(), 'o', 'own');
    let over = false; // on a busy machine, before the metrics show it
    const wait = a().post('/v1/workers/own/heartbeat', { leases: [held(job)], wait_ms: 3000 }).finally(() => (over = true));
    await until('the heartbeat waits', async () => over || (await a().get('/metrics')).text.includes('holdfast_heartbeats_waiting 1'));
    ok(await a().post(`/v1/jobs/${job.id}/progress`, { token: job.token, percent: 99 }));
    ok(await a().post(`/v1/jobs/${job.id}/ack`, { token: job.token }));
    assert.deepEqual(ok(await wait), { cancel: [], lost: [], cancel_tokens: [], lost_tokens: [] });
  });

  test(`HF-21: a cancel reaches the worker: by a heartbeat that waits, by extend, by progress (${name})`, async () => {
    const job = await claimed(a(), 'x', 'stops');
    const path = `/v1/jobs/${job.id}`;
    const wait = a().post('/v1/workers/stops/heartbeat', { leases: [held(job)], wait_ms: 60000 });
    await until('the heartbeat waits', async () => (await a().get('/metrics')).text.includes('holdfast_heartbeats_waiting 1'));
    assert.equal((await b().post(`${path}/cancel`, {})).status, 202);
    assert.deepEqual(ok(await wait), { cancel: [job.id], lost: [], cancel_tokens: [job.token], lost_tokens: [] });
    assert.equal(ok(await a().post(`${path}/extend`, { token: job.token })).cancel, true);
    assert.equal(ok(await a().post(`${path}/progress`, { token: job.token, percent: 1 })).cancel, true);
    assert.deepEqual(ok(await b().post('/v1/workers/stops/heartbeat', { leases: [held(job)] })), { cancel: [job.id], lost: [], cancel_tokens: [job.token], lost_tokens: [] });
    ok(await a().post(`${path}/release`, { token: job.token }));
    await until('the job is cancelled', async () => (await view(b(), job)).state === 'cancelled');
  });

  test(`NOM-16: heartbeats are checked (${name})`, async () => {
    for (const bad of [{ leases: [{ id: 1 }] }, { leases: 1 }, { wait_ms: 60001 }, { extend_ms: 1 }, { pid: -1 }, { host: 'x'.repeat(300) }, { leese: [] }]) {
      refused(await a().post('/v1/workers/bad/heartbeat', bad), bad);
    }
    refused(await a().post(`/v1/workers/${'x'.repeat(129)}/heartbeat`, {}), 'a long name');
    const bad = await a().post('/v1/workers/bad/heartbeat', { leases: [{ id: 'no id', token: '1-1' }] });
    assert.deepEqual([bad.status, bad.json.code, bad.json.detail], [422, 'invalid_id', 'the value of id is not the id of a job']);
  });
}

describe('one server with an embedded store', () => {
  let server, api, dir;
  before(async () => {
    dir = temporaryDirectory();
    server = await startServer({ data: dir });
    api = new Client(server);
  });
  after(() => stopServer(server));
  cases('embedded', () => api, () => api);

  test('HF-21: progress and log survive the end of the server without a warning', async () => {
    const job = await claimed(api, 'k', 'w1');
    ok(await api.post(`/v1/jobs/${job.id}/progress`, { token: job.token, percent: 33, message: 'far' }));
    ok(await api.post(`/v1/jobs/${job.id}/log`, { token: job.token, lines: ['kept'] }));
    await killServer(server);
    server = await startServer({ data: dir });
    api = new Client(server);
    const shown = await view(api, job);
    assert.deepEqual([shown.progress.percent, shown.progress.message], [33, 'far']);
    assert.deepEqual(ok(await api.get(`/v1/jobs/${job.id}/log`)).lines.map((l) => l.text), ['kept']);
    ok(await api.post(`/v1/jobs/${job.id}/progress`, { token: job.token, percent: 34 }));
    ok(await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token }));
  });
});

const stores = {
  PostgreSQL: (name) => `${process.env.HF_POSTGRES}&schema=${name}`,
  Redis: (name) => `${process.env.HF_REDIS}?prefix=${name}:`,
};
for (const [store, url] of Object.entries(stores)) {
  describe(`two servers on ${store}`, () => {
    const servers = [];
    const apis = [];
    before(async () => {
      for (const node of [1, 2]) {
        servers.push(await startServer({ backend: url('workers'), args: ['--node', `${node}`] }));
        apis.push(new Client(servers.at(-1)));
      }
      await until('the servers know each other', async () => {
        const seen = await Promise.all(apis.map(async (api) => ok(await api.get('/v1/cluster')).nodes.length));
        return seen.every((n) => n === 2);
      });
    });
    after(() => Promise.all(servers.map((server) => stopServer(server))));
    cases(store, () => apis[0], () => apis[1]);
  });
}
