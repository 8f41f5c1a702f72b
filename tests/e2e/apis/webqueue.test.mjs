// SPDX-License-Identifier: Apache-2.0
// The API of the normalised queue: every operation of its document, the errors of the document that this API corrects,
// races, and refusals. State is also checked through /v1 or SQL.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, fdatasyncSync, openSync, readFileSync, writeFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';

import { only } from '../lib/backend.mjs';
import { Client } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { onStores, trace } from '../lib/suite.mjs';

const at = (name) => `/api/web/queue/${name}`;
const dict = ['id', 'library_id', 'path', 'queue_type', 'status', 'priority', 'error', 'results_json', 'enqueued_at', 'started_at', 'completed_at'];
const day = 24 * 3600 * 1000;

let libraries = 1000;
const freshLibrary = () => ++libraries;

const ok = (answer, status = 200) => {
  assert.equal(answer.status, status, answer.text);
  return answer.json;
};
const refused = (answer, status, code, field) => {
  assert.equal(answer.status, status, answer.text);
  assert.equal(answer.json.code, code, answer.text);
  assert.match(answer.headers['content-type'], /problem\+json/);
  if (field !== undefined) assert.equal(answer.json.field, field, answer.text);
  return answer.json;
};
/** The API with the names of the document. */
const webqueue = (api) => ({
  enqueue: async (body) => ok(await api.post(at('enqueue'), body), 201).job_id,
  dequeue: async (body = {}) => ok(await api.post(at('dequeue'), body)),
  complete: async (job_id, results) => ok(await api.post(at('complete'), { job_id, results })),
  fail: async (job_id, error) => ok(await api.post(at('fail'), { job_id, error })),
  job: async (id) => ok(await api.get(at(`job/${id}`))),
  depth: async (query = '') => ok(await api.get(at(`queue-depth${query}`))),
  list: async (query = '') => ok(await api.get(at(`list${query}`))),
  native: async (id) => ok(await api.get(`/v1/jobs/${id}`)),
});
/** Removes all jobs of this type; the next enqueue creates its queue again. */
const empty = async (api, type = 'processing') => {
  const answer = await api.delete(`/v1/queues/webqueue.${type}`);
  assert.ok(answer.status === 200 || answer.status === 404, answer.text);
};

