// SPDX-License-Identifier: Apache-2.0
// Servers on one Redis server: what they share, when they refuse to start, and what happens when Redis is not available,
// is full, or has lost data. Each test has its own Redis servers.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { declareCases, nodeCases } from '../lib/node_cases.mjs';
import { freePort } from '../lib/ports.mjs';
import { killServer, logged, startServer, stopServer, until } from '../lib/server.mjs';

const running = new Set();
const directories = [];
// A test that fails leaves its servers behind, and this process does not end before them.
after(() => {
  for (const child of running) child.kill('SIGKILL');
});
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL');
  for (const directory of directories) rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
});

/** A Redis server on its own port that syncs every write, unless `conf` says otherwise. */
async function startRedis(conf = []) {
  const dir = mkdtempSync(path.join(tmpdir(), 'holdfast-redis-'));
  directories.push(dir);
  const socket = path.join(dir, 'redis.sock');
  const port = await freePort();
  const lines = [`dir ${dir}`, `unixsocket ${socket}`, 'bind 127.0.0.1', `port ${port}`, 'save ""', 'appendonly yes', 'appendfsync always', ...conf];
  writeFileSync(path.join(dir, 'redis.conf'), lines.join('\n') + '\n');
  const redis = { dir, port, socket, url: `redis://127.0.0.1:${port}/0` };
  redis.cli = (...words) => {
    const run = spawnSync('redis-cli', ['-s', socket, ...words], { encoding: 'utf8' });
    return run.stdout.trim();
  };
  redis.start = async () => {
    redis.process = spawn('redis-server', [path.join(dir, 'redis.conf')], { stdio: 'ignore' });
    running.add(redis.process);
    redis.exited = new Promise((resolve) => redis.process.on('exit', resolve));
    await until('Redis answers', () => /PONG|NOAUTH/.test(redis.cli('ping')));
  };
  redis.kill = async () => {
    redis.process.kill('SIGKILL');
    await redis.exited;
    running.delete(redis.process);
  };
  await redis.start();
  return redis;
}

