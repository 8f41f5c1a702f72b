// SPDX-License-Identifier: Apache-2.0
// Alert rules, notices and breakers of servers on one Redis server: the leader delivers each notice once, also if the
// leader and Redis are killed; all servers share the breakers. The file runs itself with scripts/with-redis.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Client } from '../lib/client.mjs';
import { alertCases, declareCases } from '../lib/node_cases.mjs';
import { Receiver } from '../lib/receiver.mjs';
import { killServer, startServer, stopServer, until } from '../lib/server.mjs';

if (!process.env.HF_REDIS) {
  const wrapper = fileURLToPath(new URL('../../../scripts/with-redis', import.meta.url));
  const words = ['node', ...process.execArgv, fileURLToPath(import.meta.url)];
  process.exit(spawnSync(wrapper, words, { stdio: 'inherit' }).status ?? 1);
}

const WAIT = 60_000;
const file = (name) => path.join(process.env.HF_REDIS_DIR, name);
const cli = (...words) => {
  const run = spawnSync('redis-cli', ['-s', file('redis.sock'), '--json', ...words.map(String)], { encoding: 'utf8' });
  return run.status === 0 && !run.stdout.startsWith('error:') ? JSON.parse(run.stdout) : null; // it may still be loading
};
const key = (name) => `{holdfast}:${name}`;

/** Kills Redis and starts it again with the data on its disk. */
async function restartRedis() {
  const pid = Number(readFileSync(file('redis.pid'), 'utf8'));
  process.kill(pid, 'SIGKILL');
  await until('it is gone', () => !existsSync(`/proc/${pid}`));
  assert.equal(spawnSync('redis-server', [file('redis.conf')], { stdio: 'ignore' }).status, 0);
  await until('Redis answers', () => cli('ping') === 'PONG', WAIT);
}

