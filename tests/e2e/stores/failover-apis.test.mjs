// SPDX-License-Identifier: Apache-2.0
// PDQ-7: the table "during an outage" of docs/failover.md, row by row, with a real Redis: what each operation of each
// API does while Redis is killed, how the reply is marked, and that no job is lost or doubled afterwards. A row of the
// page without a test here, and a test without a row, is a failure. Runs itself below scripts/with-redis.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { after, before, describe, test } from 'node:test';

import { killRedis, startRedis } from '../../faults/lib/redis.mjs';
import { Beanstalk } from '../lib/beanstalk.mjs';
import { Client } from '../lib/client.mjs';
import { freePort } from '../lib/ports.mjs';
import { Receiver } from '../lib/receiver.mjs';
import { binary, killServer, startServer, stopServer, until } from '../lib/server.mjs';

const page = readFileSync(new URL('../../../docs/failover.md', import.meta.url), 'utf8');
const written = [...page.matchAll(/^\| (`\/v1`|\w+) \| (.*) \| (spooled|spool|partial|503) \|$/gm)].map(([, api, operation, effect]) => `${api}: ${operation} → ${effect}`);

const redisUrl = process.env.HF_REDIS.replace(/\d+$/, '5');
// Only a Redis that was killed is unavailable, not one whose answer is late on a busy machine.
const patient = { USE_REDIS_QUEUE: 'true', REDIS_URL: redisUrl, REDIS_HEALTH_CHECK_TIMEOUT: '300.0', HOLDFAST_TIMEOUTS_BACKEND_MS: '5m' };

const state = async (api) => (await api.get('/v1/server')).json.failover;
const unavailable = (api) => until('the node works on its spool', async () => !(await state(api)).primary_up);
const moved = (api) => until('all jobs are in Redis', async () => (await state(api)).primary_up && (await state(api)).spool_jobs === 0);

const refused = (answer, detail = /shared store/) => {
  assert.equal(answer.status, 503, answer.text);
  assert.ok(answer.headers['retry-after']);
  assert.match(answer.json.detail, detail);
  return answer;
};
const done = (answer, status = 200) => {
  assert.equal(answer.status, status, answer.text);
  return answer.json;
};
const isSpooled = (answer, status) => {
  done(answer, status);
  assert.equal(answer.headers['holdfast-spooled'], 'true');
  return answer.json;
};
const isPartial = (answer, { member = true } = {}) => {
  done(answer);
  assert.equal(answer.headers['holdfast-partial'], 'true', answer.text);
  assert.equal(answer.json.partial, member ? true : undefined, answer.text);
  return answer.json;
};
const unmarked = (answer, status = 200) => {
  done(answer, status);
  for (const name of ['holdfast-spooled', 'holdfast-partial']) assert.equal(answer.headers[name], undefined, name);
  assert.ok(!/"(spooled|partial)"/.test(answer.text), answer.text);
  return answer.json;
};

