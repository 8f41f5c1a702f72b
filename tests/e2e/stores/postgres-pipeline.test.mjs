// SPDX-License-Identifier: Apache-2.0
// Units of work that are pipelined on one connection to PostgreSQL: what happens to the next one if the database refuses
// one. The file runs itself with scripts/with-postgres.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, describe, test } from 'node:test';

import { Beanstalk, startBeanstalk } from '../lib/beanstalk.mjs';
import { Client } from '../lib/client.mjs';
import { base, psqlWords, sql } from '../lib/postgres.mjs';
import { startServer, stopServer, until } from '../lib/server.mjs';

/** Jobs with "once" are refused every other time, as if two nodes conflicted, those with "never" always. */
const refusing = `
  CREATE SEQUENCE pipeline.refusals;
  CREATE FUNCTION pipeline.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF encode(NEW.payload, 'escape') LIKE '%once%' AND nextval('pipeline.refusals') % 2 = 1 THEN
      RAISE EXCEPTION 'once more' USING ERRCODE = '40001';
    END IF;
    IF encode(NEW.payload, 'escape') LIKE '%never%' THEN
      RAISE EXCEPTION 'never' USING ERRCODE = '22000';
    END IF;
    RETURN NEW;
  END $$;
  CREATE TRIGGER refuse BEFORE INSERT ON pipeline.job FOR EACH ROW EXECUTE FUNCTION pipeline.refuse()`;

describe('units that follow each other', { concurrency: false }, () => {
  let server, api;
  before(async () => {
    // A long time, for slow databases: late requests would get 504.
    server = await startBeanstalk({ backend: `${base}&schema=pipeline`, env: { HOLDFAST_TIMEOUTS_BACKEND_MS: '10m' } });
    api = new Client(server);
    sql(refusing);
  });
  after(async () => {
    api.close();
    await stopServer(server);
  });

  /** Puts all jobs, ten at a time; returns the ids in the order of the puts. */
  async function putAll(connection, bodies) {
    const ids = [];
    for (let i = 0; i < bodies.length; i += 10) {
      const slice = bodies.slice(i, i + 10).map((body) => connection.put(body));
      ids.push(...(await Promise.all(slice)));
    }
    return ids;
  }

  test('a unit that is refused and retried keeps its place before the next ones', async () => {
    const connections = await Promise.all(Array.from({ length: 8 }, () => Beanstalk.connect(server.beanstalk)));
    const bodies = connections.map((_, c) => Array.from({ length: 150 }, (_, i) => `${c}-${i}${c === 0 && i % 15 === 0 ? '-once' : ''}`));
    for (const connection of connections) assert.equal(await connection.line('use pipeline'), 'USING pipeline');
    const ids = await Promise.all(connections.map((connection, c) => putAll(connection, bodies[c])));
    for (const list of ids) assert.deepEqual(list, [...list].sort((a, b) => a - b), 'in the order they were sent');
    assert.equal(new Set(ids.flat()).size, 8 * 150);
    const stored = sql("SELECT seq || ' ' || encode(payload, 'escape') FROM pipeline.job ORDER BY seq").split('\n');
    const wanted = ids.flatMap((list, c) => list.map((id, i) => `${id} ${bodies[c][i]}`));
    assert.deepEqual(stored, wanted.sort((a, b) => parseInt(a, 10) - parseInt(b, 10)), 'each once, under the id that was told');
    assert.ok(Number(sql('SELECT last_value FROM pipeline.refusals')) >= 10, 'some were refused');
    for (const connection of connections) await connection.close();
  });

  test('a unit that is always refused does not affect the next ones', async () => {
    const put = (key, payload) => api.post('/v1/queues/never/jobs', { payload }, { headers: { 'idempotency-key': key } });
    const never = async (i) => {
      const answer = await put(`n${i}`, `never ${i}`);
      assert.equal(answer.status, 503, answer.text);
    };
    /** Requests in the same unit as a refused job are told to retry. */
    const good = async (i) => {
      for (let answer; answer?.status !== 201; ) {
        answer = await put(`g${i}`, `good ${i}`);
        assert.ok(answer.status === 201 || answer.status === 503, answer.text);
      }
    };
    for (let round = 0; round < 10; round++)
      await Promise.all([never(round), ...Array.from({ length: 20 }, (_, i) => good(round * 20 + i))]);
    const stored = sql("SELECT encode(payload, 'escape') FROM pipeline.job j JOIN pipeline.queues q ON q.number = j.queue WHERE q.name = 'never'").split('\n');
    assert.deepEqual(stored.sort(), Array.from({ length: 200 }, (_, i) => `"good ${i}"`).sort());
  });
});

