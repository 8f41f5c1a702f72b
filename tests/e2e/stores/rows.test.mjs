// SPDX-License-Identifier: Apache-2.0
// HF-18: invalid rows of the embedded store, with the real programs. A damaged body affects only its own job, however it
// is requested; all commands refuse state that is out of range with a message, and none of them crashes.
// (tests/unit/backend/local/sqlite/test_rows.c has every column and value.)
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Beanstalk, startBeanstalk } from '../lib/beanstalk.mjs';
import { Client, openStream } from '../lib/client.mjs';
import { runSql } from '../lib/pages.mjs';
import { run } from '../lib/program.mjs';
import { logged, residentMiB, startServer, stopServer, temporaryDirectory } from '../lib/server.mjs';

const SPOILED = `UPDATE payload SET body = CAST(replace(CAST(body AS TEXT), 'whole', 'holed') AS BLOB)`;
const database = (dir) => path.join(dir, 'holdfast.db');
const ok = (answer, status = 200) => {
  assert.equal(answer.status, status, answer.text);
  return answer.json;
};
const metric = async (api, name) => Number((await api.get('/metrics')).text.match(new RegExp(`^${name} (\\d+)`, 'm'))[1]);

/** A stopped server with jobs in several queues; the first job of each queue is damaged. */
async function spoiled(queues) {
  const data = path.join(temporaryDirectory(), 'data');
  const server = await startServer({ data });
  const api = new Client(server);
  const firsts = [];
  for (const queue of queues) {
    for (let n = 0; n < 3; n++) {
      const job = ok(await api.post(`/v1/queues/${queue}/jobs`, { payload: `whole ${n}` }), 201);
      if (n === 0) firsts.push(job);
    }
  }
  ok(await api.post('/v1/kv/commit', { sets: [{ key: ['a'], value: 'whole' }, { key: ['b'], value: 'whole' }] }));
  api.close();
  await stopServer(server);
  runSql(database(data), `${SPOILED} WHERE seq IN (${firsts.map((job) => job.seq)});
    UPDATE kv SET value = CAST('"holed"' AS BLOB) WHERE key = (SELECT min(key) FROM kv)`);
  return { data, firsts };
}

