// SPDX-License-Identifier: Apache-2.0
// holdfast import --nomarr: a database with the schema of the queue document. The data of a row stay visible, whatever its status;
// a file that needs something that the server lacks is refused as a whole; values that SQLite accepts and a queue does not are reported.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';

import { testBackend } from '../lib/backend.mjs';
import { Client } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';

const at = (name) => `/api/web/queue/${name}`;
const document = readFileSync(new URL('../documents/004-normalised-queue.md', import.meta.url), 'utf8');
const schema = document.slice(document.indexOf('CREATE TABLE IF NOT EXISTS queue'), document.indexOf('```\n\n### Column Descriptions'));
const columns = ['library_id', 'path', 'queue_type', 'status', 'priority', 'error', 'results_json', 'enqueued_at', 'started_at', 'completed_at'];
const old = 1733407200; // the document's December 2024: longer ago than completed jobs are kept

const quote = (value) => (value === null ? 'NULL' : typeof value === 'number' ? `${value}` : `'${value.replaceAll("'", "''")}'`);
const row = (more) => ({ library_id: 1, path: '/m/x', queue_type: 'processing', status: 'pending', priority: 0, error: null, results_json: null, enqueued_at: old, started_at: null, completed_at: null, ...more });

/** A database with the document's schema and these rows, whose ids are 1, 2, …. Values are quoted unless they are {sql}. */
function database(rows, { create = schema } = {}) {
  const file = path.join(temporaryDirectory(), 'nomarr.db');
  const values = rows.map((one) => `(${columns.map((c) => one[c]?.sql ?? quote(one[c])).join()})`);
  const insert = values.length ? `INSERT INTO queue (${columns.join()}) VALUES ${values.join(',\n')};` : '';
  execFileSync('sqlite3', [file], { input: `${create}\n${insert}` });
  return file;
}

/** The rows of the view `queue` beside the running server; null where there is no SQL. */
function view(server) {
  if (testBackend === 'redis') return null;
  if (testBackend === 'embedded') {
    const out = execFileSync('sqlite3', ['-readonly', '-json', path.join(server.data, 'holdfast.db'), 'SELECT * FROM queue ORDER BY id'], { encoding: 'utf8', maxBuffer: 64 << 20 });
    return out.trim() ? JSON.parse(out) : [];
  }
  const socket = decodeURIComponent(process.env.HF_POSTGRES.replace(/.*host=/, ''));
  const name = `e2e_${path.basename(server.data).toLowerCase().replaceAll(/[^a-z0-9]/g, '_')}`;
  const out = execFileSync('psql', ['-h', socket, '-U', 'holdfast', '-d', 'postgres', '-qAtc', `SELECT row_to_json(q) FROM ${name}.queue q ORDER BY id`], { encoding: 'utf8', maxBuffer: 64 << 20 });
  return out.trim().split('\n').filter(Boolean).map((line) => JSON.parse(line));
}

const ok = (answer, status = 200) => {
  assert.equal(answer.status, status, answer.text);
  return answer.json;
};
/** fn gets a server, its client and a function that imports a file into it. */
async function onServer(options, fn) {
  const server = await startServer(options);
  const api = new Client(server);
  try {
    await fn({ server, api, take: (file, ...more) => run(['import', '--server', server.url, '--nomarr', file, ...more]) });
  } finally {
    api.close();
    await stopServer(server);
  }
}
const jobs = async (api) => ok(await api.get(at('list?limit=1000'))).jobs.sort((a, b) => a.id - b.id);

