// SPDX-License-Identifier: Apache-2.0
// Two servers on one Redis server, and what happens when their questions cross (PDQ-6: no job is lost). Each server reaches Redis
// through a proxy that can hold replies back. Runs itself below scripts/with-redis.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import net from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, describe, test } from 'node:test';

import { Client } from './lib/client.mjs';
import { freePort } from './lib/ports.mjs';
import { killServer, startServer, stopServer, until } from './lib/server.mjs';

if (!process.env.HF_REDIS) {
  const wrapper = fileURLToPath(new URL('../../scripts/with-redis', import.meta.url));
  const words = ['node', ...process.execArgv, fileURLToPath(import.meta.url)];
  process.exit(spawnSync(wrapper, words, { stdio: 'inherit' }).status ?? 1);
}

const socketPath = path.join(process.env.HF_REDIS_DIR, 'redis.sock');
const redis = (...words) => {
  const run = spawnSync('redis-cli', ['-s', socketPath, '--json', ...words.map(String)], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  return JSON.parse(run.stdout);
};
const status = (answer, wanted) => {
  assert.equal(answer.status, wanted, answer.text);
  return answer.json;
};

/** Between a server and Redis. Once a question with the given words has passed, no answer does, until release(). */
class HeldProxy {
  async open() {
    this.links = new Set();
    this.server = net.createServer((near) => this.link(near));
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.url = (prefix) => `redis://127.0.0.1:${this.server.address().port}/0?prefix=${prefix}`;
    return this;
  }
  link(near) {
    const far = net.connect(socketPath);
    this.links.add(near).add(far);
    near.on('data', (chunk) => {
      if (this.words?.every((word) => chunk.includes(word))) this.kept ??= [];
      far.write(chunk);
    });
    far.on('data', (chunk) => (this.kept ? this.kept.push([near, chunk]) : near.write(chunk)));
    for (const [one, other] of [[near, far], [far, near]]) {
      one.on('error', () => {});
      one.on('close', () => other.destroy());
    }
  }
  /** Resolves when there is an answer that was kept back. */
  keep(...words) {
    this.words = words;
    return () => until('an answer is kept back', () => this.kept?.length > 0);
  }
  release() {
    const kept = this.kept ?? [];
    this.words = this.kept = undefined;
    for (const [near, chunk] of kept) near.write(chunk);
  }
  close() {
    this.server.close();
    for (const link of this.links) link.destroy();
  }
}

describe('questions that cross', () => {
  const closing = [];
  after(async () => {
    const problems = []; // one that does not end well must not leave the others running
    for (const close of closing.reverse()) await Promise.resolve(close()).catch((problem) => problems.push(problem.message));
    assert.deepEqual(problems, []);
  });
  const start = async (prefix, number, env = {}, silent = '60s') => {
    const proxy = await new HeldProxy().open();
    // Signs of life are far apart: a server that has just come is not known to the other.
    const args = ['--node', String(number), '--cluster-leader-ttl-ms', silent, '--cluster-silent-ms', silent];
    const server = await startServer({ backend: proxy.url(prefix), args, env });
    const api = new Client(server);
    closing.push(() => proxy.close(), () => server.exit || stopServer(server), () => api.close(), () => proxy.release());
    return { proxy, server, api };
  };

  test('a server that was alone and one that has just come never give out the same number', async () => {
    const one = await start('n:', 1);
    status(await one.api.post('/v1/queues/warm/jobs', { payload: 0 }), 201);
    const two = await start('n:', 2);
    // the first has read how far numbers go, the second takes some, the first stores, then the second
    const asked = [];
    for (const [node, name] of [[one, 'mine-one'], [two, 'mine-two']]) {
      const kept = node.proxy.keep(name);
      asked.push(node.api.post(`/v1/queues/${name}/jobs`, { payload: name }));
      await kept();
    }
    one.proxy.release();
    const first = status(await asked[0], 201);
    two.proxy.release();
    const second = status(await asked[1], 201);
    assert.notEqual(first.id, second.id);
    for (const [job, name] of [[first, 'mine-one'], [second, 'mine-two']]) {
      const seen = status(await one.api.get(`/v1/jobs/${job.id}`), 200);
      assert.deepEqual([seen.queue, seen.payload], [name, name]);
      const got = status(await two.api.post(`/v1/queues/${name}/claim`, {}), 200);
      assert.deepEqual(got.jobs.map((j) => [j.id, j.payload]), [[job.id, name]]);
    }
  });

  test('what a server had taken when it died comes back to one that is left alone', async () => {
    const one = await start('h:', 1);
    const id = status(await one.api.post('/v1/queues/left/jobs', { payload: 1 }), 201).id;
    const two = await start('h:', 2);
    const kept = two.proxy.keep('left', '15000'); // how long it is taken for
    const claim = two.api.post('/v1/queues/left/claim', {}).catch(() => null);
    await kept();
    await until('the job is out of reach', () => redis('ZCARD', 'h:holds') === 1);
    await killServer(two.server);
    await claim;
    // Time passes in which nobody asks for anything: the hold is over, and the dead are forgotten.
    await stopServer(one.server);
    for (const epoch of redis('ZRANGE', 'h:holds', 0, -1)) redis('ZADD', 'h:holds', 1, epoch);
    redis('DEL', 'h:nodes', 'h:node');
    const three = await start('h:', 3);
    const got = status(await three.api.post('/v1/queues/left/claim', {}), 200);
    assert.deepEqual(got.jobs.map((job) => job.id), [id]);
  });

  test('HF-2 a token is good though a job of the same queue is given back by the same question', async () => {
    const [one, two] = [await start('g:', 1), await start('g:', 2)]; // the second knows of the first
    status(await one.api.post('/v1/queues/q/jobs', [{ payload: 1 }, { payload: 2 }]), 200);
    const [job] = status(await one.api.post('/v1/queues/q/claim', {}), 200).jobs;
    const take = "local m = redis.call('ZPOPMIN', 'g:q:1:2')[1] redis.call('HSET', 'g:hold:999', 't', 1, m, 1) return redis.call('ZADD', 'g:holds', 1, 999)";
    assert.equal(redis('EVAL', take, 0), 1); // by somebody who died long ago
    assert.equal(status(await two.api.post(`/v1/jobs/${job.id}/ack`, { token: job.token }), 200).state, 'done');
    assert.equal(redis('EXISTS', 'g:hold:999'), 0, 'it was given back');
    assert.equal(status(await one.api.post('/v1/queues/q/claim', {}), 200).jobs[0]?.payload, 2);
  });

  test('a queue is paused, resumed and changed while another server is busy', async () => {
    const [one, two] = [await start('b:', 1), await start('b:', 2)];
    status(await one.api.put('/v1/queues/mine', { description: 'first' }), 201);
    let busy = true;
    const load = Array.from({ length: 32 }, async (_, i) => {
      for (; busy; ) status(await two.api.post(`/v1/queues/other${i % 4}/jobs`, { payload: i }), 201);
    });
    for (let i = 0; i < 10; i++) {
      status(await one.api.post('/v1/queues/mine/pause', {}), 200);
      status(await one.api.patch('/v1/queues/mine', { description: `note ${i}` }), 200);
      status(await one.api.post('/v1/queues/mine/resume', {}), 200);
    }
    busy = false;
    await Promise.all(load);
    assert.equal(status(await two.api.get('/v1/queues/mine'), 200).description, 'note 9');
  });

  test('what needs that nobody stores anything goes through while two other servers are busy', async () => {
    const [one, two, three] = [await start('q:', 1), await start('q:', 2), await start('q:', 3)];
    let busy = true;
    let stored = 0;
    const load = Array.from({ length: 48 }, async (_, i) => {
      const { api } = i % 2 ? two : three;
      for (; busy; stored++) status(await api.post(`/v1/queues/other${i % 4}/jobs`, { payload: i }), 201);
    });
    for (let i = 0; i < 8; i++) {
      status(await one.api.post('/v1/queues/mine/jobs', { payload: i, unique: `u${i}` }), 201);
      status(await one.api.patch('/v1/queues/mine', { unique_scope: i % 2 ? 'live' : 'kept' }), 200);
      status(await one.api.post('/v1/queues/mine/purge', {}), 200);
      status(await one.api.put('/v1/schedules/often', { cron: '0 0 1 1 *', queue: 'mine', job: { payload: i } }), i ? 200 : 201);
      status(await one.api.post('/v1/schedules/often/run', {}), 200);
      status(await one.api.delete('/v1/queues/mine'), 200);
      const before = stored;
      await until('the others go on', () => stored > before);
    }
    busy = false;
    await Promise.all(load);
    assert.equal(redis('HGET', 'q:meta', 'stop'), null);
  });

  test('TF-3 who waits for another server seems alive, and does not wait for a dead one for ever', async () => {
    const [one, two] = [await start('w:', 1, {}, '2s'), await start('w:', 2, {}, '2s')];
    await until('they know each other', async () => (await one.api.get('/v1/cluster')).json.nodes.length === 2);
    const enqueue = () => one.api.post('/v1/queues/q/jobs', { payload: 1 });
    status(await enqueue(), 201);
    redis('HSET', 'w:meta', 'stop', `999 ${Date.now() + 60_000} 60000`); // somebody who died
    let over = false;
    const waits = enqueue().finally(() => (over = true));
    const seen = Date.now();
    await until('a sign of life of after the last lease', () => redis('ZSCORE', 'w:nodes', 1) > seen + 2000);
    assert.equal(over, false, 'it waits');
    assert.deepEqual(redis('HMGET', 'w:meta', 'leader', 'leader_epoch'), ['1', '1'], 'it leads all the time');
    redis('HDEL', 'w:meta', 'stop');
    status(await waits, 201);
    redis('HSET', 'w:meta', 'stop', `999 ${Date.now() + 3_600_000} 10000`); // the clock was set back since
    status(await enqueue(), 201);
    assert.equal(redis('HGET', 'w:meta', 'stop'), null);
    status(await two.api.post('/v1/queues/q/jobs', { payload: 1 }), 201);
  });

  test('nobody is made to wait by what was refused', async () => {
    const [one, two] = [await start('x:', 1), await start('x:', 2)];
    status(await two.api.put('/v1/queues/mine', {}), 201);
    const meanwhile = [
      async () => status(await two.api.post('/v1/queues/other/jobs', { payload: 1 }), 201),
      async () => status(await two.api.post('/v1/queues/other/jobs', { payload: 2 }), 201),
      async () => status(await two.api.delete('/v1/queues/mine'), 200),
    ];
    let kept = one.proxy.keep('mine', '15000'); // a load
    const late = one.api.delete('/v1/queues/mine');
    for (const store of meanwhile) {
      await kept();
      await store();
      one.proxy.release();
      if (store !== meanwhile.at(-1)) kept = one.proxy.keep('mine', '15000');
    }
    status(await late, 404);
    assert.equal(redis('HGET', 'x:meta', 'stop'), null);
  });

  test('a claim that waits gets the job that stood behind many that expired', async () => {
    const { api } = await start('y:', 1);
    const at = Date.now() + 2500;
    const soon = { payload: 1, priority: 9, expires_at: new Date(at).toISOString() };
    for (let i = 0; i < 8; i++) status(await api.post('/v1/queues/q/jobs', Array(1000).fill(soon)), 200);
    const { id } = status(await api.post('/v1/queues/q/jobs', { payload: 'last' }), 201);
    await until('they expire', () => Date.now() > at + 2);
    const got = status(await api.post('/v1/queues/q/claim', { wait_ms: 20_000 }), 200);
    assert.deepEqual(got.jobs.map((job) => job.id), [id]);
  });

  test('ORC-18 rules and notices that two servers change at once', async () => {
    const env = { HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8' };
    const [one, two] = [await start('r:', 1, env), await start('r:', 2, env)];
    const outbox = () => [redis('ZCARD', 'r:noticel'), redis('HLEN', 'r:notice'), redis('ZCARD', 'r:notice:ops')];
    // Nobody listens there: notices stay in the outbox.
    const rule = { on: 'dead', webhook: { url: `http://127.0.0.1:${await freePort()}/in` } };
    /** A job dies at the second server; before what it has read of it is answered, the first one does something. */
    const dies = async (meanwhile) => {
      const made = status(await one.api.post('/v1/queues/q/jobs', { payload: 1 }), 201);
      const [job] = status(await two.api.post('/v1/queues/q/claim', {}), 200).jobs;
      const { seq } = status(await one.api.get(`/v1/jobs/${made.id}`), 200);
      const wire = Buffer.alloc(8);
      wire.writeBigUInt64BE(BigInt(seq));
      const kept = two.proxy.keep(wire);
      const failed = two.api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: 'no', retry: false });
      await kept();
      await meanwhile();
      two.proxy.release();
      assert.equal(status(await failed, 200).state, 'dead');
    };
    status(await one.api.put('/v1/alerts/ops', rule), 201);
    await dies(() => {}); // it knows the rule now
    assert.deepEqual(outbox(), [1, 1, 1]);
    await dies(async () => status(await one.api.delete('/v1/alerts/ops'), 200));
    assert.deepEqual(outbox(), [0, 0, 0], 'no notice of a rule that is gone');
    await dies(async () => status(await one.api.put('/v1/alerts/ops', rule), 201));
    assert.deepEqual(outbox(), [1, 1, 1], 'a rule that came first is minded');
    // One notice is discarded twice, and the second has read it before the first was done.
    const [notice] = status(await one.api.get('/v1/notices'), 200).notices;
    const kept = two.proxy.keep('some', 'EVALSHA');
    const late = two.api.delete(`/v1/notices/${notice.id}`);
    await kept();
    status(await one.api.delete(`/v1/notices/${notice.id}`), 200);
    two.proxy.release();
    status(await late, 404);
    assert.deepEqual(outbox(), [0, 0, 0]);
    for (const name of ['noticed', 'noticeh']) assert.equal(redis('EXISTS', `r:${name}`), 0, name);
  });

  test('a server that has told of much goes on after Redis was emptied under it', async () => {
    const { api } = await start('v:', 1);
    const work = async () => {
      status(await api.post('/v1/queues/q/jobs', Array(500).fill({ payload: 1 })), 200);
      const { jobs } = status(await api.post('/v1/queues/q/claim', { count: 500 }), 200);
      status(await api.post('/v1/ack', { jobs: jobs.map(({ id, token }) => ({ id, token })) }), 200);
      return jobs.length;
    };
    assert.equal(await work(), 500);
    for (const key of redis('KEYS', 'v:*')) redis('DEL', key);
    await until('it has noticed', async () => (await api.post('/v1/queues/q/jobs', { payload: 0 })).status === 201);
    assert.equal(await work(), 500);
    assert.equal(status(await api.get('/v1/queues/q'), 200).counts.done, 500);
  });

  test('PDQ-12 metrics are there while one of several stores is not', async () => {
    const proxy = await new HeldProxy().open();
    const server = await startServer({ env: { HOLDFAST_ROUTES: `away* number=1 backend=${proxy.url('m:')}` } });
    const api = new Client(server);
    closing.push(() => stopServer(server), () => api.close());
    for (const queue of ['here', 'away']) status(await api.post(`/v1/queues/${queue}/jobs`, { payload: 1 }), 201);
    assert.match((await api.get('/metrics')).text, /queue="away"/);
    proxy.close();
    await until('its queues are refused', async () => (await api.get('/v1/queues')).status === 503);
    const page = await api.get('/metrics');
    assert.equal(page.status, 200, page.text);
    assert.match(page.text, /^holdfast_jobs_live \d/m);
    status(await api.post('/v1/queues/here/jobs', { payload: 2 }), 201);
  });

  test('servers notice that Redis was emptied under them, and share neither epochs nor keys with what comes', async () => {
    const [one, two] = [await start('f:', 1), await start('f:', 2)];
    for (const { api } of [one, two]) for (let i = 0; i < 3; i++) status(await api.post('/v1/queues/old/jobs', { payload: i }), 201);
    for (const key of redis('KEYS', 'f:*')) redis('DEL', key);
    const three = await start('f:', 3);
    const key = { payload: 1, idempotency_key: 'once' };
    const ids = [];
    for (const { api } of [one, two, three]) ids.push((await api.post('/v1/queues/new/jobs', key)).json.id);
    assert.deepEqual(new Set(ids).size, 1, 'one key, one job');
    for (const { server } of [one, two]) await until('the loss is told', () => server.stderr.includes('redis_data_lost'));
    for (const { api } of [one, two, three]) await api.post('/v1/queues/new/jobs', { payload: 2 });
    const epochs = [];
    for (const { api } of [one, two, three]) {
      const got = status(await api.post('/v1/queues/new/claim', {}), 200);
      epochs.push(got.jobs[0].token.split('-')[0]);
    }
    assert.equal(new Set(epochs).size, 3, `tokens of epochs ${epochs}`);
  });
});
