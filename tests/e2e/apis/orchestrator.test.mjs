// SPDX-License-Identifier: Apache-2.0
// The orchestrator's queues: every clause of ORC-1 … ORC-14, ORC-21 and HF-16, checked through /v1.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { status } from '../lib/expect.mjs';
import { add, advance, item, makeQueue, next, put } from '../lib/orchestrator.mjs';
import { refusalFault } from '../lib/problem.mjs';
import { killServer, startServer, stopServer } from '../lib/server.mjs';
import { freshQueue, onStores, trace } from '../lib/suite.mjs';

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const time = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
const problem = (answer, wanted, code) => {
  status(answer, wanted);
  assert.equal(answer.json.code, code, answer.text);
  assert.equal(answer.json.status, wanted);
  assert.ok(answer.json.detail.length > 3 && answer.json.title.length > 3);
  return answer.json;
};
/** The view of the same item in /v1. */
const native = async (api, id) => status(await api.get(`/v1/jobs/${id}`), 200);

onStores('orchestrator', ['memory', 'sqlite'], {}, (use) => {
  test('HF-20: the trace context of a request is copied into the headers of the item', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const byId = status(await api.post('/api/queue-items', { queue_id: queue.id }, { headers: trace }), 201);
    const byName = status(await api.post('/api/queue-items/add', { queue_name: queue.name }, { headers: trace }), 201);
    for (const { id } of [byId, byName]) assert.deepEqual((await native(api, id)).headers, trace);
    assert.equal((await native(api, (await add(api, queue)).id)).headers, undefined);
  });

  test('ORC-1 a queue is created, listed, read, updated and deleted; a taken name is 409', async () => {
    const { api } = use;
    const name = freshQueue('orders');
    const made = status(await api.post('/api/queues', { name, description: 'Orders' }), 201);
    assert.equal(typeof made.id, 'number');
    assert.equal(made.name, name);
    assert.equal(made.description, 'Orders');
    assert.equal(made.max_retries, 0);
    assert.equal(made.enforce_unique_reference, false);
    assert.equal(made.is_active, true);
    assert.match(made.external_id, uuid);
    assert.match(made.created_at, time);
    assert.match(made.updated_at, time);
    assert.deepEqual(status(await api.get(`/api/queues/${made.id}`), 200), made);
    assert.deepEqual(status(await api.get('/api/queues?limit=1000'), 200).filter((one) => one.name === name), [made]);
    problem(await api.post('/api/queues', { name }), 409, 'exists');

    const other = await makeQueue(api);
    assert.notEqual(other.id, made.id);
    assert.notEqual(other.external_id, made.external_id);
    const changed = status(await api.put(`/api/queues/${made.id}`, { max_retries: 3, description: null }), 200);
    assert.equal(changed.max_retries, 3);
    assert.equal(changed.description, 'Orders', 'null is not given');
    assert.equal(changed.id, made.id);
    assert.equal(changed.external_id, made.external_id);
    assert.equal(changed.created_at, made.created_at);
    assert.ok(changed.updated_at >= made.updated_at);
    const patched = status(await api.patch(`/api/queues/${made.id}`, { description: 'Others', is_active: false }), 200);
    assert.equal(patched.max_retries, 3);
    assert.equal(patched.is_active, false);
    // The second way in.
    const view = status(await api.get(`/v1/queues/${name}`), 200);
    assert.equal(view.policy.max_attempts, 4);
    assert.equal(view.policy.refuse_new, true);
    assert.equal(view.description, 'Others');
    assert.equal(view.owner, 'orchestrator');

    assert.equal((await api.delete(`/api/queues/${made.id}`)).status, 204);
    problem(await api.get(`/api/queues/${made.id}`), 404, 'no_queue');
    problem(await api.delete(`/api/queues/${made.id}`), 404, 'no_queue');
    assert.equal((await api.get(`/v1/queues/${name}`)).status, 404);
    const again = status(await api.post('/api/queues', { name }), 201);
    assert.notEqual(again.id, made.id, 'an id is never used twice');
  });

  test('ORC-1 a queue is renamed: items, counts, triggers and /v1 use the new name; names stay unique', async () => {
    const { api } = use;
    const [first, second, third] = [freshQueue('first'), freshQueue('second'), freshQueue('third')];
    const queue = await makeQueue(api, { name: first, description: 'Invoices' });
    const other = await makeQueue(api);
    const trigger = status(await api.post('/api/triggers', { type: 'QUEUE', queue_id: queue.id, polling_interval: 3600, target_queue: freshQueue('target') }), 201);
    const waits = await add(api, queue, { reference: 'a' });
    const renamed = status(await api.put(`/api/queues/${queue.id}`, { name: second, max_retries: 2 }), 200);
    assert.deepEqual({ ...renamed, updated_at: 0 }, { ...queue, name: second, max_retries: 2, updated_at: 0 });
    assert.deepEqual(status(await api.get(`/api/queues/${queue.id}`), 200), renamed);
    assert.ok(status(await api.get('/api/queues?limit=1000'), 200).some((one) => one.id === queue.id && one.name === second));
    assert.ok(!status(await api.get('/api/queues?limit=1000'), 200).some((one) => one.name === first));
    // By its new name, and by no other.
    const added = status(await api.post('/api/queue-items/add', { queue_name: second, reference: 'b' }), 201);
    assert.equal(added.queue_id, queue.id);
    problem(await api.post('/api/queue-items/add', { queue_name: first }), 404, 'no_queue');
    problem(await api.get(`/api/queue-items/next?queue_name=${first}`), 404, 'no_queue');
    assert.equal(status(await api.get(`/api/queue-items/next?queue_name=${second}`), 200).id, waits.id);
    assert.equal(status(await api.get(`/api/queues/${queue.id}/stats`), 200).inProgress, 1);
    assert.equal(status(await api.get(`/api/triggers/${trigger.id}`), 200).queue_id, queue.id);
    assert.equal(status(await api.get(`/api/triggers/${trigger.id}`), 200).last_error, null);
    assert.equal((await native(api, added.id)).queue, first, 'the store has it under its first name');
    assert.equal(status(await api.get(`/v1/queues/${first}`), 200).attributes.name, second);
    // A name belongs to one queue: not to another one, not to one of /v1, and not to the internal name of a queue.
    status(await api.put(`/v1/queues/${third}`, {}), 201);
    for (const name of [second, first, third]) {
      problem(await api.patch(`/api/queues/${other.id}`, { name }), 409, 'exists');
      problem(await api.post('/api/queues', { name }), 409, 'exists');
    }
    assert.equal(status(await api.get(`/api/queues/${other.id}`), 200).name, other.name, 'nothing was changed');
    assert.equal((await api.get(`/v1/queues/${second}`)).status, 404, 'nothing was created');
    // Again, back, and free once it is deleted.
    const fourth = freshQueue('fourth');
    assert.equal(status(await api.patch(`/api/queues/${queue.id}`, { name: fourth }), 200).name, fourth);
    problem(await api.get(`/api/queue-items/next?queue_name=${second}`), 404, 'no_queue');
    assert.equal(status(await api.put(`/api/queues/${other.id}`, { name: second }), 200).name, second, 'a name that was given up is free');
    assert.equal(status(await api.put(`/api/queues/${queue.id}`, { name: first }), 200).name, first);
    assert.equal(status(await api.get(`/v1/queues/${first}`), 200).attributes.name, undefined);
    assert.equal(status(await api.get(`/api/queue-items/next?queue_name=${first}`), 200).id, added.id);
    status(await api.put(`/api/queues/${queue.id}`, { name: fourth }), 200);
    assert.equal((await api.delete(`/api/queues/${queue.id}`)).status, 204);
    assert.equal(status(await api.post('/api/queues', { name: fourth }), 201).name, fourth);
    assert.equal(status(await api.post('/api/queues', { name: first }), 201).name, first);
  });

  test('ORC-1 one of several simultaneous renames and creations gets the name', async () => {
    const { api } = use;
    const name = freshQueue('wanted');
    const queues = [];
    for (let i = 0; i < 6; i++) queues.push(await makeQueue(api));
    const answers = await Promise.all([...queues.map((one) => api.put(`/api/queues/${one.id}`, { name })), api.post('/api/queues', { name })]);
    assert.equal(answers.filter((one) => one.status < 300).length, 1, answers.map((one) => one.text).join(''));
    assert.equal(answers.filter((one) => one.status === 409).length, 6);
    assert.equal(status(await api.get('/api/queues?limit=1000'), 200).filter((one) => one.name === name).length, 1);
  });

  test('ORC-7 ORC-9 refusals use the terms and ids of the document', async () => {
    const { api } = use;
    const queue = await makeQueue(api, { enforce_unique_reference: true });
    const made = await add(api, queue, { reference: 'same' });
    const refusals = [
      problem(await api.post('/api/queue-items', { queue_id: queue.id, reference: 'same' }), 409, 'duplicate'),
      problem(await put(api, made.id, { status: 'DONE' }), 409, 'illegal_move'),
    ];
    assert.deepEqual([refusals[0].duplicate_of, refusals[0].state], [made.id, 'NEW']);
    assert.deepEqual([refusals[1].id, refusals[1].state, refusals[1].legal_moves], [made.id, 'NEW', ['IN_PROGRESS', 'DELETED']]);
    const held = status(await next(api, queue), 200);
    status(await put(api, made.id, { status: 'DONE', token: held.token }), 200);
    refusals.push(
      problem(await put(api, made.id, { status: 'FAILED', token: held.token }), 409, 'lease_lost'),
      problem(await put(api, made.id, { status: 'NEW' }), 409, 'illegal_move'),
      problem(await api.get('/api/queue-items/00000000-0000-4000-8000-000000000000'), 404, 'not_found'),
      problem(await api.get('/api/queue-items/1x'), 422, 'invalid_id'),
    );
    for (const refusal of refusals) assert.doesNotMatch(JSON.stringify(refusal), /\bjobs?\b|"seq"|"ready"|"running"|"dead"|01[0-9A-HJKMNP-TV-Z]{24}|ULID/, 'no word and no id of /v1');
    assert.equal((await native(api, made.id)).state, 'done');
  });

  test('ORC-13 a DONE item does not show the error of an earlier attempt', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const made = await add(api, queue);
    status(await put(api, made.id, { status: 'IN_PROGRESS' }), 200);
    assert.equal(status(await put(api, made.id, { status: 'FAILED', error_message: 'first try' }), 200).error_message, 'first try');
    assert.equal(status(await put(api, made.id, { status: 'NEW' }), 200).error_message, 'first try');
    status(await put(api, made.id, { status: 'IN_PROGRESS' }), 200);
    assert.equal(status(await put(api, made.id, { status: 'DONE' }), 200).error_message, null);
    assert.equal(status(await api.get(`/api/queue-items?queue_id=${queue.id}`), 200)[0].error_message, null);
    assert.ok((await native(api, made.id)).history.some((one) => one.error === 'first try'), 'it stays in the history');
    // An error that is sent with DONE, or for a DONE item, is shown.
    assert.equal(status(await put(api, made.id, { error_message: 'a remark' }), 200).error_message, 'a remark');
    const second = await add(api, queue);
    status(await put(api, second.id, { status: 'IN_PROGRESS' }), 200);
    assert.equal(status(await put(api, second.id, { status: 'DONE', error_message: 'with a warning' }), 200).error_message, 'with a warning');
  });

  test('ORC-1 queues are listed in pages', async () => {
    const { api } = use;
    const stem = freshQueue('pages');
    for (let i = 0; i < 5; i++) await makeQueue(api, { name: `${stem}-${i}` });
    await api.put(`/v1/queues/${stem}-native`, {});
    const all = status(await api.get('/api/queues?limit=1000'), 200).map((one) => one.name);
    const from = all.indexOf(`${stem}-0`);
    assert.deepEqual(status(await api.get(`/api/queues?offset=${from + 1}&limit=3`), 200).map((one) => one.name), [1, 2, 3].map((i) => `${stem}-${i}`));
    assert.deepEqual(status(await api.get(`/api/queues?offset=${all.length}`), 200), []);
  });

  test('ORC-2 ORC-3 ORC-4 items are created by queue id and by queue name', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const made = await add(api, queue, { payload: { invoice: 7 }, reference: 'INV-7', priority: 5 });
    assert.match(made.id, uuid);
    assert.match(made.created_at, time);
    assert.deepEqual(
      { ...made, id: 0, created_at: 0, updated_at: 0 },
      {
        id: 0, queue_id: queue.id, reference: 'INV-7', status: 'NEW', label: null, priority: 5, payload: { invoice: 7 }, result: null, error_message: null,
        retries: 0, locked_by_robot_id: null, locked_at: null, job_id: null, created_at: 0, updated_at: 0,
      },
    );
    assert.deepEqual(await item(api, made.id), made);
    const job = await native(api, made.id);
    assert.equal(job.state, 'ready');
    assert.equal(job.queue, queue.name);
    assert.equal(job.unique, 'INV-7');
    const bare = await add(api, queue);
    assert.deepEqual([bare.payload, bare.reference, bare.priority], [null, null, 0]);
    const text = status(await api.post('/api/queue-items/add', { queue_name: queue.name, payload: 'plain words', reference: null, priority: null }), 201);
    assert.equal(text.payload, 'plain words');
    assert.equal(text.queue_id, queue.id);
    problem(await api.post('/api/queue-items', { queue_id: 4000000000, payload: 1 }), 404, 'no_queue');
    problem(await api.post('/api/queue-items', { queue_id: -1 }), 404, 'no_queue');
    const nowhere = freshQueue('nowhere');
    problem(await api.post('/api/queue-items/add', { queue_name: nowhere }), 404, 'no_queue');
    assert.equal((await api.get(`/v1/queues/${nowhere}`)).status, 404, 'no queue was created');
    assert.equal(status(await api.get(`/v1/queues/${queue.name}/stats`), 200).counts.ready, 3);
  });

  test('ORC-5 next: priority DESC, created_at ASC; 204 when empty; 422 without a queue', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const ids = {};
    for (const [reference, priority] of [['a', 0], ['b', 5], ['c', -1], ['d', 5], ['e', 0]]) ids[reference] = (await add(api, queue, { reference, priority, payload: { reference } })).id;
    const order = [];
    for (let i = 0; i < 5; i++) {
      const answer = await (i % 2 ? next(api, queue, '&robot_id=3') : api.get(`/api/queue-items/next?queue_name=${queue.name}`));
      const got = status(answer, 200);
      assert.equal(answer.headers['cache-control'], 'no-store');
      assert.equal(got.id, ids[got.reference]);
      assert.deepEqual(got.payload, { reference: got.reference });
      assert.match(got.token, /^[0-9a-z]+-[0-9a-z]+$/);
      assert.equal(got.status, 'IN_PROGRESS');
      order.push(got.reference);
      const job = await native(api, got.id);
      assert.equal(job.state, 'running');
      assert.equal(job.worker, i % 2 ? 'robot-3' : undefined);
    }
    assert.deepEqual(order, ['b', 'd', 'a', 'e', 'c']);
    const empty = await next(api, queue);
    assert.equal(empty.status, 204);
    assert.equal(empty.text, '');
    assert.equal(problem(await api.get('/api/queue-items/next'), 422, 'missing_field').field, 'queue_name');
    problem(await api.get(`/api/queue-items/next?queue_name=${queue.name}&queue_id=${queue.id}`), 422, 'invalid_field');
    problem(await api.get('/api/queue-items/next?queue_name=nowhere'), 404, 'no_queue');
    problem(await api.get('/api/queue-items/next?queue_id=4000000000'), 404, 'no_queue');
  });

  test('ORC-5 a GET that claims refuses prefetch and HEAD', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const made = await add(api, queue);
    const at = `/api/queue-items/next?queue_id=${queue.id}`;
    assert.equal((await api.request('HEAD', at)).status, 405);
    for (const headers of [{ 'sec-purpose': 'prefetch' }, { purpose: 'prefetch' }, { 'x-moz': 'prefetch' }]) {
      const answer = await api.get(at, { headers });
      assert.ok(answer.status >= 400 && answer.status < 500, `${JSON.stringify(headers)}: ${answer.status}`);
    }
    assert.equal((await item(api, made.id)).status, 'NEW');
  });

  test('ORC-6 items are listed by queue, status and reference, with limit and offset', async () => {
    const { api } = use;
    const queue = await makeQueue(api, { max_retries: 0 });
    const other = await makeQueue(api);
    const made = [];
    for (let i = 0; i < 12; i++) made.push((await add(api, queue, { reference: `r${i % 4}`, payload: i })).id);
    const stray = await add(api, other, { reference: 'r1' });
    const ids = (answer) => status(answer, 200).map((one) => one.id);
    const list = (query) => api.get(`/api/queue-items?queue_id=${queue.id}${query}`);
    assert.deepEqual(ids(await list('')), made);
    const page = await list('&limit=3&offset=4');
    assert.deepEqual(ids(page), made.slice(4, 7));
    assert.equal(page.headers['x-total-count'], '12');
    assert.deepEqual(page.json.map((one) => one.payload), [4, 5, 6]);
    assert.deepEqual(ids(await list('&offset=11')), made.slice(11));
    assert.deepEqual(ids(await list('&offset=12')), []);
    assert.deepEqual(ids(await list('&offset=9007199254740993')), []);

    for (const to of ['DONE', 'FAILED', 'DELETED', 'IN_PROGRESS']) {
      const got = status(await next(api, queue), 200);
      if (to !== 'IN_PROGRESS') status(await put(api, got.id, { status: to, token: got.token }), 200);
    }
    assert.deepEqual(ids(await list('&status=DONE')), [made[0]]);
    assert.deepEqual(ids(await list('&status=failed')), [made[1]]);
    assert.deepEqual(ids(await list('&status=Deleted')), [made[2]]);
    assert.deepEqual(ids(await list('&status=in_progress')), [made[3]]);
    assert.deepEqual(ids(await list('&status=NEW&limit=2&offset=1')), made.slice(5, 7));
    assert.deepEqual(ids(await list('&reference=r2')), [made[2], made[6], made[10]], 'DELETED ones are items too');
    assert.deepEqual(ids(await list('&reference=r2&status=NEW')), [made[6], made[10]]);
    assert.deepEqual(ids(await list('&reference=r2&offset=1&limit=1')), [made[6]]);
    assert.deepEqual(ids(await list('&reference=none')), []);
    // Over all queues, in the order of their names.
    const everywhere = ids(await api.get('/api/queue-items?reference=r1&limit=1000'));
    for (const id of [made[1], made[5], made[9], stray.id]) assert.ok(everywhere.includes(id));
    assert.equal(everywhere.indexOf(made[5]), everywhere.indexOf(made[1]) + 1);
    const total = Number((await api.get('/api/queue-items?limit=1')).headers['x-total-count']);
    const walked = [];
    for (let offset = 0; offset < total; offset += 7) walked.push(...ids(await api.get(`/api/queue-items?limit=7&offset=${offset}`)));
    assert.equal(walked.length, total);
    assert.equal(new Set(walked).size, total);
    // The second way in.
    const jobs = status(await api.get(`/v1/queues/${queue.name}/jobs?state=ready&offset=1&limit=2`), 200);
    assert.deepEqual(jobs.jobs.map((job) => job.uuid), made.slice(5, 7));
    assert.equal(jobs.total, 8);
    const answer = problem(await list('&status=odd'), 422, 'invalid_field');
    assert.deepEqual(answer.allowed, ['NEW', 'IN_PROGRESS', 'DONE', 'FAILED', 'DELETED']);
    problem(await api.get('/api/queue-items?queue_id=4000000000'), 404, 'no_queue');
    problem(await api.get('/api/queue-items/00000000-0000-4000-8000-000000000000'), 404, 'not_found');
  });

  /** Creates an item in this status. */
  const itemIn = async (api, queue, wanted) => {
    const made = await add(api, queue);
    if (wanted === 'NEW') return made.id;
    if (wanted !== 'DELETED') status(await put(api, made.id, { status: 'IN_PROGRESS' }), 200);
    if (wanted !== 'IN_PROGRESS') status(await put(api, made.id, { status: wanted }), 200);
    return made.id;
  };
  const states = { NEW: 'ready', IN_PROGRESS: 'running', DONE: 'done', FAILED: 'dead', DELETED: 'cancelled' };
  const legal = { NEW: ['IN_PROGRESS', 'DELETED'], IN_PROGRESS: ['DONE', 'FAILED', 'NEW', 'DELETED'], DONE: ['DELETED'], FAILED: ['NEW', 'DELETED'], DELETED: [] };

  for (const [way, send] of [['PUT', put], ['POST …/status', (api, id, body) => api.post(`/api/queue-items/${id}/status`, body)]]) {
    test(`ORC-7 the strict machine, every move, by ${way}`, async () => {
      const { api } = use;
      const queue = await makeQueue(api);
      for (const from of Object.keys(states)) {
        for (const to of Object.keys(states)) {
          const id = await itemIn(api, queue, from);
          assert.equal((await native(api, id)).state, states[from]);
          const answer = await send(api, id, { status: to.toLowerCase() });
          if (legal[from].includes(to) || (from === 'DELETED' && to === 'DELETED')) {
            assert.equal(status(answer, 200).status, to, `${from} → ${to}`);
            assert.equal((await native(api, id)).state, states[to]);
          } else {
            const refusal = problem(answer, 409, 'illegal_move');
            assert.deepEqual(refusal.legal_moves, legal[from], `${from} → ${to}`);
            assert.equal((await native(api, id)).state, states[from]);
            assert.equal((await item(api, id)).status, from);
          }
        }
      }
    });
  }

  test('ORC-7 a custom status is a label of an item in progress; state and lease do not change', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const made = await add(api, queue);
    problem(await put(api, made.id, { status: 'Waiting' }), 409, 'illegal_move');
    const held = status(await put(api, made.id, { status: 'in_progress', robot_id: 4 }), 200);
    assert.ok(held.token);
    const labelled = status(await put(api, made.id, { status: 'Waiting_for_input', result: { page: 2 }, error_message: 'slow' }), 200);
    assert.equal(labelled.status, 'IN_PROGRESS');
    assert.equal(labelled.label, 'WAITING_FOR_INPUT');
    assert.deepEqual(labelled.result, { page: 2 });
    assert.equal(labelled.error_message, 'slow');
    assert.equal(labelled.locked_by_robot_id, 4);
    assert.ok(labelled.updated_at >= held.updated_at);
    const job = await native(api, made.id);
    assert.equal(job.state, 'running');
    assert.equal(job.priority_label, 'WAITING_FOR_INPUT');
    assert.deepEqual(job.result, { page: 2 });
    const done = status(await put(api, made.id, { status: 'Done', token: held.token }), 200);
    assert.equal(done.status, 'DONE');
    assert.deepEqual(done.result, { page: 2 }, 'what was noted stays');
    problem(await put(api, made.id, { status: 'Waiting' }), 409, 'illegal_move');
    // A repeated call of the holder gets the same reply; a call of another robot is refused.
    assert.equal(status(await put(api, made.id, { status: 'DONE', token: held.token }), 200).status, 'DONE');
    problem(await put(api, made.id, { status: 'FAILED', token: held.token }), 409, 'lease_lost');
    // Result and error can be set without a change of status.
    assert.deepEqual(status(await put(api, made.id, { result: [1] }), 200).result, [1]);
    problem(await put(api, (await add(api, queue)).id, { result: [1] }), 409, 'illegal_move');
  });

  test('ORC-8 DELETE is soft for items and final for queues', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    for (const from of Object.keys(states)) {
      const id = await itemIn(api, queue, from);
      assert.equal(status(await api.delete(`/api/queue-items/${id}`), 200).status, 'DELETED');
      assert.equal((await item(api, id)).status, 'DELETED');
      const job = await native(api, id);
      assert.equal(job.state, 'cancelled');
      assert.equal(job.reason, 'discarded');
    }
    assert.equal(status(await api.get(`/api/queue-items?queue_id=${queue.id}&status=DELETED`), 200).length, 5);
    assert.equal((await next(api, queue)).status, 204);
    const held = await itemIn(api, queue, 'IN_PROGRESS');
    const done = await itemIn(api, queue, 'DONE');
    assert.equal((await api.delete(`/api/queues/${queue.id}`)).status, 204);
    for (const id of [held, done]) {
      problem(await api.get(`/api/queue-items/${id}`), 404, 'not_found');
      assert.equal((await api.get(`/v1/jobs/${id}`)).status, 404);
    }
    problem(await put(api, held, { status: 'DONE' }), 404, 'not_found');
  });

  test('ORC-9 references are unique when enforced: 409; null never conflicts; DELETED frees, DONE does not', async () => {
    const { api } = use;
    const queue = await makeQueue(api, { enforce_unique_reference: true });
    const other = await makeQueue(api, { enforce_unique_reference: true });
    const made = await add(api, queue, { reference: 'INV-1' });
    const refusal = problem(await api.post('/api/queue-items', { queue_id: queue.id, reference: 'INV-1' }), 409, 'duplicate');
    assert.equal(refusal.field, 'reference');
    problem(await api.post('/api/queue-items/add', { queue_name: queue.name, reference: 'INV-1' }), 409, 'duplicate');
    await add(api, other, { reference: 'INV-1' });
    for (let i = 0; i < 3; i++) await add(api, queue, { reference: null });
    status(await put(api, made.id, { status: 'IN_PROGRESS' }), 200);
    problem(await api.post('/api/queue-items', { queue_id: queue.id, reference: 'INV-1' }), 409, 'duplicate');
    status(await put(api, made.id, { status: 'DONE' }), 200);
    problem(await api.post('/api/queue-items', { queue_id: queue.id, reference: 'INV-1' }), 409, 'duplicate');
    await api.delete(`/api/queue-items/${made.id}`);
    const again = await add(api, queue, { reference: 'INV-1' });
    assert.equal((await native(api, again.id)).unique, 'INV-1');
    assert.equal(status(await api.get(`/v1/queues/${queue.name}`), 200).policy.unique_scope, 'kept');
  });

  test('ORC-9 switching it on with duplicates present is 409 and lists them', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const twins = [await add(api, queue, { reference: 'twin' }), await add(api, queue, { reference: 'twin' })];
    await add(api, queue, { reference: 'single' });
    await add(api, queue);
    await add(api, queue);
    const refusal = problem(await api.put(`/api/queues/${queue.id}`, { enforce_unique_reference: true, max_retries: 9 }), 409, 'duplicate');
    assert.deepEqual(new Set(refusal.duplicates.map((one) => one.id)), new Set(twins.map((one) => one.id)));
    assert.ok(refusal.duplicates.every((one) => one.reference === 'twin'));
    const same = status(await api.get(`/api/queues/${queue.id}`), 200);
    assert.deepEqual([same.enforce_unique_reference, same.max_retries], [false, 0], 'nothing was changed');
    await api.delete(`/api/queue-items/${twins[1].id}`);
    assert.equal(status(await api.put(`/api/queues/${queue.id}`, { enforce_unique_reference: true }), 200).enforce_unique_reference, true);
    problem(await api.post('/api/queue-items', { queue_id: queue.id, reference: 'single' }), 409, 'duplicate');
    status(await api.put(`/api/queues/${queue.id}`, { enforce_unique_reference: false }), 200);
    await add(api, queue, { reference: 'single' });
  });

  test('ORC-9 corrected: exactly one of 32 simultaneous producers succeeds', async () => {
    const { api } = use;
    const queue = await makeQueue(api, { enforce_unique_reference: true });
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all(Array.from({ length: 32 }, () => api.post('/api/queue-items', { queue_id: queue.id, reference: `race-${round}` })));
      assert.equal(answers.filter((one) => one.status === 201).length, 1);
      assert.equal(answers.filter((one) => one.status === 409).length, 31);
    }
    assert.equal(status(await api.get(`/v1/queues/${queue.name}/stats`), 200).counts.ready, 5);
  });

  test('ORC-10 payloads are kept byte for byte', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const texts = ['{"b": 1.0,  "a":12345678901234567890, "c":"\\u00e9"}', '[ 1,2 ]', '"text"', '1e400', 'true'];
    for (const text of texts) {
      const body = `{"queue_id":${queue.id},"payload":${text}}`;
      const made = await api.request('POST', '/api/queue-items', { body, headers: { 'content-type': 'application/json' } });
      status(made, 201);
      const raw = (answer) => answer.text.match(/"payload":(.*?),"result":/s)[1];
      assert.equal(raw(made), text);
      assert.equal(raw(await api.get(`/api/queue-items/${made.json.id}`)), text);
      const got = await next(api, queue);
      assert.equal(got.json.id, made.json.id);
      assert.equal(raw(got), text);
      assert.ok((await api.get(`/v1/jobs/${made.json.id}`)).text.includes(`"payload":${text}`));
    }
  });

  test('ORC-11 an inactive queue neither delivers nor accepts items; existing items stay', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const waits = await add(api, queue, { payload: 1 });
    const held = status(await next(api, queue), 200);
    const second = await add(api, queue);
    status(await api.put(`/api/queues/${queue.id}`, { is_active: false }), 200);
    assert.equal((await next(api, queue)).status, 204);
    problem(await put(api, second.id, { status: 'IN_PROGRESS' }), 409, 'refused_new');
    problem(await api.post('/api/queue-items', { queue_id: queue.id }), 409, 'refused_new');
    problem(await api.post('/api/queue-items/add', { queue_name: queue.name }), 409, 'refused_new');
    assert.equal((await item(api, second.id)).status, 'NEW');
    assert.equal(status(await put(api, held.id, { status: 'DONE' }), 200).status, 'DONE', 'what is under way goes on');
    assert.equal(held.id, waits.id);
    assert.equal(status(await api.get(`/v1/queues/${queue.name}/stats`), 200).counts.ready, 1);
    assert.equal(status(await api.post(`/v1/queues/${queue.name}/claim`, {}), 200).jobs.length, 0);
    status(await api.put(`/api/queues/${queue.id}`, { is_active: true }), 200);
    assert.equal(status(await next(api, queue), 200).id, second.id);
  });

  test('ORC-12 corrected: 32 simultaneous robots never get an item twice', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const made = await Promise.all(Array.from({ length: 100 }, (_, i) => add(api, queue, { payload: i })));
    const seen = [];
    const robot = async (id) => {
      for (;;) {
        const answer = await next(api, queue, `&robot_id=${id}`);
        if (answer.status === 204) return;
        const got = status(answer, 200);
        assert.equal(got.locked_by_robot_id, id);
        assert.match(got.locked_at, time);
        seen.push(got.id);
      }
    };
    await Promise.all(Array.from({ length: 32 }, (_, i) => robot(i)));
    assert.equal(seen.length, 100);
    assert.deepEqual(new Set(seen), new Set(made.map((one) => one.id)));
    const workers = status(await api.get('/v1/workers'), 200).workers;
    assert.ok(workers.some((one) => /^robot-\d+$/.test(one.name) && one.running > 0));
  });

  test('ORC-12 only the holder can change an item: token and robot_id must match', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    await add(api, queue);
    const held = status(await next(api, queue, '&robot_id=7'), 200);
    problem(await put(api, held.id, { status: 'DONE', robot_id: 8 }), 409, 'lease_lost');
    problem(await put(api, held.id, { status: 'DONE', token: 'zz-zz' }), 409, 'lease_lost');
    problem(await put(api, held.id, { status: 'custom', robot_id: 8 }), 409, 'lease_lost');
    problem(await api.post(`/api/queue-items/${held.id}/renew`, { robot_id: 8 }), 409, 'lease_lost');
    assert.equal((await native(api, held.id)).state, 'running');
    assert.equal(status(await put(api, held.id, { status: 'DONE', robot_id: 7, token: held.token }), 200).status, 'DONE');
    problem(await api.post(`/api/queue-items/${held.id}/renew`, {}), 409, 'lease_lost');
    // If the queue requires tokens, an id alone is not enough.
    status(await api.patch(`/v1/queues/${queue.name}`, { require_token: true }), 200);
    await add(api, queue);
    const strict = status(await next(api, queue), 200);
    problem(await put(api, strict.id, { status: 'DONE' }), 409, 'lease_lost');
    status(await put(api, strict.id, { status: 'DONE', token: strict.token }), 200);
  });

  test('HF-16 the API shows and changes only its own queues', async () => {
    const { api } = use;
    const q = freshQueue('native');
    const job = status(await api.post(`/v1/queues/${q}/jobs`, { payload: 1 }), 201);
    const view = status(await api.get(`/v1/jobs/${job.id}`), 200);
    for (const answer of [
      await api.get(`/api/queue-items/${view.uuid}`), await put(api, view.uuid, { status: 'IN_PROGRESS' }), await api.delete(`/api/queue-items/${view.uuid}`),
      await api.post(`/api/queue-items/${view.uuid}/renew`, {}), await api.get(`/api/queue-items/next?queue_name=${q}`),
      await api.post('/api/queue-items/add', { queue_name: q }),
    ]) assert.equal(answer.status, 404, answer.text);
    assert.ok(!status(await api.get('/api/queues?limit=1000'), 200).some((one) => one.name === q));
    for (let id = 1; id < 200; id++) {
      const answer = await api.get(`/api/queues/${id}`);
      if (answer.status === 200) assert.notEqual(answer.json.name, q);
    }
    assert.equal((await api.get(`/v1/jobs/${job.id}`)).json.state, 'ready');
  });

  test('bad input is refused by name, and nothing changes', async () => {
    const { api } = use;
    const queue = await makeQueue(api, { description: 'bad input' });
    const made = await add(api, queue, { reference: 'x' });
    const one = `/api/queue-items/${made.id}`;
    const before = [await api.get(`/api/queues/${queue.id}`), await api.get(one), await api.get('/api/queues?limit=1000')].map((answer) => answer.text);
    const cases = [
      ['POST', '/api/queues', {}, 'missing_field', 'name'],
      ['POST', '/api/queues', { name: '' }, 'invalid_field', 'name'],
      ['POST', '/api/queues', { name: '-x' }, 'invalid_field', 'name'],
      ['POST', '/api/queues', { name: 7 }, 'invalid_field', 'name'],
      ['POST', '/api/queues', { name: 'n', max_retries: -1 }, 'invalid_field', 'max_retries'],
      ['POST', '/api/queues', { name: 'n', is_active: 'yes' }, 'invalid_field', 'is_active'],
      ['POST', '/api/queues', { name: 'n', enforce_unique_refrence: true }, 'unknown_field'],
      ['POST', '/api/queues?x=1', { name: 'n' }, 'unknown_field'],
      ['POST', '/api/queues', [], 'invalid_field'],
      ['GET', '/api/queues?limit=0', undefined, 'invalid_field', 'limit'],
      ['GET', '/api/queues/abc', undefined, 'invalid_field', 'id'],
      ['GET', '/api/queues/abc/stats', undefined, 'invalid_field', 'id'],
      ['GET', '/api/queues/4000000000/stats', undefined, 'no_queue', 'id'],
      ['PUT', `/api/queues/${queue.id}`, { name: '-another' }, 'invalid_field', 'name'],
      ['PUT', `/api/queues/${queue.id}`, { name: 'say "hello"' }, 'invalid_field', 'name'],
      ['PUT', `/api/queues/${queue.id}`, { max_retries: 1.5 }, 'invalid_field', 'max_retries'],
      ['PUT', '/api/queues/4000000000', {}, 'no_queue', 'id'],
      ['PATCH', `/api/queues/${queue.id}`, { lease_seconds: 0 }, 'invalid_field', 'lease_seconds'],
      ['DELETE', `/api/queues/${queue.id}?force=1`, undefined, 'unknown_field'],
      ['DELETE', '/api/queues/0', undefined, 'invalid_field', 'id'],
      ['POST', '/api/queue-items', {}, 'missing_field', 'queue_id'],
      ['POST', '/api/queue-items', { queue_id: 'x' }, 'invalid_field', 'queue_id'],
      ['POST', '/api/queue-items', { queue_id: queue.id, priority: 'high' }, 'invalid_field', 'priority'],
      ['POST', '/api/queue-items', { queue_id: queue.id, reference: 5 }, 'invalid_field', 'reference'],
      ['POST', '/api/queue-items', { queue_id: queue.id, reference: 'x'.repeat(600) }, 'invalid_field', 'reference'],
      ['POST', '/api/queue-items', { queue_id: queue.id, paylod: 1 }, 'unknown_field'],
      ['POST', '/api/queue-items/add', { queue_id: queue.id }, 'unknown_field'],
      ['POST', '/api/queue-items/add', {}, 'missing_field', 'queue_name'],
      ['GET', '/api/queue-items?limit=5000', undefined, 'invalid_field', 'limit'],
      ['GET', '/api/queue-items?offset=-1', undefined, 'invalid_field', 'offset'],
      ['GET', '/api/queue-items?queue=1', undefined, 'unknown_field'],
      ['GET', '/api/queue-items/next?queue_id=x', undefined, 'invalid_field', 'queue_id'],
      ['GET', `/api/queue-items/next?queue_id=${queue.id}&robot_id=-2`, undefined, 'invalid_field', 'robot_id'],
      ['GET', '/api/queue-items/not-an-id', undefined, 'invalid_id', 'id'],
      ['PUT', one, {}, 'missing_field', 'status'],
      ['PUT', one, { status: '' }, 'invalid_field', 'status'],
      ['PUT', one, { status: 'x'.repeat(65) }, 'invalid_field', 'status'],
      ['PUT', one, { status: 'DONE', token: 5 }, 'invalid_field', 'token'],
      ['PUT', one, { state: 'DONE' }, 'unknown_field'],
      ['PUT', '/api/queue-items/not-an-id', { status: 'DONE' }, 'invalid_id', 'id'],
      ['POST', `${one}/status`, { robot_id: 'x', status: 'DONE' }, 'invalid_field', 'robot_id'],
      ['POST', `${one}/renew`, { lease_seconds: 0 }, 'invalid_field', 'lease_seconds'],
      ['DELETE', '/api/queue-items/not-an-id', undefined, 'invalid_id', 'id'],
    ];
    for (const [method, at, json, code, field] of cases) {
      const fault = refusalFault(await api.request(method, at, { json }), code, field);
      assert.equal(fault, null, `${method} ${at} ${JSON.stringify(json)}: ${fault}`);
    }
    const broken = await api.request('POST', '/api/queue-items', { body: '{"queue_id":', headers: { 'content-type': 'application/json' } });
    assert.equal(refusalFault(broken, 'malformed_json'), null);
    const after = [await api.get(`/api/queues/${queue.id}`), await api.get(one), await api.get('/api/queues?limit=1000')].map((answer) => answer.text);
    assert.deepEqual(after, before);
  });
});

