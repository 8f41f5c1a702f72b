// SPDX-License-Identifier: Apache-2.0
// The server dies at each failpoint of its source (base/failpoint.h), at the first pass and at a later one,
// under load; it starts again, and every promise is checked over the whole run (HF-1, HF-2).
// A failpoint that was never reached is a failure. HF_POINTS=n goes n times as far, HF_SEED=n repeats.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { after, afterEach, before, describe, test } from 'node:test';

import { Client } from '../e2e/lib/client.mjs';
import { binary, startServer, stopServer, temporaryDirectory, until } from '../e2e/lib/server.mjs';
import { countOf, seedOf, Trial } from './lib/trial.mjs';

const further = countOf('HF_POINTS', 1);
const seed = seedOf();
const here = path.dirname(new URL(import.meta.url).pathname);

/** Every name that the source gives to FAILPOINT or failpoint_due. */
function failpoints(folder = path.join(here, '../../src')) {
  const files = readdirSync(folder, { recursive: true }).filter((name) => name.endsWith('.c'));
  const names = files.flatMap((name) => [...readFileSync(path.join(folder, name), 'utf8').matchAll(/\b(?:FAILPOINT|failpoint_due)\("([^"]+)"\)/g)]);
  return [...new Set(names.map(([, name]) => name))].sort();
}

/** When the failpoint has not been reached: after this time payloads become large, and after this time the test fails. */
const HEAVY_AFTER_MS = 1500;
const GIVE_UP_MS = 300_000;
/** How long a later passing is waited for: there may be none, at what happens once a start. */
const LATER_MS = 3000;

/** What an ordinary load never reaches, and what does: name → function (name) that makes the server die there. */
const provoked = { 'journal.segment.make': dieInNewStore, 'journal.key.write': dieInNewStore, 'clean.commit': dieInCleaning, 'clean.synced': dieInCleaning, 'backup.slice': inTest('stores/backup'), 'restore.rename': inTest('stores/backup'), 'migrate.batch': inTest('cli/migrate'), 'migrate.release': inTest('cli/migrate'), 'migrate.dependencies': inTest('cli/migrate') };

/** A separate server dies at the failpoint, before or after it is ready. */
async function dies(data, failpoint) {
  let server;
  await startServer({ data, env: { HF_FAILPOINT: failpoint }, spawned: (s) => (server = s) }).catch(() => null);
  await until(`${failpoint} is reached`, () => server.exit);
  assert.equal((await server.closed).signal, 'SIGKILL', server.stderr);
}

/** Backup, restore and migrate have their own way there. */
function inTest(file) {
  return (name) => assert.ok(readFileSync(path.join(here, `../e2e/${file}.test.mjs`), 'utf8').includes(`'${name}:`), 'and it is not there either');
}

/** A store that is being created. */
async function dieInNewStore(name) {
  for (const nth of [1, 2]) {
    const data = path.join(temporaryDirectory(), 'data');
    await dies(data, `${name}:${nth}`);
    const server = await startServer({ data });
    const api = new Client(server);
    assert.equal((await api.post('/v1/queues/q/jobs', { payload: 'first' })).status, 201);
    api.close();
    await stopServer(server);
    execFileSync(binary, ['check', data]);
  }
}

/** The rows of removed jobs stay for a while; it dies as they go, then neither they nor any other job may be back or gone. */
async function dieInCleaning(name) {
  const data = path.join(temporaryDirectory(), 'data');
  const env = { HF_GONE_EAGER: '1' };
  const first = await startServer({ data, env: { ...env, HF_FAILPOINT: `${name}:1` } });
  let api = new Client(first);
  const ids = [];
  for (let n = 0; n < 300; n++) ids.push((await api.post('/v1/queues/q/jobs', { payload: n })).json.id);
  assert.equal((await api.get('/v1/jobs?limit=1000')).json.jobs.length, 300); // they are in the store now
  const removed = new Set();
  let doubtful = null; // asked for as it died
  for (const id of ids.filter((_, n) => n % 3 === 0 && n < 200)) {
    const answer = await api.delete(`/v1/jobs/${id}`).catch(() => null);
    if (!answer) doubtful = id;
    if (!answer) break;
    assert.equal(answer.status, 200);
    removed.add(id);
  }
  await until(`${name} is reached`, () => first.exit);
  assert.equal((await first.closed).signal, 'SIGKILL', first.stderr);
  api.close();
  for (const again of [env, {}]) {
    const server = await startServer({ data, env: again });
    api = new Client(server);
    const there = (await api.get('/v1/jobs?limit=1000')).json.jobs.map((job) => [job.id, job.payload]);
    assert.deepEqual(there.filter(([id]) => id !== doubtful), ids.map((id, n) => [id, n]).filter(([id]) => !removed.has(id) && id !== doubtful));
    api.close();
    await stopServer(server);
    execFileSync(binary, ['check', data]);
  }
}

describe(`failpoints, seed ${seed}`, () => {
  const trial = new Trial({ seed, data: path.join(temporaryDirectory(), 'data'), load: { keepers: true } });
  const { load, random } = trial;
  let over = false;
  before(() => trial.start());
  after(() => trial.abandon());
  afterEach(async () => {
    if (!over && trial.server.exit) await trial.start();
  });

  /** Starts with the failpoint; 'start' or 'load' when it died there, null when it never came by. */
  async function die(name, nth, limitMs) {
    await trial.kill();
    let server;
    const ready = await trial.start({ env: { HF_FAILPOINT: `${name}:${nth}` }, spawned: (s) => (server = s) }).catch(() => null);
    const heavy = setTimeout(() => (load.heavy = true), HEAVY_AFTER_MS);
    // The timer of a server that has ended must not keep this process.
    await Promise.race([server.exited, new Promise((resolve) => setTimeout(resolve, limitMs).unref())]);
    clearTimeout(heavy);
    load.heavy = false;
    if (!server.exit) return null;
    trial.noteEnd();
    load.down();
    assert.equal((await server.closed).signal, 'SIGKILL', server.stderr);
    await trial.start();
    return ready ? 'load' : 'start';
  }

  const names = failpoints();
  test('there are failpoints', () => assert.ok(names.length > 0, 'none is in src'));

  for (const name of names) {
    test(name, async () => {
      if (provoked[name]) return provoked[name](name);
      const first = await die(name, 1, GIVE_UP_MS);
      assert.ok(first, 'never reached');
      const later = [];
      for (let i = 0; i < further; i++) later.push(await die(name, 2 + random.below(20), first === 'start' ? LATER_MS / 5 : LATER_MS));
      console.log(`# ${name}: died ${[first, ...later].map((where) => where ?? 'nowhere').join(', ')}`);
    });
  }

  test('every promise was kept', async () => {
    over = true;
    await trial.finish({ confirmed: 100 });
  });
});
