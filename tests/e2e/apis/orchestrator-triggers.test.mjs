// SPDX-License-Identifier: Apache-2.0
// The orchestrator's triggers and their jobs: every clause of ORC-15 … ORC-20 through its API, checked through /v1.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Client, openStream } from '../lib/client.mjs';
import { status } from '../lib/expect.mjs';
import { add, item, makeQueue, put } from '../lib/orchestrator.mjs';
import { refusalFault } from '../lib/problem.mjs';
import { Receiver } from '../lib/receiver.mjs';
import { killServer, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, freshQueue, onStores } from '../lib/suite.mjs';

const second = 1000;
const minute = 60 * second;
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const make = async (api, body) => status(await api.post('/api/triggers', body), 201);
const trigger = async (api, id) => status(await api.get(`/api/triggers/${id}`), 200);
const remove = async (api, id) => status(await api.delete(`/api/triggers/${id}`), 204);
const job = async (api, id) => status(await api.get(`/api/jobs/${id}`), 200);
const jobsOf = async (api, id, more = '') => status(await api.get(`/api/jobs?trigger_id=${id}&limit=1000${more}`), 200);
const native = async (api, id) => status(await api.get(`/v1/jobs/${id}`), 200);
const move = async (api, ms) => status(await api.post('/v1/test/clock', { advance_ms: ms }), 200);
const clock = async (api) => Date.parse(status(await api.get('/v1/test/clock'), 200).now);

