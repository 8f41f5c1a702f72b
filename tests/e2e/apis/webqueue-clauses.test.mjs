// SPDX-License-Identifier: Apache-2.0
// The API of the normalised queue: exact numbers, orders and refusals (NOM-2, NOM-4 … NOM-11, NOM-13, NOM-14, NOM-16). Each
// state is checked in a second view: the counts, /v1 or the workers.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { test } from 'node:test';

import { testBackend } from '../lib/backend.mjs';
import { Client } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { startServer, stopServer, until } from '../lib/server.mjs';
import { freshQueue, onStores } from '../lib/suite.mjs';

const at = (name) => `/api/web/queue/${name}`;
const ok = (answer, status = 200) => {
  assert.equal(answer.status, status, answer.text);
  return answer.json;
};
const post = async (api, word, body = {}) => ok(await api.post(at(word), body), word === 'enqueue' && body.path ? 201 : 200);
const enqueue = async (api, path, more = {}) => (await post(api, 'enqueue', { library_id: 1, path, ...more })).job_id;
const job = async (api, id) => ok(await api.get(at(`job/${id}`)));
const depth = async (api, query = '') => ok(await api.get(at(`queue-depth${query}`)));
const native = async (api, id) => ok(await api.get(`/v1/jobs/${id}`));
const advance = async (api, ms) => ok(await api.post('/v1/test/clock', { advance_ms: ms }));

/** Removes all jobs of the types; the next enqueue creates their queues again. */
const empty = async (api, ...types) => {
  for (const type of types) {
    const answer = await api.delete(`/v1/queues/webqueue.${type}`);
    assert.ok(answer.status === 200 || answer.status === 404, answer.text);
  }
};

