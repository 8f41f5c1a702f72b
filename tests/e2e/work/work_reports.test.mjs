// SPDX-License-Identifier: Apache-2.0
// What `holdfast work` tells the server while a job runs, and hears from it (PDQ-8): progress, the job's log,
// heartbeats, cancels.
import assert from 'node:assert/strict';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { enqueue, freshQueue, onStores } from '../lib/suite.mjs';
import { temporaryDirectory, until } from '../lib/server.mjs';
import { alive, gone, job, pidIn, renewedFor, startWork, stateOf } from '../lib/worker.mjs';

onStores('reports of holdfast work', ['memory'], {}, (use) => {
  test('PDQ-8: progress is reported, and standard error is the log of the job', async () => {
    const queue = freshQueue();
    const home = temporaryDirectory();
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    const script = `echo '42 half way' >&3; echo first >&2; while [ ! -e ${home}/go ]; do sleep 0.05; done; printf 'last' >&2`;
    const runner = startWork(use.server, [queue, '--poll', '200ms', '--', 'sh', '-c', script]);
    const { progress } = await until('progress is shown', async () => {
      const one = await job(use.api, id);
      return one.progress && one;
    });
    assert.deepEqual([progress.percent, progress.message], [42, 'half way']);
    writeFileSync(path.join(home, 'go'), '');
    await stateOf(use.api, id, 'done');
    const text = (await use.api.get(`/v1/jobs/${id}/log`)).text;
    assert.ok(text.indexOf('first') < text.indexOf('last') && text.includes('first'), text);
    await runner.logged(/stderr id=\w+ line=first/);
    await runner.stop();
  });

  test('PDQ-8: forms of progress', async () => {
    for (const [written, percent, message] of [
      ['42\\tx', 42, 'x'],
      ['42.5 %% x', 42, 'x'],
      ['30\\nonly a text\\n', 30, 'only a text'],
      ['7 last', 7, 'last'],
      ['101 tries', undefined, '101 tries'],
    ]) {
      const queue = freshQueue();
      const home = temporaryDirectory();
      const { id } = await enqueue(use.api, queue, { payload: 1 });
      const runner = startWork(use.server, [queue, '--poll', '200ms', '--', 'sh', '-c', `printf '${written}' >&3; exec 3>&-; touch ${home}/run; while [ ! -e ${home}/go ]; do sleep 0.05; done`]);
      const { progress } = await until('progress is shown', async () => {
        const one = await job(use.api, id);
        return one.progress?.message && one;
      });
      assert.deepEqual([progress.percent, progress.message], [percent, message], written);
      writeFileSync(path.join(home, 'go'), '');
      await runner.stop();
    }
  });

  test('PDQ-8: heartbeats register the worker, renew its leases, and say when it stops', async () => {
    const queue = freshQueue();
    const home = temporaryDirectory();
    const name = `worker of ${queue}`;
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    const runner = startWork(use.server, [queue, '--name', name, '--lease', '3s', '--poll', '200ms', '--', 'sh', '-c', `while [ ! -e ${home}/go ]; do sleep 0.05; done`]);
    const shown = async () => (await use.api.get('/v1/workers')).json.workers.find((one) => one.name === name);
    const one = await until('the worker is shown', async () => {
      const found = await shown();
      return found?.pid && found;
    });
    assert.equal(one.pid, runner.process.pid);
    assert.ok(one.host && one.version);
    await renewedFor(use.api, id, 4000); // longer than the lease
    writeFileSync(path.join(home, 'go'), '');
    assert.deepEqual([(await stateOf(use.api, id, 'done')).attempts], [1]);
    await runner.stop();
    const stopped = await shown();
    assert.equal(stopped.done, 1);
  });

  test('PDQ-8: a cancel reaches a running command, whose tree ends, and the job is cancelled', async () => {
    const queue = freshQueue();
    const home = temporaryDirectory();
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    const script = `setsid -f sh -c 'echo $$ >$0; exec sleep 1000' ${home}/daemon; echo $$ >${home}/main; while :; do sleep 0.1; done`;
    // A renewal at a third of this lease would be too late.
    const runner = startWork(use.server, [queue, '--poll', '200ms', '--lease', '1h', '--', 'sh', '-c', script]);
    const pids = [await pidIn(path.join(home, 'main')), await pidIn(path.join(home, 'daemon'))];
    assert.equal((await use.api.post(`/v1/jobs/${id}/cancel`)).status, 202);
    for (const pid of pids) await gone(pid);
    await stateOf(use.api, id, 'cancelled');
    await runner.logged(/warn cancelled/);
    await runner.stop();
    assert.ok(!pids.some(alive) && existsSync(home));
  });
});
