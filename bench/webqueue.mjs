// SPDX-License-Identifier: Apache-2.0
// The figures of the normalised queue's document (NOM-15), one client after another on one connection:
// node bench/webqueue.mjs [JOBS]. Prints the median, the 99th percentile and the largest time of each
// operation on a durable store, in milliseconds, and what the document says. Nothing is asserted.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const binary = process.env.HF_BIN ?? path.join(root, 'build/release/holdfast');
const jobs = Number(process.argv[2] ?? 10_000);
const data = mkdtempSync(path.join(root, 'build/webqueue-bench-'));
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });

const server = spawn(binary, ['serve', '--listen', '127.0.0.1:0', '--data', data], { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, HOLDFAST_LOG_LEVEL: 'error' } });
const port = await new Promise((resolve, reject) => {
  server.stdout.on('data', (chunk) => resolve(Number(String(chunk).match(/:(\d+)\s/)[1])));
  server.on('exit', () => reject(new Error('the server ended')));
});

function ask(method, name, json) {
  const body = json && JSON.stringify(json);
  return new Promise((resolve, reject) => {
    const request = http.request({ host: '127.0.0.1', port, method, path: `/api/web/queue/${name}`, agent, headers: body ? { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) } : {} }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk));
      response.on('end', () => (response.statusCode < 300 ? resolve(JSON.parse(text)) : reject(new Error(text))));
    });
    request.on('error', reject);
    request.end(body);
  });
}

async function measure(title, document, times, act) {
  const took = [];
  for (let i = 0; i < times; i++) {
    const begun = process.hrtime.bigint();
    await act(i);
    took.push(Number(process.hrtime.bigint() - begun) / 1e6);
  }
  took.sort((a, b) => a - b);
  const at = (share) => took[Math.min(took.length - 1, Math.floor(took.length * share))].toFixed(2);
  console.log(`${title.padEnd(28)} median ${at(0.5)}  p99 ${at(0.99)}  most ${took.at(-1).toFixed(2)}  (document: ${document})`);
}

try {
  for (let i = 0; i < jobs; i += 100) await ask('POST', 'enqueue', { library_id: 1, paths: Array.from({ length: 100 }, (_, k) => `/music/${i + k}.flac`) });
  console.log(`${jobs} jobs pending, every answer synced to disk; milliseconds`);
  await measure('enqueue', '2', 1000, (i) => ask('POST', 'enqueue', { library_id: 2, path: `/one/${i}.flac` }));
  await measure('enqueue, batch of 100', '50', 50, (i) => ask('POST', 'enqueue', { library_id: 3, paths: Array.from({ length: 100 }, (_, k) => `/batch/${i}/${k}.flac`) }));
  const taken = [];
  await measure('dequeue', '1 hot, 5 cold', 1000, async () => taken.push((await ask('POST', 'dequeue', {})).id));
  await measure('complete', '-', 1000, (i) => ask('POST', 'complete', { job_id: taken[i], results: { tags: [] } }));
  await measure('queue-depth', '20', 1000, () => ask('GET', 'queue-depth'));
  await measure('queue-depth of a library', '20', 1000, () => ask('GET', 'queue-depth?library_id=1'));
  await measure('list, 100 jobs', '-', 20, () => ask('GET', 'list?status=pending'));
} finally {
  agent.destroy();
  server.removeAllListeners('exit');
  server.kill('SIGTERM');
  await new Promise((resolve) => server.on('exit', resolve));
  rmSync(data, { recursive: true, force: true });
}
