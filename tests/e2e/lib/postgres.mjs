// SPDX-License-Identifier: Apache-2.0
// The private PostgreSQL server that scripts/with-postgres started. A test file that imports this runs itself with that
// script.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';

if (!process.env.HF_POSTGRES) {
  const wrapper = fileURLToPath(new URL('../../../scripts/with-postgres', import.meta.url));
  process.exit(spawnSync(wrapper, ['node', ...process.execArgv, process.argv[1]], { stdio: 'inherit' }).status ?? 1);
}

export const base = process.env.HF_POSTGRES;
/** The directory of its Unix socket. */
export const socket = decodeURIComponent(base.replace(/.*host=/, ''));
/** The URL of a store in its own schema. */
export const url = (schema, more = '') => `${base}&schema=${schema}${more}`;

/** Arguments of psql, which ends at the first error. */
export const psqlWords = (database = 'postgres') => ['-h', socket, '-U', 'holdfast', '-d', database, '-qAt', '-v', 'ON_ERROR_STOP=1'];

export function sql(text, database) {
  const run = spawnSync('psql', [...psqlWords(database), '-c', text], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  return run.stdout.trim();
}