onStores('webqueue', ['memory', 'sqlite'], {}, (use) => {
  test('HF-20: the trace context of a request is copied into the headers of each job', async () => {
    const { api } = use;
    const d = webqueue(api);
    await empty(api);
    const { job_ids: ids } = ok(await api.post(at('enqueue'), { library_id: 1, paths: ['/trace/1', '/trace/2'] }, { headers: trace }));
    assert.equal(ids.length, 2);
    for (const id of ids) assert.deepEqual((await d.native(id)).headers, trace);
    assert.equal((await d.native(await d.enqueue({ library_id: 1, path: '/trace/3' }))).headers, undefined);
    await empty(api);
  });

  test('NOM-4 NOM-5 NOM-6 NOM-8: the flow of the document, with a JobDict at each step', async () => {
    const { api } = use;
    const d = webqueue(api);
    await empty(api);
    const before = Math.floor(Date.now() / 1000);
    const id = await d.enqueue({ library_id: 1, path: '/music/track.flac', queue_type: 'processing' });
    assert.ok(Number.isSafeInteger(id));
    const pending = await d.job(id);
    assert.deepEqual(Object.keys(pending), dict);
    assert.ok(pending.enqueued_at >= before && pending.enqueued_at <= Date.now() / 1000);
    assert.deepEqual({ ...pending, enqueued_at: 0 }, { id, library_id: 1, path: '/music/track.flac', queue_type: 'processing', status: 'pending', priority: 0, error: null, results_json: null, enqueued_at: 0, started_at: null, completed_at: null });
    const native = await d.native(id);
    assert.equal(native.queue, 'webqueue.processing');
    assert.equal(native.payload, '/music/track.flac');
    assert.equal(native.unique, '/music/track.flac');
    assert.equal(native.group, '1');

    const running = await d.dequeue({ queue_type: 'processing', worker: 'processing:0' });
    assert.deepEqual(Object.keys(running), [...dict, 'token']);
    assert.equal(running.id, id);
    assert.equal(running.status, 'running');
    assert.ok(running.started_at >= before);
    const { token, ...seen } = running;
    assert.deepEqual(await d.job(id), seen);
    assert.equal((await d.native(id)).worker, 'processing:0');
    assert.deepEqual(ok(await api.get('/v1/workers')).workers.map((w) => [w.name, w.running, w.silent]), [['processing:0', 1, false]], 'NOM-16: who holds what');
    assert.equal(await d.dequeue(), null, 'nothing else is pending');

    assert.deepEqual(ok(await api.post(at('complete'), { job_id: id, token, results: { tags: ['rock'], embeddings: [0.5], duration: 234.5 } })), { job_id: id, status: 'completed' });
    const completed = await d.job(id);
    assert.equal(completed.status, 'completed');
    assert.equal(typeof completed.results_json, 'string');
    assert.deepEqual(JSON.parse(completed.results_json), { tags: ['rock'], embeddings: [0.5], duration: 234.5 });
    assert.ok(completed.completed_at >= completed.started_at);
    assert.deepEqual((await d.native(id)).result, { tags: ['rock'], embeddings: [0.5], duration: 234.5 });

    // Defaults, and the reset of an error: pending again as if it had never run.
    const second = await d.enqueue({ library_id: 1, path: '/music/broken.flac' });
    assert.equal((await d.job(second)).queue_type, 'processing');
    await d.dequeue();
    await d.fail(second, 'File not found: /music/broken.flac');
    const error = await d.job(second);
    assert.deepEqual([error.status, error.error, error.results_json], ['error', 'File not found: /music/broken.flac', null]);
    assert.ok(error.completed_at >= error.started_at);
    assert.equal((await d.native(second)).state, 'dead');
    assert.deepEqual(ok(await api.post(at('requeue'), { job_id: second })), { job_id: second, status: 'pending' });
    const again = await d.job(second);
    assert.deepEqual([again.status, again.error, again.started_at, again.completed_at], ['pending', null, null, null]);
    assert.equal((await d.dequeue()).id, second);
  });

  test('NOM-5: priority DESC, then enqueued_at ASC; a retried job keeps its place', async () => {
    const { api } = use;
    const d = webqueue(api);
    await empty(api, 'calibration');
    const put = (name, priority) => d.enqueue({ library_id: 5, path: `/order/${name}`, queue_type: 'calibration', priority });
    const first = await put('a', 0);
    await put('b', -3);
    await put('c', 10);
    await put('d', 0);
    await put('e', 10);
    assert.equal((await d.dequeue({ queue_type: 'calibration' })).path, '/order/c');
    assert.equal((await d.dequeue({ queue_type: 'calibration' })).path, '/order/e');
    assert.equal((await d.dequeue({ queue_type: 'calibration' })).id, first);
    await d.fail(first, 'no');
    ok(await api.post(at('requeue'), { job_id: first }));
    const rest = [];
    for (let job; (job = await d.dequeue({ queue_type: 'calibration' })); ) rest.push(job.path);
    assert.deepEqual(rest, ['/order/a', '/order/d', '/order/b']);
    assert.equal(ok(await api.get(`/v1/jobs/${first}`)).priority, 0);
  });

  test('NOM-2: only the transitions of the state machine; every other one gets 409 and changes nothing', async () => {
    const { api } = use;
    const d = webqueue(api);
    const library_id = freshLibrary();
    const post = (word, job_id) => api.post(at(word), word === 'fail' ? { job_id, error: 'x' } : { job_id });
    const make = async (name) => {
      await empty(api);
      return d.enqueue({ library_id, path: `/machine/${library_id}/${name}` });
    };
    const to = {
      pending: async () => make('p'),
      running: async () => (await make('r'), (await d.dequeue()).id),
      completed: async () => {
        const id = await make('c');
        await d.dequeue();
        await d.complete(id);
        return id;
      },
      error: async () => {
        const id = await make('e');
        await d.dequeue();
        await d.fail(id, 'x');
        return id;
      },
    };
    const legal = { pending: [], running: ['complete', 'fail', 'renew'], completed: [], error: ['requeue'] };
    const ends = { complete: 'completed', fail: 'error', renew: 'running', requeue: 'pending' };
    for (const [status, make_it] of Object.entries(to)) {
      for (const word of Object.keys(ends)) {
        const id = await make_it();
        const before = await d.job(id);
        assert.equal(before.status, status);
        const answer = await post(word, id);
        if (legal[status].includes(word)) {
          assert.deepEqual(ok(answer), { job_id: id, status: ends[word] });
        } else {
          const problem = refused(answer, 409, 'illegal_move');
          assert.equal(problem.job_id, id);
          assert.equal(/legal_moves/.test(problem.detail), 'legal_moves' in problem, problem.detail);
          assert.deepEqual(problem.legal_moves ?? [], status === 'pending' ? ['dequeue'] : legal[status], `${word} of a ${status} job`);
          assert.deepEqual(await d.job(id), before);
        }
      }
    }
  });

  test('NOM-2: a job that waits for its time is pending, and cannot be requeued', async () => {
    const { api } = use;
    const d = webqueue(api);
    await empty(api);
    const later = ok(await api.post('/v1/queues/webqueue.processing/jobs', { payload: '/later.flac', unique: '/later.flac', group: '9', delay_ms: 3_600_000 }), 201);
    assert.equal((await d.job(later.seq)).status, 'pending');
    assert.equal((await d.depth('?library_id=9')).pending, 1, 'delayed counts as pending');
    refused(await api.post(at('requeue'), { job_id: later.seq }), 409, 'illegal_move');
    assert.equal((await d.native(later.id)).state, 'scheduled');
    refused(await api.post(at('enqueue'), { library_id: 9, path: '/later.flac' }), 409, 'duplicate');
    ok(await api.delete(`/v1/jobs/${later.id}`));
  });

  test('NOM-3: no second live job for a path, pending or running; another type and after the end are fine', async () => {
    const { api } = use;
    const d = webqueue(api);
    await empty(api);
    const body = { library_id: 2, path: '/music/one.flac' };
    const id = await d.enqueue(body);
    assert.equal(refused(await api.post(at('enqueue'), body), 409, 'duplicate').job_id, id);
    // The document's index would let this one in, beside the running one, and then every dequeue and
    // every bulk retry would fail on it.
    assert.equal((await d.dequeue()).id, id);
    assert.equal(refused(await api.post(at('enqueue'), body), 409, 'duplicate').job_id, id);
    assert.equal(refused(await api.post('/v1/queues/webqueue.processing/jobs', { payload: body.path, unique: body.path }), 409, 'duplicate').seq, id, 'by /v1 neither');
    const other = await d.enqueue({ ...body, queue_type: 'calibration' });
    assert.notEqual(other, id);
    await d.complete(id);
    const next = await d.enqueue(body);
    assert.ok(next > id);
    const live = (await api.get('/v1/jobs?unique=/music/one.flac&state=ready,running')).json.jobs.map((job) => job.seq).sort();
    assert.deepEqual(live, [other, next].sort());
  });

  test('NOM-3: a path of any length has one live job, and paths are distinguished to the last byte', async () => {
    const { api } = use;
    const d = webqueue(api);
    await empty(api);
    const long = '/' + 'ä'.repeat(2000) + '/';
    const a = await d.enqueue({ library_id: 2, path: long + '1' });
    const b = await d.enqueue({ library_id: 2, path: long + '2' });
    assert.equal(refused(await api.post(at('enqueue'), { library_id: 2, path: long + '1' }), 409, 'duplicate').job_id, a);
    assert.equal((await d.job(b)).path, long + '2');
    assert.equal((await d.native(a)).payload, long + '1');
  });

  test('NOM-3: 32 producers at once, one live job; NOM-5: 32 workers at once, nothing twice', async () => {
    const { api } = use;
    const d = webqueue(api);
    await empty(api);
    const producers = await Promise.all(Array.from({ length: 32 }, () => api.post(at('enqueue'), { library_id: 3, path: '/race.flac' })));
    const made = producers.filter((answer) => answer.status === 201);
    assert.equal(made.length, 1);
    for (const answer of producers) assert.equal(answer.json.job_id, made[0].json.job_id);
    assert.equal((await d.depth('?library_id=3')).pending, 1);
    await empty(api);

    const paths = Array.from({ length: 100 }, (_, i) => `/race/${i}`);
    ok(await api.post(at('enqueue'), { library_id: 3, paths }));
    const seen = [];
    await Promise.all(
      Array.from({ length: 32 }, async () => {
        for (let job; (job = await d.dequeue()); ) seen.push(job.path);
      }),
    );
    assert.deepEqual(seen.sort(), paths.sort());
    assert.equal((await d.depth('?queue_type=processing')).running, 100);
  });

  test('NOM-4: a batch reports per item', async () => {
    const { api } = use;
    const d = webqueue(api);
    await empty(api);
    const there = await d.enqueue({ library_id: 4, path: '/batch/b' });
    const answer = ok(await api.post(at('enqueue'), { library_id: 4, paths: ['/batch/a', '/batch/b', '/batch/a', '', '/batch/c'], priority: 7 }));
    assert.equal(answer.enqueued, 2);
    assert.equal(answer.refused, 3);
    assert.deepEqual(answer.jobs.map((job) => job.path), ['/batch/a', '/batch/b', '/batch/a', '', '/batch/c']);
    assert.deepEqual(answer.jobs.map((job) => job.error?.code ?? null), [null, 'duplicate', 'duplicate', 'invalid_field', null]);
    assert.equal(answer.jobs[1].error.job_id, there);
    assert.equal(answer.jobs[2].error.job_id, answer.jobs[0].job_id);
    assert.deepEqual(answer.job_ids, [answer.jobs[0].job_id, answer.jobs[4].job_id]);
    for (const id of answer.job_ids) assert.equal((await d.native(id)).priority, 7);
    assert.equal((await d.depth('?library_id=4')).pending, 3);
  });

  test('NOM-6: lists by status, type and library, newest first, with limit and offset', async () => {
    const { api } = use;
    const d = webqueue(api);
    await empty(api);
    await empty(api, 'calibration');
    const library_id = freshLibrary();
    const ids = [];
    for (let i = 0; i < 120; i++) ids.push(await d.enqueue({ library_id, path: `/list/${library_id}/${i}`, queue_type: i % 3 ? 'processing' : 'calibration' }));
    const newest = [...ids].reverse();
    const all = await d.list(`?library_id=${library_id}`);
    assert.deepEqual(all.jobs.map((job) => job.id), newest.slice(0, 100), 'a hundred unless told otherwise');
    assert.deepEqual([all.total, all.limit, all.offset, all.next_offset], [120, 100, 0, 100]);
    const rest = await d.list(`?library_id=${library_id}&offset=100`);
    assert.deepEqual(rest.jobs.map((job) => job.id), newest.slice(100));
    assert.equal(rest.next_offset, null);
    const some = await d.list(`?library_id=${library_id}&queue_type=calibration&limit=7&offset=5`);
    assert.deepEqual(some.jobs.map((job) => job.id), ids.filter((_, i) => i % 3 === 0).reverse().slice(5, 12));
    assert.equal(some.total, 40);
    const job = await d.dequeue();
    await d.fail(job.id, 'broken');
    const errors = await d.list(`?status=error&queue_type=processing&library_id=${library_id}&limit=100`);
    assert.deepEqual(errors.jobs, [await d.job(job.id)]);
    assert.equal((await d.list(`?status=pending&library_id=${library_id}`)).total, 119);
    assert.deepEqual((await d.list(`?status=completed&library_id=${library_id}`)).jobs, []);
    assert.deepEqual((await d.list(`?offset=5000`)).jobs, []);
    // A job that was cancelled through /v1 does not exist in this API.
    ok(await api.post(`/v1/jobs/${ids[2]}/cancel`, {}));
    assert.equal((await d.list(`?library_id=${library_id}`)).total, 119);
    refused(await api.get(at(`job/${ids[2]}`)), 404, 'not_found');
    refused(await api.post(at('requeue'), { job_id: ids[2] }), 404, 'not_found');
    ok(await api.delete(at(`library/${library_id}`)));
  });

  test('NOM-7 HF-16: clear and retry by type and library; a conflict is reported and the rest is done', async () => {
    const { api } = use;
    const d = webqueue(api);
    const [one, two] = [freshLibrary(), freshLibrary()];
    const end = async (body, error) => {
      const id = await d.enqueue(body);
      const job = await d.dequeue({ queue_type: body.queue_type });
      assert.equal(job.id, id);
      if (error) await d.fail(id, error);
      else await d.complete(id, 1);
      return id;
    };
    await empty(api);
    await empty(api, 'calibration');
    const native = (name) => `bystander-${use.backend}-${name}`;
    await api.put(`/v1/queues/${native('q')}`, { max_attempts: 1 });
    const outside = ok(await api.post(`/v1/queues/${native('q')}/jobs`, { payload: 1, group: String(one) }), 201);
    const held = (await api.post(`/v1/queues/${native('q')}/claim`, {})).json.jobs[0];
    ok(await api.post(`/v1/jobs/${outside.id}/fail`, { token: held.token, error: 'x' }));

    const errors = [];
    for (let i = 0; i < 5; i++) errors.push(await end({ library_id: one, path: `/e/${one}/${i}` }, 'bad'));
    const elsewhere = await end({ library_id: two, path: `/e/${two}` }, 'bad');
    const calibration = await end({ library_id: one, path: `/e/${one}`, queue_type: 'calibration' }, 'bad');
    for (let i = 0; i < 3; i++) await end({ library_id: i ? one : two, path: `/c/${one}/${i}` });
    // One path is live again: in the document this one row makes the whole UPDATE fail.
    const holder = await d.enqueue({ library_id: one, path: `/e/${one}/2` });
    assert.equal(refused(await api.post(at('requeue'), { job_id: errors[2] }), 409, 'duplicate').job_id, holder);
    assert.deepEqual(ok(await api.post(at('retry-errors'), { queue_type: 'processing', library_id: one })), { retried: 4, conflicts: 1 });
    for (const [i, id] of errors.entries()) assert.equal((await d.job(id)).status, i === 2 ? 'error' : 'pending');
    assert.equal((await d.job(elsewhere)).status, 'error', 'another library');
    assert.equal((await d.job(calibration)).status, 'error', 'another type');
    assert.deepEqual(ok(await api.post(at('clear-completed'), { queue_type: 'processing', library_id: one })), { cleared: 2 });
    assert.equal((await d.depth('?queue_type=processing')).completed, 1);
    assert.deepEqual(ok(await api.post(at('clear-errors'), { library_id: two })), { cleared: 1 });
    assert.deepEqual(ok(await api.post(at('retry-errors'), {})), { retried: 1, conflicts: 1 }, 'all types and libraries');
    assert.deepEqual(ok(await api.post(at('clear-errors'))), { cleared: 1 });
    assert.equal((await d.native(outside.id)).state, 'dead', 'HF-16: a queue outside this API is not changed');
    assert.deepEqual(await d.depth(), { pending: 6, running: 0, completed: 1, errors: 0 });
    refused(await api.get(at(`job/${outside.seq}`)), 404, 'not_found');
    refused(await api.post(at('requeue'), { job_id: outside.seq }), 404, 'not_found');
  });

  test('NOM-8: queue-depth is exactly the four numbers, of a type and of a library', async () => {
    const { api } = use;
    const d = webqueue(api);
    const library_id = freshLibrary();
    for (let i = 0; i < 4; i++) await d.enqueue({ library_id, path: `/depth/${library_id}/${i}`, queue_type: 'calibration', priority: 100 });
    await d.complete((await d.dequeue({ queue_type: 'calibration' })).id);
    await d.fail((await d.dequeue({ queue_type: 'calibration' })).id, 'x');
    await d.dequeue({ queue_type: 'calibration' });
    const { text } = await api.get(at(`queue-depth?library_id=${library_id}&queue_type=calibration`));
    assert.equal(text.trim(), '{"pending":1,"running":1,"completed":1,"errors":1}');
    assert.deepEqual(await d.depth(`?library_id=${library_id}&queue_type=processing`), { pending: 0, running: 0, completed: 0, errors: 0 });
    const stats = ok(await api.get(`/v1/queues/webqueue.calibration/stats?group=${library_id}`)).counts;
    assert.deepEqual([stats.ready, stats.running, stats.done, stats.dead], [1, 1, 1, 1]);
    assert.deepEqual(ok(await api.get(at(`library/${library_id}`))), {
      library_id, pending: 1, running: 1, completed: 1, errors: 1,
      queue_types: { processing: { pending: 0, running: 0, completed: 0, errors: 0 }, calibration: { pending: 1, running: 1, completed: 1, errors: 1 } },
    });
  });

  test('NOM-14: deleting a library removes its jobs and cancels running ones', async () => {
    const { api } = use;
    const d = webqueue(api);
    const [gone, stays] = [freshLibrary(), freshLibrary()];
    const ids = [];
    for (let i = 0; i < 4; i++) ids.push(await d.enqueue({ library_id: gone, path: `/lib/${gone}/${i}`, priority: 1000 }));
    const kept = await d.enqueue({ library_id: stays, path: `/lib/${stays}` });
    await d.complete((await d.dequeue()).id);
    await d.fail((await d.dequeue()).id, 'x');
    const running = await d.dequeue();
    assert.deepEqual(ok(await api.delete(at(`library/${gone}`))), { removed: 4, cancelled: 1 });
    assert.deepEqual(await d.depth(`?library_id=${gone}`), { pending: 0, running: 0, completed: 0, errors: 0 });
    for (const id of ids) assert.equal((await api.get(`/v1/jobs/${id}`)).status, 404);
    refused(await api.post(at('complete'), { job_id: running.id, token: running.token }), 404, 'not_found');
    assert.equal((await d.job(kept)).status, 'pending');
    assert.equal((await d.enqueue({ library_id: gone, path: running.path })) > kept, true, 'the path is free');
    ok(await api.delete(at(`library/${gone}`)));
  });

  test('NOM-6: a token is checked if it is given; require_token makes it mandatory', async () => {
    const { api } = use;
    const d = webqueue(api);
    await empty(api);
    const id = await d.enqueue({ library_id: 6, path: '/token.flac' });
    const first = await d.dequeue();
    ok(await api.post(`/v1/jobs/${id}/release`, { token: first.token }));
    const second = await d.dequeue();
    assert.equal(second.id, id);
    for (const word of ['complete', 'fail', 'renew']) refused(await api.post(at(word), { job_id: id, token: first.token, ...(word === 'fail' && { error: 'x' }) }), 409, 'lease_lost');
    ok(await api.patch('/v1/queues/webqueue.processing', { require_token: true }));
    refused(await api.post(at('complete'), { job_id: id }), 422, 'invalid_field', 'token');
    assert.equal((await d.job(id)).status, 'running');
    assert.equal(ok(await api.post(at('complete'), { job_id: id, token: second.token })).status, 'completed');
    assert.equal(ok(await api.post(at('complete'), { job_id: id, token: second.token })).status, 'completed', 'the same word again is the same answer');
    ok(await api.patch('/v1/queues/webqueue.processing', { require_token: false }));
  });

  test('a dequeue can wait, and is woken', async () => {
    const { api } = use;
    const d = webqueue(api);
    await empty(api);
    const waiting = d.dequeue({ wait_ms: 20000 });
    const id = await d.enqueue({ library_id: 6, path: '/wait.flac' });
    assert.equal((await waiting).id, id);
  });

  test('a deleted queue is created again with the same policy', async () => {
    const { api } = use;
    const d = webqueue(api);
    await d.enqueue({ library_id: 6, path: '/again.flac', queue_type: 'calibration' });
    ok(await api.delete('/v1/queues/webqueue.calibration'));
    assert.deepEqual(await d.depth('?queue_type=calibration'), { pending: 0, running: 0, completed: 0, errors: 0 });
    assert.deepEqual((await d.list('?queue_type=calibration')).jobs, []);
    assert.deepEqual(ok(await api.post(at('retry-errors'), { queue_type: 'calibration' })), { retried: 0, conflicts: 0 });
    const batch = ok(await api.post(at('enqueue'), { library_id: 6, paths: ['/again.flac', '/again.flac', '/two.flac'], queue_type: 'calibration' }));
    assert.equal(batch.enqueued, 2);
    const { policy } = ok(await api.get('/v1/queues/webqueue.calibration'));
    assert.deepEqual([policy.lease_ms, policy.lease_end, policy.max_attempts, policy.keep_done_ms, policy.keep_dead_ms], [300000, 'fail', 1, 30 * day, null]);
  });

  test('bad input: a clear problem, nothing changed', async () => {
    const { api } = use;
    const d = webqueue(api);
    const before = await d.depth();
    const body = { library_id: 1, path: '/x' };
    const cases = [
      ['enqueue', { path: '/x' }, 'missing_field', 'library_id'],
      ['enqueue', { library_id: 1 }, 'missing_field', 'path'],
      ['enqueue', { ...body, paths: ['/y'] }, 'invalid_field', undefined],
      ['enqueue', { ...body, path: '' }, 'invalid_field', 'path'],
      ['enqueue', { ...body, path: 7 }, 'invalid_field', 'path'],
      ['enqueue', { ...body, path: 'a\u0000b' }, 'invalid_field', 'path'],
      ['enqueue', { ...body, path: '/'.repeat(4097) }, 'invalid_field', 'path'],
      ['enqueue', { ...body, library_id: '1' }, 'invalid_field', 'library_id'],
      ['enqueue', { ...body, library_id: -1 }, 'invalid_field', 'library_id'],
      ['enqueue', { ...body, priority: 1.5 }, 'invalid_field', 'priority'],
      ['enqueue', { ...body, priority: 'high' }, 'invalid_field', 'priority'],
      ['enqueue', { ...body, queue_type: 'tagging' }, 'invalid_field', 'queue_type'],
      ['enqueue', { ...body, status: 'running' }, 'unknown_field', 'status'],
      ['enqueue', { library_id: 1, paths: [] }, 'invalid_field', 'paths'],
      ['enqueue', { library_id: 1, paths: Array(1001).fill('/x') }, 'invalid_field', 'paths'],
      ['dequeue', { queue_type: 'nope' }, 'invalid_field', 'queue_type'],
      ['dequeue', { wait_ms: 60001 }, 'invalid_field', 'wait_ms'],
      ['dequeue', { timeout: 1 }, 'unknown_field', 'timeout'],
      ['complete', {}, 'missing_field', 'job_id'],
      ['complete', { job_id: 'abc' }, 'invalid_id', 'job_id'],
      ['complete', { job_id: 1, token: 5 }, 'invalid_field', 'token'],
      ['complete', { job_id: 1, result: {} }, 'unknown_field', 'result'],
      ['fail', { job_id: 1 }, 'missing_field', 'error'],
      ['fail', { job_id: 1, error: 5 }, 'invalid_field', 'error'],
      ['renew', { job: 1 }, 'unknown_field', 'job'],
      ['requeue', { job_id: 0.5 }, 'invalid_id', 'job_id'],
      ['requeue', { job_id: 1, token: '1-1' }, 'unknown_field', 'token'],
      ['retry-errors', { queue_type: 'x' }, 'invalid_field', 'queue_type'],
      ['clear-completed', { library_id: 'all' }, 'invalid_field', 'library_id'],
      ['clear-errors', { status: 'error' }, 'unknown_field', 'status'],
    ];
    for (const [word, json, code, field] of cases) refused(await api.post(at(word), json), 422, code, field);
    for (const word of ['enqueue', 'dequeue', 'complete', 'fail', 'renew', 'requeue', 'retry-errors', 'clear-completed', 'clear-errors']) {
      refused(await api.request('POST', at(word), { body: '{"library_id":', headers: { 'content-type': 'application/json' } }), 400, 'malformed_json');
      refused(await api.post(at(`${word}?queue_type=processing`), {}), 422, 'unknown_field', 'queue_type');
    }
    const queries = [
      ['queue-depth?queue_type=x', 'invalid_field', 'queue_type'], ['queue-depth?library_id=x', 'invalid_field', 'library_id'], ['queue-depth?type=x', 'unknown_field', 'type'],
      ['list?status=done', 'invalid_field', 'status'], ['list?limit=0', 'invalid_field', 'limit'], ['list?limit=1001', 'invalid_field', 'limit'], ['list?offset=-1', 'invalid_field', 'offset'],
      ['stale?timeout=x', 'invalid_field', 'timeout'], ['stale?timeout=-1', 'invalid_field', 'timeout'], ['types?x=1', 'unknown_field', 'x'], ['library/abc', 'invalid_field', 'library_id'], ['job/abc', 'invalid_id', 'id'], ['job/1?x=1', 'unknown_field', 'x'],
    ];
    for (const [query, code, field] of queries) refused(await api.get(at(query)), 422, code, field);
    refused(await api.delete(at('library/-1')), 422, 'invalid_field', 'library_id');
    const problem = refused(await api.post(at('enqueue'), { ...body, queue_type: 'tagging' }), 422, 'invalid_field', 'queue_type');
    assert.deepEqual(problem.allowed, ['processing', 'calibration'], 'NOM-13: the types there are');
    for (const word of ['complete', 'renew', 'requeue']) refused(await api.post(at(word), { job_id: 99999999 }), 404, 'not_found');
    refused(await api.post(at('fail'), { job_id: 99999999, error: 'x' }), 404, 'not_found');
    refused(await api.get(at('job/99999999')), 404, 'not_found');
    assert.equal((await api.get(at('dequeue'))).status, 405, 'taking a job is no GET');
    assert.deepEqual(await d.depth(), before);
  });
});

