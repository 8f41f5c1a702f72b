// SPDX-License-Identifier: Apache-2.0
// node bench/scrape.mjs [QUEUES=100000] [SCRAPERS=4] [SECONDS=5] [PATH=/metrics]: the latency of an enqueue on a
// server with many queues, alone and while scrapers ask for a page as fast as they can. HF_BIN is the program
// (default: the release build). Both parts run on one machine, one after the other: compare them, not the figures.
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads';

process.env.HF_BIN ??= path.join(path.dirname(fileURLToPath(import.meta.url)), '../build/release/holdfast');
const { startServer, stopServer, residentMiB, processorSeconds } = await import('../tests/e2e/lib/server.mjs');

const given = Object.fromEntries(process.argv.slice(2).map((word) => word.split(/=(.*)/s)));
const queues = Number(given.QUEUES ?? 100_000);
const scrapers = Number(given.SCRAPERS ?? 4);
const seconds = Number(given.SECONDS ?? 5);
const page = given.PATH ?? '/metrics';

function ask(server, agent, method, target, body) {
  return new Promise((resolve, reject) => {
    const headers = body ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } : {};
    const request = http.request({ host: server.host, port: server.port, agent, method, path: target, headers }, (response) => {
      let bytes = 0;
      response.on('data', (chunk) => (bytes += chunk.length));
      response.on('end', () => resolve({ status: response.statusCode, bytes }));
      response.on('error', reject);
    });
    request.on('error', reject);
    request.end(body);
  });
}

const agent = () => new http.Agent({ keepAlive: true, maxSockets: 1 });
const nameOf = (i) => `queue-${String(i).padStart(6, '0')}`;

/** Many queues, each with a job and its own figures, created by explicit definitions. */
async function fill(server) {
  const agents = Array.from({ length: 16 }, agent);
  let next = 0;
  await Promise.all(agents.map(async (connection) => {
    for (let i; (i = next++) < queues;) {
      const { status } = await ask(server, connection, 'PUT', `/v1/queues/${nameOf(i)}`, '{}');
      if (status !== 200 && status !== 201) throw new Error(`PUT gave ${status}`);
      if (i < 1000) await ask(server, connection, 'POST', `/v1/queues/${nameOf(i)}/jobs`, '{"payload":1}');
    }
  }));
  for (const connection of agents) connection.destroy();
}

/** One enqueue after the other for a while; their times in ms, sorted. */
async function enqueues(server) {
  const connection = agent(), times = [], end = performance.now() + seconds * 1000;
  while (performance.now() < end) {
    const start = performance.now();
    await ask(server, connection, 'POST', `/v1/queues/${nameOf(times.length % queues)}/jobs`, '{"payload":1}');
    times.push(performance.now() - start);
  }
  connection.destroy();
  return times.sort((a, b) => a - b);
}

/** In its own thread, so that reading pages does not delay the enqueues that are measured. */
async function scrape(server) {
  const result = { pages: 0, bytes: 0, slowest: 0 };
  let stop = false;
  parentPort.once('message', () => (stop = true));
  await Promise.all(Array.from({ length: scrapers }, async () => {
    const connection = agent();
    while (!stop) {
      const start = performance.now();
      result.bytes = (await ask(server, connection, 'GET', page)).bytes;
      result.slowest = Math.max(result.slowest, performance.now() - start);
      if (result.pages++ === 0) parentPort.postMessage('begun');
    }
    connection.destroy();
  }));
  parentPort.postMessage({ result });
}

async function whileScraped(server) {
  const worker = new Worker(fileURLToPath(import.meta.url), { argv: process.argv.slice(2), workerData: { host: server.host, port: server.port } });
  await new Promise((resolve) => worker.once('message', resolve));
  const used = processorSeconds(server);
  const times = await enqueues(server);
  const result = await new Promise((resolve) => {
    worker.on('message', (message) => message.result && resolve(message.result));
    worker.postMessage('stop');
  });
  return { times, result: { ...result, seconds: processorSeconds(server) - used } };
}

const show = (times) =>
  [0.5, 0.99, 1].map((q) => `${q === 1 ? 'max' : `p${q * 100}`} ${times[Math.min(times.length - 1, Math.floor(times.length * q))].toFixed(2)} ms`).join(', ');

if (!isMainThread) {
  await scrape(workerData);
  process.exit(0);
}

const server = await startServer({ backend: 'memory' });
await fill(server);
await ask(server, agent(), 'GET', page);
const alone = await enqueues(server);
const { times, result } = await whileScraped(server);
console.log(`${queues} queues, ${scrapers} scrapers of ${page} (${result.bytes} bytes)`);
console.log(`alone:   ${alone.length} enqueues, ${show(alone)}`);
console.log(`scraped: ${times.length} enqueues, ${show(times)}; ${result.pages} pages, the slowest ${result.slowest.toFixed(0)} ms; ${result.seconds.toFixed(2)} s of processor time`);
console.log(`ratio of p50: ${(times[times.length >> 1] / alone[alone.length >> 1]).toFixed(2)}, resident ${residentMiB(server).toFixed(0)} MiB`);
await stopServer(server);
process.exit(0);