/** A session that holds an advisory lock, whose two numbers come from `select`, until it is released. */
async function holding(t, select) {
  const psql = spawn('psql', psqlWords(), { stdio: ['pipe', 'pipe', 'inherit'] });
  const exited = once(psql, 'exit');
  const release = () => (psql.stdin.end(), exited);
  t.after(release);
  let said = '';
  psql.stdout.on('data', (bytes) => (said += bytes));
  psql.stdin.write(`SELECT 'locked' || pg_advisory_lock(a, b) FROM (${select}) AS lock(a, b);\n`);
  await until('the lock', () => said.includes('locked'));
  return { release };
}

/** Holds the exclusive lock of a queue, as a purge would; requests for the queue wait. */
const locked = (t, queue) => holding(t, `SELECT ('ahead.queues'::regclass::oid::int8 & 2147483647)::int4, number FROM ahead.queues WHERE name = '${queue}'`);

/** Jobs with "gated" are not stored before this is released. */
const closedGate = (t) => holding(t, 'SELECT -1, -1');

// Due jobs and heartbeats would come between units: therefore another node leads, and heartbeats are rare.
const calm = { HOLDFAST_CLUSTER_LEADER_TTL_MS: '10m', HOLDFAST_CLUSTER_SILENT_MS: '10m', HOLDFAST_TIMEOUTS_BACKEND_MS: '10m', HOLDFAST_TIMEOUTS_DRAIN_MS: '10m' };
describe('a unit that is sent early', { concurrency: false }, () => {
  let leader, theirs, server, api;
  before(async () => {
    leader = await startServer({ backend: `${base}&schema=ahead`, env: calm });
    await until('it leads', () => sql('SELECT holder FROM ahead.leader') !== '0');
    theirs = sql("SELECT string_agg(pid::text, ',') FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()");
    server = await startServer({ backend: `${base}&schema=ahead`, args: ['--node', '2'], env: calm });
    api = new Client(server);
    for (const queue of ['a', 'b']) assert.equal((await put(queue, 'first')).status, 201);
    sql(`CREATE FUNCTION ahead.slow() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF encode(NEW.payload, 'escape') LIKE '%slow%' THEN PERFORM pg_sleep(0.5); END IF;
        IF encode(NEW.payload, 'escape') LIKE '%gated%' THEN PERFORM pg_advisory_xact_lock_shared(-1, -1); END IF;
        RETURN NEW;
      END $$;
      CREATE TRIGGER slow BEFORE INSERT ON ahead.job FOR EACH ROW EXECUTE FUNCTION ahead.slow()`);
  });
  after(async () => {
    api.close();
    await stopServer(server);
    await stopServer(leader);
  });

  const put = (queue, payload) => api.post(`/v1/queues/${queue}/jobs`, { payload });
  /** Processes of the database that work for this node. */
  const mine = (what) => sql(`SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND application_name <> 'psql' AND pid NOT IN (${theirs}) AND ${what}`);
  const end = (pid) => assert.equal(sql(`SELECT pg_terminate_backend(${pid})`), 't');
  const stored = () => sql("SELECT string_agg(encode(payload, 'escape'), ' ' ORDER BY seq) FROM ahead.job WHERE encode(payload, 'escape') <> '\"first\"'");
  const inStore = () => mine("query LIKE 'INSERT INTO ahead.job %' AND state = 'active'");

  /** The state of a process of the database that waits for the next command and stays so. */
  const settled = (pid) => sql(`SELECT state FROM pg_stat_activity WHERE pid = ${pid} AND (state = 'idle in transaction' OR state = 'idle' AND state_change < clock_timestamp() - interval '2 s')`);

  /** When this resolves, the server has read and passed on the earlier requests. */
  const breath = async () => {
    for (let i = 0; i < 10; i++) assert.equal((await api.get('/healthz')).status, 200);
  };

  /** A request that waits for the queue's lock, and a second one; then the first is stored slowly. */
  async function two(t, queueOfSecond, payload) {
    const lock = await locked(t, 'a');
    const first = put('a', payload);
    await until('it waits', () => mine("wait_event_type = 'Lock'"));
    const second = put(queueOfSecond, 'second');
    await breath();
    return { first, second, release: () => lock.release() };
  }

  test('the first is answered while the second waits for a lock', async (t) => {
    const lock = await locked(t, 'b');
    const { first, second, release } = await two(t, 'b', 'slow');
    await release();
    const pid = await until('it is asked for', () => mine("wait_event_type = 'Lock'"));
    assert.equal((await first).status, 201, 'the reply does not wait for later units');
    await until('the second waits for its lock on the same connection', () => mine("wait_event_type = 'Lock'") === pid);
    await lock.release();
    assert.equal((await second).status, 201);
    assert.equal(stored(), '"slow" "second"');
  });

  test('a connection that ends after the commit of the first costs only the second', async (t) => {
    t.after(() => server.process.kill('SIGCONT'));
    for (let tries = 1; ; tries++) {
      sql("DELETE FROM ahead.job WHERE encode(payload, 'escape') <> '\"first\"'");
      const gate = await closedGate(t);
      const { first, second, release } = await two(t, 'a', 'gated');
      await release();
      const pid = await until('the first is being stored', inStore);
      await breath();
      server.process.kill('SIGSTOP');
      await gate.release();
      const wentAhead = (await until('it is stored', () => settled(pid))) === 'idle in transaction';
      if (wentAhead) end(pid);
      server.process.kill('SIGCONT');
      assert.equal((await first).status, 201);
      const { status } = await second;
      assert.ok(wentAhead || tries < 10, 'the second never goes ahead');
      if (!wentAhead) continue; // another unit of the server came between the two
      assert.ok([503, 504].includes(status), String(status));
      assert.equal(stored(), '"gated"');
      break;
    }
  });

  test('a connection that ends before the commit makes the first unknown, and the second is not done', async (t) => {
    await until('it goes on', async () => (await put('b', 'first')).status === 201);
    for (let tries = 1, status; status !== 503; tries++) {
      sql("DELETE FROM ahead.job WHERE encode(payload, 'escape') <> '\"first\"'");
      const gate = await closedGate(t);
      const { first, second, release } = await two(t, 'a', 'gated');
      await release();
      const pid = await until('the first is being stored', inStore);
      await breath();
      end(pid);
      assert.equal((await first).status, 504);
      ({ status } = await second);
      // Another unit of the server may come between the two; then the second is done on another connection.
      assert.ok(status === 503 || (status === 201 && tries < 10), String(status));
      assert.equal(stored(), status === 503 ? '' : '"second"');
      await gate.release();
      await until('it goes on', async () => (await put('b', 'first')).status === 201);
    }
  });

  test('a server that stops completes both', async (t) => {
    const gate = await closedGate(t);
    const { first, second, release } = await two(t, 'a', 'gated');
    await release();
    await until('the first is being stored', inStore);
    await breath();
    server.process.kill('SIGTERM');
    await gate.release();
    assert.equal((await first).status, 201);
    assert.equal((await second).status, 201);
    await server.exited;
    assert.equal(stored(), '"gated" "second"');
  });
});
