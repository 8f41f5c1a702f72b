// SPDX-License-Identifier: Apache-2.0
// The store that a run is on: the embedded ones, unless HF_TEST_BACKEND=postgres (below scripts/with-postgres) or
// redis (below scripts/with-redis) says that every embedded store a test asks for is a schema or a prefix there.
// What a store has or promises that others do not stands in one table, and a test asks it by name.
import path from 'node:path';

/** 'embedded', 'postgres' or 'redis'. */
export const testBackend = process.env.HF_TEST_BACKEND || 'embedded';

/** Of these, docs/postgres.md and docs/redis.md tell operators. */
const what = {
  files: 'of a store in files of its own: backup, check, import, SQL beside it',
  memory: 'of a store that ends with its process',
  alone: 'of a store that one node has to itself',
  whole_claims: 'a claim over many queues gets all it asks for, whichever queue has them',
  ends_in_order: 'jobs that ended in one millisecond stand in the order of their ends',
  knows_its_death: 'after kill -9 and a restart what connections held is ready at once',
  names_gone_queues: 'events about a queue that is gone have its name',
  redis: 'Redis is used',
  figures: 'a speed that is promised for the embedded store',
  long_silence: 'fifteen seconds without a word, which no store has a part in',
};
const having = {
  embedded: ['files', 'memory', 'alone', 'whole_claims', 'ends_in_order', 'knows_its_death', 'figures', 'long_silence'],
  postgres: ['names_gone_queues'],
  redis: ['names_gone_queues', 'redis'],
}[testBackend];
if (!having) throw new Error(`HF_TEST_BACKEND is postgres, redis or nothing, not ${testBackend}`);

/** Whether the store has it. */
export function has(name) {
  if (!(name in what)) throw new Error(`no such capability: ${name}`);
  return having.includes(name);
}
/** Options of a test of what only stores with this have. */
export const only = (name) => ({ skip: !has(name) && what[name] });

/** What a server calls the store that tests get when they do not ask for one. */
export const storeKind = testBackend === 'embedded' ? 'sqlite' : testBackend;
/** So that what a server that was killed had is not waited for long. */
export const storeSettings = testBackend === 'embedded' ? {} : { HOLDFAST_CLUSTER_LEADER_TTL_MS: '2s', HOLDFAST_CLUSTER_SILENT_MS: '3s' };

/** All embedded stores are one elsewhere; where they are tried with and without the fault wrapper, without (tests/faults has real faults). */
export const storesOf = (list) =>
  testBackend === 'embedded' ? list : [list.some((backend) => !backend.startsWith('fault+')) ? testBackend : `fault+${testBackend}`];

const places = {
  postgres: (name) => `${process.env.HF_POSTGRES}&schema=e2e_${name}`,
  redis: (name) => `${process.env.HF_REDIS}?prefix=${encodeURIComponent(`{${name}}:`)}`,
};

/** The URL of the store that belongs to a data directory; one that is a URL already stays. */
export function storeUrl(backend, dir) {
  if (backend.includes('://')) return backend;
  const wrapper = backend.startsWith('fault+') ? 'fault+' : '';
  if (testBackend !== 'embedded') return wrapper + places[testBackend](path.basename(dir).toLowerCase().replaceAll(/[^a-z0-9]/g, '_'));
  return wrapper + (backend === `${wrapper}memory` ? 'memory:' : `sqlite:${dir}`);
}