describe('import --nomarr', () => {
  test('NOM-16: times, errors and results of every row are kept, in the API and in SQL', () => onServer({}, async ({ server, api, take }) => {
    const rows = [
      row({ path: '/m/pending', enqueued_at: old + 1 }),
      row({ path: '/m/running', status: 'running', priority: 3, enqueued_at: old + 2, started_at: old + 5 }),
      row({ path: '/m/done', library_id: 2, status: 'completed', results_json: '{"tags": ["rock"],\n "duration": 123.45}', enqueued_at: old + 3, started_at: old + 5, completed_at: old + 105 }),
      row({ path: '/m/done', queue_type: 'calibration', status: 'completed', results_json: '{"calibrated_tags":42}', enqueued_at: old + 4, started_at: old + 6, completed_at: old + 7 }),
      row({ path: '/m/error', status: 'error', error: 'File not found: "ä"', enqueued_at: old + 5, started_at: old + 8, completed_at: old + 9 }),
      row({ path: '/m/error', status: 'error', error: `Invalid audio: ${'x'.repeat(20_000)}`, results_json: '{"partial":true}', enqueued_at: old + 6, started_at: old + 10, completed_at: old + 11 }),
      row({ path: '/m/bare', status: 'completed', enqueued_at: old + 7 }),
      row({ path: '/m/large', status: 'completed', results_json: JSON.stringify({ embeddings: 'e'.repeat(3_000_000) }), enqueued_at: old + 8, started_at: old + 12, completed_at: old + 11 }),
    ];
    const began = Math.floor(Date.now() / 1000);
    const file = database(rows);
    const before = readFileSync(file);
    const first = await take(file);
    assert.equal(first.code, 0, first.stderr);
    assert.match(first.stdout, /^8 imported, 0 already present, 0 skipped .*, 0 rows refused; queues: 2 created/);
    const again = await take(file, '--json');
    assert.deepEqual(JSON.parse(again.stdout), { imported: 0, existing: 8, skipped: 0, refused: 0, queues_created: 0, queues_changed: 0, queues_kept: 2 });
    assert.ok(before.equals(readFileSync(file)), 'the database is only read');

    const seen = await jobs(api);
    const expected = rows.map((one, i) => ({ id: seen[i]?.id, ...one, status: one.status === 'running' ? 'pending' : one.status, started_at: one.status === 'running' ? null : one.started_at }));
    expected[5].error = expected[5].error.slice(0, 8192);
    expected[5].results_json = null; // a result is shown of completed jobs
    expected[6].completed_at = seen[6].completed_at;
    assert.ok(seen[6].completed_at >= began, 'a completed row without a time has ended when it was imported');
    assert.deepEqual(seen, expected);
    for (const job of seen) assert.deepEqual(ok(await api.get(at(`job/${job.id}`))), job);
    assert.deepEqual(ok(await api.get(`/v1/jobs/${seen[5].id}`)).result, { partial: true });
    assert.deepEqual(ok(await api.get(at('queue-depth?queue_type=processing'))), { pending: 2, running: 0, completed: 3, errors: 2 });
    if (view(server)) await until('the view has all of it', () => view(server).length === 8);
    assert.deepEqual(view(server) ?? expected, expected);

    // A job that runs here gets its own times from then on.
    ok(await api.post(at('requeue'), { job_id: seen[4].id }));
    for (let job; (job = ok(await api.post(at('dequeue'), {}))); ) ok(await api.post(at(job.path === '/m/error' ? 'fail' : 'complete'), { job_id: job.id, token: job.token, error: job.path === '/m/error' ? 'again' : undefined, results: job.path === '/m/error' ? undefined : job.path }));
    for (const job of (await jobs(api)).filter(({ path: one, error }) => ['/m/pending', '/m/running'].includes(one) || error === 'again')) {
      assert.ok(job.started_at >= began && job.completed_at >= job.started_at, JSON.stringify(job));
      assert.ok(job.enqueued_at < began, 'it was enqueued long ago');
    }
    const now = await jobs(api);
    if (view(server)) await until('the view follows', () => view(server).every((one) => ['completed', 'error'].includes(one.status)) && view(server).some((one) => one.error === 'again'));
    assert.deepEqual(view(server) ?? now, now);
    assert.equal(ok(await api.post(at('clear-completed'), {})).cleared, 6);
  }));

  test('NOM-16: a queue type that the server lacks refuses the file, with its rows, before anything is imported', () => onServer({}, async ({ api, take }) => {
    const rows = [row({ path: '/a' }), row({ path: '/b', queue_type: 'tagging' }), row({ path: '/c', queue_type: 'sync', status: 'completed', completed_at: old }), ...Array.from({ length: 40 }, (_, i) => row({ path: `/t/${i}`, queue_type: 'tagging', status: 'error' }))];
    const file = database(rows);
    const answer = await take(file);
    assert.equal(answer.code, 1);
    assert.match(answer.stderr, /row 2: the server has no queue type tagging\n/);
    assert.match(answer.stderr, /row 3: the server has no queue type sync\n/);
    assert.match(answer.stderr, /nothing was imported: 42 rows have a queue type that the server does not have; add these types to the setting webqueue\.types .*: tagging, sync\n/);
    assert.ok(answer.stderr.split('\n').length < 26, 'the rows that are named are bounded');
    assert.match(answer.stdout, /^0 imported, 0 already present, 0 skipped .*, 42 rows refused; queues: 0 created/);
    assert.deepEqual(ok(await api.get('/v1/queues')).queues, []);
    assert.deepEqual(await jobs(api), []);

    // Names that no setting can have, and that would control a terminal.
    const odd = await take(database([row({}), row({ queue_type: 'x'.repeat(10_000) }), row({ queue_type: 'a b\u001b[2J"' })]));
    assert.equal(odd.code, 1);
    assert.match(odd.stderr, /nothing was imported: 2 rows/);
    assert.ok(!odd.stderr.includes('\u001b') && odd.stderr.length < 2000, odd.stderr);
    assert.deepEqual(await jobs(api), []);

    // With the types in the setting the same command imports all.
    await onServer({ env: { HOLDFAST_WEBQUEUE_TYPES: 'processing,calibration,tagging,sync' } }, async (other) => {
      const all = await other.take(file);
      assert.equal(all.code, 0, all.stderr);
      assert.match(all.stdout, /^43 imported/);
      assert.deepEqual(ok(await other.api.get(at('queue-depth?queue_type=tagging'))), { pending: 1, running: 0, completed: 0, errors: 40 });
    });
  }));

  test('NOM-16: a server without the API webqueue is named as such', () => onServer({ env: { HOLDFAST_APIS: 'tasks' } }, async ({ api, take }) => {
    const answer = await take(database([row({})]));
    assert.equal(answer.code, 1);
    assert.match(answer.stderr, /the server does not have the API webqueue; add webqueue to its setting apis/);
    assert.deepEqual(ok(await api.get('/v1/queues')).queues, []);
  }));

  test('NOM-16: invalid values are reported by row and column; the corrected file imports the rest', () => onServer({}, async ({ api, take }) => {
    const loose = `CREATE TABLE queue (id INTEGER PRIMARY KEY, ${columns.join()});`;
    const bytes = "CAST(x'2fff00fe' AS TEXT)";
    const wrong = [
      [{ library_id: null }, /its library_id is not a whole number/],
      [{ library_id: 'one' }, /its library_id is not a whole number/],
      [{ path: null }, /its path is not a text/],
      [{ path: '' }, /it has no path/],
      [{ path: { sql: "x'2f6d'" } }, /its path is not a text/],
      [{ path: `/${'p'.repeat(5000)}` }, /its path .*4096/],
      [{ path: { sql: bytes } }, /its path/],
      [{ queue_type: null }, /its queue_type is not a text/],
      [{ queue_type: 7 }, /its queue_type is not a text/],
      [{ queue_type: '' }, /it has no queue_type/],
      [{ status: null }, /its status is not a text/],
      [{ status: 'paused' }, /its status is none of pending, running, completed and error/],
      [{ priority: null }, /its priority is not a whole number/],
      [{ priority: 1.5 }, /its priority is not a whole number/],
      [{ error: 5 }, /its error is neither NULL nor a text/],
      [{ results_json: { sql: 'zeroblob(1000)' }, status: 'completed' }, /its results_json is neither NULL nor a text/],
      [{ results_json: '{"tags": [', status: 'completed' }, /its results_json is not JSON at byte \d+/],
      [{ results_json: `${'['.repeat(100_000)}${']'.repeat(100_000)}`, status: 'completed' }, /its results_json is not JSON at byte \d+/],
    ];
    const more = [
      [{ enqueued_at: null }, /its enqueued_at is not a number of seconds/],
      [{ enqueued_at: -1 }, /one of its times is not in the years 1970 to 9999/],
      [{ started_at: 'soon', status: 'completed' }, /its started_at is neither NULL nor a number of seconds/],
      [{ completed_at: 1.5, status: 'error' }, /its completed_at is neither NULL nor a number of seconds/],
      [{ completed_at: { sql: '9223372036854775807' }, status: 'completed' }, /one of its times is not in the years 1970 to 9999/],
    ];
    let imported = 0;
    for (const [part, enqueued_at, list] of [['a', old, wrong], ['b', old + 1, more]]) {
      const sound = [{ path: `/${part}/sound` }, { path: `/${part}/done`, status: 'completed', results_json: '[1]', completed_at: old }, { path: `/${part}/error`, status: 'error', error: { sql: bytes } }];
      const rows = [...list.map(([change], i) => row({ path: `/${part}/${i}`, enqueued_at, ...change })), ...sound.map((one) => row({ ...one, enqueued_at }))];
      const file = database(rows, { create: loose });
      const answer = await take(file);
      assert.equal(answer.code, 1, answer.stderr);
      assert.match(answer.stdout, new RegExp(`^3 imported, 0 already present, 0 skipped .*, ${list.length} rows refused`), answer.stderr);
      list.forEach(([, says], i) => assert.match(answer.stderr.split('\n').find((line) => line.includes(`row ${i + 1}:`)) ?? answer.stderr, says));
      execFileSync('sqlite3', [file, `UPDATE queue SET library_id = 1, path = '/${part}/mended/' || id, queue_type = 'processing', status = 'pending', priority = 0, error = NULL, results_json = NULL, enqueued_at = ${enqueued_at}, started_at = NULL, completed_at = NULL WHERE id <= ${list.length}`]);
      const mended = await take(file);
      assert.equal(mended.code, 0, mended.stderr);
      assert.match(mended.stdout, new RegExp(`^${list.length} imported, 3 already present`));
      imported += rows.length;
      assert.equal((await jobs(api)).length, imported, 'each row once');
    }
  }));

  test('NOM-16: a file that is not such a database changes nothing', () => onServer({}, async ({ api, take }) => {
    const text = path.join(temporaryDirectory(), 'text.db');
    writeFileSync(text, 'no database at all, but long enough to be read as one');
    for (const [file, says] of [[text, /no table/], [database([], { create: 'CREATE TABLE queue (id INTEGER PRIMARY KEY, path TEXT);' }), /no such column/], [path.join(temporaryDirectory(), 'gone.db'), /does not exist/]]) {
      const answer = await take(file);
      assert.equal(answer.code, 2, answer.stderr);
      assert.match(answer.stderr, says);
    }
    const empty = await take(database([]));
    assert.equal(empty.code, 0, empty.stderr);
    assert.deepEqual(ok(await api.get('/v1/queues')).queues, []);
  }));
});