const types = 'processing,calibration timeout=10m,tagging retries=2';
onStores('clauses of webqueue', ['memory', 'sqlite'], { args: ['--test-clock'], env: { HOLDFAST_WEBQUEUE_TYPES: types } }, (use) => {
  test('NOM-8 stale: by timeout, type and library, with a limit; by default the 300 s of the document', async () => {
    const { api } = use;
    await empty(api, 'processing', 'calibration');
    const ids = [];
    for (const [library_id, queue_type] of [[1, 'processing'], [2, 'processing'], [1, 'calibration'], [2, 'calibration']]) {
      ids.push(await enqueue(api, `/stale/${library_id}`, { library_id, queue_type }));
      await post(api, 'dequeue', { queue_type });
      await advance(api, 1000);
    }
    const stale = async (query) => ok(await api.get(at(`stale?${query}`))).jobs;
    const listed = async (query) => (await stale(query)).map((one) => one.id).sort((a, b) => a - b);
    assert.deepEqual(await listed('timeout=2'), ids.slice(0, 3));
    assert.deepEqual(await listed('timeout=4'), ids.slice(0, 1));
    assert.deepEqual(await listed('timeout=5'), []);
    assert.deepEqual(await listed('timeout=0&library_id=2'), [ids[1], ids[3]]);
    assert.deepEqual(await listed('timeout=0&queue_type=calibration'), ids.slice(2));
    assert.deepEqual(await listed('timeout=0&queue_type=calibration&library_id=1'), [ids[2]]);
    assert.equal((await stale('timeout=0&limit=2')).length, 2);
    for (const one of await stale('timeout=0')) assert.deepEqual(one, await job(api, one.id));
    await advance(api, 299_000); // the two of processing have failed; those of calibration have 10 minutes
    assert.deepEqual(await listed(''), ids.slice(2));
    assert.deepEqual(await depth(api), { pending: 0, running: 2, completed: 0, errors: 2 });
    await empty(api, 'processing', 'calibration');
  });

  test('NOM-9 NOM-16 a worker is named with its job, silent after a minute, and active again when it renews', async () => {
    const { api } = use;
    await empty(api, 'calibration');
    const id = await enqueue(api, '/silent', { queue_type: 'calibration' });
    const { token } = await post(api, 'dequeue', { queue_type: 'calibration', worker: 'calibration:0' });
    const worker = async () => {
      const { name, running, state, silent, jobs, last_seen } = ok(await api.get('/v1/workers')).workers.find((one) => one.name === 'calibration:0');
      return { name, running, state, silent, jobs: jobs.map(String), last_seen: Date.parse(last_seen) };
    };
    const { id: ulid } = await native(api, id);
    const { last_seen: first, ...rest } = await worker();
    assert.deepEqual(rest, { name: 'calibration:0', running: 1, state: 'active', silent: false, jobs: [ulid] });
    await advance(api, 120_000);
    const quiet = await worker();
    assert.deepEqual([quiet.silent, quiet.state, quiet.running, quiet.last_seen], [true, 'silent', 1, first]);
    await post(api, 'renew', { job_id: id, token });
    const back = await worker();
    assert.deepEqual([back.silent, back.last_seen], [false, first + 120_000]);
    await advance(api, 599_999);
    assert.equal((await job(api, id)).status, 'running');
    await advance(api, 1);
    assert.deepEqual([(await job(api, id)).status, (await job(api, id)).error], ['error', 'Timeout after 600s']);
    assert.equal((await native(api, id)).state, 'dead');
    await empty(api, 'calibration');
  });

  test('NOM-2 NOM-13 a type with retries: pending again without the traces of the attempt, and error after the last', async () => {
    const { api } = use;
    await empty(api, 'tagging');
    const id = await enqueue(api, '/retry', { queue_type: 'tagging', priority: 4 });
    const { enqueued_at } = await job(api, id);
    for (let i = 1; i <= 3; i++) {
      const { token } = await post(api, 'dequeue', { queue_type: 'tagging' });
      assert.deepEqual(await post(api, 'fail', { job_id: id, token, error: `Model error ${i}` }), { job_id: id, status: i < 3 ? 'pending' : 'error' });
      const one = await job(api, id);
      if (i < 3) {
        assert.deepEqual(one, { id, library_id: 1, path: '/retry', queue_type: 'tagging', status: 'pending', priority: 4, error: null, results_json: null, enqueued_at, started_at: null, completed_at: null });
        assert.equal((await depth(api, '?queue_type=tagging')).pending, 1, 'it waits for its back-off');
        assert.equal((await native(api, id)).state, 'scheduled');
      } else assert.deepEqual([one.status, one.error], ['error', 'Model error 3']);
      await advance(api, 3_600_000);
    }
    assert.equal((await native(api, id)).failures, 3);
    await empty(api, 'tagging');
  });

  test('NOM-4 a batch has the default type and priority; all of its jobs come before those of lower priority', async () => {
    const { api } = use;
    await empty(api, 'processing');
    const single = await enqueue(api, '/before');
    const { job_ids: ids } = await post(api, 'enqueue', { library_id: 7, paths: ['/b/1', '/b/2'] });
    const { job_ids: urgent } = await post(api, 'enqueue', { library_id: 7, paths: ['/b/3', '/b/4'], priority: 1 });
    for (const id of ids) {
      const { queue_type, priority, status, library_id } = await job(api, id);
      assert.deepEqual([queue_type, priority, status, library_id], ['processing', 0, 'pending', 7]);
      assert.equal((await native(api, id)).queue, 'webqueue.processing');
    }
    const order = [];
    for (let next; (next = await post(api, 'dequeue')); ) order.push(next.id);
    assert.deepEqual(order, [...urgent, single, ...ids]);
    await empty(api, 'processing');
  });

  test('NOM-7 errors are retried and cleared by type; a retried job is the same job, as if it had never run', async () => {
    const { api } = use;
    await empty(api, 'processing', 'calibration');
    const bad = {};
    for (const queue_type of ['processing', 'calibration']) {
      bad[queue_type] = [];
      for (let i = 0; i < 2; i++) {
        const id = await enqueue(api, `/bad/${i}`, { queue_type, priority: i });
        await post(api, 'dequeue', { queue_type });
        await post(api, 'fail', { job_id: id, error: 'x' });
        bad[queue_type].push(id);
      }
    }
    await advance(api, 5000);
    assert.deepEqual(await post(api, 'retry-errors', { queue_type: 'calibration' }), { retried: 2, conflicts: 0 });
    for (const [i, id] of bad.calibration.entries()) {
      const { status, error, started_at, completed_at, priority } = await job(api, id);
      assert.deepEqual([status, error, started_at, completed_at, priority], ['pending', null, null, null, i]);
      assert.deepEqual([(await native(api, id)).state, (await native(api, id)).failures], ['ready', 0]);
    }
    assert.deepEqual(await depth(api, '?queue_type=processing'), { pending: 0, running: 0, completed: 0, errors: 2 });
    assert.deepEqual(await post(api, 'clear-errors', { queue_type: 'processing' }), { cleared: 2 });
    for (const id of bad.processing) assert.equal((await api.get(`/v1/jobs/${id}`)).status, 404);
    assert.deepEqual(await depth(api), { pending: 2, running: 0, completed: 0, errors: 0 });
    await empty(api, 'processing', 'calibration');
  });

  test('NOM-14 deleting a library: every type, every status, also many jobs; /v1 and the counts have none of them', async () => {
    const { api } = use;
    await empty(api, 'processing', 'calibration');
    const library_id = 77;
    for (const queue_type of ['processing', 'calibration']) {
      await post(api, 'enqueue', { library_id, queue_type, paths: Array.from({ length: 600 }, (_, i) => `/lib/${i}`) });
      for (let i = 0; i < 5; i++) await post(api, 'complete', { job_id: (await post(api, 'dequeue', { queue_type })).id });
      await post(api, 'dequeue', { queue_type });
    }
    const other = await enqueue(api, '/lib/0/other', { library_id: 78 });
    assert.deepEqual(ok(await api.delete(at(`library/${library_id}`))), { removed: 1200, cancelled: 2 });
    assert.deepEqual(await depth(api), { pending: 1, running: 0, completed: 0, errors: 0 });
    assert.deepEqual(ok(await api.get('/v1/jobs?limit=1000')).jobs.filter((one) => one.group === String(library_id)), []);
    assert.equal((await native(api, other)).state, 'ready');
    await empty(api, 'processing', 'calibration');
  });

  test('NOM-11 the default rules at their limits: 20 ends and more than 10 % of them; 60 s without a dequeue', async () => {
    const { api } = use;
    await empty(api, 'processing', 'calibration');
    await enqueue(api, '/first');
    const raised = (name) => async () => (await api.get(`/v1/alerts/${name}`)).json.raised?.map((one) => one.queue);
    const errors = raised('webqueue-errors');
    await until('the rules exist', async () => (await errors()) !== undefined);
    const end = async (good) => {
      const { id } = await post(api, 'dequeue');
      await post(api, good ? 'complete' : 'fail', { job_id: id, ...(good ? {} : { error: 'x' }) });
    };
    // Earlier ends are outside the window of 5 minutes.
    await advance(api, 400_000);
    await post(api, 'enqueue', { library_id: 1, paths: Array.from({ length: 40 }, (_, i) => `/e/${i}`) });
    for (let i = 0; i < 19; i++) await end(i < 17);
    await advance(api, 1000);
    assert.deepEqual(await errors(), [], '2 of 19');
    await end(true);
    await advance(api, 1000);
    assert.deepEqual(await errors(), [], '2 of 20 are 10 %, not more');
    await end(false);
    await until('3 of 21 are more', async () => {
      await advance(api, 1000);
      return (await errors()).length === 1;
    });
    assert.deepEqual(await errors(), ['webqueue.processing']);
    const idle = raised('webqueue-idle');
    await post(api, 'dequeue');
    await advance(api, 59_000);
    assert.deepEqual(await idle(), []);
    await until('a minute without a dequeue', async () => {
      await advance(api, 1000);
      return (await idle()).length === 1;
    });
    await post(api, 'dequeue');
    await until('a dequeue clears it', async () => {
      await advance(api, 1000);
      return (await idle()).length === 0;
    });
    await advance(api, 300_000);
    await until('the window has passed', async () => {
      await advance(api, 1000);
      return (await errors()).length === 0;
    });
    await empty(api, 'processing', 'calibration');
  });

  test('NOM-11 a rule on deep without a number means 10,000, and is shown with it, whatever the warn_depth of the queue', async () => {
    const { api, server } = use;
    const queue = freshQueue('deep');
    const enqueueMany = async (count) => assert.ok(ok(await api.post(`/v1/queues/${queue}/jobs`, Array(count).fill({ payload: 1 }))).jobs.every((one) => one.created));
    ok(await api.put(`/v1/queues/${queue}`, { warn_depth: 7 }), 201);
    const made = ok(await api.put('/v1/alerts/deep', { on: 'deep', queue }), 201);
    const shell = await run(['alerts', 'create', 'deep-shell', '--on', 'deep', '--queue', queue, '--server', server.url]);
    assert.equal(shell.code, 0, shell.stderr);
    const rule = async (name = 'deep') => ok(await api.get(`/v1/alerts/${name}`));
    const listed = ok(await api.get('/v1/alerts')).alerts.filter((one) => one.name.startsWith('deep'));
    assert.deepEqual([made, await rule(), await rule('deep-shell'), ...listed].map((one) => one.depth), [10_000, 10_000, 10_000, 10_000, 10_000]);
    for (let i = 0; i < 9; i++) await enqueueMany(1000);
    await enqueueMany(999);
    await advance(api, 2000);
    assert.equal(ok(await api.get(`/v1/queues/${queue}`)).counts.ready, 9999);
    assert.deepEqual((await rule()).raised, []);
    await enqueueMany(1);
    await until('10,000 are deep', async () => {
      await advance(api, 1000);
      return (await rule()).raised.length === 1;
    });
    const [{ queue: about, value, limit }] = (await rule()).raised;
    assert.deepEqual([about, value, limit], [queue, 10_000, 10_000]);
    for (const name of ['deep', 'deep-shell']) ok(await api.delete(`/v1/alerts/${name}`));
    ok(await api.delete(`/v1/queues/${queue}`));
  });

  test('NOM-6 NOM-10 results are kept as they were sent, up to the retention of 30 days; clear-completed does not wait for it', async () => {
    const { api } = use;
    await empty(api, 'processing');
    const values = [{ tags: ['ä', '\u0000'], n: 1.5e-7 }, [], 'text', 0, false, null];
    const ids = [];
    for (const [i, results] of values.entries()) {
      const id = await enqueue(api, `/r/${i}`);
      assert.equal((await post(api, 'dequeue')).id, id);
      await post(api, 'complete', { job_id: id, results });
      assert.deepEqual(JSON.parse((await job(api, id)).results_json ?? 'null'), results);
      assert.deepEqual((await native(api, id)).result ?? null, results);
      ids.push(id);
    }
    await advance(api, 29 * 24 * 3_600_000);
    assert.equal((await depth(api)).completed, values.length);
    assert.deepEqual(await post(api, 'clear-completed'), { cleared: values.length });
    for (const id of ids) assert.equal((await api.get(at(`job/${id}`))).status, 404);
    await empty(api, 'processing');
  });
});

