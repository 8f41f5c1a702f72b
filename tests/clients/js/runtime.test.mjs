// SPDX-License-Identifier: Apache-2.0
// The client against the real server: what the conformance cases cannot say because it belongs to JavaScript.
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import vm from 'node:vm';

import { Client } from '../../e2e/lib/client.mjs';
import { execute } from '../../e2e/lib/program.mjs';
import { binary, startServer, stopServer, temporaryDirectory, until } from '../../e2e/lib/server.mjs';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const esm = path.join(root, 'clients/js/dist/esm');
const { FailJob, Holdfast, JobCancelledError, ProblemError } = await import(path.join(esm, 'index.js'));
const { unixFetch } = await import(path.join(esm, 'node.js'));
const { testServer } = await import(path.join(esm, 'testing.js'));
const { build } = createRequire(path.join(root, 'clients/js/package.json'))('esbuild');

let server, api;
let queues = 0;
const fresh = () => `q${++queues}`;
const clients = [];
const connect = (options = {}) => {
  const client = new Holdfast({ url: server.url, ...options });
  clients.push(client);
  return client;
};
before(async () => {
  server = await startServer();
  api = new Client(server);
});
after(async () => {
  await Promise.all(clients.map((client) => client.close()));
  api.close();
  await stopServer(server);
});
const view = async (id) => (await api.get(`/v1/jobs/${id}`)).json;
const inState = (id, state) => until(`${id} is ${state}`, async () => (await view(id)).state === state);

