// SPDX-License-Identifier: Apache-2.0
// `holdfast work` with a command (PDQ-8): what the command gets, and what its end means for the job.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';

import { enqueue, freshQueue, onStores } from '../lib/suite.mjs';
import { startServer, stopServer, temporaryDirectory } from '../lib/server.mjs';
import { job, runWork, startWork, stateOf } from '../lib/worker.mjs';

const sh = (script) => ['--', 'sh', '-c', script];

onStores('holdfast work', ['memory'], {}, (use) => {
  /** Enqueues one job, runs it once, and returns its view. */
  async function once(payload, args, options = {}) {
    const queue = freshQueue();
    const { id } = await enqueue(use.api, queue, { payload, ...options.job });
    const { code, stderr } = await runWork(use.server, [queue, '--once', ...args], options);
    return { code, stderr, queue, ...(await job(use.api, id)) };
  }

  test('PDQ-8: exit 0 acks the job, and standard output is its result', async () => {
    const payload = { to: 'ann', n: [1, 2.5, null], big: 12345678901234567890n.toString() };
    const done = await once(payload, ['--', 'cat']);
    assert.equal(done.code, 0, done.stderr);
    assert.equal(done.state, 'done');
    assert.deepEqual(done.result, payload);
    assert.match(done.stderr, new RegExp(`info job id=${done.id} queue=${done.queue} attempt=1 outcome=acked ms=\\d+`));
    assert.doesNotMatch(done.stderr, /ann/, 'payloads are not logged');
  });

  test('PDQ-8: a result that is not JSON is a text, and an empty one is left out', async () => {
    assert.equal((await once(1, sh('echo all fine'))).result, 'all fine');
    assert.equal((await once(1, sh('true'))).result, undefined);
  });

  test('PDQ-8: a result is truncated at 64 KiB, and marked', async () => {
    const { result } = await once(1, sh('head -c 200000 /dev/zero | tr "\\0" x'));
    assert.equal(result.truncated, true);
    assert.equal(result.bytes, 200000);
    assert.equal(result.text, 'x'.repeat(65536));
  });

  test('PDQ-8: 65 makes the job dead with a business error', async () => {
    const dead = await once(1, sh('echo no such customer >&2; exit 65'));
    assert.equal(dead.code, 5);
    assert.equal(dead.state, 'dead');
    assert.equal(dead.error_kind, 'business');
    assert.equal(dead.error, 'no such customer\n');
  });

  test('PDQ-8: 75 releases the job with a back-off, uncounted', async () => {
    const released = await once(1, sh('exit 75'));
    assert.equal(released.code, 5);
    assert.equal(released.state, 'scheduled');
    assert.equal(released.attempts, 0);
    assert.ok(Date.parse(released.run_at) > Date.parse(released.state_since));
  });

  test('PDQ-8: other codes and signals fail the job, with the end of standard error', async () => {
    const failed = await once(1, sh('head -c 20000 /dev/zero | tr "\\0" y >&2; echo last >&2; exit 3'));
    assert.equal(failed.code, 5);
    assert.equal(failed.failures, 1);
    assert.equal(failed.error.length, 8192);
    assert.ok(failed.error.endsWith('ylast\n'));
    assert.match(failed.stderr, /outcome=failed ms=\d+ type="exit 3"/);
    const killed = await once(1, sh('kill -9 $$'));
    assert.equal(killed.error, 'SIGKILL');
    assert.match(killed.stderr, /type=SIGKILL/);
  });

  test('PDQ-8: the exceptions of the server show what the worker reported', async () => {
    const failed = await once(1, sh('exit 4'));
    const { exceptions } = (await use.api.get(`/v1/exceptions?queue=${failed.queue}`)).json;
    assert.equal(exceptions[0].error, 'exit 4');
    assert.equal(exceptions[0].job_id, failed.id);
  });

  test('PDQ-8: --exit changes what a code means', async () => {
    assert.equal((await once(1, ['--exit', '3=ack', ...sh('exit 3')])).state, 'done');
    assert.equal((await once(1, ['--exit', '0=dead', ...sh('exit 0')])).state, 'dead');
    assert.equal((await once(1, ['--exit', '127=fail', ...sh('exit 127')])).failures, 1);
  });

  test('PDQ-8: a problem of the worker never counts against a job', async () => {
    for (const command of [['--', '/nonexistent/program'], sh('exit 78'), sh('exit 126'), sh('exit 127')]) {
      const given = await once(1, command);
      assert.equal(given.code, 1, given.stderr);
      assert.equal(given.state, 'scheduled');
      assert.equal(given.attempts, 0);
      assert.match(given.stderr, /worker_problem/);
    }
  });

  test('PDQ-8: five problems in a row, each with a pause after it, end the runner with an error', async () => {
    const queue = freshQueue();
    for (let i = 0; i < 8; i++) await enqueue(use.api, queue, { payload: i });
    const { code, stderr } = await runWork(use.server, [queue, '-n', '8', '--until-empty', '--', '/nonexistent/program']);
    assert.equal(code, 1, stderr);
    assert.equal(stderr.match(/ in_a_row=1\b/g).length, 8, 'jobs that run at the same time count once');
    assert.match(stderr, /No such file/);
    assert.match(stderr, /error giving_up/);
    const { jobs } = (await use.api.get(`/v1/jobs?queue=${queue}`)).json;
    assert.equal(jobs.length, 8);
    for (const one of jobs) assert.equal(one.attempts, 0);
  });

  test('PDQ-8, PDQ-11: the environment has the job and no access token of the runner', async () => {
    const env = { HOLDFAST_TOKEN: 'hf_secret', HOLDFAST_TOKEN_FILE: '/secret', HOLDFAST_DATA: '/data', OF_USER: 'kept', TRACEPARENT: '00-other' };
    const done = await once({ n: 1 }, ['--', 'env'], { env, job: { correlation_id: 'order $(id) 7', max_attempts: 4 } });
    const lines = done.result.split('\n');
    const value = (name) => lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1);
    assert.equal(value('HOLDFAST_ID'), done.id);
    assert.equal(value('HOLDFAST_QUEUE'), done.queue);
    assert.equal(value('HOLDFAST_ATTEMPT'), '1');
    assert.equal(value('HOLDFAST_MAX_ATTEMPTS'), '4');
    assert.equal(value('HOLDFAST_CORRELATION_ID'), 'order $(id) 7');
    assert.equal(value('HOLDFAST_PROGRESS_FD'), '3');
    assert.equal(value('OF_USER'), 'kept');
    for (const name of ['HOLDFAST_TOKEN', 'HOLDFAST_TOKEN_FILE', 'HOLDFAST_DATA', 'TRACEPARENT']) assert.equal(value(name), undefined, name);
    assert.doesNotMatch(done.result, /hf_secret/);
  });

  test('PDQ-8: no part of a payload becomes a command or an argument', async () => {
    const done = await once('$(touch /tmp/never); `id` --help', ['--', 'sh', '-c', 'echo "$# $0"', 'zero']);
    assert.equal(done.result, '0 zero');
  });

  test('PDQ-8: a payload larger than a pipe, and much output on both pipes', async () => {
    const payload = 'p'.repeat(200_000);
    const done = await once(payload, sh('wc -c; head -c 5000000 /dev/zero | tr "\\0" "\\n" >&2; head -c 5000000 /dev/zero'));
    assert.equal(done.code, 0, done.stderr.slice(-500));
    assert.equal(done.result.truncated, true);
    assert.equal(done.result.bytes, 5_000_000 + '200002\n'.length);
    assert.match(done.result.text, /^200002\n/);
  });

  test('PDQ-8: a command that closes its standard input early', async () => {
    assert.equal((await once('p'.repeat(200_000), sh('exec <&-; echo done'))).result, 'done');
    assert.equal((await once('p'.repeat(200_000), ['--', 'true'])).state, 'done');
  });

  test('PDQ-8: payloads that are not JSON arrive as they were sent', async () => {
    const queue = freshQueue();
    for (const [type, body] of [['text/plain', 'grün'], ['application/octet-stream', Buffer.from([0, 255, 10, 1])]]) {
      await use.api.request('POST', `/v1/queues/${queue}/jobs`, { body, headers: { 'content-type': type } });
      await runWork(use.server, [queue, '--once', '--', 'od', '-An', '-tx1']);
      const { jobs } = (await use.api.get(`/v1/jobs?queue=${queue}&order=newest`)).json;
      assert.equal(jobs[0].result.replaceAll(/\s/g, ''), Buffer.from(body).toString('hex'));
    }
  });

  test('PDQ-8: --once without a job ends with status 4', async () => {
    assert.equal((await runWork(use.server, [freshQueue(), '--once', '--poll', '10ms', '--', 'cat'])).code, 4);
  });

  test('PDQ-8: several queues, --until-empty', async () => {
    const queues = [freshQueue(), freshQueue()];
    const ids = [];
    for (const queue of queues) for (let i = 0; i < 3; i++) ids.push((await enqueue(use.api, queue, { payload: i })).id);
    const { code } = await runWork(use.server, [...queues, '-n', '2', '--until-empty', '--', 'cat']);
    assert.equal(code, 0);
    for (const id of ids) assert.equal((await job(use.api, id)).state, 'done');
  });

  test('PDQ-8: --rate limits how many jobs are started', async () => {
    const queue = freshQueue();
    for (let i = 0; i < 6; i++) await enqueue(use.api, queue, { payload: i });
    const begun = Date.now();
    await runWork(use.server, [queue, '-n', '6', '--rate', '2/500ms', '--until-empty', '--', 'cat']);
    assert.ok(Date.now() - begun >= 1000, `${Date.now() - begun} ms`);
    const { jobs } = (await use.api.get(`/v1/jobs?queue=${queue}`)).json;
    const starts = jobs.map((one) => Date.parse(one.started_at)).sort((a, b) => a - b);
    for (let i = 2; i < starts.length; i++) assert.ok(starts[i] - starts[i - 2] >= 400, starts.join(' '));
  });

  test('PDQ-8: -n runs jobs at the same time', async () => {
    const queue = freshQueue();
    const home = temporaryDirectory();
    for (let i = 0; i < 3; i++) await enqueue(use.api, queue, { payload: i });
    const script = `n=$(cat); touch ${home}/$n; while [ ! -e ${home}/0 ] || [ ! -e ${home}/1 ] || [ ! -e ${home}/2 ]; do sleep 0.02; done`;
    assert.equal((await runWork(use.server, [queue, '-n', '3', '--until-empty', ...sh(script)])).code, 0);
  });

  test('PDQ-8: --config runs several workers, and one signal stops them all', async () => {
    const queues = [freshQueue(), freshQueue()];
    const home = temporaryDirectory();
    const file = path.join(home, 'work.yaml');
    writeFileSync(file, `workers:\n  - queues: ${queues[0]}\n    command: [sh, -c, 'echo one']\n    concurrency: 2\n    poll: 200ms\n    name: first\n  - queues: [${queues[1]}]\n    poll: 200ms\n    exit: [3=dead, 4=ack]\n    command:\n      - sh\n      - -c\n      - exit 4\n`);
    const ids = [];
    for (const queue of queues) ids.push((await enqueue(use.api, queue, { payload: 1 })).id);
    const runner = startWork(use.server, ['--config', file]);
    assert.equal((await stateOf(use.api, ids[0], 'done')).result, 'one');
    await stateOf(use.api, ids[1], 'done');
    assert.deepEqual(await runner.stop(), { code: 0, signal: null });
    assert.equal(runner.stderr.match(/info stopped/g).length, 2);
    assert.match(runner.stderr, /started worker=first /);
  });

  test('PDQ-8: an invalid file is refused, and the line is named', async () => {
    const file = path.join(temporaryDirectory(), 'work.yaml');
    for (const [text, message] of [
      ['workers:\n  - queues: q\n    comand: [x]\n', /work\.yaml:3: 'comand' is not a setting of a worker; did you mean 'command'/],
      ['workers:\n  - queues: q\n    command: x\n', /work\.yaml:3: command must be a list/],
      ['workers:\n  - queues: q\n    command: [x]\n    lease: soon\n', /work\.yaml:2: --lease is 'soon'/],
      ['worker: []\n', /must have one member, workers/],
      ['workers: []\n', /at least one worker/],
      ['a: [\n', /not valid YAML/],
    ]) {
      writeFileSync(file, text);
      const { code, stderr } = await runWork(use.server, ['--config', file]);
      assert.equal(code, 2);
      assert.match(stderr, message);
    }
  });

  test('PDQ-8: an invalid command line is refused', async () => {
    for (const [args, message] of [
      [['--', 'cat'], /name the queues/],
      [['q'], /give a command after `--`, or an address with --url/],
      [['q', '--url', 'http://127.0.0.1:1', '--', 'cat'], /cannot be combined/],
      [['q', '--exit', '3=done', '--', 'cat'], /--exit is '3=done'; it must be CODE=ack\|fail\|dead\|release/],
      [['q', '-n', '0', '--', 'cat'], /--concurrency is 0; it must be from 1 to 1000/],
      [['q', '--lease', '10ms', '--', 'cat'], /--lease is 10ms; it must be from 1s to 1d/],
      [['q', '--rate', 'fast', '--', 'cat'], /--rate is 'fast'/],
      [['q', '--rate', '10/500', '--', 'cat'], /--rate is '10\/500'.* the duration needs its unit/],
    ]) {
      const { code, stderr } = await runWork(use.server, args);
      assert.equal(code, 2, stderr);
      assert.match(stderr, message);
    }
  });

  test('PDQ-8: a claim that the server refuses ends the runner with status 1', async () => {
    const { code, stderr } = await runWork(use.server, ['q'.repeat(300), '--', 'cat']);
    assert.equal(code, 1, stderr);
    assert.match(stderr, /claim_refused status=4/);
  });

  test('PDQ-8: --json writes the log as JSON lines', async () => {
    const { stderr, id } = await once(1, ['--json', '--', 'cat']);
    const lines = stderr.trim().split('\n').map((line) => JSON.parse(line));
    assert.equal(lines.find(({ event }) => event === 'job').id, id);
  });
});

test('PDQ-8: without a server, --once ends with status 3, and a runner that stays waits for it', async () => {
  const server = await startServer({ backend: 'memory' });
  await stopServer(server);
  const { code, stderr } = await runWork(server, ['q', '--once', '--', 'cat']);
  assert.equal(code, 3, stderr);
  const runner = startWork(server, ['q', '--', 'cat']);
  await runner.logged(/claim_failed/);
  const later = await startServer({ backend: 'memory', listen: `127.0.0.1:${server.port}` });
  const { Client } = await import('../lib/client.mjs');
  const api = new Client(later);
  const { id } = await enqueue(api, 'q', { payload: 1 });
  await stateOf(api, id, 'done');
  assert.deepEqual(await runner.stop(), { code: 0, signal: null });
  api.close();
  await stopServer(later);
});