test('NOM-12 counts read no rows of jobs', { skip: testBackend !== 'postgres' && 'of PostgreSQL' }, async (t) => {
  const server = await startServer({});
  const api = new Client(server);
  t.after(() => stopServer(server));
  t.after(() => api.close());
  const socket = decodeURIComponent(process.env.HF_POSTGRES.replace(/.*host=/, ''));
  const schema = `e2e_${path.basename(server.data).toLowerCase().replaceAll(/[^a-z0-9]/g, '_')}`;
  /** The rows of jobs that were read, and how often the other tables were read. */
  const seen = () => {
    const jobs = "relname LIKE 'job%'";
    const text = `SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FILTER (WHERE ${jobs}), sum(seq_scan + coalesce(idx_scan, 0)) FILTER (WHERE NOT ${jobs}) FROM pg_stat_user_tables WHERE schemaname = '${schema}'`;
    return execFileSync('psql', ['-h', socket, '-U', 'holdfast', '-d', 'postgres', '-qAtc', text], { encoding: 'utf8' }).split('|').map(Number);
  };
  for (let i = 0; i < 3; i++) await post(api, 'enqueue', { library_id: 1, paths: Array.from({ length: 1000 }, (_, n) => `/count/${i}/${n}`) });
  const all = { pending: 3000, running: 0, completed: 0, errors: 0 };
  // A connection writes its statistics about a second after its statements, those of the enqueues, too.
  const reads = [];
  for (let round = 0; round < 4; round++) {
    const [rows, others] = seen();
    for (let i = 0; i < 10; i++) {
      for (const query of ['', '?queue_type=processing']) assert.deepEqual(await depth(api, query), all, query);
      assert.equal(ok(await api.get('/v1/queues/webqueue.processing')).counts.ready, 3000);
    }
    await until('the statistics are written', async () => seen()[1] >= others + 30);
    reads.push(seen()[0] - rows);
  }
  assert.ok(Math.min(...reads) < 10_000, `${reads} rows were read for 30 counts of 3,000 jobs each`);
});