onStores('triggers of the orchestrator', ['memory', 'sqlite'], { args: ['--test-clock'], env: { HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8' } }, (use) => {
  test('ORC-15 a trigger is created, read, listed, changed and deleted; the defaults are the document\'s', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const made = await make(api, { type: 'QUEUE', queue_id: queue.id });
    assert.equal(typeof made.id, 'number');
    assert.match(made.created_at, time);
    const at = await clock(api);
    assert.deepEqual(
      { ...made, id: 0, name: '', created_at: 0, updated_at: 0, next_fire_at: 0 },
      {
        id: 0, name: '', type: 'QUEUE', description: null, cron: null, timezone: null, queue_id: queue.id, target_queue: 'jobs', batch_size: 1,
        polling_interval: 30, eager: false, enabled: true, payload: null, last_fired_at: null, next_fire_at: 0, last_processed_item_id: null,
        last_job_id: null, fired: 0, consecutive_failures: 0, last_error: null, retry_at: null, created_at: 0, updated_at: 0,
      },
    );
    assert.ok(Date.parse(made.next_fire_at) > at && Date.parse(made.next_fire_at) <= at + 30 * second);
    const timed = await make(api, { name: freshQueue('daily'), type: 'time', cron: '30 2 * * *', timezone: 'Europe/Berlin', target_queue: 'reports', payload: { kind: 'daily' }, batch_size: null });
    assert.deepEqual(
      [timed.type, timed.cron, timed.timezone, timed.queue_id, timed.batch_size, timed.polling_interval, timed.target_queue, timed.payload],
      ['TIME', '30 2 * * *', 'Europe/Berlin', null, null, null, 'reports', { kind: 'daily' }],
    );
    assert.notEqual(timed.id, made.id);
    assert.deepEqual(await trigger(api, made.id), made);
    assert.deepEqual(await trigger(api, timed.id), timed);
    const all = status(await api.get('/api/triggers?limit=1000'), 200);
    for (const one of [made, timed]) assert.deepEqual(all.filter((other) => other.id === one.id), [one]);
    assert.equal(status(await api.get('/api/triggers?limit=1&offset=1'), 200)[0].id, all[1].id);
    // The second way in.
    const view = status(await api.get(`/v1/schedules/${made.name}`), 200);
    assert.deepEqual([view.owner, view.type, view.source_queue, view.queue, view.interval_ms, view.batch_size], ['orchestrator', 'queue', queue.name, 'jobs', 30000, 1]);
    assert.equal(status(await api.get(`/v1/schedules/${timed.name}`), 200).timezone, 'Europe/Berlin');

    const other = await makeQueue(api);
    const changed = status(await api.put(`/api/triggers/${made.id}`, { batch_size: 7, polling_interval: 5, enabled: false, queue_id: other.id, description: 'sevens' }), 200);
    assert.deepEqual(
      [changed.id, changed.batch_size, changed.polling_interval, changed.enabled, changed.queue_id, changed.description, changed.next_fire_at],
      [made.id, 7, 5, false, other.id, 'sevens', null],
    );
    assert.equal(status(await api.get(`/v1/schedules/${made.name}`), 200).paused, true);
    const on = status(await api.patch(`/api/triggers/${made.id}`, { enabled: true }), 200);
    assert.deepEqual([on.batch_size, on.enabled, on.queue_id, on.description], [7, true, other.id, 'sevens']);
    const hourly = status(await api.put(`/api/triggers/${timed.id}`, { cron: '0 * * * *' }), 200);
    assert.deepEqual([hourly.cron, hourly.timezone, hourly.target_queue], ['0 * * * *', 'Europe/Berlin', 'reports']);
    assert.equal((await trigger(api, timed.id)).next_fire_at, new Date(Math.floor((await clock(api)) / (60 * minute) + 1) * 60 * minute).toISOString());
    // Deleting a queue does not delete the trigger; a new queue with its name supplies the trigger again.
    status(await api.delete(`/api/queues/${other.id}`), 204);
    const orphan = await trigger(api, made.id);
    assert.deepEqual([orphan.queue_id, orphan.last_error, orphan.next_fire_at], [null, 'queue_deleted', null], 'it says why it takes nothing');
    const again = await makeQueue(api, { name: other.name });
    const fed = await trigger(api, made.id);
    assert.deepEqual([fed.queue_id, fed.last_error], [again.id, null]);
    assert.match(fed.next_fire_at, time);
    for (const one of [made, timed]) {
      await remove(api, one.id);
      assert.equal(refusalFault(await api.get(`/api/triggers/${one.id}`), 'no_schedule', 'id'), null);
      assert.equal(refusalFault(await api.delete(`/api/triggers/${one.id}`), 'no_schedule', 'id'), null);
      assert.equal((await api.get(`/v1/schedules/${one.name}`)).status, 404);
    }
  });

  test('ORC-15 ORC-16 ORC-19 a due QUEUE trigger: items in priority order, one job, job_id, last_processed_item_id', async () => {
    const { api } = use;
    const queue = await makeQueue(api, { max_retries: 1 });
    const work = freshQueue('work');
    const made = await make(api, { type: 'QUEUE', queue_id: queue.id, target_queue: work, batch_size: 3, polling_interval: 60, payload: { process: 'invoices' } });
    // No items: next_fire_at advances.
    const first = Date.parse(made.next_fire_at);
    await move(api, first - (await clock(api)));
    let now = await trigger(api, made.id);
    assert.deepEqual([now.fired, now.last_fired_at, now.last_processed_item_id], [0, null, null]);
    assert.equal(Date.parse(now.next_fire_at), first + minute);
    // Corrected: by priority, then age; the document sorts by a random id.
    const ids = [];
    for (const priority of [0, 5, -1, 5, 9]) ids.push((await add(api, queue, { priority })).id);
    await move(api, minute);
    now = await trigger(api, made.id);
    const order = [ids[4], ids[1], ids[3]];
    assert.equal(now.fired, 1, 'at most batch_size items per interval, one job');
    assert.equal(now.last_fired_at, new Date(await clock(api)).toISOString());
    assert.equal(now.last_processed_item_id, order[2], 'mended: really updated');
    const listed = await jobsOf(api, made.id);
    assert.equal(listed.length, 1);
    assert.equal(now.last_job_id, listed[0].id);
    const [one] = listed;
    assert.ok(Number.isInteger(one.id));
    assert.deepEqual(
      { ...one, id: 0, fire_time: 0, created_at: 0, updated_at: 0 },
      {
        id: 0, source: 'TRIGGER', trigger_id: made.id, fire_time: 0, target_queue: work, status: 'NEW', priority: 0, queue_item_ids: order, result: null,
        error_message: null, retries: 0, locked_at: null, created_at: 0, updated_at: 0,
      },
    );
    assert.deepEqual(await job(api, one.id), one);
    for (const id of order) {
      const taken = await item(api, id);
      assert.deepEqual([taken.status, taken.job_id, taken.locked_by_robot_id, taken.lease_until], ['IN_PROGRESS', one.id, null, undefined]);
      assert.match(taken.locked_at, time);
    }
    assert.deepEqual((await item(api, ids[0])).job_id, null);
    assert.equal((await api.get(`/api/queue-items/next?queue_id=${queue.id}`)).json.id, ids[0], 'what the trigger left is for robots');
    // The job is an ordinary one, which a worker claims; the items' tokens are in it.
    const claimed = await claimOne(api, work, { lease_ms: minute, worker: 'w1' });
    assert.equal(claimed.seq, one.id);
    assert.deepEqual(claimed.payload.payload, { process: 'invoices' });
    assert.deepEqual(claimed.payload.items.map((entry) => entry.id), order, 'the ids of /api/jobs');
    assert.deepEqual(claimed.attributes?.items ?? order, order);
    assert.equal((await job(api, one.id)).status, 'IN_PROGRESS');
    // After three lease times the job has been claimed again, and it still holds the items.
    await move(api, 3 * minute + second);
    assert.equal((await jobsOf(api, made.id)).filter((other) => other.queue_item_ids.some((id) => order.includes(id))).length, 1, 'no second job');
    for (const id of order) assert.equal((await item(api, id)).job_id, one.id);
    let held;
    do held = await claimOne(api, work, { lease_ms: 60 * minute });
    while (held.seq !== one.id);
    const tokens = held.payload.items.map((entry) => entry.token);
    assert.equal((await put(api, order[0], { status: 'DONE', token: '9-999' })).json.code, 'lease_lost');
    const done = status(await put(api, order[0], { status: 'DONE', result: { ok: true }, token: tokens[0] }), 200);
    assert.deepEqual([done.status, done.job_id], ['DONE', one.id]);
    // The worker may extend an item's lease, which has no end, and release one.
    status(await api.post(`/api/queue-items/${order[1]}/renew`, { token: tokens[1] }), 200);
    status(await put(api, order[1], { status: 'NEW', token: tokens[1] }), 200);
    assert.equal((await item(api, order[1])).status, 'NEW');
    status(await api.post(`/v1/jobs/${held.id}/ack`, { token: held.token, result: { count: 1 } }), 200);
    await move(api, 0);
    const ended = await job(api, one.id);
    assert.deepEqual([ended.status, ended.result], ['DONE', { count: 1 }]);
    // Items that it left open follow the policy of their queue: one retry.
    const left = await item(api, order[2]);
    assert.deepEqual([left.status, left.retries, left.job_id], ['NEW', 1, one.id]);
    assert.match(left.error_message, /left it open/);
    assert.match(left.not_before, time);
    await remove(api, made.id);
    assert.equal((await job(api, one.id)).trigger_id, made.id, 'the job outlives its trigger');
    assert.ok((await jobsOf(api, made.id)).some((other) => other.id === one.id));
  });

  for (const [how, end, word] of [
    ['dies', (api, held) => api.post(`/v1/jobs/${held.id}/fail`, { token: held.token, error: 'broke', retry: false }), 'FAILED'],
    ['is cancelled', (api, held) => api.post(`/v1/jobs/${held.id}/cancel`, { force: true }), 'DELETED'],
  ]) {
    test(`ORC-19 a job that is retried keeps its items; one that ${how} lets them fail by their queue's policy`, async () => {
      const { api } = use;
      const queue = await makeQueue(api, { max_retries: 0 });
      const work = freshQueue('work');
      status(await api.put(`/v1/queues/${work}`, { backoff_ms: [10 * minute] }), 201);
      const made = await make(api, { type: 'QUEUE', queue_id: queue.id, target_queue: work, eager: true });
      const { id } = await add(api, queue);
      let held = await claimOne(api, work);
      status(await api.post(`/v1/jobs/${held.id}/fail`, { token: held.token, error: 'later' }), 200);
      const waiting = await job(api, held.seq);
      assert.deepEqual([waiting.status, waiting.retries, waiting.error_message], ['NEW', 1, 'later']);
      assert.match(waiting.not_before, time);
      await move(api, 5 * minute);
      assert.deepEqual([(await item(api, id)).status, (await item(api, id)).job_id], ['IN_PROGRESS', held.seq], 'leased to a job that is scheduled');
      await move(api, 5 * minute);
      held = await claimOne(api, work);
      status(await end(api, held), 200);
      await move(api, 0);
      assert.equal((await job(api, held.seq)).status, word);
      const failed = await item(api, id);
      assert.deepEqual([failed.status, failed.job_id, failed.retries], ['FAILED', held.seq, 0]);
      assert.equal((await native(api, id)).state, 'dead');
      assert.deepEqual((await jobsOf(api, made.id, `&status=${word.toLowerCase()}`)).map((one) => one.id), [held.seq]);
      assert.deepEqual(await jobsOf(api, made.id, '&status=DONE'), []);
      await remove(api, made.id);
    });
  }

  test('ORC-15 a TIME trigger fires at the times of its cron; eager, at once; disabled, never', async () => {
    const { api } = use;
    const work = freshQueue('work');
    const made = await make(api, { type: 'TIME', cron: '*/10 * * * *', target_queue: work, payload: { n: 1 } });
    await move(api, Date.parse(made.next_fire_at) - (await clock(api)) + 20 * minute);
    const jobs = await jobsOf(api, made.id);
    assert.deepEqual(jobs.map((one) => one.fire_time), [20, 10, 0].map((n) => new Date(Date.parse(made.next_fire_at) + n * minute).toISOString()), 'newest first');
    assert.deepEqual(jobs.map((one) => [one.source, one.queue_item_ids]), [['TRIGGER', []], ['TRIGGER', []], ['TRIGGER', []]]);
    assert.deepEqual((await claimOne(api, work)).payload, { n: 1 });
    assert.deepEqual((await jobsOf(api, made.id, '&offset=1')).map((one) => one.id), jobs.slice(1).map((one) => one.id));
    status(await api.put(`/api/triggers/${made.id}`, { enabled: false }), 200);
    await move(api, 60 * minute);
    assert.equal((await jobsOf(api, made.id)).length, 3);
    status(await api.put(`/api/triggers/${made.id}`, { enabled: true }), 200);
    await move(api, 10 * minute);
    assert.equal((await jobsOf(api, made.id)).length, 4, 'what was due meanwhile is not made up for');
    await remove(api, made.id);

    const queue = await makeQueue(api);
    const eager = await make(api, { type: 'QUEUE', queue_id: queue.id, target_queue: work, eager: true, batch_size: 10, polling_interval: 86400 });
    const { id } = await add(api, queue);
    await until('the eager trigger has fired', async () => (await trigger(api, eager.id)).fired === 1);
    assert.deepEqual((await jobsOf(api, eager.id))[0].queue_item_ids, [id]);
    await remove(api, eager.id);
  });

  test('ORC-18 ORC-20 a failing trigger backs off to a cap, counts, and reports once per series of failures, by event and webhook', async (t) => {
    const { api, server } = use;
    const queue = await makeQueue(api);
    const work = freshQueue('full');
    const receiver = await new Receiver().listen();
    t.after(() => receiver.close());
    status(await api.put(`/v1/queues/${work}`, { refuse_new: true }), 201);
    status(await api.put(`/v1/alerts/${work}`, { on: 'schedule_failed', queue: work, webhook: { url: receiver.url } }), 201);
    const stream = openStream(server, '/v1/events?events=schedule_failed,schedule_fired');
    t.after(() => stream.close());
    await stream.opened;
    const made = await make(api, { type: 'QUEUE', queue_id: queue.id, target_queue: work, polling_interval: 30 });
    const { id } = await add(api, queue);
    await move(api, 30 * second);
    const failed = await trigger(api, made.id);
    assert.deepEqual([failed.consecutive_failures, failed.last_error, failed.fired], [1, 'refused_new', 0]);
    assert.equal((await item(api, id)).status, 'NEW', 'nothing was taken');
    for (let wait = 1; wait <= 16; wait *= 2) {
      const before = await trigger(api, made.id);
      assert.equal(Date.parse(before.retry_at), (await clock(api)) + wait * second);
      await move(api, wait * second);
    }
    await move(api, 60 * minute);
    const capped = await trigger(api, made.id);
    assert.ok(Date.parse(capped.retry_at) - (await clock(api)) <= 5 * minute, 'capped');
    assert.ok(capped.consecutive_failures > 10 && capped.consecutive_failures < 25, `${capped.consecutive_failures}`);
    status(await api.patch(`/v1/queues/${work}`, { refuse_new: false }), 200);
    await move(api, 5 * minute);
    const well = await trigger(api, made.id);
    assert.deepEqual([well.consecutive_failures, well.last_error, well.retry_at, well.fired], [0, null, null, 1]);
    const told = [];
    while (told.at(-1)?.event !== 'schedule_fired' || told.at(-1)?.schedule !== made.name) told.push(JSON.parse((await stream.next()).data));
    assert.equal(told.filter((event) => event.schedule === made.name && event.event === 'schedule_failed').length, 1);
    const [call] = await receiver.wait(1);
    assert.match(call.raw, new RegExp(made.name));
    assert.equal(receiver.requests.length, 1, 'once per streak');
    status(await api.delete(`/v1/alerts/${work}`), 200);
    await remove(api, made.id);
  });

  test('HF-16 the API shows and changes only its own triggers and their jobs', async () => {
    const { api } = use;
    const name = freshQueue('native');
    const work = freshQueue('work');
    status(await api.put(`/v1/schedules/${name}`, { every_ms: minute, queue: work }), 201);
    await move(api, minute);
    const mine = await make(api, { type: 'TIME', cron: '0 0 1 1 *' });
    for (let id = 1; id <= mine.id; id++) {
      const answer = await api.get(`/api/triggers/${id}`);
      if (answer.status === 200) assert.notEqual(answer.json.name, name);
      if (answer.status === 200) continue;
      for (const refused of [await api.put(`/api/triggers/${id}`, { enabled: false }), await api.delete(`/api/triggers/${id}`)]) assert.equal(refusalFault(refused, 'no_schedule', 'id'), null);
    }
    assert.ok(!status(await api.get('/api/triggers?limit=1000'), 200).some((one) => one.name === name));
    assert.equal(status(await api.get(`/v1/schedules/${name}`), 200).paused, false);
    assert.equal((await api.post('/api/triggers', { name, type: 'TIME', cron: '* * * * *' })).json.code, 'exists');
    const made = await claimOne(api, work);
    assert.equal(refusalFault(await api.get(`/api/jobs/${made.seq}`), 'not_found'), null);
    assert.ok(!status(await api.get('/api/jobs?limit=1000'), 200).some((one) => one.id === made.seq));
    // A queue of /v1 is no queue_id here.
    assert.equal(status(await api.get(`/v1/queues/${work}`), 200).owner, undefined);
    for (let id = 1; id < 100; id++) {
      if ((await api.get(`/api/queues/${id}`)).status !== 404) continue;
      assert.equal(refusalFault(await api.post('/api/triggers', { type: 'QUEUE', queue_id: id }), 'no_queue', 'queue_id'), null);
    }
    await remove(api, mine.id);
    status(await api.delete(`/v1/schedules/${name}`), 200);
  });

  test('ORC-15 bad input is refused by name, and nothing changes', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const made = await make(api, { type: 'QUEUE', queue_id: queue.id });
    const timed = await make(api, { type: 'TIME', cron: '0 0 1 1 *' });
    const [one, two] = [`/api/triggers/${made.id}`, `/api/triggers/${timed.id}`];
    const whole = async () => [(await api.get('/api/triggers?limit=1000')).text, (await api.get('/v1/schedules?limit=1000')).text, (await api.get('/api/jobs?limit=1000')).text];
    const before = await whole();
    const cases = [
      ['POST', '/api/triggers', {}, 'missing_field', 'type'],
      ['POST', '/api/triggers', [], 'invalid_field'],
      ['POST', '/api/triggers', { type: 'CRON' }, 'invalid_field', 'type'],
      ['POST', '/api/triggers', { type: 7 }, 'invalid_field', 'type'],
      ['POST', '/api/triggers', { type: 'QUEUE' }, 'missing_field', 'queue_id'],
      ['POST', '/api/triggers', { type: 'QUEUE', queue_id: null }, 'missing_field', 'queue_id'],
      ['POST', '/api/triggers', { type: 'QUEUE', queue_id: 'x' }, 'invalid_field', 'queue_id'],
      ['POST', '/api/triggers', { type: 'QUEUE', queue_id: 4000000000 }, 'no_queue', 'queue_id'],
      ['POST', '/api/triggers', { type: 'QUEUE', queue_id: 5000000000 }, 'no_queue', 'queue_id'],
      ['POST', '/api/triggers', { type: 'QUEUE', queue_id: -1 }, 'no_queue', 'queue_id'],
      ['POST', '/api/triggers', { type: 'QUEUE', queue_id: queue.id, cron: '* * * * *' }, 'invalid_field', 'cron'],
      ['POST', '/api/triggers', { type: 'QUEUE', queue_id: queue.id, batch_size: 0 }, 'invalid_field', 'batch_size'],
      ['POST', '/api/triggers', { type: 'QUEUE', queue_id: queue.id, batch_size: 1001 }, 'invalid_field', 'batch_size'],
      ['POST', '/api/triggers', { type: 'QUEUE', queue_id: queue.id, polling_interval: 0 }, 'invalid_field', 'polling_interval'],
      ['POST', '/api/triggers', { type: 'QUEUE', queue_id: queue.id, polling_interval: 1e12 }, 'invalid_field', 'polling_interval'],
      ['POST', '/api/triggers', { type: 'QUEUE', queue_id: queue.id, target_queue: queue.name }, 'invalid_field', 'target_queue'],
      ['POST', '/api/triggers', { type: 'QUEUE', queue_id: queue.id, target_queue: '-x' }, 'invalid_field', 'target_queue'],
      ['POST', '/api/triggers', { type: 'QUEUE', queue_id: queue.id, batchsize: 1 }, 'unknown_field'],
      ['POST', '/api/triggers', { type: 'QUEUE', queue_id: queue.id, last_fired_at: 'x' }, 'unknown_field'],
      ['POST', '/api/triggers', { type: 'TIME' }, 'missing_field', 'cron'],
      ['POST', '/api/triggers', { type: 'TIME', cron: '61 * * * *' }, 'invalid_field', 'cron'],
      ['POST', '/api/triggers', { type: 'TIME', cron: '0 0 30 2 *' }, 'invalid_field', 'cron'],
      ['POST', '/api/triggers', { type: 'TIME', cron: '' }, 'invalid_field', 'cron'],
      ['POST', '/api/triggers', { type: 'TIME', cron: '* * * * *', timezone: 'Mars/Base' }, 'invalid_field', 'timezone'],
      ['POST', '/api/triggers', { type: 'TIME', cron: '* * * * *', queue_id: queue.id }, 'invalid_field', 'queue_id'],
      ['POST', '/api/triggers', { type: 'TIME', cron: '* * * * *', eager: true }, 'invalid_field', 'eager'],
      ['POST', '/api/triggers', { type: 'TIME', cron: '* * * * *', enabled: 'yes' }, 'invalid_field', 'enabled'],
      ['POST', '/api/triggers', { type: 'TIME', cron: '* * * * *', name: '-x' }, 'invalid_field', 'name'],
      ['POST', '/api/triggers?x=1', { type: 'TIME', cron: '* * * * *' }, 'unknown_field'],
      ['GET', '/api/triggers?limit=0', undefined, 'invalid_field', 'limit'],
      ['GET', '/api/triggers?type=TIME', undefined, 'unknown_field'],
      ['GET', '/api/triggers/abc', undefined, 'invalid_field', 'id'],
      ['GET', '/api/triggers/4000000000', undefined, 'no_schedule', 'id'],
      ['GET', '/api/triggers/5000000000', undefined, 'no_schedule', 'id'],
      ['PUT', one, { type: 'TIME' }, 'invalid_field', 'type'],
      ['PUT', one, { name: 'another' }, 'invalid_field', 'name'],
      ['PUT', one, { queue_id: 4000000000 }, 'no_queue', 'queue_id'],
      ['PUT', one, { cron: '* * * * *' }, 'invalid_field', 'cron'],
      ['PUT', one, { target_queue: queue.name }, 'invalid_field', 'target_queue'],
      ['PATCH', two, { cron: 'never' }, 'invalid_field', 'cron'],
      ['PATCH', two, { batch_size: 5 }, 'invalid_field', 'batch_size'],
      ['PUT', '/api/triggers/4000000000', {}, 'no_schedule', 'id'],
      ['PUT', '/api/triggers/x', {}, 'invalid_field', 'id'],
      ['DELETE', '/api/triggers/0', undefined, 'invalid_field', 'id'],
      ['DELETE', `${one}?force=1`, undefined, 'unknown_field'],
      ['GET', '/api/jobs?status=open', undefined, 'invalid_field', 'status'],
      ['GET', '/api/jobs?trigger_id=x', undefined, 'invalid_field', 'trigger_id'],
      ['GET', '/api/jobs?limit=5000', undefined, 'invalid_field', 'limit'],
      ['GET', '/api/jobs?queue=jobs', undefined, 'unknown_field'],
      ['GET', '/api/jobs/x', undefined, 'invalid_id', 'id'],
      ['GET', '/api/jobs/9007199254740000', undefined, 'not_found'],
    ];
    for (const [method, at, json, code, field] of cases) {
      const fault = refusalFault(await api.request(method, at, { json }), code, field);
      assert.equal(fault, null, `${method} ${at} ${JSON.stringify(json)}: ${fault}`);
    }
    const broken = await api.request('POST', '/api/triggers', { body: '{"type":', headers: { 'content-type': 'application/json' } });
    assert.equal(refusalFault(broken, 'malformed_json'), null);
    // A ring of two triggers, reported in the terms of the API.
    const far = await makeQueue(api);
    const there = await make(api, { type: 'QUEUE', queue_id: queue.id, target_queue: far.name });
    const ring = await api.post('/api/triggers', { type: 'QUEUE', queue_id: far.id, target_queue: queue.name });
    assert.equal(refusalFault(ring, 'invalid_field', 'target_queue'), null, ring.text);
    await remove(api, there.id);
    assert.deepEqual(await whole(), before);
    await remove(api, made.id);
    await remove(api, timed.id);
  });

  test('ORC-15 no simultaneous change is lost', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const made = await make(api, { type: 'QUEUE', queue_id: queue.id });
    const wishes = [{ batch_size: 9 }, { polling_interval: 77 }, { description: 'both' }, { enabled: false }, { target_queue: 'elsewhere' }, { payload: [1] }, { eager: true }];
    for (const answer of await Promise.all(wishes.map((wish) => api.put(`/api/triggers/${made.id}`, wish)))) status(answer, 200);
    const now = await trigger(api, made.id);
    for (const wish of wishes) for (const [key, value] of Object.entries(wish)) assert.deepEqual(now[key], value, key);
    assert.deepEqual((await Promise.all(Array.from({ length: 8 }, () => api.post('/api/triggers', { name: `${queue.name}-once`, type: 'TIME', cron: '0 0 1 1 *' })))).map((answer) => answer.status).sort(), [201, ...Array(7).fill(409)]);
    await remove(api, made.id);
  });
});