describe('workers', () => {
  test('a hook that throws, or returns a rejected promise, affects nothing but the hook `error`', async () => {
    const [queue, errors] = [fresh(), []];
    const client = connect();
    const { id } = await client.enqueue(queue, 1);
    const hooks = {
      started: () => assert.fail('one'),
      done: async () => assert.fail('two'),
      error(error) {
        errors.push(error.message);
        throw error;
      },
    };
    const worker = client.worker(queue, () => 'ok', { hooks });
    await inState(id, 'done');
    await worker.stop();
    assert.deepEqual(errors, ['one', 'two']);
  });

  test('a result that is not JSON fails the job', async () => {
    const queue = fresh();
    const client = connect();
    const loop = {};
    loop.loop = loop;
    const { id } = await client.enqueue(queue, 1, { maxAttempts: 1 });
    const worker = client.worker(queue, () => loop);
    await inState(id, 'dead');
    await worker.stop();
    assert.deepEqual([(await view(id)).error, (await view(id)).error_type], ['a payload cannot contain itself', 'TypeError']);
  });

  test('middleware surrounds the handler in order, and can end the job', async () => {
    const [queue, seen] = [fresh(), []];
    const client = connect();
    const [first, second] = await client.enqueueMany(queue, [{ payload: { ok: true } }, { payload: { ok: false } }]);
    const note = (name) => async (job, ctx, next) => {
      seen.push(`${name} in`);
      try {
        return await next();
      } finally {
        seen.push(`${name} out`);
      }
    };
    const guard = async (job, ctx, next) => {
      if (!job.payload.ok) throw new FailJob('refused', { retry: false });
      return { wrapped: await next() };
    };
    const worker = client.worker(queue, () => (seen.push('handler'), 5), { middleware: [note('a')] }).use(note('b')).use(guard);
    await inState(second.id, 'dead');
    await worker.stop();
    assert.deepEqual((await view(first.id)).result, { wrapped: 5 });
    assert.deepEqual(seen, ['a in', 'b in', 'handler', 'b out', 'a out', 'a in', 'b in', 'b out', 'a out']);
  });

  test('the signal of a handler has a reason, and a cancel arrives through it', async () => {
    const queue = fresh();
    const client = connect();
    const { id } = await client.enqueue(queue, 1);
    const [held, reason] = await new Promise((resolve, reject) => {
      const worker = client.worker(queue, async (job, ctx) => {
        assert.equal((await client.cancel(id)).cancelRequested, true);
        await new Promise((stopped) => ctx.signal.addEventListener('abort', stopped));
        resolve([worker, ctx.signal.reason]);
        assert.throws(() => ctx.throwIfStopped(), JobCancelledError);
        ctx.throwIfStopped();
      }, { hooks: { error: reject } });
    });
    assert.ok(reason instanceof JobCancelledError);
    await inState(id, 'cancelled');
    await held.stop();
  });

  test('bytes and texts that are not JSON come as they are', async () => {
    const queue = fresh();
    const client = connect();
    await api.request('POST', `/v1/queues/${queue}/jobs`, { body: Buffer.from([0xff, 0, 1]), headers: { 'content-type': 'application/octet-stream' } });
    await api.request('POST', `/v1/queues/${queue}/jobs`, { body: 'no json', headers: { 'content-type': 'text/plain' } });
    const [bytes, text] = await client.claim(queue, { count: 2 });
    assert.deepEqual([...bytes.payload], [255, 0, 1]);
    assert.deepEqual([text.payload, text.payloadText], ['no json', undefined]);
  });

  test('wrong options are refused at once', () => {
    const client = connect();
    for (const options of [{ concurrency: 0 }, { concurrency: 1.5 }, { prefetch: -1 }, { concurrency: 500, prefetch: 501 }]) assert.throws(() => client.worker('q', () => {}, options), RangeError);
  });

  test('many calls at the same time cause no warning', async () => {
    const source = `
      import { Holdfast } from '${path.join(esm, 'index.js')}';
      const holdfast = new Holdfast(process.argv[1]);
      await Promise.all(Array.from({ length: 60 }, (_, i) => holdfast.enqueue('many' + i, i)));
      await Promise.all(Array.from({ length: 60 }, (_, i) => holdfast.get(i + 1)));
      const workers = Array.from({ length: 20 }, (_, i) => holdfast.worker('many' + i, () => {}, { concurrency: 20, prefetch: 5 }));
      await Promise.all(workers.map((worker) => worker.stop({ drain: true })));
      await holdfast.close();`;
    const { code, stderr } = await execute(process.execPath, ['--unhandled-rejections=strict', '--input-type=module', '-e', source, server.url]);
    assert.deepEqual([code, stderr], [0, '']);
  });

  test('close() stops workers and rejects what follows', async () => {
    const client = connect();
    const worker = client.worker(fresh(), () => {});
    await client.close();
    await worker.ended;
    await assert.rejects(client.enqueue('q', 1), { code: 'aborted' });
    await assert.rejects(client.get(1), { code: 'aborted' });
  });
});

describe('exact numbers', () => {
  test('a worker gets bigint, and its result is stored exactly', async () => {
    const queue = fresh();
    const client = connect({ bigIntegers: true });
    const { id } = await client.enqueue(queue, { n: 2n ** 70n });
    const worker = client.worker(queue, (job) => ({ next: job.payload.n + 1n }));
    await inState(id, 'done');
    await worker.stop();
    const job = await client.get(id);
    assert.deepEqual([job.payload.n, job.result.next, job.resultText], [2n ** 70n, 2n ** 70n + 1n, `{"next":${2n ** 70n + 1n}}`]);
    assert.deepEqual((await client.list({ queue })).jobs[0].payload, { n: 2n ** 70n });
  });
});

