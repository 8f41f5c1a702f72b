// SPDX-License-Identifier: Apache-2.0
// HF-9, HF-28, HF-29: limits at the claim, fair share and ageing over HTTP, beanstalk and the command line.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Beanstalk, startBeanstalk } from '../lib/beanstalk.mjs';
import { Client } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { killServer, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue, onStores } from '../lib/suite.mjs';

async function queueWith(api, policy, groups) {
  const queue = freshQueue();
  const answer = await api.put(`/v1/queues/${queue}`, policy);
  assert.equal(answer.status, 201, answer.text);
  for (const group of groups) await enqueue(api, queue, { payload: 1, ...(group ? { group } : {}) });
  return queue;
}
const claim = async (api, queue, body = {}) => {
  const answer = await api.post(`/v1/queues/${queue}/claim`, body);
  assert.equal(answer.status, 200, answer.text);
  return answer.json.jobs;
};
const ack = (api, job) => api.post(`/v1/jobs/${job.id}/ack`, { token: job.token });

onStores('limits', ['memory', 'sqlite'], {}, (use) => {
  test('HF-28 max_running: a claim beyond it is empty, and the view says what the jobs wait for', async () => {
    const { api } = use;
    const queue = await queueWith(api, { max_running: 2 }, ['', '', '']);
    const held = await claim(api, queue, { count: 10 });
    assert.equal(held.length, 2);
    assert.deepEqual(await claim(api, queue), []);
    const view = (await api.get(`/v1/queues/${queue}`)).json;
    assert.equal(view.policy.max_running, 2);
    assert.deepEqual(view.limited, { queue_limit: 1, group_limit: 0, claim_rate: 0 });
    const metrics = await api.get('/metrics');
    assert.match(metrics.text, new RegExp(`holdfast_queue_waiting\\{queue="${queue}",reason="queue_limit"\\} 1`));
    await ack(api, held[0]);
    assert.equal((await claim(api, queue)).length, 1);
  });

  test('HF-28 a claim that waits gets a job as soon as a slot is free', async () => {
    const { api, server } = use;
    const queue = await queueWith(api, { max_running: 1, lease_ms: 600_000 }, ['', '', '', '']);
    for (const end of ['ack', 'release', 'fail', 'cancel']) {
      const [held] = await claim(api, queue);
      const other = new Client(server);
      const waiting = claim(other, queue, { wait_ms: 60_000 });
      const body = { ack: { token: held.token }, release: { token: held.token }, fail: { token: held.token, retry: false }, cancel: { force: true } }[end];
      const answer = await api.post(`/v1/jobs/${held.id}/${end}`, body);
      assert.equal(answer.status, 200, answer.text);
      const [got] = await waiting;
      assert.ok(got, end);
      await api.post(`/v1/jobs/${got.id}/release`, { token: got.token });
      other.close();
    }
    const [held] = await claim(api, queue, { lease_ms: 500 });
    const [got] = await claim(api, queue, { wait_ms: 60_000 }); // the lease ends
    assert.ok(held && got);
  });

  test('HF-28 a changed policy takes effect at once, also for claims that wait', async () => {
    const { api, server } = use;
    const queue = await queueWith(api, { max_running_per_group: 1, lease_ms: 600_000 }, ['a', 'a', 'a', 'b']);
    assert.equal((await claim(api, queue, { count: 10 })).length, 2);
    const other = new Client(server);
    const waiting = claim(other, queue, { wait_ms: 60_000 });
    assert.equal((await api.patch(`/v1/queues/${queue}`, { max_running_per_group: 2 })).status, 200);
    assert.equal((await waiting).length, 1);
    other.close();
    assert.equal((await api.get(`/v1/queues/${queue}`)).json.limited.group_limit, 1);
    await api.patch(`/v1/queues/${queue}`, { max_running_per_group: 0 });
    assert.equal((await claim(api, queue)).length, 1);
    assert.equal((await api.get(`/v1/queues/${queue}`)).json.limited, undefined);
  });

  test('HF-9 claim_rate: claims that wait get the next jobs one token after the other', async () => {
    const { api } = use;
    const queue = await queueWith(api, { claim_rate: { count: 1, window_ms: 300, per: 'queue' } }, ['', '', '']);
    const began = Date.now();
    for (let i = 0; i < 3; i++) assert.equal((await claim(api, queue, { wait_ms: 60_000 })).length, 1);
    assert.ok(Date.now() - began >= 590, `${Date.now() - began} ms`);
  });

  test('HF-29 fair: a small group is not behind the backlog of a large one', async () => {
    const { api } = use;
    const queue = await queueWith(api, { fair: 'group' }, [...Array(30).fill('large'), 'small', 'small']);
    const jobs = await claim(api, queue, { count: 4 });
    assert.deepEqual(jobs.map((job) => job.group), ['large', 'small', 'large', 'small']);
  });

  test('HF-28 claims over several queues stay within the limits of each', async () => {
    const { api } = use;
    const limited = await queueWith(api, { max_running: 1 }, ['', '', '']);
    const free = await queueWith(api, {}, ['', '']);
    const answer = await api.post('/v1/claim', { queues: [limited, free], count: 10 });
    assert.deepEqual(answer.json.jobs.map((job) => job.queue).sort(), [limited, free, free].sort());
  });

  test('HF-28 wrong limits are refused with the member and its range', async () => {
    const { api } = use;
    const put = (policy) => api.put(`/v1/queues/${freshQueue()}`, policy);
    for (const policy of [{ max_running: -1 }, { fair: 'queue' }, { ageing_ms: 1, by_due: true }, { claim_rate: { count: 1, window_ms: 1, per: 'correlation_id' } }]) {
      const answer = await put(policy);
      assert.ok(answer.status === 422 || answer.status === 400, answer.text);
    }
    assert.equal((await put({ claim_rate: null, max_running: 0 })).status, 201);
  });
});

