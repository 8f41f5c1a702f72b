// SPDX-License-Identifier: Apache-2.0
// Durable steps (HF-10): POST /v1/jobs/{id}/steps/{name}, and the member `steps` of claims and jobs.
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';

import { testBackend } from '../lib/backend.mjs';
import { Client, openStream } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { killServer, startServer, stopServer, temporaryDirectory } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue, onStores, stores } from '../lib/suite.mjs';

const step = (api, job, name, result) => api.post(`/v1/jobs/${job.id}/steps/${encodeURIComponent(name)}`, { token: job.token, result });
const stored = async (api, job, name, result) => {
  const answer = await step(api, job, name, result);
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
};
const shown = async (api, job) => (await api.get(`/v1/jobs/${job.id}`)).json.steps;

onStores('steps', stores, {}, (use) => {
  /** A claimed job of a new queue. */
  const work = async () => {
    const queue = freshQueue();
    await enqueue(use.api, queue, { payload: 1 });
    return { ...(await claimOne(use.api, queue)), queue };
  };
  const release = (job) => use.api.post(`/v1/jobs/${job.id}/release`, { token: job.token });

  test('HF-10 the next claim has the results of steps', async () => {
    const { api } = use;
    const job = await work();
    assert.equal(job.steps, undefined);
    const reply = await stored(api, job, 'charge', { id: 7, note: '“ü”\n' });
    assert.deepEqual([reply.id, reply.seq, reply.state], [job.id, job.seq, 'running']);
    await stored(api, job, 'über/all "x"', null);
    const steps = { charge: { id: 7, note: '“ü”\n' }, 'über/all "x"': null };
    assert.deepEqual(await shown(api, job), steps);
    await api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: 'no', delay_ms: 0 });
    const again = await claimOne(api, job.queue);
    assert.equal(again.id, job.id);
    assert.deepEqual(again.steps, steps);
    await stored(api, again, 'charge', [8]);
    assert.deepEqual(await shown(api, job), { ...steps, charge: [8] });
    await api.post(`/v1/jobs/${job.id}/ack`, { token: again.token });
    assert.deepEqual(await shown(api, job), { ...steps, charge: [8] });
  });

  test('HF-10 a repeated step gets the same reply', async () => {
    const { api } = use;
    const job = await work();
    assert.deepEqual(await stored(api, job, 'a', 1), await stored(api, job, 'a', 1));
  });

  test('HF-10 a step needs the current token', async () => {
    const { api } = use;
    const job = await work();
    await stored(api, job, 'a', 1);
    await release(job);
    const late = await step(api, job, 'a', 2);
    assert.deepEqual([late.status, late.json.code], [409, 'lease_lost']);
    const again = await claimOne(api, job.queue);
    assert.equal((await step(api, job, 'b', 2)).json.code, 'lease_lost');
    assert.deepEqual(again.steps, { a: 1 });
    assert.deepEqual(await shown(api, job), { a: 1 });
  });

  test('HF-10 a stream of claims has the results of steps', async () => {
    const { api } = use;
    const job = await work();
    await stored(api, job, 'a', { n: 1 });
    await release(job);
    const stream = await openStream(use.server, `/v1/queues/${job.queue}/listen`, { method: 'POST', json: {} }).opened;
    assert.deepEqual(JSON.parse((await stream.next()).data).steps, { a: { n: 1 } });
    stream.close();
  });

  test('HF-10 a requeued job has its steps', async () => {
    const { api } = use;
    const job = await work();
    await stored(api, job, 'a', 1);
    await api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: 'no', retry: false });
    const answer = await api.post(`/v1/jobs/${job.id}/requeue`);
    assert.equal(answer.status, 200, answer.text);
    assert.deepEqual((await claimOne(api, job.queue)).steps, { a: 1 });
  });

  test('HF-10 limits of steps', async () => {
    const { api } = use;
    const job = await work();
    const wide = 'x'.repeat(65534); // 65,536 bytes of JSON
    assert.equal((await step(api, job, 'n'.repeat(65), 1)).json.code, 'invalid_field');
    assert.equal((await step(api, job, 'a\nb', 1)).json.code, 'invalid_field');
    for (const dots of ['.', '..']) assert.match((await step(api, job, dots, 1)).json.detail, /must not be \. or \.\./);
    assert.equal((await step(api, job, 'a', undefined)).json.code, 'missing_field');
    assert.equal((await api.post(`/v1/jobs/${job.id}/steps/a`, { result: 1 })).json.code, 'missing_field');
    const over = await step(api, job, 'a', `${wide}x`);
    assert.deepEqual([over.status, over.json.code], [413, 'steps_full']);
    assert.match(over.json.detail, /65536 bytes/);
    for (let n = 0; n < 15; n++) await stored(api, job, `part ${n}`, wide);
    const full = await step(api, job, 'last', wide);
    assert.deepEqual([full.status, full.json.code], [413, 'steps_full']);
    assert.match(full.json.detail, /1 MiB/);
    await release(job);
    const again = await claimOne(api, job.queue);
    assert.equal(Object.keys(again.steps).length, 15);
    assert.equal(again.steps['part 14'], wide);
  });

  test('HF-10 a claim ends at 16 MiB of steps', async () => {
    const { api } = use;
    const queue = freshQueue();
    const wide = 'x'.repeat(65000);
    await enqueue(api, queue, Array.from({ length: 18 }, () => ({ payload: 1 })));
    const { jobs } = (await api.post(`/v1/queues/${queue}/claim`, { count: 18 })).json;
    for (const job of jobs) {
      await Promise.all(Array.from({ length: 16 }, (_, n) => stored(api, job, `${n}`, wide)));
      await release(job);
    }
    const first = (await api.post(`/v1/queues/${queue}/claim`, { count: 18 })).json.jobs;
    assert.equal(first.length, 17); // the one that reaches the limit is the last
    assert.equal(Object.keys(first[16].steps).length, 16);
    assert.equal((await api.post(`/v1/queues/${queue}/claim`, { count: 18 })).json.jobs.length, 1);
  });
});

test('HF-10 steps survive a server that is killed between them', async () => {
  const data = path.join(temporaryDirectory(), 'store');
  const queue = 'q';
  const names = [];
  let id;
  for (let round = 0; round < 3; round++) {
    const server = await startServer({ data });
    const api = new Client(server);
    if (round === 0) await enqueue(api, queue, { payload: 1 });
    else await api.post(`/v1/jobs/${id}/release`, { token: (await api.get(`/v1/jobs/${id}`)).json.token });
    const job = await claimOne(api, queue);
    id = job.id;
    assert.deepEqual(Object.keys(job.steps ?? {}).sort(), names);
    for (let n = 0; n < 3; n++) {
      await stored(api, job, `r${round} ${n}`, { round, n });
      names.push(`r${round} ${n}`);
    }
    await api.post(`/v1/jobs/${id}/release`, { token: job.token });
    api.close();
    await killServer(server);
  }
  if (testBackend === 'embedded') {
    const checked = await run(['check', data]);
    assert.equal(checked.code, 0, checked.stdout + checked.stderr);
  }
  const server = await startServer({ data });
  const api = new Client(server);
  const job = await claimOne(api, queue);
  assert.deepEqual(Object.keys(job.steps).sort(), names);
  assert.deepEqual(job.steps['r2 1'], { round: 2, n: 1 });
  api.close();
  await stopServer(server);
});
