// SPDX-License-Identifier: Apache-2.0
// The processes of `holdfast work` (PDQ-8): all processes that a command starts end with its job, and with the runner.
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { enqueue, freshQueue, onStores } from '../lib/suite.mjs';
import { temporaryDirectory, until } from '../lib/server.mjs';
import { alive, gone, job, pidIn, renewedFor, runWork, startWork, stateOf } from '../lib/worker.mjs';

/** Pieces of shell scripts; $d is a directory of the test. */
const stubborn = `(trap '' TERM; sh -c 'echo $PPID' >$d/stubborn; while :; do sleep 0.1; done) &`;
const daemon = (name) => `setsid -f sh -c 'echo $$ >$0; exec sleep 1000' $d/${name};`;
const forever = 'while :; do sleep 0.1; done';

onStores('the process tree', ['memory'], {}, (use) => {
  /** A runner with one job whose command is this script. */
  async function start(script, args = [], payload = 1) {
    const home = temporaryDirectory();
    const queue = freshQueue();
    const { id } = await enqueue(use.api, queue, { payload });
    const runner = startWork(use.server, [queue, '--poll', '200ms', '--kill-after', '300ms', ...args, '--', 'sh', '-c', `d=${home}; ${script}`]);
    return { id, queue, runner, file: (name) => path.join(home, name) };
  }

  test('PDQ-8: after --timeout the whole tree ends, also processes that ignore SIGTERM, and the job fails', async () => {
    const { id, runner, file } = await start(`${stubborn} ${daemon('daemon')} echo $$ >$d/main; ${forever}`, ['--timeout', '1s']);
    const pids = [await pidIn(file('stubborn')), await pidIn(file('daemon')), await pidIn(file('main'))];
    // On a busy machine the first attempt can end before the files are written: these processes are of a later attempt.
    const { failures } = await job(use.api, id);
    const failed = await until('the attempt has failed', async () => {
      const one = await job(use.api, id);
      return one.failures > failures && one;
    });
    assert.match(failed.error, /longer than --timeout 1s/);
    for (const pid of pids) assert.ok(!alive(pid), 'the tree had ended when the failure was reported');
    await runner.stop();
  });

  test('PDQ-8: processes that a command leaves are ended before its job is reported', async () => {
    const { id, runner, file } = await start(`${daemon('daemon')} while [ ! -s $d/daemon ]; do sleep 0.02; done; echo fine`);
    assert.equal((await stateOf(use.api, id, 'done')).result, 'fine');
    assert.ok(!alive(await pidIn(file('daemon'))));
    await runner.stop();
  });

  test('PDQ-8: SIGTERM comes before SIGKILL, so that a command can clean up', async () => {
    const { id, runner, file } = await start(`trap 'echo cleaned >$d/cleaned; exit 0' TERM; echo $$ >$d/main; ${forever}`, ['--timeout', '1s', '--kill-after', '1m']);
    // On a busy machine SIGTERM can arrive before the shell has set its trap; then a later attempt cleans up.
    await until('a command has cleaned up', () => existsSync(file('cleaned')) && readFileSync(file('cleaned'), 'utf8') === 'cleaned\n');
    await until('the job has failed', async () => (await job(use.api, id)).failures > 0);
    await runner.stop();
  });

  test('PDQ-8: when the lease is lost, the tree ends and nothing is reported', async () => {
    const { id, runner, file } = await start(`${daemon('daemon')} echo $$ >$d/main; ${forever}`, ['--lease', '1s']);
    const pids = [await pidIn(file('main')), await pidIn(file('daemon'))];
    const { status } = await use.api.post(`/v1/jobs/${id}/cancel`, { force: true });
    if (status === 422) await use.api.post(`/v1/jobs/${id}/cancel`); // a server without a grace time
    for (const pid of pids) await gone(pid);
    await runner.logged(/outcome=lost/);
    assert.equal((await job(use.api, id)).state, 'cancelled');
    await runner.stop();
  });

  test('PDQ-8: leases are renewed while a command runs', async () => {
    const { id, runner, file } = await start('while [ ! -e $d/go ]; do sleep 0.05; done', ['--lease', '3s']);
    await renewedFor(use.api, id, 4000); // longer than the lease
    writeFileSync(file('go'), '');
    const done = await stateOf(use.api, id, 'done');
    assert.deepEqual([done.attempts, done.crashes], [1, 0]);
    await runner.stop();
  });

  test('PDQ-8: orphans of two commands at once are not confused', async () => {
    const home = temporaryDirectory();
    const queue = freshQueue();
    const ids = [];
    for (const name of ['a', 'b']) ids.push((await enqueue(use.api, queue, { payload: name })).id);
    const script = `n=$(tr -d '"'); setsid -f sh -c 'echo $$ >$0; exec sleep 1000' ${home}/$n.daemon; while [ ! -e ${home}/$n.go ]; do sleep 0.05; done`;
    const runner = startWork(use.server, [queue, '-n', '2', '--poll', '200ms', '--', 'sh', '-c', script]);
    const [a, b] = [await pidIn(path.join(home, 'a.daemon')), await pidIn(path.join(home, 'b.daemon'))];
    writeFileSync(path.join(home, 'a.go'), '');
    await stateOf(use.api, ids[0], 'done');
    assert.ok(!alive(a));
    assert.ok(alive(b));
    assert.equal((await job(use.api, ids[1])).state, 'running');
    writeFileSync(path.join(home, 'b.go'), '');
    await stateOf(use.api, ids[1], 'done');
    assert.ok(!alive(b));
    await runner.stop();
  });

  test('PDQ-8: kill -9 of the runner ends the trees, and the lease is recovered', async () => {
    const { id, queue, runner, file } = await start(`${stubborn} ${daemon('daemon')} echo $$ >$d/main; ${forever}`, ['--lease', '1s']);
    const pids = [await pidIn(file('stubborn')), await pidIn(file('daemon')), await pidIn(file('main'))];
    const supervisor = Number(readFileSync(`/proc/${pids[2]}/stat`, 'utf8').split(') ')[1].split(' ')[1]);
    const { crashes } = await job(use.api, id);
    runner.process.kill('SIGKILL');
    await runner.exited;
    for (const pid of [...pids, supervisor]) await gone(pid);
    await until('the lease has expired', async () => (await job(use.api, id)).crashes > crashes);
    await runWork(use.server, [queue, '--once', '--poll', '10s', '--', 'echo', 'second']);
    assert.equal((await job(use.api, id)).result, 'second');
  });

  test('PDQ-8: a command that stops its supervisor does not escape --timeout', async () => {
    const { id, runner, file } = await start(`${daemon('daemon')} kill -STOP $PPID; echo $$ >$d/main; ${forever}`, ['--timeout', '1s']);
    const pids = [await pidIn(file('daemon')), await pidIn(file('main'))];
    await until('the attempt has failed', async () => (await job(use.api, id)).failures > 0);
    for (const pid of pids) await gone(pid);
    await runner.stop();
  });

  test('PDQ-8: kill -9 of the runner also ends the tree of a supervisor that is stopped', async () => {
    const { runner, file } = await start(`${daemon('daemon')} echo $$ >$d/main; ${forever}`);
    const pids = [await pidIn(file('daemon')), await pidIn(file('main'))];
    const supervisor = Number(readFileSync(`/proc/${pids[1]}/stat`, 'utf8').split(') ')[1].split(' ')[1]);
    process.kill(supervisor, 'SIGSTOP');
    await until('it is stopped', () => / T /.test(readFileSync(`/proc/${supervisor}/stat`, 'utf8')));
    runner.process.kill('SIGKILL');
    await runner.exited;
    for (const pid of [...pids, supervisor]) await gone(pid);
  });

  test('PDQ-8: a supervisor survives a SIGTERM to all processes of its control group', async () => {
    const { id, runner, file } = await start('trap "" TERM; echo $$ >$d/main; while [ ! -e $d/go ]; do sleep 0.05; done; echo finished');
    const main = await pidIn(file('main'));
    const supervisor = Number(readFileSync(`/proc/${main}/stat`, 'utf8').split(') ')[1].split(' ')[1]);
    for (const pid of [supervisor, main, runner.process.pid]) process.kill(pid, 'SIGTERM');
    await runner.logged(/info stopping mode=finish/);
    writeFileSync(file('go'), '');
    assert.deepEqual(await runner.exited, { code: 0, signal: null });
    assert.equal((await job(use.api, id)).result, 'finished');
    assert.ok(existsSync(file('go')));
  });
});
