// SPDX-License-Identifier: Apache-2.0
// Progress, log and steps of jobs survive every way out of a store: export from a server, export of the files of a server that was
// killed, import into each kind of store, and migrate (HF-10, HF-20, HF-21). Runs itself below scripts/with-postgres and
// scripts/with-redis.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Client } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { killServer, startServer, stopServer, temporaryDirectory } from '../lib/server.mjs';

for (const [name, script] of [['HF_POSTGRES', 'with-postgres'], ['HF_REDIS', 'with-redis']]) {
  if (process.env[name]) continue;
  const wrapper = fileURLToPath(new URL(`../../../scripts/${script}`, import.meta.url));
  const words = ['node', ...process.execArgv, fileURLToPath(import.meta.url)];
  process.exit(spawnSync(wrapper, words, { stdio: 'inherit' }).status ?? 1);
}

const stores = {
  sqlite: () => `sqlite:${path.join(temporaryDirectory(), 'store')}`,
  memory: () => 'memory:',
  postgres: () => `${process.env.HF_POSTGRES}&schema=reports_${process.pid}_${++serial}`,
  redis: () => `${process.env.HF_REDIS}?prefix=${encodeURIComponent(`{reports-${process.pid}-${++serial}}:`)}`,
};
let serial = 0;

async function ok(answer, status = 200) {
  const got = await answer;
  assert.equal(got.status, status, got.text);
  return got.json;
}

async function command(args, options) {
  const result = await run(args, options);
  assert.equal(result.code, 0, `${result.stdout.slice(0, 2000)}\n${result.stderr}`);
  return result.stdout;
}
const jobsOf = (text) => text.trimEnd().split('\n').map((line) => JSON.parse(line)).filter((line) => line.job).map((line) => line.job);

/** Options of a server on this store. */
const optionsOf = (url) => (url.startsWith('sqlite:') ? { data: url.slice('sqlite:'.length) } : url === 'memory:' ? { backend: 'memory' } : { backend: url });

/** A server for as long as fn runs. */
async function serving(backend, fn) {
  const server = await startServer(optionsOf(backend));
  const api = new Client(server);
  try {
    return await fn(api, server);
  } finally {
    api.close();
    await stopServer(server);
  }
}

/** What is shown of a job's reports, through two endpoints. */
async function reportsOf(api, id) {
  const { progress, steps } = await ok(api.get(`/v1/jobs/${id}`));
  const { lines } = await ok(api.get(`/v1/jobs/${id}/log`));
  return { progress, steps, log: lines };
}

const STEPS = { mail: null, get 'pay “now”'() { return DATA; } };
const DATA = { rows: [1, 2, { 'ü': '\u{1f4e6}' }], text: 'a\nb' };

/** A job about which a worker reports; it ends in the given way. */
async function reportedJob(api, queue, end, body = {}) {
  const { id } = await ok(api.post(`/v1/queues/${queue}/jobs`, { payload: { queue } }), 201);
  const { jobs: [job] } = await ok(api.post(`/v1/queues/${queue}/claim`, { worker: 'anna' }));
  assert.equal(job.id, id);
  await ok(api.post(`/v1/jobs/${id}/log`, { token: job.token, lines: ['first “line”', 'two\nlines'] }));
  await ok(api.post(`/v1/jobs/${id}/progress`, { token: job.token, percent: 10 }));
  await ok(api.post(`/v1/jobs/${id}/progress`, { token: job.token, percent: 42.5, message: 'half', data: DATA }));
  await ok(api.post(`/v1/jobs/${id}/log`, { token: job.token, lines: [''] }));
  for (const [name, result] of [['pay “now”', 1], ['mail', null], ['pay “now”', DATA]]) await ok(api.post(`/v1/jobs/${id}/steps/${encodeURIComponent(name)}`, { token: job.token, result }));
  if (end) await ok(api.post(`/v1/jobs/${id}/${end}`, { token: job.token, ...body }));
  return id;
}

/** Fills a store; id → reports of each job that has some, and one that has none. */
async function fill(api, suffix = '') {
  const ids = [
    await reportedJob(api, `released${suffix}`, 'release'),
    await reportedJob(api, `dead${suffix}`, 'fail', { error: 'no', retry: false }),
    await reportedJob(api, `done${suffix}`, 'ack', { result: 1 }),
    await reportedJob(api, `running${suffix}`),
  ];
  const { id: plain } = await ok(api.post(`/v1/queues/plain${suffix}/jobs`, { payload: 1 }), 201);
  const reports = new Map();
  for (const id of ids) reports.set(id, await reportsOf(api, id));
  for (const { progress, log, steps } of reports.values()) {
    assert.deepEqual(steps, { ...STEPS });
    assert.deepEqual({ ...progress, at: undefined }, { percent: 42.5, message: 'half', data: DATA, at: undefined });
    assert.deepEqual(log.map((line) => [line.attempt, line.text]), [[1, 'first “line”'], [1, 'two'], [1, 'lines'], [1, '']]);
  }
  return { reports, plain };
}

function expectExported(jobs, { reports, plain }) {
  const found = new Map(jobs.map((job) => [job.id, job]));
  for (const [id, { progress, log, steps }] of reports) {
    assert.deepEqual(found.get(id)?.progress, progress);
    assert.deepEqual(found.get(id).steps, steps);
    assert.deepEqual(found.get(id).log, log);
  }
  assert.equal(found.get(plain).progress, undefined);
  assert.equal(found.get(plain).log, undefined);
  assert.equal(found.get(plain).steps, undefined);
}

