// SPDX-License-Identifier: Apache-2.0
// HF-19: one memory budget for everything that connections hold. Clients that send incomplete requests or do not read
// their replies cannot make the server grow, and the server still works for all others.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import { describe, test } from 'node:test';

import { Beanstalk, startBeanstalk } from '../lib/beanstalk.mjs';
import { Client } from '../lib/client.mjs';
import { leanSanitizer, residentMiB, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, enqueue } from '../lib/suite.mjs';

const MIB = 1 << 20;
const JOB_BYTES = 512 << 10;
const BUDGET_MIB = 32;
// What the process may use in addition to the budget: buffers of the loop and of the allocator, the store, a reply being built.
const MARGIN_MIB = 128;
// Long times: no client may be disconnected for being slow before the memory is needed.
const settings = ['--limits-memory-bytes', `${BUDGET_MIB}MiB`, '--limits-large-body-bytes', '16MiB', '--limits-body-bytes', '8MiB', '--timeouts-drain-ms', '2s', '--timeouts-body-ms', '10m', '--timeouts-write-ms', '10m'];

const peakMiB = (server) => Number(readFileSync(`/proc/${server.pid}/status`, 'utf8').match(/^VmHWM:\s+(\d+)/m)[1]) / 1024;
const sample = (text, name) => Number(text.match(new RegExp(`^${name.replace(/[{}]/g, '\\$&')} (\\d+)`, 'm'))?.[1]);
const answers = (text) => [...text.matchAll(/^holdfast_http_requests_total\{.*?\} (\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
const figures = async (api) => {
  const { text } = await api.get('/metrics');
  const held = [...text.matchAll(/^holdfast_memory_held_bytes\{.*?\} (\d+)/gm)].reduce((sum, [, n]) => sum + Number(n), 0);
  const shed = Object.fromEntries([...text.matchAll(/^holdfast_connections_shed_total\{reason="(\w+)"\} (\d+)/gm)].map(([, reason, n]) => [reason, Number(n)]));
  return { text, held, shed, budget: sample(text, 'holdfast_memory_budget_bytes'), refused: sample(text, 'holdfast_memory_refused_total') };
};
/** A charge did not fit: it was refused, or another connection was shed for it, if that one had made no progress for a
 * second. Which of the two depends on how fast the clients are. The figures may be a second old. */
const usedUp = (api) =>
  until('the budget is used up', async () => {
    const { refused, shed } = await figures(api);
    return refused + Object.values(shed).reduce((sum, n) => sum + n, 0) > 0;
  });
/** Requests much memory until a connection is shed. If there was room, `hold` opens another connection that holds some. */
const shedFor = (api, reason, hasRoom, hold) =>
  until(`a connection is shed: ${reason}`, async () => {
    if (await hasRoom()) hold();
    return (await figures(api)).shed[reason] > 0;
  });

/** A connection that sends `pieces` one after the other, as the server takes them. What comes is read from the start
 * (`reads`: 'all'), so that no reset can take it away; or only the beginning of it ('first'), or nothing. */
function connection(server, pieces, { port = server.port, reads = 'nothing' } = {}) {
  const socket = net.connect({ port, host: '127.0.0.1' });
  const one = { socket, sent: 0, closed: false, text: '' };
  socket.on('error', () => {});
  one.over = new Promise((resolve) => socket.on('close', () => resolve((one.closed = true))));
  if (reads !== 'nothing')
    socket.on('data', (chunk) => {
      one.text += chunk.toString('latin1');
      if (reads === 'first') socket.pause();
    });
  const next = () => {
    if (one.closed || one.text || one.sent === pieces.length) return;
    const full = !socket.write(pieces[one.sent++]);
    if (full) socket.once('drain', next);
    else next();
  };
  socket.on('connect', next);
  /** The kernel has accepted everything, or the server has replied or closed. */
  one.done = () => one.closed || one.text !== '' || (one.sent === pieces.length && socket.writableLength === 0);
  return one;
}

const piece = Buffer.alloc(64 << 10, 'x');
const queueFor = async (api, queue, bytes) => assert.equal((await api.put(`/v1/queues/${queue}`, { payload_max: bytes })).status, 201);
const enqueueBytes = async (api, queue, body) => assert.equal((await api.once('POST', `/v1/queues/${queue}/jobs`, { body, headers: { 'content-type': 'application/octet-stream' } })).status, 201);
const head = (path, length) => `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${length}\r\n\r\n`;
/** A body of which `come` bytes are sent and one byte is missing. */
const halfSent = (path, come, length = come + 1) => [head(path, length), ...Array(Math.floor(come / piece.length)).fill(piece), piece.subarray(0, come % piece.length)];

/** What must work while the budget is used up. */
async function worksAtTheLimit(server, api, job) {
  for (const path of ['/healthz', '/readyz', '/metrics', '/v1/server']) assert.equal((await api.get(path)).status, 200, path);
  const extended = await api.post(`/v1/jobs/${job.id}/extend`, { token: job.token, lease_ms: 600_000 });
  assert.equal(extended.status, 200, extended.text);
  const acked = await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token });
  assert.equal(acked.json.state, 'done', acked.text);
  const small = await enqueue(api, 'honest', { payload: 1 });
  const next = await claimOne(api, 'honest');
  assert.equal(next.id, small.id);
  assert.equal((await api.post(`/v1/jobs/${next.id}/fail`, { token: next.token, error: 'no' })).status, 200);
}

/** A larger request is served as soon as there is room; a 503 says when to retry. */
async function largeIsServed(api, path, bytes) {
  await until('a large request is served', async () => {
    const answer = await api.once('POST', path, { json: Array.from({ length: bytes / JOB_BYTES }, () => ({ payload: 'y'.repeat(JOB_BYTES) })) });
    if (answer.status === 503) assert.match(answer.headers['retry-after'], /^\d+$/);
    else assert.equal(answer.status, 200, answer.text);
    return answer.status === 200;
  });
}

async function started(t, options = {}) {
  const server = await startServer({ backend: options.backend ?? 'memory', data: options.data ?? null, args: settings, env: leanSanitizer });
  const api = new Client(server);
  t.after(async () => {
    api.close();
    await stopServer(server); // a drain at the limit ends cleanly
  });
  await enqueue(api, 'work', { payload: 'w' });
  return { server, api, job: await claimOne(api, 'work', { lease_ms: 600_000 }), idle: residentMiB(server) };
}

function isBounded(t, server, idle, peak = peakMiB(server)) {
  t.diagnostic(`${idle.toFixed(0)} MiB at first, at most ${peak.toFixed(0)} MiB`);
  assert.ok(peak < idle + BUDGET_MIB + MARGIN_MIB, `${peak} MiB, ${idle} MiB at first`);
}

describe('HF-19 the memory budget over HTTP', () => {
  const half = (server) => connection(server, halfSent('/v1/queues/q/jobs', 4 * MIB, 8 * MIB), { reads: 'all' });
  // Requested often enough to fill the buffers of any kernel.
  const peek = '/v1/queues/big/peek?limit=100';
  const unreadPeek = (server) => connection(server, [`GET ${peek} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(16)]);
  const bigJobs = async (api) => {
    for (let i = 0; i < 16; i++) await enqueue(api, 'big', { payload: 'z'.repeat(JOB_BYTES) });
  };
  /** Whether a body of 7 MiB, which is not stored, was accepted. */
  const takes = async (api) => {
    const { status, text } = await api.once('POST', '/v1/queues/q/jobs', { body: 'x'.repeat(7 * MIB), headers: { 'content-type': 'application/json' } });
    assert.ok(status === 400 || status === 503, text);
    return status === 400;
  };

  test('incomplete bodies: the memory is bounded, other clients are served', async (t) => {
    const { server, api, job, idle } = await started(t);
    const all = Array.from({ length: 64 }, () => half(server));
    await until('all have sent their part', () => all.every((one) => one.done()));
    await usedUp(api);
    const full = await figures(api);
    assert.equal(full.budget, BUDGET_MIB * MIB);
    assert.ok(full.held <= full.budget, `${full.held} of ${full.budget}`);
    await worksAtTheLimit(server, api, job);
    await largeIsServed(api, '/v1/queues/q/jobs', MIB);
    await largeIsServed(api, '/v1/queues/q/jobs', 7 * MIB);
    await shedFor(api, 'body', () => takes(api), () => all.push(half(server)));
    isBounded(t, server, idle);
    await until('one is told when to try again', () => all.some(({ text }) => /^HTTP\/1\.1 503 .*\r\n(?:.*\r\n)*Retry-After: \d+\r\n/.test(text)));
    assert.ok(all.every(({ text }) => /^(HTTP\/1\.1 503 |$)/.test(text)), all.find(({ text }) => text)?.text);
    for (const one of all) one.socket.destroy();
    await until('all is given back', async () => (await figures(api)).held < MIB);
  });

  test('four thousand small incomplete bodies', async (t) => {
    const { server, api, job, idle } = await started(t);
    const all = Array.from({ length: 4000 }, () => connection(server, halfSent('/v1/queues/q/jobs', 60 << 10), { reads: 'all' }));
    await until('all have sent their part', () => all.every((one) => one.done()));
    await usedUp(api);
    const full = await figures(api);
    assert.ok(full.held <= full.budget, `${full.held} of ${full.budget}`);
    await worksAtTheLimit(server, api, job);
    await largeIsServed(api, '/v1/queues/q/jobs', MIB);
    isBounded(t, server, idle);
    for (const one of all) one.socket.destroy();
    await until('all is given back', async () => (await figures(api)).held < MIB);
  });

  test('replies that are not read: the memory is bounded, others are served', async (t) => {
    const { server, api, job } = await started(t);
    await bigJobs(api);
    const idle = residentMiB(server);
    const unread = Array.from({ length: 40 }, () => unreadPeek(server));
    await usedUp(api);
    const full = await figures(api);
    assert.ok(full.held <= full.budget, `${full.held} of ${full.budget}`);
    await worksAtTheLimit(server, api, job);
    await largeIsServed(api, '/v1/queues/q/jobs', 7 * MIB);
    await until('a peek is answered', async () => (await api.once('GET', peek)).status === 200);
    await shedFor(api, 'reply', () => takes(api), () => unread.push(unreadPeek(server)));
    isBounded(t, server, idle);
    for (const one of unread) one.socket.destroy();
    await until('all is given back', async () => (await figures(api)).held < MIB);
  });

  const claim = (bodyBytes, fields = {}, headers = '') => {
    const body = JSON.stringify(fields);
    const padded = body.padEnd(bodyBytes);
    return `POST /v1/queues/none/claim HTTP/1.1\r\nHost: localhost\r\n${headers}Content-Type: application/json\r\nContent-Length: ${padded.length}\r\n\r\n${padded}`;
  };
  const waiting = async (api) => sample((await figures(api)).text, 'holdfast_claims_waiting');

  for (const [name, request, each] of [
    ['with long bodies', () => claim(60 << 10, { wait_ms: 60_000 }), 1],
    ['with long headers', () => claim(2, { wait_ms: 60_000 }, `X-Padding: ${'h'.repeat(20 << 10)}\r\n`), 1],
    ['many on each connection', () => claim(15 << 10, { wait_ms: 60_000 }), 4],
    ['with more requests behind them', () => claim(2, { wait_ms: 60_000, count: 2 }) + 'GET /v1/server HTTP/1.1\r\nHost: localhost\r\n\r\n'.repeat(1000), 1],
  ])
    test(`claims that wait, ${name}: others are served`, async (t) => {
      const { server, api, job, idle } = await started(t);
      const count = 2000;
      const waits = Array.from({ length: count }, () => connection(server, Array.from({ length: each }, request)));
      await until('all have sent their claims', () => waits.every((one) => one.done()));
      // These use the room that the large ones left.
      for (const bytes of [8000, 3000, 2]) waits.push(...Array.from({ length: 300 }, () => connection(server, [claim(bytes, { wait_ms: 60_000 })])));
      await until('all have sent their claims', () => waits.every((one) => one.done()));
      const full = await figures(api);
      assert.ok(full.held <= full.budget, `${full.held} of ${full.budget}`);
      await worksAtTheLimit(server, api, job);
      await largeIsServed(api, '/v1/queues/q/jobs', 7 * MIB);
      isBounded(t, server, idle);
      t.diagnostic(`${await waiting(api)} wait, ${(await figures(api)).shed.wait} were shed`);
      for (const one of waits) one.socket.destroy();
      await until('all is given back', async () => (await figures(api)).held < MIB);
    });

  test('many pipelined claims of large jobs: their payloads are not all in memory at the same time', async (t) => {
    const [count, bytes] = [24, 7 * MIB];
    // Another process enqueues, so that this one starts without used memory.
    const data = temporaryDirectory();
    const first = await startServer({ data, args: settings, env: leanSanitizer });
    const producer = new Client(first);
    await queueFor(producer, 'none', bytes);
    for (let i = 0; i < count; i++) await enqueueBytes(producer, 'none', Buffer.alloc(bytes, 'z'));
    producer.close();
    await stopServer(first);
    const { server, api } = await started(t, { backend: 'sqlite', data });
    const idle = residentMiB(server);
    const before = answers((await figures(api)).text);
    const one = connection(server, [claim(2).repeat(count)]);
    await until('all are answered', async () => answers((await figures(api)).text) >= before + count);
    isBounded(t, server, idle);
    one.socket.destroy();
    // The kernel may have taken one or two replies whole.
    const { ready } = await until('the others are ready again', async () => {
      const { counts } = (await api.get('/v1/queues/none')).json;
      return counts.running <= 2 && counts;
    });
    assert.ok(ready >= count - 2, `${ready} of ${count}`);
  });

  test('a server with incomplete bodies and unread replies ends after its drain time, not after their time limits', async (t) => {
    const { server, api } = await started(t);
    await bigJobs(api);
    const all = Array.from({ length: 30 }, (_, i) => (i % 2 ? half(server) : unreadPeek(server)));
    await until('all have sent their part', () => all.every((one) => one.done()));
    await usedUp(api);
    api.close();
    server.process.kill('SIGTERM');
    await until('it ends', () => server.exit); // the time of a body, and of a reply, is 10 minutes
    assert.deepEqual(await server.closed, { code: 0, signal: null });
    for (const one of all) one.socket.resume();
    await Promise.all(all.map((one) => one.over));
  });
});

describe('HF-19 event streams that are not read', () => {
  const stream = (path) => [`GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`];
  const flood = async (api, batches) => {
    for (let i = 0; i < batches; i++) assert.equal((await api.post('/v1/queues/flood/jobs', Array.from({ length: 100 }, (_, k) => ({ payload: k })))).status, 200);
  };
  /** The ids of the events in the text of a stream, and whether it contains a gap. */
  const told = (text) => ({ ids: [...text.matchAll(/^id: (\d+)$/gm)].map(([, id]) => BigInt(id)), gap: /^event: gap$/m.test(text) });

  for (const [name, path] of [['from now on', '/v1/events'], ['from the past', '/v1/events?after=0'], ['each with its own filter', (i) => `/v1/events?queue=flood&events=enqueued,${['ready', 'claimed', 'done', 'dead'][i % 4]}`]]) {
    test(`a thousand ${name}: the memory is bounded, others are served`, async (t) => {
      const { server, api, job } = await started(t);
      const idle = residentMiB(server);
      if (path === '/v1/events?after=0') await flood(api, 100);
      const unread = Array.from({ length: 1000 }, (_, i) => connection(server, stream(typeof path === 'string' ? path : path(i)), { reads: 'first' }));
      await until('all are answered or shed', () => unread.every((one) => one.text !== '' || one.closed));
      assert.ok(unread.every(({ text }) => /^(HTTP\/1\.1 200 |$)/.test(text)), unread.find(({ text }) => text && !text.startsWith('HTTP/1.1 200 '))?.text);
      await flood(api, 200);
      const full = await figures(api);
      assert.ok(full.held <= full.budget, `${full.held} of ${full.budget}`);
      await worksAtTheLimit(server, api, job);
      await largeIsServed(api, '/v1/queues/q/jobs', 7 * MIB);
      isBounded(t, server, idle);
      for (const one of unread) one.socket.destroy();
      await until('all is given back', async () => (await figures(api)).held < MIB);
    });
  }

  for (const [name, path, method] of [['jobs', '/v1/queues/big/listen', 'POST'], ['values', '/v1/kv/watch?after=0', 'GET']])
    test(`streams of ${name} that are six times as long in JSON: the memory is bounded, others are served`, async (t) => {
      const { server, api, job } = await started(t);
      await queueFor(api, 'big', 4 * MIB);
      for (let i = 0; i < 8; i++)
        if (name === 'jobs') await enqueueBytes(api, 'big', Buffer.alloc(4 * MIB, 1));
        else assert.equal((await api.put(`/v1/kv/keys/k${i}`, '\u0001'.repeat(60 << 10))).status, 200);
      const idle = residentMiB(server);
      const before = answers((await figures(api)).text);
      const unread = Array.from({ length: name === 'jobs' ? 10 : 200 }, () => connection(server, [`${method} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n`]));
      await until('all are answered', async () => answers((await figures(api)).text) >= before + unread.length);
      await until('the budget has been used up', async () => (await figures(api)).refused > 0);
      await worksAtTheLimit(server, api, job);
      const full = await figures(api);
      assert.ok(sample(full.text, 'holdfast_memory_held_peak_bytes') <= full.budget, full.text);
      isBounded(t, server, idle);
      for (const one of unread) one.socket.destroy();
      await until('all is given back', async () => (await figures(api)).held < MIB);
    });

  test('a stream that reads late gets all events or a gap, in order, and then the following events', async (t) => {
    const { server, api } = await started(t);
    for (const batches of [20, 60, 200]) {
      const late = connection(server, stream('/v1/events?events=enqueued'));
      const eager = connection(server, stream('/v1/events?events=enqueued'));
      let all = '';
      eager.socket.on('data', (chunk) => (all += chunk.toString('latin1')));
      await until('they listen', async () => sample((await figures(api)).text, 'holdfast_listeners') === 2);
      await flood(api, batches);
      await until('the eager one has heard everything', () => told(all).ids.length === batches * 100);
      const ids = told(all).ids;
      let text = '';
      late.socket.on('data', (chunk) => (text += chunk.toString('latin1')));
      await until('the late one has come to the end', () => told(text).ids.at(-1) === ids.at(-1));
      const heard = told(text);
      assert.ok(heard.ids.every((id, i) => i === 0 || id > heard.ids[i - 1]), 'ids rise');
      assert.equal(heard.gap, heard.ids.length < ids.length, `${heard.ids.length} of ${ids.length}`);
      await flood(api, 1);
      await until('both hear what follows', () => told(text).ids.length === heard.ids.length + 100 && told(all).ids.length === ids.length + 100);
      assert.equal(told(text).ids.at(-1), told(all).ids.at(-1));
      t.diagnostic(`${heard.ids.length} of ${ids.length} events heard late, ${heard.gap ? 'with a gap' : 'no gap'}`);
      late.socket.destroy();
      eager.socket.destroy();
      await until('both are gone', async () => sample((await figures(api)).text, 'holdfast_listeners') === 0);
    }
  });
});

describe('HF-19 the memory budget over beanstalk', () => {
  const JOB = 900 << 10;
  const startedBeanstalk = async (t) => {
    const server = await startBeanstalk({ backend: 'memory', args: [...settings, '--beanstalk-max-job-bytes', '1MiB'], env: leanSanitizer });
    const api = new Client(server);
    t.after(async () => {
      api.close();
      await stopServer(server);
    });
    await enqueue(api, 'work', { payload: 'w' });
    return { server, api, job: await claimOne(api, 'work', { lease_ms: 600_000 }), idle: residentMiB(server) };
  };
  /** At the limit, clients of both protocols can work; returns a beanstalk client. */
  const bothWorkAtTheLimit = async (server, api, job) => {
    const full = await figures(api);
    assert.ok(full.held <= full.budget, `${full.held} of ${full.budget}`);
    await worksAtTheLimit(server, api, job);
    const c = await Beanstalk.connect(server.beanstalk);
    assert.match(await c.line('put 0 0 60 5\r\nhello'), /^INSERTED /);
    const reserved = await c.ask('reserve');
    assert.equal(await c.line(`delete ${reserved.line.split(' ')[1]}`), 'DELETED');
    return c;
  };
  const put = (body, missing = 0) => [`put 0 0 60 ${body.length + missing}\r\n`, body, ...(missing ? [] : ['\r\n'])];

  test('incomplete puts: the memory is bounded, other clients are served, both protocols share the budget', async (t) => {
    const { server, api, job, idle } = await startedBeanstalk(t);
    const body = Buffer.alloc(JOB, 'b');
    const half = Array.from({ length: 400 }, () => connection(server, put(body, 10), { port: server.beanstalk, reads: 'all' }));
    await until('all have sent their part', () => half.every((one) => one.done()));
    await usedUp(api);
    const c = await bothWorkAtTheLimit(server, api, job);
    await until('a large put is taken', async () => /^INSERTED/.test(await c.line(`put 0 0 60 ${JOB}\r\n${'c'.repeat(JOB)}`)));
    await largeIsServed(api, '/v1/queues/q/jobs', 7 * MIB);
    isBounded(t, server, idle);
    for (const one of half) one.socket.end('0123456789\r\nquit\r\n');
    await Promise.all(half.map((one) => one.over));
    const said = half.map((one) => one.text);
    assert.ok(said.includes('OUT_OF_MEMORY\r\n'), JSON.stringify(said.slice(0, 3)));
    assert.ok(said.every((text) => ['', 'OUT_OF_MEMORY\r\n'].includes(text) || /^INSERTED \d+\r\n$/.test(text)), JSON.stringify(said));
    await c.close();
    await until('all is given back', async () => (await figures(api)).held < MIB);
  });

  for (const [name, commands] of [['with commands behind them', `reserve\r\n${'delete 99999999\r\n'.repeat(3500)}`], ['many on each connection', 'reserve\r\n'.repeat(100)]])
    test(`reserves that wait, ${name}: others are served`, async (t) => {
      const { server, api, job, idle } = await startedBeanstalk(t);
      const waits = Array.from({ length: 1500 }, () => connection(server, [`watch none\r\nignore default\r\n${commands}`], { port: server.beanstalk }));
      await until('all have sent their commands', () => waits.every((one) => one.done()));
      const c = await bothWorkAtTheLimit(server, api, job);
      await largeIsServed(api, '/v1/queues/q/jobs', 7 * MIB);
      assert.ok((await figures(api)).shed.wait > 0);
      isBounded(t, server, idle);
      await c.close();
      for (const one of waits) one.socket.destroy();
      await until('all is given back', async () => (await figures(api)).held < MIB);
    });

  test('replies that are not read: the memory is bounded, others are served', async (t) => {
    const { server, api, job } = await startedBeanstalk(t);
    const c = await Beanstalk.connect(server.beanstalk);
    const id = (await c.line(`put 0 0 60 ${JOB}\r\n${'c'.repeat(JOB)}`)).split(' ')[1];
    const idle = residentMiB(server);
    const unreadPeeks = () => connection(server, [`peek ${id}\r\n`.repeat(150)], { port: server.beanstalk });
    const unread = Array.from({ length: 50 }, unreadPeeks);
    await usedUp(api);
    await worksAtTheLimit(server, api, job);
    assert.ok((await figures(api)).held <= BUDGET_MIB * MIB);
    await largeIsServed(api, '/v1/queues/q/jobs', 7 * MIB);
    const hasRoom = async () => (await c.ask(`peek ${id}`)).data?.length === JOB;
    await until('a peek is answered', hasRoom);
    await shedFor(api, 'reply', hasRoom, () => unread.push(unreadPeeks()));
    isBounded(t, server, idle);
    await c.close();
    for (const one of unread) one.socket.destroy();
    await until('all is given back', async () => (await figures(api)).held < MIB);
  });
});
