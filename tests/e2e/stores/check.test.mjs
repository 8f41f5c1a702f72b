// SPDX-License-Identifier: Apache-2.0
// Data directories that are damaged or incomplete: serve, check, export and restore say what is wrong, and the repair
// that they suggest works.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { closeSync, cpSync, existsSync, openSync, readSync, readdirSync, renameSync, rmSync, symlinkSync, truncateSync, writeSync } from 'node:fs';
import path from 'node:path';
import { before, describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { killServer, startServer, stopServer, temporaryDirectory } from '../lib/server.mjs';

const GOOD = 0, PROBLEMS = 1, NOT_DONE = 2;
const JOBS = 40;
const numbers = Array.from({ length: JOBS }, (_, n) => n);
const byNumber = (a, b) => a - b;
const database = (data) => path.join(data, 'holdfast.db');

/** The store of a server that was killed before it wrote anything of its journal into the database. Whether a server has done
 * that when it is killed is a matter of time; so a first one ends before it can, and its database takes the place of the
 * one that the second one leaves. */
async function killedStore() {
  const data = path.join(temporaryDirectory(), 'data'), early = temporaryDirectory();
  await startServer({ data, env: { HF_FAILPOINT: 'journal.key.write:1' } }).then(() => assert.fail('it starts'), () => {});
  for (const suffix of ['', '-wal']) cpSync(database(data) + suffix, database(early) + suffix);
  const server = await startServer({ data });
  const api = new Client(server);
  const jobs = numbers.map((n) => ({ payload: { n } }));
  assert.equal((await api.post('/v1/queues/q/jobs', jobs)).status, 200);
  api.close();
  await killServer(server);
  for (const suffix of ['', '-wal', '-shm']) rmSync(database(data) + suffix, { force: true });
  for (const suffix of ['', '-wal']) cpSync(database(early) + suffix, database(data) + suffix);
  return data;
}

function copyOf(data) {
  const copy = path.join(temporaryDirectory(), 'data');
  cpSync(data, copy, { recursive: true, verbatimSymlinks: true });
  return copy;
}

function flip(file, at) {
  const fd = openSync(file, 'r+');
  const byte = Buffer.alloc(1);
  readSync(fd, byte, 0, 1, at);
  byte[0] ^= 0x10;
  writeSync(fd, byte, 0, 1, at);
  closeSync(fd);
}

async function mustCheck(data, code, pattern) {
  const result = await run(['check', data]);
  assert.equal(result.code, code, result.stdout);
  assert.match(result.stdout, pattern);
  return result.stdout;
}

/** The server must not start; returns its output. */
async function refusal(data) {
  let server;
  await startServer({ data, spawned: (s) => (server = s) }).then(() => assert.fail('it starts'), () => {});
  assert.equal(server.exit.signal, null, server.stderr);
  return server.stderr;
}

/** The output of an export of a directory, and the payloads in it. */
async function exportOf(data) {
  const result = await run(['export', '--data', data]);
  const lines = result.stdout.split('\n').filter((line) => line).map((line) => JSON.parse(line));
  const jobs = lines.filter((line) => line.job).map((line) => line.job.payload.n);
  return { ...result, jobs };
}

describe('an incomplete data directory', () => {
  let killed;
  before(async () => (killed = await killedStore()));

  test('holdfast.db: no empty store is created in its place', async () => {
    const data = copyOf(killed), aside = path.join(temporaryDirectory(), 'aside');
    renameSync(database(data), aside);
    const sentence = /holdfast\.db is missing, but its journal is there: put the file back, or restore the newest backup into another directory; to start with an empty store, move .*\/journal away/;
    for (let i = 0; i < 2; i++) {
      assert.match(await refusal(data), sentence);
      await mustCheck(data, PROBLEMS, sentence);
      assert.match((await exportOf(data)).stderr, sentence);
      assert.ok(!existsSync(database(data)), readdirSync(data).join());
    }
    renameSync(aside, database(data));
    await mustCheck(data, GOOD, /no problems found/);
  });

  test('the WAL, the only file that shows that there is a journal: the journal is read nevertheless', async () => {
    const data = copyOf(killed), target = path.join(temporaryDirectory(), 'restored');
    rmSync(`${database(data)}-wal`);
    const said = await mustCheck(data, GOOD, new RegExp(`^with them ${JOBS} jobs in 1 queue\n`, 'm'));
    assert.match(said, new RegExp(`no problems found \\(${JOBS} jobs in 1 queue\\)\n$`));
    const restored = await run(['restore', data, '--data', target]);
    assert.notEqual(restored.code, GOOD, restored.stdout);
    assert.match(restored.stderr, /holds \d+ records that its database lacks/);
    const server = await startServer({ data });
    const api = new Client(server);
    assert.equal((await api.get('/v1/queues/q')).json.counts.ready, JOBS);
    api.close();
    await stopServer(server);
  });
});

describe('a damaged header of holdfast.db', () => {
  let killed;
  before(async () => (killed = await killedStore()));
  const spoils = [3, 17, 20, 70].map((at) => [`byte ${at}`, (file) => flip(file, at)]);

  for (const [what, spoil] of [...spoils, ['empty', (file) => truncateSync(file, 0)]])
    test(`${what}: where the journal is, it is called damaged`, async () => {
      const data = copyOf(killed);
      spoil(database(data));
      const said = await refusal(data);
      assert.match(said, /holdfast\.db is damaged: its header cannot be read; keep a copy of the directory and restore the newest backup .*holdfast export --data/);
      const checked = await mustCheck(data, PROBLEMS, /^problem: .*holdfast\.db is damaged: its header cannot be read$/m);
      assert.match(checked, /^to do: The file is damaged/m);
      const restored = await run(['restore', data, '--data', path.join(temporaryDirectory(), 'restored')]);
      assert.match(restored.stderr, /holdfast\.db is damaged: its header cannot be read/);
      rmSync(`${database(data)}-wal`); // or page 1 would be read there
      const exported = await exportOf(data);
      if (what === 'empty') {
        assert.equal(exported.code, NOT_DONE, exported.stderr);
        assert.match(exported.stderr, /its header cannot be read\n.*nothing can be read; restore the newest backup/);
        return;
      }
      assert.equal(exported.code, PROBLEMS, exported.stderr);
      assert.match(exported.stderr, /page 1 is damaged: its checksum does not match; it describes the store and is used as it is/);
      assert.deepEqual(exported.jobs.sort(byNumber), numbers);
    });

  for (const [at, words] of [[3, /not even a database/], [17, /whose pages have no checksums/], [20, /whose pages have no checksums/], [70, /another program/]])
    test(`byte ${at}: without a journal it may be anything`, async () => {
      const data = copyOf(killed);
      rmSync(path.join(data, 'journal'), { recursive: true });
      flip(database(data), at);
      assert.match(await refusal(data), words);
      await mustCheck(data, NOT_DONE, words);
    });
});

describe('a program other than Holdfast', () => {
  test('sqlite3 without -readonly after kill -9: pages lose their checksums, and export saves the jobs', async () => {
    const data = await killedStore();
    execFileSync('sqlite3', [database(data), 'SELECT count(*) FROM jobs']);
    await mustCheck(data, PROBLEMS, /page 1 is damaged: its checksum does not match/);
    const exported = await exportOf(data);
    assert.equal(exported.code, PROBLEMS, exported.stderr);
    assert.match(exported.stderr, /it describes the store and is used as it is/);
    assert.deepEqual(exported.jobs.sort(byNumber), numbers);
  });
});

describe('symbolic links in a data directory', () => {
  let killed;
  before(async () => (killed = await killedStore()));

  for (const name of ['holdfast.db', 'holdfast.db-wal', 'journal', 'journal/1', 'journal/key'])
    test(`${name}: no command follows it, and each says what it is`, async () => {
      const data = copyOf(killed), place = path.join(data, name);
      const aside = path.join(temporaryDirectory(), 'aside'), restored = path.join(temporaryDirectory(), 'restored');
      renameSync(place, aside);
      symlinkSync(aside, place);
      const sentence = new RegExp(`cannot open \\S*/${name}: it is a symbolic link; put the file or directory itself there`);
      assert.match(await refusal(data), sentence);
      const checked = await run(['check', data]);
      assert.ok(checked.code === PROBLEMS || checked.code === NOT_DONE, checked.stdout);
      assert.match(checked.stdout, sentence);
      for (const args of [['export', '--data', data], ['restore', data, '--data', restored]]) {
        const result = await run(args);
        assert.notEqual(result.code, GOOD, result.stdout);
        assert.match(result.stderr, sentence);
      }
      assert.ok(!existsSync(path.join(restored, 'holdfast.db')));
    });

  test('a link to a backup is refused, a link to its directory is not', async () => {
    const backup = temporaryDirectory(), link = path.join(temporaryDirectory(), 'link'), target = path.join(temporaryDirectory(), 'target');
    const data = copyOf(killed);
    const server = await startServer({ data });
    const made = await run(['backup', path.join(backup, 'one'), '--server', server.url]);
    assert.equal(made.code, GOOD, made.stderr);
    await stopServer(server);
    symlinkSync(path.join(backup, 'one', 'holdfast.db'), link);
    const refused = await run(['restore', link, '--data', target]);
    assert.match(refused.stderr, /it is a symbolic link/);
    rmSync(link);
    symlinkSync(path.join(backup, 'one'), link);
    const restored = await run(['restore', link, '--data', target]);
    assert.equal(restored.code, GOOD, restored.stderr);
  });
});
