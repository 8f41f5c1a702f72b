// SPDX-License-Identifier: Apache-2.0
// What `holdfast work` makes of jobs in difficult cases (PDQ-8): processes that outlive their command, problems of
// the worker, NUL bytes, a log that is not read, several workers, and the exit status of the runner.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { claimOne, enqueue, freshQueue, onStores } from '../lib/suite.mjs';
import { binary, temporaryDirectory, until } from '../lib/server.mjs';
import { gone, job, pidIn, runWork, startWork, stateOf, waitFor } from '../lib/worker.mjs';

const sh = (script) => ['--', 'sh', '-c', script];

onStores('outcomes of holdfast work', ['memory'], {}, (use) => {
  // ---- processes that outlive their command ----

  /** Exits with 0 and leaves a process behind that ignores SIGTERM. */
  const leaves = (home) => `sh -c 'trap "" TERM; echo $$ >${home}/left; exec setsid sleep 300' & while [ ! -s ${home}/left ]; do sleep 0.05; done; echo $$ >${home}/main; echo fine`;

  test('PDQ-8: a signal does not change the outcome of a command that has ended', async () => {
    const queue = freshQueue();
    const home = temporaryDirectory();
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    const runner = startWork(use.server, [queue, '--poll', '200ms', '--kill-after', '1h', ...sh(leaves(home))]);
    await gone(await pidIn(path.join(home, 'main')));
    for (const pattern of [/info stopping/, /warn terminating/]) {
      runner.process.kill('SIGTERM');
      await runner.logged(pattern);
    }
    assert.deepEqual(await runner.exited, { code: 0, signal: null });
    const done = await job(use.api, id);
    assert.deepEqual([done.state, done.attempts, done.result], ['done', 1, 'fine']);
    await gone(await pidIn(path.join(home, 'left')));
  });

  test('PDQ-8: --timeout does not count the end of processes that a command has left behind', async () => {
    const queue = freshQueue();
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    const { code, stderr } = await runWork(use.server, [queue, '--once', '--timeout', '5s', '--kill-after', '7s', ...sh(leaves(temporaryDirectory()))]);
    assert.equal(code, 0, stderr);
    assert.equal((await job(use.api, id)).result, 'fine');
  });

  test('PDQ-8: a process that a command starts when it gets SIGTERM gets SIGTERM, too', async () => {
    const queue = freshQueue();
    const home = temporaryDirectory();
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    const script = `trap 'setsid sleep 3000 & echo $! >${home}/late; exit 1' TERM; while :; do sleep 0.1; done`;
    const { code } = await runWork(use.server, [queue, '--once', '--timeout', '500ms', '--kill-after', '1h', ...sh(script)]);
    assert.equal(code, 5);
    await gone(await pidIn(path.join(home, 'late')));
    assert.match((await job(use.api, id)).error, /longer than --timeout/);
  });

  // ---- problems of the worker ----

  test('PDQ-8: one job that ends with 127 does not keep the others from running', async () => {
    const queue = freshQueue();
    const bad = await enqueue(use.api, queue, { payload: 'bad', priority: 10 });
    const good = [];
    for (let i = 0; i < 3; i++) good.push((await enqueue(use.api, queue, { payload: i })).id);
    const runner = startWork(use.server, [queue, '--poll', '200ms', ...sh('grep -q bad && exit 127; exit 0')]);
    await runner.logged(/worker_problem/);
    for (const id of good) await stateOf(use.api, id, 'done');
    assert.equal((await job(use.api, bad.id)).attempts, 0);
    assert.equal(runner.exit, undefined);
    await runner.stop();
  });

  test('PDQ-8: the reason of a release is shown: in the log, with the job, and among the exceptions', async () => {
    const queue = freshQueue();
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    const { code, stderr } = await runWork(use.server, [queue, '--once', ...sh('echo no configuration >&2; exit 78')]);
    assert.equal(code, 1);
    assert.match(stderr, /worker_problem .* type="exit 78" reason="no configuration\\n"/);
    const { history, attempts } = await job(use.api, id);
    assert.equal(attempts, 0);
    assert.deepEqual([history.length, history[0].outcome, history[0].error], [1, 'released_with_error', 'no configuration\n']);
    const { exceptions } = (await use.api.get(`/v1/exceptions?queue=${queue}`)).json;
    assert.deepEqual([exceptions.length, exceptions[0].error, exceptions[0].type], [1, 'no configuration\n', 'exit 78']);
  });

  // ---- what a command writes ----

  test('PDQ-8: a NUL byte on standard error or in progress does not lose the text', async () => {
    const queue = freshQueue();
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    await runWork(use.server, [queue, '--once', ...sh(`printf '12 a\\0b\\n' >&3; printf 'a\\0b\\n\\377\\n' >&2; exit 1`)]);
    assert.equal((await job(use.api, id)).error, 'a\uFFFDb\n\uFFFD\n');
    const { lines } = (await use.api.get(`/v1/jobs/${id}/log`)).json;
    assert.deepEqual(lines.map((line) => line.text), ['a\uFFFDb', '\uFFFD']);
  });

  test('PDQ-8: a log that is not read does not cost a lease', async () => {
    const queue = freshQueue();
    const home = temporaryDirectory();
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    const script = `i=0; while [ $i -lt 100 ]; do head -c 4000 /dev/zero | tr '\\0' x; echo; i=$((i+1)); done >&2; touch ${home}/run; ${waitFor(`${home}/go`)}`;
    const child = spawn(binary, ['work', '--server', use.server.url, queue, '--poll', '200ms', '--lease', '5s', ...sh(script)], { stdio: ['ignore', 'ignore', 'pipe'] });
    const exited = new Promise((resolve) => child.on('exit', resolve));
    await until('the command has written', () => existsSync(path.join(home, 'run')));
    const end = async () => Date.parse((await job(use.api, id)).lease_until);
    const first = await end();
    await until('the lease is renewed', async () => (await end()) > first + 5000);
    writeFileSync(path.join(home, 'go'), '');
    assert.equal((await stateOf(use.api, id, 'done')).attempts, 1);
    child.kill('SIGTERM');
    child.stderr.resume();
    assert.equal(await exited, 0);
  });

  // ---- signals and several workers ----

  test('PDQ-8: SIGHUP is ignored under nohup', async () => {
    const queue = freshQueue();
    const runner = startWork(use.server, [queue, '--poll', '200ms', '--', 'cat'], { before: ['sh', '-c', 'trap "" HUP; exec "$0" "$@"'] });
    await runner.logged(/info started/);
    runner.process.kill('SIGHUP');
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    await stateOf(use.api, id, 'done');
    assert.doesNotMatch(runner.stderr, /stopping/);
    assert.deepEqual(await runner.stop(), { code: 0, signal: null });
  });

  test('PDQ-8: a second worker that fails does not terminate the jobs of the others', async () => {
    const home = temporaryDirectory();
    const queues = { a: freshQueue(), b: freshQueue(), c: freshQueue() };
    for (const queue of [queues.a, queues.b]) await enqueue(use.api, queue, { payload: 1 });
    const { id } = await enqueue(use.api, queues.c, { payload: 1 });
    const waits = (name, then) => JSON.stringify(['sh', '-c', `touch ${home}/${name}; ${waitFor(`${home}/${name}-go`)}; ${then}`]);
    const file = path.join(home, 'work.yaml');
    writeFileSync(
      file,
      `workers:
  - {queues: ${queues.a}, name: one, once: true, command: ${waits('one', 'exit 78')}}
  - {queues: ${queues.b}, name: two, once: true, command: ${waits('two', 'exit 78')}}
  - {queues: ${queues.c}, name: three, command: ${waits('three', 'echo finished')}}
`,
    );
    const runner = startWork(use.server, ['--config', file]);
    for (const name of ['one', 'two', 'three']) await until(`${name} runs`, () => existsSync(path.join(home, name)));
    writeFileSync(path.join(home, 'one-go'), '');
    await runner.logged(/error giving_up .*worker=one/);
    await runner.logged(/info stopping .*worker=three/);
    writeFileSync(path.join(home, 'two-go'), '');
    await runner.logged(/info stopped .*worker=two/);
    await use.api.get('/v1/workers');
    writeFileSync(path.join(home, 'three-go'), '');
    assert.deepEqual(await runner.exited, { code: 1, signal: null });
    assert.equal((await job(use.api, id)).result, 'finished');
    assert.doesNotMatch(runner.stderr, /terminating/);
  });

  // ---- the exit status ----

  test('PDQ-8: --until-empty waits for jobs that run elsewhere', async () => {
    const queue = freshQueue();
    const { id } = await enqueue(use.api, queue, { payload: 1 });
    const held = await claimOne(use.api, queue, { lease_ms: 600_000 });
    const runner = startWork(use.server, [queue, '--until-empty', '--', 'cat']);
    await until('the runner is shown', async () => (await use.api.get('/v1/workers')).json.workers.some((one) => one.pid === runner.process.pid));
    assert.equal((await use.api.post(`/v1/jobs/${id}/release`, { token: held.token })).status, 200);
    assert.deepEqual(await runner.exited, { code: 0, signal: null });
    assert.equal((await job(use.api, id)).state, 'done');
  });

  test('PDQ-8: --until-empty ends with 6 if jobs are left in a paused queue', async () => {
    const queue = freshQueue();
    await enqueue(use.api, queue, { payload: 1 });
    assert.equal((await use.api.post(`/v1/queues/${queue}/pause`, {})).status, 200);
    const { code, stderr } = await runWork(use.server, [freshQueue(), queue, '--until-empty', '--', 'cat']);
    assert.equal(code, 6, stderr);
    assert.match(stderr, new RegExp(`queue_paused queue=${queue} ready=1`));
  });

  test('PDQ-8: --until-empty and --once end with 6 if a signal stops them before', async () => {
    const queue = freshQueue();
    const home = temporaryDirectory();
    for (let i = 0; i < 2; i++) await enqueue(use.api, queue, { payload: i });
    const runner = startWork(use.server, [queue, '--until-empty', ...sh(`touch ${home}/run; ${waitFor(`${home}/go`)}`)]);
    await until('the command runs', () => existsSync(path.join(home, 'run')));
    runner.process.kill('SIGINT');
    await runner.logged(/info stopping/);
    writeFileSync(path.join(home, 'go'), '');
    assert.deepEqual(await runner.exited, { code: 6, signal: null });
    const idle = startWork(use.server, [freshQueue(), '--once', '--poll', '1s', '--', 'cat']);
    await idle.logged(/info started/);
    assert.deepEqual(await idle.stop(), { code: 6, signal: null });
  });

  // ---- limits ----

  test('PDQ-8: the soft limit of open files does not limit the runner, and commands keep it', async () => {
    const queue = freshQueue();
    const ids = [];
    for (let i = 0; i < 60; i++) ids.push((await enqueue(use.api, queue, { payload: i })).id);
    const home = temporaryDirectory();
    const before = ['sh', '-c', 'ulimit -Sn 128; exec "$0" "$@"'];
    const script = `touch ${home}/$(cat); while [ $(ls ${home} | wc -l) -lt 60 ]; do sleep 0.2; done; ulimit -n`;
    const { code, stderr } = await runWork(use.server, [queue, '-n', '60', '--until-empty', ...sh(script)], { before });
    assert.equal(code, 0, stderr.slice(-2000));
    for (const id of ids) assert.equal((await job(use.api, id)).result, 128);
  });

  test('PDQ-8: a concurrency that the hard limit of open files does not allow is refused', async () => {
    const before = ['sh', '-c', 'ulimit -n 128; exec "$0" "$@"'];
    const { code, stderr } = await runWork(use.server, ['q', '-n', '60', '--', 'true'], { before });
    assert.equal(code, 2);
    assert.match(stderr, /--concurrency is 60; the limit of open files \(ulimit -Hn\) is 128/);
  });
});
