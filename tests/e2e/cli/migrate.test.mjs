// SPDX-License-Identifier: Apache-2.0
// `holdfast migrate`: the whole content of one store is transferred to another, once, and compared; an interrupted
// migration can be continued. The file runs itself with scripts/with-postgres and scripts/with-redis.
import assert from 'node:assert/strict';
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { createHmac } from 'node:crypto';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Client } from '../lib/client.mjs';
import { runSql } from '../lib/pages.mjs';
import { run } from '../lib/program.mjs';
import { Receiver } from '../lib/receiver.mjs';
import { startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';

for (const [name, script] of [['HF_POSTGRES', 'with-postgres'], ['HF_REDIS', 'with-redis']]) {
  if (process.env[name]) continue;
  const wrapper = fileURLToPath(new URL(`../../../scripts/${script}`, import.meta.url));
  const words = ['node', ...process.execArgv, fileURLToPath(import.meta.url)];
  process.exit(spawnSync(wrapper, words, { stdio: 'inherit' }).status ?? 1);
}

const DONE = 0, REFUSED = 1, USAGE = 2, UNREACHABLE = 3;
const base = process.env.HF_POSTGRES;
const socket = decodeURIComponent(base.replace(/.*host=/, ''));
const postgres = (schema) => `${base}&schema=${schema}`;
const psql = ['-h', socket, '-U', 'holdfast', '-d', 'postgres', '-qAt', '-v', 'ON_ERROR_STOP=1'];
const sql = (text) => execFileSync('psql', [...psql, '-c', text], { encoding: 'utf8' }).trim();

const migrate = (from, to, args = [], env = {}, spawned = undefined) => run(['migrate', '--from', from, '--to', to, ...args], { env, spawned });
const ended = (result, code) => assert.equal(result.code, code, `${result.stdout}\n${result.stderr}`);
const fresh = () => path.join(temporaryDirectory(), 'store');
const linesOf = (text) => text.trimEnd().split('\n').map((line) => JSON.parse(line));

/** The lines of an export of a store that no server uses. */
async function exported(dir, args = ['--all']) {
  const result = await run(['export', '--data', dir, ...args]);
  ended(result, DONE);
  return linesOf(result.stdout);
}
/** The same without the parts that differ: the time of the file, the creation times of queues, and the order of names. */
function comparable(lines) {
  const plain = lines.slice(1).map(({ queue, ...rest }) => (queue ? { queue: { ...queue, created_at: undefined } } : rest));
  const name = (line) => (line.queue ?? line.schedule)?.name ?? '';
  const of = (kind) => plain.filter((line) => line[kind]).sort((a, b) => (name(a) < name(b) ? -1 : 1));
  return [...of('queue'), ...plain.filter((line) => line.job || line.kv), ...of('schedule'), ...plain.filter((line) => line.end)];
}
/** The same, and this job, which ran in one of them, as it arrives in the other. */
const arrived = (lines, running) => comparable(lines).map((line) => (line.job?.id === running ? { job: { ...line.job, state: 'ready', reason: 'restarted', attempts: 0, state_since: undefined } } : line));
/** A server for as long as fn runs. */
async function serving(options, fn) {
  const server = await startServer(options);
  const api = new Client(server);
  try {
    return await fn(api, server);
  } finally {
    api.close();
    await stopServer(server);
  }
}
const queues = async (api) => (await api.get('/v1/queues')).json.queues.map(({ counts, created_at, updated_at, oldest_ready_ms, next_due, ...rest }) => ({ ...rest, counts: { ...counts } }));

async function ok(answer, status = 200) {
  const got = await answer;
  assert.equal(got.status, status, got.text);
  return got.json;
}

async function claim(api, queue, more = {}) {
  const { jobs } = await ok(api.post(`/v1/queues/${queue}/claim`, { worker: 'anna', ...more }));
  assert.equal(jobs.length, 1);
  return jobs[0];
}
const put = async (api, queue, job) => (await ok(api.post(`/v1/queues/${queue}/jobs`, job), 201)).id;

/** Queues, and jobs that wait. */
async function fillPlain(api) {
  await ok(api.put('/v1/queues/mail', { max_attempts: 3, backoff_ms: [0], description: 'für Briefe', capacity: 40, keep_dead: 7, warn_depth: 3, unique_scope: 'live' }), 201);
  await ok(api.put('/v1/queues/still', { priority: 5 }), 201);
  await ok(api.post('/v1/queues/still/pause', {}));
  await ok(api.put('/v1/queues/owned', { owner: 'tasks', attributes: { shade: 'blue' } }), 201);
  const whole = {
    payload: { deep: [1, 2], big: 12345678901234567890n.toString() }, priority: -5, run_at: '2099-01-31T12:00:00.000Z', expires_at: '2100-01-31T12:00:00.000Z', unique: 'k/ü', group: 'g', correlation_id: 'c-1',
    priority_label: 'blue', max_attempts: 3, max_crashes: 2, lease_ms: 1234, backoff: { type: 'exponential', base_ms: 5, max_ms: 50, jitter_percent: 0 }, keys_if_undelivered: [['lost', 1], ['lost', 'ü']],
  };
  const id = await put(api, 'mail', whole);
  await ok(api.patch(`/v1/jobs/${id}`, { attributes: { a: [1] } }));
  await put(api, 'still', { payload: null });
  const bytes = await api.request('POST', '/v1/queues/still/jobs', { body: Buffer.from([0, 255, 10, 1]), headers: { 'content-type': 'application/octet-stream' } });
  assert.equal(bytes.status, 201, bytes.text);
  const spaced = await api.request('POST', '/v1/queues/still/jobs', { body: '{"payload": [1,\n 2 ]}', headers: { 'content-type': 'application/json' } });
  assert.equal(spaced.status, 201, spaced.text);
}

/** A job in every state, with a history. */
async function fillHistory(api) {
  const whole = (await ok(api.get('/v1/jobs?queue=mail&state=scheduled'))).jobs[0].id;
  await put(api, 'mail', { payload: 'tried', priority: 100 });
  let job = await claim(api, 'mail');
  await ok(api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: 'no such account', error_kind: 'business' }));
  job = await claim(api, 'mail', { worker: 'bert' });
  await ok(api.post(`/v1/jobs/${job.id}/ack`, { token: job.token, result: { sent: [1] } }));
  const done = job.id;
  const dead = await put(api, 'mail', { payload: 'dead', priority: 90, unique: 'once' });
  job = await claim(api, 'mail');
  await ok(api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: 'never', retry: false, result: { why: 1 } }));
  const cancelled = await put(api, 'mail', { payload: 'gone', unique: 'once' });
  await ok(api.post(`/v1/jobs/${cancelled}/cancel`, {}));
  const again = await put(api, 'mail', { payload: 'again', priority: 80 });
  job = await claim(api, 'mail');
  await ok(api.post(`/v1/jobs/${job.id}/release`, { token: job.token }));
  await put(api, 'owned', { payload: 'runs' });
  const running = (await claim(api, 'owned', { lease_ms: 600_000 })).id;
  return { whole, done, dead, cancelled, again, running };
}

