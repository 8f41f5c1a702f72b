#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// restart.mjs BUILD...: how long a start takes with many waiting jobs, for one or more builds of Holdfast by turns.
// Each build fills its own store and is stopped cleanly. A measurement is the time from the start of the process to
// the line that says that it listens, and the processor time of all its threads until then; every page is in the page
// cache. Compare the processor time if other programs run at the same time.
//
//   --jobs N     (1000000) jobs of 200 bytes that wait
//   --rounds N   (5) starts of each build; the table has the medians
import { spawn } from 'node:child_process';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

import { root } from './peers/peers.mjs';
import { makeDirectory, removeDirectory, runProgram as run } from './peers/processes.mjs';

const median = (values) => values.slice().sort((a, b) => a - b)[Math.floor(values.length / 2)];

/** The processor time of the threads of a process, in ms. */
const cpuMs = (pid) =>
  readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]) / 1e6, 0);

/** Starts a server on its store; `ms` is how long it took until it listened, `cpu` the processor time until then. */
async function start(binary, directory) {
  const began = process.hrtime.bigint();
  const child = spawn(binary, ['serve', '--listen', '127.0.0.1:0', '--data', directory], { stdio: ['ignore', 'pipe', 'ignore'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  for await (const line of createInterface({ input: child.stdout })) {
    const match = /^listening on (\S+)/.exec(line);
    if (match) return { child, ended, url: match[1], ms: Number(process.hrtime.bigint() - began) / 1e6, cpu: cpuMs(child.pid) };
  }
  throw new Error(`${binary} ended before it listened`);
}

async function stop({ child, ended }) {
  child.kill('SIGTERM');
  if ((await ended) !== 0) throw new Error('the server did not end cleanly');
}

async function fill(binary, directory, jobs) {
  const server = await start(binary, directory);
  await run(binary, ['bench', '--server', server.url, '--mode', 'enqueue', '--batch', '1000', '--connections', '4', '--jobs', String(jobs), '--queue', 'q'], { timeout: 600_000 });
  await stop(server);
}

const { values, positionals: builds } = parseArgs({ allowPositionals: true, options: { jobs: { type: 'string' }, rounds: { type: 'string' } } });
const [jobs, rounds] = [Number(values.jobs || 1_000_000), Number(values.rounds || 5)];
if (builds.length === 0 || !(jobs >= 1) || !(rounds >= 1)) {
  console.error('usage: restart.mjs BUILD... [--jobs N] [--rounds N]');
  process.exit(2);
}
const stores = builds.map((build) => ({ build: path.resolve(build), directory: makeDirectory(path.join(root, 'build/bench-restart'), 'run'), times: [], cpu: [] }));
try {
  for (const { build, directory } of stores) await fill(build, directory, jobs);
  for (let round = 0; round <= rounds; round++)
    for (const store of round % 2 ? stores.slice().reverse() : stores) {
      const server = await start(store.build, store.directory);
      await stop(server);
      if (round === 0) continue; // the first start fills the page cache
      store.times.push(server.ms);
      store.cpu.push(server.cpu);
    }
  console.log(`start with ${jobs} waiting jobs: medians of ${rounds} rounds`);
  const cell = (name, { [name]: values }) =>
    `${median(values).toFixed(0)} ms (${Math.min(...values).toFixed(0)} to ${Math.max(...values).toFixed(0)}), ${(median(values) / median(stores[0][name])).toFixed(3)} of the first`;
  for (const store of stores) console.log(`${cell('times', store)}; processor ${cell('cpu', store)}  ${store.build}`);
} finally {
  for (const { directory } of stores) removeDirectory(directory);
}
