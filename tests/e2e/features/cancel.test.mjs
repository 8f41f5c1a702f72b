// SPDX-License-Identifier: Apache-2.0
// HF-21: a cancel of a running job gives its worker time to react. HF-9: timeout_ms limits an attempt.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Beanstalk, startBeanstalk } from '../lib/beanstalk.mjs';
import { Client, openStream } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { killServer, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue, onStores } from '../lib/suite.mjs';

const GRACE = 60_000;
const problem = (answer, status, code) => assert.deepEqual([answer.status, answer.json.code], [status, code], answer.text);
const view = async (api, id) => (await api.get(`/v1/jobs/${id}`)).json;
const after = (ms, time) => new Date(Date.parse(time) + ms).toISOString();

/** A running job of a queue with this policy. */
async function running(api, policy = {}, job = {}, claim = {}) {
  const queue = freshQueue();
  await api.put(`/v1/queues/${queue}`, { lease_ms: 30_000, cancel_grace_ms: GRACE, ...policy });
  await enqueue(api, queue, { payload: 1, ...job });
  return { queue, ...(await claimOne(api, queue, claim)) };
}
const say = (api, word, job, more = {}) => api.post(`/v1/jobs/${job.id}/${word}`, { token: job.token, ...more });
const cancel = (api, job, body) => api.post(`/v1/jobs/${job.id}/cancel`, body);

onStores('cancel', ['memory', 'sqlite'], {}, (use) => {
  test('HF-21 the cancel of a running job is a request, which views, extends and events show', async () => {
    const { api, server } = use;
    const job = await running(api);
    const stream = await openStream(server, `/v1/events?queue=${job.queue}&events=cancel_requested`).opened;
    const asked = await cancel(api, job);
    assert.equal(asked.status, 202, asked.text);
    assert.equal(asked.json.cancel_requested, true);
    assert.equal(asked.json.state, 'running');
    const told = await stream.next();
    assert.equal(told.event, 'cancel_requested');
    assert.equal(JSON.parse(told.data).job.id, job.id);
    stream.close();
    const shown = await view(api, job.id);
    assert.equal(shown.state, 'running');
    assert.equal(shown.cancel_deadline, asked.json.cancel_deadline);
    assert.equal(after(GRACE, shown.cancel_requested_at), shown.cancel_deadline);
    const extended = await say(api, 'extend', job, { lease_ms: 24 * 3600_000 });
    assert.equal(extended.json.cancel, true);
    assert.equal(extended.json.cancel_deadline, asked.json.cancel_deadline);
    assert.ok(Date.parse(extended.json.lease_until) < Date.parse(asked.json.cancel_deadline) + 3600_000, extended.text);
    const again = await cancel(api, job);
    assert.deepEqual([again.status, again.json.cancel_deadline], [202, asked.json.cancel_deadline]);
    problem(await api.post(`/v1/jobs/${job.id}/requeue`), 409, 'illegal_move');
    const released = await say(api, 'release', job);
    assert.deepEqual([released.status, released.json.state], [200, 'cancelled']);
    problem(await say(api, 'ack', job), 409, 'cancelled');
    assert.equal((await view(api, job.id)).history.at(-1).outcome, 'cancelled');
  });

  test('HF-21 an ack within the grace time makes the job done, and its repeat gets the first reply', async () => {
    const { api } = use;
    const job = await running(api);
    assert.equal((await cancel(api, job)).status, 202);
    assert.equal((await say(api, 'ack', job)).json.state, 'done');
    const repeat = await say(api, 'ack', job);
    assert.deepEqual([repeat.status, repeat.json.state, repeat.json.repeat], [200, 'done', true]);
    assert.equal((await view(api, job.id)).cancel_requested_at, undefined);
  });

  test('HF-21 a fail makes the job cancelled and keeps the error', async () => {
    const { api } = use;
    const job = await running(api);
    await cancel(api, job);
    assert.equal((await say(api, 'fail', job, { error: 'stopped half way' })).json.state, 'cancelled');
    assert.equal((await view(api, job.id)).error, 'stopped half way');
  });

  test('HF-21 the end of the grace time cancels the job, and the worker that comes too late gets 409', async () => {
    const { api } = use;
    const job = await running(api, { cancel_grace_ms: 50 });
    assert.equal((await cancel(api, job)).status, 202);
    await until('it is cancelled', async () => (await view(api, job.id)).state === 'cancelled');
    for (const word of ['ack', 'fail', 'extend', 'release']) problem(await say(api, word, job), 409, 'cancelled');
  });

  test('HF-21 force ends the lease at once; so does a queue without a grace time', async () => {
    const { api } = use;
    const job = await running(api);
    const forced = await cancel(api, job, { force: true });
    assert.deepEqual([forced.status, forced.json.state, forced.json.cancel_requested], [200, 'cancelled', undefined]);
    problem(await say(api, 'ack', job), 409, 'cancelled');
    const bare = await running(api, { cancel_grace_ms: 0 });
    assert.deepEqual([(await cancel(api, bare)).json.state, (await view(api, bare.id)).state], ['cancelled', 'cancelled']);
    problem(await cancel(api, job, { force: 'yes' }), 422, 'invalid_field');
  });

  test('HF-21 a bulk cancel requests, and with force cancels', async () => {
    const { api } = use;
    const job = await running(api);
    const all = (more) => api.post(`/v1/queues/${job.queue}/cancel`, { states: ['running'], ...more });
    assert.equal((await all()).json.changed, 1);
    assert.equal((await say(api, 'extend', job)).json.cancel, true);
    assert.equal((await all({ force: true })).json.changed, 1);
    problem(await say(api, 'ack', job), 409, 'cancelled');
    problem(await api.post(`/v1/queues/${job.queue}/requeue`, { force: true }), 422, 'unknown_field');
  });

  test('HF-21 a stream keeps the job until it is reported, or until the stream closes', async () => {
    const { api, server } = use;
    const queue = freshQueue();
    await api.put(`/v1/queues/${queue}`, { cancel_grace_ms: GRACE });
    await enqueue(api, queue, { payload: 1 });
    const stream = await openStream(server, `/v1/queues/${queue}/listen`, { method: 'POST', json: {} }).opened;
    const job = JSON.parse((await stream.next()).data);
    assert.equal((await cancel(api, job)).status, 202);
    assert.equal((await view(api, job.id)).state, 'running');
    stream.close();
    await until('the disconnect cancels it', async () => (await view(api, job.id)).state === 'cancelled');
  });

  test('HF-9 an attempt that runs longer than timeout_ms ends as timed_out, though its lease is extended', async () => {
    const { api } = use;
    const job = await running(api, { timeout_ms: 300, backoff_ms: [3600_000] });
    assert.equal(job.timeout_ms, 300);
    assert.ok(Date.parse(job.lease_until) <= Date.parse(job.timeout_at));
    await until('it has timed out', async () => (await say(api, 'extend', job)).status === 409);
    await until('it waits', async () => (await view(api, job.id)).state === 'scheduled');
    const shown = await view(api, job.id);
    assert.deepEqual([shown.reason, shown.failures, shown.crashes, shown.error], ['timed_out', 1, 0, 'timed out after 300 ms']);
    assert.deepEqual([shown.history[0].outcome, shown.history[0].error], ['timed_out', 'timed out after 300 ms']);
    problem(await say(api, 'ack', job), 409, 'lease_lost');
    const { json } = await api.get(`/v1/exceptions?queue=${job.queue}`);
    assert.equal(json.exceptions[0].error, 'timed out after 300 ms');
  });

  test('HF-9 a job can have its own timeout_ms; an expired lease is lease_expired', async () => {
    const { api } = use;
    const job = await running(api, { max_attempts: 1, lease_end: 'requeue_counted' }, { timeout_ms: 3600_000 }, { lease_ms: 100 });
    assert.equal(job.timeout_ms, 3600_000);
    assert.equal((await view(api, job.id)).timeout_ms, 3600_000);
    await until('its lease expires', async () => (await view(api, job.id)).state === 'dead');
    const shown = await view(api, job.id);
    assert.deepEqual([shown.reason, shown.history[0].outcome], ['crash_loop', 'lease_expired']);
  });

  test('HF-21 holdfast cancel says what happened', async () => {
    const { api, server } = use;
    const job = await running(api);
    const at = ['--server', `http://${server.host}:${server.port}`];
    const asked = await run(['cancel', job.id, ...at]);
    assert.equal(asked.code, 0, asked.stderr);
    assert.match(asked.stdout, new RegExp(`^${job.id}  running  cancel requested; the worker has until 20`));
    const forced = await run(['cancel', job.id, '--force', ...at]);
    assert.equal(forced.stdout, `${job.id}  cancelled\n`);
  });
});

