// SPDX-License-Identifier: Apache-2.0
// What limits at the claim cost over HTTP: node bench/limits.mjs. Two queues of one server have the same backlog in the same
// groups, one without limits, one with `max_running_per_group` and `fair`. By turns, clients process jobs of one of them: they
// claim, ack, and enqueue as many jobs again. Prints the medians of both, and their ratio.
//
//   HF_TEST_BACKEND=postgres|redis   starts that server, too (default: the embedded store)
//   --groups 100000 --backlog 200000 --clients 16 --count 1 --seconds 3 --rounds 5
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = fileURLToPath(new URL('..', import.meta.url));
const binary = process.env.HF_BIN ?? path.join(root, 'build/release/holdfast');
const kind = process.env.HF_TEST_BACKEND ?? '';
const url = { postgres: process.env.HF_POSTGRES, redis: process.env.HF_REDIS }[kind];
if (kind && !url) {
  const self = spawnSync(path.join(root, `scripts/with-${kind}`), [process.execPath, ...process.argv.slice(1)], { stdio: 'inherit' });
  process.exit(self.status ?? 1);
}
const defaults = { groups: '100000', backlog: '200000', clients: '16', count: '1', seconds: '3', rounds: '5' };
const { values } = parseArgs({ options: Object.fromEntries(Object.entries(defaults).map(([name, value]) => [name, { type: 'string', default: value }])) });
const [groups, backlog, clients, count, seconds, rounds] = Object.keys(defaults).map((name) => Number(values[name]));

mkdirSync(path.join(root, 'build'), { recursive: true });
const data = mkdtempSync(path.join(root, 'build/limits-bench-'));
const args = ['serve', '--listen', '127.0.0.1:0', '--data', data, ...(url ? ['--backend', url] : [])];
const server = spawn(binary, args, { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, HOLDFAST_LOG_LEVEL: 'error' } });
const port = await new Promise((resolve, reject) => {
  server.stdout.on('data', (chunk) => resolve(Number(String(chunk).match(/:(\d+)\s/)[1])));
  server.on('exit', () => reject(new Error('the server ended')));
});
const agent = new http.Agent({ keepAlive: true, maxSockets: clients });

function ask(method, target, json) {
  const body = JSON.stringify(json);
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
    const request = http.request({ host: '127.0.0.1', port, method, path: target, agent, headers }, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (chunk) => (text += chunk));
      response.on('end', () => (response.statusCode < 300 ? resolve(JSON.parse(text)) : reject(new Error(text))));
    });
    request.on('error', reject);
    request.end(body);
  });
}

const jobOf = (number) => ({ payload: 'x'.repeat(100), group: `g${number % groups}` });
const policies = { plain: {}, limited: { max_running_per_group: 2, fair: 'group' } };

async function fill(queue) {
  await ask('PUT', `/v1/queues/${queue}`, { keep_done: 0, ...policies[queue] });
  for (let i = 0; i < backlog; i += 1000) await ask('POST', `/v1/queues/${queue}/jobs`, Array.from({ length: 1000 }, (_, k) => jobOf(i + k)));
}

/** Full cycles a second of one queue. */
async function measure(queue) {
  let cycles = 0;
  const begun = process.hrtime.bigint();
  const end = Date.now() + seconds * 1000;
  const client = async () => {
    while (Date.now() < end) {
      const { jobs } = await ask('POST', `/v1/queues/${queue}/claim`, { count });
      if (!jobs.length) throw new Error(`nothing to claim from ${queue}`);
      await ask('POST', '/v1/ack', { jobs: jobs.map(({ id, token }) => ({ id, token })) });
      await ask('POST', `/v1/queues/${queue}/jobs`, jobs.map(() => jobOf(Math.floor(Math.random() * groups))));
      cycles += jobs.length;
    }
  };
  await Promise.all(Array.from({ length: clients }, client));
  return cycles / (Number(process.hrtime.bigint() - begun) / 1e9);
}

const median = (list) => list.slice().sort((a, b) => a - b)[Math.floor(list.length / 2)];
try {
  const found = { plain: [], limited: [] };
  for (const queue of Object.keys(found)) await fill(queue);
  for (let i = 0; i < rounds; i++) for (const queue of i % 2 ? ['limited', 'plain'] : ['plain', 'limited']) found[queue].push(await measure(queue));
  const ratios = found.plain.map((plain, i) => found.limited[i] / plain);
  console.log(`${kind || 'embedded'}, ${groups} groups, ${backlog} ready jobs, ${clients} clients, ${count} jobs a claim; full cycles/s, medians of ${rounds} rounds of ${seconds} s`);
  console.log(`without limits ${median(found.plain).toFixed(0)}  with limits ${median(found.limited).toFixed(0)}  ratio ${median(ratios).toFixed(2)}`);
} finally {
  agent.destroy();
  server.removeAllListeners('exit');
  server.kill('SIGTERM');
  await new Promise((resolve) => server.on('exit', resolve));
  rmSync(data, { recursive: true, force: true });
}
