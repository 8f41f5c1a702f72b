// SPDX-License-Identifier: Apache-2.0
// Random requests that are pipelined, interrupted, half-closed or not read: the server keeps running, replies only with
// statuses of the API and stops cleanly, and its store is sound. HF_SEED repeats a run.
import assert from 'node:assert/strict';
import net from 'node:net';
import { describe, test } from 'node:test';

import { has, storeKind } from './lib/backend.mjs';
import * as f from './lib/fields.mjs';
import { routes, run } from './lib/program.mjs';
import { startServer, stopServer, temporaryDirectory } from './lib/server.mjs';

const REQUESTS = 5000;
const CLIENTS = 24;
const table = await routes();
const fieldsOf = {
  'PUT /v1/queues/{queue}': f.policy, 'PATCH /v1/queues/{queue}': f.policy, 'POST /v1/queues/{queue}/jobs': f.job,
  'POST /v1/queues/{queue}/claim': f.claim, 'POST /v1/claim': { ...f.claim, queues: f.texts }, 'POST /v1/queues/{queue}/listen': f.listen,
  'POST /v1/queues/{queue}/pause': f.pause, 'POST /v1/queues/{queue}/cancel': f.bulk, 'POST /v1/queues/{queue}/requeue': f.bulk,
  'POST /v1/queues/{queue}/remove': f.bulk, 'POST /v1/jobs/{id}/ack': f.ack, 'POST /v1/jobs/{id}/fail': f.fail, 'POST /v1/jobs/{id}/extend': f.extend,
  'POST /v1/jobs/{id}/release': f.release, 'PATCH /v1/jobs/{id}': f.patch,
};
const destructive = /^(PUT|DELETE)|purge|remove|cancel|pause|clock/;
const known = [100, 200, 201, 202, 204, 400, 404, 409, 410, 413, 422, 429];

function generator(seed) {
  let state = seed >>> 0;
  const random = (n) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * n);
  };
  const pick = (list) => list[random(list.length)];
  const tokens = ['1-1'];
  const token = () => JSON.stringify(pick(tokens));
  const id = () => 1 + random(300);

  const member = (name, field) => {
    if (name === 'token') return token();
    if (name === 'queues') return '["a","b"]';
    if (name === 'wait_ms') return String(random(500));
    return random(4) ? pick([...f.goodValues(field), 'null']) : pick([...f.badValues(field), '1']);
  };
  const bodyOf = (key) => {
    const fields = fieldsOf[key];
    if (!fields) return /^POST \/v1\/\w+$/.test(key) ? `{"jobs":[{"id":${id()},"token":${token()}},{"id":${id()},"token":${token()}}]}` : '{}';
    const chosen = Object.entries(fields).filter(([name]) => name === 'token' || name === 'queues' || random(4) === 0);
    return `{${chosen.map(([name, field]) => `"${name}":${member(name, field)}`).join(',')}}`;
  };
  const queryOf = (key) => {
    const fields = key.startsWith('GET ') && f.queries[key.slice(4)];
    if (!fields || random(2)) return '';
    return `?${Object.entries(fields).filter(() => random(3) === 0).map(([name, field]) => `${name}=${encodeURIComponent(pick(f.goodTexts(field)))}`).join('&')}`;
  };
  const request = () => {
    const { method, pattern } = random(3) ? pick(table) : { method: 'POST', pattern: '/v1/queues/{queue}/jobs' };
    const key = `${method} ${pattern}`;
    if (destructive.test(key) && random(8)) return '';
    const path = pattern.replace('{queue}', pick(['a', 'b', 'c%2f', '%c3%bc', 'x'.repeat(200)])).replace('{id}', id());
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
  return { random, request, learn };
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
      const enough = () => statuses.get(200) > 100 && statuses.get(201) > 5 && statuses.get(422) > 100;
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