/** The server must refuse to start, say why, and change nothing. */
async function refused(redis, backend, why) {
  const keys = redis ? redis.cli('keys', '*') : '';
  const error = await startServer({ backend }).then(
    () => assert.fail('it started'),
    (e) => e,
  );
  assert.match(error.message, /ended before it was ready \([1-9]/);
  assert.match(error.message, why);
  assert.doesNotMatch(error.message, /s3cret/);
  if (redis) assert.equal(redis.cli('keys', '*'), keys);
}

const listening = (answer) =>
  new Promise((resolve) => {
    const server = net.createServer(answer).listen(0, '127.0.0.1', () => resolve(server));
  });

describe('PDQ-6 PDQ-7 a start that cannot succeed says why', { concurrency: false }, () => {
  let redis;
  before(async () => {
    redis = await startRedis();
  });
  after(() => redis.kill());
  test('wrong URLs', async () => {
    await refused(redis, 'redis:nothing://', /needs a \/\/ after the scheme/);
    await refused(redis, 'redis://u:s3cret@127.0.0.1:99999/0', /malformed/);
    await refused(redis, 'redis://u:s3cret@127.0.0.1/zero', /database .* must be a number/);
    await refused(redis, `${redis.url}?nonsense=s3cret`, /unknown parameter; allowed are prefix/);
    await refused(redis, `${redis.url}?durability=perhaps`, /durability .* fsync or relaxed/);
    await refused(redis, `${redis.url}?ca=/x`, /write rediss/);
  });
  test('no server at the address, or one with another protocol', async (t) => {
    await refused(null, `redis://:s3cret@127.0.0.1:${await freePort()}/0`, /Redis cannot be used.*refused/);
    await refused(null, 'redis:///?socket=%2Fnowhere%2Fredis.sock', /Redis cannot be used.*no such file/);
    const other = await listening((client) => client.on('data', () => client.write('HTTP/1.1 400 Bad Request\r\n\r\n')).on('error', () => {}));
    t.after(() => other.close());
    await refused(null, `redis://:s3cret@127.0.0.1:${other.address().port}/0`, /Redis/);
  });
  test('an old server', async (t) => {
    const old = await listening((client) => {
      client.on('error', () => {});
      client.on('data', (bytes) => {
        for (const word of bytes.toString('latin1').match(/\r\n(PING|SELECT|CLIENT|INFO|CONFIG|SCRIPT)\r\n/g) ?? []) {
          const info = 'redis_version:4.0.14\r\nrole:master\r\nloading:0\r\n';
          client.write(word.includes('INFO') ? `$${info.length}\r\n${info}\r\n` : '+OK\r\n');
        }
      });
    });
    t.after(() => old.close());
    await refused(null, `redis://127.0.0.1:${old.address().port}/0`, /version 4\.0\.14; Holdfast needs 5\.0 or newer/);
  });
  test('the database of the URL is used, and no other', async (t) => {
    const server = await startServer({ backend: redis.url.replace('/0', '/3') });
    const api = new Client(server);
    t.after(() => stopServer(server));
    t.after(() => api.close());
    assert.equal((await api.post('/v1/queues/q/jobs', { payload: 1 })).status, 201);
    assert.equal(redis.cli('-n', '3', 'hlen', '{holdfast}:row'), '1');
    assert.deepEqual(redis.cli('info', 'keyspace').match(/^db\d+/gm), ['db3']);
  });
  test('a database that does not exist', () => refused(redis, redis.url.replace('/0', '/99'), /database of the URL cannot be used/));
  test('passwords, users and rights', async () => {
    redis.cli('acl', 'setuser', 'worker', 'on', '>right', 'allkeys', 'allchannels', '+@all', '-config');
    redis.cli('acl', 'setuser', 'reader', 'on', '>right', 'allkeys', 'allchannels', '+@all', '-@write');
    redis.cli('acl', 'setuser', 'other', 'on', '>right', '~other:*', 'allchannels', '+@all');
    const as = (user, password) => redis.url.replace('//', `//${user}:${password}@`);
    await refused(redis, as('worker', 's3cret'), /refused the user or password/);
    await refused(redis, as('worker', 'right'), /may not run CONFIG GET.*durability=/s);
    await refused(redis, `${as('reader', 'right')}?durability=fsync`, /may not run [A-Z]+ on keys|user may not|NOPERM|No permission/i);
    await refused(redis, `${as('other', 'right')}?durability=fsync`, /may not run [A-Z]+ on keys|NOPERM|No permission/i);
    // Only the rights that docs/redis.md names.
    redis.cli('acl', 'setuser', 'least', 'on', '>right', '~{holdfast}:*', '&{holdfast}:*', ...'+@read +@write +@scripting +@pubsub +@transaction +@connection +time +info +config|get'.split(' '));
    const least = await startServer({ backend: as('least', 'right') });
    const leastApi = new Client(least);
    await leastApi.post('/v1/queues/q/jobs', { payload: 1, unique: 'u', delay_ms: 1 });
    assert.equal((await leastApi.post('/v1/queues/q/claim', { wait_ms: 20000 })).json.jobs.length, 1);
    leastApi.close();
    await stopServer(least);
    assert.doesNotMatch(least.stderr, /NOPERM|redis_refused|redis_subscribe_failed/);
    const server = await startServer({ backend: `${as('worker', 'right')}?durability=fsync&prefix=acl:` });
    const api = new Client(server);
    assert.equal((await api.post('/v1/queues/q/jobs', { payload: 1 })).status, 201);
    const about = (await api.get('/v1/server')).json;
    assert.equal(about.durable, true);
    assert.deepEqual(about.redis, { tls: false, local: true });
    assert.doesNotMatch(server.stderr, /right/);
    api.close();
    await stopServer(server);
    assert.equal(redis.cli('hlen', 'acl:row'), '1');
  });
  test('a password that is missing', async () => {
    const locked = await startRedis(['requirepass right']);
    await refused(null, locked.url, /needs a password/);
    const server = await startServer({ backend: locked.url.replace('//', '//:right@') });
    await stopServer(server);
    await locked.kill();
  });
  test('keys of an older format', () => {
    redis.cli('set', 'older:format', '1');
    return refused(redis, `${redis.url}?prefix=older:`, /have the older format 1, .*export the jobs/);
  });
  test('keys of a newer version', () => {
    redis.cli('set', 'newer:format', '99');
    return refused(redis, `${redis.url}?prefix=newer:`, /created by a newer version .*format is 99/);
  });
  test('a server that does not persist writes', async () => {
    const loose = await startRedis(['appendonly no']);
    await refused(loose, loose.url, /appendonly is no.*durability=relaxed/s);
    loose.cli('config', 'set', 'appendonly', 'yes');
    loose.cli('config', 'set', 'maxmemory-policy', 'allkeys-lru');
    await refused(loose, loose.url, /maxmemory-policy is allkeys-lru/);
    loose.cli('config', 'set', 'maxmemory-policy', 'noeviction');
    loose.cli('config', 'set', 'appendfsync', 'everysec');
    await refused(loose, `${loose.url}?durability=fsync`, /appendfsync everysec.*set always/s);
    for (const url of [loose.url, `${loose.url}?durability=relaxed`]) {
      const server = await startServer({ backend: url });
      const api = new Client(server);
      assert.equal((await api.get('/v1/server')).json.durable, false);
      await logged(server, /redis_open .*durable=false/);
      api.close();
      await stopServer(server);
    }
    const replica = await startRedis([`replicaof 127.0.0.1 ${loose.port}`]);
    await refused(null, replica.url, /slave that accepts no writes/);
    await replica.kill();
    await loose.kill();
  });
});

describe('PDQ-6 TLS', () => {
  const dir = mkdtempSync(path.join(tmpdir(), 'holdfast-tls-'));
  directories.push(dir);
  const file = (name) => path.join(dir, name);
  const openssl = (...words) => assert.equal(spawnSync('openssl', words, { cwd: dir }).status, 0, words.join(' '));
  let redis, port;
  before(async () => {
    for (const ca of ['ca', 'stranger'])
      openssl('req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-subj', `/CN=${ca}`, '-keyout', `${ca}.key`, '-out', `${ca}.pem`);
    openssl('req', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-subj', '/CN=redis', '-keyout', 'redis.key', '-out', 'redis.csr');
    writeFileSync(file('names'), 'subjectAltName=IP:127.0.0.1\n');
    openssl('x509', '-req', '-in', 'redis.csr', '-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', 'names', '-out', 'redis.pem');
    port = await freePort();
    redis = await startRedis([`tls-port ${port}`, `tls-cert-file ${file('redis.pem')}`, `tls-key-file ${file('redis.key')}`, `tls-ca-cert-file ${file('ca.pem')}`]);
  });
  after(() => redis.kill());
  const url = (extra) => `rediss://127.0.0.1:${port}/0?cert=${file('redis.pem')}&key=${file('redis.key')}${extra}`;
  test('a certificate that is not trusted is refused', async () => {
    await refused(redis, url(`&ca=${file('stranger.pem')}`), /TLS with the Redis server failed: .*(issuer|self.signed|verify)/);
    await refused(redis, url('&ca=/nowhere.pem'), /ca of the Redis URL cannot be used/);
    await refused(redis, url(`&ca=${file('ca.pem')}`).replace('127.0.0.1', 'localhost'), /TLS with the Redis server failed: .*hostname/i);
    await refused(redis, `rediss://127.0.0.1:${redis.port}/0`, /Redis cannot be used/);
  });
  test('jobs are stored and claimed, also large ones', async () => {
    const server = await startServer({ backend: url(`&ca=${file('ca.pem')}`) });
    const api = new Client(server);
    const payload = 'x'.repeat(700_000);
    const made = await api.post('/v1/queues/q/jobs', { payload });
    const { json } = await api.post('/v1/queues/q/claim', {});
    assert.equal(json.jobs[0].id, made.json.id);
    assert.equal(json.jobs[0].payload, payload);
    api.close();
    await stopServer(server);
  });
});

describe('nodes that share a server', () => {
  let redis, nodes, apis;
  const timing = { HOLDFAST_CLUSTER_LEADER_TTL_MS: '1s', HOLDFAST_CLUSTER_SILENT_MS: '1500ms' };
  before(async () => {
    redis = await startRedis();
    nodes = await Promise.all([1, 2, 3].map((n) => startServer({ backend: redis.url, args: ['--node', String(n)], env: timing })));
    apis = nodes.map((node) => new Client(node));
    await until('all know each other', async () => {
      const seen = await Promise.all(apis.map(async (api) => (await api.get('/v1/cluster')).json));
      return seen.every((view) => view.nodes.length === 3 && view.leader);
    });
  });
  after(async () => {
    for (const api of apis) api.close();
    for (const node of nodes) if (!node.exit) await stopServer(node);
    await redis.kill();
  });

  test('every job runs once, whichever node claims it; no keys are left', async () => {
    const ids = new Set();
    await apis[0].put('/v1/queues/once', { keep_done: 0 });
    const put = async (n) => {
      const jobs = Array.from({ length: 100 }, (_, i) => ({ payload: { n, i }, group: `g${n}`, unique: `u${n}.${i}` }));
      const made = await apis[n].post('/v1/queues/once/jobs', jobs);
      for (const job of made.json.jobs) ids.add(job.id);
    };
    const got = [];
    const drain = async (api) => {
      while (got.length < 300) {
        const { json } = await api.post('/v1/queues/once/claim', { count: 7, wait_ms: 200 });
        for (const job of json.jobs) {
          got.push(job.id);
          assert.equal((await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token })).status, 200);
        }
      }
    };
    await Promise.all([...[0, 1, 2].map(put), ...apis.map(drain)]);
    assert.equal(got.length, 300);
    assert.deepEqual(new Set(got), ids);
    const { json } = await apis[2].get('/v1/queues/once');
    assert.deepEqual([json.counts.ready, json.counts.running, json.counts.done], [0, 0, 0]);
    for (const key of ['row', 'pay', 'part', 'q:1:2', 'q:1:3', 'q:1:all', 'q:1:u', 'q:1:g']) assert.equal(redis.cli('exists', `{holdfast}:${key}`), '0', key);
  });

  declareCases(nodeCases, () => ({ nodes, apis }));

  test('KV-10 no update is lost when several nodes increment a key at once', async () => {
    const add = async (api) => {
      for (let done = 0; done < 8; ) {
        const [{ value = 0, version }] = (await api.post('/v1/kv/get', { keys: [['n']] })).json.keys;
        const commit = await api.post('/v1/kv/commit', { checks: [{ key: ['n'], version }], sets: [{ key: ['n'], value: (value ?? 0) + 1 }] });
        assert.ok(commit.status === 200 || commit.status === 412, commit.text);
        done += commit.status === 200 ? 1 : 0;
      }
    };
    await Promise.all(apis.map(add));
    assert.equal((await apis[1].post('/v1/kv/get', { keys: [['n']] })).json.keys[0].value, 24);
  });

  test('scripts that the server forgets are loaded again', async () => {
    assert.equal(redis.cli('script', 'flush'), 'OK');
    for (const api of apis) assert.equal((await api.post('/v1/queues/flushed/jobs', { payload: 1 })).status, 201);
    assert.equal((await apis[0].get('/v1/queues/flushed')).json.counts.ready, 3);
  });

  test('HF-21 the progress of a job never shares a key with the kept replies of its time', async (t) => {
    const server = await startServer({ backend: `${redis.url}?prefix=span:` });
    t.after(() => stopServer(server));
    const api = new Client(server);
    const claim = async () => (await api.post('/v1/queues/q/claim', {})).json.jobs[0];
    assert.equal((await api.post('/v1/queues/q/jobs', { payload: 0 })).status, 201);
    const other = await claim();
    // Kept replies are grouped by 5 minutes: the next sequences are the numbers of this group and of the next one.
    const group = Math.floor(Date.now() / 300_000);
    redis.cli('hset', 'span:meta', 'seq', String(group - 1));
    const jobs = [];
    for (let n = 0; n < 3; n++) {
      assert.equal((await api.post('/v1/queues/q/jobs', { payload: n })).status, 201);
      const job = await claim();
      assert.equal((await api.post(`/v1/jobs/${job.id}/progress`, { token: job.token, percent: n })).status, 200);
      jobs.push(job);
    }
    assert.ok(jobs.some((job) => job.seq === group), jobs.map((job) => job.seq).join());
    assert.equal((await api.post(`/v1/jobs/${other.id}/ack`, { token: other.token })).status, 200);
    assert.equal((await api.delete(`/v1/jobs/${other.id}`)).status, 200);
    for (const job of jobs) assert.equal(redis.cli('ttl', `span:w:${job.seq}`), '-1');
    for (const job of jobs) {
      assert.equal((await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token })).status, 200);
      assert.equal((await api.delete(`/v1/jobs/${job.id}`)).status, 200);
    }
    assert.equal((await api.post(`/v1/jobs/${other.id}/ack`, { token: other.token })).status, 200);
    api.close();
  });
  test('PDQ-4 a node stops although jobs are due all the time', async (t) => {
    for (let i = 0; i < 12; i++) {
      const server = await startServer({ backend: `${redis.url}?prefix=end${i}:`, args: ['--node', '5'] });
      t.after(() => (server.exit ? null : killServer(server)));
      const api = new Client(server);
      for (let k = 0; k < 20; k++) assert.equal((await api.post('/v1/queues/q/jobs', { payload: k, delay_ms: 1 + 3 * k })).status, 201);
      api.close();
      server.process.kill('SIGTERM');
      await until('it has ended', () => server.exit);
      assert.equal(server.exit.code, 0, server.stderr);
    }
  });

  test('TF-3 a killed node loses the lead and its leases', async () => {
    const view = (await apis[0].get('/v1/cluster')).json;
    const at = view.leader.node - 1;
    const rest = [0, 1, 2].filter((i) => i !== at);
    await apis[at].post('/v1/queues/dying/jobs', { payload: 1 });
    const { json } = await apis[at].post('/v1/queues/dying/claim', { lease_ms: 500 });
    assert.equal(json.jobs.length, 1);
    apis[at].close();
    await killServer(nodes[at]);
    nodes[at].exit ??= { code: null };
    const again = await apis[rest[0]].post('/v1/queues/dying/claim', { wait_ms: 20000 });
    assert.equal(again.json.jobs[0]?.id, json.jobs[0].id);
    assert.equal(again.json.jobs[0].attempt, 2);
    const led = await until('another leads', async () => {
      const now = (await apis[rest[1]].get('/v1/cluster')).json;
      return now.leader && now.leader.node !== at + 1 ? now : null;
    });
    assert.ok(led.leader.epoch > view.leader.epoch);
  });
});