onStores('triggers of the orchestrator, in real time', ['memory', 'sqlite'], {}, (use) => {
  test('ORC-16 corrected: robots and triggers never share an item', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const work = freshQueue('work');
    const made = await make(api, { type: 'QUEUE', queue_id: queue.id, target_queue: work, eager: true, batch_size: 3 });
    const taken = [];
    const robot = async () => {
      for (let i = 0; i < 20; i++) {
        const answer = await api.get(`/api/queue-items/next?queue_id=${queue.id}&robot_id=4`);
        if (answer.status === 200) taken.push(answer.json.id);
      }
    };
    const ids = [];
    const producer = async () => {
      for (let i = 0; i < 10; i++) ids.push((await add(api, queue, { payload: i })).id);
    };
    await Promise.all([...Array.from({ length: 6 }, producer), ...Array.from({ length: 6 }, robot)]);
    const jobs = await until('every item is taken', async () => {
      const found = await jobsOf(api, made.id);
      return found.flatMap((one) => one.queue_item_ids).length + taken.length >= ids.length ? found : null;
    });
    const all = [...taken, ...jobs.flatMap((one) => one.queue_item_ids)];
    assert.deepEqual([...all].sort(), [...ids].sort(), 'each once');
    for (const one of jobs) {
      assert.ok(one.queue_item_ids.length <= 3);
      for (const id of one.queue_item_ids) assert.equal((await item(api, id)).job_id, one.id);
    }
    await remove(api, made.id);
  });
});

