// SPDX-License-Identifier: Apache-2.0
// Backup of a running server, restore and compact: the content of a backup, refusals, files that remain (NOM-10).
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { binary, logged, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, enqueue } from '../lib/suite.mjs';

const temporary = (dir) => readdirSync(dir).filter((name) => /tmp|part|restoring/.test(name));
const sizeOf = (file) => (existsSync(file) ? statSync(file).size : 0);

/** Enqueues `count` jobs with payloads of `bytes` bytes. */
async function fill(api, queue, count, bytes) {
  const payload = 'x'.repeat(bytes);
  for (let done = 0; done < count; done += 50) {
    const jobs = Array.from({ length: Math.min(50, count - done) }, () => ({ payload }));
    assert.equal((await api.post(`/v1/queues/${queue}/jobs`, jobs)).status, 200);
  }
}

/** Changes a byte of the page that contains this text. */
function spoil(file, text) {
  const bytes = readFileSync(file);
  const at = bytes.indexOf(text);
  assert.ok(at > 0, `${text} is not in ${file}`);
  bytes[at] ^= 1;
  writeFileSync(file, bytes);
}

/** A GET of the backup by a client that reads only the head until it is told to continue. */
async function slowBackup(server) {
  const socket = net.connect(server.port, server.host);
  let got = '';
  await new Promise((resolve, reject) => {
    socket.on('error', reject);
    socket.on('data', (chunk) => {
      got += chunk.toString('latin1');
      if (!got.includes('\r\n\r\n')) return;
      socket.pause();
      resolve();
    });
    socket.write('GET /v1/backup HTTP/1.1\r\nHost: localhost\r\n\r\n');
  });
  return { socket, head: got.slice(0, got.indexOf('\r\n\r\n')) };
}