describe('an outage of Redis', () => {
  test('HF-1 PDQ-7 Redis is killed under load: nothing confirmed is lost, and the server continues', async () => {
    const redis = await startRedis();
    const server = await startServer({ backend: redis.url });
    const api = new Client(server);
    const confirmed = [];
    const acked = [];
    let stop = false;
    const seen = { 503: 0, 504: 0 };
    const produce = async () => {
      while (!stop) {
        const { status, json } = await api.post('/v1/queues/q/jobs', { payload: 1 });
        if (status === 201) confirmed.push(json.id);
        else seen[status] = (seen[status] ?? 0) + 1;
      }
    };
    const consume = async () => {
      while (!stop) {
        const { json } = await api.post('/v1/queues/q/claim', { count: 2, wait_ms: 50 });
        for (const job of json.jobs ?? []) if ((await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token })).status === 200) acked.push(job.id);
      }
    };
    const loads = [produce(), produce(), produce(), consume()];
    for (let round = 0; round < 2; round++) {
      const before = confirmed.length;
      await until('jobs are confirmed', () => confirmed.length > before + 50);
      await redis.kill();
      const refusals = seen[503];
      await until('requests are refused', () => seen[503] > refusals);
      await redis.start();
    }
    const before = confirmed.length;
    await until('it goes on', () => confirmed.length > before + 20);
    stop = true;
    await Promise.all(loads);
    for (const id of confirmed) assert.equal((await api.get(`/v1/jobs/${id}`)).status, 200, id);
    for (const id of acked) assert.equal((await api.get(`/v1/jobs/${id}`)).json.state, 'done', id);
    assert.deepEqual(Object.keys(seen).filter((status) => status !== '503' && status !== '504'), []);
    for (const pattern of [/redis_lost/, /redis_back/]) await logged(server, pattern);
    assert.doesNotMatch(server.stderr, /redis_data_lost/);
    api.close();
    await stopServer(server);
    await redis.kill();
  });

  test('a Redis server that lost data is reported', async () => {
    const redis = await startRedis();
    const server = await startServer({ backend: redis.url });
    const api = new Client(server);
    const first = await api.post('/v1/queues/q/jobs', { payload: 1 });
    const { json } = await api.post('/v1/queues/q/claim', {});
    await redis.kill();
    rmSync(path.join(redis.dir, 'appendonlydir'), { recursive: true });
    await redis.start();
    await until('it is told', () => /redis_data_lost .*empty=true/.test(server.stderr));
    const made = await until('it goes on', async () => {
      const answer = await api.post('/v1/queues/q/jobs', { payload: 2 });
      return answer.status === 201 ? answer : null;
    });
    assert.equal(made.json.id === first.json.id, false);
    const taken = (await api.post('/v1/queues/q/claim', {})).json.jobs[0];
    assert.notEqual(taken.token, json.jobs[0].token);
    assert.equal((await api.post(`/v1/jobs/${first.json.id}/ack`, { token: json.jobs[0].token })).status >= 404, true);
    api.close();
    await stopServer(server);
    await redis.kill();
  });

  test('DESIGN a full Redis server refuses jobs and can be drained', async () => {
    const redis = await startRedis();
    const server = await startServer({ backend: redis.url });
    const api = new Client(server);
    await api.put('/v1/queues/q', { keep_done: 0 });
    await api.post('/v1/queues/q/jobs', Array.from({ length: 20 }, (_, i) => ({ payload: `${i}`.padEnd(2000) })));
    redis.cli('config', 'set', 'maxmemory', '1mb');
    const refusal = await api.post('/v1/queues/q/jobs', { payload: 1 });
    assert.equal(refusal.status, 503);
    assert.match(refusal.json.detail, /maxmemory/);
    const { json } = await api.post('/v1/queues/q/claim', { count: 20 });
    assert.equal(json.jobs.length, 20);
    const acks = await api.post('/v1/ack', { jobs: json.jobs.map(({ id, token }) => ({ id, token })) });
    assert.equal(acks.status, 200);
    assert.equal((await api.get('/v1/queues/q')).json.counts.running, 0);
    redis.cli('config', 'set', 'maxmemory', '0');
    assert.equal((await api.post('/v1/queues/q/jobs', { payload: 1 })).status, 201);
    api.close();
    await stopServer(server);
    await redis.kill();
  });

  test('PDQ-12 with a Redis server that refuses writes the server is not ready, and says why', async () => {
    const redis = await startRedis();
    const server = await startServer({ backend: redis.url, args: ['--cluster-leader-ttl-ms', '2s', '--cluster-silent-ms', '2s'] });
    const api = new Client(server);
    redis.cli('config', 'set', 'min-replicas-to-write', '1');
    await until('it is told of', async () => (await api.get('/readyz')).status === 503);
    assert.match((await api.get('/v1/cluster')).json.backend.last_error, /^(Redis: the store cannot be opened: )?NOREPLICAS /);
    redis.cli('config', 'set', 'min-replicas-to-write', '0');
    await until('it is ready again', async () => (await api.get('/readyz')).status === 200);
    assert.equal((await api.post('/v1/queues/q/jobs', { payload: 1 })).status, 201);
    api.close();
    await stopServer(server);
    await redis.kill();
  });

  test('a frozen Redis server counts as unavailable, and nothing is done twice when it continues', async () => {
    const redis = await startRedis();
    const server = await startServer({ backend: redis.url, env: { HOLDFAST_TIMEOUTS_BACKEND_MS: '1s' } });
    const api = new Client(server);
    await api.post('/v1/queues/q/jobs', { payload: 1 });
    redis.process.kill('SIGSTOP');
    const { status } = await api.post('/v1/queues/q/jobs', { payload: 2 }, { headers: { 'idempotency-key': 'k' } });
    assert.ok(status === 503 || status === 504, String(status));
    redis.process.kill('SIGCONT');
    await until('it goes on', async () => (await api.post('/v1/queues/q/jobs', { payload: 2 }, { headers: { 'idempotency-key': 'k' } })).status < 300);
    assert.equal((await api.get('/v1/queues/q')).json.counts.ready, 2);
    await logged(server, /redis_lost .*no answer within/);
    api.close();
    await stopServer(server);
    await redis.kill();
  });
});

