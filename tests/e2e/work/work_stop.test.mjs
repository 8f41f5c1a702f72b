// SPDX-License-Identifier: Apache-2.0
// How `holdfast work` stops (PDQ-8): finish, drain, the second signal, --stop-timeout.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { enqueue, freshQueue, onStores } from '../lib/suite.mjs';
import { temporaryDirectory } from '../lib/server.mjs';
import { gone, job, pidIn, startWork } from '../lib/worker.mjs';

onStores('stopping', ['memory'], {}, (use) => {
  /** A runner whose first job waits for a file; `more` other jobs are ready. */
  async function start(args, { more = 0, trap = '' } = {}) {
    const home = temporaryDirectory();
    const queue = freshQueue();
    const ids = [];
    for (let i = 0; i <= more; i++) ids.push((await enqueue(use.api, queue, { payload: i })).id);
    const script = `${trap} echo $$ >${home}/$(cat); while [ ! -e ${home}/go ]; do sleep 0.05; done`;
    const runner = startWork(use.server, [queue, '--poll', '200ms', ...args, '--', 'sh', '-c', script]);
    const pid = await pidIn(path.join(home, '0'));
    return { runner, ids, pid, go: () => writeFileSync(path.join(home, 'go'), ''), signal: (name) => runner.process.kill(name) };
  }
  const seen = async (id) => {
    const { state, attempts } = await job(use.api, id);
    return [state, attempts];
  };

  for (const name of ['SIGTERM', 'SIGINT'])
    test(`PDQ-8: ${name} finishes the current jobs and claims no more`, async () => {
      const { runner, ids, go, signal } = await start([], { more: 2 });
      signal(name);
      await runner.logged(/info stopping mode=finish jobs=1/);
      go();
      assert.deepEqual(await runner.exited, { code: 0, signal: null });
      assert.deepEqual(await seen(ids[0]), ['done', 1]);
      assert.deepEqual(await seen(ids[1]), ['ready', 0]);
      assert.deepEqual(await seen(ids[2]), ['ready', 0]);
    });

  test('PDQ-8: drain works until the queue is empty', async () => {
    const { runner, ids, go, signal } = await start(['--stop', 'drain'], { more: 2 });
    signal('SIGTERM');
    await runner.logged(/info stopping mode=drain/);
    go();
    assert.deepEqual(await runner.exited, { code: 0, signal: null });
    for (const id of ids) assert.deepEqual(await seen(id), ['done', 1]);
  });

  test('PDQ-8: the second signal terminates the commands and releases their jobs, uncounted', async () => {
    const { runner, ids, pid, signal } = await start([]);
    signal('SIGTERM');
    await runner.logged(/info stopping/);
    signal('SIGTERM');
    assert.deepEqual(await runner.exited, { code: 0, signal: null });
    await gone(pid);
    assert.deepEqual(await seen(ids[0]), ['ready', 0]);
    assert.match(runner.stderr, /outcome=released/);
  });

  test('PDQ-8: --stop-timeout does the same, also to a command that ignores SIGTERM', async () => {
    const { runner, ids, pid, signal } = await start(['--stop-timeout', '300ms', '--kill-after', '200ms'], { trap: "trap '' TERM;" });
    signal('SIGTERM');
    assert.deepEqual(await runner.exited, { code: 0, signal: null });
    await gone(pid);
    assert.deepEqual(await seen(ids[0]), ['ready', 0]);
  });

  test('PDQ-8: an idle runner ends when its claim has ended', async () => {
    const runner = startWork(use.server, [freshQueue(), '--poll', '500ms', '--', 'cat']);
    await runner.logged(/info started/);
    assert.deepEqual(await runner.stop(), { code: 0, signal: null });
  });
});