describe('alerts, notices and breakers', { concurrency: false }, () => {
  // Neither the cooldown nor a pending delivery may time out before the test ends.
  const env = {
    HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8', HOLDFAST_WEBHOOKS_TIMEOUT_MS: '600s', HOLDFAST_BREAKER_OPEN_COOLDOWN_SECONDS: '3600',
    // On a busy machine no node may lose the lead unless it is killed.
    HOLDFAST_CLUSTER_LEADER_TTL_MS: '5s', HOLDFAST_CLUSTER_SILENT_MS: '7s',
  };
  const nodes = [], apis = [];
  let receiver;
  const start = async (n) => {
    nodes[n] = await startServer({ backend: process.env.HF_REDIS, args: ['--node', String(n + 1)], env });
    apis[n] = new Client(nodes[n]);
  };
  before(async () => {
    receiver = await new Receiver().listen();
    await Promise.all([start(0), start(1)]);
  });
  after(async () => {
    for (const n of [0, 1]) {
      apis[n].close();
      if (!nodes[n].exit) await stopServer(nodes[n]);
    }
    await receiver.close();
  });

  /** The index of the node that leads, as a running node reports it. */
  const leading = (at = 0) => until('one leads', async () => {
    const { json } = await apis[at].get('/v1/cluster');
    const living = json.nodes?.filter((n) => !n.silent) ?? [];
    return json.leader && living.some((n) => n.node === json.leader.node) ? json.leader.node : null;
  }, WAIT).then((node) => node - 1);
  const kill = async (n) => {
    apis[n].close();
    await killServer(nodes[n]);
    nodes[n].exit ??= { code: null };
  };
  /** A job of this queue dies at this node. */
  async function die(api, queue, payload = 1) {
    const made = await api.post(`/v1/queues/${queue}/jobs`, { payload });
    assert.equal(made.status, 201, made.text);
    const { json } = await api.post(`/v1/queues/${queue}/claim`, {});
    const failed = await api.post(`/v1/jobs/${json.jobs[0].id}/fail`, { token: json.jobs[0].token, error: 'no', retry: false });
    assert.equal(failed.json.state, 'dead', failed.text);
    return json.jobs[0].id;
  }
  const put = async (api, name, rule) => assert.equal((await api.put(`/v1/alerts/${name}`, { webhook: { url: receiver.url }, ...rule })).status, 201);
  const told = (alert) => receiver.requests.filter((r) => r.json.alert === alert);
  const ids = (alert) => new Set(told(alert).map((r) => r.headers['holdfast-notice']));
  const outbox = (alert) => cli('ZCARD', key(`notice:${alert}`));
  const delivered = async (api) => Number(/^holdfast_notices_delivered_total (\d+)/m.exec((await api.get('/metrics')).text)[1]);

  test('ORC-18 jobs that die on one node are reported once, by the node that leads', async () => {
    const leader = await leading();
    const other = 1 - leader;
    const epoch = async () => (await apis[leader].get('/v1/cluster')).json.leader?.epoch;
    const led = await epoch();
    await put(apis[leader], 'ops', { on: 'dead', queue: 'mail' });
    const jobs = [];
    for (let n = 0; n < 6; n++) jobs.push(await die(apis[other], 'mail', n));
    await receiver.wait(6, (r) => r.json.alert === 'ops', WAIT);
    await until('the outbox is empty', () => outbox('ops') === 0, WAIT);
    assert.deepEqual(told('ops').map((r) => r.json.job.id).sort(), jobs.sort());
    assert.equal(ids('ops').size, 6);
    const by = [await delivered(apis[leader]), await delivered(apis[other])];
    assert.equal(by[0] + by[1], 6);
    if (led === (await epoch())) assert.equal(by[1], 0, 'the other node delivers nothing');
    for (const name of ['notice', 'noticel', 'noticed', 'noticeh']) assert.equal(cli('EXISTS', key(name)), 0, name);
    // A rule that was deleted on one node has no effect on any node.
    assert.equal((await apis[leader].delete('/v1/alerts/ops')).status, 200);
    await die(apis[other], 'mail', 6);
    assert.equal(outbox('ops'), 0);
    assert.equal(told('ops').length, 6);
  });

  declareCases(alertCases, () => ({
    apis, receiver, leading,
    expectRaised: (names) => {
      assert.deepEqual(cli('ZRANGE', key('raised:backlog'), 0, -1), names);
      if (names.length === 0) assert.equal(cli('EXISTS', key('raised')), 0);
    },
  }));

  test('ORC-18 a full Redis server refuses rules, but dead jobs are reported', async () => {
    const other = 1 - (await leading());
    await put(apis[other], 'full', { on: 'dead', queue: 'full' });
    await apis[other].post('/v1/queues/full/jobs', { payload: 1 });
    const { json } = await apis[other].post('/v1/queues/full/claim', {});
    try {
      cli('CONFIG', 'SET', 'maxmemory', '1mb');
      const refused = await apis[other].put('/v1/alerts/more', { on: 'dead', webhook: { url: receiver.url } });
      assert.equal(refused.status, 503, refused.text);
      assert.match(refused.json.detail, /maxmemory/);
      const failed = await apis[other].post(`/v1/jobs/${json.jobs[0].id}/fail`, { token: json.jobs[0].token, retry: false });
      assert.equal(failed.json.state, 'dead', failed.text);
      await receiver.wait(1, (r) => r.json.alert === 'full', WAIT);
      await until('the outbox is empty', () => outbox('full') === 0, WAIT);
    } finally {
      cli('CONFIG', 'SET', 'maxmemory', '0');
    }
    assert.equal(told('full').length, 1);
    assert.equal((await apis[other].get('/v1/alerts/more')).status, 404);
  });

  test('ORC-18 HF-1 the leader and Redis are killed during deliveries: the next leader delivers the remaining notices', async () => {
    const leader = await leading();
    const other = 1 - leader;
    await put(apis[other], 'middle', { on: 'dead', queue: 'late' });
    const silent = [];
    receiver.answer = (_, response) => silent.push(response);
    const jobs = [await die(apis[other], 'late', 0), await die(apis[leader], 'late', 1)];
    await receiver.wait(2, (r) => r.json.alert === 'middle', WAIT);
    const holders = cli('HVALS', key('noticeh'));
    const { json } = await apis[leader].get('/v1/cluster');
    const epoch = json.nodes.find((n) => n.self).epoch;
    assert.deepEqual(holders, [String(epoch), String(epoch)], 'the leader has both');
    await kill(leader);
    await restartRedis();
    assert.equal(outbox('middle'), 2, 'no notice is lost');
    receiver.answer = 200;
    await until('the other goes on', async () => (await apis[other].get('/v1/queues/late')).status === 200, WAIT);
    jobs.push(await die(apis[other], 'late', 2));
    await until('it leads', async () => (await leading(other)) === other, WAIT);
    await until('all are delivered', () => outbox('middle') === 0, WAIT);
    assert.deepEqual([...new Set(told('middle').map((r) => r.json.job.id))].sort(), jobs.sort());
    assert.equal(ids('middle').size, 3, 'each under one id');
    assert.equal(told('middle').length, 5, 'again only what was not answered');
    assert.doesNotMatch(nodes[other].stderr, /redis_data_lost/);
    await start(leader);
  });

  test('PDQ-9 a breaker that one node opened denies calls on the other, also after restarts', async () => {
    const leader = await leading();
    const other = 1 - leader;
    receiver.answer = 500;
    await put(apis[other], 'broken', { on: 'dead', queue: 'bad' });
    for (let n = 0; n < 5; n++) await die(apis[n % 2], 'bad', n);
    const target = `http://127.0.0.1:${receiver.port}`;
    const breaker = async (api) => (await api.get('/v1/breakers')).json.breakers?.find((b) => b.target === target);
    await until('it opens', async () => (await breaker(apis[leader]))?.state === 'open', WAIT);
    assert.deepEqual(await breaker(apis[other]), await breaker(apis[leader]));
    await kill(leader);
    await restartRedis();
    await until('the other leads', async () => (await leading(other)) === other, WAIT);
    const calls = told('broken').length;
    // All notices are due: the new leader checks them, and delays them until the end of the cooldown.
    const due = `for _, n in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('ZADD', KEYS[1], 0, n) end return 1`;
    assert.equal(cli('EVAL', due, 1, key('noticed')), 1);
    await until('all of them are denied', () => cli('ZCOUNT', key('noticed'), Date.now() + 1_000_000, '+inf') === 5, WAIT);
    assert.equal(told('broken').length, calls, 'no request was sent');
    await start(leader);
    for (const api of apis) assert.equal((await breaker(api)).state, 'open');
    assert.equal((await apis[leader].get('/v1/alerts/broken')).json.pending, 5);
    // Deleting the rule deletes its notices, whichever node held them.
    assert.equal((await apis[leader].delete('/v1/alerts/broken')).status, 200);
    assert.deepEqual([outbox('broken'), cli('EXISTS', key('notice')), cli('EXISTS', key('noticed'))], [0, 0, 0]);
  });
});