async function fillRest(api, receiver) {
  await ok(api.post('/v1/kv/commit', {
    sets: [
      { key: ['user', 7], value: { n: 2 } },
      { key: ['user', true], value_text: 'plain' },
      { key: ['bytes'], value_base64: 'AP8K' },
      { key: ['later'], value: null, expires_at: '2099-01-01T00:00:00.000Z' },
    ],
  }));
  await ok(api.put('/v1/schedules/nightly', { cron: '30 2 * * *', timezone: 'Europe/Berlin', queue: 'reports', description: 'n', job: { payload: { a: 1 }, max_attempts: 2 } }), 201);
  await ok(api.put('/v1/schedules/later', { every_ms: 3_600_000, queue: 'reports' }), 201);
  await ok(api.put('/v1/schedules/batches', { source_queue: 'items', batch_size: 5, queue: 'sums', paused: true }), 201);
  await ok(api.put('/v1/alerts/deaths', { on: 'dead', queue: 'm*', webhook: { url: receiver.url, secret: 'top s3cret' } }), 201);
  await ok(api.put('/v1/alerts/deep', { on: 'deep', queue: 'mail', depth: 1000, enabled: false }), 201);
}

const kept = ['whole', 'done', 'dead', 'cancelled', 'again'];
const names = ({ updated_at, created_at, ...rest }) => rest;
/** The view of a job, without the members that a migration drops. */
const shown = async (api, id) => {
  const { waited_ms, ...job } = await ok(api.get(`/v1/jobs/${id}`));
  return job;
};

