// SPDX-License-Identifier: Apache-2.0
// Queues on several stores (the router): what clients see, that ids stay valid when the server is started again with other
// routes, and what operators see of each store. The file runs itself with scripts/with-postgres.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { Client } from '../lib/client.mjs';
import '../lib/postgres.mjs';
import { PostgresProxy } from '../lib/proxy.mjs';
import { Receiver } from '../lib/receiver.mjs';
import { binary, logged, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';

function config(dir, routes) {
  const file = path.join(dir, 'holdfast.yaml');
  writeFileSync(file, JSON.stringify({ routes }));
  return ['--config', file];
}

async function withServer(options, work) {
  const server = await startServer(options);
  const api = new Client(server);
  try {
    return await work(api, server);
  } finally {
    api.close();
    await stopServer(server);
  }
}

const ids = (answer) => answer.json.jobs.map((job) => job.id).sort();

test('queues of three stores behind one server', async () => {
  const home = temporaryDirectory();
  const data = path.join(home, 'main');
  const mail = `mail.* number=1 backend=sqlite:${path.join(home, 'mail')}`;
  const logs = `logs number=40 backend=sqlite:${path.join(home, 'logs')}`;
  const made = {};
  await withServer({ data, args: config(home, [mail, logs]) }, async (api) => {
    for (const queue of ['plain', 'mail.in', 'logs', 'mail.out']) {
      const { status, json } = await api.post(`/v1/queues/${queue}/jobs`, { payload: { queue } });
      assert.equal(status, 201);
      made[queue] = json;
    }
    assert.equal(new Set(Object.values(made).map((job) => job.seq)).size, 4);
    assert.equal(made.plain.seq, 1);
    assert.equal(made['mail.in'].seq, 2 ** 47 + 1);
    assert.equal(made.logs.seq, 40 * 2 ** 47 + 1);
    const { json: queues } = await api.get('/v1/queues');
    assert.deepEqual(queues.queues.map((q) => q.name), ['logs', 'mail.in', 'mail.out', 'plain']);
    const all = Object.values(made).map((job) => job.id).sort();
    assert.deepEqual(ids(await api.get('/v1/jobs')), all);
    // One claim over queues of all stores.
    const { json: claimed } = await api.post('/v1/claim', { queues: ['logs', 'plain', 'mail.in'], count: 10 });
    assert.equal(claimed.jobs.length, 3);
    for (const job of claimed.jobs.filter((one) => one.queue !== 'logs'))
      assert.equal((await api.post(`/v1/jobs/${job.id}/ack`, { token: job.token })).json.state, 'done');
    // By each spelling.
    assert.equal((await api.get(`/v1/jobs/${made['mail.in'].seq}`)).json.id, made['mail.in'].id);
    // A commit that would need two stores is refused with a reason.
    const schedule = await api.put('/v1/schedules/nightly', { queue: 'logs', every_ms: 60000 });
    assert.equal(schedule.status, 422);
    assert.match(schedule.text, /different backends/);
    assert.equal((await api.get('/v1/server')).json.backend, 'router+sqlite');
    const { backends } = (await api.get('/v1/cluster')).json;
    assert.deepEqual(backends.map((b) => [b.number, b.type, b.up]), [[0, 'sqlite', true], [1, 'sqlite', true], [40, 'sqlite', true]]);
    const backup = await api.get('/v1/backup');
    assert.ok(backup.status >= 400);
    assert.match(backup.text, /several backends/);
  });
  // With other routes: the new ones apply to new jobs, and old ids still find their jobs.
  const moved = [`mail.out number=0`, mail, logs.replace('logs ', 'unused ')];
  await withServer({ data, args: config(home, moved) }, async (api) => {
    for (const [queue, job] of Object.entries(made)) {
      const { status, json } = await api.get(`/v1/jobs/${job.id}`);
      assert.equal(status, 200);
      assert.deepEqual(json.payload, { queue });
    }
    const states = await Promise.all(Object.keys(made).map(async (q) => (await api.get(`/v1/jobs/${made[q].id}`)).json.state));
    assert.deepEqual(states, ['done', 'done', 'running', 'ready']);
    assert.equal((await api.post('/v1/queues/mail.out/jobs', { payload: 1 })).json.seq < 2 ** 47, true);
  });
});

test('HF-12 what operators see when one of the stores is unavailable, and when all are', async () => {
  const home = temporaryDirectory();
  const [near, far] = [new PostgresProxy(), new PostgresProxy()];
  await Promise.all([near.open(), far.open()]);
  const routes = [`mail.* number=7 backend=${far.url('far').replace('holdfast@', 'holdfast:s3cret@')}`];
  await withServer({ backend: near.url('near'), args: config(home, routes) }, async (api, server) => {
    const ready = () => api.get('/readyz');
    const post = (queue) => api.post(`/v1/queues/${queue}/jobs`, { payload: 1 });
    const ups = async () => (await api.get('/v1/cluster')).json.backends.map((b) => b.up);
    const whole = async () => (await ready()).json.status === 'ready';
    const up = async (number) => (await api.get('/metrics')).text.match(new RegExp(`^holdfast_backend_up\\{backend="${number}",type="postgres"\\} (\\d)$`, 'm'))[1];
    /** The ready jobs by queue, and the number of stores that the page leaves out. */
    const figures = async () => {
      const { text } = await api.get('/metrics');
      const depths = [...text.matchAll(/^holdfast_queue_depth\{queue="(.*)",state="ready"\} (\d+)$/gm)].map(([, queue, n]) => `${queue} ${n}`);
      return [...depths, Number(text.match(/^holdfast_metrics_stores_left_out (\d+)$/m)[1])];
    };
    /** Requests that need all stores are refused; requests for one queue depend on its store. */
    const statuses = async () => {
      const paths = ['/v1/queues', '/v1/jobs', '/v1/breakers', '/v1/exceptions', '/v1/workers', '/v1/snapshot', '/v1/snapshot?queue=mail.in', '/v1/snapshot?queue=plain', '/v1/queues/plain/stats'];
      return Promise.all(paths.map(async (one) => (await api.get(one)).status));
    };
    assert.deepEqual((await ready()).json, { status: 'ready' });
    const routed = await post('mail.in');
    assert.equal(routed.status, 201);
    assert.deepEqual(await figures(), ['mail.in 1', 0]);
    const why = async (id) => (await api.get(`/v1/jobs/${id}/why`)).json;
    const codes = ({ reasons }) => reasons.map((reason) => reason.code);
    assert.deepEqual(codes(await why(routed.json.id)), ['no_workers']);
    const lead = async () => (await api.get('/v1/cluster')).json.backends.every((b) => b.leader?.self);
    await until('the server leads in both', lead);
    // The routed store becomes unavailable.
    await far.cut();
    await until('the server notices', async () => !(await whole()));
    const { status, json } = await ready();
    assert.equal(status, 200);
    const { since } = json.away[0];
    assert.deepEqual(json, { status: 'degraded', away: [{ number: 7, type: 'postgres', since }] });
    const plain = await post('plain');
    assert.equal(plain.status, 201);
    // HF-5 The reason of a job is that of its store.
    const unknown = await why(routed.json.id);
    assert.deepEqual([unknown.id, unknown.state, codes(unknown)], [routed.json.id, null, ['store_away']]);
    assert.match(unknown.reasons[0].detail, new RegExp(` since ${since} \\(`));
    assert.deepEqual(codes(await why(plain.json.id)), ['no_workers']);
    assert.equal((await api.post('/v1/claim', { queues: ['mail.in', 'plain'] })).json.jobs[0].queue, 'plain');
    assert.equal((await post('mail.in')).status, 503);
    await until('the last connection is gone', async () => (await api.get('/v1/cluster')).json.backends[1].connections === 0);
    const seen = (await api.get('/v1/cluster')).json;
    assert.deepEqual(seen.backends.map((b) => [b.number, b.type, b.shared, b.up]), [[0, 'postgres', true, true], [7, 'postgres', true, false]]);
    const { number, nodes, leader, as_of, ...backend } = seen.backends[1];
    assert.deepEqual([backend.since, backend.connections, nodes.length, nodes[0].self], [since, 0, 1, true]);
    assert.ok(backend.last_error && as_of && leader.epoch >= 1);
    assert.doesNotMatch(JSON.stringify(seen), /s3cret/);
    // The earlier values are those of the default store.
    assert.deepEqual([seen.backend.type, seen.backend.up, seen.leader.self], ['router+postgres', true, true]);
    assert.deepEqual(seen.nodes.map((n) => n.epoch), seen.backends[0].nodes.map((n) => n.epoch));
    assert.deepEqual([await up(0), await up(7)], ['1', '0']);
    assert.equal((await post('plain')).status, 201);
    assert.deepEqual(await figures(), ['plain 1', 1]);
    assert.deepEqual(await statuses(), [503, 503, 503, 503, 503, 200, 503, 200, 200]);
    // The other store, too.
    await near.cut();
    await until('nothing can be served', async () => (await ready()).status === 503);
    const none = (await ready()).json;
    assert.deepEqual([none.status, none.away.map((b) => b.number)], ['backend_down', [0, 7]]);
    assert.deepEqual([await up(0), await up(7)], ['0', '0']);
    assert.deepEqual(await figures(), [2]);
    assert.deepEqual(await statuses(), [503, 503, 503, 503, 503, 200, 503, 503, 503]);
    // Only the routed store is available: its queues are served.
    await far.restore();
    await until('the routed one is back', async () => (await ups())[1]);
    assert.deepEqual([(await ready()).status, (await ready()).json.away.map((b) => b.number)], [200, [0]]);
    assert.equal((await post('mail.in')).status, 201);
    assert.equal((await post('plain')).status, 503);
    assert.deepEqual(await figures(), ['mail.in 2', 1]);
    await near.restore();
    await until('all is well', whole);
    assert.deepEqual([(await ready()).json, await ups(), await up(0), await up(7)], [{ status: 'ready' }, [true, true], '1', '1']);
    assert.equal((await post('plain')).status, 201);
    assert.deepEqual(await figures(), ['mail.in 2', 'plain 2', 0]);
    assert.deepEqual(await statuses(), [200, 200, 200, 200, 200, 200, 200, 200, 200]);
    // Each line names its store.
    for (const one of [0, 7])
      for (const event of ['postgres_lost', 'postgres_back', 'leader_acquired'])
        await logged(server, new RegExp(` ${event} backend=${one} `));
    assert.doesNotMatch(server.stderr, /s3cret/);
  });
  await Promise.all([near.cut(), far.cut()]);
});

test('HF-12, PDQ-5, NOM-11 alerts of the available stores while another is unavailable', async (t) => {
  const home = temporaryDirectory();
  const [near, far] = [new PostgresProxy(), new PostgresProxy()];
  await Promise.all([near.open(), far.open()]);
  const receiver = await new Receiver().listen();
  t.after(() => Promise.all([receiver.close(), near.cut(), far.cut()]));
  const args = config(home, [`mail.* number=7 backend=${far.url('told_far')}`]);
  await withServer({ backend: near.url('told_near'), args, env: { HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8' } }, async (api) => {
    const webhook = { url: receiver.url };
    const ups = async () => (await api.get('/v1/cluster')).json.backends.map((b) => b.up).join();
    const raised = async () => (await api.get('/v1/alerts/deep')).json.raised.map((r) => r.queue).sort();
    const of = (alert, queue) => (r) => r.json.alert === alert && r.json.queue === queue;
    const edges = (queue) => receiver.requests.filter(of('deep', queue)).map((r) => r.json.event);
    const fill = async (queue) => {
      for (let n = 0; n < 2; n++) assert.equal((await api.post(`/v1/queues/${queue}/jobs`, { payload: n })).status, 201);
    };
    const die = async (queue) => {
      const { json: made } = await api.post(`/v1/queues/${queue}/jobs`, { payload: 1 });
      const { json: got } = await api.post(`/v1/queues/${queue}/claim`, {});
      assert.equal((await api.post(`/v1/jobs/${made.id}/fail`, { token: got.jobs[0].token, error: 'no', retry: false })).json.state, 'dead');
      const [notice] = await receiver.wait(1, of('dead', queue), 30_000);
      assert.equal(notice.json.job.id, made.id);
    };
    assert.equal((await api.put('/v1/alerts/dead', { on: 'dead', webhook })).status, 201);
    assert.equal((await api.put('/v1/alerts/deep', { on: 'deep', depth: 2, webhook })).status, 201);
    await fill('mail.deep');
    await receiver.wait(1, of('deep', 'mail.deep'), 30_000);
    // The routed store becomes unavailable: dead jobs and conditions of the default store are reported.
    await far.cut();
    await until('the routed one is away', async () => (await ups()) === 'true,false');
    await die('plain');
    await fill('plain.deep');
    await receiver.wait(1, of('deep', 'plain.deep'), 30_000);
    assert.equal((await api.get('/v1/alerts')).status, 503);
    // The condition in the store that was unavailable is still raised; nothing else was reported.
    await far.restore();
    await until('it is back', async () => (await ups()) === 'true,true');
    assert.deepEqual(await raised(), ['mail.deep', 'plain.deep']);
    await fill('plain.again'); // the pass that raises this sees all
    await receiver.wait(1, of('deep', 'plain.again'), 30_000);
    assert.deepEqual([await raised(), edges('mail.deep')], [['mail.deep', 'plain.again', 'plain.deep'], ['alert_raised']]);
    assert.equal((await api.post('/v1/queues/mail.deep/claim', { count: 2 })).json.jobs.length, 2);
    await receiver.wait(2, of('deep', 'mail.deep'), 30_000);
    assert.deepEqual([await raised(), edges('mail.deep'), edges('plain.deep')], [['plain.again', 'plain.deep'], ['alert_raised', 'alert_cleared'], ['alert_raised']]);
    // The default store becomes unavailable: the notices of the routed store are delivered.
    await near.cut();
    await until('the default one is away', async () => (await ups()) === 'false,true');
    await die('mail.in');
  });
});

test('HF-12 the metrics of a single store that is unavailable', async () => {
  const proxy = new PostgresProxy();
  await proxy.open();
  await withServer({ backend: proxy.url('single') }, async (api) => {
    const figures = async () => {
      const { status, text } = await api.get('/metrics');
      return [status, text.includes('{queue="q"'), ...['backend_up', 'metrics_stores_left_out'].map((name) => text.match(new RegExp(`^holdfast_${name} (\\d)$`, 'm'))[1])];
    };
    assert.equal((await api.post('/v1/queues/q/jobs', { payload: 1 })).status, 201);
    assert.deepEqual(await figures(), [200, true, '1', '0']);
    await proxy.cut();
    await until('the server notices', async () => (await api.get('/readyz')).status === 503);
    assert.deepEqual(await figures(), [200, false, '0', '1']);
    await proxy.restore();
    await until('it is back', async () => (await api.get('/readyz')).status === 200);
    assert.deepEqual(await figures(), [200, true, '1', '0']);
  });
  await proxy.cut();
});

test('wrong routes are refused with a reason, and no password is shown', () => {
  const home = temporaryDirectory();
  const wrong = (routes, why) => {
    const words = ['serve', '--data', path.join(home, 'd'), '--listen', '127.0.0.1:0', ...config(home, routes)];
    const run = spawnSync(binary, words, { encoding: 'utf8' });
    assert.notEqual(run.status, 0);
    assert.match(run.stderr, why);
    assert.doesNotMatch(run.stderr, /s3cret/);
  };
  wrong(['mail backend=memory:'], /no number for mail; write number=N/);
  wrong(['mail number=64 backend=memory:'], /number='64' for mail; .* from 1 to 63/);
  wrong(['mail number=1'], /first route of number 1 needs backend=URL/);
  wrong(['a number=1 backend=postgres://u:s3cret@h/1', 'b number=1 backend=postgres://u:s3cret@h/2'], /two backends under one number for a and b/);
  wrong(['a number=1 backend=memory:', 'b number=2 backend=memory:'], /one backend under two numbers for a and b/);
  wrong(['a number=0 backend=memory:'], /write number=0 and leave backend= out/);
  wrong(['a number=1 backend=memory: s3cret'], /an invalid option after a;/);
  wrong(['a number=1 backend=nonsense:s3cret'], /routes, backend 1: unknown backend "nonsense:"/);
});

test('the effective settings show routes without passwords', () => {
  const home = temporaryDirectory();
  const args = config(home, ['a number=1 backend=postgres://u:s3cret@h/1']);
  const run = spawnSync(binary, ['serve', '--print-config', ...args], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  assert.match(run.stdout, /routes: \["a number=1 backend=postgres:\/\/\*\*\*@h\/1"\]/);
  assert.doesNotMatch(run.stdout, /s3cret/);
});

test('HF-28 a server with routes refuses dependencies, with the reason', async () => {
  const home = temporaryDirectory();
  await withServer({ args: config(home, ['mail.* number=7 backend=memory:']) }, async (api) => {
    const { id } = (await api.post('/v1/queues/q/jobs', { payload: 1 })).json;
    for (const answer of [await api.post('/v1/queues/q/jobs', { depends_on: [id] }), await api.post('/v1/batches', { jobs: [{ queue: 'q' }], then: { queue: 'q' } })]) {
      assert.equal(answer.status, 409, answer.text);
      assert.match(answer.json.detail, /does not support jobs that depend on others/);
    }
  });
});
