// SPDX-License-Identifier: Apache-2.0
// The blocks of the document about the normalised queue that can run, run as they are printed: host, port, file names
// and sample values aside. NOM-1, NOM-2, NOM-8. documents-blocks.test.mjs lists the blocks that cannot run.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { only, testBackend } from '../lib/backend.mjs';
import { Client } from '../lib/client.mjs';
import { blocks, documentText } from '../lib/documents.mjs';
import { status } from '../lib/expect.mjs';
import { startServer, stopServer, until } from '../lib/server.mjs';

const queue = documentText('004-normalised-queue');
const at = (name) => `/api/web/queue/${name}`;

describe('the document of the normalised queue', () => {
  let server, api, ids;
  before(async () => {
    server = await startServer();
    api = new Client(server);
    ids = [];
    for (const name of ['done', 'bad', 'held', 'waiting']) ids.push(status(await api.post(at('enqueue'), { library_id: 1, path: `/music/${name}.flac` }), 201).job_id);
    for (let i = 0; i < 3; i++) status(await api.post(at('dequeue'), {}), 200);
    status(await api.post(at('complete'), { job_id: ids[0], results: { tags: ['rock'], duration: 234.5 } }), 200);
    status(await api.post(at('fail'), { job_id: ids[1], error: 'File not readable' }), 200);
  });
  after(async () => {
    api?.close();
    if (server) await stopServer(server);
  });

  test('NOM-8 the curl block returns what is printed below it', async () => {
    const [line] = blocks(queue, 'bash').filter((block) => block.startsWith('curl'));
    const printed = JSON.parse(blocks(queue, 'json')[0]);
    const [, url] = line.trim().split(' ');
    const answer = JSON.parse(execFileSync('curl', ['-s', url.replace('http://localhost:8888', server.url)], { encoding: 'utf8' }));
    assert.deepEqual(Object.keys(answer), Object.keys(printed));
    assert.deepEqual(answer, { pending: 1, running: 1, completed: 1, errors: 1 });
  });

  test('NOM-1 the sqlite3 commands read the store beside the server; those that write are refused', only('files'), async () => {
    const db = path.join(server.data, 'holdfast.db');
    const commands = blocks(queue, 'bash').filter((block) => block.includes('sqlite3 /data/nomarr.db') && !block.includes('VACUUM'));
    assert.equal(commands.length, 4);
    const run = (block) => spawnSync('bash', ['-c', block.replace('/data/nomarr.db', db).replace('id = 123', `id = ${ids[1]}`)], { encoding: 'utf8' });
    const [state, stuck, failed, fix] = commands;
    await until('the store has them', () => run(state).stdout.trim() === 'processing|completed|1\nprocessing|error|1\nprocessing|pending|1\nprocessing|running|1');
    assert.deepEqual([run(stuck).status, run(stuck).stdout], [0, ''], 'nothing is stuck');
    assert.equal(run(failed).stdout.trim(), `${ids[1]}|/music/bad.flac|File not readable`);
    assert.notEqual(run(fix).status, 0);
    assert.match(run(fix).stderr, /queue can only be read; use: holdfast requeue/);
  });

  test('NOM-1 NOM-2 every SELECT on the table works on the view, every write names what to use instead', only('files'), () => {
    const db = path.join(server.data, 'holdfast.db');
    const statements = [...blocks(queue, 'sql'), ...blocks(queue, 'python')]
      .flatMap((block) => block.replaceAll(/--.*$/gm, '').split(';'))
      .map((text) => text.trim())
      .filter((text) => /^(SELECT|INSERT|UPDATE|DELETE)\b/.test(text) && !/\.\.\.|old_processing_queue/.test(text.replace("'{...}'", '')));
    const seen = { SELECT: 0, INSERT: 0, UPDATE: 0, DELETE: 0 };
    for (const text of statements) {
      const [verb] = text.split(/\s/);
      seen[verb]++;
      // Parameters; 300 is the number of the document. UPDATE … RETURNING is refused like any other.
      const run = spawnSync('sqlite3', [db, text.replace('queue_type = ?', "queue_type = 'processing'").replaceAll('?', '300').replaceAll('id = 123', `id = ${ids[1]}`)], { encoding: 'utf8' });
      if (verb === 'SELECT') assert.equal(run.status, 0, `${text}: ${run.stderr}`);
      else if (run.status === 0) assert.equal(run.stdout, '', `it concerned no row: ${text}`);
      else assert.match(run.stderr, /queue can only be read; use: /, text);
    }
    assert.ok(seen.SELECT >= 4 && seen.INSERT >= 2 && seen.UPDATE >= 8 && seen.DELETE >= 2, JSON.stringify(seen));
  });

  test('NOM-1 the other statements of the document: what each does beside the server; none changes the store', only('files'), async () => {
    const db = path.join(server.data, 'holdfast.db');
    const statements = blocks(queue, 'sql').flatMap((block) => block.replaceAll(/--.*$/gm, '').split(';')).map((text) => text.trim());
    const others = statements.filter((text) => text && (!/^(SELECT|INSERT|UPDATE|DELETE)\b/.test(text) || /\(\.\.\.\)|old_processing_queue/.test(text)));
    const expected = [
      [/^CREATE TABLE IF NOT EXISTS queue/, null], // the view has the name
      [/^CREATE INDEX IF NOT EXISTS idx_queue_status/, /views may not be indexed/],
      [/^CREATE UNIQUE INDEX IF NOT EXISTS idx_queue_path_type/, /views may not be indexed/],
      [/^CREATE INDEX idx_queue_status/, /views may not be indexed/],
      [/^CREATE UNIQUE INDEX idx_queue_path_type/, /views may not be indexed/],
      [/^INSERT INTO queue \(\.\.\.\)/, /syntax error/], // abbreviated in the document
      [/^ALTER TABLE queue ADD COLUMN/, /Cannot add a column to a view/],
      [/^CREATE INDEX idx_queue_library/, /views may not be indexed/],
      [/^INSERT INTO queue .*old_processing_queue$/s, /no such table: old_processing_queue/], // a table of an earlier version of the document's program
    ];
    const schema = () => spawnSync('sqlite3', [db, '.schema'], { encoding: 'utf8' }).stdout;
    const before = schema();
    assert.equal(others.length, expected.length, others.join('\n'));
    for (const [i, text] of others.entries()) {
      const [which, says] = expected[i];
      assert.match(text, which);
      const { status: code, stderr } = spawnSync('sqlite3', [db, text], { encoding: 'utf8' });
      if (says) assert.match(stderr, says, text);
      assert.equal(code === 0, says === null, `${text}: ${stderr}`);
    }
    assert.equal(schema(), before);
    // VACUUM is possible beside the server, which needs it not: it continues, and the rows are the same.
    const [vacuum] = blocks(queue, 'bash').filter((block) => block.includes('VACUUM'));
    const rows = () => spawnSync('sqlite3', [db, 'SELECT * FROM queue ORDER BY id'], { encoding: 'utf8' }).stdout;
    const kept = rows();
    await until('the store is not locked', () => spawnSync('bash', ['-c', vacuum.replace('/data/nomarr.db', db)]).status === 0);
    assert.equal(rows(), kept);
    assert.equal(spawnSync('sqlite3', [db, 'PRAGMA integrity_check'], { encoding: 'utf8' }).stdout.trim(), 'ok');
    const id = status(await api.post(at('enqueue'), { library_id: 2, path: '/after/vacuum' }), 201).job_id;
    await until('the view follows', () => rows().includes('/after/vacuum'));
    const native = status(await api.get(`/v1/jobs/${id}`), 200);
    assert.equal(native.state, 'ready');
    status(await api.delete(`/v1/jobs/${native.id}`), 200);
  });

  test('NOM-1 on PostgreSQL the view queue has the same rows as the API', { skip: testBackend !== 'postgres' && 'of PostgreSQL' }, async () => {
    const base = process.env.HF_POSTGRES;
    const socket = decodeURIComponent(base.replace(/.*host=/, ''));
    const schema = `e2e_${path.basename(server.data).toLowerCase().replaceAll(/[^a-z0-9]/g, '_')}`;
    const sql = (text) => spawnSync('psql', ['-h', socket, '-U', 'holdfast', '-d', 'postgres', '-qAtc', text], { encoding: 'utf8' });
    const rows = sql(`SELECT row_to_json(q) FROM ${schema}.queue q ORDER BY id`).stdout.trim().split('\n').map((row) => JSON.parse(row));
    assert.equal(rows.length, 4);
    for (const row of rows) assert.deepEqual(row, status(await api.get(at(`job/${row.id}`)), 200));
    assert.match(sql(`DELETE FROM ${schema}.queue`).stderr, /queue can only be read; use: /);
    assert.match(sql(`UPDATE ${schema}.queue SET status = 'pending'`).stderr, /use: holdfast requeue/);
  });
});
