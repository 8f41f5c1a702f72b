// SPDX-License-Identifier: Apache-2.0
// Export and import: all fields of a job are transferred, once; incomplete and invalid files are reported; the export of
// a damaged store contains what can be read, and does not change the store.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, cpSync, existsSync, mkdirSync, openSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { killServer, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, freshQueue } from '../lib/suite.mjs';

const DONE = 0, REFUSED = 1, USAGE = 2, UNREACHABLE = 3;
const cli = (server, args, options = {}) => run(args, { ...options, env: { HOLDFAST_SERVER: server.url, ...options.env } });
const ended = (result, code) => assert.equal(result.code, code, `${result.stdout.slice(0, 2000)}\n${result.stderr}`);
const linesOf = (text) => text.trimEnd().split('\n').map((line) => JSON.parse(line));
const jobsOf = (text) => linesOf(text).filter((line) => line.job).map((line) => line.job);
const endOf = (text) => linesOf(text).at(-1).end;

async function exported(server, args = []) {
  const result = await cli(server, ['export', ...args]);
  ended(result, DONE);
  return result.stdout;
}
const imported = (server, text, args = []) => cli(server, ['import', ...args], { input: text });
const summary = (result) => result.stdout.trim().match(/^(\d+) imported, (\d+) already present, (\d+) skipped .*, (\d+) lines refused/)?.slice(1).map(Number);

/** The bytes of the next payload of a queue, as a worker receives them. */
async function payloadOf(api, queue) {
  const answer = await api.post(`/v1/queues/${queue}/claim`, {}, { headers: { accept: 'application/octet-stream' } });
  assert.equal(answer.status, 200, answer.text);
  return answer.raw;
}

