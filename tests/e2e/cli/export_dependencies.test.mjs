// SPDX-License-Identifier: Apache-2.0
// HF-10, C16: an export has what blocked jobs wait for, and an import connects the new jobs in the same way.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { only } from '../lib/backend.mjs';
import { Client } from '../lib/client.mjs';
import { runSql } from '../lib/pages.mjs';
import { run } from '../lib/program.mjs';
import { killServer, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue, onStores } from '../lib/suite.mjs';

const DONE = 0, REFUSED = 1;
const cli = (server, args, options = {}) => run(args, { ...options, env: { HOLDFAST_SERVER: server.url, ...options.env } });
const ended = (result, code) => assert.equal(result.code, code, `${result.stdout.slice(0, 2000)}\n${result.stderr}`);
const linesOf = (text) => text.trimEnd().split('\n').map((line) => JSON.parse(line));
const textOf = (lines) => `${lines.map((line) => JSON.stringify(line)).join('\n')}\n`;
const jobsOf = (text) => linesOf(text).filter((line) => line.job).map((line) => line.job);
/** The file of an export with these lines of jobs. */
const fileOf = (jobs) => textOf([{ holdfast: 'export', version: 1 }, ...jobs.map((job) => ({ job })), { end: { queues: 0, jobs: jobs.length } }]);

