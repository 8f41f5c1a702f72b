// SPDX-License-Identifier: Apache-2.0
// A server whose disk is full to the last block (HF-1, promise 4): which requests are refused, continue or wait, and how
// the server stops and starts.
import assert from 'node:assert/strict';
import { existsSync, readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeEach, describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { LoopDisk, whyNoDisk } from '../lib/loop_disk.mjs';
import { run } from '../lib/program.mjs';
import { killServer, startServer, until } from '../lib/server.mjs';

const commitBytes = 4096; // the smallest size of a commit in the journal
const segmentBytes = 1 << 20; // as startServer sets it

describe('a full disk', { skip: whyNoDisk() }, () => {
  let disk, server, api;
  beforeEach(() => (disk = new LoopDisk()));
  afterEach(async () => {
    api?.close();
    if (server && !server.exit) await killServer(server);
    disk.remove();
    server = api = null;
  });

  const start = async (args = []) => {
    server = await startServer({ data: disk.data, args });
    api = new Client(server);
  };
  const stop = async () => {
    api.close();
    server.process.kill('SIGTERM');
    return (await until('it ends', () => server.exit)).code;
  };
  /** A scrape that arrives right before replies begin to wait also waits: the next one does not. */
  const metric = async (name) => {
    for (;;) {
      const page = await api.get('/metrics', { signal: AbortSignal.timeout(2000) }).catch(() => null);
      if (page) return Number(page.text.match(new RegExp(`^${name} (\\S+)$`, 'm'))[1]);
    }
  };
  const reserve = () => path.join(disk.data, 'reserve');
  /** Spare segments and reserve exist, and all records are in the store: the disk may fill up. */
  const prepared = () =>
    until('the reserves exist', async () => existsSync(reserve()) && (await metric('holdfast_journal_segments_free')) >= 2 && (await metric('holdfast_journal_lag_records')) === 0);

  const enqueueMany = async (queue, count) => {
    const ids = [];
    while (ids.length < count) {
      const jobs = Array.from({ length: Math.min(200, count - ids.length) }, (_, i) => ({ payload: `${queue} ${ids.length + i} ${'x'.repeat(500)}` }));
      const answer = await api.post(`/v1/queues/${queue}/jobs`, jobs);
      ids.push(...answer.json.jobs.map((job) => job.id));
    }
    return ids;
  };
  const claimMany = async (queue, count) => {
    const jobs = [];
    while (jobs.length < count) {
      const answer = await api.post(`/v1/queues/${queue}/claim`, { count: count - jobs.length, lease_ms: 600_000 });
      assert.equal(answer.status, 200, answer.text);
      assert.ok(answer.json.jobs.length, `nothing left in ${queue}`);
      jobs.push(...answer.json.jobs);
    }
    return jobs;
  };
  /** One at a time, so that each has its own commit. */
  const each = async (jobs, verb, more = {}) => {
    for (const { id, token } of jobs) {
      const answer = await api.post(`/v1/jobs/${id}/${verb}`, { token, ...more });
      assert.equal(answer.status, 200, `${verb}: ${answer.text}`);
    }
  };
  /** Fills the disk and enqueues until the server notices it: the ids of the jobs that were still confirmed. */
  const fillUntilNoticed = async (queue) => {
    disk.fill();
    const confirmed = [];
    for (;;) {
      const answer = await api.post(`/v1/queues/${queue}/jobs`, { payload: 'y'.repeat(20_000) });
      if (answer.status === 507) {
        assert.equal(answer.json.code, 'disk_full');
        return confirmed;
      }
      assert.equal(answer.status, 201, answer.text);
      confirmed.push(answer.json.id);
    }
  };
  const refused = async () => (await api.post('/v1/queues/late/jobs', { payload: 1 })).status === 507;
  const states = async (ids) => {
    const seen = {};
    for (const id of ids) {
      const { status, json } = await api.get(`/v1/jobs/${id}`);
      const state = status === 200 ? json.state : status;
      seen[state] = (seen[state] ?? 0) + 1;
    }
    return seen;
  };
  const checkStore = async () => {
    const { code, stdout, stderr } = await run(['check', disk.data]);
    assert.equal(code, 0, stdout + stderr);
  };

  test('new jobs are refused and jobs can end, through kill -9, start and SIGTERM; with free space everything works', async () => {
    await start();
    const ids = await enqueueMany('q', 1600);
    const cancelled = (await enqueueMany('c', 100)).map((id) => ({ id }));
    await prepared();
    const late = await fillUntilNoticed('more');
    const ready = await api.get('/readyz');
    assert.deepEqual([ready.status, ready.json.status], [200, 'disk_full'], 'workers must still be sent here');
    assert.equal(await metric('holdfast_disk_full'), 1);

    // More than the journal has room for: its segments must be swept and used again on the full disk.
    const journalRoom = ((await metric('holdfast_journal_segments_free')) + 1) * segmentBytes;
    const before = await metric('holdfast_commits_total');
    const jobs = await claimMany('q', 1000);
    await each(jobs.slice(0, 500), 'ack');
    await each(jobs.slice(500, 700), 'fail', { error: 'no', delay_ms: 0 });
    await each(jobs.slice(700, 900), 'extend', { lease_ms: 600_000 });
    await each(jobs.slice(900, 1000), 'release');
    await each(cancelled, 'cancel');
    const written = ((await metric('holdfast_commits_total')) - before) * commitBytes;
    assert.ok(written > journalRoom, `only ${written} bytes were written, and there was room for ${journalRoom}`);
    assert.ok(await refused(), 'the room of the reserve is not for new jobs');
    disk.fill(); // the space of the reserve
    await each(jobs.slice(700, 750), 'ack');

    await killServer(server);
    api.close();
    disk.fill();
    await start(['--timeouts-drain-ms', '10m']); // which the server must not use up
    assert.ok(await refused(), 'before the first sweep, too');
    assert.equal(await metric('holdfast_disk_full'), 1);
    await each(jobs.slice(750, 800), 'ack');
    await each(await claimMany('q', 100), 'ack');
    assert.equal(await stop(), 0, server.stderr);

    disk.fill();
    await start();
    await each(jobs.slice(800, 900), 'ack');
    assert.ok(await refused());
    disk.empty();
    await until('new jobs are taken again', async () => !(await refused()));
    await until('the reserve is back', () => existsSync(reserve()) && statSync(reserve()).blocks * 512 >= 8 << 20);
    assert.equal((await api.get('/readyz')).json.status, 'ready');

    assert.deepEqual(await states(ids), { done: 800, ready: 800 });
    assert.deepEqual(await states(cancelled.map((job) => job.id)), { cancelled: 100 });
    const rest = [...(await claimMany('q', 800)), ...(await claimMany('more', late.length))];
    assert.equal(new Set(rest.map((job) => job.id)).size, 800 + late.length, 'each exactly once');
    assert.deepEqual((await api.post('/v1/queues/q/claim', {})).json.jobs, []);
    assert.deepEqual((await api.post('/v1/queues/more/claim', {})).json.jobs, []);
    await each(rest, 'ack');
    assert.deepEqual(await states(late), late.length ? { done: late.length } : {});
    assert.equal(await stop(), 0, server.stderr);
    await checkStore();
  });

  test('jobs fill the disk: new ones are refused early enough for all records to be applied, and acks never wait', async () => {
    await start();
    await prepared();
    const payload = 'p'.repeat(100_000);
    let confirmed = 0, refusals = 0;
    const produce = async () => {
      while (refusals === 0) {
        const { status } = await api.post('/v1/queues/q/jobs', { payload });
        assert.ok(status === 201 || status === 507, status);
        if (status === 201) confirmed++;
        else refusals++;
      }
    };
    for (let round = 0; round < 6; round++) {
      refusals = 0;
      await Promise.all(Array.from({ length: 16 }, produce));
      await until('all of it is swept', async () => (await metric('holdfast_journal_lag_records')) === 0);
    }
    const jobs = [];
    while (jobs.length < confirmed) jobs.push(...(await claimMany('q', Math.min(50, confirmed - jobs.length))));
    await each(jobs, 'ack');
    assert.deepEqual((await api.post('/v1/queues/q/claim', {})).json.jobs, []);
    assert.equal(await stop(), 0, server.stderr);
    await checkStore();
  });

  test('without a free segment replies wait; /healthz does not, SIGTERM ends the server, and confirmed jobs are kept', async () => {
    await start(['--timeouts-drain-ms', '500']);
    await enqueueMany('q', 200);
    const jobs = await claimMany('q', 200);
    await prepared();
    disk.fill();
    // Results are more than the reserve has room for: neither store nor journal can take them all.
    const acked = [];
    let unanswered;
    const stuck = until('it is stuck', async () => {
      disk.fill(); // the space of the reserve, too
      return (await metric('holdfast_journal_stuck_seconds')) > 1.5 && (await metric('holdfast_metrics_stores_left_out')) === 1;
    }, 60_000);
    for (const job of jobs) {
      disk.fill();
      const answer = api.post(`/v1/jobs/${job.id}/ack`, { token: job.token, result: 'r'.repeat(300_000) });
      answer.catch(() => {});
      if ((await Promise.race([answer, stuck])) === true) {
        unanswered = answer;
        break;
      }
      assert.equal((await answer).status, 200);
      acked.push(job.id);
    }
    assert.ok(unanswered && acked.length > 0);
    assert.equal((await api.get('/healthz')).status, 200);
    assert.equal((await api.get('/readyz')).json.status, 'disk_full');
    const [code] = await Promise.all([stop(), assert.rejects(unanswered, 'a broken connection: unknown')]);
    assert.equal(code, 1);
    await server.closed;
    assert.match(server.stderr, /shutdown_forced why="the store does not answer/);

    disk.empty();
    await start();
    assert.deepEqual(await states(acked), { done: acked.length });
    assert.equal((await api.get(`/v1/jobs/${acked.at(-1)}`)).json.result.length, 300_000);
    assert.equal(await stop(), 0, server.stderr);
    await checkStore();
  });

  test('a disk that is full before the first start: the server says so and leaves no partial store; with space it starts', async () => {
    for (const leave of [0, 300_000]) {
      disk.fill(leave);
      const { code, stderr } = await run(['serve', '--listen', '127.0.0.1:0', '--data', disk.data]);
      assert.equal(code, 1, stderr);
      assert.match(stderr, /^holdfast: .*(No space left on device|disk is full)/m);
      const files = existsSync(disk.data) ? readdirSync(disk.data, { recursive: true }) : [];
      assert.deepEqual(files.filter((name) => !/^(lock|journal(\/key)?|holdfast\.db(-wal|-shm)?)$/.test(name)), []);
      disk.empty();
    }
    await start();
    const ids = await enqueueMany('q', 10);
    assert.deepEqual(await states(ids), { ready: 10 });
    assert.equal(await stop(), 0, server.stderr);
    await checkStore();
  });
});