describe('a damaged body affects one job', () => {
  let data, firsts, server, api;
  const queues = ['claimed', 'listened', 'tube', 'messages'];
  before(async () => {
    ({ data, firsts } = await spoiled(queues));
    server = await startBeanstalk({ data });
    api = new Client(server);
  });
  after(async () => {
    api.close();
    await stopServer(server);
  });
  const isAside = async (job) => {
    const view = ok(await api.get(`/v1/jobs/${job.id}`));
    assert.deepEqual([view.state, view.reason, view.attempts, view.payload, view.damaged], ['dead', 'damaged', 0, null, ['payload']]);
  };

  test('it is shown as damaged, and lists continue after it', async () => {
    const view = ok(await api.get(`/v1/jobs/${firsts[0].id}`));
    assert.deepEqual([view.state, view.payload, view.damaged], ['ready', null, ['payload']]);
    const list = ok(await api.get('/v1/jobs?queue=claimed')).jobs;
    assert.deepEqual(list.map((job) => [job.payload, job.damaged]), [[null, ['payload']], ['whole 1', undefined], ['whole 2', undefined]]);
  });

  test('an export reports it and ends with status 1; an import refuses its line and accepts the rest', async () => {
    const exported = await run(['export', '--server', server.url]);
    assert.equal(exported.code, 1, exported.stderr);
    for (const job of firsts) assert.match(exported.stderr, new RegExp(`job ${job.id} is damaged: .*: payload\n`));
    assert.match(exported.stderr, /key \["a"\] is damaged: .*value/);
    assert.match(exported.stderr, /12 jobs and 4 queues exported; 5 lines are marked as damaged/);
    const lines = exported.stdout.trim().split('\n').map((line) => JSON.parse(line));
    assert.deepEqual(lines.at(-1).end, { queues: 4, jobs: 12, keys: 2, damaged: 5 });
    const damaged = lines.filter((line) => line.job?.damaged).map((line) => line.job);
    assert.deepEqual(damaged.map((job) => [job.id, job.damaged, 'payload' in job]), firsts.map((job) => [job.id, ['payload'], false]));
    const other = await startServer();
    const imported = await run(['import', '--server', other.url, '-'], { input: exported.stdout });
    assert.equal(imported.code, 1, imported.stderr);
    assert.equal(imported.stderr.match(/line \d+: the job was damaged where it was exported: its payload could not be read/g)?.length, 4, imported.stderr);
    assert.match(imported.stderr, /line \d+: the key was damaged where it was exported/);
    assert.match(imported.stdout, /^8 imported, 0 already present, 0 skipped .*, 5 lines refused/);
    await stopServer(other);
  });

  test('fields that an import does not transfer may be damaged', async () => {
    const job = (id, damaged) => ({ id, queue: 'partial', payload: 1, damaged });
    const answer = ok(await api.post('/v1/import', [job('r', ['result', 'history']), job('k', ['keys'])]));
    assert.equal(answer.jobs[0].created, true, JSON.stringify(answer));
    assert.match(answer.jobs[1].error.detail, /damaged where it was exported: its keys or options could not be read/);
    ok(await api.delete('/v1/queues/partial'));
  });

  test('a claim continues with the next job', async () => {
    assert.equal(ok(await api.post('/v1/queues/claimed/claim', {})).jobs[0].payload, 'whole 1');
    await isAside(firsts[0]);
    await logged(server, new RegExp(`job_damaged.*${firsts[0].id}`));
    assert.equal(await metric(api, 'holdfast_jobs_damaged_total'), 1);
    assert.deepEqual(ok(await api.get('/v1/jobs?state=dead&reason=damaged')).jobs.map((job) => job.id), [firsts[0].id]);
    assert.equal(ok(await api.get('/readyz')).status, 'ready');
  });

  test('after a requeue it is set aside again, until it gets another payload', async () => {
    ok(await api.post(`/v1/jobs/${firsts[0].id}/requeue`));
    assert.equal(ok(await api.post('/v1/queues/claimed/claim', { count: 10 })).jobs.map((job) => job.payload).join(), 'whole 2');
    await isAside(firsts[0]);
    ok(await api.post(`/v1/jobs/${firsts[0].id}/requeue`));
    ok(await api.patch(`/v1/jobs/${firsts[0].id}`, { payload: 'mended' }));
    assert.equal(ok(await api.post('/v1/queues/claimed/claim', {})).jobs[0].payload, 'mended');
  });

  test('a listener gets the others', async () => {
    const stream = await openStream(server, '/v1/queues/listened/listen', { method: 'POST', json: { prefetch: 3 } }).opened;
    for (const payload of ['whole 1', 'whole 2']) assert.equal(JSON.parse((await stream.next()).data).payload, payload);
    stream.close();
    await isAside(firsts[1]);
  });

  test('so does a beanstalk worker', async () => {
    const worker = await Beanstalk.connect(server.beanstalk);
    await worker.ask('watch tube');
    for (const payload of ['"whole 1"', '"whole 2"']) assert.equal((await worker.ask('reserve-with-timeout 0')).data.toString(), payload);
    assert.equal((await worker.ask('reserve-with-timeout 0')).line, 'TIMED_OUT');
    worker.socket.destroy();
    await isAside(firsts[2]);
  });

  test('a damaged value affects only its key', async () => {
    const broken = await api.get('/v1/kv/keys/a');
    assert.deepEqual([broken.status, broken.json.code], [500, 'damaged'], broken.text);
    assert.equal(ok(await api.get('/v1/kv/keys/b')).value, 'whole');
    const both = ok(await api.post('/v1/kv/get', { keys: [['a'], ['b']] })).keys;
    assert.deepEqual(both.map((one) => [one.value, one.damaged]), [[undefined, true], ['whole', undefined]]);
    assert.deepEqual(ok(await api.get('/v1/kv')).keys.map((one) => one.damaged), [true, undefined]);
  });

  test('check reports them and ends with status 1; export leaves them out', async () => {
    const copy = path.join(temporaryDirectory(), 'copy');
    await stopServer(server);
    cpSync(data, copy, { recursive: true });
    const check = await run(['check', copy]);
    assert.equal(check.code, 1, check.stdout);
    assert.match(check.stdout, new RegExp(`job ${firsts[3].seq}: its payload is not what was written`));
    const exported = await run(['export', '--data', copy]);
    assert.equal(exported.code, 1, exported.stderr);
    assert.match(exported.stderr, new RegExp(`job ${firsts[3].seq}`));
    assert.doesNotMatch(exported.stdout, /holed/);
  });
});

