// SPDX-License-Identifier: Apache-2.0
// HF-29: jobs that are enqueued with SQL in the transaction of a user. The file runs itself with scripts/with-postgres.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { after, before, describe, test } from 'node:test';

import { Client, openStream } from '../lib/client.mjs';
import { Psql } from '../lib/psql.mjs';
import { binary, killServer, logged, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';

if (!process.env.HF_POSTGRES) {
  const wrapper = fileURLToPath(new URL('../../../scripts/with-postgres', import.meta.url));
  const words = ['node', ...process.execArgv, fileURLToPath(import.meta.url)];
  const env = { ...process.env, HF_POSTGRES_CONF: 'max_prepared_transactions = 5' };
  process.exit(spawnSync(wrapper, words, { stdio: 'inherit', env }).status ?? 1);
}

const base = process.env.HF_POSTGRES;
const socket = decodeURIComponent(base.replace(/.*host=/, ''));
const url = (schema) => `${base}&schema=${schema}`;

/** Runs SQL as a role; the output, with errors. */
function psql(text, user = 'holdfast') {
  const words = ['-h', socket, '-U', user, '-d', 'postgres', '-qAtX', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose', '-c', text];
  const run = spawnSync('psql', words, { encoding: 'utf8' });
  return { ok: run.status === 0, text: (run.stdout + run.stderr).trim() };
}
function sql(text, user) {
  const { ok, text: out } = psql(text, user);
  assert.ok(ok, out);
  return out;
}
const literal = (value) => `'${JSON.stringify(value).replaceAll("'", "''")}'`;
/** Calls the function in its own transaction; the id. */
const call = (schema, queue, payload, options = {}, user = undefined) =>
  sql(`SELECT ${schema}.enqueue('${queue}', ${literal(payload)}::jsonb, ${literal(options)}::jsonb)`, user);

async function startNode(schema, { number = 1, env = {}, args = [] } = {}) {
  const server = await startServer({ backend: url(schema), args: ['--node', String(number), ...args], env });
  return Object.assign(server, { api: new Client(server) });
}
async function stopNode(server) {
  server.api.close();
  if (!server.exit) await stopServer(server);
}
async function ok(answer, status = 200) {
  const got = await answer;
  assert.equal(got.status, status, got.text);
  return got.json;
}
const claimed = async (api, queue, more = {}) => (await ok(api.post(`/v1/queues/${queue}/claim`, { wait_ms: 60_000, ...more }))).jobs;
const drained = (schema) => until('the inbox is empty', () => sql(`SELECT count(*) FROM ${schema}.inbox`) === '0');
const refusals = (schema, where = 'true') =>
  sql(`SELECT coalesce(json_agg(r ORDER BY id), '[]') FROM ${schema}.inbox_refused r WHERE ${where}`);
const refusalOf = async (schema, id) => {
  await drained(schema);
  return JSON.parse(refusals(schema, `id = '${id}'`))[0];
};

describe('HF-29 one node', () => {
  let server, api;
  before(async () => {
    server = await startNode('holdfast');
    api = server.api;
  });
  after(() => stopNode(server));

  test('the call as documented: the id that it returns is the id of the job', async () => {
    const id = sql(`SELECT holdfast.enqueue('mail', '{"to":"ann"}'::jsonb, '{"priority": 5}'::jsonb)`);
    assert.match(id, /^[0-9A-HJKMNP-TV-Z]{26}$/);
    const [job] = await claimed(api, 'mail');
    assert.equal(job.id, id);
    assert.deepEqual([job.payload, job.priority], [{ to: 'ann' }, 5]);
    await ok(api.post(`/v1/jobs/${id}/ack`, { token: job.token }));
    assert.equal((await ok(api.get(`/v1/jobs/${id}`))).state, 'done');
  });

  test('the job exists if and only if the transaction commits', async () => {
    const one = new Psql(socket);
    await one.run('BEGIN');
    const kept = await one.run(`SELECT holdfast.enqueue('tx', '1')`);
    await one.run('SAVEPOINT s');
    const undone = await one.run(`SELECT holdfast.enqueue('tx', '2')`);
    await one.run('ROLLBACK TO s');
    const last = await one.run(`SELECT holdfast.enqueue('tx', '3')`);
    // Another transaction, which began later, ends first: its job does not wait for the open one.
    const later = call('holdfast', 'tx', 4);
    assert.equal((await claimed(api, 'tx'))[0].id, later);
    for (const id of [kept, undone, last]) assert.equal((await api.get(`/v1/jobs/${id}`)).status, 404);
    await one.run('COMMIT');
    const jobs = [...(await claimed(api, 'tx')), ...(await claimed(api, 'tx'))];
    assert.deepEqual(jobs.map((job) => job.id), [kept, last], 'in the order of the calls, also behind a sequence that was taken before');
    await one.run('BEGIN');
    const never = await one.run(`SELECT holdfast.enqueue('tx', '5')`);
    await one.run('ROLLBACK');
    await one.close();
    call('holdfast', 'tx', 6);
    assert.equal((await claimed(api, 'tx'))[0].payload, 6);
    for (const id of [undone, never]) assert.equal((await api.get(`/v1/jobs/${id}`)).status, 404);
    assert.equal((await ok(api.get('/v1/queues/tx'))).counts.ready, 0);
  });

  test('payloads: jsonb is normalised, json and text are kept byte for byte, bytea is bytes, NULL is none', async () => {
    const id = (expression) => sql(`SELECT holdfast.enqueue('bodies', ${expression})`);
    const ids = [id(`'{ "b":1,  "a": 2 }'::jsonb`), id(`'{ "b":1,  "a": 2 }'::json`), id(`'{ "b":1,  "a": 2 }'::text`), id(`'{ "b":1,  "a": 2 }'`),
      id(`'\\x00ff'::bytea`), id('NULL::jsonb')];
    await drained('holdfast');
    const stored = ids.map((one) => sql(`SELECT coalesce(payload_kind || ' ' || convert_from(CASE payload_kind WHEN 1 THEN payload END, 'UTF8'), payload_kind || ' ' || encode(payload, 'hex'), payload_kind::text) FROM holdfast.job WHERE seq = ${Number((BigInt(`0x${uuidLow(one)}`) & ((1n << 53n) - 1n)))}`));
    const same = '1 { "b":1,  "a": 2 }';
    assert.deepEqual(stored, ['1 {"a": 2, "b": 1}', same, same, same, '2 00ff', '0']);
  });

  test('every option arrives', async () => {
    const options = {
      priority: 'high', delay_ms: 3_600_000, unique: 'u', group: 'g', correlation_id: 'c', kind: 'welcome', headers: { 'X-Trace': 'a b' }, max_attempts: 3,
      max_crashes: 2, lease_ms: 5000, timeout_ms: 60_000, backoff: { base_ms: 100, max_ms: 2_592_000_000 }, unique_mode: 'reject', expires_in_ms: 7_200_000, idempotency_key: 'i',
    };
    const viaSql = call('holdfast', 'options', 1, options);
    await drained('holdfast');
    assert.equal(refusals('holdfast'), '[]');
    const { id: viaHttp } = await ok(api.post('/v1/queues/options-http/jobs', { payload: 1, ...options, idempotency_key: 'j' }), 201);
    const [one, two] = await Promise.all([viaSql, viaHttp].map((id) => ok(api.get(`/v1/jobs/${id}`))));
    const plain = ({ id, seq, uuid, queue, created_at, state_since, run_at, expires_at, ...rest }) => ({ ...rest, delay: Date.parse(run_at) - Date.parse(state_since), expires: expires_at !== undefined });
    assert.deepEqual(plain(one), plain(two));
    assert.equal(one.priority_label, 'high');
    const at = '2090-01-02T03:04:05.678Z';
    const timed = call('holdfast', 'options', 2, { run_at: at, expires_at: '2090-01-03T00:00:00+01:00', backoff_ms: [1000, 2_592_000_000], priority: -7 });
    await drained('holdfast');
    const job = await ok(api.get(`/v1/jobs/${timed}`));
    assert.deepEqual([job.run_at, job.expires_at, job.priority, job.backoff], [at, '2090-01-02T23:00:00.000Z', -7, { type: 'list', steps_ms: [1000, 2_592_000_000] }]);
  });

  test('a wrong call is an error that names the field, and the transaction of the caller fails', async () => {
    const wrong = {
      '{"nope": 1}': /there is no option "nope"; the options are priority, /,
      '{"delay_ms": -1}': /delay_ms must be a whole number from 0 to /,
      '{"delay_ms": 1.5}': /delay_ms must be a whole number/,
      '{"max_attempts": 0}': /max_attempts must be a whole number from 1 to 60000/,
      '{"run_at": "2026-02-31T00:00:00Z"}': /run_at must be an RFC 3339 time/,
      '{"run_at": "2026-02-01 00:00"}': /run_at must be an RFC 3339 time/,
      '{"kind": 5}': /kind must be a text of at most 128 bytes/,
      '{"headers": {"a b": "x"}}': /headers: the member "a b" must be/,
      '{"backoff_ms": []}': /backoff_ms must be a list of 1 to 32/,
      '{"backoff": {"type": "list"}}': /backoff of type list/,
      '{"backoff": {"base_ms": 5, "max_ms": 1}}': /base_ms that is more than its max_ms/,
      '{"unique_mode": "x"}': /unique_mode must be reject, return or replace/,
      '{"delay_ms": 1, "run_at": "2026-02-01T00:00:00Z"}': /give either delay_ms or run_at/,
      '{"idempotency_key": ""}': /idempotency_key must be a text of 1 to 200 bytes/,
      '{"priority": 9223372036854775808}': /priority must be a whole number/,
      '[]': /options must be a JSON object/,
    };
    for (const [options, why] of Object.entries(wrong)) {
      const { ok: taken, text } = psql(`SELECT holdfast.enqueue('wrong', '1', '${options}')`);
      assert.ok(!taken, options);
      assert.match(text, /ERROR: {2}22023: /);
      assert.match(text, why);
    }
    for (const queue of [`''`, `'-x'`, `E'a\\nb'`, 'NULL', `repeat('x', 201)`]) assert.match(psql(`SELECT holdfast.enqueue(${queue}, '1')`).text, /22023: queue must be a name/);
    assert.match(psql(`SELECT holdfast.enqueue('wrong', '{')`).text, /22023: payload must be a JSON text/);
    const one = new Psql(socket);
    await one.run('BEGIN');
    await one.run(`SELECT holdfast.enqueue('wrong', '1')`);
    await one.run(`SELECT holdfast.enqueue('wrong', '1', '{"nope": 1}')`);
    assert.match(await one.run('SELECT 1'), /25P02/);
    await one.run('COMMIT');
    await one.close();
    assert.equal((await api.get('/v1/queues/wrong')).status, 404);
  });

  test('what the rules refuse can be seen: in SQL, as an event, in the metrics and in the log', async () => {
    const events = openStream(server, '/v1/events?events=inbox_refused');
    await events.opened;
    const first = call('holdfast', 'rules', 1, { unique: 'k', idempotency_key: 'once' });
    await drained('holdfast');
    const second = call('holdfast', 'rules', { secret: 'hunter2' }, { unique: 'k' });
    const refused = await refusalOf('holdfast', second);
    assert.deepEqual([refused.reason, refused.instead, refused.queue, refused.can_retry], ['duplicate', first, 'rules', true]);
    const event = JSON.parse((await events.next()).data);
    assert.deepEqual([event.event, event.job.id, event.queue], ['inbox_refused', second, 'rules']);
    events.close();
    await logged(server, new RegExp(`warn inbox_refused job=${second} queue=rules reason=duplicate`));
    assert.doesNotMatch(server.stderr, /hunter2/);
    assert.equal((await api.get(`/v1/jobs/${second}`)).status, 404);

    assert.equal((await refusalOf('holdfast', call('holdfast', 'rules', 1, { unique: 'k', unique_mode: 'return' }))).instead, first);
    assert.equal((await refusalOf('holdfast', call('holdfast', 'rules', 1, { unique: 'k', idempotency_key: 'once' }))).reason, 'repeat');
    assert.equal((await refusalOf('holdfast', call('holdfast', 'rules', 2, { unique: 'k', idempotency_key: 'once' }))).reason, 'key_reused');
    assert.equal((await refusalOf('holdfast', call('holdfast', 'rules', 2, { priority: 'nothing' }))).reason, 'invalid');
    await ok(api.put('/v1/queues/small', { capacity: 1 }), 201);
    await ok(api.post('/v1/queues/small/jobs', { payload: 0 }), 201);
    const full = call('holdfast', 'small', 7);
    assert.equal((await refusalOf('holdfast', full)).reason, 'queue_full');
    const replaced = call('holdfast', 'rules', 3, { unique: 'k', unique_mode: 'replace' });
    await drained('holdfast');
    assert.deepEqual([(await ok(api.get(`/v1/jobs/${first}`))).reason, (await ok(api.get(`/v1/jobs/${replaced}`))).state], ['replaced', 'ready']);
    await until('the metrics show it', async () => /^holdfast_inbox_refused_total 6$/m.test((await api.get('/metrics')).text));

    // Again, when there is room: under the same id.
    await ok(api.put('/v1/queues/small', { capacity: 5 }));
    assert.equal(sql(`SELECT holdfast.inbox_retry('${full}')`), 't');
    await drained('holdfast');
    assert.equal((await ok(api.get(`/v1/jobs/${full}`))).payload, 7);
    assert.equal(sql(`SELECT holdfast.inbox_retry('${full}')`), 'f');
  });

  test('a row that the database refuses does not block the others', async () => {
    sql(`CREATE FUNCTION public.poison() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.kind = ''poison'' THEN RAISE ''no'' USING ERRCODE = ''22000''; END IF; RETURN NEW; END';
      CREATE TRIGGER poison BEFORE INSERT ON holdfast.job FOR EACH ROW EXECUTE FUNCTION public.poison()`);
    const ids = sql(`SELECT holdfast.enqueue('poison', n::text, CASE WHEN n = 37 THEN '{"kind": "poison"}'::jsonb END) FROM generate_series(1, 100) n`).split('\n');
    await drained('holdfast');
    sql('DROP TRIGGER poison ON holdfast.job');
    assert.equal((await ok(api.get('/v1/queues/poison'))).counts.ready, 99);
    const refused = JSON.parse(refusals('holdfast', `queue = 'poison'`));
    assert.deepEqual(refused.map((one) => [one.id, one.reason]), [[ids[36], 'failed']]);
    assert.equal(sql(`SELECT holdfast.inbox_retry('${ids[36]}')`), 't');
    await drained('holdfast');
    assert.equal((await ok(api.get('/v1/queues/poison'))).counts.ready, 100);
  });

  test('prepared transactions and calls without a notification', async () => {
    const one = new Psql(socket);
    await one.run('BEGIN');
    await one.run('SET LOCAL holdfast.wake = off');
    const id = await one.run(`SELECT holdfast.enqueue('prepared', '1')`);
    assert.equal(await one.run(`PREPARE TRANSACTION 'p'`), '');
    await one.close();
    assert.equal((await api.get(`/v1/jobs/${id}`)).status, 404);
    const waiting = claimed(api, 'prepared');
    sql(`COMMIT PREPARED 'p'`);
    assert.equal((await waiting)[0].id, id); // by the safety poll
    sql(`SET holdfast.wake = off; SELECT holdfast.enqueue('prepared', '2'); SELECT holdfast.inbox_wake()`);
    assert.equal((await claimed(api, 'prepared')).length, 1);
  });

  test('a transaction of many rows is taken in batches, in order', async () => {
    const rows = 3000;
    sql(`SELECT count(holdfast.enqueue('big', n::text)) FROM generate_series(1, ${rows}) n`);
    const seen = [];
    while (seen.length < rows) {
      const jobs = await claimed(api, 'big', { count: 500 });
      seen.push(...jobs.map((job) => job.payload));
      await ok(api.post('/v1/ack', { jobs: jobs.map(({ id, token }) => ({ id, token })) }));
    }
    assert.deepEqual(seen, Array.from({ length: rows }, (_, i) => i + 1));
  });

  test('a purge and a delete concern the jobs that are in the queue, not rows that come later', async () => {
    const one = new Psql(socket);
    call('holdfast', 'purged', 1);
    await drained('holdfast');
    await one.run('BEGIN');
    const id = await one.run(`SELECT holdfast.enqueue('purged', '2')`);
    await ok(api.post('/v1/queues/purged/purge', {}));
    const gone = await api.request('DELETE', '/v1/queues/purged');
    assert.equal(gone.status, 200, gone.text);
    await one.run('COMMIT');
    await one.close();
    assert.equal((await claimed(api, 'purged'))[0].id, id);
  });

  test('a role that may only enqueue', async () => {
    sql('CREATE ROLE app LOGIN; CREATE ROLE other LOGIN');
    sql(`SELECT holdfast.grant_enqueue('app')`);
    const id = call('holdfast', 'granted', 1, {}, 'app');
    assert.equal((await claimed(api, 'granted'))[0].id, id);
    sql('SELECT holdfast.inbox_wake()', 'app');
    const denied = /42501: permission denied/;
    assert.match(psql(`SELECT holdfast.enqueue('granted', '1')`, 'other').text, denied);
    const relations = sql(`SELECT string_agg(relname, ',') FROM pg_class WHERE relnamespace = 'holdfast'::regnamespace AND relkind IN ('r', 'v')`).split(',');
    assert.ok(relations.includes('inbox') && relations.includes('job') && relations.includes('inbox_refused'));
    for (const relation of relations)
      for (const statement of [`SELECT * FROM holdfast.${relation}`, `DELETE FROM holdfast.${relation}`, `INSERT INTO holdfast.${relation} DEFAULT VALUES`])
        assert.match(psql(statement, 'app').text, denied, statement);
    assert.match(psql(`SELECT nextval('holdfast.job_seq')`, 'app').text, denied);
    assert.match(psql(`SELECT setval('holdfast.job_seq', 1)`, 'app').text, denied);
    const calls = sql(`SELECT string_agg(proname || '/' || pronargs, ',' ORDER BY proname, pronargs) FROM pg_proc WHERE pronamespace = 'holdfast'::regnamespace AND has_function_privilege('app', oid, 'EXECUTE')`);
    assert.equal(calls, 'enqueue/3,enqueue/3,enqueue/3,enqueue/3,inbox_wake/0');
    assert.equal(sql(`SELECT count(*) FROM pg_proc WHERE pronamespace = 'holdfast'::regnamespace AND has_function_privilege('other', oid, 'EXECUTE')`), '0');
    // Objects of the caller are not used, whatever its search_path says.
    sql(`GRANT CREATE ON DATABASE postgres TO app`);
    sql(`CREATE SCHEMA evil; CREATE FUNCTION evil.nextval(regclass) RETURNS int8 LANGUAGE sql AS 'SELECT 1 / 0'; CREATE FUNCTION evil.octet_length(text) RETURNS int4 LANGUAGE sql AS 'SELECT 1 / 0'`, 'app');
    sql(`SET search_path = evil, pg_catalog; SELECT holdfast.enqueue('granted', '1')`, 'app');
    sql(`SELECT holdfast.revoke_enqueue('app')`);
    assert.match(psql(`SELECT holdfast.enqueue('granted', '1')`, 'app').text, denied);
  });

  test('the SQL of the how-to page runs as it is printed there', async () => {
    const page = readFileSync(new URL('../../../docs/howto/transactional-enqueue.md', import.meta.url), 'utf8');
    const blocks = (language) => [...page.matchAll(new RegExp(`^\`\`\`${language}(?: \\S+)?\\n(.*?)^\`\`\`$`, 'gms'))].map(([, body]) => body);
    const [call, grant, script, trigger, refused] = blocks('sql');
    assert.equal(blocks('sql').length, 5);
    const jobs = async () => {
      await drained('holdfast');
      return (await ok(api.get('/v1/jobs?queue=mail&order=newest'))).jobs;
    };
    sql('CREATE TABLE public.orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer text, total int, mail_job text)');
    sql(grant.replaceAll(/ --.*/g, '').replaceAll(/\bapp\b/g, 'shop'));
    sql('GRANT ALL ON public.orders TO shop');
    sql(call, 'shop');
    assert.deepEqual((await jobs())[0].payload, { to: 'ann' });
    const words = ['-h', socket, '-U', 'shop', '-d', 'postgres', '-qAtX', '-v', 'ON_ERROR_STOP=1', '-f', '-'];
    const said = spawnSync('psql', words, { encoding: 'utf8', input: script });
    const [, order, id] = /^order (\d+) has the job (\w+)$/m.exec(said.stdout) ?? assert.fail(said.stdout + said.stderr);
    assert.deepEqual([(await jobs())[0].id, (await jobs())[0].payload], [id, { order: Number(order) }]);
    assert.equal(sql(`SELECT mail_job FROM orders WHERE id = ${order}`, 'shop'), id);
    // What the drivers of Python and Ruby send for the statement of their example.
    for (const language of ['python', 'ruby']) {
      const values = [`'mail'`, `'{"order": 7}'`, `'{"priority": 5, "idempotency_key": "${language}"}'`];
      const [, statement] = /"(SELECT holdfast\.enqueue\([^"]*\))"/.exec(blocks(language).join('\n'));
      const given = sql(statement.replaceAll(/%s|\?/g, () => values.shift()), 'shop');
      assert.deepEqual([(await jobs())[0].id, (await jobs())[0].priority], [given, 5]);
    }
    sql(`SET search_path = public; ${trigger}`);
    sql(`INSERT INTO orders (customer, total) VALUES ('eve', 1)`, 'shop');
    assert.deepEqual(Object.keys((await jobs())[0].payload), ['order']);
    const twice = [1, 2].map(() => sql(`SELECT holdfast.enqueue('mail', '1', '{"unique": "howto"}')`, 'shop'));
    await refusalOf('holdfast', twice[1]);
    assert.match(sql(refused.replace(/01[0-9A-Z]{24}/, twice[1])), new RegExp(`^${twice[1]}\\|mail\\|duplicate\\|`));
    sql('DROP TABLE public.orders CASCADE; DROP FUNCTION public.order_created(); DROP OWNED BY shop; DROP ROLE shop');
  });
});