onStores('orchestrator, by the clock', ['memory', 'sqlite'], { args: ['--test-clock'] }, (use) => {
  test('ORC-12 corrected: a lease that is not renewed expires and the item is NEW again', async () => {
    const { api } = use;
    const queue = await makeQueue(api, { lease_seconds: 60 });
    await add(api, queue);
    const held = status(await next(api, queue, '&robot_id=7'), 200);
    assert.equal(held.locked_by_robot_id, 7);
    assert.equal(Date.parse(held.lease_until) - Date.parse(held.locked_at), 60_000);
    await advance(api, 50_000);
    const renewed = status(await api.post(`/api/queue-items/${held.id}/renew`, { token: held.token, robot_id: 7 }), 200);
    assert.equal(Date.parse(renewed.lease_until) - Date.parse(held.lease_until), 50_000);
    const longer = status(await api.post(`/api/queue-items/${held.id}/renew`, { lease_seconds: 120 }), 200);
    assert.equal(Date.parse(longer.lease_until) - Date.parse(held.locked_at), 170_000);
    await advance(api, 119_000);
    assert.equal((await item(api, held.id)).status, 'IN_PROGRESS');
    await advance(api, 2_000);
    const back = await item(api, held.id);
    assert.equal(back.status, 'NEW');
    assert.equal(back.locked_by_robot_id, null);
    assert.equal(back.retries, 0, 'a lease that ran out is no failure of the item');
    assert.equal((await native(api, held.id)).crashes, 1);
    problem(await put(api, held.id, { status: 'DONE', token: held.token }), 409, 'lease_lost');
    assert.equal(status(await next(api, queue, '&robot_id=8'), 200).id, held.id);
  });

  test('ORC-13 corrected: FAILED with retries left becomes NEW again when it is due, and finally stays FAILED', async () => {
    const { api } = use;
    const queue = await makeQueue(api, { max_retries: 2 });
    const made = await add(api, queue);
    for (let retry = 1; retry <= 2; retry++) {
      status(await next(api, queue), 200);
      const failed = status(await put(api, made.id, { status: 'FAILED', error_message: `try ${retry}` }), 200);
      assert.equal(failed.status, 'NEW');
      assert.equal(failed.retries, retry);
      assert.equal(failed.error_message, `try ${retry}`);
      assert.ok(Date.parse(failed.not_before) > Date.parse(failed.updated_at));
      assert.equal((await next(api, queue)).status, 204, 'not before its time');
      assert.equal((await native(api, made.id)).state, 'scheduled');
      await advance(api, 60_000);
      assert.equal((await item(api, made.id)).not_before, undefined);
    }
    status(await next(api, queue), 200);
    const last = status(await put(api, made.id, { status: 'FAILED', error_message: 'for good' }), 200);
    assert.deepEqual([last.status, last.retries], ['FAILED', 2]);
    const job = await native(api, made.id);
    assert.deepEqual([job.state, job.failures, job.reason], ['dead', 3, 'failed']);
    await advance(api, 3_600_000);
    assert.equal((await next(api, queue)).status, 204);
    const again = status(await put(api, made.id, { status: 'NEW' }), 200);
    assert.deepEqual([again.status, again.retries], ['NEW', 0]);
    assert.equal(status(await next(api, queue), 200).id, made.id);
  });

  test('ORC-13 ORC-18 the final failure of an item is an event', async () => {
    const { api, server } = use;
    const { openStream } = await import('../lib/client.mjs');
    const queue = await makeQueue(api);
    const stream = openStream(server, `/v1/queues/${queue.name}/listen`);
    await stream.opened;
    const made = await add(api, queue);
    status(await put(api, made.id, { status: 'IN_PROGRESS' }), 200);
    status(await put(api, made.id, { status: 'FAILED', error_message: 'no' }), 200);
    let event;
    do event = await stream.next();
    while (event.event !== 'dead');
    const data = JSON.parse(event.data);
    assert.equal(data.queue, queue.name);
    assert.equal((await native(api, data.job.id)).uuid, made.id);
    stream.close();
  });

  test('ORC-14 stats: counts without DELETED, exceptions by kind, average from locked_at to the end', async () => {
    const { api } = use;
    const queue = await makeQueue(api);
    const stats = async () => status(await api.get(`/api/queues/${queue.id}/stats`), 200);
    assert.deepEqual(await stats(), { new: 0, inProgress: 0, done: 0, failed: 0, appExceptions: 0, bizExceptions: 0, avgProcessingMs: null });
    const ends = [
      [{ status: 'DONE' }, 1000],
      [{ status: 'FAILED', error_message: 'A BUSINESS rule' }, 2000],
      [{ status: 'FAILED', error_message: 'socket' }, 3000],
      [{ status: 'FAILED', result: { failure_reason: 'Business exception' } }, 4000],
      [{ status: 'FAILED', result: { reason: 'business' } }, 0],
      [{ status: 'FAILED', result: { type: 'BusinessException' }, error_message: 'x' }, 0],
      [{ status: 'FAILED', result: '{"reason":"business rule"}' }, 0],
      [{ status: 'FAILED', result: { text: 'business', reason: 'application' } }, 0],
      [{ status: 'FAILED' }, 0],
    ];
    for (const [body, ms] of ends) {
      const made = await add(api, queue);
      await advance(api, 500); // waiting is not processing
      status(await next(api, queue), 200);
      await advance(api, ms || 2000);
      status(await put(api, made.id, body), 200);
    }
    await add(api, queue);
    await add(api, queue);
    status(await next(api, queue), 200);
    const gone = await add(api, queue);
    await api.delete(`/api/queue-items/${gone.id}`);
    const seen = await stats();
    assert.deepEqual({ ...seen, avgProcessingMs: 0 }, { new: 1, inProgress: 1, done: 1, failed: 8, appExceptions: 3, bizExceptions: 5, avgProcessingMs: 0 });
    const times = ends.map(([, ms]) => ms || 2000);
    assert.equal(seen.avgProcessingMs, Math.round(times.reduce((a, b) => a + b) / times.length));
    const counts = status(await api.get(`/v1/queues/${queue.name}/stats`), 200);
    assert.equal(counts.since_created.failed_business, 5);
    assert.equal(counts.since_created.failed_app, 3);
    assert.equal(counts.counts.dead, 8);
  });

  test('ORC-21 counts and durations by the hour outlive pruning; finished and DELETED items are removed after their days', async () => {
    const { api } = use;
    const queue = await makeQueue(api, { retention_days: 2 });
    const keeps = await makeQueue(api, { retention_days: 0 });
    for (const one of [queue, keeps]) {
      await add(api, one);
      const held = status(await next(api, one), 200);
      await advance(api, 1500);
      status(await put(api, held.id, { status: 'DONE' }), 200);
      const deleted = await add(api, one);
      await api.delete(`/api/queue-items/${deleted.id}`);
      await add(api, one);
      status(await put(api, status(await next(api, one), 200).id, { status: 'FAILED', error_message: 'business' }), 200);
    }
    const history = async (one) => status(await api.get(`/v1/queues/${one.name}/history`), 200).hours;
    const [hour] = await history(queue);
    assert.match(hour.hour, /:00:00\.000Z$/);
    assert.deepEqual([hour.enqueued, hour.claimed, hour.acked, hour.failed_business, hour.failed_app, hour.died, hour.cancelled, hour.done_ms], [3, 2, 1, 1, 0, 1, 1, 1500]);
    for (let days = 0; days < 3; days++) {
      for (let hours = 0; hours < 24; hours++) await advance(api, 3_600_000 - 1);
      await api.post('/v1/clock/accept');
    }
    assert.deepEqual(status(await api.get(`/api/queue-items?queue_id=${queue.id}`), 200), [], 'pruned');
    assert.equal(status(await api.get(`/api/queue-items?queue_id=${keeps.id}`), 200).length, 3, '0 keeps them');
    assert.deepEqual(await history(queue), [hour], 'the figures stay');
    const stats = status(await api.get(`/api/queues/${queue.id}/stats`), 200);
    assert.deepEqual([stats.done, stats.bizExceptions], [0, 1]);
    assert.equal(stats.avgProcessingMs, 750);
    await add(api, queue);
    assert.equal((await history(queue)).length, 2);
    const from = (await history(queue))[1].hour;
    assert.equal(status(await api.get(`/v1/queues/${queue.name}/history?from=${from}`), 200).hours.length, 1);
    assert.equal(status(await api.get(`/v1/queues/${queue.name}/history?to=${from}`), 200).hours.length, 1);
    assert.equal((await api.get('/v1/queues/nowhere/history')).status, 404);
  });
});

