#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// From figures.json to the table of docs/benchmarks.md and its charts. run.mjs ends with it;
//
//   report.mjs [--docs] [figures.json]
//
// makes them again from a run that was saved.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { goalsOf, median, middle } from './goals.mjs';
import { peers, root as repository } from './peers.mjs';
import { barChart } from './svg.mjs';
import { cells, DEPTH } from './works.mjs';

const BEGIN = '<!-- peers: begin -->';
const END = '<!-- peers: end -->';
const CLIENT_BOUND = 0.9; // of a core, used by the load generator

export function number(value) {
  if (value === null || value === undefined) return '–';
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return value.toFixed(digits).replace(/\B(?=(\d{3})+$)/g, ',');
}
const short = (value) => (value >= 10_000 ? `${(value / 1000).toFixed(value >= 100_000 ? 0 : 1)}k` : number(value));

const measuredPeers = (f) => peers.filter((peer) => [...Object.values(f.cells), f.standing, f.pending].some((part) => part[peer.name]));

// ---- the table ----

function rateText(f, cell, peer) {
  const rate = middle(f, cell, peer, 'jobs_per_s');
  if (rate === null) return '–';
  const cpu = middle(f, cell, peer, 'server_cpu_us_per_job');
  const bound = middle(f, cell, peer, 'client_cpu') > CLIENT_BOUND ? ' c' : '';
  return `${short(rate)} [${number(cpu)}]${bound}`;
}

function wakeText(f, peer) {
  const p50 = middle(f, 'w6', peer, 'wake_p50_us');
  return p50 === null ? '–' : `${number(p50)} / ${number(middle(f, 'w6', peer, 'wake_p99_us'))}`;
}

function standingText(f, peer) {
  const figures = f.standing[peer];
  if (!figures) return '–';
  const ratio = median(figures.full.map((one, i) => one.jobs_per_s / figures.empty[i].jobs_per_s));
  return ratio === null ? '–' : `${ratio.toFixed(ratio < 0.1 ? 3 : 2)}${figures.what === 'ready jobs' ? ' r' : ''}`;
}

function pendingText(f, peer) {
  const figures = f.pending[peer];
  if (!figures) return '–';
  return figures.what === 'disk' ? `${number(figures.disk_bytes)} disk` : number(figures.bytes);
}

const columns = [
  ['W1 N=64', (f, peer) => rateText(f, 'w1', peer)],
  ['W1 N=1', (f, peer) => rateText(f, 'w1-one', peer)],
  ['W2', (f, peer) => rateText(f, 'w2', peer)],
  ['W3', (f, peer) => rateText(f, 'w3', peer)],
  ['W2 relaxed', (f, peer) => rateText(f, 'w2-relaxed', peer)],
  ['W3 relaxed', (f, peer) => rateText(f, 'w3-relaxed', peer)],
  ['W4 ratio', standingText],
  ['W5 B/job', pendingText],
  ['W6 p50 / p99 us', wakeText],
];

function table(heads, lines) {
  return [heads, heads.map(() => '---'), ...lines].map((line) => `| ${line.join(' | ')} |`).join('\n');
}

function mainTable(f) {
  const used = columns.filter(([, text]) => measuredPeers(f).some((peer) => text(f, peer.name) !== '–'));
  return table(['jobs/s [server CPU us/job]', ...used.map(([head]) => head)], measuredPeers(f).map((peer) => [peer.label, ...used.map(([, text]) => text(f, peer.name))]));
}

function goalTable(f) {
  const lines = goalsOf(f).map((goal) => [goal.work, goal.what, number(goal.value), goal.bound, goal.reached ? 'reached' : '**missed**']);
  return lines.length > 0 ? table(['work', 'what', 'this run', 'goal', ''], lines) : '';
}

// ---- sentences ----