onStores('webqueue over time', ['memory', 'sqlite'], { args: ['--test-clock'] }, (use) => {
  const advance = async (ms) => ok(await use.api.post('/v1/test/clock', { advance_ms: ms }));

  test('NOM-9: a job fails 300 s after the last renewal, not earlier; a job that is renewed never fails', async () => {
    const { api } = use;
    const d = webqueue(api);
    const dead = await d.enqueue({ library_id: 1, path: '/crashed.flac' });
    const live = await d.enqueue({ library_id: 1, path: '/alive.flac' });
    await d.dequeue();
    await d.dequeue();
    const stale = async (timeout) => ok(await api.get(at(`stale?timeout=${timeout}`))).jobs.map((job) => job.id).sort((a, b) => a - b);
    assert.deepEqual(await stale(1), []);
    await advance(200_000);
    assert.deepEqual(await stale(200), [dead, live]);
    assert.deepEqual(ok(await api.post(at('renew'), { job_id: live })), { job_id: live, status: 'running' });
    assert.deepEqual(await stale(200), [dead], 'a renewal counts as a heartbeat');
    await advance(99_999);
    assert.equal((await d.job(dead)).status, 'running');
    await advance(1);
    const failed = await d.job(dead);
    assert.deepEqual([failed.status, failed.error], ['error', 'Timeout after 300s']);
    assert.equal(failed.completed_at - failed.started_at, 300);
    assert.equal((await d.native(dead)).reason, 'lease_expired');
    for (let i = 0; i < 20; i++) {
      ok(await api.post(at('renew'), { job_id: live }));
      await advance(299_999);
    }
    // An hour and a half: the document's coordinator would have failed it after five minutes.
    assert.equal((await d.job(live)).status, 'running');
    assert.deepEqual(ok(await api.get(at('stale'))).timeout, 300);
    await d.complete(live);
    refused(await api.post(at('complete'), { job_id: dead }), 409, 'illegal_move');
  });

  test('NOM-11: the alerts of the document apply to the queues of this API, and are cleared', async () => {
    const { api } = use;
    const d = webqueue(api);
    await empty(api);
    ok(await api.put('/v1/alerts/web-depth', { on: 'deep', queue: 'webqueue.*', depth: 5 }), 201);
    ok(await api.put('/v1/alerts/web-errors', { on: 'error_share', queue: 'webqueue.*' }), 201);
    ok(await api.put('/v1/alerts/web-idle', { on: 'no_claim', queue: 'webqueue.*' }), 201);
    const raised = async (name) => (await api.get(`/v1/alerts/${name}`)).json.raised.map((one) => one.queue);
    const step = async (name, queues) => {
      await until(`${name}: ${queues}`, async () => {
        await advance(1000);
        return JSON.stringify(await raised(name)) === JSON.stringify(queues);
      });
    };
    ok(await api.post(at('enqueue'), { library_id: 1, paths: Array.from({ length: 30 }, (_, i) => `/alert/${i}`) }));
    await step('web-depth', ['webqueue.processing']);
    assert.deepEqual(await raised('web-errors'), []);
    await advance(60_000);
    await step('web-idle', ['webqueue.processing']);
    for (let i = 0; i < 30; i++) await d.fail((await d.dequeue()).id, 'x');
    await step('web-errors', ['webqueue.processing']);
    await step('web-depth', []);
    await step('web-idle', []);
    await advance(300_000);
    await step('web-errors', []);
    for (const name of ['web-depth', 'web-errors', 'web-idle']) ok(await api.delete(`/v1/alerts/${name}`));
  });

  test('NOM-11: the three alerts are on by default for these queues, with the document\'s numbers', async () => {
    const { api } = use;
    await empty(api);
    await webqueue(api).enqueue({ library_id: 1, path: '/alerts/default.flac' });
    const rule = (name) => until(`the rule ${name}`, async () => {
      const answer = await api.get(`/v1/alerts/${name}`);
      return answer.status === 200 && answer.json;
    });
    const depth = await rule('webqueue-depth');
    assert.deepEqual([depth.on, depth.queue, depth.depth, depth.enabled], ['deep', 'webqueue.*', 10001, true], 'more than 10,000');
    const errors = await rule('webqueue-errors');
    assert.deepEqual([errors.on, errors.queue, errors.percent, errors.window_ms, errors.min_ends], ['error_share', 'webqueue.*', 10, 300_000, 20]);
    const idle = await rule('webqueue-idle');
    assert.deepEqual([idle.on, idle.queue, idle.after_ms], ['no_claim', 'webqueue.*', 60_000]);
    // They are set, and others are created, from the command line.
    const cli = async (...words) => {
      const done = await run(['alerts', ...words, '--server', use.server.url, '--json']);
      assert.equal(done.code, 0, done.stderr);
      return JSON.parse(done.stdout);
    };
    assert.equal((await cli('set', 'webqueue-depth', '--depth', '20001')).depth, 20001);
    assert.equal((await rule('webqueue-depth')).depth, 20001);
    const made = await cli('create', 'own', '--on', 'error_share', '--queue', 'webqueue.*', '--percent', '20', '--window', '10m', '--min-ends', '5', '--enabled=false');
    assert.deepEqual([made.percent, made.window_ms, made.min_ends, made.enabled], [20, 600_000, 5, false]);
    assert.equal((await run(['alerts', 'create', 'own', '--on', 'deep', '--server', use.server.url])).code, 1, 'it exists');
    assert.equal((await run(['alerts', 'create', 'other', '--server', use.server.url])).code, 2, 'without --on');
    ok(await api.delete('/v1/alerts/own'));
    await advance(60_000);
    await until('a queue without workers raises it', async () => {
      await advance(1000);
      return (await rule('webqueue-idle')).raised.length === 1;
    });
    await webqueue(api).dequeue();
    await until('and a dequeue clears it', async () => {
      await advance(1000);
      return (await rule('webqueue-idle')).raised.length === 0;
    });
  });

  test('NOM-10: completed jobs are removed after 30 days, errors stay until they are cleared', async () => {
    const { api } = use;
    const d = webqueue(api);
    await empty(api);
    const done = await d.enqueue({ library_id: 1, path: '/old.flac' });
    await d.dequeue();
    await d.complete(done, {});
    const bad = await d.enqueue({ library_id: 1, path: '/bad.flac' });
    await d.dequeue();
    await d.fail(bad, 'x');
    await advance(30 * day - 1000);
    assert.equal((await d.job(done)).status, 'completed');
    await advance(2000);
    await until('its retention ends', async () => (await api.get(at(`job/${done}`))).status === 404);
    await advance(400 * day);
    assert.equal((await d.job(bad)).status, 'error');
    assert.deepEqual(ok(await api.post(at('clear-errors'), {})), { cleared: 1 });
    assert.equal((await api.post('/v1/compact', {})).status, use.backend === 'sqlite' ? 200 : 409);
  });
});

