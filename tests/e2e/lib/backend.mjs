// SPDX-License-Identifier: Apache-2.0
// The store of a run: an embedded one, unless HF_TEST_BACKEND=postgres (with scripts/with-postgres) or redis (with
// scripts/with-redis) replaces every embedded store of a test by a schema or a prefix there. One table lists the
// properties in which the stores differ, and tests refer to them by name.
import path from 'node:path';

/** 'embedded', 'postgres' or 'redis'. */
export const testBackend = process.env.HF_TEST_BACKEND || 'embedded';

/** docs/postgres.md and docs/redis.md describe these for operators. */
const what = {
  files: 'only a store in its own files: backup, check, import, SQL beside it',
  memory: 'only a store that ends with its process',
  alone: 'only a store that belongs to one node',
  whole_claims: 'a claim over many queues gets as many jobs as it requests, whichever queues have them',
  ends_in_order: 'jobs that ended in one millisecond are listed in the order of their ends',
  knows_its_death: 'after kill -9 and a restart the jobs of connections are ready at once',
  names_gone_queues: 'events about a deleted queue contain its name',
  redis: 'Redis is used',
  figures: 'a speed that is documented for the embedded store',
  long_silence: 'a wait of fifteen seconds that does not depend on the store',
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
/** Options of a test that needs this property. */
export const only = (name) => ({ skip: !has(name) && what[name] });

/** The server's name for the default store of tests. */
export const storeKind = testBackend === 'embedded' ? 'sqlite' : testBackend;
/** Short times, so that the jobs of a killed server become ready soon. */
export const storeSettings = testBackend === 'embedded' ? {} : { HOLDFAST_CLUSTER_LEADER_TTL_MS: '2s', HOLDFAST_CLUSTER_SILENT_MS: '3s' };

/** On another store all embedded stores are the same one; the fault wrapper is left out if the list also has a store without it (tests/faults has real faults). */
export const storesOf = (list) =>
  testBackend === 'embedded' ? list : [list.some((backend) => !backend.startsWith('fault+')) ? testBackend : `fault+${testBackend}`];

const places = {
  postgres: (name) => `${process.env.HF_POSTGRES}&schema=e2e_${name}`,
  redis: (name) => `${process.env.HF_REDIS}?prefix=${encodeURIComponent(`{${name}}:`)}`,
};

/** The URL of the store that belongs to a data directory; a URL is returned unchanged. */
export function storeUrl(backend, dir) {
  if (backend.includes('://')) return backend;
  const wrapper = backend.startsWith('fault+') ? 'fault+' : '';
  if (testBackend !== 'embedded') return wrapper + places[testBackend](path.basename(dir).toLowerCase().replaceAll(/[^a-z0-9]/g, '_'));
  return wrapper + (backend === `${wrapper}memory` ? 'memory:' : `sqlite:${dir}`);
}
