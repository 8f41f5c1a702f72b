// SPDX-License-Identifier: Apache-2.0
// Operation: health, readiness, signals, restarts, two servers, sockets (HF-1, HF-12, PDQ-5).
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { describe, test } from 'node:test';

import { only, storeKind } from '../lib/backend.mjs';
import { Client, openStream } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { killServer, logged, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, enqueue } from '../lib/suite.mjs';

/**
 * An enqueue of which the server has read the head, which keeps a drain going; `end()` sends the body. A
 * connection alone would not do: until the head is read it is idle, and a drain closes it.
 */
async function beginRequest(server, body) {
  const headers = { 'content-type': 'application/json', 'content-length': body.length, expect: '100-continue' };
  const request = http.request({ host: server.host, port: server.port, method: 'POST', path: '/v1/queues/q/jobs', headers });
  const answered = new Promise((resolve, reject) => {
    request.on('response', (response) => {
      let text = '';
      response.on('data', (chunk) => (text += chunk));
      response.on('end', () => resolve({ status: response.statusCode, headers: response.headers, text }));
    });
    request.on('error', reject);
  });
  const read = new Promise((resolve) => request.on('continue', resolve));
  request.flushHeaders();
  await Promise.race([read, answered]);
  return { answered, end: () => request.end(body) };
}

