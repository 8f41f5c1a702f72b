// SPDX-License-Identifier: Apache-2.0
// Client commands and `holdfast work` with https://: they verify the server, and say what is wrong (HF-13).
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { run } from '../lib/program.mjs';
import { startServer, stopServer, temporaryDirectory } from '../lib/server.mjs';
import { authority, tlsArgs } from '../lib/tls.mjs';

const ca = authority();
const other = authority('another authority');
const started = [];
const serve = async (...args) => {
  const server = await startServer({ backend: 'memory', args });
  started.push(server);
  server.url = server.url.replace('127.0.0.1', 'localhost');
  return server;
};
after(() => Promise.all(started.map(stopServer)));
const trust = ['--cacert', ca.file];
const stats = (server, ...args) => run(['stats', '--server', server.url, ...args]);
const says = async (call, pattern, code = 3) => {
  const done = await call;
  assert.equal(done.code, code, done.stderr);
  assert.match(done.stderr, pattern);
};

describe('a client command', () => {
  let server;
  let plain;
  before(async () => {
    server = await serve(...tlsArgs(ca.issue()));
    plain = await serve();
  });

  test('works with the authority from --cacert or HOLDFAST_CACERT', async () => {
    const enqueued = await run(['enqueue', 'mail', '{"to":"ann"}', '--server', server.url, ...trust]);
    assert.equal(enqueued.code, 0, enqueued.stderr);
    const shown = await run(['stats', '--json'], { env: { HOLDFAST_SERVER: server.url, HOLDFAST_CACERT: ca.file } });
    assert.equal(shown.code, 0, shown.stderr);
  });

  test('the option takes precedence over the variable', async () => {
    await says(run(['stats', '--server', server.url, '--cacert', other.file], { env: { HOLDFAST_CACERT: ca.file } }), /unknown authority/);
  });

  test('an unknown authority', () => says(stats(server), /of an unknown authority; give the authority's certificate with --cacert FILE/));
  test('another authority', () => says(stats(server, '--cacert', other.file), /unknown authority/));
  test('a file that is not there', () => says(stats(server, '--cacert', '/no/such/file'), /\/no\/such\/file/));
  test('HTTP to an address with TLS', () => says(run(['stats', '--server', server.url.replace('https', 'http')]), /uses TLS; send the request to https:\/\//, 1));
  test('TLS to an address without', () => says(run(['stats', '--server', plain.url.replace('http', 'https'), ...trust]), /does not use TLS; write http:\/\/ instead of https:\/\//));

  test('an expired certificate', async () => {
    const expired = await serve(...tlsArgs(ca.issue({ days: -1 })));
    await says(stats(expired, ...trust), /the certificate of the server has expired/);
  });

  test('a certificate for another name', async () => {
    const named = await serve(...tlsArgs(ca.issue({ san: 'DNS:queue.example' })));
    await says(stats(named, ...trust), /is for another name/);
  });

  test('holdfast bench verifies, too', async () => {
    const done = await run(['bench', '--server', server.url, ...trust, '--jobs', '300', '--connections', '3', '--batch', '7', '--pipeline', '2', '--json']);
    assert.equal(done.code, 0, done.stderr);
    assert.match(done.stdout, /"jobs":300,.*"errors":0/);
    await says(run(['bench', '--server', server.url, '--jobs', '3']), /unable to get local issuer|unknown authority/);
  });
});

describe('holdfast work', () => {
  let server;
  before(async () => {
    server = await serve(...tlsArgs(ca.issue()));
  });
  const enqueue = (queue) => run(['enqueue', queue, '1', '--server', server.url, ...trust]);

  test('claims and acks over TLS, and tells the command which authority to trust', async () => {
    await enqueue('work');
    const done = await run(['work', 'work', '--server', server.url, ...trust, '--until-empty', '--', 'sh', '-c', 'echo "$HOLDFAST_SERVER $HOLDFAST_CACERT" >&2']);
    assert.equal(done.code, 0, done.stderr);
    assert.ok(done.stderr.includes(`${server.url} ${ca.file}`), done.stderr);
    assert.match(done.stderr, /outcome=acked/);
  });

  test('several workers of a file share the options', async () => {
    const file = path.join(temporaryDirectory(), 'work.yaml');
    writeFileSync(file, 'workers:\n  - {queues: [one], command: [cat], until_empty: true}\n  - {queues: [two], command: [cat], until_empty: true}\n');
    await Promise.all([enqueue('one'), enqueue('two')]);
    const done = await run(['work', '--config', file, '--server', server.url, ...trust]);
    assert.equal(done.code, 0, done.stderr);
    assert.equal([...done.stderr.matchAll(/outcome=acked/g)].length, 2, done.stderr);
  });

  test('says why the server cannot be verified', async () => {
    const done = await run(['work', 'none', '--server', server.url, '--once', '--', 'cat']);
    assert.equal(done.code, 3, done.stderr);
    assert.match(done.stderr, /no_server .*unknown authority/);
  });
});

describe('a server that requires client certificates', () => {
  const clients = authority('authority of clients');
  let server;
  before(async () => {
    server = await serve(...tlsArgs(ca.issue(), '--tls-client-ca', clients.file));
  });
  const own = ({ cert, key }) => ['--client-cert', cert, '--client-key', key];

  test('accepts one', async () => {
    const done = await stats(server, ...trust, ...own(clients.issue()));
    assert.equal(done.code, 0, done.stderr);
    const { cert, key } = clients.issue();
    const shown = await run(['stats'], { env: { HOLDFAST_SERVER: server.url, HOLDFAST_CACERT: ca.file, HOLDFAST_CLIENT_CERT: cert, HOLDFAST_CLIENT_KEY: key } });
    assert.equal(shown.code, 0, shown.stderr);
    const benched = await run(['bench', '--server', server.url, ...trust, ...own(clients.issue()), '--jobs', '10']);
    assert.equal(benched.code, 0, benched.stderr);
  });

  test('refuses a client without one', () => says(stats(server, ...trust), /requires a certificate of the client/));
  test('refuses an expired one', () => says(stats(server, ...trust, ...own(clients.issue({ days: -1 }))), /refused the certificate of --client-cert, because it has expired/));
  test('refuses a foreign one', () => says(stats(server, ...trust, ...own(other.issue())), /refused the certificate of --client-cert/));
});
