// SPDX-License-Identifier: Apache-2.0
// The journal of the real program: nothing that clients send is taken for an entry of it, an
// incomplete last entry is reported everywhere, and without its key nothing is read or overwritten.
import assert from 'node:assert/strict';
import { closeSync, cpSync, existsSync, openSync, readdirSync, readFileSync, readSync, rmSync, statSync, symlinkSync, writeFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { killServer, logged, startServer, stopServer, temporaryDirectory } from '../lib/server.mjs';

const PAGE = 4096, HEADER = 96, FRAME = 24;
const GOOD = 0, PROBLEMS = 1, WARNED = 3;

const crcTable = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let i = 0; i < 8; i++) n = n & 1 ? (n >>> 1) ^ 0x82f63b78 : n >>> 1;
  return n >>> 0;
});
const crc32c = (bytes) => ~bytes.reduce((crc, byte) => crcTable[(crc ^ byte) & 255] ^ (crc >>> 8), ~0) >>> 0;

// ---- forged entries ----

const STRIDE = 128;

/** An entry with everything right that a client can know: the id of the store is in every backup. */
function forgedEntry({ store, version, generation, first, at }) {
  const entry = Buffer.alloc(STRIDE);
  const frame = entry.subarray(HEADER, HEADER + FRAME + 3);
  frame.write('HFr1');
  frame.writeUInt32LE(3, 4);
  frame.writeBigUInt64LE(first, 8);
  frame.writeUInt32LE(1, 16);
  frame.writeUInt32LE(crc32c(frame), 20);
  entry.write(`HFj${version}`);
  entry.writeUInt32LE(frame.length, 4);
  store.copy(entry, 8);
  entry.writeBigUInt64LE(generation, 24);
  entry.writeBigUInt64LE(first, 32);
  entry.writeBigUInt64LE(first, 40);
  entry.writeBigUInt64LE(16n << 20n, 56);
  entry.writeBigUInt64LE(BigInt(at), 64);
  entry.writeUInt32LE(crc32c(entry.subarray(0, HEADER + frame.length)), 52);
  entry.fill(0x5a, 72, HEADER); // the magic number and the tag, which it cannot know
  return entry;
}

/** Entries at each of the 4,096 alignments to a page, so that one of them lies on a page of the journal. */
function forgedPayload(bytes, make) {
  const payload = Buffer.alloc(bytes);
  for (let at = 0; at + 2 * STRIDE <= bytes; at += STRIDE) make(at).copy(payload, at + (Math.floor(at / PAGE) % STRIDE));
  return payload;
}

/** A server and a client that end with the test, also when it fails. */
async function started(t, options) {
  const server = await startServer(options);
  const api = new Client(server);
  t.after(async () => {
    api.close();
    if (!server.exit) await killServer(server);
  });
  return { server, api };
}

const segments = (data) => readdirSync(path.join(data, 'journal')).filter((name) => /^\d+$/.test(name)).map((name) => path.join(data, 'journal', name));

function pageOf(file, at) {
  const fd = openSync(file, 'r');
  const page = Buffer.alloc(PAGE);
  const got = readSync(fd, page, 0, PAGE, at);
  closeSync(fd);
  return page.subarray(0, got);
}

const storeId = (data) => pageOf(segments(data).find((file) => pageOf(file, 0).subarray(0, 3).equals(Buffer.from('HFj'))), 0).subarray(8, 24);

async function postBytes(api, queue, body) {
  const answer = await api.request('POST', `/v1/queues/${queue}/jobs`, { body, headers: { 'content-type': 'application/octet-stream' } });
  assert.equal(answer.status, 201, answer.text);
  return answer.json;
}

async function mustCheck(data, code, pattern = /./) {
  const result = await run(['check', data]);
  assert.equal(result.code, code, result.stdout);
  assert.match(result.stdout, pattern);
  return result;
}