describe('limits', () => {
  test('HF-28 slots are right after kill -9: they come from leases', async () => {
    const data = temporaryDirectory();
    let server = await startServer({ data });
    let api = new Client(server);
    const queue = await queueWith(api, { max_running: 3, max_running_per_group: 1, lease_ms: 600_000 }, ['a', 'a', 'b', 'c', 'd']);
    const held = await claim(api, queue, { count: 2 });
    assert.equal(held.length, 2);
    await enqueue(api, freshQueue(), { payload: 1 }); // its commit contains the claims, which need none
    api.close();
    await killServer(server);
    server = await startServer({ data });
    api = new Client(server);
    const more = await claim(api, queue, { count: 10 });
    assert.deepEqual(more.map((job) => job.group), ['c']);
    await ack(api, held[0]);
    assert.deepEqual((await claim(api, queue, { count: 10 })).map((job) => job.group), ['a']);
    api.close();
    await stopServer(server);
  });

  test('HF-28 the command line sets and shows limits', async () => {
    const server = await startServer({ backend: 'memory' });
    const cli = (...args) => run(['queues', ...args], { env: { HOLDFAST_SERVER: server.url } });
    const done = async (...args) => {
      const ended = await cli(...args);
      assert.equal(ended.code, 0, ended.stderr);
      return ended.stdout;
    };
    await done('create', 'limited', '--max-running', '5');
    await done('set', 'limited', '--max-running', '2', '--max-running-per-group', '1', '--claim-rate', '10/1s/group', '--fair', 'group', '--ageing-ms', '10m');
    const api = new Client(server);
    const { policy } = (await api.get('/v1/queues/limited')).json;
    assert.deepEqual([policy.max_running, policy.max_running_per_group, policy.fair, policy.ageing_ms], [2, 1, 'group', 600_000]);
    assert.deepEqual(policy.claim_rate, { count: 10, window_ms: 1000, per: 'group' });
    assert.match(await done('limited', '--json'), /max_running/);
    for (let i = 0; i < 3; i++) await enqueue(api, 'limited', { payload: i, group: 'g' });
    await claimOne(api, 'limited');
    assert.match(await done(), /^limited .* group_limit: 2$/m);
    api.close();
    await stopServer(server);
  });

  test('HF-28 beanstalk: a reserve that waits gets the job when a slot is free', async () => {
    const server = await startBeanstalk({ backend: 'memory' });
    const api = new Client(server);
    const tube = freshQueue('tube');
    await api.put(`/v1/queues/${tube}`, { max_running: 1, lease_ms: 600_000 });
    for (let i = 0; i < 2; i++) await enqueue(api, tube, { payload: i });
    const [held] = await claim(api, tube);
    const client = await Beanstalk.connect(server.beanstalk);
    await client.ask(`watch ${tube}`);
    const reserving = client.ask('reserve');
    await until('the reserve waits', async () => (await api.get('/metrics')).text.match(/holdfast_claims_waiting(\{[^}]*\})? 1/));
    await ack(api, held);
    assert.match((await reserving).line, /^RESERVED/);
    client.close();
    api.close();
    await stopServer(server);
  });
});
