// SPDX-License-Identifier: Apache-2.0
// HF-9: limits at the claim hold over all nodes of one store, at every moment, also when a node is killed and when the
// policy changes. The file runs itself with scripts/with-postgres and scripts/with-redis.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { killServer, startServer, stopServer, until } from '../lib/server.mjs';

const stores = {
  postgres: { variable: 'HF_POSTGRES', wrapper: 'with-postgres', url: (name) => `${process.env.HF_POSTGRES}&schema=${name}` },
  redis: { variable: 'HF_REDIS', wrapper: 'with-redis', url: (name) => `${process.env.HF_REDIS}?prefix=${encodeURIComponent(`{${name}}:`)}` },
};
for (const { variable, wrapper } of Object.values(stores)) {
  if (process.env[variable]) continue;
  const path = fileURLToPath(new URL(`../../../scripts/${wrapper}`, import.meta.url));
  const words = ['node', ...process.execArgv, fileURLToPath(import.meta.url)];
  process.exit(spawnSync(path, words, { stdio: 'inherit' }).status ?? 1);
}

async function startNodes(t, backend, count = 2) {
  const nodes = await Promise.all(Array.from({ length: count }, (_, i) => startServer({ backend, args: ['--node', String(i + 1)] })));
  const apis = nodes.map((node) => new Client(node));
  t.after(async () => {
    for (const api of apis) api.close();
    for (const node of nodes) if (!node.exit) await stopServer(node);
  });
  await until('they know each other', async () => (await Promise.all(apis.map((api) => api.get('/v1/cluster')))).every(({ json }) => json.nodes.length === count));
  return { nodes, apis };
}

async function post(api, where, body, wanted = 200) {
  const answer = await api.post(where, body);
  assert.equal(answer.status, wanted, answer.text);
  return answer.json;
}

const put = async (api, queue, policy) => {
  const answer = await api.put(`/v1/queues/${queue}`, policy);
  assert.ok(answer.status === 200 || answer.status === 201, answer.text);
};

async function enqueue(api, queue, groups, each) {
  const jobs = [];
  for (let i = 0; i < each; i++) for (const group of groups) jobs.push({ payload: i, group });
  for (let at = 0; at < jobs.length; at += 500) await post(api, `/v1/queues/${queue}/jobs`, jobs.slice(at, at + 500));
  return jobs.length;
}

/** Claimers on every node, until all jobs are done: how many ran at once, in all and of each group. */
async function drain(apis, queue, total, { claimers = 16, count = 2 } = {}) {
  const seen = new Map();
  const most = { all: 0, group: 0 };
  const running = new Map([['', 0]]);
  const add = (group, n) => {
    running.set('', running.get('') + n);
    running.set(`g${group}`, (running.get(`g${group}`) ?? 0) + n);
    most.all = Math.max(most.all, running.get(''));
    most.group = Math.max(most.group, running.get(`g${group}`));
  };
  const work = async (api) => {
    while (seen.size < total) {
      const { jobs } = await post(api, `/v1/queues/${queue}/claim`, { count, wait_ms: 500 });
      for (const job of jobs) {
        assert.ok(!seen.has(job.id), 'a job runs once');
        seen.set(job.id, job);
        add(job.group, 1);
      }
      for (const job of jobs) {
        add(job.group, -1); // it may end as soon as the request is sent
        await post(api, `/v1/jobs/${job.id}/ack`, { token: job.token });
      }
    }
  };
  await Promise.all(Array.from({ length: claimers }, (_, i) => work(apis[i % apis.length])));
  return most;
}

