// SPDX-License-Identifier: Apache-2.0
// Queues spread over several stores (the router): what a client sees, and that ids stay what they
// are when the server is started again with other routes.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { Client } from './lib/client.mjs';
import { binary, startServer, stopServer, temporaryDirectory } from './lib/server.mjs';

function config(dir, routes) {
  const file = path.join(dir, 'holdfast.yaml');
  writeFileSync(file, JSON.stringify({ routes }));
  return ['--config', file];
}

async function withServer(options, work) {
  const server = await startServer(options);
  const api = new Client(server);
  try {
    return await work(api);
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
    // What two stores would have to commit together is refused with a reason.
    const schedule = await api.put('/v1/schedules/nightly', { queue: 'logs', every_ms: 60000 });
    assert.equal(schedule.status, 422);
    assert.match(schedule.text, /different backends/);
    assert.equal((await api.get('/v1/server')).json.backend, 'router+sqlite');
    const backup = await api.get('/v1/backup');
    assert.ok(backup.status >= 400);
    assert.match(backup.text, /several backends/);
  });
  // Other routes: the new ones decide about new jobs, the old ids still find theirs.
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
  wrong(['a number=1 backend=memory: s3cret'], /a word behind a that is not right/);
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