/** The jobs of the other store, by the id they had here; done jobs are not imported. */
async function expectImported(api, { reports, plain }, { states }) {
  const { jobs } = await ok(api.get('/v1/jobs?limit=1000'));
  const found = new Map(jobs.map((job) => [job.attributes?.imported_from ?? job.id, job]));
  for (const [id, expected] of reports) {
    if (!found.has(id) && !states.done) continue;
    assert.deepEqual(await reportsOf(api, found.get(id).id), expected);
  }
  assert.deepEqual(await reportsOf(api, found.get(plain).id), { progress: undefined, steps: undefined, log: [] });
}

/** The next attempt starts without progress and adds to the log. */
async function expectContinued(api) {
  const { jobs: [job] } = await ok(api.post('/v1/queues/released/claim', {}));
  const before = await reportsOf(api, job.id);
  assert.equal(before.progress, undefined);
  assert.deepEqual(job.steps, { ...STEPS });
  assert.equal(before.log.length, 4);
  await ok(api.post(`/v1/jobs/${job.id}/log`, { token: job.token, lines: ['again'] }));
  const { log } = await reportsOf(api, job.id);
  assert.deepEqual(log.slice(0, 4), before.log);
  assert.equal(log[4].text, 'again');
}

describe('progress and logs leave a store with their jobs', () => {
  for (const [kind, url] of Object.entries(stores)) {
    test(`${kind}: HF-21 a list with reports and an export show progress and log`, async () => {
      await serving(url(), async (api, server) => {
        const filled = await fill(api);
        const { jobs } = await ok(api.get('/v1/jobs?reports=true&limit=1000'));
        expectExported(jobs, filled);
        expectExported((await ok(api.get('/v1/jobs?reports=true&payload=false'))).jobs, filled);
        for (const job of (await ok(api.get('/v1/jobs'))).jobs) assert.equal(job.log, undefined);
        expectExported(jobsOf(await command(['export', '--all', '--server', server.url])), filled);
      });
    });
  }

  test('HF-21 a page with reports has at most 50 jobs, and the next pages have the others', async () => {
    await serving('memory:', async (api) => {
      await ok(api.post('/v1/queues/q/jobs', Array.from({ length: 120 }, (_, i) => ({ payload: i }))));
      const sizes = [];
      for (let cursor = ''; cursor !== null; ) {
        const page = await ok(api.get(`/v1/jobs?reports=true&limit=1000${cursor && `&cursor=${cursor}`}`));
        sizes.push(page.jobs.length);
        cursor = page.next_cursor;
      }
      assert.deepEqual(sizes, [50, 50, 20]);
      assert.equal((await api.get('/v1/jobs?reports=1')).status, 422);
    });
  });
});

describe('progress and logs come into a store with their jobs', () => {
  let text, filled;
  before(async () => {
    await serving('memory:', async (api, server) => {
      filled = await fill(api);
      text = await command(['export', '--all', '--server', server.url]);
    });
  });

  for (const [kind, url] of Object.entries(stores)) {
    test(`${kind}: HF-21 an import brings progress and log`, async () => {
      await serving(url(), async (api, server) => {
        await command(['import', '--server', server.url], { input: text });
        await expectImported(api, filled, { states: {} });
        await expectContinued(api);
      });
    });
  }

  test('HF-21 an import names what is wrong with progress and log', async () => {
    await serving('memory:', async (api) => {
      const at = '2026-01-01T00:00:00Z';
      const refused = async (member, reason) => {
        const { jobs: [outcome] } = await ok(api.post('/v1/import', [{ id: 'x', queue: 'q', ...member }]));
        assert.match(JSON.stringify(outcome), reason);
      };
      await refused({ progress: { percent: 101, at } }, /percent must be a number from 0 to 100/);
      await refused({ progress: { data: 'x'.repeat(5000), at } }, /data must have at most 4096 bytes/);
      await refused({ progress: { percent: 1 } }, /at is required|\bat\b/);
      await refused({ progress: 5 }, /progress/);
      await refused({ progress: { percent: 1, at, nonsense: 1 } }, /nonsense/);
      await refused({ log: [{ at, text: 'x'.repeat(20000) }] }, /text/);
      await refused({ log: [{ text: 'x' }] }, /\bat\b/);
      await refused({ log: 'x' }, /log/);
      await refused({ steps: [1] }, /steps must be an object/);
      await refused({ steps: { a: 'x'.repeat(70000) } }, /at most 65536 bytes/);
      await refused({ damaged: ['steps'] }, /its steps could not be read/);
      await ok(api.post('/v1/import', [{ id: 'y', queue: 'q', progress: null, log: [] }]));
    });
  });
});

describe('progress and logs of a store that no server uses', () => {
  test('HF-21 an export of the files of a killed server has progress and log, whether or not the database has them', async (t) => {
    const data = path.join(temporaryDirectory(), 'store');
    const server = await startServer({ data });
    t.after(() => killServer(server));
    const api = new Client(server);
    const first = await fill(api);
    await ok(api.get('/v1/jobs?limit=1000')); // a list needs the database, so the journal is applied
    const second = await fill(api, '-2');
    api.close();
    await killServer(server);
    const jobs = jobsOf(await command(['export', '--data', data, '--all']));
    expectExported(jobs, first);
    expectExported(jobs, second);
  });

  for (const kind of ['sqlite', 'postgres', 'redis']) {
    test(`${kind}: HF-21 migrate brings progress and log, there and back`, async () => {
      const [from, to, back] = [stores.sqlite(), stores[kind](), stores.sqlite()];
      const filled = await serving(from, (api) => fill(api));
      await command(['migrate', '--from', from, '--to', to]);
      await command(['migrate', '--from', to, '--to', back]);
      await serving(back, async (api) => {
        await expectImported(api, filled, { states: { done: true } });
        await expectContinued(api);
      });
    });
  }
});
