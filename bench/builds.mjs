#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// builds.mjs OLD NEW: two builds of Holdfast under the same loads, by turns in each round. It answers whether a change
// made the server slower: figures of different runs cannot be compared on a machine whose disk and neighbours vary.
//
//   --works 'w1 w2 w3 …'   some of the table below; all when not given
//   --rounds N             (9) the order of the two builds alternates; the table has the medians
//   --seconds S            (2) of every measurement, after a warm-up of 0.5 s
//
// `make bench-builds OLD=path/of/holdfast` compares a build with the present one.
import path from 'node:path';
import { parseArgs } from 'node:util';

import { closeInstance, loadBinary, openInstance, root, startHoldfast } from './peers/peers.mjs';
import { makeDirectory, runProgram as run } from './peers/processes.mjs';
import { cells } from './peers/works.mjs';

const ofPeers = (id, api = 'beanstalk') => ({ id: api === 'http' ? `${id}-http` : id, api, load: cells.find((cell) => cell.id === id).load });
const works = [
  ofPeers('w1'), ofPeers('w1-one'), ofPeers('w2'), ofPeers('w3'), ofPeers('w1', 'http'), ofPeers('w3', 'http'),
  { id: 'w7-1', api: 'beanstalk', load: ['--producers', '1', '--consumers', '1', '--backlog', '100'] },
  { id: 'w7-4', api: 'beanstalk', load: ['--producers', '4', '--consumers', '4', '--backlog', '400'] },
];

const median = (values) => values.slice().sort((a, b) => a - b)[Math.floor(values.length / 2)];

async function measure(binary, work, seconds, base) {
  const peer = { name: work.id, start: startHoldfast(work.api, {}, binary) };
  const instance = await openInstance(peer, 'durable', base);
  try {
    const options = ['--protocol', work.api, '--port', String(instance.port), '--pids', instance.pids, '--seconds', String(seconds), '--warmup', '0.5', '--queue', 'q'];
    return JSON.parse((await run(loadBinary, [...options, ...work.load], { timeout: 120_000 })).stdout);
  } finally {
    await closeInstance(instance);
  }
}

const text = { type: 'string' };
const { values, positionals: builds } = parseArgs({ allowPositionals: true, options: { works: text, rounds: text, seconds: text } });
const [rounds, seconds] = [Number(values.rounds || 9), Number(values.seconds || 2)];
const names = (values.works || '').split(/[\s,]+/).filter(Boolean);
const unknown = names.filter((name) => !works.some(({ id }) => id === name));
if (builds.length !== 2 || !(rounds >= 1) || !(seconds > 0) || unknown.length > 0) {
  console.error(`usage: builds.mjs OLD NEW [--rounds N] [--seconds S] [--works '${works.map(({ id }) => id).join(' ')}']`);
  process.exit(2);
}
const chosen = works.filter(({ id }) => names.length === 0 || names.includes(id));
const base = makeDirectory(path.join(root, 'build/bench-builds'), 'run');
const figures = new Map(chosen.map((work) => [work, [[], []]]));
for (let round = 0; round < rounds; round++)
  for (const work of chosen)
    for (const which of round % 2 ? [1, 0] : [0, 1]) figures.get(work)[which].push(await measure(path.resolve(builds[which]), work, seconds, base));

const columns = { 'jobs/s': 'jobs_per_s', 'CPU us/job': 'server_cpu_us_per_job', 'confirm p99 us': 'confirm_p99_us' };
console.log(`medians of ${rounds} rounds of ${seconds} s; each column: OLD, NEW, NEW / OLD`);
for (const [work, sides] of figures) {
  const cell = ([title, key]) => {
    const [old, now] = sides.map((side) => median(side.map((figure) => figure[key] ?? NaN)));
    return Number.isNaN(old) ? '' : `${title} ${old.toFixed(old < 100 ? 2 : 0)}, ${now.toFixed(now < 100 ? 2 : 0)}, ${(now / old).toFixed(3)}`.padEnd(40);
  };
  console.log(`${work.id.padEnd(9)} ${Object.entries(columns).map(cell).join('')}`.trimEnd());
}
