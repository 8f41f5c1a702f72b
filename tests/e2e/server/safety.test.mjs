// SPDX-License-Identifier: Apache-2.0
// Safety without access tokens: a page of another site in a browser on this machine reaches no route, neither by the
// address of the server (Origin, Sec-Fetch-Site) nor by the page's own name (Host).
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';

import { Client, rawExchange } from '../lib/client.mjs';
import { routes } from '../lib/program.mjs';
import { startServer, stopServer } from '../lib/server.mjs';
import { claimOne, enqueue } from '../lib/suite.mjs';

const table = await routes();
const withBody = new Set(['POST', 'PUT', 'PATCH']);

/** Status and headers; a stream is closed as soon as it has started. */
function ask(server, method, path, headers) {
  const body = withBody.has(method) ? '{}' : undefined;
  const all = { ...headers, ...(body && { 'content-type': 'application/json', 'content-length': 2 }) };
  return new Promise((resolve, reject) => {
    const request = http.request({ host: server.host, port: server.port, method, path, headers: all, agent: false }, (response) => {
      const answer = { status: response.statusCode, headers: response.headers, text: '' };
      if (/event-stream/.test(response.headers['content-type'] ?? '')) {
        resolve(answer);
        request.destroy();
        return;
      }
      response.setEncoding('utf8').on('data', (chunk) => (answer.text += chunk));
      response.on('end', () => resolve(answer));
    });
    request.on('error', reject);
    request.end(body);
  });
}

const corsHeaders = (answer) => Object.keys(answer.headers).filter((name) => name.startsWith('access-control-'));

/** Every route with every set of headers; `judge` returns what is wrong with a reply, or nothing. */
async function everywhere(server, place, cases, judge) {
  const wrong = [];
  for (const { method, pattern } of table) {
    const path = pattern.replace('{queue}', place.queue).replace('{id}', place.id);
    for (const headers of cases) {
      const answer = await ask(server, method, path, headers);
      const fault = judge(answer);
      if (fault) wrong.push(`${method} ${path} ${JSON.stringify(headers)}: ${answer.status}, ${fault}`);
    }
  }
  assert.deepEqual(wrong, []);
}

const refusedWith = (status) => (answer) => {
  if (answer.status !== status) return `not ${status}`;
  if (corsHeaders(answer).length) return `has ${corsHeaders(answer)}`;
  if (!/^application\/problem\+json/.test(answer.headers['content-type'] ?? '')) return `is ${answer.headers['content-type']}`;
  const { code, detail } = JSON.parse(answer.text);
  return code && detail ? null : `has no code or detail: ${answer.text}`;
};
const passed = (answer) => {
  if ([400, 403, 421].includes(answer.status) || answer.status >= 500) return `did not pass: ${answer.text}`;
  return corsHeaders(answer).length ? `has ${corsHeaders(answer)}` : null;
};

describe('safety', () => {
  let server, api, place, own, held;
  const everything = async () => [(await api.get(`/v1/queues/${place.queue}`)).text, (await api.get(`/v1/jobs/${place.id}`)).text, (await api.get('/v1/queues?limit=1000')).json.queues.length, (await api.get('/v1/workers')).json.workers.length].join('\n');

  before(async () => {
    server = await startServer({ backend: 'memory', args: ['--test-clock'] });
    api = new Client(server);
    own = `${server.host}:${server.port}`;
    place = { queue: 'safe', id: (await enqueue(api, 'safe', { payload: 1 })).id };
    held = await claimOne(api, 'safe', { worker: 'w' });
    await enqueue(api, 'safe', { payload: 2 });
  });
  after(async () => {
    api.close();
    await stopServer(server);
  });

  const refusals = {
    'a foreign Host': [421, () => ['evil.example', `evil.example:${server.port}`, 'localhost.evil.example', '127.0.0.1.evil.example', '0.0.0.0', '127.1', '2130706433', '128.0.0.1', '[::]', '[::ffff:127.0.0.1]', 'localhost.', 'xlocalhost'].map((host) => ({ host }))],
    'a foreign Origin': [403, () => ['https://evil.example', 'null', '', 'http://localhost.evil.example', `http://${server.host}:${server.port + 1}`, `http://${own}.evil.example`, `http://${own}/`, `file://${own}`, 'http://'].map((origin) => ({ host: own, origin }))],
    'another site': [403, () => ['cross-site', 'same-site', 'CROSS-SITE', 'nonsense', ''].map((site) => ({ host: own, 'sec-fetch-site': site }))],
    'an own Origin with another site': [403, () => [{ host: own, origin: `http://${own}`, 'sec-fetch-site': 'cross-site' }]],
  };
  for (const [name, [status, cases]] of Object.entries(refusals)) {
    test(`${name} is ${status} on every route, and nothing happens`, async () => {
      const before = await everything();
      await everywhere(server, place, cases(), refusedWith(status));
      assert.equal(await everything(), before);
    });
  }

  test('HEAD, OPTIONS and paths that do not exist are protected in the same way', async () => {
    for (const [method, path] of [['HEAD', '/v1/queues'], ['HEAD', '/healthz'], ['OPTIONS', '/v1/queues/safe/jobs'], ['OPTIONS', '/none'], ['GET', '/none'], ['GET', '/'], ['PUT', '/healthz']]) {
      for (const [status, headers] of [[421, { host: 'evil.example' }], [403, { host: own, origin: 'https://evil.example' }], [403, { host: own, 'sec-fetch-site': 'cross-site' }]]) {
        const answer = await ask(server, method, path, headers);
        assert.equal(answer.status, status, `${method} ${path} ${JSON.stringify(headers)}`);
        assert.deepEqual(corsHeaders(answer), []);
      }
    }
  });

  test('a second Origin or Host cannot hide a foreign one', async () => {
    const twice = (lines) => rawExchange(server, `GET /healthz HTTP/1.1\r\n${lines}Connection: close\r\n\r\n`);
    const status = (text) => Number(text.slice(9, 12));
    for (const [first, second] of [[`http://${own}`, 'https://evil.example'], ['https://evil.example', `http://${own}`]]) {
      assert.equal(status(await twice(`Host: ${own}\r\nOrigin: ${first}\r\nOrigin: ${second}\r\n`)), 403, `${first}, then ${second}`);
    }
    for (const [first, second] of [['none', 'cross-site'], ['cross-site', 'none']]) {
      assert.equal(status(await twice(`Host: ${own}\r\nSec-Fetch-Site: ${first}\r\nSec-Fetch-Site: ${second}\r\n`)), 403, `${first}, then ${second}`);
    }
    assert.equal(status(await twice(`Host: ${own}\r\nHost: evil.example\r\n`)), 400);
    // A target in absolute form names the host, whatever the header says.
    const absolute = await rawExchange(server, `GET http://evil.example/healthz HTTP/1.1\r\nHost: ${own}\r\nConnection: close\r\n\r\n`);
    assert.ok([400, 421].includes(status(absolute)), absolute);
  });

  test('loopback names, own origins and direct requests pass on every route', async () => {
    const hosts = ['localhost', 'LOCALHOST', 'LocalHost:1', '127.0.0.1', own, '127.9.8.7', '[::1]', `[::1]:${server.port}`, `localhost:${server.port}`];
    const cases = [
      ...hosts.map((host) => ({ host })),
      ...[own, `localhost:${server.port}`, `[::1]:${server.port}`].map((host) => ({ host, origin: `http://${host}`, 'sec-fetch-site': 'same-origin' })),
      { host: own, 'sec-fetch-site': 'same-origin' },
      { host: own, 'sec-fetch-site': 'none' },
      { host: own, origin: `https://${own}` }, // a proxy that speaks TLS
    ];
    await everywhere(server, place, cases, passed);
    assert.ok(held.token);
  });
});

