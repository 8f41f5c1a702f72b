// SPDX-License-Identifier: Apache-2.0
// `holdfast work` on a network that delays or swallows what is sent (PDQ-8): no lease is lost, and no attempt is
// stopped by a reply that concerns another one.
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { test } from 'node:test';

import { enqueue, freshQueue, onStores } from '../lib/suite.mjs';
import { temporaryDirectory, until } from '../lib/server.mjs';
import { job, startHook, startTcpProxy, startWork, stateOf, waitFor } from '../lib/worker.mjs';

onStores('the network of holdfast work', ['memory'], {}, (use) => {
  test('PDQ-8: a late reply to a heartbeat does not stop the next attempt of the same job', async () => {
    const queue = freshQueue();
    const home = temporaryDirectory();
    const { id } = await enqueue(use.api, queue, { payload: 1, backoff: { type: 'list', steps_ms: [0] }, max_attempts: 5 });
    let late, deliver, replies = 0;
    /** The first heartbeat with a lease reaches the server only when the second attempt runs. */
    const hook = await startHook(use.api, async (request, body, forward) => {
      const heartbeat = request.url.endsWith('/heartbeat') && JSON.parse(body).leases.length > 0;
      if (heartbeat && !late) await new Promise((resolve) => ((late = JSON.parse(body)), (deliver = resolve)));
      const answer = await forward();
      replies += heartbeat;
      return answer;
    });
    const script = `touch ${home}/run$HOLDFAST_ATTEMPT; ${waitFor(`${home}/go$HOLDFAST_ATTEMPT`)}; [ $HOLDFAST_ATTEMPT = 2 ] && echo second`;
    const runner = startWork(hook, [queue, '--poll', '200ms', '--lease', '1h', '--', 'sh', '-c', script]);
    await until('a heartbeat is under way', () => late);
    writeFileSync(path.join(home, 'go1'), '');
    await until('the second attempt runs', () => existsSync(path.join(home, 'run2')));
    deliver();
    await until('two heartbeats were answered', () => replies >= 3);
    writeFileSync(path.join(home, 'go2'), '');
    const done = await stateOf(use.api, id, 'done');
    assert.deepEqual([done.attempts, done.result], [2, 'second']);
    assert.doesNotMatch(runner.stderr, /lease_lost/);
    await runner.stop();
    hook.close();
  });

  test('PDQ-8: a connection that swallows everything does not cost the lease', async () => {
    const queue = freshQueue();
    const home = temporaryDirectory();
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    const proxy = await startTcpProxy(use.server);
    const runner = startWork(proxy, [queue, '--poll', '200ms', '--lease', '12s', '--', 'sh', '-c', `touch ${home}/run; ${waitFor(`${home}/go`)}`]);
    await until('the command runs', () => existsSync(path.join(home, 'run')));
    proxy.swallow();
    const end = async () => Date.parse((await job(use.api, id)).lease_until);
    const first = await end();
    await until('the lease is renewed', async () => (await end()) > first + 3000);
    writeFileSync(path.join(home, 'go'), '');
    assert.equal((await stateOf(use.api, id, 'done')).attempts, 1);
    assert.doesNotMatch(runner.stderr, /lease_/);
    proxy.close();
    runner.process.kill('SIGKILL');
    await runner.exited;
  });

  test('PDQ-8: Retry-After of the server is limited to a minute', async () => {
    const busy = http.createServer((request, response) => response.writeHead(503, { 'retry-after': '86400' }).end());
    await new Promise((resolve) => busy.listen(0, '127.0.0.1', resolve));
    const runner = startWork({ url: `http://127.0.0.1:${busy.address().port}` }, ['q', '--', 'true']);
    await runner.logged(/warn claim_failed .* retry_ms=60000/);
    assert.deepEqual(await runner.stop(), { code: 0, signal: null });
    busy.closeAllConnections?.();
    busy.close();
  });
});
