// SPDX-License-Identifier: Apache-2.0
// HTTP on the wire: a malformed request is refused and its connection closed; correct requests are answered in order.
import assert from 'node:assert/strict';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';

import { Client, rawExchange } from '../lib/client.mjs';
import { malformed } from '../lib/malformed.mjs';
import { startServer, stopServer, until } from '../lib/server.mjs';

let server;
const post = (body, extra = '') => `POST /v1/queues/raw/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${extra}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
const statuses = (text) => [...text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map((m) => Number(m[1]));
const problemsOf = (text) => [...text.matchAll(/"type":"([^"]*)"/g)].map((m) => m[1]);
const host = 'Host: localhost\r\n';

describe('HTTP/1.1', () => {
  before(async () => {
    server = await startServer({ backend: 'memory', args: ['--timeouts-head-ms', '2s', '--timeouts-body-ms', '2s', '--limits-head-bytes', '4096', '--limits-uri-bytes', '1024', '--limits-body-bytes', '10000', '--limits-large-body-bytes', '20000'] });
  });
  after(() => stopServer(server));

  for (const [name, bytes] of Object.entries(malformed)) {
    test(`refused: ${name}`, async () => {
      // Whatever follows on the connection must not be read as a request.
      const text = await rawExchange(server, `${bytes}GET /healthz HTTP/1.1\r\n${host}\r\n`);
      assert.deepEqual(statuses(text), [400], text);
      assert.match(text, /^Connection: close\r$/im);
    });
  }

  test('the version must be a supported one', async () => {
    assert.deepEqual(statuses(await rawExchange(server, `GET /healthz HTTP/2.0\r\n${host}\r\n`)), [505]);
  });

  test('pipelined requests are answered in order', async () => {
    const requests = Array.from({ length: 30 }, (_, i) => (i % 3 === 0 ? `GET /healthz HTTP/1.1\r\n${host}\r\n` : post(`{"payload":${i}}`)));
    const text = await rawExchange(server, `${requests.join('')}GET /none HTTP/1.1\r\n${host}Connection: close\r\n\r\n`);
    assert.deepEqual(statuses(text), [...requests.map((_, i) => (i % 3 === 0 ? 200 : 201)), 404]);
    const seqs = [...text.matchAll(/"seq":(\d+)/g)].map((m) => Number(m[1]));
    assert.deepEqual(seqs, [...seqs].sort((a, b) => a - b));
  });

  test('a chunked body with extensions and trailers', async () => {
    const text = await rawExchange(server, `POST /v1/queues/raw/jobs HTTP/1.1\r\n${host}Content-Type: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n4;a=b\r\n{"pa\r\n9\r\nyload":1}\r\n0\r\nX-Trailer: yes\r\n\r\n`);
    assert.deepEqual(statuses(text), [201], text);
  });

  test('Expect: 100-continue', async () => {
    const body = '{"payload":1}';
    const head = `POST /v1/queues/raw/jobs HTTP/1.1\r\n${host}Connection: close\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`;
    const text = await new Promise((resolve, reject) => {
      const socket = net.connect(server.port, server.host);
      let got = '';
      socket.on('data', (chunk) => {
        got += chunk;
        if (got === 'HTTP/1.1 100 Continue\r\n\r\n') socket.write(body);
      });
      socket.on('end', () => resolve(got));
      socket.on('error', reject);
      socket.write(head);
    });
    assert.deepEqual(statuses(text), [100, 201]);
    const tooBig = await rawExchange(server, head.replace(/Content-Length: \d+/, 'Content-Length: 99999'));
    assert.deepEqual(statuses(tooBig), [413], 'no 100 for a body that will not be taken');
    assert.deepEqual(statuses(await rawExchange(server, head.replace('100-continue', 'a-pony'))), [417]);
  });

  test('HEAD, OPTIONS, 404, 405, HTTP/1.0', async () => {
    const head = await rawExchange(server, `HEAD /healthz HTTP/1.1\r\n${host}Connection: close\r\n\r\n`);
    assert.deepEqual(statuses(head), [200]);
    assert.match(head, /Content-Length: [1-9]/);
    assert.ok(head.endsWith('\r\n\r\n'), 'no body');
    const options = await rawExchange(server, `OPTIONS /v1/queues/x HTTP/1.1\r\n${host}Connection: close\r\n\r\n`);
    assert.deepEqual(statuses(options), [204]);
    for (const method of ['GET', 'HEAD', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) assert.match(options, new RegExp(`^Allow: .*\\b${method}\\b`, 'm'));
    const wrong = await rawExchange(server, `PUT /healthz HTTP/1.1\r\n${host}Connection: close\r\nContent-Length: 0\r\n\r\n`);
    assert.deepEqual(statuses(wrong), [405]);
    assert.match(wrong, /^Allow: .*GET/m);
    assert.deepEqual(statuses(await rawExchange(server, `BREW /healthz HTTP/1.1\r\n${host}Connection: close\r\n\r\n`)).length, 1);
    assert.deepEqual(statuses(await rawExchange(server, `GET /nothing HTTP/1.1\r\n${host}Connection: close\r\n\r\n`)), [404]);
    const old = await rawExchange(server, 'GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n');
    assert.deepEqual(statuses(old), [200], 'HTTP/1.0 closes by itself');
  });

  test('limits at n - 1, n, n + 1', async () => {
    const target = (n) => `GET /${'a'.repeat(n - 1)} HTTP/1.1\r\n${host}Connection: close\r\n\r\n`;
    assert.deepEqual(statuses(await rawExchange(server, target(1023))), [404]);
    assert.deepEqual(statuses(await rawExchange(server, target(1024))), [404]);
    assert.deepEqual(statuses(await rawExchange(server, target(1025))), [414]);
    const head = (n) => {
      const start = `GET /healthz HTTP/1.1\r\n${host}Connection: close\r\nX: `;
      return `${start}${'a'.repeat(n - start.length - 4)}\r\n\r\n`;
    };
    assert.deepEqual(statuses(await rawExchange(server, head(4095))), [200]);
    assert.deepEqual(statuses(await rawExchange(server, head(4096))), [200]);
    assert.deepEqual(statuses(await rawExchange(server, head(4097))), [431]);
    const lines = (n) => `GET /healthz HTTP/1.1\r\n${host}${'a: b\r\n'.repeat(n - 2)}Connection: close\r\n\r\n`;
    assert.deepEqual(statuses(await rawExchange(server, lines(99))), [200]);
    assert.deepEqual(statuses(await rawExchange(server, lines(100))), [200]);
    assert.deepEqual(statuses(await rawExchange(server, lines(101))), [431]);
    const claim = (n) => {
      const body = `{"worker":"w"${' '.repeat(n - 14)}}`;
      return `POST /v1/queues/none/claim HTTP/1.1\r\n${host}Connection: close\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    };
    assert.deepEqual(statuses(await rawExchange(server, claim(9999))), [200]);
    assert.deepEqual(statuses(await rawExchange(server, claim(10000))), [200]);
    assert.deepEqual(statuses(await rawExchange(server, claim(10001))), [413]);
    const large = (n) => post(`{"payload":"${'x'.repeat(n - 14)}"}`, 'Connection: close\r\n');
    assert.deepEqual(statuses(await rawExchange(server, large(19999))), [201]);
    assert.deepEqual(statuses(await rawExchange(server, large(20000))), [201]);
    assert.deepEqual(statuses(await rawExchange(server, large(20001))), [413]);
  });

  test('slow clients get 408', async () => {
    assert.deepEqual(statuses(await rawExchange(server, `GET /healthz HTTP/1.1\r\nHost: local`)), [408]);
    assert.deepEqual(statuses(await rawExchange(server, `POST /v1/queues/a/jobs HTTP/1.1\r\n${host}Content-Length: 5\r\n\r\n{`)), [408]);
  });

  test('a client that disconnects while its claim waits gets nothing, and no job is lost', async () => {
    const body = '{"wait_ms":60000}';
    const socket = net.connect(server.port, server.host);
    socket.write(`POST /v1/queues/left/claim HTTP/1.1\r\n${host}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`);
    const waiting = async () => Number((await rawExchange(server, `GET /metrics HTTP/1.1\r\n${host}Connection: close\r\n\r\n`)).match(/^holdfast_claims_waiting (\d+)/m)?.[1]);
    await until('the claim waits', async () => (await waiting()) === 1);
    socket.destroy();
    await until('the claim is gone', async () => (await waiting()) === 0);
  });

  test('the type of a problem is a path at which the server explains it', async () => {
    const api = new Client(server);
    try {
      const { type, code, status, title } = (await api.get('/v1/jobs/999999')).json;
      assert.equal(type, '/problems/not_found');
      const page = await api.get(type);
      assert.equal(page.status, 200);
      assert.deepEqual(Object.keys(page.json), ['type', 'code', 'status', 'title', 'explanation', 'advice']);
      assert.deepEqual([page.json.type, page.json.code, page.json.status, page.json.title], [type, code, status, title]);
      // The server's own refusals have their pages as well.
      const refused = (await api.get('/nowhere')).json;
      assert.deepEqual([refused.type, (await api.get(refused.type)).json.title], ['/problems/no_route', refused.title]);
      assert.deepEqual(problemsOf(await rawExchange(server, 'GET /healthz HTTP/1.1\r\nHost: elsewhere.example\r\nConnection: close\r\n\r\n')), ['/problems/misdirected']);
      const { problems, next_cursor: next } = (await api.get('/problems')).json;
      assert.equal(next, null);
      for (const one of problems) {
        assert.deepEqual((await api.get(one.type)).json, one);
        for (const text of [one.title, one.explanation, one.advice]) assert.match(text, /^[^a-z]./, `${one.code} begins with a capital`);
        for (const text of [one.explanation, one.advice]) assert.match(text, /\.$/, `${one.code} is a sentence`);
      }
      const unknown = await api.get('/problems/nonsense');
      assert.deepEqual([unknown.status, unknown.json.code], [404, 'no_route']);
    } finally {
      api.close();
    }
  });

  test('half-closed clients still get their reply', async () => {
    const text = await new Promise((resolve, reject) => {
      const socket = net.connect({ port: server.port, host: server.host, allowHalfOpen: true });
      let got = '';
      socket.on('data', (chunk) => (got += chunk));
      socket.on('end', () => resolve(got));
      socket.on('error', reject);
      socket.end(post('{"payload":1}'));
    });
    // The server may use an interim reply to find out whether a half-closed client still reads.
    assert.deepEqual(statuses(text).filter((status) => status !== 100), [201]);
  });
});