describe('safety, configured', () => {
  let server, api, place;
  const origin = 'https://app.example';
  before(async () => {
    server = await startServer({ backend: 'memory', args: ['--test-clock', '--hosts', 'jobs.example,queue.example', '--origins', `${origin},http://other.example:81`] });
    api = new Client(server);
    place = { queue: 'safe', id: (await enqueue(api, 'safe', { payload: 1 })).id };
  });
  after(async () => {
    api.close();
    await stopServer(server);
  });

  test('configured hosts pass on every route, others still do not', async () => {
    await everywhere(server, place, ['jobs.example', 'QUEUE.example:8443', 'localhost'].map((host) => ({ host })), passed);
    await everywhere(server, place, ['x.jobs.example', 'jobs.example.evil', 'jobs.example.'].map((host) => ({ host })), refusedWith(421));
  });

  test('a configured origin passes on every route and gets CORS headers; no other origin does', async () => {
    const cases = [origin, 'http://other.example:81'].map((one) => ({ host: 'localhost', origin: one, 'sec-fetch-site': 'cross-site' }));
    for (const headers of cases) {
      await everywhere(server, place, [headers], (answer) => {
        if ([403, 421].includes(answer.status)) return 'did not pass';
        if (answer.headers['access-control-allow-origin'] !== headers.origin) return `allows ${answer.headers['access-control-allow-origin']}`;
        return /origin/i.test(answer.headers.vary ?? '') ? null : 'has no Vary: Origin';
      });
    }
    await everywhere(server, place, [{ host: 'localhost' }, { host: 'localhost', origin: 'http://localhost' }], passed);
    await everywhere(server, place, ['https://app.example:444', 'http://app.example', 'https://app.example.evil', 'https://x.app.example'].map((one) => ({ host: 'localhost', origin: one })), refusedWith(403));
    await everywhere(server, place, [{ host: 'evil.example', origin }], refusedWith(421));
  });

  test('preflights: every method of a path for a configured origin, 403 for others', async () => {
    for (const pattern of new Set(table.map((row) => row.pattern))) {
      const rows = table.filter((row) => row.pattern === pattern);
      const path = pattern.replace('{queue}', 'safe').replace('{id}', place.id);
      const asked = { host: 'localhost', 'access-control-request-method': rows[0].method, 'access-control-request-headers': 'content-type,idempotency-key' };
      const answer = await ask(server, 'OPTIONS', path, { ...asked, origin });
      assert.equal(answer.status, 204, path);
      assert.equal(answer.headers['access-control-allow-origin'], origin);
      for (const { method } of rows) assert.match(answer.headers['access-control-allow-methods'], new RegExp(`\\b${method}\\b`), path);
      assert.match(answer.headers['access-control-allow-headers'], /content-type/i);
      assert.match(answer.headers['access-control-allow-headers'], /idempotency-key/i);
      const foreign = await ask(server, 'OPTIONS', path, { ...asked, origin: 'https://evil.example' });
      assert.equal(foreign.status, 403, path);
      assert.deepEqual(corsHeaders(foreign), []);
    }
  });
});
