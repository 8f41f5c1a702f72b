// SPDX-License-Identifier: Apache-2.0
// Acks that hand off (HF-28): `enqueues`, `sets` and `deletes` of POST /v1/jobs/{id}/ack and POST /v1/ack.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { claimOne, enqueue, freshQueue, onStores, stores, trace } from '../lib/suite.mjs';

let n = 0;
const freshKey = () => `handoff-${process.pid}-${++n}`;
const counts = async (api, queue) => {
  const answer = await api.get(`/v1/queues/${queue}`);
  return answer.status === 404 ? {} : answer.json.counts;
};
const value = async (api, key) => (await api.post('/v1/kv/get', { keys: [key] })).json.keys[0].value;

onStores('hand-off', stores, {}, (use) => {
  /** A claimed job of a new queue. */
  const work = async (job = { payload: 1 }) => {
    const queue = freshQueue();
    await enqueue(use.api, queue, job);
    return { ...(await claimOne(use.api, queue)), queue };
  };
  const ack = (job, more, options) => use.api.post(`/v1/jobs/${job.id}/ack`, { token: job.token, ...more }, options);

  test('HF-28 the ack, the next jobs and the keys are one commit', async () => {
    const { api } = use;
    const job = await work();
    const [ship, mail] = [freshQueue('ship'), freshQueue('mail')];
    const [key, lock] = [[freshKey(), 1], [freshKey()]];
    await api.post('/v1/kv/commit', { sets: [{ key: lock, value: true }] });
    const answer = await ack(job, {
      result: { receipt: 7 },
      enqueues: [{ queue: ship, payload: { order: 1 }, priority: 'high', idempotency_key: `${ship}-1` }, { queue: mail, payload: 2, delay_ms: 60000, idempotency_key: `${mail}-1` }],
      sets: [{ key, value: { state: 'charged' } }],
      deletes: [lock],
    }, { headers: trace });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.json.state, 'done');
    assert.equal(answer.json.id, job.id);
    const [first, second] = answer.json.jobs;
    if (!answer.repeated) {
      assert.equal(answer.json.deleted, 1);
      assert.ok(answer.json.version > 0);
      assert.deepEqual([first.state, first.created, second.state, second.created], ['ready', true, 'scheduled', true]);
      assert.ok(second.run_at);
    }
    assert.deepEqual((await api.get(`/v1/jobs/${job.id}`)).json.result, { receipt: 7 });
    assert.deepEqual(await value(api, key), { state: 'charged' });
    assert.equal(await value(api, lock), undefined);
    const next = await claimOne(api, ship);
    assert.deepEqual([next.id, next.payload, next.headers.traceparent], [first.id, { order: 1 }, trace.traceparent]);
  });

  test('HF-28 a refused enqueue refuses the ack, and is named; the job keeps its lease', async () => {
    const { api } = use;
    const job = await work();
    const queue = freshQueue('next');
    const holder = await enqueue(api, queue, { payload: 1, unique: 'u' });
    const key = [freshKey()];
    const next = { queue, payload: 2, unique: 'u', unique_mode: 'reject' };
    const refused = await ack(job, { enqueues: [{ queue, payload: 1 }, next], sets: [{ key, value: 1 }] });
    assert.equal(refused.status, 409, refused.text);
    assert.deepEqual([refused.json.code, refused.json.field, refused.json.duplicate_of], ['duplicate', 'enqueues', holder.id]);
    assert.match(refused.json.detail, /^enqueues\[1\]: /);
    assert.equal((await api.get(`/v1/jobs/${job.id}`)).json.state, 'running');
    assert.equal(await value(api, key), undefined);
    assert.equal((await counts(api, queue)).ready, 1);
    const answer = await ack(job, { enqueues: [{ ...next, unique_mode: 'return' }] });
    assert.equal(answer.status, 200, answer.text);
    if (!answer.repeated) assert.deepEqual([answer.json.jobs[0].created, answer.json.jobs[0].duplicate_of], [false, holder.id]);
    assert.equal((await counts(api, queue)).ready, 1);
  });

  test('HF-28 malformed hand-offs are refused with the member', async () => {
    const { api } = use;
    const job = await work();
    for (const [more, field] of [
      [{ enqueues: [{ payload: 1 }] }, 'queue'],
      [{ enqueues: {} }, 'enqueues'],
      [{ enqueues: [{ queue: 'q', priorty: 1 }] }, 'priorty'],
      [{ sets: [{ key: ['x'] }] }, 'value'],
      [{ deletes: 7 }, 'deletes'],
      [{ checks: [] }, 'checks'],
      [{ enqueues: Array.from({ length: 101 }, () => ({ queue: 'q' })) }, 'enqueues'],
    ]) {
      const answer = await ack(job, more);
      assert.ok([400, 422].includes(answer.status), answer.text);
      assert.equal(answer.json.field, field, answer.text);
      if (['queue', 'priorty', 'value'].includes(field)) assert.match(answer.json.detail, /^(enqueues|sets)\[0\]: /);
    }
    assert.equal((await api.get(`/v1/jobs/${job.id}`)).json.state, 'running');
    const empty = await ack(job, { enqueues: [], sets: [], deletes: [] });
    assert.equal(empty.json.state, 'done', empty.text);
  });

  test('HF-28 an older token hands nothing off', async () => {
    const { api } = use;
    const job = await work();
    const queue = freshQueue('next');
    assert.equal((await api.post(`/v1/jobs/${job.id}/release`, { token: job.token })).status, 200);
    await claimOne(api, job.queue);
    const answer = await ack(job, { enqueues: [{ queue, payload: 1 }] });
    assert.deepEqual([answer.status, answer.json.code], [409, 'lease_lost']);
    assert.equal((await api.get(`/v1/queues/${queue}`)).status, 404);
  });

  test('HF-28 a repeated ack does nothing twice; jobs with an idempotency key are named again', async () => {
    const { api } = use;
    const job = await work();
    const queue = freshQueue('next');
    const more = { enqueues: [{ queue, payload: 1 }, { queue, payload: 2, idempotency_key: `${queue}-2` }] };
    const first = await ack(job, more);
    assert.equal(first.status, 200, first.text);
    const again = await ack(job, more);
    assert.deepEqual([again.status, again.json.repeat, again.json.state], [200, true, 'done']);
    assert.equal(again.json.jobs[0], null);
    assert.equal(again.json.jobs[1].id, first.json.jobs[1].id);
    assert.equal(again.json.jobs[1].created, false);
    assert.equal((await counts(api, queue)).ready, 2);
  });

  test('HF-28 POST /v1/ack: each job with its own hand-off and outcome', async () => {
    const { api } = use;
    const jobs = [await work(), await work(), await work()];
    const queue = freshQueue('next');
    await enqueue(api, queue, { payload: 0, unique: 'u' });
    const answer = await api.post('/v1/ack', {
      jobs: [
        { id: jobs[0].id, token: jobs[0].token, enqueues: [{ queue, payload: 1 }] },
        { id: jobs[1].id, token: jobs[1].token, enqueues: [{ queue, payload: 2, unique: 'u', unique_mode: 'reject' }] },
        { id: jobs[2].id, token: jobs[2].token },
      ],
    });
    assert.equal(answer.status, 200, answer.text);
    const [one, two, three] = answer.json.jobs;
    assert.deepEqual([one.state, one.jobs.length], ['done', 1]);
    assert.deepEqual([two.error.code, two.error.field], ['duplicate', 'enqueues']);
    assert.deepEqual([three.state, three.jobs], ['done', undefined]);
    assert.equal((await api.get(`/v1/jobs/${jobs[1].id}`)).json.state, 'running');
    assert.equal((await counts(api, queue)).ready, 2);
  });
});