onStores('export and import of dependencies', ['memory', 'sqlite'], {}, (use) => {
  let from, a;
  before(async () => {
    from = await startServer();
    a = new Client(from);
  });
  after(async () => {
    a.close();
    await stopServer(from);
  });
  const exported = async (queues, args = []) => {
    const result = await cli(from, ['export', ...queues.flatMap((queue) => ['--queue', queue]), ...args]);
    ended(result, DONE);
    return result.stdout;
  };
  const imported = (text, args = []) => cli(use.server, ['import', ...args], { input: text });
  /** The new job of an old id. */
  async function imageOf(queue, old) {
    const { jobs } = (await use.api.get(`/v1/jobs?queue=${queue}&limit=1000`)).json;
    const found = jobs.filter((job) => job.attributes?.imported_from === old.id);
    assert.equal(found.length, 1, `${old.id} was imported ${found.length} times`);
    return found[0].id;
  }
  const view = async (id, api = use.api) => (await api.get(`/v1/jobs/${id}?dependencies=true`)).json;
  const reaches = (id, state) => until(`${id} is ${state}`, async () => (await view(id)).state === state);
  const finish = async (queue, api = use.api, how = 'ack') => {
    const job = await claimOne(api, queue);
    const answer = await api.post(`/v1/jobs/${job.id}/${how}`, how === 'ack' ? { token: job.token } : { token: job.token, error: 'no', retry: false });
    assert.equal(answer.status, 200, answer.text);
    return job;
  };
  const empty = async (queue) => assert.deepEqual((await use.api.post(`/v1/queues/${queue}/claim`, {})).json.jobs, []);

  test('a child waits for its parents in the new server, and starts once', async () => {
    const [p, c, g] = [freshQueue('p'), freshQueue('c'), freshQueue('g')];
    const [one, two, three] = [await enqueue(a, p, { payload: 1 }), await enqueue(a, p, { payload: 2 }), await enqueue(a, p, { payload: 3 })];
    const child = await enqueue(a, c, { payload: 'c', depends_on: [one.id, two.id, three.id], on_dependency_failure: 'run' });
    const grandchild = await enqueue(a, g, { payload: 'g', depends_on: [child.id] });
    assert.equal((await finish(p, a, 'fail')).id, one.id); // dead
    await until('it counts', async () => (await view(child.id, a)).dependencies.dead === 1);
    const text = await exported([p, c, g]);
    const line = jobsOf(text).find((job) => job.id === child.id);
    assert.deepEqual([line.state, line.on_dependency_failure], ['blocked', 'run']);
    assert.deepEqual([...line.waits_for].sort(), [two.id, three.id].sort());
    assert.deepEqual(line.dependencies, { total: 3, waiting: 2, done: 0, dead: 1, cancelled: 0, removed: 0 });

    const result = await imported(text);
    ended(result, DONE);
    assert.match(result.stdout, /^5 imported, 0 already present, 0 skipped .*, 0 lines refused/);
    const [newChild, newGrandchild] = [await imageOf(c, child), await imageOf(g, grandchild)];
    const there = await view(newChild);
    assert.deepEqual([there.state, there.on_dependency_failure, there.open], ['blocked', 'run', undefined]);
    assert.deepEqual(there.dependencies, line.dependencies);
    assert.deepEqual([...there.waits_for].sort(), [await imageOf(p, two), await imageOf(p, three)].sort());
    assert.deepEqual((await view(newGrandchild)).waits_for, [newChild]);

    await finish(p);
    await empty(c);
    await finish(p);
    assert.equal((await finish(c)).id, newChild);
    assert.equal((await finish(g)).id, newGrandchild);
    await empty(c);
    await empty(g);
    assert.deepEqual((await view(newChild)).dependencies, { total: 3, waiting: 0, done: 2, dead: 1, cancelled: 0, removed: 0 });

    // The same file again creates nothing, and changes nothing.
    const again = await imported(text);
    ended(again, DONE);
    assert.match(again.stdout, /^0 imported, 5 already present/);
    assert.equal((await view(newChild)).state, 'done');
    await empty(c);
  });

  test('a parent that fails in the new server counts by the rule of the child', async () => {
    const [p, c] = [freshQueue('p'), freshQueue('c')];
    const parent = await enqueue(a, p, { payload: 1, max_attempts: 1 });
    const [strict, dead] = [await enqueue(a, c, { payload: 1, depends_on: [parent.id] }), await enqueue(a, c, { payload: 2, depends_on: [parent.id], on_dependency_failure: 'dead' })];
    ended(await imported(await exported([p, c])), DONE);
    await finish(p, use.api, 'fail');
    await reaches(await imageOf(c, strict), 'cancelled');
    await reaches(await imageOf(c, dead), 'dead');
  });

  test('batches: the final job waits for its jobs; an open batch stays open', async () => {
    const [m, t] = [freshQueue('m'), freshQueue('t')];
    const jobs = [{ queue: m, payload: 1 }, { queue: m, payload: 2 }];
    const closed = (await a.post('/v1/batches', { jobs, then: { queue: t, payload: 'closed' }, on_failure: 'run' })).json;
    const open = (await a.post('/v1/batches', { jobs: [], then: { queue: t, payload: 'open' }, open: true })).json;
    assert.equal((await a.post(`/v1/batches/${open.batch}/jobs`, { jobs: [{ queue: m, payload: 3 }] })).status, 200);
    await finish(m, a);
    await until('it counts', async () => (await a.get(`/v1/batches/${closed.batch}`)).json.counts.done === 1);
    const text = await exported([m, t]);
    ended(await imported(text), DONE);
    const batch = async (old) => (await use.api.get(`/v1/batches/${await imageOf(t, { id: old.batch })}`)).json;
    assert.deepEqual([(await batch(closed)).open, (await batch(closed)).counts], [false, { total: 2, waiting: 1, done: 1, dead: 0, cancelled: 0, removed: 0 }]);
    assert.deepEqual([(await batch(open)).open, (await batch(open)).counts.waiting], [true, 1]);
    await finish(m);
    assert.equal((await finish(t)).payload, 'closed');
    const more = await batch(open);
    assert.equal((await use.api.post(`/v1/batches/${more.batch}/jobs`, { jobs: [{ queue: m, payload: 4 }] })).status, 200);
    await finish(m);
    ended(await imported(text), DONE); // which adds nothing
    assert.equal((await batch(open)).counts.total, 2);
    await finish(m);
    await empty(t);
    assert.equal((await use.api.post(`/v1/batches/${more.batch}/close`)).status, 200);
    assert.equal((await finish(t)).payload, 'open');
  });

  test('a final job that no longer waits keeps the counts of its batch', async () => {
    const [m, t] = [freshQueue('m'), freshQueue('t')];
    const old = (await a.post('/v1/batches', { jobs: [{ queue: m, payload: 1 }], then: { queue: t, payload: 1 } })).json;
    await finish(m, a);
    await until('it is ready', async () => (await view(old.batch, a)).state === 'ready');
    ended(await imported(await exported([m, t])), DONE);
    assert.deepEqual((await use.api.get(`/v1/batches/${await imageOf(t, { id: old.batch })}`)).json.counts, { total: 1, waiting: 0, done: 1, dead: 0, cancelled: 0, removed: 0 });
    await finish(t);
  });

  test('an import that was interrupted is continued: no child starts before', async () => {
    const [p, c] = [freshQueue('p'), freshQueue('c')];
    const parents = [await enqueue(a, p, { payload: 1 }), await enqueue(a, p, { payload: 2 })];
    const child = await enqueue(a, c, { payload: 'c', depends_on: parents.map((job) => job.id) });
    const text = await exported([p, c]);
    // The jobs arrive; the requests that connect them do not.
    const jobs = await use.api.request('POST', '/v1/import', { body: jobsOf(text).map((job) => JSON.stringify(job)).join('\n'), headers: { 'content-type': 'application/x-ndjson' } });
    assert.ok(jobs.json.jobs.every((job) => job.created), jobs.text);
    await finish(p);
    await finish(p);
    const image = await imageOf(c, child);
    assert.deepEqual([(await view(image)).state, (await view(image)).open], ['blocked', true]);
    await empty(c);
    const on = await imported(text);
    ended(on, DONE);
    assert.match(on.stdout, /^0 imported, 3 already present/);
    assert.equal((await finish(c)).id, image);
    await empty(c);
  });

  test('a job that is not in the file: the child stays blocked, is named, and can be connected later', async () => {
    const [p, c] = [freshQueue('p'), freshQueue('c')];
    const [one, two] = [await enqueue(a, p, { payload: 1 }), await enqueue(a, p, { payload: 2 })];
    const child = await enqueue(a, c, { payload: 'c', depends_on: [one.id, two.id] });
    const all = await exported([p, c]);
    const without = (id) => fileOf(jobsOf(all).filter((job) => job.id !== id));
    const first = await imported(without(two.id));
    ended(first, REFUSED);
    assert.match(first.stderr, new RegExp(`line 3: the job is imported, but stays blocked: it waits for ${two.id}, which is not imported.*--ignore-missing`));
    const image = await imageOf(c, child);
    assert.deepEqual([(await view(image)).open, (await view(image)).waits_for], [true, undefined]);
    await finish(p);
    await empty(c);
    ended(await imported(all), DONE);
    assert.deepEqual((await view(image)).dependencies.total, 2);
    await empty(c);
    await finish(p);
    assert.equal((await finish(c)).id, image);

    const alone = await enqueue(a, c, { payload: 'alone', depends_on: [one.id] });
    const only = fileOf(jobsOf(await exported([c])).filter((job) => job.id === alone.id));
    ended(await imported(only), REFUSED);
    await empty(c);
    ended(await imported(only, ['--ignore-missing']), DONE);
    assert.equal((await finish(c)).payload, 'alone');
  });

  test('a job that ended and was removed before the others were connected with it', async () => {
    const [p, c] = [freshQueue('p'), freshQueue('c')];
    assert.equal((await use.api.put(`/v1/queues/${p}`, { keep_done: 0 })).status, 201);
    const [one, two] = [await enqueue(a, p, { payload: 1 }), await enqueue(a, p, { payload: 2 })];
    const child = await enqueue(a, c, { payload: 'c', depends_on: [one.id, two.id] });
    const text = await exported([p, c]);
    await use.api.request('POST', '/v1/import', { body: jobsOf(text).map((job) => JSON.stringify(job)).join('\n'), headers: { 'content-type': 'application/x-ndjson' } });
    const removed = await finish(p);
    await until('it is removed', async () => (await use.api.get(`/v1/jobs/${removed.id}`)).status === 404);
    const refused = await imported(text);
    ended(refused, REFUSED);
    assert.match(refused.stderr, /line 6: the job is imported, but stays blocked: depends_on\[[01]\]: job \d+ does not exist, or no longer/);
    await empty(c);
    ended(await imported(text, ['--ignore-missing']), DONE);
    await empty(c); // it waits for the other one
    await finish(p);
    assert.equal((await finish(c)).id, await imageOf(c, child));
  });

  test('what cannot be connected is refused with its line and a reason, and never starts', async () => {
    const q = freshQueue('wrong');
    const dependencies = { total: 1, waiting: 1, done: 0, dead: 0, cancelled: 0, removed: 0 };
    const job = (id, waits_for, more = {}) => ({ id, queue: q, state: 'blocked', payload: id, on_dependency_failure: 'cancel', dependencies, waits_for, ...more });
    const result = await imported(fileOf([
      job(`${q}a`, [`${q}b`]), job(`${q}b`, [`${q}a`]), job(`${q}c`, [`${q}c`]),
      job(`${q}d`, undefined), job(`${q}e`, 'x'), job(`${q}f`, [], { dependencies: { total: 1, done: 2 } }), job(`${q}g`, [7]),
      job(`${q}h`, [], { dependencies: undefined }),
    ]));
    ended(result, REFUSED);
    assert.match(result.stderr, /line 2: the job is imported, but stays blocked: .*newer than the job that is to depend on it/);
    assert.match(result.stderr, /line 4: the job is imported, but stays blocked: .*cannot depend on itself/);
    for (const line of [5, 6]) assert.match(result.stderr, new RegExp(`line ${line}: the job is blocked, but .*waits_for`));
    assert.match(result.stderr, /line 7: .*total is less than/);
    assert.match(result.stderr, /line 8: .*waits_for/);
    assert.match(result.stderr, /line 9: .*does not say on what it depends/);
    assert.doesNotMatch(result.stderr, /line 3:/);
    await empty(q);
    assert.deepEqual((await use.api.get(`/v1/queues/${q}`)).json.counts.blocked, 3);
  });

  test('a list of jobs shows what they depend on, if it is asked for', async () => {
    const q = freshQueue();
    const parent = await enqueue(a, q, { payload: 1 });
    const child = await enqueue(a, q, { payload: 2, depends_on: [parent.id] });
    const { jobs } = (await a.get(`/v1/jobs?queue=${q}&dependencies=true`)).json;
    assert.equal(jobs.find((job) => job.id === parent.id).dependencies, undefined);
    const shown = jobs.find((job) => job.id === child.id);
    assert.deepEqual([shown.waits_for, shown.dependencies.waiting, shown.on_dependency_failure], [[parent.id], 1, 'cancel']);
    assert.equal((await a.get(`/v1/jobs?queue=${q}`)).json.jobs.find((job) => job.id === child.id).dependencies, undefined);
  });

  test('more children and parents than one batch, in any order of the file', async () => {
    const [p, c] = [freshQueue('p'), freshQueue('c')];
    const ids = [];
    for (let i = 0; i < 3; i++) for (const job of (await a.post(`/v1/queues/${p}/jobs`, Array.from({ length: 700 }, (_, n) => ({ payload: n })))).json.jobs) ids.push(job.id);
    const last = await enqueue(a, c, { payload: 'all', depends_on: ids });
    const each = (await a.post(`/v1/queues/${c}/jobs`, Array.from({ length: 300 }, (_, n) => ({ payload: n, depends_on: [ids[n * 7]] })))).json.jobs;
    assert.equal(each.length, 300);
    const text = await exported([p, c]);
    const jobs = jobsOf(text);
    ended(await imported(fileOf([...jobs].sort((x, y) => (x.id < y.id ? 1 : -1)))), DONE);
    assert.deepEqual((await use.api.get(`/v1/queues/${c}`)).json.counts.blocked, 301);
    assert.equal((await view(await imageOf(c, last))).dependencies.waiting, 2100);
  });
});