describe('runtimes', () => {
  const bundle = async (format) => (await build({ entryPoints: [path.join(esm, 'index.js')], bundle: true, platform: 'browser', format, globalName: 'holdfast', write: false })).outputFiles[0].text;
  const program = `(async ({ Holdfast }, url) => {
    const client = new Holdfast({ url });
    const { id } = await client.enqueue('elsewhere', { a: 1 });
    const seen = await new Promise((resolve, reject) => {
      client.worker('elsewhere', async (job, ctx) => { ctx.log('here'); await ctx.progress(50); return job.payload; }, { hooks: { done: (job) => resolve(job.id), error: reject } });
    });
    const job = await client.get(id);
    await client.close();
    return JSON.stringify([seen === id, job.state, job.result]);
  })`;
  const expected = '[true,"done",{"a":1}]';

  test('the core needs only fetch, URL, AbortController, atob and timers', async () => {
    const context = vm.createContext({ fetch, URL, AbortController, atob, setTimeout, clearTimeout, setInterval, clearInterval });
    vm.runInContext(await bundle('iife'), context);
    assert.equal(await vm.runInContext(`${program}(holdfast, ${JSON.stringify(server.url)})`, context), expected);
  });

  test('it runs in Chromium', { skip: !existsSync('/usr/bin/chromium') && 'Chromium is not installed' }, async () => {
    const { chromium } = createRequire(path.join(root, 'tests/e2e/package.json'))('playwright-core');
    const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox'] });
    try {
      const page = await browser.newPage();
      await page.route('**/page.html', (route) => route.fulfill({ contentType: 'text/html', body: '<title>client</title>' }));
      await page.goto(`${server.url}/page.html`);
      await page.addScriptTag({ content: await bundle('iife') });
      assert.equal(await page.evaluate(`${program}(holdfast, location.origin)`), expected);
    } finally {
      await browser.close();
    }
  });

  test('unixFetch connects to a server on a Unix socket', async () => {
    const socket = path.join(temporaryDirectory(), 'socket');
    const other = await startServer({ listen: `unix:${socket}` });
    const client = new Holdfast({ url: 'http://localhost', fetch: unixFetch(socket) });
    try {
      const { id } = await client.enqueue('unix', 'ä');
      const worker = client.worker('unix', (job) => job.payload);
      await worker.stop({ drain: true });
      assert.equal((await client.get(id)).result, 'ä');
      await assert.rejects(client.enqueue('unix', 1, { priority: 'hgh' }), ProblemError);
    } finally {
      await client.close();
      await stopServer(other);
    }
    await assert.rejects(new Holdfast({ url: 'http://localhost', fetch: unixFetch(socket), retryForMs: 0 }).enqueue('unix', 1), { code: 'no_connection' });
  });

  test('the second signal ends a worker at once', async () => {
    const source = `
      import { Holdfast } from '${path.join(esm, 'index.js')}';
      import { stopOnSignals } from '${path.join(esm, 'node.js')}';
      const holdfast = new Holdfast(process.argv[1]);
      const { id } = await holdfast.enqueue('signals', 1);
      const worker = holdfast.worker('signals', () => { process.kill(process.pid, 'SIGTERM'); setTimeout(() => process.kill(process.pid, 'SIGINT'), 50); return new Promise(() => {}); });
      await stopOnSignals(worker);
      await holdfast.close();
      console.log(id);`;
    const { code, stdout, stderr } = await execute(process.execPath, ['--unhandled-rejections=strict', '--input-type=module', '-e', source, server.url]);
    assert.equal(code, 0, stderr);
    const job = await view(stdout.trim());
    assert.deepEqual([job.state, job.failures, job.crashes], ['ready', 0, 0]);
  });
});

describe('testServer', () => {
  test('its clock moves only on request, and nothing stays behind', async () => {
    const own = await testServer({ binary });
    const client = own.client();
    const begin = await own.now();
    const { id } = await client.enqueue('later', 1, { delayMs: 90_000 });
    assert.equal(Number(await own.advance('1m')) - Number(begin), 60_000);
    assert.equal((await client.get(id)).state, 'scheduled');
    await own.advance('30s');
    assert.equal((await client.get(id)).state, 'ready');
    await own.stop();
    await new Promise((resolve) => http.get(own.url).on('error', resolve).on('response', () => assert.fail('the server still runs')));
  });
  test('a program that is missing or fails is an error with a reason', async () => {
    await assert.rejects(testServer({ binary: '/nonexistent/holdfast' }), /cannot be started/);
    await assert.rejects(testServer({ binary, args: ['--no-such-option'] }), /ended before it was ready[^]*no-such-option/);
  });
});
