// SPDX-License-Identifier: Apache-2.0
// The JavaScript worker in one process, and BullMQ in the same run: node bench/client_js.mjs [--jobs N] [--rounds N] [--without-bullmq].
// Each round enqueues N jobs in batches and then processes all of them with one worker whose handler returns at once; servers and
// client are processes on this machine. Holdfast syncs each reply to disk; Redis runs once with appendfsync always, which promises the same, and once with
// everysec. Prints the median of the rounds in jobs per second, with the range and the load of the machine. Needs `npm ci` in clients/js (built) and bench/peers.
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import { loadavg } from 'node:os';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';

const root = fileURLToPath(new URL('..', import.meta.url));
const { values } = parseArgs({ options: { jobs: { type: 'string', default: '30000' }, rounds: { type: 'string', default: '3' }, 'without-bullmq': { type: 'boolean', default: false } } });
const jobs = Number(values.jobs);
const rounds = Number(values.rounds);
const binary = process.env.HF_BIN ?? path.join(root, 'build/release/holdfast');
mkdirSync(path.join(root, 'build'), { recursive: true });
const home = mkdtempSync(path.join(root, 'build/client-bench-'));
const children = new Set();
process.on('exit', () => {
  for (const child of children) child.kill('SIGKILL');
  rmSync(home, { recursive: true, force: true });
});

function start(file, args, ready) {
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, HOLDFAST_LOG_LEVEL: 'error' } });
  children.add(child);
  let text = '';
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('exit', () => reject(new Error(`${file} ended\n${text}`)));
    child.stdout.on('data', (chunk) => {
      const found = ready.exec((text += chunk));
      if (found) resolve(found[1]);
    });
  });
}

const freePort = () =>
  new Promise((resolve) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });

const BATCH = 1000;
const payloads = (from) => Array.from({ length: Math.min(BATCH, jobs - from) }, (_, i) => ({ n: from + i, text: 'x'.repeat(100) }));
const seconds = async (act) => {
  const begin = process.hrtime.bigint();
  await act();
  return Number(process.hrtime.bigint() - begin) / 1e9;
};

/** Enqueues everything, then processes it: {enqueue, work} in jobs per second. */
async function round(put, work) {
  const enqueue = await seconds(async () => {
    for (let from = 0; from < jobs; from += BATCH) await put(payloads(from));
  });
  const took = await seconds(() => new Promise((resolve, reject) => work(resolve).catch(reject)));
  return { enqueue: jobs / enqueue, work: jobs / took };
}

async function holdfast() {
  const { Holdfast } = await import(pathToFileURL(path.join(root, 'clients/js/dist/esm/index.js')));
  const url = await start(binary, ['serve', '--listen', '127.0.0.1:0', '--data', path.join(home, 'holdfast')], /^listening on (\S+)/m);
  const measure = async (queue, options) => {
    const client = new Holdfast(url);
    let worker;
    const work = async (resolve) => {
      let done = 0;
      worker = client.worker(queue, (job) => job.payload.n, { ...options, hooks: { done: () => ++done === jobs && resolve(), error: (error) => console.error(error.message) } });
    };
    const figures = await round((batch) => client.enqueueMany(queue, batch.map((payload) => ({ payload }))), work);
    await worker.stop();
    await client.close();
    return figures;
  };
  return { 'holdfast, concurrency 200': (n) => measure(`a${n}`, { concurrency: 200, prefetch: 0 }), 'holdfast, concurrency 200, prefetch 800': (n) => measure(`b${n}`, { concurrency: 200, prefetch: 800 }) };
}

async function bullmq() {
  const modules = path.join(root, 'bench/peers/node_modules');
  if (!existsSync(modules)) throw new Error('BullMQ is not installed: scripts/setup peers, or --without-bullmq');
  const { Queue, Worker } = createRequire(path.join(modules, 'x.js'))('bullmq');
  const subjects = {};
  for (const sync of ['always', 'everysec']) {
    const port = await freePort();
    const dir = path.join(home, `redis-${sync}`);
    mkdirSync(dir);
    await start('redis-server', ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, '--save', '', '--appendonly', 'yes', '--appendfsync', sync], /(Ready to accept connections)/);
    const connection = { host: '127.0.0.1', port, maxRetriesPerRequest: null };
    for (const concurrency of [200])
      subjects[`BullMQ, concurrency ${concurrency}, appendfsync ${sync}`] = async (n) => {
        const queue = new Queue(`q${n}`, { connection, defaultJobOptions: { removeOnComplete: true } });
        await queue.waitUntilReady();
        let worker;
        const work = async (resolve) => {
          let done = 0;
          worker = new Worker(`q${n}`, async (job) => job.data.n, { connection, concurrency });
          worker.on('completed', () => ++done === jobs && resolve());
        };
        const figures = await round((batch) => queue.addBulk(batch.map((data) => ({ name: 'job', data }))), work);
        await worker.close();
        await queue.close();
        return figures;
      };
  }
  return subjects;
}

const subjects = { ...(await holdfast()), ...(values['without-bullmq'] ? {} : await bullmq()) };
const results = new Map(Object.keys(subjects).map((name) => [name, []]));
for (let n = 0; n < rounds; n++) for (const [name, measure] of Object.entries(subjects)) results.get(name).push(await measure(n));

const text = (list) => {
  list.sort((a, b) => a - b);
  const show = (figure) => Math.round(figure).toLocaleString('en').padStart(8);
  return `${show(list[Math.floor(list.length / 2)])} (${show(list[0]).trim()} to ${show(list[list.length - 1]).trim()})`;
};
console.log(`${jobs} jobs, ${rounds} rounds, jobs per second; load average ${loadavg().map((load) => load.toFixed(1)).join(' ')}`);
for (const [name, list] of results) console.log(`${name.padEnd(46)} enqueue ${text(list.map(({ enqueue }) => enqueue)).padEnd(30)} work ${text(list.map(({ work }) => work))}`);
process.exit(0);
