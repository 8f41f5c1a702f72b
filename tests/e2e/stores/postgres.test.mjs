// SPDX-License-Identifier: Apache-2.0
// Several servers on one PostgreSQL database: what they share, when they refuse to start, and what happens during an
// outage. The file runs itself with scripts/with-postgres.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import tls from 'node:tls';
import { after, before, describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { declareCases, nodeCases } from '../lib/node_cases.mjs';
import { base, socket, sql, url } from '../lib/postgres.mjs';
import { killServer, logged, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';

const schemas = () => sql("SELECT string_agg(nspname, ',' ORDER BY nspname) FROM pg_namespace WHERE nspname NOT LIKE 'pg\\_%'");

/** The server must refuse to start, say why, and change nothing. */
async function refused(backend, why) {
  const before = schemas();
  const error = await startServer({ backend }).then(
    () => assert.fail('it started'),
    (e) => e,
  );
  assert.match(error.message, /ended before it was ready \([1-9]/);
  assert.match(error.message, why);
  assert.doesNotMatch(error.message, /s3cret/);
  assert.equal(schemas(), before);
}

/** A server on a free port of the loopback; its `port` is set. */
function listening(onClient) {
  const server = net.createServer((client) => {
    client.on('error', () => {});
    onClient(client);
  });
  return new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(Object.assign(server, { port: server.address().port }))));
}

/** The part of PostgreSQL's protocol that reports the version; records the types of the messages that it receives. */
function oldServer(client, version, asked) {
  const message = (kind, ...parts) => {
    const body = Buffer.concat(parts.map((part) => (typeof part === 'number' ? Buffer.from([0, 0, 0, part]) : Buffer.from(part))));
    const head = Buffer.alloc(5);
    head.write(kind);
    head.writeInt32BE(body.length + 4, 1);
    return Buffer.concat([head, body]);
  };
  const SSL_REQUEST = 80877103;
  let begun = false;
  client.on('data', (bytes) => {
    if (begun) {
      if (bytes[0] !== 'X'.charCodeAt(0)) asked.push(String.fromCharCode(bytes[0]));
    } else if (bytes.readInt32BE(4) === SSL_REQUEST) {
      client.write('N');
    } else {
      begun = true;
      client.write(Buffer.concat([message('R', 0), message('S', `server_version\0${version}\0`), message('K', 1, 1), message('Z', 'I')]));
    }
  });
}

/** TLS in front of the server's Unix socket, with its own certificate. */
function encrypting(dir) {
  const words = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', '/CN=db', '-keyout', 'key', '-out', 'pem'];
  assert.equal(spawnSync('openssl', words, { cwd: dir }).status, 0);
  const [key, cert] = ['key', 'pem'].map((name) => readFileSync(path.join(dir, name)));
  return listening((client) => {
    client.once('data', () => {
      client.write('S');
      const near = new tls.TLSSocket(client, { isServer: true, key, cert });
      const far = net.connect(path.join(socket, '.s.PGSQL.5432'));
      for (const one of [near, far]) one.on('error', () => {}).on('close', () => [near, far].forEach((other) => other.destroy()));
      near.pipe(far).pipe(near);
    });
  });
}

describe('the server reports how it reaches the database', { concurrency: false }, () => {
  /** The reports of /v1/server, /v1/cluster and the log. */
  async function told(backend) {
    const server = await startServer({ backend });
    const api = new Client(server);
    const about = (await api.get('/v1/server')).json.postgres;
    const { tls: encrypted, local, sslmode } = (await api.get('/v1/cluster')).json.backend;
    assert.deepEqual({ tls: encrypted, local, sslmode }, about);
    const [, level, note] = (await logged(server, /(info|warn) +store_connection .*note="([^"]*)"/)).slice(0, 3);
    api.close();
    await stopServer(server);
    assert.equal(server.stderr.match(/store_connection/g).length, 1, 'once');
    assert.doesNotMatch(server.stderr, /s3cret/);
    return { about, level, note };
  }
  test('by a Unix socket', async () => {
    const { about, level, note } = await told(url('linked'));
    assert.deepEqual(about, { tls: false, local: true, sslmode: 'prefer' });
    assert.equal(level, 'info');
    assert.match(note, /does not leave this machine/);
  });
  test('with TLS, which sslmode=prefer uses if it is offered, and without', async (t) => {
    const proxy = await encrypting(temporaryDirectory());
    t.after(() => proxy.close());
    const at = (mode) => `postgres://holdfast:s3cret@127.0.0.1:${proxy.port}/postgres?schema=linked${mode}`;
    const { about, level, note } = await told(at(''));
    assert.deepEqual(about, { tls: true, local: false, sslmode: 'prefer' });
    assert.equal(level, 'info');
    assert.match(note, /certificate is not verified; use sslmode=verify-full/);
    assert.deepEqual((await told(at('&sslmode=require'))).about, { tls: true, local: false, sslmode: 'require' });
  });
});

describe('a start that cannot succeed says why', { concurrency: false }, () => {
  before(() => {
    sql("CREATE ROLE locked LOGIN PASSWORD 'right'; CREATE ROLE poor LOGIN");
    sql('CREATE SCHEMA newer; CREATE TABLE newer.meta (version int); INSERT INTO newer.meta VALUES (99); CREATE TABLE newer.job ()');
  });
  test('wrong URLs', async () => {
    await refused('postgres:nothing://', /needs a \/\/ after the scheme/);
    await refused('postgres://u:s3cret@h/db?nonsense=1', /libpq does not accept the URL/);
    await refused(`${base}&schema=No-Name`, /schema in the URL .* must be/);
    await refused(`${base}&durability=perhaps`, /durability .* fsync or relaxed/);
  });
  test('no server at the address', async () => {
    await refused(`postgres://holdfast@/postgres?host=${encodeURIComponent(socket + '/none')}`, /PostgreSQL cannot be used/);
    const gone = await listening(() => {});
    await new Promise((resolve) => gone.close(resolve));
    await refused(`postgres://u:s3cret@127.0.0.1:${gone.port}/db`, /PostgreSQL cannot be used.*refused/);
  });
  test('a server that sends nothing, or another protocol', async (t) => {
    const silent = await listening(() => {});
    const other = await listening((client) => client.on('data', () => client.write('HTTP/1.1 400 Bad Request\r\n\r\n')));
    t.after(() => [silent, other].forEach((one) => one.close()));
    await refused(`postgres://u:s3cret@127.0.0.1:${silent.port}/db?connect_timeout=2`, /PostgreSQL cannot be used.*timeout/);
    await refused(`postgres://u:s3cret@127.0.0.1:${other.port}/db?connect_timeout=2`, /PostgreSQL cannot be used/);
  });
  test('an old server', async (t) => {
    const asked = [];
    const old = await listening((client) => oldServer(client, '9.6.24', asked));
    t.after(() => old.close());
    await refused(`postgres://u:s3cret@127.0.0.1:${old.port}/db`, /server has version 9\.6\.24; Holdfast needs 13 or newer/);
    assert.deepEqual(asked, [], 'it was asked nothing');
  });
  test('a wrong password', () => refused(`postgres://locked:s3cret@/postgres?host=${encodeURIComponent(socket)}`, /password authentication failed/));
  test('an unknown database', () => refused(base.replace('/postgres?', '/nowhere?'), /database "nowhere" does not exist/));
  test('missing rights', async () => {
    const poor = base.replace('holdfast@', 'poor@');
    await refused(poor, /role poor may not create the schema holdfast.*GRANT CREATE/s);
    await refused(`${poor}&schema=newer`, /role poor may not use the tables/);
    sql('CREATE SCHEMA bare; GRANT USAGE ON SCHEMA bare TO poor');
    await refused(`${poor}&schema=bare`, /role poor may not create tables in the schema bare: GRANT CREATE/);
    // A missing right on one table or one sequence would otherwise be noticed only when it is needed.
    await stopServer(await startServer({ backend: url('rights') }));
    sql('GRANT USAGE ON SCHEMA rights TO poor; GRANT SELECT ON ALL TABLES IN SCHEMA rights TO poor');
    await refused(`${poor}&schema=rights`, /role poor may not use the tables/);
    sql('GRANT ALL ON ALL TABLES IN SCHEMA rights TO poor');
    await refused(`${poor}&schema=rights`, /role poor may not use the tables/);
    sql('GRANT ALL ON ALL SEQUENCES IN SCHEMA rights TO poor; REVOKE DELETE ON rights.delta FROM poor');
    await refused(`${poor}&schema=rights`, /role poor may not use the tables/);
    sql('GRANT ALL ON rights.delta TO poor');
    const server = await startServer({ backend: `${poor}&schema=rights` });
    const api = new Client(server);
    assert.equal((await api.post('/v1/queues/q/jobs', { payload: 1 })).status, 201);
    assert.equal((await api.post('/v1/queues/q/claim', {})).json.jobs.length, 1);
    api.close();
    await stopServer(server);
  });
  test('a schema of a newer version', () => refused(url('newer'), /created by a newer version .*\(its version is 99/));
  test('a schema of an earlier draft', () => {
    sql('CREATE SCHEMA draft; CREATE TABLE draft.meta (version int); INSERT INTO draft.meta VALUES (1)');
    return refused(url('draft'), /created by a draft of Holdfast \(its version is 1, this binary needs [2-9]\d*\); export its jobs/);
  });
  test('an encoding that cannot hold every text', () => {
    sql("CREATE DATABASE bare ENCODING 'SQL_ASCII' TEMPLATE template0");
    return refused(base.replace('/postgres?', '/bare?'), /encoding SQL_ASCII/);
  });
  test('a server that does not sync', async () => {
    sql('ALTER ROLE holdfast SET synchronous_commit = off');
    await refused(url('unsynced'), /does not sync what it commits/);
    sql('ALTER ROLE holdfast RESET synchronous_commit');
    for (const [name, why] of [['fsync', /does not sync what it commits \(fsync = off/], ['full_page_writes', /full_page_writes = off/]]) {
      sql(`ALTER SYSTEM SET ${name} = off`);
      sql('SELECT pg_reload_conf()');
      await until('it is off', () => sql(`SHOW ${name}`) === 'off');
      await refused(url('unsynced'), why);
      const told = await startServer({ backend: `${url(`told_${name}`)}&durability=relaxed` });
      const api = new Client(told);
      assert.equal((await api.get('/v1/server')).json.durable, false);
      api.close();
      await stopServer(told);
      sql(`ALTER SYSTEM RESET ${name}`);
      sql('SELECT pg_reload_conf()');
      await until('it is on', () => sql(`SHOW ${name}`) === 'on');
    }
  });
});

describe('nodes that share a database', () => {
  const schema = 'shared';
  let nodes, apis;
  before(async () => {
    // All of them start at once on an empty database: one creates the tables.
    nodes = await Promise.all([1, 2, 3].map((n) => startServer({ backend: url(schema), args: ['--node', String(n)] })));
    apis = nodes.map((node) => new Client(node));
    await until('all nodes know each other', async () => (await Promise.all(apis.map((api) => api.get('/v1/cluster')))).every(({ json }) => json.nodes.length === 3));
  });
  after(async () => {
    for (const api of apis) api.close();
    for (const node of nodes) await stopServer(node);
  });

  test('every job runs once, whichever node claims it', async () => {
    const ids = new Set();
    for (let n = 0; n < 3; n++) {
      const jobs = Array.from({ length: 100 }, (_, i) => ({ payload: { n, i } }));
      const made = await apis[n].post('/v1/queues/once/jobs', jobs);
      for (const job of made.json.jobs) ids.add(job.id);
    }
    assert.equal(ids.size, 300);
    const got = [];
    const drain = async (api) => {
      for (;;) {
        const { json } = await api.post('/v1/queues/once/claim', { count: 7 });
        if (json.jobs.length === 0) return;
        for (const job of json.jobs) {
          got.push(job.id);
          assert.equal((await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token })).status, 200);
        }
      }
    };
    await Promise.all(apis.map(drain));
    assert.equal(got.length, 300);
    assert.deepEqual(new Set(got), ids);
    const { json } = await apis[2].get('/v1/queues/once');
    assert.equal(json.counts.done, 300);
    assert.equal(sql(`SELECT count(*) FROM ${schema}.job WHERE state = 4`), '300');
  });

  declareCases(nodeCases, () => ({ nodes, apis }));

  test('TF-3 the cluster, as each node sees it', async () => {
    const views = await until('all see all', async () => {
      const seen = await Promise.all(apis.map(async (api) => (await api.get('/v1/cluster')).json));
      return seen.every((view) => view.nodes.length === 3 && view.leader) ? seen : null;
    });
    const [row] = sql(`SELECT epoch, holder FROM ${schema}.leader`).split('\n');
    const rows = sql(`SELECT epoch, number FROM ${schema}.node ORDER BY epoch`).split('\n');
    for (const [i, view] of views.entries()) {
      assert.deepEqual(view.nodes.map((n) => `${n.epoch}|${n.node}`), rows);
      assert.equal(view.nodes.filter((n) => n.self).length, 1);
      assert.equal(view.nodes.find((n) => n.self).node, i + 1);
      const leads = view.nodes.filter((n) => n.leader);
      assert.equal(`${view.leader.epoch}|${leads[0].epoch}`, row);
      assert.equal(view.leader.node, leads[0].node);
      assert.equal(view.leader.self, leads[0].node === i + 1);
      assert.ok(view.leader.lease_left_ms > 0 && view.leader.lease_left_ms <= 10_000);
      assert.ok(view.nodes.every((n) => !n.silent && n.version && Date.parse(n.seen_at) <= Date.parse(view.as_of)));
      const { type, shared, up, last_error: trouble, connections, connections_wanted: wanted } = view.backend;
      assert.deepEqual([type, shared, up, trouble, connections, wanted], ['postgres', true, true, null, 4, 4]);
      const { text } = await apis[i].get('/metrics');
      assert.match(text, /^holdfast_cluster_nodes 3$/m);
      assert.match(text, new RegExp(`^holdfast_leader ${view.leader.self ? 1 : 0}$`, 'm'));
    }
  });

  test('two nodes with the same number are reported', async (t) => {
    const twins = await Promise.all([5, 5].map((n) => startServer({ backend: url('twins'), args: ['--node', String(n)], env: { HOLDFAST_CLUSTER_LEADER_TTL_MS: '1s' } })));
    t.after(() => Promise.all(twins.map((node) => stopServer(node))));
    await until('the log says so', () => twins.every((node) => /duplicate_node_number node=5/.test(node.stderr)));
    assert.ok(nodes.every((node) => !/duplicate_node_number/.test(node.stderr)));
  });

  test('the view of tasks', async () => {
    const made = await apis[0].post('/api/tasks', { name: 'mail', priority: 'high' });
    await apis[0].post('/v1/queues/view/jobs', { payload: 1, priority: 7 });
    assert.equal(sql(`SELECT id, name, status, priority, scheduled_at, retry_count FROM ${schema}.tasks`), `${made.json.id}|mail|QUEUED|high||0`);
  });
});

describe('an outage of the database', () => {
  const owner = (process.env.HF_POSTGRES_AS ?? '').split(' ').filter(Boolean);
  function control(...words) {
    const [file, ...rest] = [...owner, `${process.env.HF_POSTGRES_BIN}/pg_ctl`, '-D', process.env.HF_POSTGRES_DATA, '-w', ...words];
    const run = spawnSync(file, rest, { encoding: 'utf8', stdio: 'ignore' });
    assert.equal(run.status, 0);
  }

  test('nothing confirmed is lost, nothing is done twice, and the server continues', async (t) => {
    const server = await startServer({ backend: url('outage') });
    const api = new Client(server);
    t.after(() => (server.exit ? null : killServer(server)));
    const sent = new Map(); // key → id that was confirmed
    let down = 0;
    const send = async (key) => {
      const answer = await api.post('/v1/queues/q/jobs', { payload: key }, { headers: { 'idempotency-key': key } });
      if (answer.status === 201 || answer.status === 200) sent.set(key, answer.json.id);
      else down++;
      return answer.status;
    };
    for (let i = 0; i < 20; i++) assert.equal(await send(`before-${i}`), 201);
    control('stop', '-m', 'immediate');
    await until('it says that the database is gone', async () => (await send('during')) >= 503);
    assert.ok(down > 0);
    control('start', '-l', `${process.env.HF_POSTGRES_DATA}/again.log`, '-s');
    await until('it works again', async () => (await send('during')) < 300);
    assert.equal(await send('before-3'), 200);
    assert.equal(sql('SELECT count(*) FROM outage.job'), String(sent.size));
    const claimed = await api.post('/v1/queues/q/claim', { count: 100 });
    assert.deepEqual(new Set(claimed.json.jobs.map((j) => j.id)), new Set(sent.values()));
    api.close();
    await stopServer(server);
  });

  test('a bulk action whose connection was lost is reported as unknown, and is done later', async (t) => {
    const server = await startServer({ backend: url('bulk') });
    const api = new Client(server);
    t.after(() => (server.exit ? null : killServer(server)));
    const { id } = (await api.post('/v1/queues/q/jobs', { payload: 1 })).json;
    const other = spawn('psql', ['-h', socket, '-U', 'holdfast', '-d', 'postgres', '-qAt'], { stdio: ['pipe', 'pipe', 'ignore'] });
    t.after(() => other.kill('SIGKILL'));
    other.stdin.write('BEGIN; SELECT seq FROM bulk.job FOR UPDATE;\n');
    await new Promise((resolve) => other.stdout.once('data', resolve));
    const answer = api.post('/v1/queues/q/cancel', { states: ['ready'] });
    const waiting = "FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%bulk%'";
    await until('it waits for the job', () => sql(`SELECT count(*) ${waiting}`) !== '0');
    sql(`SELECT pg_terminate_backend(pid) ${waiting}`);
    assert.equal((await answer).status, 504);
    other.stdin.end('ROLLBACK;\n');
    await until('it is done', async () => (await api.get(`/v1/jobs/${id}`)).json.state === 'cancelled');
    api.close();
    await stopServer(server);
  });

  test('a change of rules that a crash of the database lost is dropped by the server, too', async (t) => {
    const server = await startServer({ backend: url('rules'), env: { HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8' } });
    const api = new Client(server);
    t.after(() => (server.exit ? null : killServer(server)));
    const die = async () => {
      await until('it takes jobs', async () => (await api.post('/v1/queues/q/jobs', { payload: 1 })).status === 201);
      const [job] = (await api.post('/v1/queues/q/claim', { wait_ms: 5000 })).json.jobs;
      assert.equal((await api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, retry: false })).json.state, 'dead');
    };
    const notices = () => Number(sql("SELECT last_value * is_called::int FROM rules.notice_number"));
    assert.equal((await api.put('/v1/alerts/all', { on: 'dead', webhook: { url: 'http://127.0.0.1:9/' } })).status, 201);
    await die();
    assert.equal(notices(), 1);
    // As if the rule had never been stored: another rule gets its number.
    sql('DELETE FROM rules.notice; DELETE FROM rules.alert');
    sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'");
    await until('it is back', () => /postgres_back/.test(server.stderr));
    await die();
    assert.equal(notices(), 1);
    api.close();
    await stopServer(server);
  });

  test('another node leads when the leader has been killed', async (t) => {
    const first = await startServer({ backend: url('lead'), args: ['--node', '1'] });
    const second = await startServer({ backend: url('lead'), args: ['--node', '2'] });
    const api = new Client(second);
    t.after(() => Promise.all([first, second].map((node) => (node.exit ? null : killServer(node)))));
    const leader = () => sql('SELECT epoch FROM lead.leader');
    const before = await until('one leads', () => (leader() !== '0' ? leader() : null));
    await killServer(first);
    // The lease is ten seconds; it is ended early, so that the test does not have to wait for it.
    sql('UPDATE lead.leader SET until = 0');
    await api.post('/v1/queues/q/jobs', { payload: 1, delay_ms: 50 });
    const { json } = await api.post('/v1/queues/q/claim', { wait_ms: 20000 });
    assert.equal(json.jobs.length, 1);
    assert.notEqual(leader(), before);
    api.close();
    await stopServer(second);
  });
});