describe('export and import', () => {
  let from, to, a, b;
  before(async () => {
    [from, to] = await Promise.all([startServer(), startServer()]);
    [a, b] = [new Client(from), new Client(to)];
  });
  after(async () => {
    a.close();
    b.close();
    await stopServer(from);
    await stopServer(to);
  });
  const put = async (queue, body, headers = {}) => {
    const answer = await a.request('POST', `/v1/queues/${encodeURIComponent(queue)}/jobs`, { body, headers: { 'content-type': 'application/json', ...headers } });
    assert.equal(answer.status, 201, answer.text);
    return answer.json;
  };
  const list = async (api, queue) => (await api.get(`/v1/jobs?queue=${encodeURIComponent(queue)}`)).json.jobs;

  test('alert rules are transferred, secrets are not', async () => {
    const [loud, quiet] = [freshQueue('loud'), freshQueue('quiet')];
    const webhook = { url: 'https://hooks.example.com/in', secret: 'top s3cret' };
    assert.equal((await a.put(`/v1/alerts/${loud}`, { on: 'error_share', queue: `${loud}*`, percent: 40, window_ms: 90_000, min_ends: 7, webhook })).status, 201);
    assert.equal((await a.put(`/v1/alerts/${quiet}`, { on: 'dead', queue: quiet, with_payload: true, enabled: false })).status, 201);
    const text = await exported(from);
    assert.ok(!text.includes('s3cret'));
    assert.equal(linesOf(text)[0].secrets, false);
    const rules = linesOf(text).filter((line) => line.alert).map((line) => line.alert);
    assert.deepEqual(rules, [
      { name: loud, on: 'error_share', queue: `${loud}*`, enabled: true, percent: 40, window_ms: 90_000, min_ends: 7, webhook: { url: webhook.url, signed: true } },
      { name: quiet, on: 'dead', queue: quiet, enabled: false, with_payload: true },
    ]);
    assert.equal(endOf(text).alerts, 2);
    assert.equal(linesOf(await exported(from, ['--queue', loud]).catch(() => '{}')).some((line) => line.alert), false);

    const only = (line) => line.holdfast || line.alert || line.end;
    const file = (map = (line) => line) => `${linesOf(text).filter(only).map(map).map((line) => JSON.stringify(line.end ? { end: { queues: 0, jobs: 0, alerts: 2 } } : line)).join('\n')}\n`;
    const result = await imported(to, file());
    ended(result, DONE);
    assert.match(result.stderr, new RegExp(`alert rule ${loud} was signed .* disabled until it has a secret`));
    assert.match(result.stdout, /alert rules: 2 created, 0 kept/);
    const there = async (name) => (await b.get(`/v1/alerts/${name}`)).json;
    assert.deepEqual([(await there(loud)).enabled, (await there(loud)).webhook.secret, (await there(loud)).percent], [false, 'not set', 40]);
    assert.deepEqual([(await there(quiet)).enabled, (await there(quiet)).with_payload, (await there(quiet)).webhook], [false, true, null]);
    assert.match((await imported(to, file())).stdout, /alert rules: 0 created, 2 kept/);

    // With the secret put into the file the rule is as it was.
    assert.equal((await b.delete(`/v1/alerts/${loud}`)).status, 200);
    const signed = file((line) => (line.alert?.webhook ? { alert: { ...line.alert, webhook: { ...line.alert.webhook, secret: 'top s3cret' } } } : line));
    const second = await imported(to, signed);
    ended(second, DONE);
    assert.doesNotMatch(second.stderr, /is disabled until/);
    assert.deepEqual([(await there(loud)).enabled, (await there(loud)).webhook.secret], [true, 'set']);

    // A rule that the server refuses is a refused line; the rest is imported.
    const wrong = file((line) => (line.alert?.name === loud ? { alert: { ...line.alert, name: `${loud}-2`, on: 'nothing' } } : line));
    const third = await imported(to, wrong);
    ended(third, REFUSED);
    assert.match(third.stderr, /line 2: the alert rule is not imported/);
    for (const [api, names] of [[a, [loud, quiet]], [b, [loud, quiet]]]) for (const name of names) assert.equal((await api.delete(`/v1/alerts/${name}`)).status, 200);
  });

  test('every field is transferred', async () => {
    const q = freshQueue('all ü');
    const policy = { lease_ms: 5000, max_attempts: 4, backoff_ms: [7, 70], unique_mode: 'return', capacity: null, keep_dead: null, warn_depth: 9, description: 'für Aufträge' };
    assert.equal((await a.put(`/v1/queues/${encodeURIComponent(q)}`, policy)).status, 201);
    const job = {
      payload: { deep: [1, 2] }, priority: -5, run_at: '2099-01-31T12:00:00.000Z', expires_at: '2100-01-31T12:00:00.000Z', unique: 'k/ü', group: 'g', correlation_id: 'c-1',
      priority_label: 'blue', max_attempts: 3, max_crashes: 2, lease_ms: 1234, backoff: { type: 'exponential', base_ms: 5, max_ms: 50, jitter_percent: 0 },
    };
    const old = await put(q, JSON.stringify(job));
    const text = await exported(from, ['--queue', q]);
    const [head, queue, line] = linesOf(text);
    assert.deepEqual([head.holdfast, head.version, queue.queue.name, line.job.id, line.job.seq], ['export', 1, q, old.id, old.seq]);
    assert.deepEqual(endOf(text), { queues: 1, jobs: 1 });
    const result = await imported(to, text);
    ended(result, DONE);
    assert.deepEqual(summary(result), [1, 0, 0, 0]);

    const strip = ({ created_at, updated_at, counts, oldest_ready_ms, next_due, ...rest }) => rest;
    const [qa, qb] = await Promise.all([a, b].map(async (api) => (await api.get(`/v1/queues/${encodeURIComponent(q)}`)).json));
    assert.deepEqual(strip(qb), strip(qa));
    const [ja] = await list(a, q), [jb] = await list(b, q);
    const same = ({ id, seq, uuid, state_since, created_at, attributes, ...rest }) => rest;
    assert.deepEqual(same(jb), same(ja));
    assert.deepEqual(jb.attributes, { imported_from: old.id });
    for (const [name, value] of Object.entries(job)) assert.deepEqual(jb[name], value, name);
  });

  test('TF-1 TF-9 tasks: each kind of export shows the priority that was given; an import keeps it, and the order', async (t) => {
    const source = await startServer();
    const api = new Client(source);
    t.after(() => api.close());
    t.after(() => killServer(source).catch(() => {}));
    const create = async (payload, more) => {
      const answer = await api.post('/api/tasks', { name: 'n', payload, ...more });
      assert.equal(answer.status, 201, answer.text);
      return answer.json;
    };
    const now = Date.now();
    const after = (ms) => new Date(now + ms).toISOString();
    await create('retried');
    await create('due later', { scheduled_at: after(300) });
    await create('plain');
    await create('earliest', { scheduled_at: after(-60_000) });
    await create('urgent', { priority: 'high' });
    await create('far', { priority: 'high', scheduled_at: '2099-01-31T12:00:00.000Z' });
    const claim = async (from) => {
      const { status, text, json } = await from.post('/api/tasks/claim', { priority: 'low', count: 100 });
      assert.equal(status, 200, text);
      return json.tasks;
    };
    const states = async () => (await api.get('/v1/jobs?queue=tasks.low')).json.jobs.map((job) => job.state);
    await until('all that are soon due are ready', async () => (await states()).every((state) => state === 'ready'));
    await create('newest');
    const held = await claim(api);
    for (const task of held) assert.equal((await api.post(`/api/tasks/${task.id}/fail`, { token: task.token, error: 'again' })).status, 200);
    const order = held.map((task) => task.payload);
    assert.deepEqual([order.length, order[0], order.at(-1)], [5, 'earliest', 'newest']);

    const online = await exported(source);
    await killServer(source);
    const offline = await run(['export', '--data', source.data]);
    ended(offline, DONE);
    const byId = (text) => jobsOf(text).sort((x, y) => x.seq - y.seq);
    assert.deepEqual(byId(offline.stdout), byId(online));
    const shown = Object.fromEntries(byId(online).map((job) => [job.payload, job]));
    for (const [payload, job] of Object.entries(shown)) assert.equal(job.priority, ['urgent', 'far'].includes(payload) ? 10 : -10, payload);

    for (const text of [online, offline.stdout]) {
      const target = await startServer({ backend: 'memory' });
      const there = new Client(target);
      t.after(() => stopServer(target));
      t.after(() => there.close());
      const result = await imported(target, text);
      ended(result, DONE);
      assert.deepEqual(summary(result), [7, 0, 0, 0]);
      const { jobs } = (await there.get('/v1/jobs')).json;
      for (const job of jobs) assert.deepEqual([job.priority, job.priority_label, job.due_at], [shown[job.payload].priority, shown[job.payload].priority_label, shown[job.payload].due_at], job.payload);
      assert.equal((await there.get('/api/tasks?priority=high')).json.length, 2);
      assert.deepEqual((await claim(there)).map((task) => task.payload), order);
    }
  });

  test('KV-10 HF-16 keys, owners and the data that APIs keep about their queues are transferred, from a server and from its store', async (t) => {
    const source = await startServer();
    const target = await startServer({ backend: 'memory' });
    const [one, two] = [new Client(source), new Client(target)];
    t.after(() => [one, two].forEach((api) => api.close()));
    t.after(() => stopServer(target));
    t.after(() => killServer(source).catch(() => {}));
    // Queues of APIs, a trigger, and keys of every kind of part and value.
    const orc = (await one.post('/api/queues', { name: 'orders', description: 'd', max_retries: 2 })).json;
    await one.post('/keyval/api/queue/enqueue', { value: 1, options: { queue: 'messages' } });
    const trigger = (await one.post('/api/triggers', { name: 'take', type: 'QUEUE', queue_id: orc.id, target_queue: 'work' })).json;
    const keys = [[true, 'a'], [1], [-2.5, 'x'], ['a'], ['a', 'b'], ['ü', 0], ['line'], ['big'], ['null'], ['later']];
    const values = { big: '12345678901234567890123', line: '{ "a" :\n [1, 2]\r\n}', null: 'null' };
    const set = async (list) => {
      const body = `{"sets":[${list.map((key) => `{"key":${JSON.stringify(key)},"value":${values[key[0]] ?? JSON.stringify(key)}${key[0] === 'later' ? ',"expires_in_ms":3600000' : ''}}`).join(',')}]}`;
      const answer = await one.request('POST', '/v1/kv/commit', { body, headers: { 'content-type': 'application/json' } });
      assert.equal(answer.status, 200, answer.text);
    };
    await set([...keys, ['gone']]);
    await one.post('/v1/kv/commit', { deletes: [['gone']] });
    // The payloads of dead jobs, text and bytes.
    for (const [name, payload] of [['text', { payload_text: 'plain\ntext' }], ['bytes', { payload_base64: 'AP8B' }], ['json', { payload: [1] }], ['none', {}]]) {
      await one.post('/v1/import', [{ id: name, queue: 'dying', state: 'ready', max_attempts: 1, keys_if_undelivered: [['dead', name]], ...payload }]);
      const job = await claimOne(one, 'dying');
      await one.post(`/v1/jobs/${job.id}/fail`, { token: job.token });
    }
    await one.post('/v1/kv/commit', { sets: [{ key: ['said'], value_text: 'ä\n' }, { key: ['raw'], value_base64: 'AP8B' }] });
    const all = async (api) => {
      const found = [];
      for (let cursor = ''; ; ) {
        const page = (await api.get(`/v1/kv?limit=3${cursor}`)).json;
        found.push(...page.keys.map(({ version, ...rest }) => rest));
        if (!page.next_cursor) return found;
        cursor = `&cursor=${encodeURIComponent(page.next_cursor)}`;
      }
    };
    const before = await all(one);
    const text = await exported(source);
    assert.ok(before.length >= keys.length + 2);
    assert.equal(endOf(text).keys, before.length);
    const kinds = linesOf(text).map((line) => Object.keys(line)[0]);
    assert.ok(kinds.lastIndexOf('kv') < kinds.indexOf('job'), 'keys come before the jobs that may look for them');
    assert.ok(!(await exported(source, ['--queue', 'orders'])).includes('"kv"'));

    const result = await imported(target, text);
    ended(result, DONE);
    assert.match(result.stdout, new RegExp(`^keys: ${before.length} created, 0 kept$`, 'm'));
    assert.deepEqual(await all(two), before);
    for (const name of ['line', 'big']) assert.ok((await two.get(`/v1/kv/keys/${name}`)).text.includes(`"value":${values[name]}}`), 'byte by byte');
    for (const queue of ['orders', 'messages', 'dying']) {
      const [was, is] = await Promise.all([one, two].map(async (api) => (await api.get(`/v1/queues/${queue}`)).json));
      assert.deepEqual([is.owner, is.attributes, is.description], [was.owner, was.attributes, was.description]);
    }
    const moved = (await two.get('/api/queues')).json.find((queue) => queue.name === 'orders');
    assert.deepEqual([moved.external_id, moved.max_retries, moved.description], [orc.external_id, 2, 'd'], 'the API knows its queue again');
    const triggers = (await two.get('/api/triggers')).json;
    assert.deepEqual(triggers.map((other) => [other.name, other.queue_id, other.target_queue]), [[trigger.name, moved.id, 'work']]);
    assert.equal((await two.get('/v1/queues/messages')).json.owner, 'keyval');

    // A second import changes nothing, also not what was changed since.
    await two.put('/v1/kv/keys/a', 'mine');
    const again = await imported(target, text);
    ended(again, DONE);
    assert.match(again.stdout, new RegExp(`^keys: 0 created, ${before.length} kept$`, 'm'));
    assert.equal((await two.get('/v1/kv/keys/a')).json.value, 'mine');
    // Invalid lines are reported, and the rest is imported.
    const wrong = text.replace('{"kv":{"key":["ü",0]', '{"kv":{"key":[]').replace('{"kv":{"key":["raw"]', '{"kv":{"kee":["raw"]').replace('{"kv":{"key":["big"]', '{"kv":{"key":["fresh"]');
    const refused = await imported(target, wrong);
    ended(refused, REFUSED);
    assert.equal(summary(refused)[3], 2, refused.stderr);
    assert.equal((await two.get('/v1/kv/keys/fresh')).status, 200);
    const short = await imported(target, text.replace(/\{"kv":\{"key":\["big"\].*\n/, ''));
    ended(short, REFUSED);
    assert.match(short.stderr, /lines are missing/);

    // The same from the store: with a journal that was not applied, and after a clean stop.
    one.close();
    await killServer(source);
    const withoutHead = (lines) => lines.slice(lines.indexOf('\n') + 1);
    for (let round = 0; round < 2; round++) {
      const offline = await run(['export', '--data', source.data]);
      ended(offline, DONE);
      const of = (from, kinds) => withoutHead(from).split('\n').filter((line) => kinds.test(line));
      assert.deepEqual(of(offline.stdout, /^\{"(kv|schedule|end)"/), of(text, /^\{"(kv|schedule|end)"/));
      assert.deepEqual(of(offline.stdout, /^\{"queue"/).sort(), of(text, /^\{"queue"/).sort());
      if (round === 0) await stopServer(await startServer({ data: source.data }));
    }
  });

  test('payloads are transferred byte for byte', async () => {
    const bytes = Buffer.from(Array.from({ length: 512 }, (_, i) => (i * 7) % 256));
    const payloads = [
      ['{"n": 12345678901234567890123, "x":1.0e+2,  "s":"\\u00fc\\ud800"}', true],
      ['{\n  "pretty": [1,\r\n 2]\n}', true],
      ['null', true],
      [JSON.stringify('ü📦'.repeat(1000)), true],
      [`[${'['.repeat(125)}${']'.repeat(125)}]`, true],
      [JSON.stringify('x'.repeat((1 << 20) - 2)), true],
      [bytes, false],
      [Buffer.from('plain text, ü\r\n\twith lines\n'), false],
      [Buffer.alloc(0), false],
      [Buffer.alloc(1 << 20, 0xfe), false],
      [null, true],
    ];
    const q = freshQueue('bytes');
    for (const [payload, isJson] of payloads) {
      if (payload === null) await put(q, '{}');
      else if (isJson) await put(q, `{"payload":${payload}}`);
      else await put(q, payload, { 'content-type': 'application/octet-stream' });
    }
    const text = await exported(from, ['--queue', q]);
    assert.equal(jobsOf(text).length, payloads.length);
    ended(await imported(to, text), DONE);
    for (const [payload] of payloads) {
      const expected = payload === null ? Buffer.alloc(0) : Buffer.from(payload);
      for (const api of [a, b]) {
        const got = await payloadOf(api, q);
        assert.ok(got.equals(expected), `${expected.subarray(0, 60)} became ${got.subarray(0, 60)}`);
      }
    }
  });

  test('a dead job stays dead, counts continue, running jobs become ready', async () => {
    const q = freshQueue('outcomes');
    await a.put(`/v1/queues/${q}`, { max_attempts: 2, backoff_ms: [0] });
    const dead = await put(q, '{"payload":1}');
    for (let i = 0; i < 2; i++) {
      const job = await claimOne(a, q);
      await a.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: `no ${i}: ü`, error_kind: 'business' });
    }
    await put(q, '{"payload":2}');
    const tried = await claimOne(a, q);
    await a.post(`/v1/jobs/${tried.id}/fail`, { token: tried.token, error: 'once', delay_ms: 3600_000 });
    await put(q, '{"payload":3}');
    await claimOne(a, q, { lease_ms: 3600_000 });
    await put(q, '{"payload":4}');
    const acked = await claimOne(a, q);
    await a.post(`/v1/jobs/${acked.id}/ack`, { token: acked.token, result: { ok: true } });
    const cancelled = await put(q, '{"payload":5}');
    await a.post(`/v1/jobs/${cancelled.id}/cancel`);

    const usual = jobsOf(await exported(from, ['--queue', q]));
    assert.deepEqual(usual.map((job) => job.state), ['dead', 'scheduled', 'running']);
    assert.deepEqual(jobsOf(await exported(from, ['--queue', q, '--state', 'dead'])).map((job) => job.id), [dead.id]);
    const text = await exported(from, ['--queue', q, '--all']);
    assert.deepEqual(jobsOf(text).find((job) => job.state === 'done').result, { ok: true });
    const result = await imported(to, text);
    ended(result, DONE);
    assert.deepEqual(summary(result), [3, 0, 2, 0]);

    const jobs = await list(b, q);
    const told = ({ state, reason, failures, crashes, error, error_kind, payload }) => ({ state, reason, failures, crashes, error, error_kind, payload });
    const before = await list(a, q);
    assert.deepEqual(told(jobs[0]), told(before[0]));
    assert.deepEqual([jobs[0].state, jobs[0].error, jobs[0].error_kind, jobs[0].failures], ['dead', 'no 1: ü', 'business', 2]);
    assert.deepEqual(told(jobs[1]), told(before[1]));
    assert.equal(jobs[1].run_at, before[1].run_at);
    assert.deepEqual([jobs[2].state, jobs[2].payload], ['ready', 3]);
    assert.equal((await b.get(`/v1/jobs/${jobs[0].id}`)).json.history.length, 0); // no attempt was made here
    assert.equal((await b.post(`/v1/jobs/${jobs[0].id}/requeue`)).status, 200);
  });

  test('a file that is imported twice creates no second job', async () => {
    const q = freshQueue('twice');
    for (let i = 0; i < 30; i++) await put(q, `{"payload":${i}}`);
    const text = await exported(from, ['--queue', q]);
    assert.deepEqual(summary(await imported(to, text)), [30, 0, 0, 0]);
    const again = await imported(to, text);
    ended(again, DONE);
    assert.deepEqual(summary(again), [0, 30, 0, 0]);
    assert.equal((await list(b, q)).length, 30);
    // The same job, later: it is still the same job. Another payload under the id is not.
    const changed = text.replace('"failures":0', '"failures":3').replace('"payload":7', '"payload":77');
    const third = await imported(to, changed);
    ended(third, REFUSED);
    assert.deepEqual(summary(third), [0, 29, 0, 1]);
    assert.match(third.stderr, /^holdfast: line 10: a job of this id was imported before/m);
  });

  test('existing queues keep their policy unless requested otherwise; a paused one stays paused', async () => {
    const q = freshQueue('policy'), fresh = freshQueue('paused');
    await a.put(`/v1/queues/${q}`, { lease_ms: 7000 });
    await a.put(`/v1/queues/${fresh}`, { refuse_new: true });
    await a.post(`/v1/queues/${fresh}/pause`, {});
    await b.put(`/v1/queues/${q}`, { lease_ms: 9000 });
    const text = await exported(from, ['-q', q, '-q', fresh]);
    const lease = async () => (await b.get(`/v1/queues/${q}`)).json.policy.lease_ms;
    const first = await imported(to, text);
    ended(first, DONE);
    assert.match(first.stdout, /queues: 1 created, 0 changed, 1 kept/);
    assert.equal(await lease(), 9000);
    assert.equal((await b.get(`/v1/queues/${fresh}`)).json.paused, true);
    const second = await imported(to, text, ['--update-queues']);
    assert.match(second.stdout, /queues: 0 created, 2 changed, 0 kept/);
    assert.equal(await lease(), 7000);
  });

  test('more jobs than one page and one batch, in order', async () => {
    const q = freshQueue('many');
    for (let i = 0; i < 3; i++) {
      const answer = await a.post(`/v1/queues/${q}/jobs`, Array.from({ length: 900 }, (_, n) => ({ payload: i * 900 + n })));
      assert.equal(answer.status, 200);
    }
    const file = path.join(temporaryDirectory(), 'export');
    ended(await cli(from, ['export', '--queue', q, '--output', file]), DONE);
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.deepEqual(jobsOf(readFileSync(file, 'utf8')).map((job) => job.payload), Array.from({ length: 2700 }, (_, n) => n));
    const result = await cli(to, ['import', file, '--json']);
    ended(result, DONE);
    assert.equal(JSON.parse(result.stdout).imported, 2700);
    const jobs = await claimOne(b, q);
    assert.equal(jobs.payload, 0);
  });

  test('an output file appears when it is complete, and does not replace a file by accident', async () => {
    const q = freshQueue('output'), file = path.join(temporaryDirectory(), 'out.ndjson');
    await put(q, '{}');
    writeFileSync(file, 'mine');
    const refused = await cli(from, ['export', '--output', file]);
    ended(refused, USAGE);
    assert.match(refused.stderr, /exists; give another name.*--force/);
    assert.equal(readFileSync(file, 'utf8'), 'mine');
    ended(await cli(from, ['export', '--output', file, '--force', '-q', q]), DONE);
    assert.equal(endOf(readFileSync(file, 'utf8')).jobs, 1);
    assert.ok(!existsSync(`${file}.part`));
    const gone = await cli({ url: 'http://127.0.0.1:1' }, ['export', '--output', `${file}2`]);
    ended(gone, UNREACHABLE);
    assert.deepEqual([existsSync(`${file}2`), existsSync(`${file}2.part`)], [false, false]);
    ended(await cli(from, ['export', '--queue', 'there-is-none']), REFUSED);
    ended(await cli(from, ['export', '--state', 'dead', '--all']), USAGE);
    ended(await cli(from, ['export', '--state', 'ded']), REFUSED);
    ended(await cli(from, ['export', '--output', '/nowhere/at/all']), USAGE);
  });

  test('a truncated file is distinguished from a complete one', async () => {
    const q = freshQueue('cut');
    for (let i = 0; i < 5; i++) await put(q, `{"payload":${i}}`);
    const text = await exported(from, ['--queue', q]);
    const lines = text.trimEnd().split('\n');
    const between = await imported(to, `${lines.slice(0, -2).join('\n')}\n`);
    ended(between, REFUSED);
    assert.match(between.stderr, /ends after line 6 .*truncated/);
    assert.equal(summary(between)[0], 4);
    const within = await imported(to, lines.slice(0, -1).join('\n').slice(0, -20));
    ended(within, REFUSED);
    assert.match(within.stderr, /^holdfast: line 7: it is not JSON/m);
    assert.match(within.stderr, /truncated/);
    const whole = await imported(to, text);
    ended(whole, DONE);
    assert.deepEqual(summary(whole), [1, 4, 0, 0]);
    const less = await imported(to, [...lines.slice(0, 3), ...lines.slice(4)].join('\n'));
    ended(less, REFUSED);
    assert.match(less.stderr, /should have 1 queues, 5 jobs, 0 schedules, 0 keys and 0 alert rules, but had 1, 4, 0, 0 and 0:/);
  });

  test('invalid lines are reported; the rest is imported', async () => {
    const q = freshQueue('wrong');
    await put(q, '{"payload":1,"unique":"u"}');
    const text = await exported(from, ['--queue', q]);
    const [head, queue, job] = text.trimEnd().split('\n');
    const change = (more) => JSON.stringify({ job: { ...JSON.parse(job).job, unique: undefined, ...more } });
    const bad = [
      ['not json', /line 3: it is not JSON at byte 1/],
      ['{"jbo":{}}', /line 4: it is neither/],
      ['{"job":{"queue":"q"}}', /line 5: id is missing/],
      [change({ id: 'b', queue: '' }), /line 6: .*queue name/],
      [change({ id: 'c', payload_text: 'x' }), /line 7: both payload and payload_text/],
      [change({ id: 'd', payload: undefined, payload_base64: 'A===' }), /line 8: payload_base64 is not base 64/],
      [change({ id: 'e', payload: undefined, payload_json: '{"a":}' }), /line 9: payload_json .* not JSON/],
      [change({ id: 'f', attributes: [1] }), /line 10: attributes must be an object/],
      [change({ id: 'g', reason: 'replaced' }), /line 11: reason must be/],
      [change({ id: 'h', prioritty: 1 }), /line 12: .*prioritty.*priority/],
      [change({ id: 'i', failures: 70000 }), /line 13: failures/],
    ];
    const good = change({ id: 'good', attributes: { robot: 4, imported_from: 'older' } });
    const end = JSON.stringify({ end: { queues: 1, jobs: 11 } });
    const result = await imported(to, [head, queue, ...bad.map(([line]) => line), job, good, end, '{}'].join('\n'));
    ended(result, REFUSED);
    for (const [, pattern] of bad) assert.match(result.stderr, pattern);
    assert.match(result.stderr, /line 17: it follows the line/);
    assert.deepEqual(summary(result).slice(0, 3), [2, 0, 0]);
    assert.deepEqual((await list(b, q)).find((j) => !j.unique).attributes, { imported_from: 'good', robot: 4 });
    // A unique key that another job holds is never taken.
    const taken = await imported(to, [head, change({ id: 'z', unique: 'u' }), JSON.stringify({ end: { queues: 0, jobs: 1 } })].join('\n'));
    ended(taken, REFUSED);
    assert.match(taken.stderr, /line 2: .*unique key/);
    for (const [input, pattern] of [['', /empty/], ['{"a":1}\n', /line 1 is not the first line of an export/], ['garbage\n', /line 1 is not/], ['{"holdfast":"export","version":2}\n', /format 2; this holdfast reads format 1/]]) {
      const wrong = await imported(to, input);
      ended(wrong, USAGE);
      assert.match(wrong.stderr, pattern);
    }
    ended(await cli(to, ['import', '/nowhere/at/all']), USAGE);
    // A queue that cannot be created ends the import, now and at each repetition.
    const stopped = await imported(to, [head, JSON.stringify({ queue: { name: freshQueue('no'), policy: { capacity: -1 } } })].join('\n'));
    ended(stopped, REFUSED);
    assert.match(stopped.stderr, /stopped at line 2 after 0 jobs; correct what was refused/);
  });

  test('an interrupted import can be continued', async () => {
    const q = freshQueue('interrupted');
    for (let i = 0; i < 3; i++) await a.post(`/v1/queues/${q}/jobs`, Array.from({ length: 800 }, (_, n) => ({ payload: i * 800 + n })));
    const text = await exported(from, ['--queue', q]);
    // A way to the server that is cut when the second batch has arrived there, before its answer;
    // libcurl itself tries once more where a kept connection ends so.
    let batches = 0;
    const relay = http.createServer((request, response) => {
      const chunks = [];
      request.on('data', (chunk) => chunks.push(chunk));
      request.on('end', async () => {
        const { host, 'content-length': _, connection, ...headers } = request.headers;
        const answer = await b.request(request.method, request.url, { body: Buffer.concat(chunks), headers });
        if (request.url === '/v1/import' && ++batches >= 2) return request.socket.destroy();
        response.writeHead(answer.status, { 'content-type': answer.headers['content-type'] });
        response.end(answer.raw);
      });
    });
    await new Promise((resolve) => relay.listen(0, '127.0.0.1', resolve));
    const cut = await imported({ url: `http://127.0.0.1:${relay.address().port}` }, text);
    relay.close();
    relay.closeAllConnections();
    ended(cut, UNREACHABLE);
    assert.match(cut.stderr, /stopped at line 1003 after 1000 jobs; the same command continues/);
    const on = await imported(to, text);
    ended(on, DONE);
    assert.deepEqual(summary(on), [400, 2000, 0, 0]);
    assert.equal((await b.get(`/v1/queues/${q}`)).json.counts.ready, 2400);
  });

  test('a job that is too large for the server is reported', async () => {
    const small = await startServer({ backend: 'memory', args: ['--limits-body-bytes', '20000', '--limits-large-body-bytes', '20000'] });
    const q = freshQueue('large');
    for (const size of [9000, 9000, 30000, 10]) await put(q, JSON.stringify({ payload: 'x'.repeat(size) }));
    const result = await imported(small, await exported(from, ['--queue', q]));
    ended(result, REFUSED);
    assert.deepEqual(summary(result), [3, 0, 0, 1]);
    assert.match(result.stderr, /line 5: the job is larger than the server accepts/);
    await stopServer(small);
  });

  test('a job of an array can have its own idempotency key', async () => {
    const q = freshQueue('keyed');
    const jobs = [{ payload: 1, idempotency_key: `${q}/1` }, { payload: 2, idempotency_key: `${q}/2` }];
    const first = (await a.post(`/v1/queues/${q}/jobs`, jobs)).json.jobs;
    const second = (await a.post(`/v1/queues/${q}/jobs`, [...jobs].reverse())).json.jobs;
    assert.deepEqual(first.map((j) => j.created), [true, true]);
    assert.deepEqual(second.map((j) => [j.created, j.id]), [[false, first[1].id], [false, first[0].id]]);
    const other = (await a.post(`/v1/queues/${q}/jobs`, [{ payload: 3, idempotency_key: `${q}/1` }, { payload: 4, idempotency_key: '' }])).json.jobs;
    assert.deepEqual(other.map((j) => j.error.code), ['key_reused', 'invalid_field']);
  });

  test('the route also accepts an array, and nothing except jobs', async () => {
    const q = freshQueue('route');
    const jobs = [{ id: 'r1', queue: q, payload: 1, result: 1 }, { id: 'r2', queue: q, state: 'dead' }, { id: 'r3', queue: q, state: 'done', result_json: '{"n":\n1}' }, { id: 'r4', queue: q, state: 'cancelled' }, { id: 'r5', queue: q, state: 'done', result_json: '{' }, { id: 'r6', queue: q, state: 'done', result: 1, result_text: 'x' }];
    const many = await b.post('/v1/import', jobs);
    assert.equal(many.status, 200);
    const [one, dead, done, ...wrong] = many.json.jobs;
    assert.deepEqual([one.state, one.created, dead.state, done.state], ['ready', true, 'dead', 'done']);
    assert.deepEqual(wrong.map(({ error }) => error.field), ['state', 'result_json', 'result_text']);
    const view = (await b.get(`/v1/jobs/${done.id}`)).json;
    assert.deepEqual([view.state, view.result, view.attributes], ['done', { n: 1 }, { imported_from: 'r3' }]);
    assert.equal((await b.get(`/v1/jobs/${one.id}`)).json.result, undefined, 'it gives its own when it is done');
    for (const [body, type] of [['{"id":"x"}', 'application/json'], ['x', 'text/plain'], ['[]', 'application/json'], ['{"id"', 'application/x-ndjson']]) {
      const answer = await b.request('POST', '/v1/import', { body, headers: { 'content-type': type } });
      assert.ok(answer.status === 422 || answer.status === 400, `${body}: ${answer.status}`);
      assert.match(answer.json.detail, /array of jobs|no jobs|not valid JSON/);
    }
  });
});

/** Names, sizes and bytes of everything in a directory. */
function printsOf(directory) {
  return readdirSync(directory, { recursive: true, withFileTypes: true })
    .map((entry) => path.join(entry.parentPath, entry.name))
    .sort()
    .map((file) => (statSync(file).isFile() ? [file, statSync(file).mtimeMs, createHash('sha256').update(readFileSync(file)).digest('hex')] : [file]));
}

describe('export of a store that no server uses', () => {
  const COUNT = 400, PAGE = 4096;
  const marker = (n) => `marker-${n}-`;
  const offline = (data, args = []) => run(['export', '--data', data, ...args]);
  const withoutHead = (text) => text.slice(text.indexOf('\n') + 1);
  let killed, online, whole; // a store after kill -9, and the export of its server before that

  before(async () => {
    killed = await startServer();
    const api = new Client(killed);
    await api.put('/v1/queues/q', { lease_ms: 3600_000, description: 'n' });
    const jobs = Array.from({ length: COUNT }, (_, n) => ({ payload: marker(n).padEnd(500, 'x'), group: `g${n % 3}`, run_at: n % 5 === 0 ? '2099-01-01T00:00:00Z' : undefined }));
    assert.equal((await api.post('/v1/queues/q/jobs', jobs)).status, 200);
    for (let i = 0; i < 5; i++) {
      const job = await claimOne(api, 'q');
      await api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: 'no', retry: false });
    }
    const acked = await claimOne(api, 'q');
    await api.post(`/v1/jobs/${acked.id}/ack`, { token: acked.token, result: [1] });
    assert.equal((await api.put('/v1/alerts/kept', { on: 'deep', queue: 'q', depth: 9999, webhook: { url: 'https://hooks.example.com/in', secret: 'top s3cret' } })).status, 201);
    assert.equal((await api.put('/v1/alerts/left', { on: 'dead' })).status, 201);
    assert.equal((await api.delete('/v1/alerts/left')).status, 200);
    whole = await exported(killed, ['--all']);
    assert.equal(endOf(whole).alerts, 1);
    online = await exported(killed);
    api.close();
  });

  /** A copy to damage; `checkpointed`: after a server has checkpointed the WAL. */
  function copyOf(directory) {
    const copy = path.join(temporaryDirectory(), 'data');
    cpSync(directory, copy, { recursive: true });
    return copy;
  }
  const pagesOf = (data) => {
    const bytes = readFileSync(path.join(data, 'holdfast.db'));
    return Array.from({ length: bytes.length / PAGE }, (_, i) => bytes.subarray(i * PAGE, (i + 1) * PAGE));
  };
  const spoil = (data, page, at, bytes) => {
    const fd = openSync(path.join(data, 'holdfast.db'), 'r+');
    writeSync(fd, Buffer.from(bytes), 0, bytes.length, page * PAGE + at);
    closeSync(fd);
  };

  test('the store of a running server is exported through the server', async () => {
    const result = await offline(killed.data);
    ended(result, USAGE);
    assert.match(result.stderr, /in use by another holdfast process/);
    assert.match(result.stderr, /without --data/);
    assert.equal(result.stdout, '');
  });

  test('after kill -9 the export is the same as that of the server, and changes nothing', async () => {
    await killServer(killed);
    const before = printsOf(killed.data);
    const all = await offline(killed.data, ['--all']);
    ended(all, DONE);
    assert.equal(withoutHead(all.stdout), withoutHead(whole));
    const some = await offline(killed.data);
    assert.equal(withoutHead(some.stdout), withoutHead(online));
    assert.deepEqual(jobsOf((await offline(killed.data, ['--state', 'dead', '--queue', 'q'])).stdout).map((job) => job.error), Array(5).fill('no'));
    assert.deepEqual(endOf((await offline(killed.data, ['--queue', 'other'])).stdout), { queues: 0, jobs: 0 });
    assert.deepEqual(printsOf(killed.data), before);
  });

  test('a store without its journal, or with an empty one, is not reported as complete', async () => {
    for (const [keep, pattern] of [[false, /the directory journal is missing/], [true, /journal\/key is missing/]]) {
      const data = copyOf(killed.data);
      rmSync(path.join(data, 'journal'), { recursive: true });
      if (keep) mkdirSync(path.join(data, 'journal'));
      const result = await offline(data);
      ended(result, REFUSED);
      assert.match(result.stderr, pattern);
    }
  });

  test('the same after a clean stop, and the file can be imported', async () => {
    const data = copyOf(killed.data);
    const again = await startServer({ data });
    await stopServer(again);
    const before = printsOf(data);
    const result = await offline(data);
    ended(result, DONE);
    assert.equal(withoutHead(result.stdout), withoutHead(online));
    assert.deepEqual(printsOf(data), before);
    const to = await startServer({ backend: 'memory' });
    assert.deepEqual(summary(await imported(to, result.stdout)), [COUNT - 1, 0, 0, 0]);
    await stopServer(to);
  });

  test('the export of a damaged store contains what can be read, reports the rest, and does not change the store', async () => {
    const data = copyOf(killed.data);
    await stopServer(await startServer({ data }));
    const numbers = (page) => [...page.toString('latin1').matchAll(/marker-(\d+)-/g)].map((m) => Number(m[1]));
    const payloads = pagesOf(data).map((page, i) => [i, numbers(page)]).filter(([, list]) => list.length > 3);
    const hit = [3, 10, 20].map((i) => payloads[i]);
    for (const [page] of hit) spoil(data, page, 0, [0xff, 0xff, 0xff, 0xff]);
    const lost = new Set(hit.flatMap(([, list]) => list));
    const before = printsOf(data);
    const result = await offline(data, ['--all']);
    ended(result, REFUSED);
    assert.deepEqual(printsOf(data), before);
    const got = jobsOf(result.stdout).map((job) => Number(job.payload.match(/^marker-(\d+)-/)[1]));
    assert.deepEqual(new Set(got), new Set(Array.from({ length: COUNT }, (_, n) => n).filter((n) => !lost.has(n))));
    assert.deepEqual(endOf(result.stdout), { queues: 1, jobs: got.length, alerts: 1, skipped: lost.size });
    assert.match(result.stderr, new RegExp(`; ${lost.size} damaged jobs skipped`));
  });

  test('with a damaged page of state the server does not start, and says which and what to do', async () => {
    const data = copyOf(killed.data);
    await stopServer(await startServer({ data }));
    const root = Number(execFileSync('sqlite3', ['-readonly', path.join(data, 'holdfast.db'), `SELECT rootpage FROM sqlite_schema WHERE name = 'jobs'`]));
    spoil(data, root - 1, 50, [...pagesOf(data)[root - 1].subarray(50, 51)].map((byte) => byte ^ 1));
    const refused = await run(['serve', '--listen', '127.0.0.1:0', '--data', data]);
    assert.notEqual(refused.code, 0);
    assert.match(refused.stderr, new RegExp(`holdfast.db: cannot .*: page ${root} is damaged: its checksum does not match \\(it belongs to jobs\\)`));
    assert.ok(refused.stderr.includes(`holdfast export --data ${data}`), refused.stderr);
    const checked = await run(['check', data]);
    assert.equal(checked.code, 1);
    assert.match(checked.stdout, new RegExp(`problem: .*page ${root} is damaged`));
    ended(await offline(data, ['--all']), REFUSED);
  });

  test('the export of any damaged store ends and reports the damage', async () => {
    const data = copyOf(killed.data);
    await stopServer(await startServer({ data }));
    let state = 20261116;
    const random = (n) => (state = (state * 1103515245 + 12345) % 2 ** 31) % n;
    const codes = new Set();
    for (let round = 0; round < 12; round++) {
      const copy = copyOf(data);
      const pages = pagesOf(copy).length;
      for (let i = 0; i < 12; i++) spoil(copy, random(pages), random(PAGE - 16), Array.from({ length: 16 }, () => random(256)));
      const result = await offline(copy, ['--all']);
      codes.add(result.code);
      assert.ok([DONE, REFUSED, USAGE].includes(result.code), `${result.code}: ${result.stderr}`);
      if (result.code !== USAGE) assert.ok(endOf(result.stdout).jobs <= COUNT);
      else assert.match(result.stderr, /^holdfast: /m);
    }
    assert.ok(codes.has(REFUSED));
  });

  test('a directory that is not a store is reported as such', async () => {
    const empty = temporaryDirectory();
    for (const [directory, pattern] of [['/nowhere/at/all', /the directory .* does not exist/], [empty, /no store in/]]) {
      const result = await offline(directory);
      ended(result, USAGE);
      assert.match(result.stderr, pattern);
    }
    writeFileSync(path.join(empty, 'holdfast.db'), 'something else');
    const result = await offline(empty);
    ended(result, USAGE);
    assert.match(result.stderr, /not a holdfast store/);
    assert.deepEqual(readdirSync(empty), ['holdfast.db']);
    ended(await offline(empty, ['--state', 'ded']), USAGE);
    ended(await offline(empty, ['--server', 'http://127.0.0.1:1']), USAGE);
  });
});
