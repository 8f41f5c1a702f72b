// SPDX-License-Identifier: Apache-2.0
// What is measured: the works, and the load of each. Every cell of the table is one of `cells`, for
// each peer and mode that can do it.

export const DEPTH = 100; // of W3: jobs in flight or in one batch, on each connection
export const PRIORITIES = 1000; // of W4
const DELAY_S = 86400; // of W4's delayed jobs: none becomes due

const pairs = ['--producers', '16', '--consumers', '16'];
const one = [...pairs, '--backlog', '1000'];
const batches = [...pairs, '--depth', String(DEPTH), '--backlog', '10000'];

export const works = {
  W1: 'N producers, each waits for the confirm of each job',
  W2: '16 producers and 16 consumers, one job at a time: put, reserve, delete',
  W3: `W2 with pipelining or batches: ${DEPTH} jobs on each connection`,
  W4: 'W2 with 1M ready jobs of 1,000 priorities and 1M delayed ones standing, against an empty server',
  W5: 'memory with 1M pending jobs',
  W6: 'wake-up of one waiting consumer, one enqueue each 20 ms',
};

/** Cells that are measured again in each round, peer after peer. */
export const cells = [
  { id: 'w1', work: 'W1', mode: 'durable', title: 'W1 N=64', figure: 'jobs_per_s', load: ['--producers', '64'] },
  { id: 'healthz', work: 'W1', mode: 'durable', title: '/healthz, 64 connections', figure: 'jobs_per_s', load: ['--producers', '64'], protocol: 'healthz', only: ['holdfast-http'] },
  { id: 'w1-one', work: 'W1', mode: 'durable', title: 'W1 N=1', figure: 'jobs_per_s', load: ['--producers', '1'] },
  { id: 'w2', work: 'W2', mode: 'durable', title: 'W2', figure: 'jobs_per_s', load: one },
  { id: 'w2-relaxed', work: 'W2', mode: 'relaxed', title: 'W2 relaxed', figure: 'jobs_per_s', load: one },
  { id: 'w3', work: 'W3', mode: 'durable', title: 'W3', figure: 'jobs_per_s', load: batches },
  { id: 'w3-relaxed', work: 'W3', mode: 'relaxed', title: 'W3 relaxed', figure: 'jobs_per_s', load: batches },
  { id: 'w6', work: 'W6', mode: 'durable', title: 'W6 p50', figure: 'wake_p50_us', load: ['--producers', '1', '--consumers', '1', '--interval-us', '20000'] },
];

/** The load of W4 is W2 with priorities, where there are any. */
export function standingLoad(peer) {
  return peer.standing === 'priorities and delays' ? [...one, '--priorities', String(PRIORITIES)] : one;
}

/** What is put in before W4: [options for each filling]. */
export function standingFill(peer, jobs) {
  const fill = ['--producers', '4', '--depth', '500', '--count', String(jobs)];
  if (peer.standing !== 'priorities and delays') return [fill];
  return [[...fill, '--priorities', String(PRIORITIES)], [...fill, '--delay', String(DELAY_S), '--priorities', String(PRIORITIES)]];
}

export const pendingFill = (jobs) => ['--producers', '4', '--depth', '500', '--count', String(jobs)];

export function chooseWorks(names) {
  for (const name of names)
    if (!(name in works)) throw new Error(`there is no work '${name}'; there are ${Object.keys(works).join(' ')}`);
  return names.length === 0 ? Object.keys(works) : Object.keys(works).filter((name) => names.includes(name));
}

/** Whether this peer has this cell. */
export function has(peer, cell) {
  if (!(cell.mode in peer.modes)) return false;
  if (cell.only && !cell.only.includes(peer.name)) return false;
  return !peer.cells || peer.cells.includes(cell.id);
}