describe('backup and restore', () => {
  const work = temporaryDirectory();

  test('a backup under load contains everything confirmed before it; the restored store repeats nothing', async () => {
    const server = await startServer();
    const api = new Client(server);
    const confirmed = [];
    let stop = false, failed = null;
    const load = Array.from({ length: 8 }, async (_, producer) => {
      while (!stop) {
        const answer = await api.post('/v1/queues/load/jobs', { payload: { producer, n: confirmed.length } });
        if (answer.status !== 201) failed = answer.text;
        confirmed.push(answer.json);
      }
    });
    await until('there is load', () => confirmed.length > 200);
    const done = await enqueue(api, 'acked', { payload: 'done' });
    const acked = await claimOne(api, 'acked');
    await api.post(`/v1/jobs/${acked.id}/ack`, { token: acked.token });
    await enqueue(api, 'running', { payload: 'held' });
    const held = await claimOne(api, 'running', { lease_ms: 600_000 });
    await enqueue(api, 'later', { payload: 'not claimed yet' });
    const keyed = await api.post('/v1/queues/keyed/jobs', { payload: 1 }, { headers: { 'idempotency-key': 'k' } });

    const sure = confirmed.slice();
    const dir = path.join(work, 'one');
    const made = await run(['backup', dir, '--server', server.url, '--json']);
    assert.equal(made.code, 0, made.stderr);
    const told = JSON.parse(made.stdout);
    assert.equal(told.file, path.join(dir, 'holdfast.db'));
    assert.equal(told.bytes, statSync(told.file).size);
    assert.ok(told.position > 0 && told.jobs >= sure.length + 3);
    assert.deepEqual(readdirSync(dir), ['holdfast.db']);
    assert.equal(statSync(told.file).mode & 0o777, 0o600);
    const looked = await run(['check', dir]);
    assert.equal(looked.code, 0, looked.stdout);
    assert.deepEqual(readdirSync(dir), ['holdfast.db'], 'a check leaves nothing in a backup');
    stop = true;
    await Promise.all(load);
    assert.equal(failed, null, 'work goes on meanwhile');
    const afterwards = await enqueue(api, 'load', { payload: 'after the backup' });
    const stale = await claimOne(api, 'later');
    await stopServer(server);

    const data = path.join(work, 'one-restored');
    const restored = await run(['restore', dir, '--data', data]);
    assert.equal(restored.code, 0, restored.stderr);
    assert.match(restored.stdout, new RegExp(`restored ${told.jobs} jobs in 5 queues`));
    assert.deepEqual(readdirSync(dir), ['holdfast.db'], 'the backup is as it was');
    const check = await run(['check', data]);
    assert.equal(check.code, 0, check.stdout);

    const again = await startServer({ data });
    const other = new Client(again);
    for (const { id } of sure) assert.equal((await other.get(`/v1/jobs/${id}`)).status, 200, id);
    assert.equal((await other.get(`/v1/jobs/${done.id}`)).json.state, 'done');
    const ack = await other.post(`/v1/jobs/${held.id}/ack`, { token: held.token });
    assert.deepEqual([ack.status, ack.json.state], [200, 'done'], 'its claim is in the backup');
    const fresh = await enqueue(other, 'load', { payload: 'new' });
    assert.ok(fresh.seq > afterwards.seq + 2 ** 31, `${fresh.seq} after ${afterwards.seq}`);
    assert.equal((await other.get(`/v1/jobs/${afterwards.id}`)).status, 404);
    const lost = await other.post(`/v1/jobs/${stale.id}/ack`, { token: stale.token });
    assert.deepEqual([lost.status, lost.json.code], [409, 'lease_lost'], 'a claim of after the backup');
    const taken = await claimOne(other, 'later');
    assert.equal(taken.id, stale.id);
    assert.notEqual(taken.token, stale.token);
    const old = await other.post(`/v1/jobs/${stale.id}/ack`, { token: stale.token });
    assert.equal(old.json.code, 'lease_lost', 'also while another holds it');
    const repeated = await other.post('/v1/queues/keyed/jobs', { payload: 1 }, { headers: { 'idempotency-key': 'k' } });
    assert.equal(repeated.json.id, keyed.json.id, 'idempotency keys are in it');
    other.close();
    api.close();
    await stopServer(again);
  });

  describe('backup of a large store', () => {
    let server, api;
    before(async () => {
      server = await startServer();
      api = new Client(server);
      await fill(api, 'big', 300, 100_000);
    });
    after(async () => {
      api.close();
      await stopServer(server);
    });

    test('only one backup runs at a time, until it is sent; a slow client holds neither the WAL nor a file name', async () => {
      const slow = await slowBackup(server);
      assert.match(slow.head, /^HTTP\/1\.1 200 /);
      assert.match(slow.head, /Content-Type: application\/vnd\.sqlite3\r\n/);
      assert.match(slow.head, /Content-Disposition: attachment; filename="holdfast-\d{8}-\d{6}\.db"\r\n/);
      assert.match(slow.head, /Holdfast-Position: \d+/);
      assert.deepEqual(temporary(server.data), []);
      const second = await api.get('/v1/backup');
      assert.deepEqual([second.status, second.json.code], [409, 'busy']);
      assert.ok(second.headers['retry-after']);
      const refused = await run(['backup', path.join(work, 'second'), '--server', server.url]);
      assert.equal(refused.code, 1);
      assert.match(refused.stderr, /another backup is being created or sent/);
      assert.ok(!existsSync(path.join(work, 'second')));

      const wal = path.join(server.data, 'holdfast.db-wal');
      await fill(api, 'more', 50, 100_000);
      assert.ok(sizeOf(wal) > 0);
      assert.equal((await api.post('/v1/compact')).status, 200);
      assert.equal(sizeOf(wal), 0, 'the WAL starts over while the client still reads');

      slow.socket.destroy();
      const next = await until('the place is free', async () => {
        const answer = await api.get('/v1/backup');
        return answer.status === 200 && answer;
      });
      assert.equal(next.raw.subarray(0, 15).toString(), 'SQLite format 3');
      const figures = (await api.get('/metrics')).text;
      assert.match(figures, /^holdfast_backups_total\{outcome="done"\} 1$/m);
      assert.match(figures, /^holdfast_backups_total\{outcome="cut_short"\} 1$/m);
      assert.match(figures, /^holdfast_backup_last_success_timestamp_seconds 1\d{9}$/m);
      assert.match(figures, new RegExp(`^holdfast_backup_last_bytes ${next.raw.length}$`, 'm'));
    });

    test('HEAD, prefetch and parameters are refused', async () => {
      assert.equal((await api.once('HEAD', '/v1/backup')).status, 405);
      assert.equal((await api.get('/v1/backup', { headers: { 'sec-purpose': 'prefetch' } })).status, 403);
      assert.equal((await api.get('/v1/backup?fast=1')).json.code, 'unknown_field');
      assert.equal((await api.post('/v1/compact', { fast: true })).json.code, 'unknown_field');
    });

    test('a server stops in the middle of a backup', async () => {
      const other = await startServer({ args: ['--timeouts-drain-ms', '200'] });
      const client = new Client(other);
      await fill(client, 'big', 300, 100_000);
      const slow = await slowBackup(other);
      slow.socket.on('error', () => {});
      client.close();
      other.process.kill('SIGTERM');
      assert.equal((await other.exited).code, 0, other.stderr);
      slow.socket.destroy();
    });

    test('compact frees the space of removed jobs, and the server continues to work', async () => {
      assert.equal((await api.delete('/v1/queues/big')).status, 200);
      const before = sizeOf(path.join(server.data, 'holdfast.db'));
      let stop = false;
      const statuses = new Set();
      const load = (async () => {
        while (!stop) statuses.add((await api.post('/v1/queues/load/jobs', { payload: 1 })).status);
      })();
      const result = await until('the jobs are gone', async () => {
        const { code, stdout, stderr } = await run(['compact', '--server', server.url, '--json']);
        assert.equal(code, 0, stderr);
        const { bytes_before: was, bytes_after: is } = JSON.parse(stdout);
        assert.ok(is <= was + 1_000_000);
        return is < before / 2 && is;
      });
      stop = true;
      await load;
      assert.deepEqual([...statuses], [201]);
      assert.ok(sizeOf(path.join(server.data, 'holdfast.db')) < before / 2, `${result} of ${before}`);
      assert.match((await run(['compact', '--server', server.url])).stdout, /^\d+\.\d MiB before, \d+\.\d MiB now\n$/);
    });
  });

  test('a memory store has nothing to back up', async () => {
    const server = await startServer({ backend: 'memory' });
    const api = new Client(server);
    for (const answer of [await api.get('/v1/backup'), await api.post('/v1/compact')]) {
      assert.deepEqual([answer.status, answer.json.code], [409, 'not_supported']);
      assert.match(answer.json.detail, /stores nothing in files/);
    }
    const refused = await run(['backup', path.join(work, 'memory'), '--server', server.url]);
    assert.equal(refused.code, 1);
    assert.ok(!existsSync(path.join(work, 'memory')));
    api.close();
    await stopServer(server);
  });

  test('neither a server that is killed during the copy nor the command leaves files', async () => {
    const server = await startServer({ env: { HF_FAILPOINT: 'backup.slice:1' } });
    const api = new Client(server);
    const { id } = await enqueue(api, 'q', { payload: 'stays' });
    const dir = path.join(work, 'killed');
    const { code, stderr } = await run(['backup', dir, '--server', server.url]);
    assert.equal(code, 3, stderr);
    assert.ok(!existsSync(dir));
    await server.exited;
    assert.deepEqual(temporary(server.data), []);
    writeFileSync(path.join(server.data, 'backup-abcdef.tmp'), 'as if it died in the very moment');
    const again = await startServer({ data: server.data });
    assert.deepEqual(temporary(server.data), []);
    const other = new Client(again);
    assert.equal((await other.get(`/v1/jobs/${id}`)).status, 200);
    assert.equal((await other.get('/v1/backup')).status, 200);
    other.close();
    api.close();
    await stopServer(again);
  });

  test('a full disk is reported, and the server continues', async () => {
    const library = path.join(work, 'full_disk.so');
    const small = path.join(work, 'small');
    execFileSync('gcc', ['-shared', '-fPIC', '-O1', '-o', library, new URL('../lib/full_disk.c', import.meta.url).pathname, '-ldl']);
    const env = { LD_PRELOAD: library, HF_SMALL_DISK: small, ASAN_OPTIONS: 'exitcode=99:verify_asan_link_order=0' };
    const server = await startServer({ env });
    const api = new Client(server);
    await enqueue(api, 'q', { payload: 1 });
    writeFileSync(small, '');
    const refused = await api.get('/v1/backup');
    assert.deepEqual([refused.status, refused.json.code], [507, 'disk_full']);
    assert.match(refused.json.detail, /has 65 MiB free; the copy takes \d+ MiB and must leave \d+ MiB/);
    assert.deepEqual(temporary(server.data), []);
    await enqueue(api, 'q', { payload: 2 });
    rmSync(small);
    assert.equal((await api.get('/v1/backup')).status, 200);
    api.close();
    await stopServer(server);
  });
});

