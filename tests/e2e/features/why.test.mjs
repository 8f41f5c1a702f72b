// SPDX-License-Identifier: Apache-2.0
// HF-5: GET /v1/jobs/{id}/why and `holdfast why`: each reason why a job is not running. store_away is in
// tests/e2e/stores/failover.test.mjs, and what other nodes know in tests/e2e/lib/node_cases.mjs.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { killServer, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue, onStores } from '../lib/suite.mjs';
import { startWork } from '../lib/worker.mjs';

const second = 1000;
const minute = 60 * second;
const hour = 60 * minute;

async function why(api, id) {
  const answer = await api.get(`/v1/jobs/${id}/why`);
  assert.equal(answer.status, 200, answer.text);
  return answer.json;
}
const codes = async (api, id) => (await why(api, id)).reasons.map((reason) => reason.code);

onStores('why (HF-5)', ['memory', 'sqlite'], { args: ['--test-clock'] }, (use) => {
  const now = async () => Date.parse((await use.api.get('/v1/test/clock')).json.now);
  const advance = (ms) => use.api.once('POST', '/v1/test/clock', { json: { advance_ms: ms } });
  const time = (ms) => new Date(ms).toISOString();
  /** Someone has just asked for jobs of the queue, and got none. */
  const ask = async (queue) => assert.deepEqual((await use.api.post(`/v1/queues/${queue}/claim`, {})).json.jobs, []);

  test('no_workers and behind: no claim is known, the last claim is recent, the last claim is old', async () => {
    const q = freshQueue();
    const a = await enqueue(use.api, q, { payload: 1 });
    const b = await enqueue(use.api, q, { payload: 2 });
    const c = await enqueue(use.api, q, { payload: 3, priority: 5 });
    const none = await why(use.api, b.id);
    assert.deepEqual(Object.keys(none), ['id', 'queue', 'state', 'reasons']);
    assert.deepEqual([none.id, none.queue, none.state], [b.id, q, 'ready']);
    assert.deepEqual(none.reasons.map((reason) => reason.code), ['no_workers', 'behind']);
    assert.match(none.reasons[0].detail, /^No claim is known that asked for jobs of the queue .* when this server started\.$/);
    assert.deepEqual(none.reasons[1], { code: 'behind', detail: '2 ready jobs come before it.', count: 2, exact: true });
    assert.deepEqual(await codes(use.api, c.id), ['no_workers']);
    const held = await claimOne(use.api, q);
    assert.equal(held.id, c.id);
    assert.deepEqual((await why(use.api, a.id)).reasons, [{ code: 'behind', detail: 'No ready job comes before it: the next claim of the queue can get it.', count: 0, exact: true }]);
    assert.deepEqual(await codes(use.api, b.id), ['behind']);
    await advance(minute + second);
    const late = await why(use.api, a.id);
    assert.equal(late.reasons[0].code, 'no_workers');
    assert.match(late.reasons[0].detail, /for (61|62) s; the last one did at \d{4}-/);
    assert.equal(late.expected_start, undefined);
  });

  test('no_workers: a claim that waits is a worker, also when it waits for longer than that', async () => {
    const q = freshQueue();
    const { id } = await enqueue(use.api, q, { payload: 1 });
    await use.api.post(`/v1/queues/${q}/pause`, {});
    assert.deepEqual(await codes(use.api, id), ['queue_paused', 'no_workers']);
    const other = new Client(use.server);
    const waiting = other.post(`/v1/queues/${q}/claim`, { wait_ms: minute });
    await until('it waits', async () => (await codes(use.api, id)).length === 1);
    await advance(10 * minute);
    assert.deepEqual(await codes(use.api, id), ['queue_paused']);
    await use.api.post(`/v1/queues/${q}/resume`, {});
    assert.equal((await waiting).json.jobs[0].id, id);
    other.close();
  });

  test('not_due, and when the job is expected to start', async () => {
    const q = freshQueue();
    const at = (await now()) + hour;
    const { id } = await enqueue(use.api, q, { payload: 1, run_at: time(at) });
    const seen = await why(use.api, id);
    assert.deepEqual(seen.reasons, [{ code: 'not_due', detail: `The job is scheduled for ${time(at)}.`, until: time(at) }]);
    assert.equal(seen.expected_start, time(at));
    await use.api.post(`/v1/queues/${q}/pause`, { until: time(at + hour) });
    const paused = await why(use.api, id);
    assert.deepEqual(paused.reasons.map((reason) => [reason.code, reason.until]), [['not_due', time(at)], ['queue_paused', time(at + hour)]]);
    assert.equal(paused.expected_start, time(at + hour));
    await use.api.post(`/v1/queues/${q}/pause`, {});
    assert.equal((await why(use.api, id)).expected_start, undefined);
  });

  test('retry_wait: after a failure and after a release', async () => {
    const q = freshQueue();
    await use.api.put(`/v1/queues/${q}`, { backoff_ms: [hour], max_attempts: 5 });
    const { id } = await enqueue(use.api, q, { payload: 1 });
    const job = await claimOne(use.api, q);
    const failed = (await use.api.post(`/v1/jobs/${id}/fail`, { token: job.token, error: 'no' })).json;
    const seen = await why(use.api, id);
    assert.equal(seen.state, 'scheduled');
    assert.deepEqual(seen.reasons, [{ code: 'retry_wait', detail: `The job waits until ${failed.run_at} for its next attempt: 1 has failed.`, until: failed.run_at }]);
    assert.equal(seen.expected_start, failed.run_at);
    const given = await enqueue(use.api, freshQueue(), { payload: 1 });
    const back = (await use.api.post('/v1/claim', { queues: [given.queue ?? (await use.api.get(`/v1/jobs/${given.id}`)).json.queue] })).json.jobs[0];
    await use.api.post(`/v1/jobs/${back.id}/release`, { token: back.token, delay_ms: minute });
    assert.deepEqual(await codes(use.api, back.id), ['retry_wait']);
  });

  test('queue_paused: without an end, with one, and afterwards', async () => {
    const q = freshQueue();
    const { id } = await enqueue(use.api, q, { payload: 1 });
    await ask(freshQueue());
    await use.api.post(`/v1/queues/${q}/pause`, {});
    await use.api.post(`/v1/queues/${q}/claim`, {});
    assert.deepEqual((await why(use.api, id)).reasons, [{ code: 'queue_paused', detail: `The queue ${q} is paused until it is resumed.` }]);
    const until = time((await now()) + 30 * second);
    await use.api.post(`/v1/queues/${q}/pause`, { until });
    const seen = await why(use.api, id);
    assert.deepEqual(seen.reasons, [{ code: 'queue_paused', detail: `The queue ${q} is paused until ${until}.`, until }]);
    assert.equal(seen.expected_start, until);
    await advance(31 * second);
    assert.deepEqual(await codes(use.api, id), ['behind']);
  });

  test('running: by which worker and until when; ended: since when and why', async () => {
    const q = freshQueue();
    const { id } = await enqueue(use.api, q, { payload: 1, max_attempts: 1 });
    const job = await claimOne(use.api, q, { worker: 'anna', lease_ms: minute });
    const { reasons: [reason], ...seen } = await why(use.api, id);
    assert.deepEqual([seen.state, reason.code, reason.by], ['running', 'running', 'anna']);
    assert.equal(reason.until, (await use.api.get(`/v1/jobs/${id}`)).json.lease_until);
    assert.match(reason.detail, /^The worker anna runs the job, attempt 1; its lease ends at .* unless it is extended\.$/);
    await use.api.post(`/v1/jobs/${id}/fail`, { token: job.token, error: 'no' });
    const { reasons: [end] } = await why(use.api, id);
    assert.equal(end.code, 'ended');
    assert.match(end.detail, /^The job has been dead since .*, reason failed\.$/);
  });

  test('queue_limit, group_limit and claim_rate', async () => {
    const q = freshQueue();
    const made = await use.api.put(`/v1/queues/${q}`, { max_running: 2, max_running_per_group: 1, lease_ms: hour });
    assert.equal(made.status, 201, made.text);
    const ids = [];
    for (const group of ['a', 'a', 'b', 'c']) ids.push((await enqueue(use.api, q, { payload: 1, group })).id);
    const [first] = (await use.api.post(`/v1/queues/${q}/claim`, { lease_ms: hour })).json.jobs;
    assert.equal(first.id, ids[0]);
    const group = await why(use.api, ids[1]);
    assert.deepEqual(group.reasons.map((reason) => reason.code), ['group_limit', 'behind']);
    assert.match(group.reasons[1].detail, /^No ready job of its group comes before it\. 3 jobs of the queue are ready, and its groups share it\.$/);
    assert.deepEqual(await codes(use.api, ids[2]), ['behind']);
    await use.api.post(`/v1/queues/${q}/claim`, { lease_ms: hour });
    assert.deepEqual((await codes(use.api, ids[1])).slice(0, 2), ['queue_limit', 'group_limit']);
    const full = await why(use.api, ids[3]);
    assert.equal(full.reasons[0].code, 'queue_limit');
    assert.equal(full.reasons[0].detail, `Running jobs of the queue ${q}: 2; its max_running is 2.`);
    assert.equal(full.expected_start, undefined);

    const rated = freshQueue();
    await use.api.put(`/v1/queues/${rated}`, { claim_rate: { count: 1, window_ms: 10 * minute, per: 'queue' } });
    const one = await enqueue(use.api, rated, { payload: 1 });
    const two = await enqueue(use.api, rated, { payload: 1 });
    assert.equal((await claimOne(use.api, rated)).id, one.id);
    const next = time((await now()) + 10 * minute);
    const seen = await why(use.api, two.id);
    assert.deepEqual(seen.reasons, [{ code: 'claim_rate', detail: `The claim_rate of the queue ${rated} lets the next job start at ${next}.`, until: next }]);
    assert.equal(seen.expected_start, next);
  });

  test('depends_on: each of the first ten jobs for which it waits', async () => {
    const q = freshQueue();
    const parents = [];
    for (let i = 0; i < 12; i++) parents.push((await enqueue(use.api, q, { payload: i })).id);
    const child = await enqueue(use.api, freshQueue(), { payload: 1, depends_on: parents });
    const seen = await why(use.api, child.id);
    assert.equal(seen.state, 'blocked');
    assert.ok(seen.reasons.every((reason) => reason.code === 'depends_on'));
    assert.equal(seen.reasons.length, 11);
    assert.equal(new Set(seen.reasons.map((reason) => reason.by)).size, 11);
    for (const reason of seen.reasons.slice(0, 10)) assert.ok(parents.includes(reason.by), reason.detail);
    assert.equal(seen.reasons[10].detail, 'The job waits for 2 more jobs that have not ended.');
    for (const id of parents.slice(1)) await use.api.post(`/v1/jobs/${id}/cancel`);
    const failed = await until('the child was cancelled', async () => {
      const answer = await why(use.api, child.id);
      return answer.state === 'cancelled' && answer;
    });
    assert.match(failed.reasons[0].detail, /reason dependency_failed\.$/);
  });

  test('held_by_trigger: an item of a schedule with a source queue', async () => {
    const [items, work, name] = [freshQueue('items'), freshQueue('work'), freshQueue('t')];
    const { id } = await enqueue(use.api, items, { payload: 1 });
    assert.equal((await use.api.put(`/v1/schedules/${name}`, { source_queue: items, queue: work })).status, 201);
    await advance(30 * second);
    const job = await claimOne(use.api, work);
    assert.equal(job.payload.items[0].id, id);
    const { reasons } = await why(use.api, id);
    assert.deepEqual(reasons, [{ code: 'held_by_trigger', detail: `The job ${job.id}, which a schedule has created, holds this one until it ends.`, by: job.id }]);
    await use.api.delete(`/v1/schedules/${name}`);
  });

  test('breaker_open: a worker of the queue consults a breaker that is open', async () => {
    const [q, other, breaker] = [freshQueue(), freshQueue(), freshQueue('breaker')];
    await use.api.put(`/v1/breakers/${breaker}`, { failure_threshold: 1, open_cooldown_seconds: 600 });
    const { id } = await enqueue(use.api, q, { payload: 1 });
    const elsewhere = await enqueue(use.api, other, { payload: 1 });
    const allow = async (queues) => (await use.api.post(`/v1/breakers/${breaker}/allow`, { queues })).json.allowed;
    assert.equal(await allow([q]), true);
    assert.deepEqual(await codes(use.api, id), ['no_workers']);
    await use.api.post(`/v1/breakers/${breaker}/report`, { ok: false });
    assert.equal(await allow([q]), false);
    const { until: end } = (await use.api.get(`/v1/breakers/${breaker}`)).json;
    const seen = await why(use.api, id);
    assert.deepEqual(seen.reasons, [
      { code: 'breaker_open', detail: `The breaker ${breaker} is open until ${end}: workers that consult it claim nothing until then.`, until: end, by: breaker },
    ]);
    assert.equal(seen.expected_start, end);
    assert.deepEqual(await codes(use.api, elsewhere.id), ['no_workers']);
    await advance(10 * minute + second);
    assert.deepEqual(await codes(use.api, id), ['no_workers']); // the next allow is a probe
    const wrong = await use.api.post(`/v1/breakers/${breaker}/allow`, { queues: ['x'.repeat(201)] });
    assert.deepEqual([wrong.status, wrong.json.field], [422, 'queues']);
  });

  test('breaker_open: `holdfast work --breaker` names its queues', async () => {
    const [q, breaker] = [freshQueue(), freshQueue('breaker')];
    await use.api.put(`/v1/breakers/${breaker}`, { failure_threshold: 1, open_cooldown_seconds: 3600 });
    await use.api.post(`/v1/breakers/${breaker}/report`, { ok: false });
    const { id } = await enqueue(use.api, q, { payload: 1 });
    const runner = startWork(use.server, [freshQueue(), q, '--breaker', breaker, '--', 'true']);
    await runner.logged(/info breaker_open/);
    const { reasons: [reason] } = await why(use.api, id);
    assert.deepEqual([reason.code, reason.by], ['breaker_open', breaker]);
    await runner.stop();
  });

  /** The metric holdfast_queue_waiting of a queue: reason → count. */
  async function waiting(queue) {
    await advance(second); // a large page is kept for this long
    const { text } = await use.api.get('/metrics');
    const samples = text.matchAll(new RegExp(`^holdfast_queue_waiting\\{queue="${queue}",reason="([a-z_]+)"\\} (\\d+)$`, 'gm'));
    return Object.fromEntries(Array.from(samples, ([, reason, count]) => [reason, Number(count)]));
  }

  /** The metric, the view of the queue, the reasons of its jobs and the table of `holdfast queues` say the same. */
  async function agree(queue, ids, expected) {
    const counts = await waiting(queue);
    assert.deepEqual(counts, expected);
    const view = (await use.api.get(`/v1/queues/${queue}`)).json;
    const ready = view.counts.ready;
    assert.equal(counts.depends_on, view.counts.blocked);
    assert.equal(counts.not_due, view.counts.scheduled);
    assert.equal(counts.queue_paused, view.paused ? ready : 0);
    if (!view.paused) for (const [limit, count] of Object.entries(view.limited ?? {})) assert.equal(counts[limit], count, limit);
    const first = { retry_wait: 'not_due', no_workers: 'behind', breaker_open: 'behind' };
    const seen = Object.fromEntries(Object.keys(expected).map((code) => [code, 0]));
    for (const id of ids) {
      const { state, reasons } = await why(use.api, id);
      if (state === 'running') continue;
      const known = reasons.map(({ code }) => code).filter((code) => code !== 'no_workers');
      seen[first[known[0]] ?? known[0] ?? 'behind'] += 1;
    }
    assert.deepEqual(seen, expected);
    const { stdout } = await run(['queues', '--server', use.server.url]);
    const line = stdout.split('\n').find((one) => one.startsWith(`${queue} `));
    const [, ...row] = line.trim().split(/\s+/);
    assert.deepEqual(row.slice(0, 4).map(Number), [ready, counts.not_due, counts.depends_on, view.counts.running]);
    assert.equal(/ paused(,|$)/.test(line.trimEnd()), view.paused);
    for (const [limit, count] of Object.entries(view.limited ?? {})) assert.equal(line.includes(`${limit}: ${count}`), count > 0, line);
  }

  test('how many jobs of a queue wait, by reason: metric, view, table and each job agree', async () => {
    const q = freshQueue();
    const ids = [];
    const add = async (body) => ids.push((await enqueue(use.api, q, { payload: 1, ...body })).id);
    await add({});
    await add({ depends_on: [ids[0]] });
    await add({ depends_on: [ids[0]] });
    await add({ delay_ms: hour });
    for (let i = 0; i < 3; i++) await add({});
    const failed = await claimOne(use.api, q);
    await use.api.post(`/v1/jobs/${failed.id}/fail`, { token: failed.token, delay_ms: hour });
    const none = { depends_on: 2, not_due: 2, queue_paused: 0 };
    await agree(q, ids, { ...none, behind: 3 });
    await use.api.post(`/v1/queues/${q}/pause`, {});
    await agree(q, ids, { ...none, queue_paused: 3, behind: 0 });
    await use.api.post(`/v1/queues/${q}/resume`, {});
    await agree(q, ids, { ...none, behind: 3 });
  });

  test('how many jobs of a queue with limits wait, by reason', async () => {
    const q = freshQueue();
    const made = await use.api.put(`/v1/queues/${q}`, { max_running: 2, max_running_per_group: 1, lease_ms: hour });
    assert.equal(made.status, 201, made.text);
    const ids = [];
    for (const group of ['a', 'a', 'a', 'b', 'c']) ids.push((await enqueue(use.api, q, { payload: 1, group })).id);
    const none = { depends_on: 0, not_due: 0, queue_paused: 0, queue_limit: 0, group_limit: 0, claim_rate: 0, behind: 0 };
    await agree(q, ids, { ...none, behind: 5 });
    await claimOne(use.api, q);
    await agree(q, ids, { ...none, group_limit: 2, behind: 2 });
    await claimOne(use.api, q);
    await agree(q, ids, { ...none, queue_limit: 3 });
    await use.api.post(`/v1/queues/${q}/pause`, {});
    await agree(q, ids, { ...none, queue_paused: 3 });

    const rated = freshQueue();
    await use.api.put(`/v1/queues/${rated}`, { claim_rate: { count: 1, window_ms: 10 * minute, per: 'queue' } });
    const some = [await enqueue(use.api, rated, { payload: 1 }), await enqueue(use.api, rated, { payload: 1 })];
    await claimOne(use.api, rated);
    await agree(rated, some.map((job) => job.id), { ...none, claim_rate: 1 });
  });

  test('what is not a job is refused, and every spelling of an id is understood', async () => {
    const { id, seq } = await enqueue(use.api, freshQueue(), { payload: 1 });
    const { uuid } = (await use.api.get(`/v1/jobs/${id}`)).json;
    for (const name of [id, seq, uuid]) assert.equal((await why(use.api, name)).id, id);
    assert.equal((await use.api.get('/v1/jobs/9007199254740991/why')).json.code, 'not_found');
    assert.equal((await use.api.get('/v1/jobs/what/why')).json.code, 'invalid_id');
    assert.equal((await use.api.get(`/v1/jobs/${id}/why?x=1`)).status, 422);
    assert.equal((await use.api.post(`/v1/jobs/${id}/why`)).status, 405);
  });

  test('`holdfast why` prints sentences, and with --json the reply', async () => {
    const q = freshQueue();
    const at = time((await now()) + hour);
    const { id } = await enqueue(use.api, q, { payload: 1, run_at: at });
    const said = await run(['why', id, '--server', use.server.url]);
    assert.deepEqual([said.code, said.stdout], [0, `The job ${id} of the queue ${q} is scheduled.\n1. The job is scheduled for ${at}. (not_due)\nIt is expected to start at ${at}.\n`]);
    const json = await run(['why', id, '--json', '--server', use.server.url]);
    assert.deepEqual(JSON.parse(json.stdout), await why(use.api, id));
    assert.equal((await run(['why', '9007199254740991', '--server', use.server.url])).code, 1);
    assert.equal((await run(['why', '--server', use.server.url])).code, 2);
  });
});

describe('why (HF-5)', () => {
  test('after kill -9 and a restart the reasons that the store knows are the same', async () => {
    const data = temporaryDirectory();
    let server = await startServer({ data });
    let api = new Client(server);
    const q = freshQueue();
    await enqueue(api, q, { payload: 1 });
    const last = await enqueue(api, q, { payload: 2 });
    const later = await enqueue(api, q, { payload: 3, delay_ms: hour });
    await api.post(`/v1/queues/${q}/pause`, {});
    const before = [(await why(api, last.id)).reasons.at(-1), await why(api, later.id)];
    api.close();
    await killServer(server);
    server = await startServer({ data });
    api = new Client(server);
    assert.deepEqual([(await why(api, last.id)).reasons.at(-1), await why(api, later.id)], before);
    assert.deepEqual(await codes(api, last.id), ['queue_paused', 'no_workers', 'behind']);
    api.close();
    await stopServer(server);
  });
});