describe('webqueue: settings, restarts, SQL', () => {
  test('NOM-13: types by configuration alone, with their own timeout, retention and retries', async () => {
    const file = path.join(temporaryDirectory(), 'holdfast.yaml');
    const write = (types) => writeFileSync(file, ['webqueue:', '  types:', ...types.map((type) => `    - ${type}`), ''].join('\n'));
    write(['processing', 'calibration timeout=10m keep=7d', 'tagging retries=2 keep=all']);
    const start = (data) => startServer({ data, args: ['--config', file, '--test-clock'] });
    let server = await start(null);
    server.ownsData = false;
    let api = new Client(server);
    let d = webqueue(api);
    const advance = async (ms) => ok(await api.post('/v1/test/clock', { advance_ms: ms }));
    assert.deepEqual(ok(await api.get(at('types'))).types, [
      { queue_type: 'processing', queue: 'webqueue.processing', timeout_ms: 300000, keep_completed_ms: 30 * day, retries: 0 },
      { queue_type: 'calibration', queue: 'webqueue.calibration', timeout_ms: 600000, keep_completed_ms: 7 * day, retries: 0 },
      { queue_type: 'tagging', queue: 'webqueue.tagging', timeout_ms: 300000, keep_completed_ms: null, retries: 2 },
    ]);
    const once = await d.enqueue({ library_id: 1, path: '/t', queue_type: 'processing' });
    await d.dequeue();
    assert.equal((await d.fail(once, 'x')).status, 'error', 'the first failure is the last');
    const thrice = await d.enqueue({ library_id: 1, path: '/t', queue_type: 'tagging' });
    for (const status of ['pending', 'pending', 'error']) {
      assert.equal((await d.dequeue({ queue_type: 'tagging' })).id, thrice);
      assert.equal((await d.fail(thrice, 'x')).status, status);
      await advance(3_600_000);
    }
    const slow = await d.enqueue({ library_id: 1, path: '/t', queue_type: 'calibration' });
    await d.dequeue({ queue_type: 'calibration' });
    await advance(599_999);
    assert.equal((await d.job(slow)).status, 'running');
    await advance(1);
    assert.equal((await d.job(slow)).error, 'Timeout after 600s');
    ok(await api.patch('/v1/queues/webqueue.calibration', { capacity: 1234 }));
    api.close();
    await stopServer(server);

    // After a restart the settings of the file apply; types that it does not name stay.
    write(['calibration timeout=30s']);
    server = await start(server.data);
    api = new Client(server);
    d = webqueue(api);
    const { policy } = await until('the new timeout', async () => {
      const queue = ok(await api.get('/v1/queues/webqueue.calibration'));
      return queue.policy.lease_ms === 30000 && queue;
    });
    assert.deepEqual([policy.keep_done_ms, policy.capacity, policy.lease_end], [30 * day, 1234, 'fail']);
    assert.equal((await d.job(await d.enqueue({ library_id: 1, path: '/default' }))).queue_type, 'calibration', 'without processing, the first one');
    refused(await api.post(at('enqueue'), { library_id: 1, path: '/x', queue_type: 'processing' }), 422, 'invalid_field', 'queue_type');
    assert.equal((await d.depth()).errors, 1, 'a type that is no longer configured is not counted');
    assert.equal(ok(await api.get('/v1/queues/webqueue.processing')).counts.dead, 1, '/v1 still has it');
    api.close();
    await stopServer(server);
  });

  test('NOM-13: invalid settings are refused at the start', async () => {
    const tries = [['', /HOLDFAST_WEBQUEUE_TYPES/], ['a b', /timeout=, keep= and/], ['ä', /letters, digits/], ['a,a', /a twice/], ['a timeout=1ms', /timeout='1ms'/], ['a timeout=1m timeout=2m', /timeout twice/], ['a retries=-1', /retries/]];
    for (const [types, says] of tries) {
      await assert.rejects(startServer({ backend: 'memory', env: { HOLDFAST_WEBQUEUE_TYPES: types } }), says, types);
    }
  });

  test('without the API its paths do not exist', async () => {
    const server = await startServer({ backend: 'memory', env: { HOLDFAST_APIS: '' } });
    const api = new Client(server);
    assert.equal((await api.get(at('queue-depth'))).status, 404);
    api.close();
    await stopServer(server);
  });

  test('a queue that somebody else made becomes the API\'s', async () => {
    const server = await startServer({ backend: 'memory' });
    const api = new Client(server);
    const d = webqueue(api);
    const job = ok(await api.post('/v1/queues/webqueue.processing/jobs', { payload: '/by/hand', unique: '/by/hand', group: '3' }), 201);
    assert.equal((await d.depth('?library_id=3')).pending, 1);
    await until('its policy', async () => ok(await api.get('/v1/queues/webqueue.processing')).policy.lease_end === 'fail');
    assert.equal((await d.job(job.seq)).path, '/by/hand');
    assert.equal(refused(await api.post(at('enqueue'), { library_id: 3, path: '/by/hand' }), 409, 'duplicate').job_id, job.seq);
    api.close();
    await stopServer(server);
  });

  test('NOM-1: the SELECTs of the document beside the running server, at most 1 s behind; writes are refused', only('files'), async () => {
    const server = await startServer();
    const api = new Client(server);
    const d = webqueue(api);
    const db = path.join(server.data, 'holdfast.db');
    const sql = (text) => execFileSync('sqlite3', [db, text], { encoding: 'utf8' }).trim();
    // The machine may be busy: all changes must become visible, and one of them in time.
    const lags = [];
    const soon = async (what, text, expected) => {
      const began = Date.now();
      await until(what, () => sql(text) === expected);
      lags.push(Date.now() - began);
    };
    await d.enqueue({ library_id: 1, path: '/music/a "quoted" ä.flac' });
    await d.enqueue({ library_id: 1, path: '/music/b.flac' });
    await d.enqueue({ library_id: 2, path: '/music/c.flac' });
    await d.enqueue({ library_id: 2, path: '/music/d.flac', queue_type: 'calibration' });
    ok(await api.post('/v1/queues/other/jobs', { payload: 1 }), 201);
    const first = await d.dequeue();
    const second = await d.dequeue();
    await d.complete(first.id, { tags: [1] });
    await d.fail(second.id, 'File not readable');
    const third = await d.dequeue();
    const depth = await d.depth('?queue_type=processing');
    assert.deepEqual(depth, { pending: 0, running: 1, completed: 1, errors: 1 });

    await soon('view queue state', `SELECT queue_type, status, COUNT(*) FROM queue GROUP BY queue_type, status;`, 'calibration|pending|1\nprocessing|completed|1\nprocessing|error|1\nprocessing|running|1');
    assert.equal(sql(`SELECT id, path, started_at, (strftime('%s', 'now') - started_at) as runtime_s FROM queue WHERE status = 'running' AND started_at < (strftime('%s', 'now') - 600) ORDER BY runtime_s DESC;`), '', 'nothing is stuck');
    assert.match(sql(`SELECT id, path, started_at, (strftime('%s', 'now') - started_at) as runtime_s FROM queue WHERE status = 'running' AND started_at <= (strftime('%s', 'now') - 0) ORDER BY runtime_s DESC;`), new RegExp(`^${third.id}\\|/music/c.flac\\|${third.started_at}\\|\\d+$`));
    assert.equal(sql(`SELECT id, path, error FROM queue WHERE id = ${second.id};`), `${second.id}|/music/b.flac|File not readable`);
    assert.equal(sql(`SELECT * FROM queue WHERE queue_type = 'calibration' AND status = 'pending' ORDER BY priority DESC, enqueued_at ASC LIMIT 1;`).split('|')[2], '/music/d.flac');
    assert.equal(sql(`SELECT COUNT(*) FROM queue WHERE status = 'running' AND started_at < (strftime('%s', 'now') - 300)`), '0');
    const row = JSON.parse(execFileSync('sqlite3', ['-json', db, `SELECT * FROM queue ORDER BY id`], { encoding: 'utf8' }));
    for (const job of row) assert.deepEqual(job, await d.job(job.id), 'the view is the JobDict');
    assert.equal(row.length, 4, 'jobs of other queues are none of it');

    for (const [text, command] of [
      [`UPDATE queue SET status = 'pending', error = NULL, started_at = NULL, completed_at = NULL WHERE id = ${second.id};`, 'holdfast requeue'],
      [`DELETE FROM queue WHERE status = 'completed' AND completed_at <= (strftime('%s', 'now') - 0);`, 'clear-completed'],
      [`INSERT INTO queue (library_id, path, queue_type, status, enqueued_at) VALUES (1, '/music/track.flac', 'processing', 'pending', 1733407200);`, 'POST /api/web/queue/enqueue'],
    ]) {
      const tried = spawnSync('sqlite3', [db, text], { encoding: 'utf8' });
      assert.notEqual(tried.status, 0, text);
      assert.match(tried.stderr, /queue can only be read; use: /);
      assert.ok(tried.stderr.includes(command), tried.stderr);
    }
    assert.equal((await d.job(second.id)).status, 'error');
    ok(await api.post(at('requeue'), { job_id: second.id }));
    await soon('the retry', `SELECT status, error, started_at, completed_at FROM queue WHERE id = ${second.id}`, 'pending|||');
    ok(await api.post(`/v1/jobs/${second.id}/cancel`, {}));
    await soon('the cancel', `SELECT count(*) FROM queue WHERE id = ${second.id}`, '0');
    while (Math.min(...lags) > 1000 && lags.length < 15) {
      const id = await d.enqueue({ library_id: 3, path: `/music/${lags.length}.flac` });
      await soon('the new one', `SELECT count(*) FROM queue WHERE id = ${id}`, '1');
    }
    assert.ok(Math.min(...lags) <= 1000, `behind by ${lags} ms`);
    api.close();
    await stopServer(server);
  });

  test('NOM-16: holdfast import --nomarr takes over a database with the document\'s schema', only('files'), async () => {
    const dir = temporaryDirectory();
    const file = path.join(dir, 'nomarr.db');
    const schema = `
      CREATE TABLE IF NOT EXISTS libraries (id INTEGER PRIMARY KEY, name TEXT);
      INSERT INTO libraries VALUES (1, 'one'), (2, 'two');
      CREATE TABLE IF NOT EXISTS queue (
          id INTEGER PRIMARY KEY AUTOINCREMENT,
          library_id INTEGER NOT NULL,
          path TEXT NOT NULL,
          queue_type TEXT NOT NULL DEFAULT 'processing',
          status TEXT NOT NULL DEFAULT 'pending',
          priority INTEGER NOT NULL DEFAULT 0,
          error TEXT,
          results_json TEXT,
          enqueued_at INTEGER NOT NULL,
          started_at INTEGER,
          completed_at INTEGER,
          FOREIGN KEY (library_id) REFERENCES libraries(id) ON DELETE CASCADE
      );
      CREATE UNIQUE INDEX IF NOT EXISTS idx_queue_path_type ON queue(path, queue_type, status) WHERE status IN ('pending', 'running');
      ALTER TABLE queue ADD COLUMN retry_count INTEGER DEFAULT 0;
      INSERT INTO queue (library_id, path, queue_type, status, priority, error, results_json, enqueued_at, started_at, completed_at) VALUES
        (1, '/m/later.flac', 'processing', 'pending', 0, NULL, NULL, 1733407300, NULL, NULL),
        (1, '/m/first "ä".flac', 'processing', 'pending', 0, NULL, NULL, 1733407200, NULL, NULL),
        (2, '/m/urgent.flac', 'processing', 'pending', 10, NULL, NULL, 1733407250, NULL, NULL),
        (2, '/m/running.flac', 'processing', 'running', 0, NULL, NULL, 1733407260, 1733407265, NULL),
        (2, '/m/broken.flac', 'processing', 'error', 0, 'File not found', NULL, 1733407270, 1733407275, 1733407280),
        (2, '/m/done.flac', 'processing', 'completed', 0, NULL, '{"tags":[]}', 1733407280, 1733407285, 1733407290),
        (1, '/m/calibrate.flac', 'calibration', 'pending', 0, NULL, NULL, 1733407290, NULL, NULL);`;
    execFileSync('sqlite3', [file, schema]);
    const before = readFileSync(file);
    const server = await startServer();
    const api = new Client(server);
    const d = webqueue(api);
    const take = (...args) => run(['import', '--server', server.url, ...args]);
    const first = await take('--nomarr', file);
    assert.equal(first.code, 0, first.stderr);
    assert.match(first.stdout, /^7 imported, 0 already present, 0 skipped .*, 0 rows refused; queues: 2 created/);
    const again = await take('--nomarr', file, '--json');
    assert.deepEqual(JSON.parse(again.stdout), { imported: 0, existing: 7, skipped: 0, refused: 0, queues_created: 0, queues_changed: 0, queues_kept: 2 });
    assert.ok(before.equals(readFileSync(file)), 'the database is only read');

    assert.deepEqual(await d.depth('?queue_type=processing'), { pending: 4, running: 0, completed: 1, errors: 1 });
    const [error] = (await d.list('?status=error')).jobs;
    assert.deepEqual([error.path, error.error, error.library_id, error.enqueued_at], ['/m/broken.flac', 'File not found', 2, 1733407270]);
    await until('the API has taken the queue over', async () => ok(await api.get('/v1/queues/webqueue.processing')).policy.lease_end === 'fail');
    const order = [];
    for (let job; (job = await d.dequeue()); ) order.push([job.path, job.enqueued_at]);
    assert.deepEqual(order, [['/m/urgent.flac', 1733407250], ['/m/first "ä".flac', 1733407200], ['/m/running.flac', 1733407260], ['/m/later.flac', 1733407300]], 'the order of the document');
    refused(await api.post(at('enqueue'), { library_id: 1, path: '/m/calibrate.flac', queue_type: 'calibration' }), 409, 'duplicate');
    const sql = (text) => execFileSync('sqlite3', [path.join(server.data, 'holdfast.db'), text], { encoding: 'utf8' }).trim();
    await until('the view has them', () => sql("SELECT library_id, path, enqueued_at FROM queue WHERE queue_type = 'calibration'") === '1|/m/calibrate.flac|1733407290');

    // Invalid rows are reported, the rest is imported: here the pair that the document's index accepts.
    execFileSync('sqlite3', [file, `INSERT INTO queue (library_id, path, status, enqueued_at) VALUES (1, '/m/pair.flac', 'running', 1), (1, '/m/pair.flac', 'pending', 2), (1, '/m/odd.flac', 'paused', 3), (1, '', 'pending', 4), (1, '/m/last.flac', 'pending', 5)`]);
    const third = await take('--nomarr', file);
    assert.equal(third.code, 1);
    assert.match(third.stdout, /^2 imported, 7 already present, 0 skipped .*, 3 rows refused/);
    for (const says of [/row 9: another job/, /row 10: its status is none of/, /row 11: it has no path/]) assert.match(third.stderr, says);

    for (const [name, content, says] of [['gone.db', null, /does not exist/], ['text.db', 'no database at all, but long enough to be read as one', /no table/], ['other.db', 'CREATE TABLE t (x)', /no table `queue`/]]) {
      const bad = path.join(dir, name);
      if (content?.startsWith('CREATE')) execFileSync('sqlite3', [bad, content]);
      else if (content) writeFileSync(bad, content);
      const answer = await take('--nomarr', bad);
      assert.equal(answer.code, 2, answer.stderr);
      assert.match(answer.stderr, says);
    }
    assert.equal((await take('--nomarr', file, 'export.ndjson')).code, 2);
    api.close();
    await stopServer(server);
  });

  test('everything survives a restart', async () => {
    const server = await startServer();
    server.ownsData = false;
    let api = new Client(server);
    let d = webqueue(api);
    const pending = await d.enqueue({ library_id: 1, path: '/p' });
    const running = await d.enqueue({ library_id: 1, path: '/r', priority: 1 });
    const job = await d.dequeue();
    assert.equal(job.id, running);
    api.close();
    await stopServer(server);
    const again = await startServer({ data: server.data });
    api = new Client(again);
    d = webqueue(api);
    assert.equal((await d.job(pending)).status, 'pending');
    assert.equal((await d.job(running)).status, 'running');
    assert.equal(ok(await api.post(at('complete'), { job_id: running, token: job.token })).status, 'completed');
    assert.equal(refused(await api.post(at('enqueue'), { library_id: 1, path: '/p' }), 409, 'duplicate').job_id, pending);
    api.close();
    await stopServer(again);
  });
});