test('ORC-14 ORC-21 figures survive a crash and a clean restart', async () => {
  let server = await startServer({});
  let api = new Client(server);
  const queue = await makeQueue(api, { max_retries: 1 });
  for (const message of ['business', 'app', 'Business again']) {
    await add(api, queue, { reference: message });
    status(await put(api, status(await next(api, queue), 200).id, { status: 'FAILED', error_message: message }), 200);
  }
  const stats = status(await api.get(`/api/queues/${queue.id}/stats`), 200);
  assert.deepEqual([stats.bizExceptions, stats.appExceptions, stats.new], [2, 1, 3]);
  const figures = async () => [status(await api.get(`/api/queues/${queue.id}/stats`), 200), status(await api.get(`/v1/queues/${queue.name}/history`), 200), status(await api.get(`/api/queues/${queue.id}`), 200)];
  const before = await figures();
  for (const end of [killServer, stopServer, killServer]) {
    api.close();
    server.ownsData = false;
    await end(server);
    server = await startServer({ data: server.data });
    api = new Client(server);
    assert.deepEqual(await figures(), before);
  }
  const items = status(await api.get(`/api/queue-items?queue_id=${queue.id}`), 200);
  assert.deepEqual(items.map((one) => one.reference), ['business', 'app', 'Business again'], 'places are known again');
  await stopServer(server);
  api.close();
});
