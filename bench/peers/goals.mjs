// SPDX-License-Identifier: Apache-2.0
// The goals, each a ratio between figures of the same run; and the medians they are made of.

export function median(values) {
  const sorted = values.filter((value) => Number.isFinite(value)).sort((a, b) => a - b);
  if (sorted.length === 0) return null;
  return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2;
}

/** Rounds of one figure of a cell: [number, …], or [] when it was not measured. */
export function rounds(figures, cell, peer, figure = 'jobs_per_s') {
  return (figures.cells[cell]?.[peer] ?? []).map((one) => one[figure]);
}
export const middle = (figures, cell, peer, figure) => median(rounds(figures, cell, peer, figure));

/** The median of the ratios of each round: a slow minute hits both sides of one. */
function ratio(above, below) {
  const n = Math.min(above.length, below.length);
  return median(Array.from({ length: n }, (_, i) => above[i] / below[i]));
}

/** The rounds of the peer that is fastest in the middle, Holdfast and the ceiling apart. */
function best(figures, cell) {
  const names = Object.keys(figures.cells[cell] ?? {}).filter((name) => name !== 'null' && !name.startsWith('holdfast'));
  names.sort((a, b) => middle(figures, cell, b) - middle(figures, cell, a));
  return names[0] ? { name: names[0], rounds: rounds(figures, cell, names[0]) } : { name: 'none', rounds: [] };
}

const beside = (cell, ours, other, otherCell = cell, figure = 'jobs_per_s') => (f) => ratio(rounds(f, cell, ours, figure), rounds(f, otherCell, other, figure));

function wakeFloor(f) {
  const syncs = f.fdatasync.map((one) => one.fdatasync_p50_us);
  const nulls = rounds(f, 'w6', 'null', 'wake_p50_us');
  return ratio(rounds(f, 'w6', 'holdfast', 'wake_p50_us'), nulls.map((value, i) => (syncs[i] ?? syncs[0]) + 2 * value));
}

const standing = (peer) => (f) => {
  const figures = f.standing[peer];
  return figures ? ratio(figures.full.map((one) => one.jobs_per_s), figures.empty.map((one) => one.jobs_per_s)) : null;
};

/** is: 'least' or 'most' the bound; value(figures) is a number, or null when it was not measured. */
const goals = [
  { work: 'W1 N=64', what: 'Holdfast / Redis list always', is: 'least', bound: 1.3, value: beside('w1', 'holdfast', 'redis-list') },
  { work: 'W1 N=64', what: 'Holdfast / null server', is: 'least', bound: 0.7, value: beside('w1', 'holdfast', 'null') },
  { work: 'W2', what: 'Holdfast / Redis list always', is: 'least', bound: 2.5, value: beside('w2', 'holdfast', 'redis-list') },
  { work: 'W2', what: (f) => `Holdfast / the best relaxed peer (${best(f, 'w2-relaxed').name})`, is: 'least', bound: 0.9, value: (f) => ratio(rounds(f, 'w2', 'holdfast'), best(f, 'w2-relaxed').rounds) },
  { work: 'W3', what: 'Holdfast / Redis list always', is: 'least', bound: 2.5, value: beside('w3', 'holdfast', 'redis-list') },
  { work: 'W3', what: 'Holdfast / Redis list everysec', is: 'least', bound: 1, value: beside('w3', 'holdfast', 'redis-list', 'w3-relaxed') },
  { work: 'W3', what: 'server CPU, us a job', is: 'most', bound: 5, value: (f) => middle(f, 'w3', 'holdfast', 'server_cpu_us_per_job') },
  { work: 'W4', what: 'full / empty, beanstalk port', is: 'least', bound: 0.95, value: standing('holdfast') },
  { work: 'W4', what: 'full / empty, HTTP', is: 'least', bound: 0.95, value: standing('holdfast-http') },
  { work: 'W5', what: 'bytes a pending job', is: 'most', bound: 300, value: (f) => f.pending.holdfast?.bytes ?? null },
  { work: 'W6', what: 'p50, Holdfast / Redis list always', is: 'most', bound: 0.7, value: beside('w6', 'holdfast', 'redis-list', 'w6', 'wake_p50_us') },
  { work: 'W6', what: 'p50, Holdfast / (raw fdatasync + 2 × null server)', is: 'most', bound: 1, value: wakeFloor },
  { work: 'HTTP, W1 N=64', what: 'enqueue / `/healthz` of the same server', is: 'least', bound: 0.7, value: beside('w1', 'holdfast-http', 'holdfast-http', 'healthz') },
  { work: 'HTTP, W3', what: 'batches of 100 / Redis list always', is: 'least', bound: 2, value: beside('w3', 'holdfast-http', 'redis-list') },
  { work: 'W2', what: 'Holdfast on PostgreSQL / a plain SKIP LOCKED table', is: 'least', bound: 2, value: beside('w2', 'holdfast-postgres', 'postgres') },
  { work: 'W3', what: 'Holdfast on PostgreSQL / a plain SKIP LOCKED table', is: 'least', bound: 2, value: beside('w3', 'holdfast-postgres', 'postgres') },
  { work: 'W3', what: 'Holdfast on Redis / Redis stream, both always', is: 'least', bound: 0.6, value: beside('w3', 'holdfast-redis', 'redis-stream') },
];

/** [{work, what, text, bound, reached}] of those goals whose figures are there. */
export function goalsOf(figures) {
  return goals
    .map((goal) => ({ ...goal, what: typeof goal.what === 'function' ? goal.what(figures) : goal.what, value: goal.value(figures) }))
    .filter((goal) => goal.value !== null)
    .map(({ work, what, is, bound, value }) => ({ work, what, value, bound: `${is === 'least' ? '≥' : '≤'} ${bound}`, reached: is === 'least' ? value >= bound : value <= bound }));
}