describe('the table of an outage', { concurrency: false }, () => {
  let server, api, receiver, tube;
  const held = {}; // jobs that Redis has
  const spooled = []; // ids of the jobs that must be in Redis afterwards, as /v1 names them
  const tested = [];
  const row = (name, effect, run) => {
    tested.push(`${name} → ${effect}`);
    test(`PDQ-7 ${name} → ${effect}`, run);
  };
  const keep = (json) => {
    spooled.push(String(json.id ?? json.job_id));
    return json;
  };
  const command = (...words) => spawnSync(binary, ['alerts', ...words, '--server', server.url], { encoding: 'utf8' });
  const item = (more) => ({ payload: { n: 1 }, ...more });
  const fresh = (() => {
    let n = 0;
    return (name) => `${name}-${++n}`;
  })();

  before(async () => {
    receiver = await new Receiver().listen();
    const port = await freePort();
    server = await startServer({
      backend: '',
      args: ['--node', '9', '--beanstalk', `127.0.0.1:${port}`],
      env: { ...patient, HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8' },
    });
    api = new Client(server);
    // While Redis answers, nothing is marked.
    unmarked(await api.put('/v1/queues/loose', { unique_scope: 'none' }), 201);
    unmarked(await api.put('/v1/alerts/outage', { on: 'failover', webhook: { url: receiver.url, secret: 's' } }), 201);
    unmarked(await api.put('/v1/alerts/died', { on: 'dead' }), 201);
    held.queue = unmarked(await api.post('/api/queues', { name: 'robots' }), 201);
    held.strict = unmarked(await api.post('/api/queues', { name: 'strict', enforce_unique_reference: true }), 201);
    held.renamed = unmarked(await api.post('/api/queues', { name: 'before' }), 201);
    unmarked(await api.put(`/api/queues/${held.renamed.id}`, { name: 'after' }));
    unmarked(await api.post('/v1/queues/q/jobs', { payload: 'held' }), 201);
    [held.job] = unmarked(await api.post('/v1/queues/q/claim', {})).jobs;
    unmarked(await api.post('/keyval/api/queue/enqueue', { value: 'held' }));
    held.message = unmarked(await api.get('/keyval/api/queue/poll')).message;
    held.task = unmarked(await api.post('/api/tasks', { name: 'held' }), 201);
    held.item = unmarked(await api.post('/api/queue-items', { queue_id: held.queue.id }), 201);
    held.path = unmarked(await api.post('/api/web/queue/enqueue', { path: '/held', library_id: 1 }), 201).job_id;
    for (const where of ['/v1/queues', '/v1/queues/q', '/v1/queues/q/stats', '/v1/snapshot', '/v1/jobs', '/v1/alerts', '/v1/workers',
      '/keyval/api/queue/stats', `/api/queues/${held.queue.id}/stats`, '/api/web/queue/queue-depth', '/api/web/queue/list', '/api/tasks'])
      unmarked(await api.get(where));
    tube = await Beanstalk.connect(port);
    assert.equal(await tube.line('use pipe'), 'USING pipe');
    held.put = Number((await tube.line('put 0 0 60 4\r\nheld')).match(/^INSERTED (\d+)$/)[1]);
    // The node has read the queues when it knows the last of them: the spool answers for it.
    await until('the queues are copied', async () => {
      await killRedis();
      await unavailable(api);
      const known = await api.get(`/api/queues/${held.renamed.id}/stats`);
      const rules = (await api.get('/v1/alerts')).json.alerts ?? [];
      if (known.status === 200 && rules.length === 1) return true;
      await startRedis();
      await moved(api);
      return false;
    });
  });
  after(async () => {
    api?.close();
    await tube?.close();
    if (server && !server.exit) await killServer(server);
    await receiver?.close();
  });

  // ---- /v1 ----

  row('`/v1`: enqueue without keys, into any queue', 'spooled', async () => {
    for (const queue of ['q', fresh('unseen')]) {
      const job = keep(isSpooled(await api.post(`/v1/queues/${queue}/jobs`, { payload: 1, priority: 3, group: 'g', kind: 'k', headers: { a: 'b' } }), 201));
      assert.equal(job.spooled, true);
    }
    const many = isSpooled(await api.post('/v1/queues/q/jobs', [{ payload: 2 }, { payload: 3, unique: 'u' }])).jobs;
    assert.equal(keep(many[0]).spooled, true);
    assert.equal(many[1].error.status, 503);
  });
  row('`/v1`: enqueue with `unique` into a queue with `unique_scope` `none`', 'spooled', async () => {
    for (let n = 0; n < 2; n++) keep(isSpooled(await api.post('/v1/queues/loose/jobs', { payload: 1, unique: 'same' }), 201));
  });
  row('`/v1`: enqueue with `unique` into any other queue', '503', async () => {
    for (const queue of ['q', fresh('unseen')]) refused(await api.post(`/v1/queues/${queue}/jobs`, { payload: 1, unique: 'u' }), /unique key/);
  });
  row('`/v1`: enqueue with an idempotency key or `keys_if_undelivered`; import', '503', async () => {
    refused(await api.post('/v1/queues/q/jobs', { payload: 1 }, { headers: { 'idempotency-key': 'k' } }), /idempotency key/);
    refused(await api.post('/v1/queues/q/jobs', { payload: 1, keys_if_undelivered: [['a']] }), /key-value store/);
    const [imported] = done(await api.post('/v1/import', [{ id: 'from-elsewhere', queue: 'q', state: 'ready', payload: 1 }])).jobs;
    assert.equal(imported.error.status, 503);
    assert.match(imported.error.detail, /imported jobs/);
  });
  row('`/v1`: claim', 'spool', async () => {
    const queue = fresh('claim');
    const job = isSpooled(await api.post(`/v1/queues/${queue}/jobs`, { payload: 1 }), 201);
    const [got] = done(await api.post(`/v1/queues/${queue}/claim`, {})).jobs;
    assert.equal(got.id, job.id);
    done(await api.post(`/v1/jobs/${job.id}/ack`, { token: got.token }));
  });
  row('`/v1`: ack, fail, extend, release, progress, steps, cancel, patch, get of a job in the spool', 'spool', async () => {
    const queue = fresh('leases');
    for (const end of ['ack', 'fail', 'release']) {
      const job = isSpooled(await api.post(`/v1/queues/${queue}/jobs`, { payload: 1 }), 201);
      done(await api.patch(`/v1/jobs/${job.id}`, { priority: 7 }));
      const [{ token }] = done(await api.post(`/v1/queues/${queue}/claim`, {})).jobs;
      done(await api.post(`/v1/jobs/${job.id}/extend`, { token }));
      done(await api.post(`/v1/jobs/${job.id}/progress`, { token, percent: 5 }));
      done(await api.post(`/v1/jobs/${job.id}/steps/first`, { token, result: 1 }));
      done(await api.post(`/v1/jobs/${job.id}/${end}`, { token, ...(end === 'fail' ? { error: 'e', retry: false } : {}) }));
      assert.equal(done(await api.get(`/v1/jobs/${job.id}`)).state, { ack: 'done', fail: 'dead', release: 'ready' }[end]);
      if (end === 'release') done(await api.post(`/v1/jobs/${job.id}/cancel`, {}));
    }
  });
  /** A claimed job of the spool. */
  const working = async () => {
    const queue = fresh('working');
    const { id } = isSpooled(await api.post(`/v1/queues/${queue}/jobs`, { payload: 1 }), 201);
    const [{ token }] = done(await api.post(`/v1/queues/${queue}/claim`, {})).jobs;
    return { ack: (more) => api.post(`/v1/jobs/${id}/ack`, { token, ...more }), state: async () => done(await api.get(`/v1/jobs/${id}`)).state };
  };
  row('`/v1`: ack with `enqueues` without keys of a job in the spool', 'spool', async () => {
    const job = await working();
    const queue = fresh('next');
    const [next] = done(await job.ack({ enqueues: [{ queue, payload: { n: 1 } }] })).jobs;
    keep(next);
    assert.equal(await job.state(), 'done');
    assert.equal(done(await api.get(`/v1/jobs/${next.id}`)).state, 'ready');
  });
  row('`/v1`: ack with `sets`, `deletes`, or `enqueues` with keys, of a job in the spool', '503', async () => {
    const job = await working();
    const queue = fresh('next');
    refused(await job.ack({ sets: [{ key: ['x'], value: 1 }] }), /key-value store/);
    refused(await job.ack({ deletes: [['x']] }), /key-value store/);
    refused(await job.ack({ enqueues: [{ queue, unique: 'u' }] }), /unique key/);
    refused(await job.ack({ enqueues: [{ queue, idempotency_key: 'k' }] }), /idempotency key/);
    assert.equal(await job.state(), 'running');
    done(await job.ack({}));
  });
  row('`/v1`: the same of a job in the shared store', '503', async () => {
    const at = `/v1/jobs/${held.job.id}`;
    const token = held.job.token;
    for (const [word, body] of [['ack', { token }], ['fail', { token }], ['extend', { token }], ['release', { token }], ['progress', { token, percent: 1 }], ['cancel', {}]])
      refused(await api.post(`${at}/${word}`, body), /holds this job/);
    refused(await api.patch(at, { priority: 1 }));
    refused(await api.get(at));
  });
  row('`/v1`: lists of jobs, queues, workers and exceptions; counts, stats, history, snapshot', 'partial', async () => {
    for (const where of ['/v1/jobs', '/v1/jobs?queue=q', '/v1/queues', '/v1/queues/q', '/v1/queues/q/stats', '/v1/queues/q/history', '/v1/queues/q/peek',
      '/v1/workers', '/v1/exceptions', '/v1/snapshot', '/v1/snapshot?queue=q', '/v1/breakers'])
      isPartial(await api.get(where));
    const missing = await api.get('/v1/queues/not-there');
    assert.deepEqual([missing.status, missing.headers['holdfast-partial']], [404, 'true']);
    const { text } = await api.get('/metrics');
    assert.match(text, /^holdfast_metrics_stores_left_out 1$/m);
  });
  row('`/v1`: create, change, pause, purge or delete a queue; bulk actions', '503', async () => {
    refused(await api.put('/v1/queues/new', {}), /queue/);
    refused(await api.patch('/v1/queues/q', { capacity: 5 }));
    for (const word of ['pause', 'resume', 'purge', 'requeue']) refused(await api.post(`/v1/queues/q/${word}`, {}));
    refused(await api.delete('/v1/queues/q'));
  });
  row('`/v1`: keys, schedules, changes of alerts and of settings of breakers', '503', async () => {
    refused(await api.post('/v1/kv/get', { keys: [['a']] }));
    refused(await api.post('/v1/kv/commit', { sets: [{ key: ['a'], value: 1 }], enqueues: [{ queue: 'q', payload: 1 }] }));
    refused(await api.get('/v1/schedules'));
    refused(await api.put('/v1/schedules/s', { cron: '* * * * *', queue: 'q', job: { payload: 1 } }));
    refused(await api.put('/v1/alerts/new', { on: 'dead' }));
    refused(await api.delete('/v1/alerts/outage'));
    refused(await api.put('/v1/breakers/b', { failure_threshold: 3 }));
  });
  row('`/v1`: list alerts and notices: the rules on failover and their notices', 'partial', async () => {
    await until('the rule is raised', async () => (await api.get('/v1/alerts')).json.alerts[0].raised_count > 0);
    const { alerts } = isPartial(await api.get('/v1/alerts'));
    assert.deepEqual(alerts.map(({ name, on, raised_count: raised }) => [name, on, raised]), [['outage', 'failover', 1]]);
    assert.equal(done(await api.get('/v1/alerts/outage')).raised[0].queue, null);
    refused(await api.get('/v1/alerts/died'));
    for (const words of [[], ['--json']]) {
      const list = command(...words);
      assert.deepEqual([list.status, /outage/.test(list.stdout), /part is missing/.test(list.stderr)], [0, true, words.length === 0]);
    }
    isPartial(await api.get('/v1/notices'));
  });
  row('`/v1`: `allow` and `report` of a breaker: this node decides with its own breakers', 'spool', async () => {
    assert.equal(done(await api.post('/v1/breakers/b/allow', {})).allowed, true);
    done(await api.post('/v1/breakers/b/report', { ok: true }));
  });

  // ---- keyval ----

  const keyval = '/keyval/api/queue';
  row('keyval: enqueue, into any queue', 'spooled', async () => {
    for (const queue of ['keyval', fresh('kv-unseen')]) {
      const answer = await api.post(`${keyval}/enqueue?queue=${queue}`, { value: { n: 1 }, options: { delay: 10, backoffSchedule: [5], priority: 4 } });
      assert.equal(keep(isSpooled(answer)).spooled, true);
    }
  });
  row('keyval: enqueue with `Idempotency-Key` or `keysIfUndelivered`', '503', async () => {
    refused(await api.post(`${keyval}/enqueue`, { value: 1 }, { headers: { 'idempotency-key': 'k' } }), /idempotency key/);
    refused(await api.post(`${keyval}/enqueue`, { value: 1, options: { keysIfUndelivered: [['a']] } }), /key-value store/);
  });
  row('keyval: poll, ack and nack of a message in the spool', 'spool', async () => {
    const queue = fresh('kv');
    for (const word of ['nack', 'ack']) {
      const { id } = isSpooled(await api.post(`${keyval}/enqueue?queue=${queue}`, { value: word, options: { backoffSchedule: [] } }));
      assert.equal(done(await api.get(`${keyval}/poll?queue=${queue}`)).message.id, id);
      done(await api.post(`${keyval}/${word}`, { id }));
    }
    const [dead] = isPartial(await api.get(`${keyval}/dlq?queue=${queue}`), { member: false });
    assert.equal(dead.value, 'nack');
    spooled.push(dead.id);
  });
  row('keyval: ack and nack of a message in the shared store', '503', async () => {
    for (const word of ['ack', 'nack']) refused(await api.post(`${keyval}/${word}`, { id: held.message.id }));
  });
  row('keyval: stats, list of dead letters', 'partial', async () => {
    for (const queue of ['keyval', 'not-there']) isPartial(await api.get(`${keyval}/stats?queue=${queue}`));
    isPartial(await api.get(`${keyval}/dlq`), { member: false });
  });
  row('keyval: requeue and purge of dead letters; keys', '503', async () => {
    const queue = fresh('kv-dead');
    const { id } = keep(isSpooled(await api.post(`${keyval}/enqueue?queue=${queue}`, { value: 1, options: { backoffSchedule: [] } })));
    done(await api.get(`${keyval}/poll?queue=${queue}`));
    done(await api.post(`${keyval}/nack`, { id }));
    refused(await api.post(`${keyval}/dlq/${id}/requeue?queue=${queue}`), /dead job/);
    refused(await api.delete(`${keyval}/dlq?queue=${queue}`));
    refused(await api.get('/keyval/api/keys'));
  });

  // ---- tasks ----

  row('tasks: create', 'spooled', async () => {
    for (const more of [{}, { queue: fresh('unseen') }, { priority: 'high', wait_queued: true, queue: fresh('unseen') }, { scheduled_at: '2099-01-01T00:00:00Z' }]) {
      const task = keep(isSpooled(await api.post('/api/tasks', { name: 'mail', payload: { n: 1 }, ...more }), 201));
      assert.equal(task.spooled, true);
      assert.equal(task.name, 'mail');
    }
  });
  row('tasks: claim, heartbeat, complete, fail, get of a task in the spool', 'spool', async () => {
    const queue = fresh('t');
    for (const word of ['complete', 'fail']) {
      const { id } = isSpooled(await api.post('/api/tasks', { name: 'mail', queue, max_retries: 0 }), 201);
      const [task] = done(await api.post('/api/tasks/claim', { queue })).tasks;
      assert.equal(task.id, id);
      done(await api.post(`/api/tasks/${id}/heartbeat`, { token: task.token }));
      done(await api.post(`/api/tasks/${id}/${word}`, { token: task.token }));
      assert.equal(done(await api.get(`/api/tasks/${id}`)).status, word === 'fail' ? 'FAILED' : 'COMPLETED');
    }
  });
  row('tasks: the same of a task in the shared store', '503', async () => {
    for (const word of ['claim', 'heartbeat', 'complete', 'fail']) refused(await api.post(`/api/tasks/${held.task.id}/${word}`, {}));
    refused(await api.get(`/api/tasks/${held.task.id}`));
  });
  row('tasks: list', 'partial', async () => {
    for (const query of ['', '?queue=not-there']) isPartial(await api.get(`/api/tasks${query}`), { member: false });
  });

  // ---- orchestrator ----

  row('orchestrator: create an item by `queue_id` or `queue_name`, in a queue that this node has seen', 'spooled', async () => {
    for (const more of [{}, { reference: 'r' }, { reference: 'r', priority: 5 }]) {
      for (const answer of [
        await api.post('/api/queue-items', item({ queue_id: held.queue.id, ...more })),
        await api.post('/api/queue-items/add', item({ queue_name: 'robots', ...more })),
      ]) {
        const made = keep(isSpooled(answer, 201));
        assert.deepEqual([made.queue_id, made.status, made.spooled, made.reference], [held.queue.id, 'NEW', true, more.reference ?? null]);
      }
    }
    const renamed = keep(isSpooled(await api.post('/api/queue-items', item({ queue_id: held.renamed.id })), 201));
    assert.equal(renamed.queue_id, held.renamed.id);
    keep(isSpooled(await api.post('/api/queue-items', item({ queue_id: held.strict.id })), 201));
  });
  row('orchestrator: create an item with a `reference`, in a queue with `enforce_unique_reference`', '503', async () => {
    refused(await api.post('/api/queue-items', item({ queue_id: held.strict.id, reference: 'r' })), /reference/);
    refused(await api.post('/api/queue-items/add', item({ queue_name: 'strict', reference: 'r' })), /reference/);
  });
  row('orchestrator: create an item in a queue that this node has not seen, or by a name that the queue was given later', '503', async () => {
    refused(await api.post('/api/queue-items', item({ queue_id: 999 })));
    refused(await api.post('/api/queue-items/add', item({ queue_name: 'unseen' })));
    refused(await api.post('/api/queue-items/add', item({ queue_name: 'after' })));
  });
  row('orchestrator: next, status, renew, get, delete of an item in the spool', 'spool', async () => {
    const { id } = isSpooled(await api.post('/api/queue-items', item({ queue_id: held.strict.id, priority: 100 })), 201);
    const next = done(await api.get(`/api/queue-items/next?queue_id=${held.strict.id}`));
    assert.deepEqual([next.id, next.queue_id], [id, held.strict.id]);
    done(await api.post(`/api/queue-items/${id}/renew`, { token: next.token }));
    assert.equal(done(await api.post(`/api/queue-items/${id}/status`, { status: 'DONE', token: next.token })).status, 'DONE');
    assert.equal(done(await api.get(`/api/queue-items/${id}`)).status, 'DONE');
    assert.equal(done(await api.delete(`/api/queue-items/${id}`)).status, 'DELETED');
  });
  row('orchestrator: status, renew, get, delete of an item in the shared store', '503', async () => {
    const at = `/api/queue-items/${held.item.id}`;
    refused(await api.post(`${at}/status`, { status: 'DELETED' }));
    refused(await api.post(`${at}/renew`, {}));
    refused(await api.get(at));
    refused(await api.delete(at));
  });
  row('orchestrator: list items and jobs, stats of a queue', 'partial', async () => {
    isPartial(await api.get('/api/queue-items'), { member: false });
    const items = isPartial(await api.get(`/api/queue-items?queue_id=${held.queue.id}`), { member: false });
    assert.ok(items.length > 0 && items.every((one) => one.queue_id === held.queue.id && one.id !== held.item.id));
    isPartial(await api.get('/api/jobs'), { member: false });
    isPartial(await api.get(`/api/queues/${held.queue.id}/stats`));
  });
  row('orchestrator: queues and triggers', '503', async () => {
    refused(await api.get('/api/queues'));
    refused(await api.get(`/api/queues/${held.queue.id}`));
    refused(await api.post('/api/queues', { name: 'new' }));
    refused(await api.put(`/api/queues/${held.queue.id}`, { description: 'd' }));
    refused(await api.delete(`/api/queues/${held.queue.id}`));
    refused(await api.get('/api/triggers'));
    refused(await api.post('/api/triggers', { name: 't', type: 'QUEUE', queue_id: held.queue.id, target_queue: 'x' }));
  });

  // ---- webqueue ----

  const web = '/api/web/queue';
  row('webqueue: enqueue, because only the shared store knows whether the path is in the queue', '503', async () => {
    refused(await api.post(`${web}/enqueue`, { path: '/new', library_id: 1 }), /path is in the queue/);
    const many = done(await api.post(`${web}/enqueue`, { paths: ['/a', '/b'], library_id: 1 }));
    assert.deepEqual([many.enqueued, many.refused, many.jobs[0].error.status], [0, 2, 503]);
  });
  row('webqueue: dequeue: the spool has no jobs of this API', 'spool', async () => {
    assert.equal(done(await api.post(`${web}/dequeue`, {})), null);
  });
  row('webqueue: complete, fail, renew, requeue, get of a job', '503', async () => {
    refused(await api.get(`${web}/job/${held.path}`));
    for (const [word, more] of [['complete', {}], ['fail', { error: 'e' }], ['renew', {}], ['requeue', {}]])
      refused(await api.post(`${web}/${word}`, { job_id: held.path, ...more }));
  });
  row('webqueue: queue-depth, library, list, stale', 'partial', async () => {
    for (const where of ['queue-depth', 'library/1', 'list', 'stale']) isPartial(await api.get(`${web}/${where}`));
  });
  row('webqueue: retry-errors, clear-completed, clear-errors, delete a library', '503', async () => {
    for (const word of ['retry-errors', 'clear-completed', 'clear-errors']) refused(await api.post(`${web}/${word}`, {}));
    refused(await api.delete(`${web}/library/1`));
  });

  // ---- beanstalk ----

  row('beanstalk: put: the protocol has no place for a mark', 'spool', async () => {
    for (const name of ['pipe', fresh('pipe-unseen')]) {
      assert.equal(await tube.line(`use ${name}`), `USING ${name}`);
      spooled.push((await tube.line('put 0 0 60 3\r\nnew')).match(/^INSERTED (\d+)$/)[1]);
    }
  });
  row('beanstalk: reserve, delete, release of a job in the spool', 'spool', async () => {
    const name = fresh('pipe');
    await tube.line(`use ${name}`);
    await tube.line(`watch ${name}`);
    await tube.line('ignore default');
    const id = (await tube.line('put 0 0 60 3\r\nnew')).match(/^INSERTED (\d+)$/)[1];
    for (let n = 0; n < 2; n++) {
      assert.equal(await tube.line('reserve-with-timeout 0'), `RESERVED ${id} 3`);
      assert.equal(await tube.line(n ? `delete ${id}` : `release ${id} 0 0`), n ? 'DELETED' : 'RELEASED');
    }
  });
  row('beanstalk: delete of a job in the shared store: `INTERNAL_ERROR`', '503', async () => {
    assert.equal(await tube.line(`delete ${held.put}`), 'INTERNAL_ERROR');
  });

  test('the table of docs/failover.md has these rows, and each of them was tested', () => {
    assert.deepEqual(tested, written);
  });

  test('PDQ-7 afterwards each job is in Redis once, under its id, and nothing is marked', async () => {
    await startRedis();
    await moved(api);
    assert.equal(new Set(spooled).size, spooled.length);
    for (const id of spooled) unmarked(await api.get(`/v1/jobs/${id}`));
    // Another node, with an empty spool, sees the same: the jobs are in Redis.
    const other = await startServer({ backend: '', args: ['--node', '8'], env: patient });
    const there = new Client(other);
    try {
      const seqs = [];
      for (let cursor = ''; cursor !== null; ) {
        const { jobs, next_cursor: next } = unmarked(await there.get(`/v1/jobs?payload=false&limit=100${cursor ? `&cursor=${cursor}` : ''}`));
        seqs.push(...jobs.map((job) => job.seq));
        cursor = next;
      }
      assert.equal(new Set(seqs).size, seqs.length);
      for (const id of spooled) {
        const job = done(await there.get(`/v1/jobs/${id}`));
        assert.equal(seqs.filter((seq) => seq === job.seq).length, 1, id);
      }
    } finally {
      there.close();
      await stopServer(other);
    }
    // The APIs know their queues and jobs: owner, policy, priority.
    const task = done(await api.post('/api/tasks', { name: 'more' }), 201);
    assert.equal(done(await api.get(`/api/tasks/${task.id}`)).priority, 'low');
    const low = done(await api.get('/v1/jobs?queue=tasks.low')).jobs;
    assert.ok(low.length > 1 && low.every((job) => job.priority === -10), JSON.stringify(low.map((job) => job.priority)));
    const queues = done(await api.get('/v1/queues?limit=1000')).queues;
    const owner = (pattern) => [...new Set(queues.filter((queue) => pattern.test(queue.name)).map((queue) => queue.owner))];
    assert.deepEqual([owner(/^tasks\./), owner(/^kv-unseen/), owner(/^pipe/), owner(/^unseen/)], [['tasks'], ['keyval'], ['beanstalk'], [undefined]]);
    unmarked(await api.get('/api/queues'));
  });

  test('PDQ-7 the rule on failover reported the outage, and its end', async () => {
    const last = () => receiver.requests.at(-1)?.json.event;
    await until('both are delivered', () => last() === 'alert_cleared');
    const events = receiver.requests.map(({ json }) => json);
    assert.ok(events.every(({ alert, on, queue }) => alert === 'outage' && on === 'failover' && queue === undefined));
    const raised = events.filter(({ event }) => event === 'alert_raised');
    const cleared = events.filter(({ event }) => event === 'alert_cleared');
    assert.equal(raised.length, cleared.length);
    assert.ok(raised.every(({ detail }) => /^node 9: ./.test(detail)));
    assert.ok(cleared.every(({ detail }) => detail === 'node 9: the shared store is available again'));
    assert.ok(cleared.at(-1).value > 0);
    assert.ok(receiver.requests.every(({ headers }) => headers['holdfast-signature']));
    assert.equal(done(await api.get('/v1/alerts/outage')).raised_count, 0);
    assert.match((await api.patch('/v1/alerts/outage', { queue: 'mail' })).json.detail, /queue must be \*/);
    assert.match(command('create', 'again', '--on', 'failover').stdout, /failover/);
    assert.match(command().stdout, /again +failover +\*/);
    api.close();
    await tube.close();
    await stopServer(server);
  });
});