onStores('webqueue', ['fault+sqlite'], {}, (use) => {
  test('with a store that delays and loses replies every path is completed, and none is live twice', async () => {
    const { api } = use;
    const paths = Array.from({ length: 60 }, (_, i) => `/fault/${i}`);
    for (const one of paths) {
      const answer = await api.post(at('enqueue'), { library_id: 1, path: one });
      assert.ok(answer.status === 201 || answer.json.code === 'duplicate', answer.text);
    }
    assert.equal(ok(await api.get(at('queue-depth'))).pending, 60);
    let completed = 0;
    await until('all are completed', async () => {
      const job = ok(await api.post(at('dequeue'), { wait_ms: 100 }));
      if (job) {
        const answer = await api.post(at('complete'), { job_id: job.id, token: job.token, results: job.path });
        assert.ok(answer.status === 200 || ['lease_lost', 'illegal_move'].includes(answer.json.code), answer.text);
      }
      completed = ok(await api.get(at('queue-depth'))).completed;
      return completed === 60;
    }, 60_000);
    const { jobs } = ok(await api.get(at('list?status=completed&limit=1000')));
    assert.deepEqual(jobs.map((job) => JSON.parse(job.results_json)).sort(), paths.sort());
  });
});

/** The shortest time in ms of several small writes that are synced in this directory. */
function syncMs(directory) {
  const file = openSync(path.join(directory, 'sync-test'), 'w');
  let least = Infinity;
  for (let i = 0; i < 50; i++) {
    const begun = performance.now();
    writeSync(file, Buffer.alloc(4096, i));
    fdatasyncSync(file);
    least = Math.min(least, performance.now() - begun);
  }
  closeSync(file);
  return least;
}