describe('payloads that look like journal entries', () => {
  test('90 jobs of 800 KiB, a clean stop, check, export, start', async (t) => {
    const data = temporaryDirectory();
    const options = { data, env: { HOLDFAST_JOURNAL_SEGMENT_BYTES: '16MiB' } };
    let { server, api } = await started(t, options);
    const store = storeId(data);
    for (let i = 0; i < 90; i++) {
      const version = i % 3 === 2 ? '2' : '1';
      const body = forgedPayload(800 << 10, (at) => forgedEntry({ store, version, generation: BigInt(1 + (at / STRIDE) % 40) ** 3n, first: BigInt(at) << 20n, at }));
      await postBytes(api, 'forged', body);
      if (i % 10 !== 9) continue;
      const claimed = (await api.post('/v1/queues/forged/claim', {})).json.jobs[0];
      const text = forgedPayload(4 << 10, (at) => forgedEntry({ store, version, generation: 1n << 40n, first: 1n << 40n, at })).toString('latin1').replaceAll('\0', ' ');
      const end = i % 20 === 9 ? ['ack', { token: claimed.token, result: text }] : ['fail', { token: claimed.token, error: text }];
      const ended = await api.post(`/v1/jobs/${claimed.id}/${end[0]}`, end[1]);
      assert.equal(ended.status, 200, ended.text);
    }
    for (let round = 0; round < 3; round++) {
      await stopServer(server);
      await mustCheck(data, GOOD, /no problems found/);
      const exported = await run(['export', '--data', data, '--output', path.join(data, `export-${round}`)]);
      assert.equal(exported.code, GOOD, exported.stderr);
      assert.match(exported.stderr, new RegExp(`^${85 + round} jobs `, 'm')); // 5 are done
      ({ server, api } = await started(t, options));
      assert.equal((await api.get('/v1/server')).json.store.journal_incomplete_bytes, 0);
      await postBytes(api, 'small', Buffer.from('x'));
    }
    await stopServer(server);
  });
});

// ---- the last entry ----

/** The place and the length of the last entry of a stopped store. */
function lastEntry(data) {
  let newest = { generation: 0n };
  for (const file of segments(data)) {
    const page = pageOf(file, 0);
    if (page.length >= HEADER && page.toString('latin1', 0, 4) === 'HFj1' && page.readBigUInt64LE(24) > newest.generation) newest = { file, generation: page.readBigUInt64LE(24) };
  }
  for (let at = 0, last; ; ) {
    const page = pageOf(newest.file, at);
    if (page.length < HEADER || page.toString('latin1', 0, 4) !== 'HFj1' || page.readBigUInt64LE(24) !== newest.generation) return { ...newest, ...last };
    last = { at, bytes: HEADER + page.readUInt32LE(4) };
    at += Math.ceil(last.bytes / PAGE) * PAGE;
  }
}

function flip(file, at) {
  const fd = openSync(file, 'r+');
  const byte = Buffer.alloc(1);
  readSync(fd, byte, 0, 1, at);
  byte[0] ^= 0x40;
  writeSync(fd, byte, 0, 1, at);
  closeSync(fd);
}

/** A store whose process died right after the sync of its last entry, which nothing has applied. */
async function killedStore(t) {
  const { server, api } = await started(t, { data: temporaryDirectory(), env: { HF_FAILPOINT: 'reply.before:5' } });
  const ids = [];
  while (!server.exit) {
    const answer = await api.post('/v1/queues/q/jobs', { payload: ids.length }).catch(() => null);
    if (answer) ids.push(answer.json.id);
    else await server.closed;
  }
  assert.ok(ids.length > 0);
  return { data: server.data, ids };
}

describe('the last entry of the journal', () => {
  test('after kill -9 with nothing being written there is no warning', async (t) => {
    const { data, ids } = await killedStore(t);
    await mustCheck(data, GOOD);
    const { server, api } = await started(t, { data });
    assert.equal((await api.get('/v1/server')).json.store.journal_incomplete_bytes, 0);
    assert.equal((await api.get('/v1/queues/q')).json.counts.ready, ids.length + 1); // the last was synced, too
    await stopServer(server);
    assert.doesNotMatch(server.stderr, /journal_entry_incomplete/);
    await mustCheck(data, GOOD);
  });

  for (const [what, place] of [['its body', HEADER + 40], ['its header', 41]])
    test(`damage in ${what} is reported by check, export, log, API and metrics`, async (t) => {
      const { data, ids } = await killedStore(t);
      const entry = lastEntry(data);
      flip(entry.file, entry.at + place);
      const where = `journal/${path.basename(entry.file)} at ${entry.at}`;
      await mustCheck(data, WARNED, new RegExp(`^warning: the last entry of the journal \\(${where}, .*\\) is incomplete; the next start ignores it$`, 'm'));
      const exported = await run(['export', '--data', data, '--output', path.join(data, 'exported')]);
      assert.equal(exported.code, GOOD, exported.stderr);
      assert.match(exported.stderr, new RegExp(`the last entry of the journal \\(${where}, .*\\) is incomplete and is ignored`));
      assert.match(exported.stderr, new RegExp(`^${ids.length} jobs `, 'm'));

      let { server, api } = await started(t, { data });
      const bytes = Math.ceil(entry.bytes / PAGE) * PAGE;
      const [, line] = await logged(server, /(journal_entry_incomplete .*)\n/);
      assert.match(line, new RegExp(`segment=${path.basename(entry.file)} offset=${entry.at} .*bytes=${bytes} `));
      const [, name] = line.match(/saved_as=(torn-\d+)/);
      const saved = path.join(data, 'journal', name);
      assert.equal(statSync(saved).mode & 0o777, 0o600);
      assert.equal(statSync(saved).size, bytes);
      const about = (await api.get('/v1/server')).json.store;
      assert.deepEqual([about.journal_incomplete_bytes, about.journal_incomplete_saved], [bytes, 1]);
      const metrics = (await api.get('/metrics')).text;
      assert.match(metrics, new RegExp(`^holdfast_journal_incomplete_bytes ${bytes}$`, 'm'));
      assert.match(metrics, /^holdfast_journal_incomplete_saved 1$/m);
      assert.equal((await api.get('/v1/queues/q')).json.counts.ready, ids.length);
      await stopServer(server);

      await mustCheck(data, WARNED, /^warning: earlier starts left out an incomplete last entry of the journal; 1 copy is kept/m);
      ({ server, api } = await started(t, { data }));
      const later = (await api.get('/v1/server')).json.store;
      assert.deepEqual([later.journal_incomplete_bytes, later.journal_incomplete_saved], [0, 1]);
      await stopServer(server);
      rmSync(saved);
      await mustCheck(data, GOOD);
    });

  test('damage in an entry before the last is refused', async (t) => {
    const { data } = await killedStore(t);
    const entry = lastEntry(data);
    assert.ok(entry.at >= PAGE);
    flip(entry.file, entry.at - PAGE + HEADER + 30);
    const { stdout } = await mustCheck(data, PROBLEMS, /a later entry begins at/);
    assert.doesNotMatch(stdout, /holdfast check/);
    await assert.rejects(started(t, { data }), /a later entry begins at/);
  });
});

