// SPDX-License-Identifier: Apache-2.0
// `holdfast work` with a server that is killed or whose replies are lost (PDQ-8), and with many jobs.
import assert from 'node:assert/strict';
import http from 'node:http';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { enqueue } from '../lib/suite.mjs';
import { only } from '../lib/backend.mjs';
import { killServer, sanitized, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { job, runWork, startWork, stateOf } from '../lib/worker.mjs';

const many = sanitized() ? 1000 : 10_000;

describe('holdfast work and its server', () => {
  test('PDQ-8: after kill -9 of the server, the runner continues when it is back', only('files'), async () => {
    const data = temporaryDirectory();
    const home = temporaryDirectory();
    let server = await startServer({ data });
    let api = new Client(server);
    const { id } = await enqueue(api, 'q', { payload: 'first' });
    const runner = startWork(server, ['q', '--', 'sh', '-c', `touch ${home}/begun; while [ ! -e ${home}/go ]; do sleep 0.05; done; cat`]);
    await until('the command runs', () => existsSync(path.join(home, 'begun')));
    await killServer(server);
    api.close();
    writeFileSync(path.join(home, 'go'), '');
    await runner.logged(/warn report_not_answered/);
    server = await startServer({ data, listen: `127.0.0.1:${server.port}` });
    api = new Client(server);
    const done = await stateOf(api, id, 'done');
    assert.deepEqual([done.attempts, done.result], [1, 'first']);
    const second = await enqueue(api, 'q', { payload: 'second' });
    assert.equal((await stateOf(api, second.id, 'done')).result, 'second');
    assert.deepEqual(await runner.stop(), { code: 0, signal: null });
    api.close();
    await stopServer(server);
  });

  test('PDQ-8: an ack whose reply is lost is repeated with the same lease token', async () => {
    const server = await startServer({ backend: 'memory' });
    const api = new Client(server);
    const tokens = [];
    /** Passes requests on, and drops the reply to the first ack. */
    const proxy = http.createServer((request, response) => {
      const chunks = [];
      request.on('data', (chunk) => chunks.push(chunk));
      request.on('end', async () => {
        const body = Buffer.concat(chunks);
        const answer = await api.once(request.method, request.url, { body, headers: { 'content-type': 'application/json' } });
        if (request.url.endsWith('/ack')) tokens.push(JSON.parse(body).token);
        if (request.url.endsWith('/ack') && tokens.length === 1) return request.socket.destroy();
        response.writeHead(answer.status, { 'content-type': answer.headers['content-type'] ?? 'application/json' }).end(answer.raw);
      });
    });
    await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
    const { id } = await enqueue(api, 'q', { payload: 1 });
    const { code, stderr } = await runWork({ url: `http://127.0.0.1:${proxy.address().port}` }, ['q', '--once', '--', 'echo', 'once']);
    assert.equal(code, 0, stderr);
    assert.equal(tokens.length, 2);
    assert.equal(tokens[0], tokens[1]);
    const done = await job(api, id);
    assert.deepEqual([done.state, done.attempts, done.result], ['done', 1, 'once']);
    proxy.closeAllConnections?.();
    proxy.close();
    api.close();
    await stopServer(server);
  });

  test(`PDQ-8: ${many} jobs with -n 8, each with its own result`, async () => {
    const server = await startServer({ backend: 'memory', args: ['--queue-defaults-keep-done', 'all'] });
    const api = new Client(server);
    for (let first = 0; first < many; first += 1000) {
      const jobs = Array.from({ length: 1000 }, (_, n) => ({ payload: { number: first + n } }));
      assert.equal((await api.post('/v1/queues/q/jobs', jobs)).status, 200);
    }
    const { code, stderr } = await runWork(server, ['q', '-n', '8', '--until-empty', '--', '/bin/cat']);
    assert.equal(code, 0, stderr.slice(-500));
    assert.match(stderr, new RegExp(`info stopped done=${many} failed=0`));
    const numbers = new Set();
    for (let cursor = ''; cursor !== null; ) {
      const page = (await api.get(`/v1/jobs?queue=q&limit=1000${cursor && `&cursor=${encodeURIComponent(cursor)}`}`)).json;
      for (const one of page.jobs) {
        assert.equal(one.state, 'done');
        assert.equal(one.attempts, 1);
        assert.deepEqual(one.result, one.payload);
        numbers.add(one.result.number);
      }
      cursor = page.next_cursor;
    }
    assert.equal(numbers.size, many);
    api.close();
    await stopServer(server);
  });
});