// The shortest of many times is that of the server, even if the machine is busy. The time that a request and a sync take
// on this machine at least is added to each limit, for slow machines. A server that scanned 10,000 jobs, or synced more
// than once, would always exceed the limits.
test('NOM-15 the document\'s figures are a floor: 10,000 jobs, durable', only('figures'), async (t) => {
  const server = await startServer();
  const api = new Client(server);
  t.after(() => stopServer(server));
  t.after(() => api.close());
  for (let i = 0; i < 10; i++) ok(await api.post(at('enqueue'), { library_id: 1, paths: Array.from({ length: 1000 }, (_, n) => `/music/${i}/${n}.flac`) }));
  assert.equal((await webqueue(api).depth()).pending, 10_000);
  const best = async (times, call) => {
    let least = Infinity;
    for (let i = 0; i < times; i++) {
      const begun = performance.now();
      const answer = await call(i);
      least = Math.min(least, performance.now() - begun);
      assert.ok(answer.status === 200 || answer.status === 201, answer.text);
    }
    return least;
  };
  const machine = (await best(100, () => api.get('/healthz'))) + syncMs(server.data);
  const figures = {
    enqueue: [2, await best(150, (i) => api.post(at('enqueue'), { library_id: 2, path: `/one/${i}` }))],
    batch: [50, await best(15, (i) => api.post(at('enqueue'), { library_id: 2, paths: Array.from({ length: 100 }, (_, n) => `/hundred/${i}/${n}`) }))],
    dequeue: [1, await best(300, () => api.post(at('dequeue'), {}))],
    counts: [20, await best(30, () => api.get(at('queue-depth')))],
  };
  t.diagnostic(Object.entries(figures).map(([name, [, ms]]) => `${name} ${ms.toFixed(2)} ms`).join(', ') + `, a request and a sync ${machine.toFixed(2)} ms`);
  for (const [name, [most, ms]] of Object.entries(figures)) assert.ok(ms <= most + machine, `${name}: ${ms} ms at best; the limit is ${most} ms and ${machine} ms for the machine`);
  const depth = await webqueue(api).depth();
  assert.deepEqual([depth.pending, depth.running], [10_000 + 150 + 1500 - 300, 300]);
});
