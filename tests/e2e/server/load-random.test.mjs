// SPDX-License-Identifier: Apache-2.0
// Random requests to every route that are pipelined, interrupted, half-closed or not read: the server keeps running, replies only
// with statuses of the API and stops cleanly, and its store is sound. HF_SEED repeats a run.
import assert from 'node:assert/strict';
import net from 'node:net';
import { describe, test } from 'node:test';

import { has, storeKind } from '../lib/backend.mjs';
import * as f from '../lib/fields.mjs';
import { routes, run } from '../lib/program.mjs';
import { startServer, stopServer, temporaryDirectory } from '../lib/server.mjs';

const REQUESTS = 5000;
const CLIENTS = 24;
const table = await routes();
const id = f.text(64);
const named = { name: f.text(200), description: f.text(4096) };
const item = { reference: f.text(512), priority: f.priority, payload: f.raw };
const schedule = {
  queue: f.text(200), cron: f.word('* * * * *', '0 3 * * 1'), every_ms: f.int(1000, 86_400_000), timezone: f.word('UTC', 'Europe/Berlin'), misfire: f.word('skip', 'once', 'all'),
  source_queue: f.text(200), batch_size: f.int(1, 1000), eager: f.bool, interval_ms: f.int(1000, 86_400_000), job: f.raw, description: f.text(4096),
};
const alert = {
  on: f.word('dead', 'deep', 'error_share'), queue: f.text(200), enabled: f.bool, depth: f.int(1, 1000), percent: f.int(1, 100), window_ms: f.int(1000, 3_600_000), min_ends: f.int(1, 100),
  after_ms: f.int(1000, 3_600_000), with_payload: f.bool,
};
const trigger = { type: f.word('TIME', 'QUEUE'), queue_id: f.int(1, 5), target_queue: f.text(200), batch_size: f.int(1, 100), polling_interval: f.int(1, 3600), enabled: f.bool, eager: f.bool, cron: f.word('* * * * *') };
const webType = { queue_type: f.word('processing', 'calibration'), library_id: f.int(1, 5) };
const breaker = { failure_threshold: f.int(1, 1000), open_cooldown_seconds: f.int(1, 3600), half_open_probe_count: f.int(1, 100) };
const none = {};
/** The members of each body. A route that is not here has no body: its method is GET or DELETE. */
const fieldsOf = {
  'PUT /v1/queues/{queue}': f.policy, 'PATCH /v1/queues/{queue}': f.policy, 'POST /v1/queues/{queue}/jobs': f.job,
  'POST /v1/queues/{queue}/claim': f.claim, 'POST /v1/claim': { ...f.claim, queues: f.texts }, 'POST /v1/queues/{queue}/listen': f.listen,
  'POST /v1/queues/{queue}/pause': f.pause, 'POST /v1/queues/{queue}/cancel': f.bulk, 'POST /v1/queues/{queue}/requeue': f.bulk,
  'POST /v1/queues/{queue}/remove': f.bulk, 'POST /v1/queues/{queue}/resume': none, 'POST /v1/queues/{queue}/purge': none,
  'POST /v1/jobs/{id}/ack': f.ack, 'POST /v1/jobs/{id}/fail': f.fail, 'POST /v1/jobs/{id}/extend': f.extend, 'POST /v1/jobs/{id}/release': f.release,
  'POST /v1/jobs/{id}/progress': f.progress, 'POST /v1/jobs/{id}/log': f.log, 'POST /v1/jobs/{id}/steps/{name}': f.step, 'PATCH /v1/jobs/{id}': f.patch, 'POST /v1/jobs/{id}/cancel': f.cancel,
  'POST /v1/jobs/{id}/requeue': { delay_ms: f.int(0, 1000) }, 'POST /v1/jobs/{id}/dependencies': { depends_on: f.raw, close: f.bool },
  'POST /v1/batches': { jobs: f.raw, then: f.raw, on_failure: f.word('cancel', 'run', 'dead'), open: f.bool }, 'POST /v1/batches/{id}/jobs': { jobs: f.raw }, 'POST /v1/batches/{id}/close': none,
  'POST /v1/jobs/{id}/discard': none, 'POST /v1/workers/{name}/heartbeat': f.heartbeat,
  'PUT /v1/breakers/{name}': breaker, 'POST /v1/breakers/{name}/allow': none,
  'POST /v1/breakers/{name}/report': { ok: f.bool, rate_limited: f.bool, retry_after_ms: f.int(0, 86_400_000) },
  'POST /v1/kv/commit': { checks: f.raw, sets: f.raw, deletes: f.raw, enqueues: f.raw }, 'POST /v1/kv/get': { keys: f.raw }, 'PUT /v1/kv/keys/{key}': { value: f.raw, expires_in_ms: f.int(1, 10_000) },
  'PUT /v1/schedules/{name}': schedule, 'PATCH /v1/schedules/{name}': schedule, 'POST /v1/schedules/preview': schedule, 'POST /v1/schedules/{name}/run': none,
  'POST /v1/schedules/{name}/pause': none, 'POST /v1/schedules/{name}/resume': none, 'PUT /v1/alerts/{name}': alert, 'PATCH /v1/alerts/{name}': alert,
  'POST /v1/notices/{id}/redeliver': none, 'POST /v1/compact': none, 'POST /v1/test/clock': { advance_ms: f.int(0, 10_000) }, 'POST /v1/clock/accept': none,
  'POST /keyval/api/queue/enqueue': { value: f.raw, options: f.raw }, 'POST /keyval/api/queue/ack': { id, token: f.token },
  'POST /keyval/api/queue/nack': { id, token: f.token, error: f.cut, delay: f.int(0, 1000) }, 'POST /keyval/api/queue/dlq/{id}/requeue': none,
  'POST /api/queues': named, 'PUT /api/queues/{id}': named, 'PATCH /api/queues/{id}': named, 'POST /api/queue-items': { queue_id: f.int(1, 5), ...item },
  'POST /api/queue-items/add': { queue_name: f.text(200), ...item }, 'PUT /api/queue-items/{id}': { status: f.text(64), result: f.raw, error_message: f.cut },
  'POST /api/queue-items/{id}/status': { status: f.text(64), result: f.raw, error_message: f.cut }, 'POST /api/queue-items/{id}/renew': { token: f.token },
  'POST /api/triggers': trigger, 'PUT /api/triggers/{id}': trigger, 'PATCH /api/triggers/{id}': trigger,
  'POST /api/tasks': { name: f.text(200), payload: f.raw, priority: f.word('high', 'low'), scheduled_at: f.time, max_retries: f.int(0, 10), queue: f.text(200) },
  'POST /api/tasks/claim': { worker: f.text(128), queue: f.text(200) }, 'POST /api/tasks/{id}/claim': { worker: f.text(128) }, 'POST /api/tasks/{id}/heartbeat': { token: f.token }, 'POST /api/tasks/{id}/complete': { token: f.token, result: f.raw },
  'POST /api/tasks/{id}/fail': { token: f.token, error: f.cut },
  'POST /api/web/queue/enqueue': { path: f.text(512), priority: f.int(-10, 10), ...webType }, 'POST /api/web/queue/dequeue': webType, 'POST /api/web/queue/complete': { id, results: f.raw },
  'POST /api/web/queue/fail': { id, error: f.cut }, 'POST /api/web/queue/renew': { id }, 'POST /api/web/queue/requeue': { id }, 'POST /api/web/queue/retry-errors': webType,
  'POST /api/web/queue/clear-completed': webType, 'POST /api/web/queue/clear-errors': webType,
};
/** Bodies that have another shape than one object of these members. */
const listsOf = ['POST /v1/ack', 'POST /v1/fail', 'POST /v1/extend', 'POST /v1/release'];
const bodies = { 'POST /v1/import': '[{"id":"x","queue":"a","payload":1,"log":[{"at":"2026-01-01T00:00:00Z","text":"x"}],"progress":{"percent":1,"at":"2026-01-01T00:00:00Z"}}]' };
/** Routes to which no request is sent, and why. */
const leftOut = {};
const keyOf = ({ method, pattern }) => `${method} ${pattern}`;
const destructive = /^(PUT|DELETE)|purge|remove|\/cancel|pause|clock|backup|compact/;
const known = [100, 200, 201, 202, 204, 400, 404, 409, 410, 413, 422, 429];