test('NOM-11 the numbers of the rules are settings; 0 creates no rule', async (t) => {
  const env = { HOLDFAST_WEBQUEUE_ALERT_DEPTH: '3', HOLDFAST_WEBQUEUE_ALERT_ERROR_PERCENT: '0', HOLDFAST_WEBQUEUE_ALERT_IDLE_MS: '5m' };
  const server = await startServer({ backend: 'memory', env });
  const api = new Client(server);
  t.after(() => stopServer(server));
  t.after(() => api.close());
  await post(api, 'enqueue', { library_id: 1, paths: ['/1', '/2', '/3'] });
  const rule = async (name) => (await api.get(`/v1/alerts/${name}`)).json;
  await until('the rules exist', async () => (await rule('webqueue-idle')).on === 'no_claim');
  assert.equal((await rule('webqueue-idle')).after_ms, 300_000);
  assert.equal((await api.get('/v1/alerts/webqueue-errors')).status, 404);
  assert.deepEqual([(await rule('webqueue-depth')).depth, (await rule('webqueue-depth')).raised], [4, []], 'three are not more than three');
  await enqueue(api, '/4');
  await until('four are', async () => (await rule('webqueue-depth')).raised.length === 1);
  for (let i = 0; i < 4; i++) await post(api, 'dequeue');
  for (const one of ok(await api.get(at('list?status=running'))).jobs) await post(api, 'complete', { job_id: one.id });
  await until('it is cleared', async () => (await rule('webqueue-depth')).raised.length === 0);
});