describe('between two embedded stores', () => {
  const env = { HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8' };
  let receiver, source, ids, seen, told;
  const target = fresh();
  before(async () => {
    receiver = await new Receiver().listen();
    source = fresh();
    await serving({ data: source, env }, async (api) => {
      await fillPlain(api);
      ids = await fillHistory(api);
      await fillRest(api, receiver);
      seen = {};
      for (const name of kept) seen[name] = await shown(api, ids[name]);
      told = {
        queues: await queues(api), schedules: (await api.get('/v1/schedules')).json.schedules.map(names), alerts: (await api.get('/v1/alerts')).json.alerts.map(names),
      };
    });
  });
  after(() => receiver.close());

  test('--dry-run counts, and creates nothing', async () => {
    const result = await migrate(`sqlite:${source}`, `sqlite:${target}`, ['--dry-run', '--json']);
    ended(result, DONE);
    const found = JSON.parse(result.stdout);
    assert.equal(found.dry_run, true);
    assert.deepEqual(found.source.jobs, { scheduled: 1, ready: 4, running: 1, done: 1, dead: 1, cancelled: 1, blocked: 0 });
    assert.deepEqual([found.source.queues, found.source.keys, found.source.schedules, found.source.alerts], [3, 4, 3, 2]);
    assert.equal(existsSync(target), false);
  });

  test('everything is transferred, and the source does not change', async () => {
    const before = await exported(source), made = new Date().toISOString();
    const result = await migrate(`sqlite:${source}`, `sqlite:${target}`);
    ended(result, DONE);
    assert.match(result.stdout, /3 queues, 9 jobs .*4 keys, 3 schedules, 2 alert rules; 9 jobs copied, 0 already present/);
    assert.deepEqual((await exported(source)).slice(1), before.slice(1));
    assert.equal((await run(['check', source])).code, 0);
    assert.equal((await run(['check', target])).code, 0);

    const there = await exported(target);
    assert.equal(before.find((line) => line.job?.id === ids.running).job.state, 'running');
    const { state, reason, attempts } = there.find((line) => line.job?.id === ids.running).job;
    assert.deepEqual([state, reason, attempts], ['ready', 'restarted', 0]);
    assert.deepEqual(arrived(there, ids.running), arrived(before, ids.running));
    for (const line of there.filter(({ queue }) => queue)) assert.ok(line.queue.created_at >= made, 'queues are created now');
  });

  test('jobs, schedules, rules and their secrets work again', () => serving({ data: target, env }, async (api) => {
    for (const name of kept) assert.deepEqual(await shown(api, ids[name]), seen[name], name);
    assert.deepEqual(seen.whole.keys_if_undelivered, [['lost', 1], ['lost', 'ü']]);
    assert.deepEqual((await shown(api, ids.running)).history, []);
    assert.equal(seen.done.history.length, 2);
    assert.equal(seen.done.history[0].error, 'no such account');
    assert.equal(seen.done.history[1].worker, 'bert');
    assert.deepEqual(seen.done.result, { sent: [1] });
    const now = await queues(api);
    const owned = now.find((q) => q.name === 'owned').counts;
    assert.deepEqual([owned.ready, owned.running], [1, 0]);
    const rest = (list) => list.map((q) => (q.name === 'owned' ? { ...q, counts: undefined } : q));
    assert.deepEqual(rest(now).map(({ counts, ...q }) => q), rest(told.queues).map(({ counts, ...q }) => q));
    assert.deepEqual((await api.get('/v1/schedules')).json.schedules.map(names), told.schedules);
    assert.deepEqual((await api.get('/v1/alerts')).json.alerts.map(names), told.alerts);

    const count = receiver.requests.length;
    const job = await claim(api, 'mail');
    assert.equal(job.id, ids.again);
    await ok(api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: 'x', retry: false }));
    const notice = (await receiver.wait(count + 1)).at(-1);
    const mac = createHmac('sha256', 'top s3cret').update(`${notice.headers['holdfast-timestamp']}.${notice.raw}`).digest('hex');
    assert.equal(notice.headers['holdfast-signature'], `v1=${mac}`);
    const id = await put(api, 'mail', { payload: 'new' });
    assert.ok((await shown(api, id)).seq > seen.again.seq);
  }));

  test('a target that is not empty, or has changed since, is refused', async () => {
    const again = await migrate(`sqlite:${source}`, `sqlite:${target}`);
    ended(again, REFUSED);
    assert.match(again.stderr, /the target is not empty/);
    const before = await exported(target);
    const resumed = await migrate(`sqlite:${source}`, `sqlite:${target}`, ['--resume']);
    ended(resumed, REFUSED);
    assert.match(resumed.stderr, /not the first ones of the source|not equal/);
    assert.deepEqual((await exported(target)).slice(1), before.slice(1));
  });
});