test('TF-3 the leader is visible under cluster.leader_key, with its TTL', async (t) => {
  const redis = await startRedis();
  const node = await startServer({ backend: redis.url, args: ['--node', '3', '--cluster-leader-ttl-ms', '2s'] });
  t.after(async () => {
    await stopServer(node);
    await redis.kill();
  });
  await until('the leader shows itself', () => /^node 3 epoch \d+$/.test(redis.cli('get', 'taskflow:leader').trim()));
  const ttl = Number(redis.cli('pttl', 'taskflow:leader'));
  assert.ok(ttl > 0 && ttl <= 2000, `${ttl} ms`);
  redis.cli('set', 'taskflow:leader', 'another program');
  await until('it renews', () => /^node 3 /.test(redis.cli('get', 'taskflow:leader')));
  const named = await startServer({ backend: `${redis.url}?prefix=named:`, args: ['--node', '4', '--cluster-leader-key', 'my:leader'] });
  t.after(() => stopServer(named));
  await until('it shows itself under the name of the setting', () => /^node 4 epoch \d+$/.test(redis.cli('get', 'my:leader')));
  const left = Number(redis.cli('pttl', 'my:leader'));
  assert.ok(left > 0 && left <= 10_000, `${left} ms; the default is 10 s`);
  assert.match(redis.cli('get', 'taskflow:leader'), /^node 3 /);
});
