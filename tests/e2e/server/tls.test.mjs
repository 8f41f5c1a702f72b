// SPDX-License-Identifier: Apache-2.0
// TLS with real clients: Node's tls, openssl s_client and curl (HF-13).
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { copyFileSync, renameSync, symlinkSync, writeFileSync } from 'node:fs';
import https from 'node:https';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { rawExchange } from '../lib/client.mjs';
import { malformed } from '../lib/malformed.mjs';
import { logged, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { authority, connect, exchange, tlsArgs } from '../lib/tls.mjs';

const ca = authority();
const pair = ca.issue();
const host = 'Host: localhost\r\n';
const get = (target, more = '') => `GET ${target} HTTP/1.1\r\n${host}${more}\r\n`;
const statuses = (text) => [...text.matchAll(/^HTTP\/1\.1 (\d{3})/gm)].map((m) => Number(m[1]));

/** {code, stdout, stderr} of a program that gets this input. */
const run = (file, args, input = '') =>
  new Promise((resolve) => {
    const child = execFile(file, args, { encoding: 'latin1' }, (error, stdout, stderr) => resolve({ code: error?.code ?? 0, stdout, stderr }));
    child.stdin.on('error', () => {}); // it may end before it has read everything
    child.stdin.end(input);
  });
const sClient = (server, args, input = '') => run('openssl', ['s_client', '-connect', `127.0.0.1:${server.port}`, '-CAfile', ca.file, ...args], input);
const curl = (...args) => run('curl', ['-sS', '--max-time', '60', ...args]);

function request(server, target, { method = 'GET', body, headers = {}, ...options } = {}) {
  return new Promise((resolve, reject) => {
    const call = https.request({ host: '127.0.0.1', port: server.port, servername: 'localhost', ca: ca.text, path: target, method, headers: { host: 'localhost', ...headers }, agent: false, ...options }, (reply) => {
      let text = '';
      reply.on('data', (chunk) => (text += chunk)).on('end', () => resolve({ status: reply.statusCode, text, headers: reply.headers }));
    });
    call.on('error', reject);
    call.end(body);
  });
}
const metric = async (server, name) => {
  const { text } = await request(server, '/metrics');
  return Number(text.match(new RegExp(`^${name.replace(/[{}"]/g, '\\$&')} (\\S+)$`, 'm'))?.[1]);
};
/** The reply to a request that ends the connection. */
const lastReply = (socket) =>
  new Promise((resolve) => {
    let text = '';
    socket.on('data', (chunk) => (text += chunk)).once('close', () => resolve(text));
    socket.write(get('/healthz', 'Connection: close\r\n'));
  });
const certificateOf = async (server, authorityUsed = ca) => {
  const socket = await connect(server, authorityUsed);
  const { serialNumber } = socket.getPeerCertificate();
  socket.destroy();
  return serialNumber;
};

describe('TLS', () => {
  let server;
  let plain;
  before(async () => {
    server = await startServer({ backend: 'memory', args: tlsArgs(pair, '--listen', 'http://127.0.0.1:0', '--timeouts-handshake-ms', '20s') });
    plain = { host: '127.0.0.1', port: Number(server.stdout.match(/listening on http:\/\/127\.0\.0\.1:(\d+)/)[1]) };
  });
  after(() => stopServer(server));

  test('an address without a scheme has TLS, one with http:// has not', async () => {
    assert.match(server.stdout, /^listening on https:\/\/127\.0\.0\.1:\d+\nlistening on http:\/\/127/);
    assert.deepEqual(statuses(await rawExchange(plain, get('/healthz', 'Connection: close\r\n'))), [200]);
    assert.equal((await request(server, '/healthz')).status, 200);
  });

  test('jobs go in and out, with large bodies in both directions', async () => {
    const payload = 'x'.repeat(900_000);
    const enqueued = await request(server, '/v1/queues/large/jobs', { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify({ payload }) });
    assert.equal(enqueued.status, 201, enqueued.text);
    const claimed = await request(server, '/v1/queues/large/claim', { method: 'POST', body: '' });
    assert.equal(JSON.parse(claimed.text).jobs[0].payload, payload);
  });

  test('curl verifies the server and enqueues', async () => {
    const done = await curl('--cacert', ca.file, '-H', 'content-type: application/json', '-d', '{"payload":1}', `https://localhost:${server.port}/v1/queues/curl/jobs`);
    assert.equal(done.code, 0, done.stderr);
    assert.match(done.stdout, /"created":true/);
  });

  test('GET /v1/server and /metrics describe TLS', async () => {
    const { tls: shown } = JSON.parse((await request(server, '/v1/server')).text);
    assert.deepEqual(shown.versions, ['TLSv1.2', 'TLSv1.3']);
    assert.equal(shown.client_certificates, false);
    assert.ok(Date.parse(shown.certificate_valid_from) <= Date.now() && Date.parse(shown.certificate_expires_at) > Date.now());
    const left = await metric(server, 'holdfast_tls_certificate_expiry_seconds');
    assert.ok(left > 9 * 86400 && left <= 10 * 86400, `${left}`);
    assert.ok((await metric(server, 'holdfast_tls_handshakes_total{result="full"}')) > 0);
  });

  for (const version of ['TLSv1.2', 'TLSv1.3']) {
    test(`${version}: suites with AEAD, and sessions are resumed`, async () => {
      const only = { minVersion: version, maxVersion: version };
      const first = await connect(server, ca, only);
      assert.equal(first.getProtocol(), version);
      assert.match(first.getCipher().name, /GCM|CHACHA20/);
      let session = first.getSession();
      first.on('session', (s) => (session = s)); // a ticket of TLS 1.3 comes after the handshake
      await lastReply(first);
      const before = await metric(server, 'holdfast_tls_handshakes_total{result="resumed"}');
      const second = await connect(server, ca, { ...only, session });
      assert.equal(second.isSessionReused(), true);
      await lastReply(second);
      assert.equal(await metric(server, 'holdfast_tls_handshakes_total{result="resumed"}'), before + 1);
    });
  }

  test('ALPN: http/1.1 is chosen, h2 alone is refused', async () => {
    const socket = await connect(server, ca, { ALPNProtocols: ['h2', 'http/1.1'] });
    assert.equal(socket.alpnProtocol, 'http/1.1');
    socket.destroy();
    await assert.rejects(connect(server, ca, { ALPNProtocols: ['h2'] }), /no application protocol/i);
  });

  const weak = {
    'TLS 1.0': { minVersion: 'TLSv1', maxVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' },
    'TLS 1.1': { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' },
    'CBC': { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-SHA256:ECDHE-ECDSA-AES256-SHA' },
    'CCM': { maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-CCM8' },
    'no forward secrecy': { maxVersion: 'TLSv1.2', ciphers: 'AES128-GCM-SHA256' },
    'no encryption': { maxVersion: 'TLSv1.2', ciphers: 'eNULL:aNULL@SECLEVEL=0' },
  };
  for (const [name, options] of Object.entries(weak)) {
    test(`refused: ${name}`, async () => {
      await assert.rejects(connect(server, ca, options), /alert|handshake|version/i);
    });
  }

  test('renegotiation is refused, and the connection serves nothing in between', async () => {
    const { stdout, stderr } = await sClient(server, ['-tls1_2'], 'R\n');
    assert.match(`${stdout}${stderr}`, /no renegotiation|RENEGOTIATING[\s\S]*(error|alert|unexpected)/i);
    assert.equal((await request(server, '/healthz')).status, 200);
  });

  test('early data is not accepted', async () => {
    const file = path.join(temporaryDirectory(), 'session');
    await sClient(server, ['-tls1_3', '-sess_out', file, '-ign_eof'], get('/healthz', 'Connection: close\r\n'));
    const early = path.join(temporaryDirectory(), 'early');
    writeFileSync(early, get('/healthz', 'Connection: close\r\n'));
    const { stdout } = await sClient(server, ['-tls1_3', '-sess_in', file, '-early_data', early], '');
    assert.doesNotMatch(stdout, /Early data was accepted/);
    assert.match(stdout, /Max Early Data: 0|Early data was (not sent|rejected)/);
  });

  test('HTTP without TLS gets a clear 400', async () => {
    const text = await rawExchange(server, get('/healthz'));
    assert.deepEqual(statuses(text), [400]);
    assert.equal(JSON.parse(text.split('\r\n\r\n')[1]).detail, 'this address of the server uses TLS; send the request to https://');
  });

  test('TLS on the plain address gets a 400, which clients report as a wrong version', async () => {
    const done = await curl('--cacert', ca.file, `https://localhost:${plain.port}/healthz`);
    assert.equal(done.code, 35);
    assert.match(done.stderr, /wrong version number/);
  });

  test('a page of http:// at the same address is a foreign one', async () => {
    const origin = (value) => request(server, '/healthz', { headers: { host: 'localhost:1', origin: value } });
    assert.equal((await origin('https://localhost:1')).status, 200);
    assert.equal((await origin('http://localhost:1')).status, 403);
  });

  for (const [name, bytes] of Object.entries(malformed)) {
    for (const pieces of [Infinity, 1, 7]) {
      test(`refused over TLS: ${name}, ${pieces === Infinity ? 'in one record' : `in records of ${pieces} bytes`}`, async () => {
        const text = await exchange(server, ca, `${bytes}${get('/healthz')}`, { pieces });
        assert.deepEqual(statuses(text), [400], text);
      });
    }
  }

  test('pipelined requests in records of any size are answered in order', async () => {
    const body = '{"payload":1}';
    const post = `POST /v1/queues/records/jobs HTTP/1.1\r\n${host}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    const all = `${get('/healthz')}${post}${get('/none')}${post}${get('/healthz', 'Connection: close\r\n')}`;
    for (let pieces = 1; pieces <= all.length; pieces += pieces < 40 ? 1 : 97) {
      assert.deepEqual(statuses(await exchange(server, ca, all, { pieces })), [200, 201, 404, 201, 200], `records of ${pieces} bytes`);
    }
  });
});

describe('the certificate', () => {
  const dir = temporaryDirectory();
  const cert = path.join(dir, 'cert.pem');
  const key = path.join(dir, 'key.pem');
  const expired = ca.issue({ days: -1 });
  let server;
  const put = (from, to) => {
    copyFileSync(from, `${to}.new`);
    renameSync(`${to}.new`, to);
  };
  const use = (files) => (put(files.cert, cert), put(files.key, key));
  const failures = () => metric(server, 'holdfast_tls_reloads_total{outcome="failed"}');
  before(async () => {
    use(pair);
    server = await startServer({ backend: 'memory', args: tlsArgs({ cert, key }) });
  });
  after(() => stopServer(server));

  test('is replaced when its files change; open connections go on', async () => {
    const open = await connect(server, ca);
    const old = await certificateOf(server);
    use(ca.issue());
    await until('a new certificate', async () => (await certificateOf(server)) !== old);
    assert.deepEqual(statuses(await lastReply(open)), [200]);
  });

  test('is replaced when a link points to another directory, as volumes of Kubernetes do', async () => {
    const link = path.join(dir, 'link');
    const name = (files, n) => {
      const into = temporaryDirectory();
      copyFileSync(files.cert, path.join(into, 'tls.crt'));
      copyFileSync(files.key, path.join(into, 'tls.key'));
      symlinkSync(into, `${link}.${n}`);
      renameSync(`${link}.${n}`, link);
    };
    name(ca.issue(), 1);
    const linked = await startServer({ backend: 'memory', args: tlsArgs({ cert: path.join(link, 'tls.crt'), key: path.join(link, 'tls.key') }) });
    const old = await certificateOf(linked);
    name(ca.issue(), 2);
    await until('a new certificate', async () => (await certificateOf(linked)) !== old);
    await stopServer(linked);
  });

  const bad = {
    'a key of another certificate': () => put(expired.key, key),
    'a certificate that has expired': () => use(expired),
    'a certificate that is cut off': () => writeFileSync(cert, '-----BEGIN CERTIFICATE-----\nMIIB'),
    'an empty file': () => writeFileSync(key, ''),
    'a directory instead of a file': async () => {
      process.kill(server.pid, 'SIGHUP'); // with the files of the case before
    },
  };
  for (const [name, change] of Object.entries(bad)) {
    test(`stays in use after ${name}`, async () => {
      const old = await certificateOf(server);
      const failed = await failures();
      await change();
      await until('a failed reload', async () => (await failures()) > failed);
      assert.equal(await certificateOf(server), old);
      await logged(server, /tls_certificate_not_reloaded/);
    });
  }

  test('is read again on SIGHUP after the files are good', async () => {
    const old = await certificateOf(server);
    use(ca.issue());
    process.kill(server.pid, 'SIGHUP');
    await until('a new certificate', async () => (await certificateOf(server)) !== old);
    await logged(server, /settings_reloaded/);
  });
});

describe('client certificates', () => {
  const clients = authority('authority of clients');
  let server;
  before(async () => {
    server = await startServer({ backend: 'memory', args: tlsArgs(pair, '--tls-client-ca', clients.file) });
  });
  after(() => stopServer(server));
  const withCert = (files) => ['--cacert', ca.file, '--cert', files.cert, '--key', files.key, `https://localhost:${server.port}/v1/server`];

  test('one of the authority is accepted', async () => {
    const done = await curl(...withCert(clients.issue({ san: 'DNS:worker.example,URI:spiffe://example/worker' })));
    assert.equal(done.code, 0, done.stderr);
    assert.equal(JSON.parse(done.stdout).tls.client_certificates, true);
  });

  const refused = {
    'none': () => curl('--cacert', ca.file, `https://localhost:${server.port}/healthz`),
    'one of another authority': () => curl(...withCert(ca.issue())),
    'one that has expired': () => curl(...withCert(clients.issue({ days: -1 }))),
  };
  for (const [name, call] of Object.entries(refused)) {
    test(`refused: ${name}`, async () => {
      const done = await call();
      assert.notEqual(done.code, 0);
      assert.equal(done.stdout, '');
      assert.match(done.stderr, /alert|certificate/i);
    });
  }

  test('a session of a client is resumed without a second check of its chain, and counted', async () => {
    const files = clients.issue();
    const file = path.join(temporaryDirectory(), 'session');
    const args = ['-cert', files.cert, '-key', files.key, '-tls1_3', '-ign_eof'];
    await sClient(server, [...args, '-sess_out', file], get('/healthz', 'Connection: close\r\n'));
    const { stdout } = await sClient(server, [...args, '-sess_in', file], get('/healthz', 'Connection: close\r\n'));
    assert.match(stdout, /Reused, TLSv1\.3/);
    assert.deepEqual(statuses(stdout), [200]);
  });
});

describe('many handshakes', () => {
  test('two thousand that stall do not harm other clients, and end at their time limit', async () => {
    const server = await startServer({ backend: 'memory', args: tlsArgs(pair, '--timeouts-handshake-ms', '3s', '--limits-connections', '6000', '--limits-connections-per-address', '6000') });
    const sockets = [];
    const hello = Buffer.from('160301', 'hex');
    for (let i = 0; i < 2000; i++) {
      const socket = net.connect({ host: '127.0.0.1', port: server.port });
      socket.on('error', () => {});
      if (i % 2) socket.once('connect', () => socket.write(hello));
      sockets.push(socket);
      if (i % 100 === 0) assert.equal((await request(server, '/healthz')).status, 200);
    }
    await until('all to end', async () => (await metric(server, 'holdfast_tls_handshakes_total{result="unfinished"}')) >= 2000);
    assert.ok((await metric(server, 'holdfast_http_connections')) < 10);
    for (const socket of sockets) socket.destroy();
    await stopServer(server);
  });

  test('they count as connections of their address', async () => {
    const server = await startServer({ backend: 'memory', args: tlsArgs(pair, '--listen', 'http://127.0.0.1:0', '--limits-connections-per-address', '5') });
    const stalled = Array.from({ length: 5 }, () => net.connect({ host: '127.0.0.1', port: server.port }));
    const plain = { host: '127.0.0.1', port: Number(server.stdout.match(/listening on http:\/\/127\.0\.0\.1:(\d+)/)[1]) };
    await until('the limit', async () => statuses(await rawExchange(plain, get('/healthz', 'Connection: close\r\n')))[0] === 503);
    const beyond = await request(server, '/healthz'); // told so over TLS
    assert.equal(beyond.status, 503);
    for (const socket of stalled) socket.destroy();
    await until('room', async () => (await request(server, '/healthz')).status === 200);
    await stopServer(server);
  });
});

describe('other listeners and settings', () => {
  test('beanstalk over TLS', async () => {
    const server = await startServer({ backend: 'memory', args: tlsArgs(pair, '--beanstalk', '127.0.0.1:0', '--beanstalk', 'beanstalk://127.0.0.1:0') });
    const port = (scheme) => Number(server.stdout.match(new RegExp(`listening on ${scheme}://127\\.0\\.0\\.1:(\\d+)`))[1]);
    const text = await exchange({ port: port('beanstalks') }, ca, 'put 5 0 60 2\r\nhi\r\nreserve\r\nquit\r\n', { pieces: 3 });
    assert.equal(text, 'INSERTED 1\r\nRESERVED 1 2\r\nhi\r\n');
    assert.match(await rawExchange({ host: '127.0.0.1', port: port('beanstalk') }, 'peek 1\r\nquit\r\n'), /^FOUND 1 2/);
    await assert.rejects(connect({ port: port('beanstalks') }, ca, { ALPNProtocols: ['http/1.1'] }), /no application protocol/i);
    await stopServer(server);
  });

  const wrong = {
    'https:// without a certificate': [['--listen', 'https://127.0.0.1:0'], /TLS needs a certificate and its key; set tls\.cert and tls\.key/],
    'a certificate without a key': [['--tls-cert', pair.cert], /tls\.cert is set and tls\.key is empty/],
    'a key without a certificate': [['--tls-key', pair.key], /tls\.key is set and tls\.cert is empty/],
    'a file that does not exist': [['--tls-cert', '/no/such/file', '--tls-key', pair.key], /tls\.cert: the file \/no\/such\/file cannot be read: No such file/],
    'an address outside loopback': [['--listen', 'https://0.0.0.0:0', ...tlsArgs(pair)], /only loopback addresses are allowed/],
  };
  for (const [name, [args, message]] of Object.entries(wrong)) {
    test(`the server does not start with ${name}`, async () => {
      await assert.rejects(startServer({ backend: 'memory', args }), message);
    });
  }

  test('an expired certificate is served at the start, with a warning', async () => {
    const server = await startServer({ backend: 'memory', args: tlsArgs(ca.issue({ days: -1 })) });
    await logged(server, /tls_certificate_expired/);
    await assert.rejects(connect(server, ca), /expired/);
    await stopServer(server);
  });
});