// ---- the key ----

describe('the key of the journal', () => {
  test('is for its owner only, and a restored store has another one', async () => {
    const data = temporaryDirectory(), restored = temporaryDirectory();
    await stopServer(await startServer({ data }));
    const key = path.join(data, 'journal', 'key');
    assert.equal(statSync(key).mode & 0o777, 0o600);
    const result = await run(['restore', data, '--data', restored]);
    assert.equal(result.code, 0, result.stderr);
    assert.ok(!existsSync(path.join(restored, 'journal')));
    await stopServer(await startServer({ data: restored }));
    const secret = (dir) => readFileSync(path.join(dir, 'journal', 'key')).subarray(24, 56);
    assert.notDeepEqual(secret(restored), secret(data));
    assert.ok(!readFileSync(path.join(restored, 'holdfast.db')).includes(secret(restored)), 'the key is in holdfast.db');
  });

  test('missing: start and check say so, export gives what holdfast.db has, and the key back is enough', async (t) => {
    const { data, ids } = await killedStore(t);
    const key = path.join(data, 'journal', 'key'), aside = path.join(data, 'key-aside');
    cpSync(key, aside);
    rmSync(key);
    await assert.rejects(started(t, { data }), /journal\/key is missing, and the journal cannot be read without it/);
    await mustCheck(data, PROBLEMS, /problem: journal\/key is missing/);
    const exported = await run(['export', '--data', data, '--output', path.join(data, 'exported')]);
    assert.equal(exported.code, PROBLEMS, exported.stderr);
    assert.match(exported.stderr, /journal\/key is missing/);
    assert.match(exported.stderr, /what the journal has is missing/);
    assert.ok(!existsSync(key), 'a key was created where one is missing');
    cpSync(aside, key);
    const { server, api } = await started(t, { data });
    assert.equal((await api.get('/v1/queues/q')).json.counts.ready, ids.length + 1);
    await stopServer(server);
  });
});

describe('a damaged copy of the key', () => {
  for (const copy of [0, 1])
    test(`${copy}: check warns, and a start repairs it and says so`, async (t) => {
      const { data } = await killedStore(t);
      flip(path.join(data, 'journal', 'key'), copy * PAGE + 30);
      await mustCheck(data, WARNED, /^warning: journal\/key: one of its two copies is damaged; the next start/m);
      let { server } = await started(t, { data });
      await logged(server, /journal_key_repaired .*\n/);
      await stopServer(server);
      await mustCheck(data, GOOD);
      ({ server } = await started(t, { data }));
      await stopServer(server);
      assert.doesNotMatch(server.stderr, /journal_key_repaired/);
    });
});

describe('links in the data directory', () => {
  for (const name of ['lock', 'reserve'])
    test(`${name} is not followed`, async (t) => {
      const data = temporaryDirectory();
      const target = path.join(temporaryDirectory(), 'precious');
      writeFileSync(target, 'precious');
      symlinkSync(target, path.join(data, name));
      if (name === 'lock') {
        await assert.rejects(started(t, { data }), /lock.*symbolic link/);
        const result = await run(['check', data]);
        assert.equal(result.code, 2, result.stdout);
      } else {
        await stopServer(await startServer({ data }));
      }
      assert.equal(readFileSync(target, 'utf8'), 'precious');
    });
});