/** Where a peer is ahead of Holdfast's best way in. */
function losses(f) {
  const lines = [];
  if (!measuredPeers(f).some(({ name }) => name.startsWith('holdfast'))) return '';
  for (const cell of cells.filter(({ id }) => id !== 'healthz')) {
    const less = cell.figure === 'wake_p50_us';
    const figure = (name) => middle(f, cell.id, name, cell.figure);
    const ours = ['holdfast', 'holdfast-http'].map(figure).filter((value) => value !== null);
    if (ours.length === 0) continue;
    const best = less ? Math.min(...ours) : Math.max(...ours);
    const ahead = measuredPeers(f).filter(({ name }) => name !== 'null' && !name.startsWith('holdfast') && figure(name) !== null && (less ? figure(name) < best : figure(name) > best));
    if (ahead.length > 0) lines.push(`- ${cell.title}: ${ahead.map(({ label, name }) => `${label} (${short(figure(name))})`).join(', ')} before Holdfast (${short(best)})`);
  }
  const ours = f.pending.holdfast?.bytes;
  const smaller = measuredPeers(f).filter(({ name }) => ours && !name.startsWith('holdfast') && f.pending[name]?.what === 'memory' && f.pending[name].bytes < ours);
  if (smaller.length > 0) lines.push(`- W5: ${smaller.map(({ label, name }) => `${label} (${number(f.pending[name].bytes)})`).join(', ')} below Holdfast (${number(ours)})`);
  return lines.length > 0 ? lines.join('\n') : 'Nowhere in this run.';
}

function settingsTable(f) {
  const line = (peer) => [peer.label, f.about.versions[peer.name] || '–', peer.modes.durable ?? '–', peer.modes.relaxed ?? '–', peer.retention];
  return table(['server', 'version', 'durable', 'relaxed', 'left of a done job'], measuredPeers(f).map(line));
}

function machineText({ machine, rounds, seconds, payload_bytes: payload, date }, f) {
  const memory = Math.round(machine.memory_bytes / 2 ** 30);
  const sync = median(f.fdatasync.map((one) => one.fdatasync_p50_us));
  return (
    `${date}, ${machine.cpus} processors (${machine.model}), ${memory} GiB, ${machine.system}, Linux ${machine.kernel}. ` +
    `Medians of ${rounds} round${rounds > 1 ? 's' : ''} of ${seconds} s, one server after the other in each round, jobs of ${payload} bytes.` +
    (sync === null ? '' : ` A raw write of 4 KiB and fdatasync to a zero-filled file: p50 ${number(sync)} us.`)
  );
}

function leftOut(f) {
  const lines = Object.entries(f.left_out).map(([name, why]) => `${peers.find((peer) => peer.name === name)?.label ?? name} ${why}.`);
  return lines.length > 0 ? `Not measured: ${lines.join(' ')}` : '';
}

const legend = (jobs) => `W1: 64 (or 1) producers, each waits for the confirm of each job. W2: 16 producers and 16 consumers, one job
at a time: put, reserve, delete. W3: the same with ${DEPTH} jobs in flight on each connection, or batches of
${DEPTH}. W4: W2 with ${jobs} ready jobs of 1,000 priorities and ${jobs} delayed ones standing, as a part of W2 on an empty
server; r: ${jobs} ready jobs alone, where there are no priorities and delays. W5: resident memory (PostgreSQL: disk) that
a pending job takes. W6: from the enqueue to the job in the hands of a consumer that waits. In W2 at most 1,000 jobs
wait, in W3 10,000; then producers rest. Durable unless it says relaxed. c: client-bound, the load generator used more than ${CLIENT_BOUND * 100} % of a core; what the server can do is more.
Holdfast is the embedded default with everything on. RabbitMQ's and gearmand's consumers get no answer to
an ack, NATS's only one at a time; PostgreSQL's poll each 2 ms when there is nothing. BullMQ, pg-boss and graphile-worker run in
one Node process, whose processor time is not the server's. –: not measured, or there is no such mode.`;

