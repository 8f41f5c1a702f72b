// SPDX-License-Identifier: Apache-2.0
// Races between two servers on one Redis server (PDQ-6: no job is lost). Each server reaches Redis through a proxy that
// can hold replies. The file runs itself with scripts/with-redis.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import net from 'node:net';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { status } from '../lib/expect.mjs';
import { freePort } from '../lib/ports.mjs';
import { killServer, startServer, stopServer, until } from '../lib/server.mjs';

if (!process.env.HF_REDIS) {
  const wrapper = fileURLToPath(new URL('../../../scripts/with-redis', import.meta.url));
  const words = ['node', ...process.execArgv, fileURLToPath(import.meta.url)];
  process.exit(spawnSync(wrapper, words, { stdio: 'inherit' }).status ?? 1);
}

const socketPath = path.join(process.env.HF_REDIS_DIR, 'redis.sock');
const redis = (...words) => {
  const run = spawnSync('redis-cli', ['-s', socketPath, '--json', ...words.map(String)], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  return JSON.parse(run.stdout);
};

/** A proxy between a server and Redis. After a request with the given words has passed, it holds all replies until release(). */
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
  /** Resolves when a reply is held. */
  keep(...words) {
    this.words = words;
    return () => until('a reply is held', () => this.kept?.length > 0);
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

describe('races between servers', () => {
  const closing = [];
  after(async () => {
    const problems = []; // an error in one must not leave the others running
    for (const close of closing.reverse()) await Promise.resolve(close()).catch((problem) => problems.push(problem.message));
    assert.deepEqual(problems, []);
  });
  const start = async (prefix, number, env = {}, silent = '60s') => {
    const proxy = await new HeldProxy().open();
    // Heartbeats are rare: a server that has just started is not known to the other.
    const args = ['--node', String(number), '--cluster-leader-ttl-ms', silent, '--cluster-silent-ms', silent];
    const server = await startServer({ backend: proxy.url(prefix), args, env });
    const api = new Client(server);
    closing.push(() => proxy.close(), () => server.exit || stopServer(server), () => api.close(), () => proxy.release());
    return { proxy, server, api };
  };

  test('a server that was alone and one that has just started never assign the same number', async () => {
    const one = await start('n:', 1);
    status(await one.api.post('/v1/queues/warm/jobs', { payload: 0 }), 201);
    const two = await start('n:', 2);
    // The first has read the last number, the second takes some numbers; then the first stores its job, and then the second.
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

  test('jobs that a killed server held become ready for a server that is alone', async () => {
    const one = await start('h:', 1);
    const id = status(await one.api.post('/v1/queues/left/jobs', { payload: 1 }), 201).id;
    const two = await start('h:', 2);
    const kept = two.proxy.keep('left', '15000'); // the time for which it is held
    const claim = two.api.post('/v1/queues/left/claim', {}).catch(() => null);
    await kept();
    await until('the job is held', () => redis('ZCARD', 'h:holds') === 1);
    await killServer(two.server);
    await claim;
    // Time passes without requests: the hold has expired, and the killed servers are forgotten.
    await stopServer(one.server);
    for (const epoch of redis('ZRANGE', 'h:holds', 0, -1)) redis('ZADD', 'h:holds', 1, epoch);
    redis('DEL', 'h:nodes', 'h:node');
    const three = await start('h:', 3);
    const got = status(await three.api.post('/v1/queues/left/claim', {}), 200);
    assert.deepEqual(got.jobs.map((job) => job.id), [id]);
  });

  test('HF-2 a token is valid although the same request releases another job of the queue', async () => {
    const [one, two] = [await start('g:', 1), await start('g:', 2)]; // the second knows of the first
    status(await one.api.post('/v1/queues/q/jobs', [{ payload: 1 }, { payload: 2 }]), 200);
    const [job] = status(await one.api.post('/v1/queues/q/claim', {}), 200).jobs;
    const take = "local m = redis.call('ZPOPMIN', 'g:q:1:2')[1] redis.call('HSET', 'g:hold:999', 't', 1, m, 1) return redis.call('ZADD', 'g:holds', 1, 999)";
    assert.equal(redis('EVAL', take, 0), 1); // by a server that was killed long ago
    assert.equal(status(await two.api.post(`/v1/jobs/${job.id}/ack`, { token: job.token }), 200).state, 'done');
    assert.equal(redis('EXISTS', 'g:hold:999'), 0, 'it was released');
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

  test('an operation that needs exclusive access completes while two other servers are busy', async () => {
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

  test('TF-3 a server that waits for another one sends heartbeats, and does not wait for a killed one for ever', async () => {
    const nodes = { 1: await start('w:', 1, {}, '2s'), 2: await start('w:', 2, {}, '2s') };
    await until('they know each other', async () => (await nodes[1].api.get('/v1/cluster')).json.nodes.length === 2);
    const leader = () => redis('HMGET', 'w:meta', 'leader', 'leader_epoch');
    const first = await until('one of them leads', () => (leader()[0] ? leader() : null));
    const [one, two] = first[0] === '1' ? [nodes[1], nodes[2]] : [nodes[2], nodes[1]];
    const enqueue = () => one.api.post('/v1/queues/q/jobs', { payload: 1 });
    status(await enqueue(), 201);
    redis('HSET', 'w:meta', 'stop', `999 ${Date.now() + 60_000} 60000`); // a server that was killed
    let over = false;
    const waits = enqueue().finally(() => (over = true));
    const seen = Date.now();
    await until('a heartbeat after the last lease', () => redis('ZSCORE', 'w:nodes', first[0]) > seen + 2000);
    assert.equal(over, false, 'it waits');
    assert.deepEqual(leader(), first, 'it leads all the time');
    redis('HDEL', 'w:meta', 'stop');
    status(await waits, 201);
    redis('HSET', 'w:meta', 'stop', `999 ${Date.now() + 3_600_000} 10000`); // the clock was set back since
    status(await enqueue(), 201);
    assert.equal(redis('HGET', 'w:meta', 'stop'), null);
    status(await two.api.post('/v1/queues/q/jobs', { payload: 1 }), 201);
  });

  test('a refused operation makes no other server wait', async () => {
    const [one, two] = [await start('x:', 1), await start('x:', 2)];
    status(await two.api.put('/v1/queues/mine', {}), 201);
    const meanwhile = [
      async () => status(await two.api.post('/v1/queues/other/jobs', { payload: 1 }), 201),
      async () => status(await two.api.post('/v1/queues/other/jobs', { payload: 2 }), 201),
      async () => status(await two.api.delete('/v1/queues/mine'), 200),
    ];
    let kept = one.proxy.keep('mine', '15000'); // a read of the queue
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

  test('a claim that waits gets the job behind many expired ones', async () => {
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
    // No server listens there: notices stay in the outbox.
    const rule = { on: 'dead', webhook: { url: `http://127.0.0.1:${await freePort()}/in` } };
    /** A job dies on the second server; while the reply to its read is held, the first server does something. */
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
    assert.deepEqual(outbox(), [0, 0, 0], 'no notice of a deleted rule');
    await dies(async () => status(await one.api.put('/v1/alerts/ops', rule), 201));
    assert.deepEqual(outbox(), [1, 1, 1], 'a rule that was set first is applied');
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

  for (const [by, more] of [['an idempotency key', { idempotency_key: 'parent' }], ['a unique key', { unique: 'parent', unique_mode: 'return' }]])
    test(`HF-28 a job found by ${by} ends and is removed while another server makes a job depend on it`, async () => {
      const prefix = more.unique ? 'du:' : 'di:';
      const [one, two] = [await start(prefix, 1), await start(prefix, 2)];
      status(await one.api.put('/v1/queues/p', { keep_done: 0, keep_done_ms: 0 }), 201);
      const jobs = [{ queue: 'p', ...more }];
      status(await one.api.post('/v1/batches', { jobs, then: { queue: 'first' } }), 201);
      const [parent] = status(await one.api.post('/v1/queues/p/claim', {}), 200).jobs;
      const kept = two.proxy.keep('later');
      const asked = two.api.post('/v1/batches', { jobs, then: { queue: 'later' } });
      await kept();
      status(await one.api.post(`/v1/jobs/${parent.id}/ack`, { token: parent.token }), 200);
      two.proxy.release();
      // It was not there any more: the key is known, so the request is refused; or a new job has the unique key.
      const answer = await asked;
      assert.equal(answer.status, more.unique ? 201 : 422, answer.text);
      if (answer.status === 201) assert.notEqual(answer.json.jobs[0].id, parent.id);
      await until('no job waits for one that is gone', async () => {
        const { jobs: waiting } = (await one.api.get('/v1/jobs?state=blocked')).json;
        const views = await Promise.all(waiting.map((job) => one.api.get(`/v1/jobs/${job.id}?dependencies=true`)));
        return views.every(({ json }) => json.waits_for.length > 0);
      });
    });

  test('a server that has done much work continues after Redis was emptied', async () => {
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

  test('PDQ-12 metrics are available while one of several stores is not', async () => {
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

  test('servers notice that Redis was emptied, and share neither epochs nor keys with new ones', async () => {
    const [one, two] = [await start('f:', 1), await start('f:', 2)];
    for (const { api } of [one, two]) for (let i = 0; i < 3; i++) status(await api.post('/v1/queues/old/jobs', { payload: i }), 201);
    for (const key of redis('KEYS', 'f:*')) redis('DEL', key);
    const three = await start('f:', 3);
    const key = { payload: 1, idempotency_key: 'once' };
    const ids = [];
    for (const { api } of [one, two, three]) ids.push((await api.post('/v1/queues/new/jobs', key)).json.id);
    assert.deepEqual(new Set(ids).size, 1, 'one key, one job');
    for (const { server } of [one, two]) await until('the loss is logged', () => server.stderr.includes('redis_data_lost'));
    for (const { api } of [one, two, three]) await api.post('/v1/queues/new/jobs', { payload: 2 });
    const epochs = [];
    for (const { api } of [one, two, three]) {
      const got = status(await api.post('/v1/queues/new/claim', {}), 200);
      epochs.push(got.jobs[0].token.split('-')[0]);
    }
    assert.equal(new Set(epochs).size, 3, `tokens of epochs ${epochs}`);
  });
});
