// SPDX-License-Identifier: Apache-2.0
// The parts of `make bench-peers`: the load generator with Holdfast, beanstalkd and a server that does nothing; its
// protocols with a server that sends invalid replies; and the report.
import assert from 'node:assert/strict';
import { execFile, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { goalsOf, median } from '../../../bench/peers/goals.mjs';
import { choosePeers, peers } from '../../../bench/peers/peers.mjs';
import { replaceBetween, reportText, writeReport } from '../../../bench/peers/report.mjs';
import { barChart } from '../../../bench/peers/svg.mjs';
import { cells, chooseWorks, has } from '../../../bench/peers/works.mjs';
import { Beanstalk, startBeanstalkd, startBeanstalk } from '../lib/beanstalk.mjs';
import { binary, stopServer, temporaryDirectory, until } from '../lib/server.mjs';

const programs = path.join(path.dirname(binary), 'bench/peers');

/** {status, figures, stderr} of a run of the load generator. */
function peerload(...args) {
  return new Promise((resolve) => {
    execFile(path.join(programs, 'peerload'), args.map(String), { timeout: 600_000 }, (problem, stdout, stderr) => {
      resolve({ status: problem ? problem.code : 0, figures: problem ? null : JSON.parse(stdout), stderr });
    });
  });
}

/** `count` jobs are put, and all except `backlog` are taken out again, also on a slow machine. */
async function cycle(count, backlog, ...args) {
  const { status, figures, stderr } = await peerload(...args, '--count', count, '--backlog', backlog);
  assert.equal(status, 0, stderr);
  assert.ok(figures.jobs >= count - backlog && figures.jobs_per_s > 0 && figures.client_cpu > 0, JSON.stringify(figures));
  assert.ok(figures.wake_p50_us > 0 && figures.wake_p99_us >= figures.wake_p50_us && figures.confirm_p50_us > 0, JSON.stringify(figures));
  return figures;
}

describe('the load generator', () => {
  let server, theirs, nothing;
  before(async () => {
    server = await startBeanstalk();
    theirs = await startBeanstalkd();
    nothing = spawn(path.join(programs, 'peernull'), ['0'], { stdio: ['ignore', 'pipe', 'inherit'] });
    nothing.port = await new Promise((resolve) => nothing.stdout.once('data', (text) => resolve(Number(/^listening on (\d+)$/m.exec(text)[1]))));
  });
  after(async () => {
    nothing.kill();
    await theirs.stop();
    await stopServer(server);
  });
  const counts = async (queue) => (await (await fetch(`${server.url}/v1/queues/${queue}/stats`)).json()).counts;
  const speakers = [
    ['beanstalk', 'beanstalk', () => server.beanstalk],
    ['http', 'http', () => server.port],
  ];

  for (const [name, protocol, port] of speakers) {
    test(`${name}: exactly the requested number of jobs, with priorities and delays`, async () => {
      const queue = `${name}-count`;
      const fill = (...args) => peerload('--protocol', protocol, '--port', port(), '--queue', queue, '--producers', 3, '--depth', 50, '--pids', server.pid, ...args);
      const ready = await fill('--count', 500, '--priorities', 1000);
      assert.equal(ready.status, 0, ready.stderr);
      assert.equal(ready.figures.jobs, 500);
      assert.ok(ready.figures.server_rss > 1_000_000 && ready.figures.server_cpu_us_per_job > 0);
      const delayed = await fill('--count', 301, '--delay', 3600);
      assert.equal(delayed.figures?.jobs, 301, delayed.stderr);
      const { ready: there, scheduled } = await counts(queue);
      assert.deepEqual({ there, scheduled }, { there: 500, scheduled: 301 });
    });
    for (const depth of [1, 50])
      test(`${name}: put, reserve, delete, ${depth} at a time`, async () => {
        const queue = `${name}-cycle-${depth}`;
        const { jobs } = await cycle(400, 100, '--protocol', protocol, '--port', port(), '--queue', queue, '--producers', 2, '--consumers', 2, '--depth', depth);
        const left = await counts(queue); // the API removes an empty queue that it created
        assert.ok((left?.ready ?? 0) + (left?.running ?? 0) <= 400 - jobs, JSON.stringify(left));
      });
  }

  test('a wake-up, one job each 5 ms', async () => {
    const { jobs, seconds } = await cycle(10, 1, '--protocol', 'http', '--port', server.port, '--queue', 'wake', '--producers', 1, '--consumers', 1, '--interval-us', 5000);
    assert.ok(jobs <= 10 && seconds >= 9 * 0.005 - 0.001, `${seconds} s`);
  });

  test('/healthz', async () => {
    const { status, figures, stderr } = await peerload('--protocol', 'healthz', '--port', server.port, '--producers', 4, '--count', 100);
    assert.equal(status, 0, stderr);
    assert.equal(figures.jobs, 100);
  });

  test('beanstalkd and the null server, with the same options', async () => {
    for (const port of [theirs.port, nothing.port])
      for (const depth of [1, 20])
        await cycle(400, 100, '--protocol', 'beanstalk', '--port', port, '--queue', `q${depth}`, '--producers', 2, '--consumers', 2, '--depth', depth);
    const filled = await peerload('--protocol', 'beanstalk', '--port', theirs.port, '--queue', 'filled', '--count', 70, '--depth', 7);
    assert.equal(filled.figures?.jobs, 70, filled.stderr);
    const connection = await Beanstalk.connect(theirs.port);
    assert.equal(Number((await connection.stats('stats-tube filled'))['current-jobs-ready']), 70);
    connection.close();
  });

  test('an invalid reply ends the run with a message', async () => {
    const liar = net.createServer((socket) => socket.on('error', () => {}).on('data', () => socket.write('-ERR no such thing at all\r\n\r\n'))).listen(0, '127.0.0.1');
    await new Promise((resolve) => liar.once('listening', resolve));
    for (const protocol of ['beanstalk', 'redis-list', 'redis-stream', 'nats', 'http']) {
      const { status, stderr } = await peerload('--protocol', protocol, '--port', liar.address().port);
      assert.equal(status, 1, protocol);
      assert.match(stderr, /^peerload: the answer to .* was: .*no such thing at all/, protocol);
    }
    liar.close();
  });

  test('wrong options are named, with what would be right', async () => {
    assert.match((await peerload('--protocol', 'carrier-pigeon')).stderr, /takes beanstalk redis-list .* not 'carrier-pigeon'/);
    assert.match((await peerload('--depth', '0')).stderr, /--depth takes a number from 1 to 1000, not '0'/);
    assert.match((await peerload('--protocol', 'http')).stderr, /needs --protocol, --port/);
    assert.match((await peerload('--usage', '--pids', '1,x')).stderr, /--pids takes numbers separated by commas, not '1,x'/);
  });

  test('the raw sync of a file', async () => {
    const { figures } = await peerload('--fdatasync', temporaryDirectory(), '--seconds', 0.1);
    assert.ok(figures.fdatasync_p50_us > 0 && figures.fdatasync_per_s > 0);
  });
});

/** A run in which Holdfast is twice as fast as Redis, and memory is missed. */
function figuresOf() {
  const rounds = (...rates) => rates.map((jobs_per_s) => ({ jobs_per_s, server_cpu_us_per_job: 4, client_cpu: 0.5, wake_p50_us: 400, wake_p99_us: 900 }));
  const cell = { null: rounds(60_000, 50_000, 70_000), holdfast: rounds(40_000, 20_000, 60_000), 'redis-list': rounds(20_000, 10_000, 90_000) };
  const one = (p50) => [{ wake_p50_us: p50, wake_p99_us: 2 * p50, jobs_per_s: 50, server_cpu_us_per_job: 1, client_cpu: 0.1 }];
  return {
    about: { date: '2026-01-02', machine: { cpus: 2, model: 'Some <CPU>', memory_bytes: 2 ** 34, system: 'Debian 12', kernel: '6.1' }, rounds: 3, seconds: 3, jobs: 1_000_000, payload_bytes: 200, versions: { holdfast: 'holdfast 9', 'redis-list': 'Redis 7' } },
    cells: { w1: cell, w2: { ...cell, bullmq: [{ jobs_per_s: 90_000, server_cpu_us_per_job: 30, client_cpu: 0.97 }] }, w6: { null: one(80), holdfast: one(300), 'redis-list': one(600) } },
    standing: { holdfast: { what: 'priorities and delays', empty: rounds(10, 10, 10), full: rounds(9, 9.6, 12) }, 'redis-list': { what: 'ready jobs', empty: rounds(100), full: rounds(91) } },
    pending: { holdfast: { what: 'memory', bytes: 301 }, 'redis-list': { what: 'memory', bytes: 228 }, postgres: { what: 'disk', bytes: 1, disk_bytes: 331 } },
    fdatasync: [{ fdatasync_p50_us: 150 }],
    left_out: { nats: 'is not installed' },
  };
}

test('an interrupted run leaves no process', async () => {
  const folder = temporaryDirectory();
  const load = path.join(folder, 'peerload'); // one that would never end
  writeFileSync(load, '#!/bin/sh\necho $$ > "$0.pid"\nexec sleep 600\n', { mode: 0o755 });
  const run = new URL('../../../bench/peers/run.mjs', import.meta.url).pathname;
  const child = spawn(process.execPath, [run, '--peers', 'null', '--works', 'W1', '--dir', folder, '--docs', 'no'], { env: { ...process.env, PEERLOAD: load, HOLDFAST: binary }, stdio: 'ignore' });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  const text = (file) => (existsSync(file) ? readFileSync(file, 'utf8') : '');
  await until('it measures', () => /\n/.test(text(`${load}.pid`)));
  const pid = Number(text(`${load}.pid`));
  child.kill('SIGTERM');
  assert.equal(await ended, 143);
  try {
    await until('what it started has ended', () => !existsSync(`/proc/${pid}`) || /^State:\s+Z/m.test(text(`/proc/${pid}/status`)));
  } catch (problem) {
    process.kill(pid, 'SIGKILL');
    throw problem;
  }
  assert.deepEqual(readdirSync(folder).sort(), ['peerload', 'peerload.pid']);
});

describe('the report', () => {
  test('medians, and ratios of each round', () => {
    assert.equal(median([3, 1, 2]), 2);
    assert.equal(median([4, 1]), 2.5);
    assert.equal(median([]), null);
    const goals = goalsOf(figuresOf());
    const goal = (work, what) => goals.find((one) => one.work === work && one.what.includes(what));
    assert.deepEqual([goal('W1 N=64', 'Redis').value, goal('W1 N=64', 'Redis').reached], [2, true]);
    assert.deepEqual([goal('W2', 'Redis').value, goal('W2', 'Redis').reached], [2, false]);
    assert.deepEqual([goal('W4', 'beanstalk').value, goal('W4', 'beanstalk').reached], [0.96, true]);
    assert.deepEqual([goal('W5', 'bytes').value, goal('W5', 'bytes').reached], [301, false]);
    assert.deepEqual([goal('W6', 'Redis').value, goal('W6', 'Redis').reached], [0.5, true]);
    assert.deepEqual([goal('W6', 'fdatasync').value.toFixed(3), goal('W6', 'fdatasync').reached], ['0.968', true]);
    assert.equal(goal('W3', 'Redis'), undefined); // not measured, not reported
  });

  test('the table shows what was measured, what limited it, and where other servers are faster', () => {
    const text = reportText(figuresOf());
    assert.match(text, /^\| Holdfast, beanstalk port \| 40\.0k \[4\.00\] \| 40\.0k \[4\.00\] \| 0\.96 \| 301 \| 300 \/ 600 \|$/m);
    assert.match(text, /^\| BullMQ \| – \| 90\.0k \[30\.0\] c \|/m);
    assert.match(text, /^\| Redis list .*\| 0\.91 r \| 228 \| 600 \/ 1,200 \|$/m);
    assert.match(text, /^\| PostgreSQL SKIP LOCKED .*\| 331 disk \|/m);
    assert.match(text, /^\| W2 \| Holdfast \/ Redis list always \| 2\.00 \| ≥ 2\.5 \| \*\*missed\*\* \|$/m);
    assert.match(text, /^- W2: BullMQ \(90\.0k\) before Holdfast \(40\.0k\)$/m);
    assert.match(text, /^- W5: Redis list \(228\) below Holdfast \(301\)$/m);
    assert.doesNotMatch(text, /^- W6/m);
    assert.match(text, /Not measured: NATS JetStream is not installed\./);
    assert.match(text, /Medians of 3 rounds of 3 s.*p50 150 us/);
  });

  test('only the text between the markers changes, and charts are written next to the page', () => {
    const page = 'before\n<!-- peers: begin -->\nold\n<!-- peers: end -->\nafter\n';
    assert.equal(replaceBetween(page, 'new\n'), 'before\n<!-- peers: begin -->\nnew\n<!-- peers: end -->\nafter\n');
    assert.throws(() => replaceBetween('no markers', 'x'), /has no/);
    const root = temporaryDirectory();
    const folder = path.join(root, 'out');
    for (const made of [folder, path.join(root, 'docs')]) mkdirSync(made);
    writeFileSync(path.join(root, 'docs/benchmarks.md'), page);
    const text = writeReport(figuresOf(), { folder, root, docs: true });
    const written = readFileSync(path.join(root, 'docs/benchmarks.md'), 'utf8');
    assert.equal(written, replaceBetween(page, text));
    for (const [, file] of written.matchAll(/\]\((benchmarks\/[^)]*\.svg)\)/g)) assert.match(readFileSync(path.join(root, 'docs', file), 'utf8'), /^<svg /);
    assert.match(readFileSync(new URL('../../../docs/benchmarks.md', import.meta.url), 'utf8'), /<!-- peers: begin -->[^]*<!-- peers: end -->/);
  });

  test('charts are whole XML, to scale, for light and dark', () => {
    const rows = [{ label: 'a <b> & "c"', kind: 'ours', values: [50, 100] }, { label: 'none', kind: 'theirs', values: [null, null] }, { label: 'top', kind: 'ceiling', values: [1000] }];
    const svg = barChart({ title: 'T & t', note: 'n', series: ['durable', 'relaxed'], rows, format: String });
    assert.match(svg, /a &lt;b&gt; &amp; &quot;c&quot;/);
    assert.doesNotMatch(svg, /none/);
    assert.match(svg, /prefers-color-scheme:dark/);
    const [half, whole] = [...svg.matchAll(/class="ours[^"]*" x="\d+" y="[\d.]+" width="([\d.]+)"/g)].map(([, width]) => Number(width));
    assert.equal(whole, 2 * half);
    assert.equal(Number(svg.match(/class="ceiling" [^>]*width="([\d.]+)"/)[1]), whole); // does not set the scale
    assert.match(svg, />1000 →</);
    const open = [...svg.matchAll(/<([a-z]+)\b(?:[^>]*[^/])?>/g)].map(([, name]) => name).sort();
    const closed = [...svg.matchAll(/<\/([a-z]+)>/g)].map(([, name]) => name).sort();
    assert.deepEqual(open, closed);
  });

  test('peers and works by name', () => {
    assert.deepEqual(choosePeers(['redis']).map((peer) => peer.name), ['redis-list', 'redis-stream']);
    assert.equal(choosePeers([]).length, peers.length);
    assert.throws(() => choosePeers(['reddis']), /no peer 'reddis'; there are null holdfast/);
    assert.deepEqual(chooseWorks(['W6', 'W1']), ['W1', 'W6']);
    assert.throws(() => chooseWorks(['W7']), /no work 'W7'; there are W1/);
    for (const peer of peers) assert.ok(cells.some((cell) => has(peer, cell)), peer.name);
  });
});
