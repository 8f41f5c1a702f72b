// SPDX-License-Identifier: Apache-2.0
// HF-4: unchanged third-party clients, from npm and from Debian, use every command that a worker needs.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { startBeanstalk } from '../lib/beanstalk.mjs';
import { stopServer } from '../lib/server.mjs';

const clients = path.resolve(path.dirname(new URL(import.meta.url).pathname), '../../clients');
const require = createRequire(path.join(clients, 'package.json'));
assert.ok(existsSync(path.join(clients, 'node_modules')), 'npm ci --prefix tests/clients has not run');

describe('third-party clients', () => {
  let server, host, port;
  before(async () => {
    server = await startBeanstalk({ backend: 'sqlite' });
    [host, port] = ['127.0.0.1', server.beanstalk];
  });
  after(() => stopServer(server));

  test('HF-4 jackd', async () => {
    const Jackd = require('jackd');
    const c = new Jackd();
    await c.connect({ host, port });
    assert.equal(await c.use('jackd'), 'jackd');
    assert.equal(Number(await c.watch('jackd')), 2);
    assert.equal(Number(await c.ignore('default')), 1);
    const id = await c.put({ foo: 'bar' }, { priority: 10, ttr: 600 });
    const waits = new Jackd();
    await waits.connect({ host, port });
    await waits.watch('jackd');
    let job = await c.reserve();
    assert.equal(String(job.id), String(id));
    assert.deepEqual(JSON.parse(job.payload.toString()), { foo: 'bar' });
    await c.touch(id);
    await c.release(id, { priority: 1, delay: 0 });
    job = await waits.reserve();
    await waits.bury(job.id);
    assert.equal((await c.peekBuried()).id, job.id);
    await c.kickJob(job.id);
    assert.equal((await c.peekReady()).payload.toString(), '{"foo":"bar"}');
    await c.put('later', { delay: 1000 });
    assert.equal((await c.peekDelayed()).payload.toString(), 'later');
    assert.equal(Number(await c.kick(5)), 1);
    for (const each of [await c.reserve(), await c.reserveWithTimeout(1)]) await c.delete(each.id);
    await assert.rejects(c.reserveWithTimeout(0), /TIMED_OUT/);
    assert.match((await c.stats()).toString(), /cmd-put: \d+/);
    assert.match((await c.statsTube('jackd')).toString(), /total-jobs: 2/);
    assert.match((await c.listTubes()).toString(), /- jackd/);
    const waiting = waits.reserve();
    const next = await c.put('woken');
    assert.equal(String((await waiting).id), String(next));
    await Promise.all([c.disconnect(), waits.disconnect()]);
  });

  test('HF-4 beanstalkd', async () => {
    const { default: Beanstalkd } = require('beanstalkd');
    const c = await new Beanstalkd(host, port).connect();
    assert.equal(await c.use('bsd'), 'bsd');
    await c.watch('bsd');
    await c.ignore('default');
    const id = await c.put(5, 0, 90, 'hello');
    let [got, body] = await c.reserveWithTimeout(5);
    assert.deepEqual([String(got), body.toString()], [String(id), 'hello']);
    const stats = await c.statsJob(id);
    assert.deepEqual([stats.state, stats.pri, stats.ttr, stats.tube], ['reserved', 5, 90, 'bsd']);
    await c.touch(id);
    await c.bury(id, 7);
    assert.equal((await c.statsJob(id)).buries, 1);
    await c.kickJob(id);
    [got, body] = await c.reserve();
    await c.release(got, 1, 0);
    [got] = await c.peekReady();
    await c.delete(got);
    assert.ok((await c.listTubes()).includes('bsd'));
    assert.equal((await c.statsTube('bsd'))['cmd-delete'], 1);
    assert.equal((await c.stats())['max-job-size'], 65535);
    await c.quit();
  });

  test('HF-4 fivebeans', async () => {
    const { client: Fivebeans } = require('fivebeans');
    const c = new Fivebeans(host, port);
    await new Promise((resolve, reject) => c.on('connect', resolve).on('error', reject).connect());
    const ask = (method, ...args) => new Promise((resolve, reject) => c[method](...args, (err, ...values) => (err ? reject(new Error(err)) : resolve(values))));
    assert.deepEqual(await ask('use', 'five'), ['five']);
    await ask('watch', 'five');
    await ask('ignore', 'default');
    const [id] = await ask('put', 3, 0, 60, Buffer.from([0, 255, 13, 10]));
    const [got, body] = await ask('reserve');
    assert.equal(String(got), String(id));
    assert.deepEqual(Buffer.from(body), Buffer.from([0, 255, 13, 10]));
    await ask('touch', id);
    await ask('release', id, 9, 0);
    assert.equal((await ask('stats_job', id))[0].pri, 9);
    await ask('reserve_with_timeout', 1);
    await ask('bury', id, 2);
    assert.deepEqual((await ask('peek_buried'))[0], id);
    await ask('kick_job', id);
    assert.equal((await ask('peek_ready'))[0], id);
    await ask('destroy', id);
    await assert.rejects(ask('peek', id), /NOT_FOUND/);
    await assert.rejects(ask('reserve_with_timeout', 0), /TIMED_OUT/);
    assert.deepEqual(await ask('list_tubes_watched'), [['five']]);
    assert.deepEqual(await ask('list_tube_used'), ['five']);
    assert.ok((await ask('list_tubes'))[0].includes('five'));
    await ask('pause_tube', 'five', 1);
    assert.equal((await ask('stats_tube', 'five'))[0]['total-jobs'], 1);
    assert.ok((await ask('stats'))[0].uptime >= 0);
    c.quit();
    await new Promise((resolve) => c.on('close', resolve));
  });

  test('HF-4 node-beanstalk', async () => {
    const { Client } = require('node-beanstalk');
    const c = new Client({ host, port });
    await c.connect();
    await c.use('nb');
    await c.watch('nb');
    const put = await c.put({ foo: 'x' }, 40);
    assert.equal(put.state, 'ready');
    const job = await c.reserveWithTimeout(10);
    assert.equal(job.id, put.id);
    assert.deepEqual(job.payload, { foo: 'x' });
    assert.equal((await c.statsJob(job.id)).ttr, 40);
    await c.touch(job.id);
    await c.bury(job.id, 3);
    assert.equal((await c.peekBuried()).id, job.id);
    assert.equal(await c.kick(2), 1);
    assert.equal((await c.reserveJob(job.id)).id, job.id);
    await c.release(job.id, 3, 100);
    assert.equal((await c.peekDelayed()).id, job.id);
    assert.equal(await c.delete(job.id), true);
    assert.equal(await c.reserveWithTimeout(0), null);
    assert.ok((await c.listTubes()).includes('nb'));
    assert.equal((await c.statsTube('nb')).totalJobs ?? (await c.statsTube('nb'))['total-jobs'], 1);
    c.disconnect();
  });

  for (const [name, command, script] of [
    ['beaneater', 'ruby', 'beanstalk.rb'],
    ['Pheanstalk', 'php', 'beanstalk.php'],
  ])
    test(`HF-4 ${name}`, async () => {
      const child = spawn(command, [path.join(clients, script), String(port)], { stdio: ['ignore', 'pipe', 'pipe'] });
      let said = '';
      child.stdout.on('data', (chunk) => (said += chunk));
      child.stderr.on('data', (chunk) => (said += chunk));
      await new Promise((resolve, reject) => child.on('close', resolve).on('error', reject));
      assert.equal(said, 'done\n');
    });
});