describe('what is not transferred', () => {
  const env = { HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8' };
  const once = (api) => api.request('POST', '/v1/queues/mail/jobs', { body: '{"payload":1}', headers: { 'idempotency-key': 'k-1', 'content-type': 'application/json' } });
  let receiver, first, held, version;
  const source = fresh(), target = fresh();
  before(async () => {
    receiver = await new Receiver().listen();
    receiver.answer = 500;
    await serving({ data: source, env }, async (api) => {
      for (const value of [1, 2, 3]) ({ version } = await ok(api.post('/v1/kv/commit', { sets: [{ key: ['n'], value }] })));
      first = (await ok(once(api), 201)).id;
      assert.equal((await ok(once(api))).id, first);
      await ok(api.put('/v1/schedules/later', { every_ms: 3_600_000, queue: 'reports' }), 201);
      await ok(api.post('/v1/schedules/later/run'));
      await ok(api.put('/v1/alerts/deaths', { on: 'dead', queue: 'mail', webhook: { url: receiver.url } }), 201);
      await ok(api.put('/v1/alerts/deep', { on: 'deep', queue: 'reports', depth: 1, webhook: { url: receiver.url } }), 201);
      await put(api, 'mail', { payload: 'dies', priority: 9 });
      const dying = await claim(api, 'mail');
      await ok(api.post(`/v1/jobs/${dying.id}/fail`, { token: dying.token, error: 'x', retry: false }));
      held = await claim(api, 'mail', { lease_ms: 600_000 });
      assert.equal(held.id, first);
      await until('both notices are told and wait', async () => receiver.requests.length >= 2 && (await ok(api.get('/v1/notices'))).notices.length === 2);
      assert.equal((await ok(api.get('/v1/schedules/later'))).fired, 1);
      assert.equal((await ok(api.get('/v1/queues/mail/stats'))).since_created.failed_app, 1);
    });
    // Time stands still: it has not expired here.
    await serving({ data: source, env, args: ['--test-clock'] }, (api) => ok(api.post('/v1/kv/commit', { sets: [{ key: ['gone'], value: 1, expires_in_ms: 1 }] })));
    receiver.answer = 200;
  });
  after(() => receiver.close());

  test('expired keys, versions, idempotency keys, tokens, figures, the history of schedules, the outbox', async () => {
    const result = await migrate(`sqlite:${source}`, `sqlite:${target}`);
    ended(result, DONE);
    assert.match(result.stdout, /3 jobs .*, 1 keys,/);
    const count = receiver.requests.length, told = new Set(receiver.requests.map(({ json }) => json.id));
    await serving({ data: target, env }, async (api) => {
      const { keys } = await ok(api.get('/v1/kv'));
      assert.deepEqual(keys.map(({ key, value }) => [key, value]), [[['n'], 3]]);
      assert.notEqual(keys[0].version, version);
      const late = await api.post(`/v1/jobs/${held.id}/ack`, { token: held.token });
      assert.equal(late.status, 409, late.text);
      assert.equal((await shown(api, held.id)).state, 'ready');
      const again = await ok(once(api), 201);
      assert.notEqual(again.id, first);
      assert.equal((await ok(api.get('/v1/schedules/later'))).fired, 0);
      assert.equal((await ok(api.get('/v1/queues/mail/stats'))).since_created.failed_app, 0);
      // The raised condition is detected again; the dead job is not reported again, and would have come first.
      const notice = (await receiver.wait(count + 1)).at(-1).json;
      assert.deepEqual([notice.alert, told.has(notice.id)], ['deep', false]);
    });
  });
});

describe('refusals', () => {
  let source;
  before(async () => {
    source = fresh();
    await serving({ data: source }, (api) => put(api, 'q', { payload: 1 }));
  });
  const refused = async (from, to, code, why, args = []) => {
    const result = await migrate(from, to, args);
    ended(result, code);
    assert.match(result.stderr, why);
    assert.doesNotMatch(result.stderr + result.stdout, /s3cret/);
  };

  test('wrong arguments', async () => {
    const to = `sqlite:${fresh()}`;
    ended(await run(['migrate']), USAGE);
    await refused('memory:', to, USAGE, /memory: cannot be the source/);
    await refused(`sqlite:${source}`, 'memory:', USAGE, /would be lost when this command ends/);
    await refused('mysql://u:s3cret@h/d', to, USAGE, /unknown backend "mysql:"/);
    await refused(`sqlite:${source}`, 'nonsense', USAGE, /the target cannot be opened/);
    await refused(`sqlite:${source}`, 'postgres://u:s3cret@h/d?nonsense=1', USAGE, /libpq/);
    await refused(`sqlite:${source}`, `postgres://holdfast@/postgres?host=${encodeURIComponent(socket + '/none')}`, UNREACHABLE, /the target cannot be opened: PostgreSQL cannot be used/);
    await refused(`sqlite:${source}`, `sqlite:${source}/../${path.basename(source)}`, USAGE, /the same store/);
    await refused(postgres('same'), postgres('same').replace('postgres:', 'postgresql:'), USAGE, /the same store/);
  });

  test('a source that does not exist is not created', async () => {
    const none = fresh();
    await refused(`sqlite:${none}`, `sqlite:${fresh()}`, USAGE, /has no store/);
    assert.equal(existsSync(none), false);
  });

  test('stores that a server uses', async () => {
    await serving({ data: source }, async () => {
      await refused(`sqlite:${source}`, `sqlite:${fresh()}`, USAGE, /the source cannot be opened: .* in use/);
      await refused(postgres('lockedto'), `sqlite:${source}`, USAGE, /the target cannot be opened: .* in use/);
    });
    // Its first heartbeat comes before its first query.
    const lives = async (api) => ok(api.get('/v1/queues'));
    await serving({ backend: postgres('busy'), args: ['--node', '7'] }, async (api) => {
      await lives(api);
      await refused(postgres('busy'), `sqlite:${fresh()}`, USAGE, /the source is in use by node 7/);
      await refused(`sqlite:${source}`, postgres('busy'), USAGE, /the target is in use by node 7/);
    });
    const redis = `${process.env.HF_REDIS}?prefix=busy:`;
    await serving({ backend: redis, args: ['--node', '8'] }, async (api) => {
      await lives(api);
      await refused(redis, `sqlite:${fresh()}`, USAGE, /the source is in use by node 8/);
    });
    ended(await migrate(`sqlite:${source}`, postgres('busy')), DONE);
  });

  test('items that a trigger\'s job holds', async () => {
    const held = fresh();
    await serving({ data: held }, async (api) => {
      await put(api, 'items', { payload: 1 });
      await ok(api.put('/v1/schedules/batches', { source_queue: 'items', queue: 'sums', eager: true }), 201);
      await until('the item is taken', async () => (await ok(api.get('/v1/queues/items'))).counts.running === 1);
    });
    await refused(`sqlite:${held}`, `sqlite:${fresh()}`, REFUSED, /queue items has items that a trigger's job holds; let such jobs end/);
    await serving({ data: held }, async (api) => {
      const job = await claim(api, 'sums');
      await ok(api.post(`/v1/jobs/${job.id}/ack`, { token: job.token }));
      await until('the item is ended', async () => (await ok(api.get('/v1/queues/items'))).counts.running === 0);
    });
    ended(await migrate(`sqlite:${held}`, `sqlite:${fresh()}`), DONE);
  });

  test('a target of a newer version', async () => {
    sql('CREATE SCHEMA newer; CREATE TABLE newer.meta (version int); INSERT INTO newer.meta VALUES (99); CREATE TABLE newer.job ()');
    await refused(`sqlite:${source}`, postgres('newer'), USAGE, /the target cannot be opened: .*newer version/);
    const newer = fresh();
    await serving({ data: newer }, () => {});
    runSql(path.join(newer, 'holdfast.db'), 'PRAGMA user_version = 199');
    await refused(`sqlite:${source}`, `sqlite:${newer}`, USAGE, /the target cannot be opened/);
  });

  test('a target with a key, a schedule or a rule alone', async () => {
    const fills = [
      (api) => ok(api.post('/v1/kv/commit', { sets: [{ key: ['a'], value: 1 }] })),
      (api) => ok(api.put('/v1/schedules/s', { every_ms: 3_600_000, queue: 'q' }), 201),
      (api) => ok(api.put('/v1/alerts/a', { on: 'dead', queue: 'q' }), 201),
    ];
    for (const fill of fills) {
      const other = fresh();
      await serving({ data: other }, fill);
      await refused(`sqlite:${source}`, `sqlite:${other}`, REFUSED, /the target is not empty/);
    }
  });

  test('keys, schedules and rules that are not the same', async () => {
    const dir = fresh(), to = `sqlite:${dir}`;
    const differs = async (more, less, why) => {
      await serving({ data: dir }, more);
      await refused(`sqlite:${source}`, to, REFUSED, why, ['--resume']);
      await serving({ data: dir }, less);
    };
    assert.equal((await migrate(`sqlite:${source}`, to, [], { HF_FAILPOINT: 'migrate.release:1' })).code, 'SIGKILL');
    await differs((api) => ok(api.post('/v1/kv/commit', { sets: [{ key: ['a'], value: 1 }] })), (api) => ok(api.post('/v1/kv/commit', { deletes: [['a']] })), /the source has 0 keys, the target 1; the target stays unchanged/);
    await differs((api) => ok(api.put('/v1/schedules/s', { every_ms: 3_600_000, queue: 'q' }), 201), (api) => api.delete('/v1/schedules/s'), /the source has 0 schedules, the target 1;/);
    await differs((api) => ok(api.put('/v1/alerts/a', { on: 'dead', queue: 'q' }), 201), (api) => api.delete('/v1/alerts/a'), /the source has 0 alert rules, the target 1;/);
    ended(await migrate(`sqlite:${source}`, to, ['--resume']), DONE);
  });

  test('a target that already has jobs', async () => {
    const other = fresh();
    await serving({ data: other }, (api) => put(api, 'q', { payload: 'mine' }));
    const before = await exported(other);
    await refused(`sqlite:${source}`, `sqlite:${other}`, REFUSED, /not empty/);
    await refused(`sqlite:${source}`, `sqlite:${other}`, REFUSED, /not the first ones of the source/, ['--resume']);
    assert.deepEqual((await exported(other)).slice(1), before.slice(1));
  });
});

describe('through a shared store', () => {
  const env = { HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8' };
  let receiver;
  before(async () => {
    receiver = await new Receiver().listen();
  });
  after(() => receiver.close());
  for (const [store, between] of [['PostgreSQL', postgres('there')], ['Redis', process.env.HF_REDIS]]) test(`${store} and back: the export is the same`, async () => {
    const source = fresh(), back = fresh();
    const seen = {};
    let rules, ids;
    await serving({ data: source, env }, async (api) => {
      await fillPlain(api);
      ids = await fillHistory(api);
      await fillRest(api, receiver);
      for (const name of kept) seen[name] = await shown(api, ids[name]);
      rules = (await api.get('/v1/alerts')).json.alerts.map(names);
    });
    const there = await migrate(`sqlite:${source}`, between);
    ended(there, DONE);
    assert.match(there.stdout, /9 jobs .*4 keys, 3 schedules, 2 alert rules; 9 jobs copied/);
    if (store === 'PostgreSQL') assert.equal(sql('SELECT count(*) FROM there.job'), '9');
    ended(await migrate(between, `sqlite:${back}`), DONE);
    assert.equal((await run(['check', back])).code, 0);
    // Before anything changes there: the rules work in the target, and each notice is signed with their secret.
    await serving({ backend: between, env }, async (api) => {
      assert.deepEqual((await api.get('/v1/alerts')).json.alerts.map(names), rules);
      for (const name of kept) assert.deepEqual(await shown(api, ids[name]), seen[name], name);
      const count = receiver.requests.length;
      await put(api, 'mail', { payload: 'dies', priority: 100 });
      const job = await claim(api, 'mail');
      await ok(api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: 'x', retry: false }));
      const notice = (await receiver.wait(count + 1, () => true, 30_000)).at(-1);
      assert.equal(notice.json.job.id, job.id);
      const mac = createHmac('sha256', 'top s3cret').update(`${notice.headers['holdfast-timestamp']}.${notice.raw}`).digest('hex');
      assert.equal(notice.headers['holdfast-signature'], `v1=${mac}`);
    });
    assert.deepEqual(arrived(await exported(back), ids.running), arrived(await exported(source), ids.running));
    await serving({ data: back, env }, async (api) => assert.deepEqual((await api.get('/v1/alerts')).json.alerts.map(names), rules));
  });
});

test('HF-28: what a blocked job waits for is transferred, through every store and back', async () => {
  const source = fresh(), back = fresh();
  const view = async (api, id) => {
    const { state, reason, on_dependency_failure, dependencies, waits_for, open } = await ok(api.get(`/v1/jobs/${id}?dependencies=true`));
    return { state, reason, on_dependency_failure, dependencies, open, waits_for: waits_for?.sort() };
  };
  const ack = async (api, queue) => {
    const job = await claim(api, queue);
    await ok(api.post(`/v1/jobs/${job.id}/ack`, { token: job.token }));
    return job.id;
  };
  const ids = {}, before = {};
  await serving({ data: source }, async (api) => {
    const a = await put(api, 'p', { payload: 'a' }), b = await put(api, 'p', { payload: 'b' }), c = await put(api, 'p', { payload: 'c' });
    ids.batch = (await ok(api.post('/v1/batches', { jobs: [], then: { queue: 'then', depends_on: [a, b] }, on_failure: 'run', open: true }), 201)).batch;
    ids.strict = await put(api, 'child', { depends_on: [a, b, c], on_dependency_failure: 'dead' });
    ids.next = await put(api, 'child', { depends_on: [ids.strict] });
    ids.over = await put(api, 'over', { depends_on: [a] });
    await ack(api, 'p');
    await ack(api, 'over');
    await until('its end has reached them', async () => (await view(api, ids.strict)).dependencies.done === 1);
    for (const [name, id] of Object.entries(ids)) before[name] = await view(api, id);
    assert.deepEqual(Object.values(before).map(({ state }) => state), ['blocked', 'blocked', 'blocked', 'done']);
  });
  const way = [`sqlite:${source}`, postgres('dependents'), `${process.env.HF_REDIS}?prefix=${encodeURIComponent('{dependents}:')}`, `sqlite:${back}`];
  for (let i = 1; i < way.length; i++) ended(await migrate(way[i - 1], way[i]), DONE);
  assert.equal((await run(['check', back])).code, 0);
  for (const options of [{ backend: way[1] }, { backend: way[2] }, { data: back }]) await serving(options, async (api) => {
    for (const [name, id] of Object.entries(ids)) assert.deepEqual(await view(api, id), before[name], name);
    await ok(api.post(`/v1/batches/${ids.batch}/close`));
    await ack(api, 'p');
    const then = await until('the final job is ready', async () => (await ok(api.post('/v1/queues/then/claim', {}))).jobs[0]);
    assert.equal(then.id, ids.batch);
    assert.equal((await view(api, ids.strict)).state, 'blocked');
    await ack(api, 'p');
    await until('the child is ready', async () => (await view(api, ids.strict)).state === 'ready');
    assert.equal(await ack(api, 'child'), ids.strict);
    await until('the next is ready', async () => (await view(api, ids.next)).state === 'ready');
  });
});

test('HF-28: limits at the claim are transferred, through every store and back, and hold there', async () => {
  const source = fresh(), back = fresh();
  const limits = { max_running: 50, max_running_per_group: 2, claim_rate: { count: 100, window_ms: 60_000, per: 'group' }, fair: 'group', ageing_ms: 60_000 };
  await serving({ data: source }, async (api) => {
    await ok(api.put('/v1/queues/limited', limits), 201);
    for (const group of ['a', 'a', 'a', 'b', 'b', 'b']) await put(api, 'limited', { payload: 1, group });
  });
  const way = [`sqlite:${source}`, postgres('limited'), `${process.env.HF_REDIS}?prefix=${encodeURIComponent('{limited}:')}`, `sqlite:${back}`];
  for (let i = 1; i < way.length; i++) ended(await migrate(way[i - 1], way[i]), DONE);
  for (const options of [{ backend: way[1] }, { backend: way[2] }, { data: back }]) await serving(options, async (api) => {
    const { policy } = await ok(api.get('/v1/queues/limited'));
    assert.deepEqual(Object.fromEntries(Object.keys(limits).map((name) => [name, policy[name]])), limits);
    const { jobs } = await ok(api.post('/v1/queues/limited/claim', { count: 10 }));
    assert.deepEqual(jobs.map((job) => job.group), ['a', 'b', 'a', 'b']);
    assert.equal((await ok(api.get('/v1/queues/limited'))).limited.group_limit, 2);
  });
});

test('HF-28: a migration that is killed while dependencies are added continues', async () => {
  const source = fresh(), target = fresh();
  let child;
  await serving({ data: source }, async (api) => {
    const a = await put(api, 'p', { payload: 'a' });
    for (let i = 0; i < 600; i += 300) await ok(api.post('/v1/queues/child/jobs', Array.from({ length: 300 }, () => ({ depends_on: [a] }))));
    child = (await ok(api.get('/v1/jobs?queue=child&limit=1'))).jobs[0].id;
  });
  assert.equal((await migrate(`sqlite:${source}`, `sqlite:${target}`, [], { HF_FAILPOINT: 'migrate.dependencies:1' })).code, 'SIGKILL');
  await serving({ data: target }, async (api) => assert.deepEqual((await ok(api.post('/v1/queues/child/claim', {}))).jobs, []));
  ended(await migrate(`sqlite:${source}`, `sqlite:${target}`, ['--resume']), DONE);
  await serving({ data: target }, async (api) => {
    assert.equal((await ok(api.get(`/v1/jobs/${child}?dependencies=true`))).waits_for.length, 1);
    const job = await claim(api, 'p');
    await ok(api.post(`/v1/jobs/${job.id}/ack`, { token: job.token }));
    await until('all are ready', async () => (await ok(api.get('/v1/queues/child'))).counts.ready === 600);
  });
});

test('a server with routes is moved store by store: its ids stay', async () => {
  const home = temporaryDirectory(), data = fresh(), moved = fresh(), mail = fresh();
  const config = (backend) => {
    const file = path.join(home, 'holdfast.yaml');
    writeFileSync(file, JSON.stringify({ routes: [`mail.* number=3 backend=${backend}`] }));
    return ['--config', file];
  };
  const seen = {};
  await serving({ data, args: config(`sqlite:${mail}`) }, async (api) => {
    await put(api, 'plain', { payload: 'here' });
    await put(api, 'mail.in', { payload: 'there' });
    const job = await claim(api, 'mail.in');
    await ok(api.post(`/v1/jobs/${job.id}/ack`, { token: job.token, result: 1 }));
    await put(api, 'mail.in', { payload: 'next' });
    for (const { id } of (await ok(api.get('/v1/jobs'))).jobs) seen[id] = await shown(api, id);
  });
  assert.equal(Object.keys(seen).length, 3);
  ended(await migrate(`sqlite:${data}`, `sqlite:${moved}`), DONE);
  ended(await migrate(`sqlite:${mail}`, postgres('routed')), DONE);
  await serving({ data: moved, args: config(postgres('routed')) }, async (api) => {
    for (const id of Object.keys(seen)) assert.deepEqual(await shown(api, id), seen[id]);
    const highest = Math.max(...Object.values(seen).map(({ seq }) => seq));
    assert.ok(highest > 3 * 2 ** 47);
    assert.ok((await shown(api, await put(api, 'mail.out', { payload: 1 }))).seq > highest);
    assert.equal((await claim(api, 'mail.in')).payload, 'next');
  });
});

describe('killed in the middle', () => {
  const COUNT = 2600;
  let source;
  before(async () => {
    source = fresh();
    await serving({ data: source }, async (api) => {
      for (let at = 0; at < COUNT; at += 650) {
        const jobs = Array.from({ length: 650 }, (_, i) => ({ payload: { n: at + i }, priority: i % 7, ...(i % 50 ? {} : { unique: `u${at + i}` }) }));
        await ok(api.post(`/v1/queues/q${at % 3}/jobs`, jobs));
      }
    });
  });

  const died = async (to, failpoint, args = []) => {
    const result = await migrate(`sqlite:${source}`, to, args, { HF_FAILPOINT: failpoint });
    assert.equal(result.code, 'SIGKILL', `${result.stdout}\n${result.stderr}`);
    if (to.startsWith('sqlite:')) return;
    const early = await migrate(`sqlite:${source}`, to, ['--resume']);
    ended(early, USAGE);
    assert.match(early.stderr, /the target is in use by node 0; .* if it was killed, try again in 15 seconds/);
    sql('DELETE FROM killed.node'); // as the passing of those seconds would
  };
  const finished = async (to) => {
    ended(await migrate(`sqlite:${source}`, to), REFUSED);
    const result = await migrate(`sqlite:${source}`, to, ['--resume', '--json']);
    ended(result, DONE);
    const { source: found, copied, there, ...rest } = JSON.parse(result.stdout);
    assert.equal(found.jobs.ready, COUNT);
    assert.equal(copied + there, COUNT);
    assert.deepEqual(rest, { verified: true });
    return there;
  };

  for (const [store, name] of [['embedded', () => `sqlite:${fresh()}`], ['PostgreSQL', () => postgres('killed')]]) {
    test(`${store}: each job exists once`, async () => {
      const to = name();
      await died(to, 'migrate.batch:2');
      await serving(to.startsWith('sqlite:') ? { data: to.slice(7) } : { backend: to }, async (api) => {
        const { jobs } = await ok(api.post('/v1/queues/q0/claim', { count: 10 }));
        assert.deepEqual(jobs, [], 'nothing of a half target runs');
      });
      await died(to, 'migrate.batch:3', ['--resume']);
      const there = await finished(to);
      assert.ok(there > 1000 && there < COUNT, `${there}`);
      if (!to.startsWith('sqlite:')) {
        assert.equal(sql('SELECT count(*), count(DISTINCT payload) FROM killed.job'), `${COUNT}|${COUNT}`);
        return;
      }
      const [a, b] = [await exported(source), await exported(to.slice(7))];
      assert.deepEqual(comparable(b), comparable(a));
    });
  }

  test('differences are reported, and the migration stops', async () => {
    const dir = fresh(), to = `sqlite:${dir}`;
    await died(to, 'migrate.release:1');
    await serving({ data: dir }, () => {}); // then the records of the journal are in the database
    runSql(path.join(dir, 'holdfast.db'), `UPDATE payload SET body = CAST('{"n":9}' AS BLOB) WHERE body = CAST('{"n":7}' AS BLOB)`);
    const changed = await migrate(`sqlite:${source}`, to, ['--resume']);
    ended(changed, REFUSED);
    assert.match(changed.stderr, /queue q0: as many jobs in both, but not with the same contents/);
    runSql(path.join(dir, 'holdfast.db'), `DELETE FROM jobs WHERE seq = 3; DELETE FROM payload WHERE seq = 3; DELETE FROM extra WHERE seq = 3`);
    const less = await migrate(`sqlite:${source}`, to, ['--resume']);
    ended(less, REFUSED);
    assert.match(less.stderr, /not the first ones of the source/);
    await serving({ data: dir }, async (api) => assert.equal((await ok(api.get('/v1/queues/q0'))).paused, true));
  });

  /** Holds a lock on the target's table of jobs until fn has acted on the process that waits for it. */
  const stopped = async (args, fn) => {
    const other = spawn('psql', psql, { stdio: ['pipe', 'pipe', 'inherit'] });
    let said = '', child;
    other.stdout.on('data', (chunk) => (said += chunk));
    other.stdin.write("BEGIN; LOCK TABLE cut.job IN SHARE MODE; SELECT 'held';\n");
    await until('the table is held', () => said.includes('held'));
    const result = migrate(`sqlite:${source}`, postgres('cut'), args, {}, (one) => (child = one));
    await until('it waits for the table', () => sql("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'cut.job'::regclass") !== '0');
    fn(child);
    other.stdin.end('ROLLBACK;\n');
    return result;
  };

  test('Ctrl-C, and a connection that is lost', async () => {
    await serving({ backend: postgres('cut') }, () => {});
    const interrupted = await stopped([], (child) => child.kill('SIGINT'));
    ended(interrupted, REFUSED);
    assert.match(interrupted.stderr, /interrupted after 500 jobs; the same command with --resume continues from there/);
    assert.equal(sql('SELECT count(*) FROM cut.job'), '500');
    const lost = await stopped(['--resume'], () => sql("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE NOT granted AND relation = 'cut.job'::regclass"));
    ended(lost, UNREACHABLE);
    sql('DELETE FROM cut.node');
    assert.equal(await finished(postgres('cut')), 500);
    assert.equal(sql('SELECT count(*), count(DISTINCT payload) FROM cut.job'), `${COUNT}|${COUNT}`);
  });

  test('before its queues are resumed', async () => {
    const to = `sqlite:${fresh()}`;
    await died(to, 'migrate.release:1');
    assert.equal(await finished(to), COUNT);
    await serving({ data: to.slice(7) }, async (api) => {
      const { id } = await claim(api, 'q0');
      assert.equal((await ok(api.get('/v1/jobs?queue=q0&state=running'))).jobs[0].id, id);
    });
  });
});