describe('operation', () => {
  test('HF-12: health and readiness', async () => {
    const server = await startServer();
    const api = new Client(server);
    assert.deepEqual((await api.get('/healthz')).json, { status: 'ok' });
    assert.deepEqual((await api.get('/readyz')).json, { status: 'ready' });
    const about = (await api.get('/v1/server')).json;
    assert.match(about.version, /^\d+\.\d+\.\d+$/);
    assert.equal(about.backend, storeKind);
    assert.equal(about.durable, true);
    api.close();
    await stopServer(server);
  });

  test('HF-12: the log has one JSON object per line if configured, and contains no payloads', async () => {
    const server = await startServer({ args: ['--log-format', 'json', '--log-level', 'debug'] });
    const api = new Client(server);
    await enqueue(api, 'q', { payload: 'a-secret-payload' });
    const job = await claimOne(api, 'q');
    await api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: 'a-secret-error' });
    api.close();
    await stopServer(server);
    const lines = server.stderr.trim().split('\n').map((line) => JSON.parse(line));
    assert.ok(lines.some((line) => line.event === 'ready'));
    assert.doesNotMatch(server.stderr, /a-secret/);
  });

  test('HF-1: everything confirmed exists after kill -9, including leases and tokens', async () => {
    let server = await startServer({ data: temporaryDirectory() });
    let api = new Client(server);
    const ids = [];
    for (let i = 0; i < 20; i++) ids.push((await enqueue(api, 'q', { payload: i })).id);
    const held = await claimOne(api, 'q', { lease_ms: 60000 });
    const acked = await claimOne(api, 'q');
    await api.post(`/v1/jobs/${acked.id}/ack`, { token: acked.token });
    api.close();
    await killServer(server);
    server = await startServer({ data: server.data });
    api = new Client(server);
    for (const [i, id] of ids.entries()) assert.equal((await api.get(`/v1/jobs/${id}`)).json.payload, i);
    assert.equal((await api.get(`/v1/jobs/${acked.id}`)).json.state, 'done');
    assert.equal((await api.get(`/v1/jobs/${held.id}`)).json.state, 'running', 'a lease outlives a restart');
    assert.equal((await api.post(`/v1/jobs/${held.id}/ack`, { token: held.token })).json.state, 'done');
    const next = await claimOne(api, 'q');
    assert.notEqual(next.token, held.token);
    api.close();
    await stopServer(server);
  });

  test('SIGTERM (PDQ-4): waiting claims end, streams end, running jobs keep their lease, exit 0', async () => {
    let server = await startServer({ data: temporaryDirectory() });
    let api = new Client(server);
    await enqueue(api, 'q', { payload: 1 });
    const held = await claimOne(api, 'q', { lease_ms: 60000 });
    const waiting = api.post('/v1/queues/none/claim', { wait_ms: 60000 });
    const events = await openStream(server, '/v1/events').opened;
    await enqueue(api, 's', { payload: 2 });
    const stream = await openStream(server, '/v1/queues/s/listen', { method: 'POST', json: { prefetch: 1 } }).opened;
    const streamed = JSON.parse((await stream.next()).data);
    await until('the claim waits', async () => (await api.get('/metrics')).text.includes('holdfast_claims_waiting 1'));
    server.process.kill('SIGTERM');
    assert.deepEqual((await waiting).json.jobs, []);
    const { code } = await server.exited;
    assert.equal(code, 0, server.stderr);
    await until('the streams ended', () => stream.ended() && events.ended());
    api.close();
    server = await startServer({ data: server.data });
    api = new Client(server);
    assert.equal((await api.get(`/v1/jobs/${held.id}`)).json.state, 'running');
    const back = (await api.get(`/v1/jobs/${streamed.id}`)).json;
    assert.equal(back.state, 'ready');
    assert.equal(back.crashes, 0, 'the server ended the stream: no crash is counted');
    api.close();
    await stopServer(server);
  });

  test('SIGHUP reloads some settings and reports those that need a restart', async () => {
    const file = path.join(temporaryDirectory(), 'holdfast.yaml');
    writeFileSync(file, 'log:\n  level: info\n');
    const server = await startServer({ backend: 'memory', args: ['--config', file] });
    writeFileSync(file, 'log:\n  level: debug\nnode: 7\n');
    server.process.kill('SIGHUP');
    for (const pattern of [/settings_reloaded/, /setting_changed key=log\.level/, /setting_needs_restart key=node/]) await logged(server, pattern);
    writeFileSync(file, 'nonsense: 1\n');
    server.process.kill('SIGHUP');
    await until('it says why not', () => /settings_not_reloaded/.test(server.stderr));
    await stopServer(server);
  });

  test('SIGHUP during a drain changes nothing', async () => {
    const server = await startServer();
    const held = await beginRequest(server, '{}');
    server.process.kill('SIGTERM');
    await until('it drains', () => /draining/.test(server.stderr));
    server.process.kill('SIGHUP');
    await until('it says why not', () => /settings_not_reloaded why="the server is stopping"/.test(server.stderr));
    held.end();
    for (let hups = 0; hups < 100 && !server.exit; hups++) {
      server.process.kill('SIGHUP');
      await new Promise(setImmediate);
    }
    assert.deepEqual(await server.exited, { code: 0, signal: null });
  });

  test('a wrong listen address is reported before a store is created', async () => {
    const data = path.join(temporaryDirectory(), 'data');
    const { code, stderr } = await run(['serve', '--listen', '127.0.0.1:0,nowhere', '--data', data]);
    assert.equal(code, 2);
    assert.match(stderr, /"nowhere".*HOST:PORT/);
    assert.ok(!existsSync(data));
  });

  test('only the directory of the store is created', async () => {
    const dir = temporaryDirectory();
    const [data, store] = [path.join(dir, 'data'), path.join(dir, 'store')];
    const server = await startServer({ data, args: ['--backend', `sqlite:${store}`] });
    await stopServer(server);
    assert.ok(existsSync(path.join(store, 'holdfast.db')));
    assert.ok(!existsSync(data));
  });

  test('sd_notify: ready, reloading, stopping, and the watchdog', async (t) => {
    const name = path.join(temporaryDirectory(), 'notify');
    const messages = [];
    const python = spawn('python3', ['-u', '-c', `import socket,sys\ns=socket.socket(socket.AF_UNIX,socket.SOCK_DGRAM)\ns.bind(sys.argv[1])\nprint("bound",flush=True)\nwhile True: print(s.recv(4096).decode().replace("\\n"," "),flush=True)`, name]);
    t.after(() => python.kill()); // Node has no datagram sockets of this family
    python.stdout.on('data', (chunk) => messages.push(...String(chunk).trim().split('\n')));
    await until('the socket is there', () => messages.includes('bound'));
    const server = await startServer({ backend: 'memory', env: { NOTIFY_SOCKET: name, WATCHDOG_USEC: '100000' } });
    await until('ready', () => messages.some((m) => m.includes('READY=1')));
    await until('watchdog', () => messages.filter((m) => m.includes('WATCHDOG=1')).length >= 2);
    const before = messages.length;
    server.process.kill('SIGHUP');
    await until('reloading, then ready', () => /RELOADING=1.*READY=1/.test(messages.slice(before).join(' ')));
    await stopServer(server);
    await until('stopping', () => messages.some((m) => m.includes('STOPPING=1')));
  });

  test('tokens of an earlier process are invalid, also with the memory store', only('memory'), async () => {
    const tokens = [];
    for (let i = 0; i < 2; i++) {
      const server = await startServer({ backend: 'memory' });
      const api = new Client(server);
      await enqueue(api, 'q', { payload: 1 });
      const job = await claimOne(api, 'q');
      for (const old of tokens) assert.equal((await api.post(`/v1/jobs/${job.seq}/ack`, { token: old })).status, 409);
      tokens.push(job.token);
      api.close();
      await stopServer(server);
    }
    assert.notEqual(tokens[0], tokens[1]);
  });

  test('a second server on the same data is refused with a message', only('files'), async () => {
    const server = await startServer();
    const second = await run(['serve', '--listen', '127.0.0.1:0', '--data', server.data]);
    assert.equal(second.code, 1);
    assert.match(second.stderr, /in use|another/i);
    const taken = await run(['serve', '--listen', `127.0.0.1:${server.port}`, '--backend', 'memory:']);
    assert.equal(taken.code, 1);
    assert.match(taken.stderr, new RegExp(`${server.port}`));
    await stopServer(server);
  });

  test('wrong settings are refused with a message', async () => {
    for (const [args, pattern] of [
      [['--lisen', 'x'], /did you mean.*listen/],
      [['--listen', '0.0.0.0:0'], /loopback/],
      [['--listen', '127.0.0.1:99999'], /port|65535/i],
      [['--backend', 'mysql://root:hunter2@x'], /unknown backend/],
      [['--config', '/nonexistent.yaml'], /nonexistent\.yaml/],
      [['--limits-body-bytes', 'lots'], /bytes/],
    ]) {
      const { code, stderr } = await run(['serve', ...args]);
      assert.notEqual(code, 0);
      assert.match(stderr, pattern);
      assert.doesNotMatch(stderr, /hunter2/);
    }
  });

  test('a Unix socket', async () => {
    const name = path.join(temporaryDirectory(), 'holdfast.sock');
    const server = await startServer({ backend: 'memory', listen: `unix:${name}` });
    const status = await new Promise((resolve, reject) => {
      http.get({ socketPath: name, path: '/healthz', headers: { host: 'localhost' } }, (response) => resolve(response.statusCode)).on('error', reject);
    });
    assert.equal(status, 200);
    await stopServer(server);
    assert.ok(!existsSync(name), 'the socket file goes with the server');
  });

  test('PDQ-5: while draining, enqueues are refused with 503', async () => {
    const server = await startServer({ backend: 'memory' });
    const api = new Client(server);
    await enqueue(api, 'q', { payload: 1 });
    const slow = await beginRequest(server, '{"payload":1}');
    api.close();
    server.process.kill('SIGTERM');
    await until('it drains', () => /draining/.test(server.stderr));
    slow.end();
    const answer = await slow.answered;
    assert.equal(answer.status, 503, answer.text);
    assert.equal(JSON.parse(answer.text).code, 'draining');
    assert.ok(answer.headers['retry-after']);
    assert.equal((await server.exited).code, 0);
  });
});

