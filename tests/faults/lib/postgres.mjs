// SPDX-License-Identifier: Apache-2.0
// The private PostgreSQL server that scripts/with-postgres started, and faults of it.
// A test file that imports this runs itself with that script.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs';

import { base, socket, sql, url } from '../../e2e/lib/postgres.mjs';
import { until } from '../../e2e/lib/server.mjs';
import { stateOf } from './process.mjs';

export { base, socket, sql, url };

const owner = (process.env.HF_POSTGRES_AS ?? '').split(' ').filter(Boolean);
const data = process.env.HF_POSTGRES_DATA;

function control(...words) {
  const [file, ...rest] = [...owner, `${process.env.HF_POSTGRES_BIN}/pg_ctl`, '-D', data, '-w', '-s', ...words];
  const run = spawnSync(file, rest, { stdio: 'ignore' });
  const log = `${data}/again.log`;
  assert.equal(run.status, 0, `pg_ctl ${words.join(' ')}\n${existsSync(log) ? readFileSync(log, 'utf8').slice(-2000) : ''}`);
}

/** The server and its child processes; the server is stopped, so that it forks no more. */
function processes() {
  const postmaster = Number(readFileSync(`${data}/postmaster.pid`, 'utf8').split('\n')[0]);
  process.kill(postmaster, 'SIGSTOP');
  while (!'TZ'.includes(stateOf(postmaster)));
  const children = readdirSync('/proc').filter((name) => {
    try {
      return /^\d+$/.test(name) && Number(readFileSync(`/proc/${name}/stat`, 'utf8').replace(/^.*\) /, '').split(' ')[1]) === postmaster;
    } catch {
      return false; // it just ended
    }
  });
  return [postmaster, ...children.map(Number)];
}

function signal(name, pids = processes()) {
  for (const pid of pids) {
    try {
      process.kill(pid, name);
    } catch (error) {
      if (error.code !== 'ESRCH') throw error;
    }
  }
}

/** Kills every process at once, as if the machine crashed: data that were not written are lost. */
export async function killDatabase() {
  const pids = processes();
  signal('SIGKILL', pids);
  await until('its processes have ended', () => pids.every((pid) => stateOf(pid) === 'Z'));
  // Zombies that have not been reaped yet would look alive.
  for (const lock of [`${data}/postmaster.pid`, `${socket}/.s.PGSQL.5432.lock`]) rmSync(lock, { force: true });
}
export const startDatabase = () => control('start', '-l', `${data}/again.log`);
/** It sends nothing, and its connections stay open. */
export const freezeDatabase = () => signal('SIGSTOP');
export const thawDatabase = () => signal('SIGCONT');