test('a job with a damaged step is shown, listed and exported as damaged, and is set aside by its claim', async (t) => {
  const data = path.join(temporaryDirectory(), 'data');
  const first = await startServer({ data });
  const before = new Client(first);
  const { id } = ok(await before.post('/v1/queues/q/jobs', { payload: 1 }), 201);
  const { token } = ok(await before.post('/v1/queues/q/claim', {})).jobs[0];
  for (const name of ['charge', 'ship']) ok(await before.post(`/v1/jobs/${id}/steps/${name}`, { token, result: 'whole' }));
  ok(await before.post(`/v1/jobs/${id}/release`, { token }));
  before.close();
  await stopServer(first);
  runSql(database(data), `UPDATE steps SET result = CAST('"holed"' AS BLOB) WHERE name = 'charge'`);
  const server = await startServer({ data });
  const api = new Client(server);
  t.after(async () => {
    api.close();
    await stopServer(server);
  });
  const shown = [ok(await api.get(`/v1/jobs/${id}`)), ok(await api.get('/v1/jobs?reports=true')).jobs[0]];
  assert.deepEqual(shown.map((job) => job.damaged), [['steps'], ['steps']]);
  const exported = await run(['export', '--server', server.url]);
  assert.equal(exported.code, 1, exported.stderr);
  assert.match(exported.stderr, new RegExp(`job ${id} is damaged: .*: steps\n`));
  assert.deepEqual(JSON.parse(exported.stdout.split('\n')[2]).job.damaged, ['steps']);
  assert.deepEqual(ok(await api.post('/v1/queues/q/claim', {})).jobs, []);
  await logged(server, new RegExp(`job_damaged.*${id}.*part=steps`));
  assert.equal(ok(await api.get(`/v1/jobs/${id}`)).reason, 'damaged');
});

