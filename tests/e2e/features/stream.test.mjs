// SPDX-License-Identifier: Apache-2.0
// Streams of jobs and of events: back-pressure, lost connections, resuming.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';

import { only } from '../lib/backend.mjs';
import { Client, openStream } from '../lib/client.mjs';
import { killServer, leanSanitizer, residentMiB, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue, onStores } from '../lib/suite.mjs';

const counts = async (api, queue) => (await api.get(`/v1/queues/${queue}`)).json.counts;
const listen = (server, queue, json = {}) => openStream(server, `/v1/queues/${queue}/listen`, { method: 'POST', json });
const nextJob = async (stream) => {
  const item = await stream.next();
  assert.equal(item.event, 'job');
  const job = JSON.parse(item.data);
  assert.equal(item.id, String(job.seq));
  return job;
};
const ack = async (api, job) => assert.equal((await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token })).status, 200);
const many = (api, queue, n, job = (i) => ({ payload: i })) => api.post(`/v1/queues/${queue}/jobs`, Array.from({ length: n }, (_, i) => job(i)));

/** A connection that requests a stream and reads only when the test says so. */
function deafStream(server, method, path, body = '') {
  const socket = net.connect(server.port, server.host);
  const got = { bytes: 0, text: '', closed: false };
  socket.pause();
  socket.on('error', () => {});
  socket.on('close', () => (got.closed = true));
  socket.on('data', (chunk) => {
    got.bytes += chunk.length;
    got.text += chunk.toString('latin1');
  });
  socket.write(`${method} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
  return { socket, got };
}

onStores('jobs as they come', ['memory', 'sqlite'], {}, (use) => {
  test('prefetch limits the unfinished jobs; an ack from another connection makes room', async () => {
    const { api, server } = use;
    const q = freshQueue();
    await many(api, q, 10);
    const stream = await listen(server, q, { prefetch: 3, worker: 'w1' }).opened;
    assert.equal(stream.status, 200);
    assert.match(stream.headers['content-type'], /^text\/event-stream/);
    const held = [await nextJob(stream), await nextJob(stream), await nextJob(stream)];
    assert.deepEqual(held.map((job) => job.payload), [0, 1, 2]);
    const now = await counts(api, q);
    assert.deepEqual([now.running, now.ready], [3, 7]);
    await ack(api, held[1]);
    assert.equal((await nextJob(stream)).payload, 3);
    await api.post(`/v1/jobs/${held[0].id}/fail`, { token: held[0].token, retry: false });
    assert.equal((await nextJob(stream)).payload, 4);
    await api.post(`/v1/jobs/${held[2].id}/release`, { token: held[2].token, delay_ms: 60000 });
    assert.equal((await nextJob(stream)).payload, 5);
    assert.equal((await counts(api, q)).running, 3);
    stream.close();
    await until('all are back', async () => (await counts(api, q)).running === 0);
  });

  test('later jobs are delivered at once, also those that become due', async () => {
    const { api, server } = use;
    const q = freshQueue();
    const stream = await listen(server, q).opened;
    const sent = Date.now();
    await enqueue(api, q, { payload: 'late', delay_ms: 300 });
    await enqueue(api, q, { payload: 'now' });
    const soon = (await nextJob(stream)).payload;
    assert.ok(soon === 'now' || Date.now() >= sent + 299, soon);
    assert.equal((await nextJob(stream)).payload, soon === 'now' ? 'late' : 'now');
    assert.ok(Date.now() >= sent + 299, 'not before its time');
    await api.post(`/v1/queues/${q}/pause`);
    await enqueue(api, q, { payload: 'paused' });
    await api.post(`/v1/queues/${q}/resume`);
    assert.equal((await nextJob(stream)).payload, 'paused');
    stream.close();
  });

  test('the jobs of a lost connection are ready at once, counted as a crash', async () => {
    const { api, server } = use;
    const q = freshQueue();
    await api.put(`/v1/queues/${q}`, { max_crashes: 2 });
    const { id } = await enqueue(api, q, { payload: 1 });
    for (const crashes of [1, 2]) {
      const stream = await listen(server, q, { lease_ms: 3600_000 }).opened;
      const job = await nextJob(stream);
      stream.close();
      await until('the job is back', async () => (await api.get(`/v1/jobs/${id}`)).json.state !== 'running');
      const seen = (await api.get(`/v1/jobs/${id}`)).json;
      assert.deepEqual([seen.crashes, seen.failures], [crashes, 0]);
      assert.equal((await api.post(`/v1/jobs/${id}/ack`, { token: job.token })).json.code, 'lease_lost');
    }
    const dead = (await api.get(`/v1/jobs/${id}`)).json;
    assert.deepEqual([dead.state, dead.reason], ['dead', 'crash_loop']);
  });

  test('a lost connection wakes another worker that waits', async () => {
    const { api, server } = use;
    const q = freshQueue();
    await enqueue(api, q, { payload: 1 });
    const stream = await listen(server, q).opened;
    const first = await nextJob(stream);
    const other = await listen(server, q, { worker: 'second' }).opened;
    stream.close();
    const second = await nextJob(other);
    assert.deepEqual([second.id, second.attempt], [first.id, 2]);
    assert.notEqual(second.token, first.token);
    other.close();
  });

  test('a lease that expires or is ended by others makes room', async () => {
    const { api, server } = use;
    const q = freshQueue();
    const stream = await listen(server, q, { prefetch: 1, lease_ms: 150 }).opened;
    await enqueue(api, q, { payload: 1 });
    const first = await nextJob(stream);
    const again = await nextJob(stream);
    assert.equal(again.id, first.id, 'the lease expired, so it is delivered again');
    assert.notEqual(again.token, first.token);
    stream.close();
    const r = freshQueue();
    const slow = await listen(server, r, { prefetch: 1 }).opened;
    await many(api, r, 3);
    const held = await nextJob(slow);
    const requested = await api.post(`/v1/jobs/${held.id}/cancel`);
    assert.equal(requested.status, 202, requested.text);
    assert.equal(requested.json.state, 'running', 'the worker still holds the job');
    const cancelled = await api.post(`/v1/jobs/${held.id}/cancel`, { force: true });
    assert.equal(cancelled.status, 200, cancelled.text);
    assert.equal(cancelled.json.state, 'cancelled');
    assert.equal((await nextJob(slow)).payload, 1);
    await api.delete(`/v1/queues/${r}`);
    await enqueue(api, r, { payload: 'again' });
    assert.equal((await nextJob(slow)).payload, 'again', 'the queue was deleted and created again');
    slow.close();
  });

  test('data is one line whatever the payload is', async () => {
    const { api, server } = use;
    const q = freshQueue();
    const texts = ['{\n"a"\r\n:\r1 }', '[\n\n\n]', '"\\n\\ndata: x\\n"', '"\u2028"', '\n\n{"id: 9":"event: y"}\n\n'];
    for (const text of texts) {
      const made = await api.request('POST', `/v1/queues/${q}/jobs`, { body: `{"payload":${text}}`, headers: { 'content-type': 'application/json' } });
      assert.equal(made.status, 201, made.text);
    }
    await api.request('POST', `/v1/queues/${q}/jobs`, { body: 'line\nline\r\n\r\nevent: z\n\n', headers: { 'content-type': 'text/plain' } });
    const stream = await listen(server, q, { prefetch: 10 }).opened;
    for (const text of texts) {
      const item = await stream.next();
      assert.deepEqual(Object.keys(item).sort(), ['data', 'event', 'id']);
      assert.doesNotMatch(item.data, /[\r\n]/);
      assert.deepEqual(JSON.parse(item.data).payload, JSON.parse(text));
    }
    assert.equal((await nextJob(stream)).payload_text, 'line\nline\r\n\r\nevent: z\n\n');
    stream.close();
  });

  test('twenty streams share a queue, each job once', async () => {
    const { api, server } = use;
    const q = freshQueue();
    const streams = await Promise.all(Array.from({ length: 20 }, () => listen(server, q, { prefetch: 2 }).opened));
    const seen = new Map();
    const work = streams.map(async (stream) => {
      for (;;) {
        const job = await nextJob(stream);
        seen.set(job.id, (seen.get(job.id) ?? 0) + 1);
        await ack(api, job);
      }
    });
    await many(api, q, 400);
    await until('all are done', async () => (await counts(api, q)).done === 400);
    for (const stream of streams) stream.close();
    await Promise.allSettled(work);
    assert.equal(seen.size, 400);
    assert.ok([...seen.values()].every((n) => n === 1));
  });
});

onStores('jobs with a store that loses replies', ['fault+sqlite'], {}, (use) => {
  test('workers that reconnect when their stream ends complete all jobs', async () => {
    const { api, server } = use;
    const q = freshQueue();
    await api.put(`/v1/queues/${q}`, { lease_ms: 2000, max_crashes: 0 });
    for (let i = 0; i < 100; i++) await enqueue(api, q, { payload: i });
    let over = false;
    const acked = new Set();
    const streams = new Set();
    const worker = async () => {
      while (!over) {
        const stream = listen(server, q, { prefetch: 3 });
        streams.add(stream);
        try {
          await stream.opened;
          for (;;) {
            const job = await nextJob(stream);
            const answer = await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token });
            if (answer.status === 200) acked.add(job.payload);
          }
        } catch (error) {
          if (error.code === 'ERR_ASSERTION') throw error;
        }
        streams.delete(stream);
      }
    };
    const workers = Array.from({ length: 5 }, worker);
    await until('all are done', async () => (await counts(api, q)).done === 100);
    over = true;
    for (const stream of streams) stream.close();
    await Promise.all(workers);
    assert.equal(acked.size, 100);
  });
});

describe('slow readers', () => {
  /** writeMs: a client that reads nothing for this long is disconnected. This process may not be scheduled for seconds: where
   * there is a client that must not be cut off, the time is long. */
  const started = async (t, writeMs) => {
    const server = await startServer({ backend: 'memory', args: ['--timeouts-write-ms', writeMs, '--cache-bytes', '1MiB', '--queue-defaults-payload-max', '4MiB'], env: leanSanitizer });
    const api = new Client(server);
    t.after(async () => {
      api.close();
      await stopServer(server);
    });
    return { server, api };
  };

  test('large payloads wait in the queue, not in memory; then all of them arrive', async (t) => {
    const { server, api } = await started(t, '10m');
    const q = freshQueue('slow');
    const text = 'x'.repeat(512 << 10);
    for (let i = 0; i < 60; i++) assert.equal((await api.post(`/v1/queues/${q}/jobs`, { payload: { i, text } })).status, 201);
    const idle = residentMiB(server);
    const stream = listen(server, q, { prefetch: 1000, lease_ms: 3600_000 });
    await stream.opened;
    const seen = [];
    let most = 0;
    while (seen.length < 60) {
      const job = await nextJob(stream);
      seen.push(job.payload.i);
      most = Math.max(most, residentMiB(server) - idle);
    }
    assert.deepEqual([...seen].sort((a, b) => a - b), Array.from({ length: 60 }, (_, i) => i));
    assert.equal(new Set(seen).size, 60);
    const { totals } = (await api.get(`/v1/queues/${q}/stats`)).json;
    t.diagnostic(`${totals.claimed} claims, at most ${most.toFixed(1)} MiB more`);
    assert.ok(totals.claimed <= 4 * 60, `60 jobs took ${totals.claimed} claims`);
    assert.ok(most < 48, `${most.toFixed(1)} MiB more while 30 MiB of payloads went through`);
    stream.close();
    await until('all are back', async () => (await counts(api, q)).running === 0);
  });

  test('a worker that does not read uses little memory and is disconnected, and its jobs become ready', async (t) => {
    const { server, api } = await started(t, '2s');
    const q = freshQueue('deaf');
    const text = 'x'.repeat(512 << 10);
    for (let i = 0; i < 40; i++) assert.equal((await api.post(`/v1/queues/${q}/jobs`, { payload: text })).status, 201);
    const idle = residentMiB(server);
    const { socket, got } = deafStream(server, 'POST', `/v1/queues/${q}/listen`, '{"prefetch":1000}');
    await until('some were handed out', async () => (await api.get(`/v1/queues/${q}/stats`)).json.totals.claimed > 0);
    let most = 0;
    await until('the server disconnects it', async () => {
      most = Math.max(most, residentMiB(server) - idle);
      return (await counts(api, q)).ready === 40;
    });
    assert.ok(most < 48, `${most.toFixed(1)} MiB more for 20 MiB of unread payloads`);
    assert.equal(got.bytes, 0);
    socket.destroy();
    assert.equal((await claimOne(api, q)).payload, text);
  });

  test('a listener that never reads uses bounded memory and does not disturb other clients', async (t) => {
    const { server, api } = await started(t, '10s');
    const deaf = Array.from({ length: 10 }, () => deafStream(server, 'GET', '/v1/events'));
    const well = await openStream(server, '/v1/events?events=enqueued').opened;
    const listeners = async () => Number((await api.get('/metrics')).text.match(/^holdfast_listeners (\d+)/m)[1]);
    await until('they listen', async () => (await listeners()) === 11);
    const q = freshQueue('deaf');
    const idle = residentMiB(server);
    // Until the buffers of the kernel are full and the write timeout of each connection has passed.
    let events = 0;
    await until('they are disconnected', async () => {
      const count = events < 30_000 ? 1000 : 50; // the buffers are full soon, then only the time has to pass
      const batch = await many(api, q, count, () => ({ correlation_id: 'c'.repeat(500), expires_in_ms: 1 }));
      assert.equal(batch.status, 200);
      for (let k = 0; k < count; k++) assert.equal((await well.next()).event, 'enqueued');
      events += count;
      return (await listeners()) === 1;
    }, 120_000);
    // Some 750 bytes each; kept for ten listeners they would be ten times as much.
    const all = (events * 750) / (1 << 20);
    const more = residentMiB(server) - idle;
    assert.ok(more < 40 + 4 * all, `${more.toFixed(1)} MiB more after ${events} events, ${all.toFixed(1)} MiB`);
    for (const { socket, got } of deaf) {
      socket.resume();
      await until('it is closed', () => got.closed);
    }
    well.close();
  });
});

describe('streams and the end of the server', () => {
  test('kill -9: the jobs of streams are ready after the restart, and no crash is counted', only('knows_its_death'), async (t) => {
    let server = await startServer({ data: temporaryDirectory() });
    t.after(() => stopServer(server));
    const first = new Client(server);
    await first.put('/v1/queues/q', { lease_ms: 3600_000 });
    await many(first, 'q', 20);
    const stream = await listen(server, 'q', { prefetch: 8 }).opened;
    const held = [];
    for (let i = 0; i < 8; i++) held.push(await nextJob(stream));
    await ack(first, held[0]); // also makes the claims before it durable
    const late = await nextJob(stream);
    first.close();
    await killServer(server);
    server = await startServer({ data: server.data });
    const api = new Client(server);
    const now = await counts(api, 'q');
    assert.deepEqual([now.ready, now.running, now.done], [19, 0, 1]);
    for (const job of [...held.slice(1), late]) {
      assert.equal((await api.get(`/v1/jobs/${job.id}`)).json.crashes, 0);
      assert.equal((await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token })).json.code, 'lease_lost');
    }
    api.close();
  });

  test('SIGTERM: clients that do not read do not delay the end of the server', async (t) => {
    const server = await startServer({ backend: 'memory', args: ['--timeouts-drain-ms', '500', '--timeouts-write-ms', '10m'] });
    t.after(() => stopServer(server));
    const api = new Client(server);
    const text = 'x'.repeat(512 << 10);
    for (let i = 0; i < 20; i++) await enqueue(api, 'q', { payload: text });
    const deaf = [deafStream(server, 'POST', '/v1/queues/q/listen', '{"prefetch":100}'), deafStream(server, 'GET', '/v1/events'), deafStream(server, 'POST', '/v1/queues/q/claim', '{"count":5}')];
    await until('jobs are held', async () => (await counts(api, 'q')).running > 5);
    api.close();
    server.process.kill('SIGTERM');
    const { code } = await until('it ends before the time to write is over', () => server.exit);
    assert.equal(code, 0, server.stderr);
    for (const { socket } of deaf) socket.destroy();
  });
});

describe('events', () => {
  let server, api, idleStream;
  before(async () => {
    server = await startServer({ backend: 'memory' });
    api = new Client(server);
    idleStream = openStream(server, '/v1/events?queue=unused');
    await idleStream.opened;
  });
  after(async () => {
    idleStream.close();
    api.close();
    await stopServer(server);
  });
  const open = (query = '', headers = {}) => openStream(server, `/v1/events${query}`, { headers }).opened;

  test('the events of a job come in order, with rising ids', async () => {
    const q = freshQueue();
    const stream = await open(`?queue=${q}`);
    const { id } = await enqueue(api, q, { payload: 1, correlation_id: 'c', max_attempts: 1 });
    const job = await claimOne(api, q);
    await api.post(`/v1/jobs/${id}/fail`, { token: job.token });
    await api.post(`/v1/jobs/${id}/requeue`);
    const again = await claimOne(api, q);
    await ack(api, again);
    const seen = [];
    while (seen.at(-1)?.event !== 'done') {
      const item = await stream.next();
      const data = JSON.parse(item.data);
      assert.deepEqual([data.event, data.id, data.queue], [item.event, item.id, q]);
      assert.match(data.at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
      seen.push(data);
    }
    const ofJob = seen.filter((one) => one.job?.id === id);
    assert.deepEqual(ofJob.map((one) => one.event), ['enqueued', 'claimed', 'dead', 'requeued', 'claimed', 'done']);
    assert.ok(ofJob.every((one) => one.job.correlation_id === 'c'));
    assert.ok(seen.every((one, i) => i === 0 || BigInt(one.id) > BigInt(seen[i - 1].id)));
    stream.close();
  });

  test('kinds and queues are filtered', async () => {
    const [q, r] = [freshQueue(), freshQueue()];
    const dead = await open('?events=dead,cancelled');
    const ofQueue = await openStream(server, `/v1/queues/${r}/listen?events=enqueued`).opened;
    for (const name of [q, r]) {
      const { id } = await enqueue(api, name, { payload: 1 });
      await api.post(`/v1/jobs/${id}/cancel`);
    }
    const second = await enqueue(api, r, { payload: 2 });
    for (const name of [q, r]) {
      const item = await dead.next();
      assert.deepEqual([item.event, JSON.parse(item.data).queue], ['cancelled', name]);
    }
    await ofQueue.next();
    assert.equal(JSON.parse((await ofQueue.next()).data).job.id, second.id);
    dead.close();
    ofQueue.close();
  });

  test('Last-Event-ID resumes without loss or repetition, and takes precedence over after', async () => {
    const q = freshQueue();
    let stream = await open(`?queue=${q}&events=enqueued`);
    const seqs = [];
    let last;
    const take = async (n) => {
      for (let i = 0; i < n; i++) {
        const item = await stream.next();
        assert.equal(item.event, 'enqueued', item.data);
        last = item.id;
        seqs.push(JSON.parse(item.data).job.seq);
      }
    };
    const made = [];
    const add = async (n) => made.push(...(await many(api, q, n)).json.jobs.map((one) => one.seq));
    await add(20);
    await take(7);
    stream.close();
    await add(20);
    stream = await open(`?queue=${q}&events=enqueued&after=1`, { 'last-event-id': last });
    await take(20);
    stream.close();
    stream = await open(`?queue=${q}&events=enqueued&after=${last}`);
    await add(5);
    await take(18);
    stream.close();
    assert.deepEqual(seqs, made);
  });

  test('200 listeners at once receive all events', async () => {
    const q = freshQueue();
    const streams = await Promise.all(Array.from({ length: 200 }, () => open(`?queue=${q}&events=enqueued`)));
    const { jobs } = (await many(api, q, 50)).json;
    await Promise.all(
      streams.map(async (stream) => {
        for (const { id } of jobs) assert.equal(JSON.parse((await stream.next()).data).job.id, id);
        stream.close();
      }),
    );
    await until('they are gone', async () => Number((await api.get('/metrics')).text.match(/^holdfast_http_connections (\d+)/m)?.[1] ?? 0) < 100);
  });

  test('after more than 16,384 missed events a gap is reported, and all later events follow', async () => {
    const q = freshQueue();
    const stream = await open(`?queue=${q}&events=enqueued`);
    await enqueue(api, q, { payload: 'first' });
    const first = await stream.next();
    stream.close();
    let lastJob;
    for (let i = 0; i < 17; i++) lastJob = (await many(api, q, 1000)).json.jobs.at(-1);
    const late = await open(`?queue=${q}&events=enqueued`, { 'last-event-id': first.id });
    const gap = await late.next();
    assert.equal(gap.event, 'gap');
    assert.ok(BigInt(JSON.parse(gap.data).oldest) > BigInt(first.id));
    let count = 0;
    for (let before = null; ; count++) {
      const { job } = JSON.parse((await late.next()).data);
      if (before !== null) assert.equal(job.seq, before + 1, 'nothing is missing behind the gap');
      before = job.seq;
      if (job.id === lastJob.id) break;
    }
    assert.ok(count > 4000 && count < 16_384, `${count}`);
    late.close();
  });

  test('an id from the future is reported as a gap', async () => {
    const q = freshQueue();
    const stream = await open(`?queue=${q}`, { 'last-event-id': '9223372036854775807' });
    await enqueue(api, q, { payload: 1 });
    const item = await stream.next();
    assert.ok(['gap', 'queue_created', 'enqueued'].includes(item.event));
    stream.close();
  });

  test('HEAD of a stream ends', async () => {
    const answer = await api.request('HEAD', '/v1/events');
    assert.equal(answer.status, 200);
    assert.match(answer.headers['content-type'], /^text\/event-stream/);
  });

  test('an idle stream gets a comment from time to time', only('long_silence'), async () => {
    await until('a comment came', () => idleStream.comments > 0);
  });
});

describe('events across a restart', () => {
  for (const [how, end] of [['SIGTERM', (server) => stopServer(server)], ['kill -9', killServer]]) {
    test(`${how}: a gap is reported at once, then all later events`, async () => {
      let server = await startServer({ data: temporaryDirectory() });
      let api = new Client(server);
      let stream = await openStream(server, '/v1/events?events=enqueued').opened;
      await enqueue(api, 'q', { payload: 1 });
      const seen = await stream.next();
      api.close();
      await end(server);
      await until('the stream ended', () => stream.ended());
      server = await startServer({ data: server.data });
      api = new Client(server);
      stream = await openStream(server, '/v1/events?events=enqueued', { headers: { 'last-event-id': seen.id } }).opened;
      const first = await stream.next(); // nothing has happened yet, so only a gap can be sent
      assert.equal(first.event, 'gap');
      const { id } = await enqueue(api, 'q', { payload: 2 });
      const next = await stream.next();
      assert.deepEqual([next.event, JSON.parse(next.data).job.id], ['enqueued', id]);
      assert.ok(BigInt(next.id) > BigInt(seen.id));
      stream.close();
      stream = await openStream(server, '/v1/events?events=enqueued', { headers: { 'last-event-id': next.id } }).opened;
      const third = await enqueue(api, 'q', { payload: 3 });
      assert.equal(JSON.parse((await stream.next()).data).job.id, third.id, 'no second gap');
      stream.close();
      api.close();
      await stopServer(server);
    });
  }
});
