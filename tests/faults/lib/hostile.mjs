// SPDX-License-Identifier: Apache-2.0
// A store with invalid replies: a proxy in front of the real server that changes its replies, a load that makes a node
// use every part of its store, and what must always hold: the node keeps running, answers /healthz, uses bounded memory,
// and works again once the real replies arrive. The seed is part of every message.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { fileURLToPath } from 'node:url';

import { Client } from '../../e2e/lib/client.mjs';
import { joinSockets } from '../../e2e/lib/proxy.mjs';
import { killServer, leanSanitizer, residentMiB, startServer, stopServer, until } from '../../e2e/lib/server.mjs';

const MEMORY_MIB = 1200; // with a sanitizer, which needs twice or three times what the program does

/** Random numbers from a seed: next() is in [0, 1). */
export class Random {
  constructor(seed) {
    this.state = seed >>> 0;
  }
  next() {
    this.state = (this.state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(this.state ^ (this.state >>> 15), 1 | this.state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  }
  below(n) {
    return Math.floor(this.next() * n);
  }
  chance(p) {
    return this.next() < p;
  }
  pick(list) {
    return list[this.below(list.length)];
  }
  bytes(n) {
    return Buffer.from(Array.from({ length: n }, () => this.below(256)));
  }
}

/** Whole numbers that programs get wrong, as 64 bits. */
export const boundaries = [0n, 1n, -1n, 2n, 7n, 255n, 256n, 65535n, 65536n, 2147483647n, -2147483648n, 4294967295n, 4294967296n,
  (1n << 46n), (1n << 53n) - 1n, 1n << 53n, (1n << 62n), 9223372036854775807n, -9223372036854775808n];

/** Changed bytes: one or some of them, or cut, or with some more. */
export function scramble(random, bytes) {
  const copy = Buffer.from(bytes);
  switch (random.below(4)) {
    case 0:
      return copy.subarray(0, random.below(copy.length + 1));
    case 1:
      return Buffer.concat([copy, random.bytes(1 + random.below(16))]);
    default:
      for (let n = 1 + random.below(4); n > 0 && copy.length > 0; n--) copy[random.below(copy.length)] = random.below(256);
      return copy;
  }
}

/** Whether to change this message: rarely at the start of a connection, or it would never get further. */
export function lies(random, rate, count, first) {
  return random.chance(count < first ? rate * 0.05 : rate);
}

/** target: of net.connect; translator: (random, rate) → an object whose take(bytes) gives what to send instead. */
export class HostileProxy {
  constructor(target, translator, random) {
    Object.assign(this, { target, translator, random, rate: 0, sockets: new Set() });
    this.server = net.createServer((near) => this.join(near));
  }

  async listen() {
    await new Promise((resolve, reject) => this.server.once('error', reject).listen(0, '127.0.0.1', resolve));
    this.port = this.server.address().port;
    return this;
  }

  join(near) {
    const far = net.connect(this.target);
    const say = this.translator(this.random, () => this.rate);
    joinSockets(this.sockets, near, far);
    far.on('data', (chunk) => {
      for (const piece of say.take(chunk)) {
        if (piece) near.write(piece);
        else near.destroy();
      }
    });
  }

  /** The share of changed replies, 0 = none; with 0 all connections are closed, so that new ones are correct. */
  set(rate) {
    this.rate = rate;
    if (rate === 0) for (const socket of this.sockets) socket.destroy();
  }

  close() {
    this.set(0);
    this.server.close();
  }
}

/** A server that answers every request with random bytes: { port, asked }, asked = by how many connections. */
export async function randomServer(t, seed) {
  const random = new Random(seed);
  const asked = { asked: 0 };
  const server = net.createServer((client) => {
    client.on('error', () => {});
    client.on('data', () => client.write(random.bytes(1 + random.below(2000))));
    client.once('data', () => ++asked.asked && setTimeout(() => client.destroy(), 300).unref());
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.after(() => server.close());
  return Object.assign(asked, { port: server.address().port });
}

// ---- the load ----

const body = (random) => ({
  payload: random.chance(0.1) ? 'x'.repeat(random.below(40_000)) : { n: random.below(1000) },
  ...(random.chance(0.3) ? { unique: `u${random.below(5)}`, unique_mode: random.pick(['reject', 'return', 'replace']) } : {}),
  ...(random.chance(0.2) ? { delay_ms: random.below(2000) } : {}),
  ...(random.chance(0.2) ? { group: `g${random.below(3)}` } : {}),
  ...(random.chance(0.2) ? { max_attempts: 1 + random.below(3), correlation_id: 'c' } : {}),
});
const queueOf = (random) => `q${random.below(4)}`;

/** Every kind of request that a node sends to its store. */
const acts = [
  (r) => ['POST', `/v1/queues/${queueOf(r)}/jobs`, body(r)],
  (r) => ['POST', `/v1/queues/${queueOf(r)}/jobs`, Array.from({ length: 1 + r.below(20) }, () => body(r))],
  (r) => ['POST', `/v1/queues/${queueOf(r)}/jobs`, { payload: 1 }, { 'idempotency-key': `k${r.below(10)}` }],
  (r, s) => ['POST', `/v1/queues/${queueOf(r)}/claim`, { count: 1 + r.below(10), worker: `w${r.below(3)}`, lease_ms: r.chance(0.5) ? 500 : 60_000 }, {}, s],
  (r, s) => ['POST', `/v1/claim`, { queues: ['q0', 'q1', 'q2'], count: 5, wait_ms: r.below(50) }, {}, s],
  (r, s) => s.of(r, ({ id, token }) => ['POST', `/v1/jobs/${id}/${r.pick(['ack', 'fail', 'extend', 'release'])}`, { token }]),
  (r, s) => ['POST', '/v1/ack', { jobs: [s.job(r), s.job(r)].map(({ id, token }) => ({ id, token })) }],
  (r, s) => ['GET', `/v1/jobs/${s.job(r).id}`],
  (r, s) => ['POST', `/v1/jobs/${s.job(r).id}/${r.pick(['cancel', 'requeue'])}`],
  (r, s) => ['PATCH', `/v1/jobs/${s.job(r).id}`, { priority: r.below(100) }],
  (r) => ['GET', `/v1/jobs?limit=${1 + r.below(100)}&state=${r.pick(['ready', 'running', 'dead', 'done', 'scheduled'])}&queue=${queueOf(r)}`],
  (r) => ['GET', `/v1/queues/${queueOf(r)}/peek?state=${r.pick(['ready', 'scheduled', 'running', 'dead'])}`],
  () => ['GET', '/v1/queues'],
  (r) => ['GET', `/v1/queues/${queueOf(r)}/stats`],
  (r) => ['GET', `/v1/queues/${queueOf(r)}/history`],
  (r) => ['PUT', `/v1/queues/${queueOf(r)}`, { max_attempts: 1 + r.below(5), capacity: 10_000, warn_depth: r.below(50), keep_done: r.below(20) }],
  (r) => ['POST', `/v1/queues/${queueOf(r)}/${r.pick(['pause', 'resume', 'purge'])}`],
  (r) => ['POST', `/v1/queues/${queueOf(r)}/requeue`, { states: ['dead', 'cancelled'] }],
  (r) => ['DELETE', `/v1/queues/q${3 + r.below(1)}`],
  () => ['GET', '/metrics'],
  () => ['GET', '/v1/workers'],
  () => ['GET', '/v1/exceptions'],
  () => ['GET', '/v1/cluster'],
  () => ['GET', '/v1/snapshot'],
  (r) => ['PUT', `/v1/kv/keys/key${r.below(5)}`, { value: { n: r.below(9) } }],
  (r) => ['GET', `/v1/kv/keys/key${r.below(5)}`],
  () => ['GET', '/v1/kv?prefix='],
  (r) => ['PUT', `/v1/schedules/s${r.below(3)}`, { every_ms: 1000, queue: 'q1', job: { payload: 1 } }],
  () => ['GET', '/v1/schedules'],
  (r) => ['POST', `/v1/schedules/s${r.below(3)}/run`],
  (r) => ['PUT', `/v1/alerts/a${r.below(2)}`, { on: r.pick(['dead', 'deep']), queue: '*', webhook: { url: 'http://127.0.0.1:9/x' } }],
  () => ['GET', '/v1/alerts'],
  () => ['GET', '/v1/notices'],
  () => ['GET', '/v1/breakers'],
  (r) => ['POST', '/v1/kv/commit', { sets: [{ key: ['a', r.below(3)], value: 1 }], enqueues: [{ queue: 'q2', payload: 1 }] }],
];

/** Jobs that were claimed, as far as the replies show it. */
class Seen {
  constructor() {
    this.jobs = [{ id: '1', token: '1-1' }];
    this.counts = {}; // answers by status
  }
  job(random) {
    return random.pick(this.jobs);
  }
  of(random, fn) {
    return fn(this.job(random));
  }
  note(answer) {
    for (const job of Array.isArray(answer.json?.jobs) ? answer.json.jobs : [])
      if (job?.id) this.jobs.push({ id: String(job.id), token: String(job.token ?? '1-1') });
    this.jobs = this.jobs.slice(-50);
  }
}

/** A request whose reply need not be JSON: a payload is returned as the store has it. */
function ask(api, method, path, json, headers) {
  const body = json === undefined ? undefined : JSON.stringify(json);
  const all = body === undefined ? headers : { ...headers, 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  const { host, port } = api.server;
  return new Promise((resolve, reject) => {
    const request = http.request({ host, port, method, path, headers: all, agent: api.agent, signal: AbortSignal.timeout(60_000) }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk)).on('error', reject);
      response.on('end', () => {
        const answer = { status: response.statusCode };
        try {
          answer.json = JSON.parse(text);
        } catch {
          // the reply contains nothing useful
        }
        resolve(answer);
      });
    });
    request.on('error', reject).end(body);
  });
}

/** After a refusal because the store is unavailable: waits until it is available, or for some time. */
async function patience(api) {
  const end = Date.now() + 1500;
  while (Date.now() < end && (await api.once('GET', '/readyz')).status !== 200) await new Promise((resolve) => setTimeout(resolve, 20));
}

/** One request; it may fail with any status, but it must be answered. */
async function act(api, random, seen, seed) {
  const [method, path, json, headers = {}, keep] = random.pick(acts)(random, seen);
  const answer = await ask(api, method, encodeURI(path), json, headers).catch((error) => {
    throw Object.assign(new Error(`seed ${seed}: ${method} ${path} ${JSON.stringify(json)}: ${error.message}`), { code: error.code });
  });
  assert.ok(answer.status >= 200 && answer.status < 600, `seed ${seed}: ${method} ${path} gave ${answer.status}`);
  seen.counts[answer.status] = (seen.counts[answer.status] ?? 0) + 1;
  if (keep) keep.note(answer);
  if (answer.status === 503) await patience(api);
}

/** The process has not ended, and is not too large; a process that is ending has no memory any more. */
async function alive(server, seed) {
  let mib = 0;
  try {
    mib = residentMiB(server);
  } catch {
    await server.closed;
  }
  if (server.exit) assert.fail(`seed ${seed}: the server ended (${server.exit.code ?? server.exit.signal})\n${server.stderr.slice(-6000)}`);
  assert.ok(mib < MEMORY_MIB, `seed ${seed}: the server has ${mib.toFixed(0)} MiB`);
}

const settings = {
  HOLDFAST_CLUSTER_LEADER_TTL_MS: '1s', HOLDFAST_CLUSTER_SILENT_MS: '2s', HOLDFAST_TIMEOUTS_BACKEND_MS: '1s',
  HOLDFAST_LOG_LEVEL: 'error', HOLDFAST_WEBHOOKS_ALLOW_PRIVATE: 'true', ...leanSanitizer,
  LSAN_OPTIONS: `suppressions=${fileURLToPath(new URL('hostile.supp', import.meta.url))}:print_suppressions=0`,
};

/** A node on a store with invalid replies for `actions` requests of each of several clients; then it must work again. */
export async function liedTo({ proxy, url, seed, rate, actions }) {
  const random = new Random(seed);
  const server = await startServer({ backend: url, env: settings });
  const api = new Client(server);
  try {
    const seen = new Seen();
    for (let i = 0; i < 30; i++) await act(api, random, seen, seed);
    proxy.set(rate);
    await Promise.all(Array.from({ length: 4 }, async (_, client) => {
      for (let i = 0; i < actions; i++) {
        await act(api, random, seen, seed).catch(async (error) => {
          if (error.code === 'ECONNRESET' || error.code === 'ECONNREFUSED') await server.closed;
          await alive(server, seed);
          throw error;
        });
        await alive(server, seed);
        if (client === 0 && i % 10 === 0) assert.equal((await api.once('GET', '/healthz')).status, 200, `seed ${seed}`);
      }
    }));
    proxy.set(0);
    console.log(`# seed ${seed}: answers by status ${JSON.stringify(seen.counts)}`);
    await until(`seed ${seed}: it works again`, async () => {
      await alive(server, seed);
      return works(api, `fresh${seed}`);
    }, 60_000);
    api.close();
    await stopServer(server);
  } finally {
    api.close();
    if (!server.exit) await killServer(server);
  }
}

/** A job is enqueued, claimed and acknowledged. */
async function works(api, queue) {
  const made = await api.once('POST', `/v1/queues/${queue}/jobs`, { json: { payload: 1 } });
  if (made.status !== 201) return false;
  const claimed = await api.once('POST', `/v1/queues/${queue}/claim`, { json: {} });
  const job = claimed.json?.jobs?.[0];
  if (claimed.status !== 200 || !job) return false;
  return (await api.once('POST', `/v1/jobs/${job.id}/ack`, { json: { token: job.token } })).status === 200;
}

/** A server that gets invalid replies while it starts: it starts, or ends with a message. */
export async function startedOn({ url, seed }) {
  let spawned;
  try {
    const server = await startServer({ backend: url, env: settings, spawned: (one) => (spawned = one) });
    const api = new Client(server);
    const health = await api.once('GET', '/healthz');
    api.close();
    assert.equal(health.status, 200, `seed ${seed}`);
    await alive(server, seed);
    await killServer(server);
  } catch (error) {
    if (!spawned.exit) await killServer(spawned);
    assert.ok(/ended before it was ready/.test(error.message), `seed ${seed}: ${error.stack}`);
    assert.ok(spawned.exit.signal === null && spawned.exit.code === 1, `seed ${seed}: it ended with ${spawned.exit.code ?? spawned.exit.signal}\n${spawned.stderr.slice(-6000)}`);
  }
}