describe('state out of range', () => {
  let data;
  before(async () => {
    ({ data } = await spoiled(['q']));
    runSql(database(data), `${SPOILED.replace("'whole', 'holed'", "'holed', 'whole'")}; UPDATE kv SET value = CAST('"whole"' AS BLOB)`);
  });
  const cases = [
    ['meta', 'epoch = 4294967295', 'epoch'],
    ['meta', 'seq_upto = 9007199254740992', 'seq_upto'],
    ['meta', 'seq_upto = 70368744177664', 'seq_upto'],
    ['jobs', 'state = 9', 'state'],
    ['jobs', 'seq = seq + 5000000', 'seq'],
    ['queues', "name = char(27) || 'x'", 'name'],
    ['numbers', 'queue = -1', 'queue'],
  ];
  for (const [table, change, column] of cases)
    test(`${table}: ${change}`, async () => {
      const dir = path.join(temporaryDirectory(), 'data');
      cpSync(data, dir, { recursive: true });
      runSql(database(dir), `UPDATE ${table} SET ${change}`);
      let server;
      await startServer({ data: dir, spawned: (s) => (server = s) }).then(() => assert.fail('it starts'), () => {});
      const { signal } = await server.exited;
      assert.equal(signal, null, server.stderr);
      assert.match(server.stderr, new RegExp(`table ${table}, row .*column ${column} .*holdfast export --data`));
      const check = await run(['check', dir]);
      assert.equal(check.code, 1, check.stdout);
      const target = path.join(temporaryDirectory(), 'target');
      const migrated = await run(['migrate', '--from', `sqlite:${dir}`, '--to', `sqlite:${target}`]);
      assert.equal(migrated.code, 2, migrated.stderr);
      assert.match(migrated.stderr, new RegExp(`the source cannot be opened: .*table ${table}, row .*column ${column} `));
      for (const args of [['export', '--data', dir], ['restore', dir, '--data', `${target}2`]]) {
        const result = await run(args);
        assert.ok([0, 1].includes(result.code), `${args}: ${result.code} ${result.stderr}`);
        if (result.code === 1) assert.match(result.stderr, /is damaged|cannot be read|would not start on it/, `${args}`);
        if (args[0] === 'restore') assert.ok(result.code !== 0 && !existsSync(`${target}2`), `restored: ${result.stdout}${result.stderr}`);
      }
    });

  test('a large queue number does not use memory', async () => {
    const dir = path.join(temporaryDirectory(), 'data');
    cpSync(data, dir, { recursive: true });
    runSql(database(dir), 'UPDATE queues SET number = 2147483647; UPDATE jobs SET queue = 2147483647; UPDATE hour SET queue = 2147483647; UPDATE numbers SET queue = 2147483647');
    const server = await startServer({ data: dir });
    assert.ok(residentMiB(server) < 1000, `${residentMiB(server)} MiB`);
    const api = new Client(server);
    assert.equal(ok(await api.post('/v1/queues/q/claim', {})).jobs[0].payload, 'whole 0');
    ok(await api.post('/v1/queues/other/jobs', { payload: 1 }), 201);
    api.close();
    await stopServer(server);
    assert.equal((await run(['check', dir])).code, 0);
  });
});

describe('a foreign database', () => {
  test('import --nomarr imports every valid row, whatever the other rows contain', async () => {
    const file = path.join(temporaryDirectory(), 'nomarr.db');
    const odd = ['-1', '9223372036854775807', '-9223372036854775808', "''", "CAST(x'ff00fe' AS TEXT)", "'a\",\"token\":\"x'", 'zeroblob(100000)', '1e300', 'NULL'];
    const columns = ['library_id', 'path', 'status', 'priority', 'error', 'results_json', 'enqueued_at', 'started_at', 'completed_at', 'queue_type'];
    const sound = { library_id: '1', path: "'/m/x'", queue_type: "'processing'", status: "'pending'", priority: '0', error: 'NULL', results_json: 'NULL', enqueued_at: '1733407200', started_at: 'NULL', completed_at: 'NULL' };
    const rows = columns.flatMap((column) => odd.map((value) => `(${columns.map((c) => (c === column ? value : sound[c])).join()})`));
    execFileSync('sqlite3', [file, `CREATE TABLE queue (id INTEGER PRIMARY KEY, ${columns.join()}); INSERT INTO queue (${columns.join()}) VALUES ${rows.join()}`]);
    const server = await startServer();
    const result = await run(['import', '--server', server.url, '--nomarr', file]);
    assert.ok(typeof result.code === 'number' && result.code < 90, `${result.code} ${result.stderr}`);
    const api = new Client(server);
    assert.equal(ok(await api.get('/v1/jobs?limit=1000')).jobs.length, 0, 'types that are not configured refuse the whole file');
    execFileSync('sqlite3', [file, "DELETE FROM queue WHERE queue_type <> 'processing'"]);
    const second = await run(['import', '--server', server.url, '--nomarr', file]);
    assert.equal(second.code, 1, second.stderr);
    assert.ok(ok(await api.get('/v1/jobs?limit=1000')).jobs.length > 0, second.stderr);
    api.close();
    await stopServer(server);
  });
});