describe('the commands', () => {
  const work = temporaryDirectory();
  const backup = path.join(work, 'backup');
  let server, api;
  before(async () => {
    server = await startServer();
    api = new Client(server);
    await enqueue(api, 'q', { payload: 1 });
    const { code, stdout, stderr } = await run(['backup', backup, '--server', server.url]);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /holdfast\.db: 1 job in 1 queue, \d+\.\d MiB, \d+\.\d s; checked\n$/);
  });
  after(async () => {
    api.close();
    await stopServer(server);
  });

  const refuses = async (args, code, words) => {
    const result = await run(args);
    assert.equal(result.code, code, result.stdout + result.stderr);
    assert.match(result.stderr, words);
  };

  test('backup refuses a directory that is not empty, and says when there is no server', async () => {
    await refuses(['backup', backup, '--server', server.url], 2, /is not empty/);
    assert.deepEqual(readdirSync(backup), ['holdfast.db']);
    await refuses(['backup', path.join(work, 'a/b'), '--server', server.url], 2, /cannot create the directory/);
    await refuses(['backup', path.join(work, 'none'), '--server', 'http://127.0.0.1:1'], 3, /no reply/);
    assert.ok(!existsSync(path.join(work, 'none')));
    mkdirSync(path.join(work, 'empty'));
    const { code } = await run(['backup', path.join(work, 'empty'), '--server', server.url]);
    assert.equal(code, 0);
  });

  test('the command and the log report a damaged page', async () => {
    const data = path.join(work, 'damaged'), target = path.join(work, 'damaged-backup');
    let other = await startServer({ data });
    let client = new Client(other);
    await client.post('/v1/queues/q/jobs', Array.from({ length: 200 }, (_, n) => ({ payload: `needle-${n}-${'x'.repeat(300)}`, delay_ms: 3_600_000 })));
    client.close();
    await stopServer(other);
    spoil(path.join(data, 'holdfast.db'), 'needle-150-');
    other = await startServer({ data });
    await refuses(['backup', target, '--server', other.url], 3, /cannot copy .*holdfast\.db: page \d+ is damaged/);
    assert.ok(!existsSync(target));
    const [, line] = await logged(other, /(backup_failed .*)\n/);
    assert.match(line, /why=.*page \d+ is damaged.* error=CORRUPT/);
    await stopServer(other);
  });

  test('the error for a damaged backup names it and says what to do', async () => {
    const damaged = path.join(work, 'spoiled'), target = path.join(work, 'not-restored');
    mkdirSync(damaged);
    const bytes = readFileSync(path.join(backup, 'holdfast.db'));
    for (const [at, words] of [[bytes.length - 100, 'page \\d+ is damaged'], [60, 'page 1 is damaged']]) {
      const copy = Buffer.from(bytes);
      copy[at] ^= 1;
      writeFileSync(path.join(damaged, 'holdfast.db'), copy);
      await refuses(['restore', damaged, '--data', target], 1, new RegExp(`${damaged}/holdfast\\.db.* ${words}.*; nothing was restored: restore an older backup, or save what can be read: holdfast export --data ${damaged}\n`));
    }
    const other = path.join(work, 'other-name.db');
    renameSync(path.join(damaged, 'holdfast.db'), other);
    await refuses(['restore', other, '--data', target], 1, new RegExp(`${other}.* page 1 is damaged.*; nothing was restored: restore an older backup\n`));
    assert.ok(!existsSync(path.join(target, 'holdfast.db')));
  });

  test('restore refuses a file that is not a backup, and does not change a store', async () => {
    const data = path.join(work, 'data');
    const text = path.join(work, 'text');
    writeFileSync(text, 'x'.repeat(5000));
    await refuses(['restore', text, '--data', data], 2, /not even a database/);
    const foreign = path.join(work, 'foreign.db');
    execFileSync('sqlite3', [foreign, 'CREATE TABLE t (a)']);
    await refuses(['restore', foreign, '--data', data], 2, /database of another program/);
    await refuses(['restore', work, '--data', data], 2, /no file holdfast\.db/);
    await refuses(['restore', path.join(work, 'nowhere'), '--data', data], 2, /cannot find/);
    await refuses(['restore', backup], 2, /--data is missing/);
    await refuses(['restore', server.data, '--data', data], 2, /a server is running on/);
    assert.ok(!existsSync(data), 'nothing was begun');
    const cut = path.join(work, 'cut.db');
    const whole = readFileSync(path.join(backup, 'holdfast.db'));
    writeFileSync(cut, whole.subarray(0, whole.length - 4096));
    await refuses(['restore', cut, '--data', data], 1, /not whole/);
    await refuses(['restore', backup, '--data', server.data], 2, /in use by another holdfast process/);
    assert.equal((await run(['restore', backup, '--data', data])).code, 0);
    const store = readFileSync(path.join(data, 'holdfast.db'));
    await refuses(['restore', backup, '--data', data], 2, /already has a store.*move it away/);
    assert.ok(store.equals(readFileSync(path.join(data, 'holdfast.db'))));
  });

  test('a restore that is killed leaves no store, and the next one succeeds', async () => {
    const data = path.join(work, 'dying');
    const { code } = await run(['restore', backup, '--data', data], { env: { HF_FAILPOINT: 'restore.rename:1' } });
    assert.notEqual(code, 0);
    assert.ok(!existsSync(path.join(data, 'holdfast.db')));
    assert.equal((await run(['restore', backup, '--data', data])).code, 0);
    assert.deepEqual(temporary(data), []);
    assert.equal((await run(['check', data])).code, 0);
  });

  /** A server that replies to GET /v1/backup as the test says. */
  const imposter = async (answer) => {
    const listener = http.createServer(answer);
    await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
    return { url: `http://127.0.0.1:${listener.address().port}`, close: () => (listener.closeAllConnections(), listener.close()) };
  };

  test('an incomplete or damaged backup is not kept', async () => {
    const whole = readFileSync(path.join(backup, 'holdfast.db'));
    const dir = path.join(work, 'bad');
    const short = await imposter((request, response) => {
      response.writeHead(200, { 'content-length': whole.length });
      response.write(whole.subarray(0, 8192), () => response.destroy());
    });
    await refuses(['backup', dir, '--server', short.url], 3, /no reply from the server/);
    assert.ok(!existsSync(dir));
    short.close();
    const damaged = Buffer.from(whole);
    damaged.fill(0xa5, 4 * 4096, 8 * 4096);
    const liar = await imposter((request, response) => response.writeHead(200, { 'content-length': damaged.length }).end(damaged));
    await refuses(['backup', dir, '--server', liar.url], 1, /not a good backup/);
    assert.ok(!existsSync(dir));
    liar.close();
    const stranger = await imposter((request, response) => response.writeHead(200, { 'content-length': 5 }).end('hello'));
    await refuses(['backup', dir, '--server', stranger.url], 1, /not even a database/);
    assert.ok(!existsSync(dir));
    stranger.close();
  });

  test('an interrupted backup leaves no files', async () => {
    const dir = path.join(work, 'interrupted');
    const forever = await imposter((request, response) => {
      response.writeHead(200, { 'content-length': 1 << 20 });
      response.write(Buffer.alloc(4096));
    });
    const child = spawn(binary, ['backup', dir, '--server', forever.url], { stdio: ['ignore', 'ignore', 'pipe'] });
    let said = '';
    child.stderr.on('data', (chunk) => (said += chunk));
    const ended = new Promise((resolve) => child.on('close', resolve));
    await until('it receives', () => sizeOf(path.join(dir, 'holdfast.db.part')) === 4096);
    child.kill('SIGINT');
    assert.equal(await ended, 1);
    assert.match(said, /interrupted; nothing was kept/);
    assert.ok(!existsSync(dir));
    forever.close();
  });
});