describe('restarts', () => {
  for (const [how, stop] of [['a clean restart', stopServer], ['kill -9', killServer]]) {
    test(`HF-21 HF-9 ${how} keeps requests and limits`, async () => {
      const data = temporaryDirectory();
      let server = await startServer({ data });
      let api = new Client(server);
      const job = await running(api, { timeout_ms: 3600_000 });
      const { json: asked } = await cancel(api, job);
      const limited = await running(api, { timeout_ms: 3600_000 });
      const before = await view(api, limited.id);
      api.close();
      await stop(server);
      server = await startServer({ data });
      api = new Client(server);
      const shown = await view(api, job.id);
      assert.deepEqual([shown.state, shown.cancel_deadline], ['running', asked.cancel_deadline]);
      assert.equal((await say(api, 'extend', job)).json.cancel, true);
      assert.equal((await view(api, limited.id)).timeout_at, before.timeout_at);
      assert.equal((await say(api, 'release', job)).json.state, 'cancelled');
      assert.equal((await say(api, 'ack', limited)).json.state, 'done');
      api.close();
      await stopServer(server);
    });
  }
});

test('HF-21 HF-4 beanstalk: touch within the grace time finds nothing, delete counts as done', async () => {
  const server = await startBeanstalk();
  const api = new Client(server);
  const worker = await Beanstalk.connect(server.beanstalk);
  await worker.put('one');
  await worker.put('two');
  const id = /RESERVED (\d+)/.exec(await worker.line('reserve'))[1];
  const other = /RESERVED (\d+)/.exec(await worker.line('reserve'))[1];
  for (const job of [id, other]) assert.equal((await api.post(`/v1/jobs/${job}/cancel`)).status, 202);
  assert.equal(await worker.line(`touch ${id}`), 'NOT_FOUND');
  assert.equal(await worker.line(`delete ${id}`), 'DELETED');
  assert.equal(await worker.line(`release ${other} 0 0`), 'RELEASED');
  assert.equal(await worker.line('reserve-with-timeout 0'), 'TIMED_OUT', 'it is cancelled, not released');
  worker.close();
  api.close();
  await stopServer(server);
});
