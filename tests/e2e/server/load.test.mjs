// SPDX-License-Identifier: Apache-2.0
// Many clients at once: thousands that wait, clients that disconnect, limits of connections, no free descriptors.
import assert from 'node:assert/strict';
import net from 'node:net';
import { describe, test } from 'node:test';

import { startBeanstalk } from '../lib/beanstalk.mjs';
import { Client, rawExchange } from '../lib/client.mjs';
import { leanSanitizer, logged, processorSeconds, residentMiB, startServer, stopServer, until } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue, onStores } from '../lib/suite.mjs';

const PARKED = 2000;
const metric = async (api, name) => Number((await api.get('/metrics')).text.match(new RegExp(`^${name} (\\d+)`, 'm'))[1]);
const counts = async (api, queue) => (await api.get(`/v1/queues/${queue}`)).json.counts;
const many = (api, queue, n) => api.post(`/v1/queues/${queue}/jobs`, Array.from({ length: n }, (_, i) => ({ payload: i })));

/** A new connection; `answer` resolves to {status, json} of one request, or to null if the connection breaks. */
function connection(server, options = {}) {
  const socket = net.connect({ port: server.port, host: server.host, ...options });
  const opened = new Promise((resolve) => {
    socket.on('connect', () => resolve(true));
    socket.on('error', () => resolve(false));
  });
  let text = '';
  let settle;
  const parse = () => {
    const head = text.indexOf('\r\n\r\n');
    const length = head < 0 ? NaN : Number(text.slice(0, head).match(/content-length: (\d+)/i)?.[1]);
    if (!(text.length >= head + 4 + length)) return;
    const body = text.slice(head + 4, head + 4 + length);
    const answer = { status: Number(text.slice(9, 12)), head: text.slice(0, head), json: body ? JSON.parse(body) : undefined };
    text = text.slice(head + 4 + length);
    settle?.(answer);
  };
  const one = { socket, opened, closed: false };
  socket.setEncoding('latin1');
  socket.on('data', (chunk) => {
    text += chunk;
    parse();
  });
  socket.on('close', () => {
    one.closed = true;
    settle?.(null);
  });
  one.answer = () =>
    new Promise((resolve) => {
      settle = resolve;
      if (one.closed) resolve(null);
      parse();
    });
  one.ask = (method, path, body = '') => {
    socket.write(`${method} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    return one.answer();
  };
  one.close = () => socket.destroy();
  return one;
}

onStores('many that wait', ['memory', 'sqlite'], { env: leanSanitizer }, (use) => {
  test(`${PARKED} long-polls are woken by one batch, each job once`, async (t) => {
    const { api, server } = use;
    const q = freshQueue();
    await api.put(`/v1/queues/${q}`, {});
    const idle = residentMiB(server);
    const waiting = Array.from({ length: PARKED }, () => connection(server));
    assert.ok((await Promise.all(waiting.map((one) => one.opened))).every(Boolean), 'the limit of open files must allow them');
    const answers = waiting.map((one) => one.ask('POST', `/v1/queues/${q}/claim`, '{"wait_ms":60000,"lease_ms":600000}'));
    await until('all wait', async () => (await metric(api, 'holdfast_claims_waiting')) === PARKED);
    const each = ((residentMiB(server) - idle) * 1024) / PARKED;
    t.diagnostic(`${each.toFixed(1)} KiB for each connection that waits (sanitized build)`);
    assert.ok(each < 64, `${each.toFixed(1)} KiB each`);
    const start = Date.now();
    const made = (await Promise.all([many(api, q, PARKED / 2), many(api, q, PARKED / 2)])).flatMap((answer) => answer.json.jobs.map((job) => job.id));
    const got = (await Promise.all(answers)).map((answer) => {
      assert.equal(answer?.status, 200);
      assert.equal(answer.json.jobs.length, 1);
      return answer.json.jobs[0];
    });
    t.diagnostic(`woken within ${Date.now() - start} ms`);
    assert.deepEqual(got.map((job) => job.id).sort(), made.sort());
    assert.equal(new Set(got.map((job) => job.token)).size, PARKED);
    assert.equal((await counts(api, q)).running, PARKED);
    const done = await Promise.all(waiting.map((one, i) => one.ask('POST', `/v1/jobs/${got[i].id}/ack`, `{"token":"${got[i].token}"}`)));
    assert.ok(done.every((answer) => answer.json.state === 'done'));
    for (const one of waiting) one.close();
    await until('they are gone', async () => (await metric(api, 'holdfast_http_connections')) < 10);
  });

  test('fifty clients with the same idempotency key or unique key create one job', async () => {
    const { server } = use;
    for (const headers of ['Idempotency-Key: at-once\r\n', '']) {
      const q = freshQueue();
      const body = headers ? '{"payload":1}' : '{"payload":1,"unique":"u","unique_mode":"return"}';
      const texts = await Promise.all(
        Array.from({ length: 50 }, () => rawExchange(server, `POST /v1/queues/${q}/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n${headers}Content-Length: ${body.length}\r\n\r\n${body}`)),
      );
      const answers = texts.map((text) => JSON.parse(text.slice(text.indexOf('\r\n\r\n'))));
      assert.equal(new Set(answers.map((one) => one.id)).size, 1);
      assert.equal(answers.filter((one) => one.created).length, 1);
      assert.deepEqual(texts.map((text) => text.slice(9, 12)).sort(), [...Array(49).fill('200'), '201']);
    }
  });

  test('clients that disconnect while they wait take no job', async () => {
    const { api, server } = use;
    const q = freshQueue();
    const gone = Array.from({ length: 100 }, () => connection(server));
    for (const one of gone) one.ask('POST', `/v1/queues/${q}/claim`, '{"wait_ms":60000,"lease_ms":3600000}');
    await until('all wait', async () => (await metric(api, 'holdfast_claims_waiting')) === 100);
    for (const one of gone) one.close();
    await until('none waits', async () => (await metric(api, 'holdfast_claims_waiting')) === 0);
    await many(api, q, 100);
    assert.equal((await counts(api, q)).ready, 100);
  });

  test('clients that disconnect at the moment of delivery: each job is done once in the end', async () => {
    const { api, server } = use;
    const q = freshQueue();
    const leaving = Array.from({ length: 100 }, () => connection(server));
    // A job that the kernel accepted for a disconnected client becomes ready when its lease expires.
    for (const one of leaving) one.ask('POST', `/v1/queues/${q}/claim`, '{"wait_ms":60000,"lease_ms":500}');
    await until('all wait', async () => (await metric(api, 'holdfast_claims_waiting')) === 100);
    const enqueued = many(api, q, 100);
    for (const one of leaving) one.close();
    const { jobs } = (await enqueued).json;
    const acked = new Map();
    while (acked.size < 100) {
      const job = await claimOne(api, q, { lease_ms: 60000, wait_ms: 2000 });
      assert.equal((await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token })).json.state, 'done');
      acked.set(job.id, (acked.get(job.id) ?? 0) + 1);
    }
    assert.deepEqual([...acked.keys()].sort(), jobs.map((job) => job.id).sort());
    assert.ok([...acked.values()].every((n) => n === 1));
    assert.equal((await counts(api, q)).done, 100);
  });
});

describe('limits of connections', () => {
  const isRefusal = (answer) => {
    assert.equal(answer?.status, 503, JSON.stringify(answer));
    assert.match(answer.head, /^connection: close\r?$/im);
    assert.match(answer.head, /^content-type: application\/problem\+json/im);
    assert.match(answer.head, /^retry-after: \d+/im);
    assert.equal(answer.json.code, 'unavailable');
    assert.ok(answer.json.detail.length > 10);
  };

  for (const [name, options, others] of [['of the server', ['--limits-connections', '20', '--limits-connections-per-address', '100'], 503], ['of one address', ['--limits-connections-per-address', '20'], 200]]) {
    test(`${name}: 503 and closed; open connections continue, and free places are used again`, async (t) => {
      const server = await startServer({ backend: 'memory', args: options });
      t.after(() => stopServer(server));
      const inside = Array.from({ length: 20 }, () => connection(server));
      for (const one of inside) assert.equal((await one.ask('GET', '/healthz')).status, 200);
      for (let i = 0; i < 5; i++) {
        const beyond = connection(server);
        isRefusal(await beyond.ask('GET', '/healthz'));
        await until('it is closed', () => beyond.closed);
      }
      const elsewhere = connection(server, { localAddress: '127.0.0.2' });
      assert.equal((await elsewhere.ask('GET', '/healthz')).status, others);
      elsewhere.close();
      for (const one of inside) assert.equal((await one.ask('GET', '/healthz')).status, 200);
      inside[0].close();
      await until('there is room again', async () => {
        const one = connection(server);
        const answer = await one.ask('GET', '/healthz');
        one.close();
        return answer?.status === 200;
      });
      for (const one of inside) one.close();
    });
  }

  test('no free descriptors: open connections are served, the server does not spin, and it accepts again later', async (t) => {
    const server = await startServer({ args: ['--limits-connections', '1000'], via: ['bash', '-c', 'ulimit -n 40; exec "$@"', '-'] });
    t.after(() => stopServer(server));
    await logged(server, /few_descriptors/);
    const first = connection(server);
    assert.equal((await first.ask('POST', '/v1/queues/q/jobs', '{"payload":0}')).status, 201);
    const crowd = Array.from({ length: 80 }, () => connection(server));
    await Promise.all(crowd.map((one) => one.opened));
    await until('some connections were refused', () => crowd.filter((one) => one.closed).length > 30);
    for (let i = 1; i <= 20; i++) assert.equal((await first.ask('POST', '/v1/queues/q/jobs', `{"payload":${i}}`)).status, 201);
    const claimed = await first.ask('POST', '/v1/queues/q/claim', '{"count":100}');
    assert.equal(claimed.json.jobs.length, 21, 'the store needs no new descriptor');
    assert.equal((await first.ask('GET', '/v1/jobs?queue=q')).json.jobs.length, 21);
    // The server now only refuses connections.
    const start = { cpu: processorSeconds(server), at: Date.now() };
    const late = [];
    await until('more than a second has passed', () => {
      if (late.length < 40) late.push(connection(server));
      return Date.now() - start.at > 1500;
    });
    const busy = (processorSeconds(server) - start.cpu) / ((Date.now() - start.at) / 1000);
    t.diagnostic(`${(busy * 100).toFixed(0)} % of a processor while there are no descriptors`);
    assert.ok(busy < 0.5, `${busy}`);
    await logged(server, /no_descriptors .*lower limits\.connections/);
    for (const one of [...crowd, ...late]) one.close();
    await until('it accepts again', async () => {
      const one = connection(server);
      const answer = await one.ask('GET', '/healthz');
      one.close();
      return answer?.status === 200;
    });
    first.close();
  });
});

describe('descriptors and default limits', () => {
  // [limits of open files, settings, warned, connections]
  for (const [ulimit, args, warned, connections] of [
    ['-S -n 256', [], false, '\\d+'],
    ['-n 400', [], false, 144],
    ['-n 64', [], true, 16],
    ['-n 400', ['--limits-connections', '1000'], true, 1000],
    ['-n 400', ['--limits-connections', '100'], false, 100],
  ]) {
    test(`ulimit ${ulimit}, ${args.join(' ') || 'defaults'}: ${warned ? 'a warning' : 'no warning'} at the start`, async (t) => {
      const server = await startServer({ backend: 'memory', args, via: ['bash', '-c', `ulimit ${ulimit}; exec "$@"`, '-'] });
      t.after(() => stopServer(server));
      await logged(server, new RegExp(`info ready .*connections=${connections}\n`));
      assert.equal(/few_descriptors/.test(server.stderr), warned, server.stderr);
      assert.ok(warned || !/warn/i.test(server.stderr), server.stderr);
    });
  }

  test('by default one address gets three quarters of the connections that the descriptors allow', async (t) => {
    // 400 descriptors: 144 connections, 108 of one address.
    const server = await startServer({ backend: 'memory', via: ['bash', '-c', 'ulimit -n 400; exec "$@"', '-'] });
    t.after(() => stopServer(server));
    const inside = Array.from({ length: 108 }, () => connection(server));
    for (const one of inside) assert.equal((await one.ask('GET', '/healthz')).status, 200);
    const beyond = connection(server);
    assert.equal((await beyond.ask('GET', '/healthz')).status, 503);
    const elsewhere = connection(server, { localAddress: '127.0.0.2' });
    assert.equal((await elsewhere.ask('GET', '/healthz')).status, 200);
    for (const one of [...inside, elsewhere]) one.close();
  });
});

test('beanstalk: connections of one address are limited, others are served', async (t) => {
  const server = await startBeanstalk({ backend: 'memory', args: ['--limits-connections-per-address', '20'] });
  t.after(() => stopServer(server));
  const open = async (localAddress) => {
    const socket = net.connect({ port: server.beanstalk, host: '127.0.0.1', localAddress });
    const answer = await new Promise((resolve) => {
      socket.once('data', (data) => resolve(data.toString()));
      socket.on('close', () => resolve('closed')).on('error', () => {});
      socket.write('use a\r\n');
    });
    return { socket, answer };
  };
  const inside = [];
  for (let i = 0; i < 20; i++) inside.push(await open());
  assert.ok(inside.every((one) => one.answer === 'USING a\r\n'), JSON.stringify(inside.map((one) => one.answer)));
  assert.equal((await open()).answer, 'closed');
  const elsewhere = await open('127.0.0.2');
  assert.equal(elsewhere.answer, 'USING a\r\n');
  inside[0].socket.destroy();
  const again = await until('there is room again', async () => {
    const one = await open();
    return one.answer === 'closed' ? null : one;
  });
  for (const one of [...inside, elsewhere, again]) one.socket.destroy();
});

describe('large replies', () => {
  test('a claim or list of many large jobs ends at 16 MiB; the next one returns the rest', async (t) => {
    const server = await startServer({ backend: 'sqlite', args: ['--cache-bytes', '1MiB'], env: leanSanitizer });
    t.after(() => stopServer(server));
    const api = new Client(server);
    const text = 'x'.repeat(256 << 10);
    for (let i = 0; i < 100; i++) await enqueue(api, 'big', { payload: text });
    const idle = residentMiB(server);
    const answer = await api.post('/v1/queues/big/claim', { count: 1000 });
    t.diagnostic(`${(residentMiB(server) - idle).toFixed(0)} MiB more for an answer of ${(answer.text.length / (1 << 20)).toFixed(0)} MiB`);
    const held = answer.json.jobs.length;
    assert.ok(held >= 60 && held <= 65, `${held} jobs of 256 KiB`);
    assert.ok(answer.json.jobs.every((job) => job.payload.length === text.length));
    assert.equal((await counts(api, 'big')).running, held);
    const peeked = (await api.get('/v1/queues/big/peek?limit=100')).json.jobs.length;
    assert.equal(peeked, 100 - held);
    const rest = (await api.post('/v1/queues/big/claim', { count: 1000 })).json.jobs;
    assert.equal(new Set([...answer.json.jobs, ...rest].map((job) => job.id)).size, 100);
    const listed = [];
    for (let cursor = ''; cursor !== null; ) {
      const page = (await api.get(`/v1/jobs?queue=big&limit=1000${cursor && `&cursor=${cursor}`}`)).json;
      assert.ok(page.jobs.length <= 65, `${page.jobs.length} jobs on a page`);
      listed.push(...page.jobs.map((job) => job.id));
      cursor = page.next_cursor;
    }
    assert.equal(new Set(listed).size, 100);
    assert.equal(listed.length, 100);
    await until('memory is given back', () => residentMiB(server) - idle < 40);
    api.close();
  });

  test('all pipelined requests are answered, also beyond the number that is processed at once', async (t) => {
    const server = await startServer({ backend: 'memory', args: ['--limits-pipeline', '8'] });
    t.after(() => stopServer(server));
    const request = 'GET /v1/server HTTP/1.1\r\nHost: localhost\r\n\r\n';
    const text = await rawExchange(server, `${request.repeat(499)}GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    assert.equal(text.match(/HTTP\/1\.1 200/g).length, 500);
  });
});