const suite = (url) => {
  test('HF-9 no more jobs than the limits allow run at any moment, with many claimers on two nodes', async (t) => {
    const { apis } = await startNodes(t, url('slots'));
    await put(apis[0], 'q', { max_running: 5, max_running_per_group: 1 });
    const groups = Array.from({ length: 20 }, (_, i) => `g${i}`);
    const total = await enqueue(apis[1], 'q', groups, 15);
    const most = await drain(apis, 'q', total);
    assert.ok(most.all <= 5, `${most.all} jobs ran at the same time`);
    assert.ok(most.group <= 1, `${most.group} jobs of a group ran at the same time`);
    assert.ok(most.all > 1, 'they did run at the same time');
    assert.equal((await apis[1].get('/v1/queues/q')).json.counts.running, 0);
  });

  test('HF-9 a claim that waits on another node gets the job when a slot is free', async (t) => {
    const { apis } = await startNodes(t, url('wake'));
    await put(apis[0], 'q', { max_running_per_group: 1 });
    await enqueue(apis[0], 'q', ['a'], 3);
    const [first] = (await post(apis[0], '/v1/queues/q/claim', {})).jobs;
    let answered = false;
    const waiting = post(apis[1], '/v1/queues/q/claim', { wait_ms: 60_000 }).finally(() => (answered = true));
    await until('the other node waits', async () => (await apis[1].get('/metrics')).text.match(/^holdfast_claims_waiting (\d+)$/m)?.[1] !== '0');
    assert.equal(answered, false);
    await post(apis[0], `/v1/jobs/${first.id}/ack`, { token: first.token });
    assert.equal((await waiting).jobs.length, 1);
  });

  test('HF-9 the slots of a node that is killed are free when its leases end, not before', async (t) => {
    const { nodes, apis } = await startNodes(t, url('killed'));
    await put(apis[0], 'q', { max_running: 2, max_running_per_group: 1, lease_ms: 4000 });
    await enqueue(apis[0], 'q', ['a', 'b', 'c'], 2);
    const { jobs: held } = await post(apis[0], '/v1/queues/q/claim', { count: 9 });
    assert.equal(held.length, 2);
    await killServer(nodes[0]);
    const began = Date.now();
    const again = [];
    while (again.length < 2) again.push(...(await post(apis[1], '/v1/queues/q/claim', { count: 9, wait_ms: 30_000, lease_ms: 60_000 })).jobs);
    assert.equal(again.length, 2, 'the limit holds for the leases that follow');
    assert.ok(Date.now() - began > 1000, 'not before the leases ended');
    assert.deepEqual(again.map((job) => job.id).sort(), held.map((job) => job.id).sort(), 'the same jobs, which are first in the order');
    assert.equal((await post(apis[1], '/v1/queues/q/claim', { count: 9 })).jobs.length, 0);
  });

  test('HF-9 a policy with groups on a queue with a backlog: all jobs run, once, within the limit', async (t) => {
    const { apis } = await startNodes(t, url('build'));
    const groups = Array.from({ length: 50 }, (_, i) => `g${i}`);
    await put(apis[0], 'q', {});
    const total = await enqueue(apis[0], 'q', groups, 50); // more than one step
    const { jobs: held } = await post(apis[0], '/v1/queues/q/claim', { count: 3 });
    await put(apis[1], 'q', { max_running_per_group: 2, fair: 'group' });
    for (const job of held) await post(apis[0], `/v1/jobs/${job.id}/ack`, { token: job.token });
    const most = await drain(apis, 'q', total - held.length, { count: 20 });
    assert.ok(most.group <= 2, `${most.group} jobs of a group ran at the same time`);
    await put(apis[0], 'q', { max_running_per_group: 0, fair: 'none' });
    const more = await enqueue(apis[0], 'q', ['g1'], 10);
    assert.equal((await post(apis[1], '/v1/queues/q/claim', { count: 20 })).jobs.length, more, 'without limits again');
  });

  test('HF-9 the leader is killed while an order is built: all jobs get into it, and no slot is lost', async (t) => {
    const { nodes, apis } = await startNodes(t, url('orders'));
    const groups = Array.from({ length: 600 }, (_, i) => `g${i}`);
    await put(apis[0], 'q', { lease_ms: 600_000 });
    await enqueue(apis[0], 'q', groups, 10);
    await put(apis[1], 'q', { max_running_per_group: 4, fair: 'group' });
    const leads = (await apis[0].get('/v1/cluster')).json.leader?.self;
    await killServer(nodes[leads ? 0 : 1]);
    const api = apis[leads ? 1 : 0];
    const claimed = async () => (await post(api, '/v1/queues/q/claim', { count: 500, wait_ms: 1000 })).jobs.length;
    let got = 0;
    await until('all slots are in use', async () => (got += await claimed()) >= 4 * groups.length, 60_000);
    assert.equal(got, 4 * groups.length);
    assert.equal(await claimed(), 0);
    await put(api, 'q', { max_running_per_group: 5 });
    await until('the new slots are in use', async () => (got += await claimed()) >= 5 * groups.length, 60_000);
    assert.equal(got, 5 * groups.length);
    await put(api, 'q', { max_running_per_group: 2 });
    assert.equal(await claimed(), 0);
  });

  test('HF-9 two groups with a backlog of 1000 to 1 get the same share', async (t) => {
    const { apis } = await startNodes(t, url('fair'));
    await put(apis[0], 'q', { fair: 'group' });
    await enqueue(apis[0], 'q', ['large'], 2000);
    const shares = { large: 0, small: 0 };
    for (let i = 0; i < 40; i++) {
      await enqueue(apis[i % 2], 'q', ['small'], 2);
      const { jobs } = await post(apis[(i + 1) % 2], '/v1/queues/q/claim', { count: 4 });
      for (const job of jobs) shares[job.group]++;
    }
    const share = shares.small / (shares.small + shares.large);
    assert.ok(share >= 0.45 && share <= 0.55, `the small group got ${share}`);
  });

  test('HF-9 the tokens of a claim_rate are shared by all nodes, and claims that wait get them', async (t) => {
    const { apis } = await startNodes(t, url('rate'));
    await put(apis[0], 'q', { claim_rate: { count: 5, window_ms: 2000, per: 'queue' } });
    await enqueue(apis[0], 'q', ['a'], 10);
    const began = Date.now();
    const counts = await Promise.all(apis.map((api) => post(api, '/v1/queues/q/claim', { count: 10 })));
    const first = counts[0].jobs.length + counts[1].jobs.length;
    const earned = 1 + Math.floor((Date.now() - began) / 400);
    assert.ok(first >= 5 && first <= 5 + earned, `${first} jobs at once`);
    let got = first;
    while (got < 10) got += (await post(apis[got % 2], '/v1/queues/q/claim', { wait_ms: 30_000 })).jobs.length;
    assert.ok(Date.now() - began >= 5 * 400 - 50, 'the other five came one by one');
  });
};
for (const [store, { url }] of Object.entries(stores)) describe(store, () => suite(url));