test('ORC-16 ORC-17 kill -9: a job, its items and the firing are stored together, each item in one job, each time once', async () => {
  const data = temporaryDirectory();
  let server = await startServer({ data });
  let api = new Client(server);
  const queue = await makeQueue(api);
  const made = await make(api, { type: 'QUEUE', queue_id: queue.id, target_queue: 'kill', eager: true, batch_size: 4 });
  const tick = await make(api, { type: 'TIME', cron: '* * * * * *', target_queue: 'ticks' });
  for (let round = 0; round < 2; round++) {
    const adding = Array.from({ length: 40 }, () => api.post('/api/queue-items', { queue_id: queue.id }).catch(() => null));
    await Promise.all(adding.slice(0, 5 + 10 * round));
    await killServer(server);
    await Promise.all(adding);
    api.close();
    server = await startServer({ data });
    api = new Client(server);
  }
  const fired = (await trigger(api, tick.id)).fired;
  await until('it fires on', async () => (await trigger(api, tick.id)).fired > fired);
  status(await api.put(`/api/triggers/${tick.id}`, { enabled: false }), 200);
  const items = () => api.get(`/api/queue-items?queue_id=${queue.id}&limit=1000`).then((answer) => status(answer, 200));
  await until('every item is taken', async () => (await items()).every((one) => one.status === 'IN_PROGRESS'));
  const jobs = await jobsOf(api, made.id);
  assert.equal((await trigger(api, made.id)).fired, jobs.length);
  const owner = new Map(jobs.flatMap((one) => one.queue_item_ids.map((id) => [id, one.id])));
  assert.equal(owner.size, jobs.flatMap((one) => one.queue_item_ids).length, 'an item is in two jobs');
  for (const one of await items()) assert.equal(one.job_id, owner.get(one.id));
  const times = (await jobsOf(api, tick.id)).map((one) => one.fire_time);
  assert.equal(new Set(times).size, times.length, 'a time was fired twice');
  assert.equal((await trigger(api, tick.id)).fired, times.length);
  api.close();
  await stopServer(server);
});