function generator(seed) {
  let state = seed >>> 0;
  const random = (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  const pick = (list) => list[random(list.length)];
  const used = table.filter((route) => !(keyOf(route) in leftOut));
  const requested = new Set();
  const everywhere = () => requested.size === used.length;
  const tokens = ['1-1'];
  const token = () => JSON.stringify(pick(tokens));
  const id = () => 1 + random(300);

  const member = (name, field) => {
    if (name === 'token') return token();
    if (name === 'queues') return '["a","b"]';
    if (name === 'leases') return `[{"id":${id()},"token":${token()}}]`;
    if (name === 'wait_ms') return String(random(500));
    return random(4) ? pick([...f.goodValues(field), 'null']) : pick([...f.badValues(field), '1']);
  };
  const bodyOf = (key) => {
    const fields = fieldsOf[key];
    if (listsOf.includes(key)) return `{"jobs":[{"id":${id()},"token":${token()}},{"id":${id()},"token":${token()}}]}`;
    if (!fields) return bodies[key];
    const chosen = Object.entries(fields).filter(([name]) => name === 'token' || name === 'queues' || random(4) === 0);
    return `{${chosen.map(([name, field]) => `"${name}":${member(name, field)}`).join(',')}}`;
  };
  const queryOf = (key) => {
    const fields = key.startsWith('GET ') && f.queries[key.slice(4)];
    if (!fields || random(2)) return '';
    return `?${Object.entries(fields).filter(() => random(3) === 0).map(([name, field]) => `${name}=${encodeURIComponent(pick(f.goodTexts(field)))}`).join('&')}`;
  };
  const request = () => {
    const { method, pattern } = random(3) ? pick(used) : { method: 'POST', pattern: '/v1/queues/{queue}/jobs' };
    const key = `${method} ${pattern}`;
    if (destructive.test(key) && random(8)) return '';
    requested.add(key);
    const path = pattern.replace('{queue}', pick(['a', 'b', 'c%2f', '%c3%bc', 'x'.repeat(200)])).replace(/\{id\}/, id()).replace(/\{\w+\}/g, () => pick(['a', 'b', 'not_found']));
    let body = ['POST', 'PUT', 'PATCH'].includes(method) ? bodyOf(key) : '';
    if (key === 'POST /v1/queues/{queue}/jobs' && random(3) === 0) body = `[${body},${body},{}]`;
    const bytes = Buffer.from(body);
    if (bytes.length && random(50) === 0) bytes[random(bytes.length)] = random(256);
    const headers = [`Content-Type: ${random(20) ? 'application/json' : 'text/plain'}`, random(5) ? null : `Idempotency-Key: k${random(50)}`, random(5) ? null : 'Accept: application/octet-stream'];
    return `${method} ${path}${queryOf(key)} HTTP/1.1\r\nHost: localhost\r\n${headers.filter(Boolean).join('\r\n')}\r\nContent-Length: ${bytes.length}\r\n\r\n${bytes.toString('latin1')}`;
  };
  const learn = (text) => {
    for (const [, one] of text.matchAll(/"token":"([^"]+)"/g)) tokens.push(one);
    tokens.splice(0, tokens.length - 60);
  };
  return { random, request, learn, everywhere };
}

/** One connection: it sends some requests at once, then it reads, stops reading, half-closes or disconnects. */
function visit(server, make, statuses) {
  return new Promise((resolve) => {
    const socket = net.connect(server.port, server.host);
    const enough = setTimeout(() => socket.destroy(), 20 + make.random(300));
    socket.on('error', () => {});
    socket.on('close', () => {
      clearTimeout(enough);
      resolve();
    });
    socket.setEncoding('latin1').on('data', (text) => {
      for (const [, status] of text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)) statuses.set(Number(status), (statuses.get(Number(status)) ?? 0) + 1);
      make.learn(text);
      if (make.random(40) === 0) socket.pause();
    });
    for (let n = 1 + make.random(20); n > 0; n--) socket.write(make.request(), 'latin1');
    const whim = make.random(10);
    if (whim === 0) socket.destroy();
    else if (whim === 1) socket.end();
  });
}