function charts(f) {
  const kind = (name) => (name === 'null' ? 'ceiling' : name.startsWith('holdfast') ? 'ours' : 'theirs');
  const rows = (values) => measuredPeers(f).map((peer) => ({ label: peer.label, kind: kind(peer.name), values: values(peer.name) }));
  const rate = (...ids) => rows((name) => ids.map((id) => middle(f, id, name, 'jobs_per_s')));
  const both = ['durable', 'relaxed'];
  return [
    { file: 'peers-w1.svg', title: 'W1: 64 producers, each confirm waited for', note: 'Jobs a second, durable; more is better.', series: both.slice(0, 1), rows: rate('w1'), format: short },
    { file: 'peers-w2.svg', title: 'W2: put, reserve, delete, one at a time', note: 'Jobs a second; more is better.', series: both, rows: rate('w2', 'w2-relaxed'), format: short },
    { file: 'peers-w3.svg', title: `W3: the same, ${DEPTH} at a time`, note: 'Jobs a second; more is better.', series: both, rows: rate('w3', 'w3-relaxed'), format: short },
    { file: 'peers-w5.svg', title: 'W5: memory of a pending job', note: 'Bytes, of which 200 are the payload; less is better.', series: ['memory'], rows: rows((name) => [f.pending[name]?.what === 'memory' ? f.pending[name].bytes : null]), format: number },
    { file: 'peers-w6.svg', title: 'W6: wake-up of a waiting consumer', note: 'Microseconds, p50, durable; less is better.', series: ['p50'], rows: rows((name) => [middle(f, 'w6', name, 'wake_p50_us')]), format: number },
  ].filter((chart) => chart.rows.some((row) => row.values.some((value) => value > 0)));
}

/** The Markdown between the markers. */
export function reportText(f) {
  const images = charts(f).map((chart) => `![${chart.title}](benchmarks/${chart.file})`);
  const parts = [
    '## Beside other queues', machineText(f.about, f), mainTable(f), legend(number(f.about.jobs)), leftOut(f), goalTable(f) && '### Goals', goalTable(f) && 'Ratios are medians of the ratios of each round.', goalTable(f),
    losses(f) && '### Where we lose', losses(f), '### Charts', images.join('\n\n'), '### Versions and settings', settingsTable(f),
    'Again: `make bench-peers`, or a part of it: `make bench-peers PEERS=\'holdfast redis\' WORKS=\'W1 W2\'`.',
  ];
  return `${parts.filter(Boolean).join('\n\n')}\n`;
}

/** `page` with the text between the markers replaced. */
export function replaceBetween(page, text) {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin) throw new Error(`the page has no '${BEGIN}' … '${END}'`);
  return `${page.slice(0, begin + BEGIN.length)}\n${text}${page.slice(end)}`;
}

/** Writes report.md and the charts to `folder`, with `docs` also to docs/; returns the text. */
export function writeReport(f, { folder, root, docs }) {
  const text = reportText(f);
  const folders = [path.join(folder, 'benchmarks'), ...(docs ? [path.join(root, 'docs/benchmarks')] : [])];
  for (const target of folders) {
    mkdirSync(target, { recursive: true });
    for (const chart of charts(f)) writeFileSync(path.join(target, chart.file), barChart(chart));
  }
  writeFileSync(path.join(folder, 'report.md'), text);
  if (docs) {
    const page = path.join(root, 'docs/benchmarks.md');
    writeFileSync(page, replaceBetween(readFileSync(page, 'utf8'), text));
  }
  return text;
}

if (process.argv[1] && path.resolve(process.argv[1]) === new URL(import.meta.url).pathname) {
  const docs = process.argv.includes('--docs');
  const file = process.argv.slice(2).find((word) => !word.startsWith('--')) ?? path.join(repository, 'build/bench-peers/figures.json');
  const figures = JSON.parse(readFileSync(file, 'utf8'));
  process.stdout.write(writeReport(figures, { folder: path.dirname(path.resolve(file)), root: repository, docs }));
}
