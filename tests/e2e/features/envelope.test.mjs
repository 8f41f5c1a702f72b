// SPDX-License-Identifier: Apache-2.0
// HF-20, PDQ-10, PDQ-11: what travels with a job (kind, headers, trace context), and class and stack of an error.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { openStream } from '../lib/client.mjs';
import { run } from '../lib/program.mjs';
import { Receiver } from '../lib/receiver.mjs';
import { temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue, onStores } from '../lib/suite.mjs';

const parent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
const other = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00';

onStores('job envelope', ['memory', 'sqlite'], { env: { HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8' } }, (use) => {
  test('HF-20 PDQ-11: kind, headers and trace context reach worker, views, lists and events', async () => {
    const { api, server } = use;
    const q = freshQueue();
    const events = await openStream(server, `/v1/events?queue=${q}`).opened;
    const made = await api.post(`/v1/queues/${q}/jobs`, { payload: 1, kind: 'welcome', headers: { 'X-Tenant': 'ä', b: '' } }, { headers: { traceparent: parent, tracestate: 'v=1' } });
    const { id } = made.json;
    const headers = { 'X-Tenant': 'ä', b: '', traceparent: parent, tracestate: 'v=1' };
    const peeked = (await api.get(`/v1/queues/${q}/peek`)).json.jobs[0];
    const job = await claimOne(api, q);
    for (const view of [peeked, job, (await api.get(`/v1/jobs/${id}`)).json]) {
      assert.equal(view.kind, 'welcome');
      assert.deepEqual(view.headers, headers);
    }
    for (let seen = ''; seen !== 'claimed'; ) {
      const event = await events.next();
      seen = event.event;
      const about = JSON.parse(event.data).job ?? {};
      if (about.id !== id) continue;
      assert.equal(about.kind, 'welcome');
      assert.deepEqual(about.headers, headers);
    }
    events.close();
    await api.post(`/v1/jobs/${id}/fail`, { token: job.token, error: 'no', retry: false });
    const trace = `kind=welcome trace_id=${parent.slice(3, 35)}`;
    await until('a line in the log', () => server.stderr.split('\n').some((line) => line.includes('job_dead') && line.includes(id) && line.includes(trace)));
    assert.deepEqual((await api.get(`/v1/jobs?kind=welcome&queue=${q}`)).json.jobs.map((one) => one.id), [id]);
    assert.deepEqual((await api.get(`/v1/jobs?kind=other&queue=${q}`)).json.jobs, []);
    assert.equal((await api.get('/v1/jobs?kind=')).status, 422);
  });

  test('HF-20: the trace context of a request goes to each job that has none', async () => {
    const { api } = use;
    const q = freshQueue();
    await api.post(`/v1/queues/${q}/jobs`, [{ payload: 0 }, { payload: 1, headers: { traceparent: other } }, { payload: 2, headers: { tracestate: 'mine' } }], { headers: { traceparent: parent, tracestate: 'v=1' } });
    await api.post(`/v1/queues/${q}/jobs`, { payload: 3 }, { headers: { traceparent: 'nonsense', tracestate: 'v=1' } });
    const got = [];
    while (got.length < 4) got.push(await claimOne(api, q));
    got.sort((a, b) => a.payload - b.payload);
    assert.deepEqual(got.map((job) => job.headers), [
      { traceparent: parent, tracestate: 'v=1' },
      { traceparent: other },
      { tracestate: 'mine', traceparent: parent },
      undefined,
    ]);
    assert.equal(got[0].kind, undefined);
  });

  test('HF-20: headers and kinds that are refused, and why', async () => {
    const { api } = use;
    const q = freshQueue();
    const bad = [
      [{ headers: { 'a b': '' } }, 'headers', /letters, digits/],
      [{ headers: { a: 1 } }, 'headers', /each value must be a string/],
      [{ headers: [] }, 'headers', /object/],
      [{ headers: { a: 'x'.repeat(9000) } }, 'headers', /8192 are allowed/],
      [{ headers: { a: '\n' } }, 'headers', /control characters/],
      [{ kind: 'k'.repeat(129) }, 'kind', /129 bytes; 128 are allowed/],
      [{ kind: 7 }, 'kind', /must be a string/],
    ];
    for (const [members, field, says] of bad) {
      const refused = await api.post(`/v1/queues/${q}/jobs`, { payload: 1, ...members });
      assert.equal(refused.status, 422, JSON.stringify(members).slice(0, 80));
      assert.equal(refused.json.field, field);
      assert.match(refused.json.detail, says);
    }
  });

  test('HF-20: bulk actions by kind, and how many jobs they concern', async () => {
    const { api } = use;
    const q = freshQueue();
    for (const kind of ['a', 'a', 'b']) await enqueue(api, q, { payload: 1, kind });
    const ask = { states: ['ready'], kind: 'a' };
    assert.equal((await api.post(`/v1/queues/${q}/cancel`, { ...ask, dry_run: true })).json.count, 2);
    assert.equal((await api.post(`/v1/queues/${q}/cancel`, ask)).status, 200);
    assert.equal((await api.get(`/v1/queues/${q}/stats`)).json.counts.ready, 1);
    assert.equal((await claimOne(api, q)).kind, 'b');
  });

  test('PDQ-10: class and stack of an error, in the job, its history and the exceptions', async () => {
    const { api } = use;
    const q = freshQueue();
    const { id } = await enqueue(api, q, { payload: 1, kind: 'k' });
    let job = await claimOne(api, q, { worker: 'w1' });
    const stack = `at send (mail.js:7)\n${'x'.repeat(20000)}`;
    await api.post(`/v1/jobs/${id}/fail`, { token: job.token, error: 'no route', error_type: 'TimeoutError', stack, delay_ms: 0 });
    const view = (await api.get(`/v1/jobs/${id}`)).json;
    assert.equal(view.error, 'no route');
    assert.equal(view.error_type, 'TimeoutError');
    assert.equal(view.stack, stack.slice(0, 16384));
    assert.equal(view.history[0].error_type, 'TimeoutError');
    const [exception] = (await api.get(`/v1/exceptions?queue=${q}`)).json.exceptions;
    assert.equal(exception.type, 'TimeoutError');
    assert.equal(exception.error, 'no route');
    job = await claimOne(api, q);
    await api.post(`/v1/jobs/${id}/ack`, { token: job.token });
    const done = (await api.get(`/v1/jobs/${id}`)).json;
    assert.equal(done.error_type, undefined);
    assert.equal(done.stack, undefined);
    assert.equal(done.history[0].error_type, 'TimeoutError');
  });

  test('HF-20 PDQ-10: the commands', async () => {
    const { api, server } = use;
    const q = freshQueue();
    const ask = async (...words) => {
      const ended = await run([...words, '--server', server.url, '--json']);
      assert.equal(ended.code, 0, ended.stderr);
      return JSON.parse(ended.stdout);
    };
    await ask('enqueue', q, '1', '--kind', 'welcome', '--header', 'a=1', '--header', 'b=x=y');
    await ask('enqueue', q, 'bytes', '--raw', '--kind', 'raw', '--header', 'a=1');
    const [listed] = (await ask('jobs', '--kind', 'welcome', '--queue', q)).jobs;
    assert.deepEqual(listed.headers, { a: '1', b: 'x=y' });
    assert.deepEqual((await ask('jobs', '--kind', 'raw', '--queue', q)).jobs[0].headers, { a: '1' });
    const job = await claimOne(api, q);
    const file = path.join(temporaryDirectory(), 'stack');
    writeFileSync(file, 'at x\n');
    await ask('fail', job.id, job.token, '--error', 'no', '--error-type', 'E', '--stack-file', file, '--no-retry');
    const failed = (await api.get(`/v1/jobs/${job.id}`)).json;
    assert.equal(failed.error_type, 'E');
    assert.equal(failed.stack, 'at x\n');
  });

  test('HF-20: a webhook shows kind and headers', async () => {
    const { api } = use;
    const q = freshQueue();
    const receiver = await new Receiver().listen();
    try {
      await api.put(`/v1/alerts/${q}`, { on: 'dead', queue: q, webhook: { url: receiver.url } });
      const { id } = await enqueue(api, q, { payload: 1, kind: 'welcome', headers: { traceparent: parent } });
      const job = await claimOne(api, q);
      await api.post(`/v1/jobs/${id}/fail`, { token: job.token, error: 'no', error_type: 'E', retry: false });
      const [sent] = await receiver.wait();
      const about = sent.json.job;
      assert.equal(about.error, 'no');
      assert.equal(about.kind, 'welcome');
      assert.deepEqual(about.headers, { traceparent: parent });
    } finally {
      await receiver.close();
    }
  });
});