describe('the cluster of an embedded store', only('alone'), () => {
  for (const backend of ['memory', 'sqlite', 'fault+sqlite'])
    test(`TF-3 one node, which leads, on ${backend}`, async () => {
      const server = await startServer({ backend, args: ['--node', '9'] });
      const api = new Client(server);
      const { epoch, started_at: startedAt, version } = (await api.get('/v1/server')).json;
      const { status, json } = await api.get('/v1/cluster');
      assert.equal(status, 200);
      const { seen_at: seenAt, ...node } = json.nodes[0];
      assert.equal(json.nodes.length, 1);
      assert.deepEqual(node, { node: 9, epoch, self: true, leader: true, silent: false, version });
      assert.equal(seenAt, json.as_of);
      assert.deepEqual(json.leader, { node: 9, self: true, epoch, lease_left_ms: null });
      const { since, ...rest } = json.backend;
      assert.deepEqual(rest, { type: backend, shared: false, up: true, last_error: null, clock_offset_ms: 0, connections: 0, connections_wanted: 0 });
      assert.ok(Math.abs(Date.parse(since) - Date.parse(startedAt)) < 60_000);
      assert.equal((await api.get('/v1/cluster?x=1')).status, 422);
      const { text } = await api.get('/metrics');
      for (const line of ['holdfast_backend_up 1', 'holdfast_cluster_nodes 1', 'holdfast_leader 1', `holdfast_leader_epoch ${epoch}`])
        assert.match(text, new RegExp(`^${line}$`, 'm'));
      api.close();
      await stopServer(server);
    });
});