/** The lower half of an id, in hexadecimal. */
function uuidLow(ulid) {
  const digits = '0123456789ABCDEFGHJKMNPQRSTVWXYZ';
  let value = 0n;
  for (const c of ulid) value = value * 32n + BigInt(digits.indexOf(c));
  return (value & ((1n << 64n) - 1n)).toString(16);
}

describe('HF-29 other settings', () => {
  test('a schema of another name, a queue that may not be created, and a rate limit', async (t) => {
    const server = await startNode('other', { env: { HOLDFAST_AUTO_CREATE: 'false' } });
    t.after(() => stopNode(server));
    const id = call('other', 'unknown', 1);
    assert.equal((await refusalOf('other', id)).reason, 'no_queue');
    await ok(server.api.put('/v1/queues/slow', { enqueue_rate: { count: 1, window_ms: 3_600_000 } }), 201);
    call('other', 'slow', 1);
    await drained('other');
    assert.equal((await refusalOf('other', call('other', 'slow', 2))).reason, 'rate_limited');
  });

  test('a waiting claim is woken by the commit, not by a poll', async (t) => {
    // The safety poll comes with the heartbeat, every two minutes here; a claim waits for at most one.
    const server = await startNode('fast', { env: { HOLDFAST_CLUSTER_LEADER_TTL_MS: '10m', HOLDFAST_CLUSTER_SILENT_MS: '10m' } });
    t.after(() => stopNode(server));
    for (let i = 0; i < 20; i++) {
      const waiting = claimed(server.api, 'wake');
      const id = call('fast', 'wake', i);
      assert.equal((await waiting)[0]?.id, id);
    }
  });

  test('rows wait while no server runs; two nodes take each once', async (t) => {
    const nodes = [await startNode('two', { number: 1 }), await startNode('two', { number: 2 })];
    t.after(() => Promise.all(nodes.map(stopNode)));
    const lots = 40, each = 50;
    const writers = await Promise.all(Array.from({ length: 4 }, async (_, w) => {
      const one = new Psql(socket);
      const ids = [];
      for (let i = w; i < lots; i += 4) ids.push(...(await one.run(`SELECT two.enqueue('q', '${i}') FROM generate_series(1, ${each})`)).split('\n'));
      await one.close();
      return ids;
    }));
    const ids = writers.flat();
    assert.equal(new Set(ids).size, lots * each);
    await drained('two');
    const got = new Set();
    while (got.size < ids.length) {
      const jobs = await claimed(nodes[got.size % 2].api, 'q', { count: 100 });
      for (const job of jobs) {
        assert.ok(!got.has(job.id), 'once');
        got.add(job.id);
      }
    }
    assert.deepEqual([...got].sort(), ids.sort());
    assert.equal(refusals('two'), '[]');
    for (const node of nodes) await stopNode(node);
    const id = call('two', 'later', 1);
    const again = await startNode('two');
    t.after(() => stopNode(again));
    assert.equal((await claimed(again.api, 'later'))[0].id, id);
  });

  test('a claim that waits on another node is woken as well', async (t) => {
    const nodes = [await startNode('woken', { number: 1 }), await startNode('woken', { number: 2 })];
    t.after(() => Promise.all(nodes.map(stopNode)));
    for (let i = 0; i < 10; i++) {
      const waiting = claimed(nodes[i % 2].api, 'q');
      const id = call('woken', 'q', i);
      assert.equal((await waiting)[0].id, id);
    }
  });

  test('holdfast migrate does not leave rows behind', async () => {
    const server = await startNode('moved');
    call('moved', 'q', 1);
    await drained('moved');
    await killServer(server);
    server.api.close();
    call('moved', 'q', 2);
    const to = `sqlite:${path.join(temporaryDirectory(), 'store')}`;
    const migrate = () => spawnSync(binary, ['migrate', '--from', url('moved'), '--to', to], { encoding: 'utf8' });
    let result = await until('the killed server counts as dead', () => {
      const one = migrate();
      return /in use by node/.test(one.stderr) ? null : one;
    });
    assert.notEqual(result.status, 0);
    assert.match(result.stderr, /the inbox of the source has 1 jobs that no server has taken/);
    const again = await startNode('moved');
    await drained('moved');
    await stopNode(again);
    result = migrate();
    assert.equal(result.status, 0, result.stderr);
    assert.match(result.stdout, /2 jobs/);
  });
});
