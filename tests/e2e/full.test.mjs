// SPDX-License-Identifier: Apache-2.0
// A full disk under a whole server: what is refused, what waits, what goes on, and how it stops (HF-1).
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Client } from './lib/client.mjs';
import { startServer, stopServer, temporaryDirectory, until } from './lib/server.mjs';
import { claimOne, enqueue } from './lib/suite.mjs';

describe('a full disk', { timeout: 60_000 }, () => {
  const work = temporaryDirectory();
  const full = path.join(work, 'full');
  const library = path.join(work, 'full_disk.so');
  const env = { LD_PRELOAD: library, HF_FULL_DISK: full, ASAN_OPTIONS: 'exitcode=99:verify_asan_link_order=0' };
  let server, api;
  before(async () => {
    execFileSync('gcc', ['-shared', '-fPIC', '-O1', '-o', library, new URL('lib/full_disk.c', import.meta.url).pathname, '-ldl']);
    server = await startServer({ env, data: path.join(work, 'data'), args: ['--timeouts-drain-ms', '500'] });
    api = new Client(server);
  });
  after(async () => {
    api.close();
    rmSync(full, { force: true });
    await stopServer(server);
  });

  /** Fills the disk: resolves with the enqueue that was the first to notice and has no answer yet. */
  const fill = async () => {
    writeFileSync(full, '');
    const seen = server.stderr.length;
    const caught = { settled: false };
    caught.answer = api.post('/v1/queues/q/jobs', { payload: 'caught' }).finally(() => (caught.settled = true));
    caught.answer.catch(() => {});
    await until('it is noticed', () => /disk_full/.test(server.stderr.slice(seen)));
    return caught;
  };

  test('new jobs are refused, ready ones are handed out, acks wait; with room all of it is answered', async () => {
    await enqueue(api, 'q', { payload: 'before' });
    const caught = await fill();
    const refused = await until('new jobs are refused', async () => {
      const answer = await api.post('/v1/queues/other/jobs', { payload: 1 });
      return answer.status === 507 && answer;
    });
    assert.equal(refused.json.code, 'disk_full');
    const ready = await api.get('/readyz');
    assert.deepEqual([ready.status, ready.json.status], [200, 'disk_full'], 'workers must still be sent here');
    const job = await claimOne(api, 'q');
    assert.equal(job.payload, 'before');
    let acked = false;
    const ack = api.post(`/v1/jobs/${job.id}/ack`, { token: job.token }).finally(() => (acked = true));
    await api.get('/healthz');
    assert.deepEqual([caught.settled, acked], [false, false], 'no success before it is on the disk');
    rmSync(full);
    assert.equal((await caught.answer).status, 201);
    assert.equal((await ack).json.state, 'done');
    await until('it is ready again', async () => (await api.get('/readyz')).status === 200);
  });

  test('SIGTERM ends it all the same, and what was confirmed is there', async () => {
    const { id } = await enqueue(api, 'q', { payload: 'confirmed' });
    const caught = await fill();
    server.process.kill('SIGTERM');
    await assert.rejects(caught.answer, 'a broken connection: unknown');
    assert.equal((await server.exited).code, 1);
    assert.match(server.stderr, /stopped_at_once why="the store does not answer/);
    rmSync(full);
    api.close();
    server = await startServer({ env, data: path.join(work, 'data') });
    api = new Client(server);
    assert.equal((await api.get(`/v1/jobs/${id}`)).json.payload, 'confirmed');
  });
});
