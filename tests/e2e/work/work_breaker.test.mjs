// SPDX-License-Identifier: Apache-2.0
// `holdfast work --breaker` (PDQ-8, PDQ-9): the runner asks before a claim, and reports the outcome of each job.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { enqueue, freshQueue, onStores } from '../lib/suite.mjs';
import { until } from '../lib/server.mjs';
import { job, runWork, startWork, stateOf } from '../lib/worker.mjs';

onStores('the breaker of holdfast work', ['memory'], {}, (use) => {
  const state = async (name) => (await use.api.get(`/v1/breakers/${name}`)).json;

  test('PDQ-9: failures open the breaker, and a denied claim uses up no attempt', async () => {
    const [queue, name] = [freshQueue(), freshQueue('breaker')];
    await use.api.put(`/v1/breakers/${name}`, { failure_threshold: 2, open_cooldown_seconds: 3600 });
    const ids = [];
    for (let i = 0; i < 4; i++) ids.push((await enqueue(use.api, queue, { payload: i, max_attempts: 1 })).id);
    const runner = startWork(use.server, [queue, '--poll', '200ms', '--breaker', name, '--', 'false']);
    await runner.logged(/info breaker_open/);
    const seen = [];
    for (const id of ids) seen.push(await job(use.api, id));
    assert.deepEqual(seen.map((one) => one.state), ['dead', 'dead', 'ready', 'ready']);
    assert.deepEqual(seen.map((one) => one.attempts), [1, 1, 0, 0]);
    assert.equal((await state(name)).state, 'open');
    assert.deepEqual(await runner.stop(), { code: 0, signal: null });
  });

  test('PDQ-9: after the cooldown a probe that succeeds closes it', async () => {
    const [queue, name] = [freshQueue(), freshQueue('breaker')];
    await use.api.put(`/v1/breakers/${name}`, { failure_threshold: 1, open_cooldown_seconds: 1 });
    await use.api.post(`/v1/breakers/${name}/report`, { ok: false });
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    const runner = startWork(use.server, [queue, '-n', '4', '--poll', '200ms', '--breaker', name, '--', 'true']);
    await stateOf(use.api, id, 'done');
    await until('it is closed', async () => (await state(name)).state === 'closed');
    await runner.stop();
  });

  test('PDQ-9: 429 of a target counts, and a wrong job does not', async () => {
    const { createServer } = await import('node:http');
    const name = freshQueue('breaker');
    await use.api.put(`/v1/breakers/${name}`, { failure_threshold: 1, open_cooldown_seconds: 3600 });
    let status = 422;
    const target = createServer((request, response) => response.writeHead(status).end());
    await new Promise((resolve) => target.listen(0, '127.0.0.1', resolve));
    for (const [answer, expected] of [[422, 'closed'], [429, 'open']]) {
      status = answer;
      const queue = freshQueue();
      await enqueue(use.api, queue, { payload: 1 });
      await runWork(use.server, [queue, '--once', '--breaker', name, '--url', `http://127.0.0.1:${target.address().port}/`]);
      assert.equal((await state(name)).state, expected);
    }
    target.closeAllConnections?.();
    target.close();
  });
});