describe('random requests', () => {
  test('every route gets requests with its own members, or is left out for a reason', () => {
    const keys = table.map(keyOf);
    const described = new Set([...Object.keys(fieldsOf), ...Object.keys(bodies), ...listsOf]);
    const hasBody = (key) => /^(POST|PUT|PATCH) /.test(key);
    assert.deepEqual(keys.filter((key) => hasBody(key) && !described.has(key) && !(key in leftOut)), [], 'routes whose body is not described here');
    assert.deepEqual([...described, ...Object.keys(leftOut)].filter((key) => !keys.includes(key)), [], 'routes that do not exist');
  });

  for (const [backend, allowed] of has('files') ? [['sqlite', known], ['fault+sqlite', [...known, 503, 504]]] : [[storeKind, known]]) {
    test(`${backend}: the server and its store stay sound`, async (t) => {
      const seed = Number(process.env.HF_SEED ?? Date.now() % 2 ** 32);
      t.diagnostic(`HF_SEED=${seed}`);
      const make = generator(seed);
      const server = await startServer({ backend, data: temporaryDirectory(), args: ['--test-clock'] });
      t.after(() => stopServer(server));
      const statuses = new Map();
      let visits = REQUESTS / 10;
      /** Clients do not wait long, and a busy machine answers only some of them: the test uses as many as necessary. */
      const enough = () => make.everywhere() && statuses.get(200) > 100 && statuses.get(201) > 5 && statuses.get(422) > 100;
      const client = async () => {
        while ((visits-- > 0 || !enough()) && !server.exit) await visit(server, make, statuses);
      };
      await Promise.all(Array.from({ length: CLIENTS }, client));
      assert.equal(server.exit, undefined, server.stderr);
      t.diagnostic(`answers: ${JSON.stringify(Object.fromEntries([...statuses].sort(([a], [b]) => a - b)))}`);
      assert.deepEqual([...statuses.keys()].filter((status) => !allowed.includes(status)), []);
      await stopServer(server);
      if (!has('files')) return;
      const check = await run(['check', server.data]);
      assert.equal(check.code, 0, check.stdout + check.stderr);
    });
  }
});
