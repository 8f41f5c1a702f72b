// SPDX-License-Identifier: Apache-2.0
// HF-9: limits at the claim on Redis: what a claim costs with many groups, jobs that a node held when its queue got limits,
// and the keys of queues. The file runs itself with scripts/with-redis.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { startServer, stopServer, until } from '../lib/server.mjs';

if (!process.env.HF_REDIS) {
  const wrapper = fileURLToPath(new URL('../../../scripts/with-redis', import.meta.url));
  const words = ['node', ...process.execArgv, fileURLToPath(import.meta.url)];
  process.exit(spawnSync(wrapper, words, { stdio: 'inherit' }).status ?? 1);
}

const socketPath = path.join(process.env.HF_REDIS_DIR, 'redis.sock');
function ask(form, words) {
  const run = spawnSync('redis-cli', ['-s', socketPath, form, ...words.map(String)], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  return run.stdout;
}
const redis = (...words) => JSON.parse(ask('--json', words));

async function start(t, prefix, count = 1) {
  const backend = `${process.env.HF_REDIS}?prefix=${prefix}:`;
  const nodes = await Promise.all(Array.from({ length: count }, (_, i) => startServer({ backend, args: ['--node', String(i + 1)] })));
  const apis = nodes.map((node) => new Client(node));
  t.after(async () => {
    for (const api of apis) api.close();
    for (const node of nodes) await stopServer(node);
  });
  await until('they know each other', async () => (await apis[0].get('/v1/cluster')).json.nodes.length === count);
  return apis;
}

async function post(api, where, body) {
  const answer = await api.post(where, body);
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
}

async function put(api, queue, policy) {
  const answer = await api.put(`/v1/queues/${queue}`, policy);
  assert.ok(answer.status === 200 || answer.status === 201, answer.text);
}

async function enqueue(api, queue, groups, each) {
  const jobs = Array.from({ length: groups * each }, (_, i) => ({ payload: i, group: `g${i % groups}` }));
  for (let at = 0; at < jobs.length; at += 1000) await post(api, `/v1/queues/${queue}/jobs`, jobs.slice(at, at + 1000));
}

/** How many commands Redis has executed, those of scripts included. */
function commands() {
  let calls = 0;
  for (const [, n] of ask('--raw', ['INFO', 'commandstats']).matchAll(/^cmdstat_\S+:calls=(\d+)/gm)) calls += Number(n);
  return calls;
}

test('HF-9 a claim needs no more commands with many groups, most of them without a free slot, than with few', async (t) => {
  const [api] = await start(t, 'bounded');
  const CLAIMS = 200;
  const cost = {};
  for (const groups of [300, 6000]) {
    const queue = `q${groups}`;
    await put(api, queue, { max_running: 100_000, max_running_per_group: 1, fair: 'group', lease_ms: 600_000 });
    await enqueue(api, queue, groups, 2);
    for (let left = groups - CLAIMS; left > 0; left -= 500) {
      const { jobs } = await post(api, `/v1/queues/${queue}/claim`, { count: Math.min(left, 500) });
      assert.equal(jobs.length, Math.min(left, 500));
    }
    const before = commands();
    for (let i = 0; i < CLAIMS; i++) assert.equal((await post(api, `/v1/queues/${queue}/claim`, {})).jobs.length, 1);
    cost[groups] = (commands() - before) / CLAIMS;
    assert.deepEqual((await post(api, `/v1/queues/${queue}/claim`, {})).jobs, [], 'every group has a job that runs');
    assert.equal((await api.get(`/v1/queues/${queue}`)).json.limited.group_limit, groups);
  }
  assert.ok(cost[6000] < cost[300] * 1.5, `${cost[300]} and ${cost[6000]} commands for a claim`);
});

test('HF-9 jobs that a node held when their queue got limits are put in order when they are released', async (t) => {
  const [api] = await start(t, 'held', 2);
  await put(api, 'q', {});
  await enqueue(api, 'q', 3, 1);
  const number = redis('HGET', 'held:names', 'q');
  redis('EVAL', `local got = redis.call('ZPOPMIN', KEYS[1], 3)
    redis.call('HSET', KEYS[2], 't', '1', got[1], '1', got[3], '1', got[5], '1')
    redis.call('ZADD', KEYS[3], 9e15, '77')`, 3, `held:q:${number}:2`, 'held:hold:77', 'held:holds');
  await put(api, 'q', { max_running_per_group: 1, fair: 'group' });
  redis('ZADD', 'held:holds', 1, '77'); // its time is over
  const got = new Set();
  for (let i = 0; i < 60 && got.size < 3; i++) for (const job of (await post(api, '/v1/queues/q/claim', { count: 9, wait_ms: 1000 })).jobs) got.add(job.group);
  assert.deepEqual([...got].sort(), ['g0', 'g1', 'g2']);
});

test('HF-9 a queue has keys for limits only while its policy has limits', async (t) => {
  const [api] = await start(t, 'keys');
  const own = (number) => redis('KEYS', `keys:q:${number}:*`).map((key) => key.split(':').at(-1)).filter((name) => !/^(\d|all|sum|g)$/.test(name)).sort();
  await put(api, 'q', {});
  await enqueue(api, 'q', 4, 2);
  const number = redis('HGET', 'keys:names', 'q');
  assert.deepEqual(own(number), []);
  await put(api, 'q', { max_running_per_group: 1 });
  const [job] = (await post(api, '/v1/queues/q/claim', {})).jobs;
  assert.deepEqual(own(number), ['f', 'k', 'l', 'p', 'r', 's']);
  assert.equal(redis('HGET', 'keys:meta', 'limited'), '1');
  await put(api, 'q', { max_running_per_group: 0, max_running: 3 });
  assert.deepEqual(own(number), ['l']);
  await put(api, 'q', { max_running_per_group: 0, max_running: 0 });
  assert.deepEqual(own(number), []);
  assert.equal(redis('HGET', 'keys:meta', 'limited'), '0');
  await post(api, `/v1/jobs/${job.id}/ack`, { token: job.token });
  await put(api, 'q', { fair: 'group' });
  await put(api, 'q', { fair: 'group', max_running_per_group: 1 });
  assert.deepEqual(redis('SMEMBERS', 'keys:ordering'), []);
  assert.equal((await api.delete('/v1/queues/q')).status, 200);
  assert.deepEqual(own(number), []);
  assert.equal(redis('HGET', 'keys:meta', 'limited'), '0');
});