describe('export of dependencies from the store of a stopped server', only('files'), () => {
  /** What must be equal; stores list the jobs for which one waits in no order. */
  const dependent = ({ id, state, on_dependency_failure, dependencies, open, waits_for }) => ({ id, state, on_dependency_failure, dependencies, open, waits_for: waits_for && [...waits_for].sort() });
  const byId = (text) => jobsOf(text).map(dependent);

  test('after kill -9, from database and journal together, it is the same as that of the server', async () => {
    const data = temporaryDirectory();
    let server = await startServer({ data });
    let api = new Client(server);
    const [p, c, g] = [freshQueue('p'), freshQueue('c'), freshQueue('g')];
    const parents = [];
    for (let i = 0; i < 8; i++) parents.push((await enqueue(api, p, { payload: i, max_attempts: 1 })).id);
    const child = (ids, more) => enqueue(api, c, { payload: 'c', depends_on: ids, ...more });
    const child_1 = await child(parents);
    const runs = await child(parents, { on_dependency_failure: 'run' });
    const batch = (await api.post('/v1/batches', { jobs: [{ queue: p, payload: 8 }], then: { queue: g, payload: 'then' }, open: true })).json;
    await enqueue(api, g, { payload: 'g', depends_on: [child_1.id] });
    api.close();
    await stopServer(server); // all of this is in the database
    server = await startServer({ data });
    api = new Client(server);
    const claimed = await claimOne(api, p);
    await api.post(`/v1/jobs/${claimed.id}/ack`, { token: claimed.token });
    const failed = await claimOne(api, p);
    await api.post(`/v1/jobs/${failed.id}/fail`, { token: failed.token, error: 'no', retry: false });
    await api.delete(`/v1/jobs/${parents[5]}`);
    await api.post(`/v1/batches/${batch.batch}/jobs`, { jobs: [{ queue: p, payload: 9 }] });
    await child([parents[6], parents[7]], { on_dependency_failure: 'dead' });
    await api.post(`/v1/jobs/${failed.id}/requeue`, {});
    await until('the failure counts', async () => (await api.get(`/v1/jobs/${runs.id}`)).json.dependencies.removed === 1);
    const online = (await cli(server, ['export', '--all'])).stdout;
    await killServer(server);
    const shown = jobsOf(online).find((job) => job.id === runs.id);
    assert.deepEqual(shown.dependencies, { total: 8, waiting: 5, done: 1, dead: 1, cancelled: 0, removed: 1 });
    const offline = await run(['export', '--all', '--data', data]);
    ended(offline, DONE);
    assert.deepEqual(byId(offline.stdout), byId(online));
    // And when the journal has been applied.
    await stopServer(await startServer({ data }));
    const stopped = await run(['export', '--all', '--data', data]);
    ended(stopped, DONE);
    assert.deepEqual(byId(stopped.stdout), byId(online));
    const to = await startServer({ backend: 'memory' });
    const b = new Client(to);
    ended(await cli(to, ['import'], { input: stopped.stdout }), DONE);
    const { jobs } = (await b.get(`/v1/jobs?queue=${c}&dependencies=true`)).json;
    assert.deepEqual(jobs.find((job) => job.attributes.imported_from === runs.id).dependencies, shown.dependencies);
    b.close();
    api.close();
    await stopServer(to);
  });

  test('what cannot be read is reported, and an import refuses the blocked job', async () => {
    const server = await startServer({ data: temporaryDirectory() });
    const api = new Client(server);
    const q = freshQueue();
    const parent = await enqueue(api, q, { payload: 1 });
    const child = await enqueue(api, q, { payload: 2, depends_on: [parent.id] });
    api.close();
    await stopServer(server);
    runSql(path.join(server.data, 'holdfast.db'), `UPDATE dependents SET done = 9 WHERE seq = ${child.seq}`); // more than all
    const offline = await run(['export', '--data', server.data]);
    ended(offline, REFUSED);
    assert.match(offline.stderr, new RegExp(`job ${child.seq}: what it depends on cannot be read`));
    const to = await startServer({ backend: 'memory' });
    const refused = await cli(to, ['import'], { input: offline.stdout });
    ended(refused, REFUSED);
    assert.match(refused.stderr, /waits_for is not the list/);
    await stopServer(to);
  });
});
