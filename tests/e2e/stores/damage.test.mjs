// SPDX-License-Identifier: Apache-2.0
// HF-18: a server that runs on a store with a damaged page. Jobs whose rows are on that page can be removed, what was
// confirmed beside the removal is kept, and nothing that was removed comes back, also after kill -9.
import assert from 'node:assert/strict';
import { openSync, closeSync, readFileSync, writeSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { PAGE } from '../lib/pages.mjs';
import { run } from '../lib/program.mjs';
import { killServer, logged, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';

const COUNT = 300;
const ok = (answer, status = 200) => {
  assert.equal(answer.status, status, answer.text);
  return answer.json;
};

/** A stopped store with COUNT jobs, one of whose pages of payloads has another bit; and the numbers of the jobs on it. */
async function damagedStore(options = () => ({})) {
  const data = path.join(temporaryDirectory(), 'data');
  const server = await startServer({ data });
  const api = new Client(server);
  const jobs = Array.from({ length: COUNT }, (_, n) => ({ payload: `marker-${n}-${'x'.repeat(80)}`, ...options(n) }));
  ok(await api.post('/v1/queues/q/jobs', jobs));
  api.close();
  await stopServer(server);
  const file = path.join(data, 'holdfast.db');
  const bytes = readFileSync(file);
  const hits = [];
  for (let at = 0; at < bytes.length; at += PAGE)
    hits.push([at, [...bytes.subarray(at, at + PAGE).toString('latin1').matchAll(/marker-(\d+)-/g)].map((m) => Number(m[1]))]);
  const [at, numbers] = hits.filter(([, list]) => list.length > 5)[2];
  const fd = openSync(file, 'r+');
  const where = at + PAGE - 500;
  writeSync(fd, Buffer.from([bytes[where] ^ 1]), 0, 1, where);
  closeSync(fd);
  return { data, numbers: numbers.sort((a, b) => a - b) };
}

const removals = {
  'one by one': async (api, ids) => {
    for (const id of ids) assert.equal((await api.delete(`/v1/jobs/${id}`)).status, 200);
  },
  'by state': async (api) => void ok(await api.post('/v1/queues/q/remove', { states: ['ready'] })),
  'by a purge': async (api) => void ok(await api.post('/v1/queues/q/purge', {})),
};

for (const [how, remove] of Object.entries(removals)) {
  test(`HF-18 jobs on a damaged page are removed ${how}, and nothing else is lost`, async () => {
    const { data, numbers } = await damagedStore();
    const ids = numbers.map((n) => n + 1);
    let server = await startServer({ data });
    let api = new Client(server);
    ok(await api.post('/v1/kv/commit', { sets: [{ key: ['important'], value: 'kept' }] }));
    ok(await api.post('/v1/queues/young/jobs', { payload: 'kept' }), 201);
    await remove(api, ids);
    await logged(server, /store_page_damaged.*page \d+ is damaged/);
    // A list shows the records that have been applied; the server runs and continues to apply.
    ok(await api.post('/v1/queues/young/jobs', { payload: 'later' }), 201);
    await until('the store has the later job', async () => ok(await api.get('/v1/jobs?queue=young')).jobs.length === 2);
    api.close();
    await killServer(server);

    for (let start = 0; start < 2; start++) {
      server = await startServer({ data });
      api = new Client(server);
      for (const id of ids) assert.equal((await api.get(`/v1/jobs/${id}`)).status, 404, `job ${id}`);
      assert.deepEqual(ok(await api.get('/v1/kv')).keys.map(({ key, value }) => [key, value]), [[['important'], 'kept']]);
      assert.deepEqual(ok(await api.get('/v1/jobs?queue=young')).jobs.map((job) => job.payload), ['kept', 'later']);
      assert.equal(ok(await api.get('/v1/queues/q')).counts.ready, how === 'one by one' ? COUNT - ids.length : 0);
      ok(await api.post('/v1/compact', {}));
      api.close();
      await stopServer(server);
    }
    const checked = await run(['check', data]);
    assert.equal(checked.code, 1, checked.stdout);
    assert.match(checked.stdout, /page \d+ is damaged/);
  });
}

test('HF-18 a job whose payload cannot be read leaves a damaged value at its keys, and other keys are kept', async () => {
  const { data, numbers } = await damagedStore((n) => ({ keys_if_undelivered: [['undelivered', n]] }));
  let server = await startServer({ data });
  let api = new Client(server);
  let claimed = 0;
  for (let n = 0, got; n === 0 || got > 0; n++) {
    ok(await api.post('/v1/kv/commit', { sets: [{ key: ['other', n], value: n }] }));
    got = ok(await api.post('/v1/queues/q/claim', { count: 50 })).jobs.length;
    claimed += got;
  }
  assert.equal(claimed, COUNT - numbers.length);
  const keys = async () => ok(await api.get('/v1/kv?limit=1000')).keys;
  const before = await keys();
  assert.deepEqual(before.filter((one) => one.damaged).map((one) => one.key), numbers.map((n) => ['undelivered', n]));
  await logged(server, /store_page_damaged/);
  api.close();
  await killServer(server);
  server = await startServer({ data });
  api = new Client(server);
  assert.deepEqual(await keys(), before);
  for (const n of numbers) assert.equal(ok(await api.get(`/v1/jobs/${n + 1}`)).reason, 'damaged');
  api.close();
  await stopServer(server);
});

test('HF-18 a payload that cannot be replaced is reported, and the server continues and can be restarted', async () => {
  const { data, numbers } = await damagedStore();
  let server = await startServer({ data });
  let api = new Client(server);
  const id = numbers[0] + 1;
  ok(await api.patch(`/v1/jobs/${id}`, { payload: 'another' }));
  ok(await api.post('/v1/queues/young/jobs', { payload: 'kept' }), 201);
  await logged(server, new RegExp(`payload_dropped seq=${id} `));
  await until('the batch has been applied', async () => ok(await api.get('/v1/jobs?queue=young')).jobs.length === 1);
  api.close();
  await killServer(server);
  server = await startServer({ data });
  api = new Client(server);
  assert.ok(ok(await api.get(`/v1/jobs/${id}`)).damaged.includes('payload'));
  assert.equal(ok(await api.post('/v1/queues/young/claim', {})).jobs[0].payload, 'kept');
  api.close();
  await stopServer(server);
});
