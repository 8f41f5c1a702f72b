// SPDX-License-Identifier: Apache-2.0
// The private Redis server that scripts/with-redis started: commands, and faults. A test file that imports
// this runs itself with that script.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { until } from '../../e2e/lib/server.mjs';
import { stateOf } from './process.mjs';

if (!process.env.HF_REDIS) {
  const wrapper = fileURLToPath(new URL('../../../scripts/with-redis', import.meta.url));
  process.exit(spawnSync(wrapper, ['node', ...process.execArgv, process.argv[1]], { stdio: 'inherit' }).status ?? 1);
}

const home = process.env.HF_REDIS_DIR;
const file = (name) => path.join(home, name);
/** Its Unix socket. */
export const socket = file('redis.sock');

function ask(form, words) {
  const run = spawnSync('redis-cli', ['-s', socket, form, ...words.map(String)], { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  return run.stdout.trim();
}
/** The reply to one command; redisText: as text in which any byte can be read. */
export const redis = (...words) => JSON.parse(ask('--json', words));
export const redisText = (...words) => ask('--no-raw', words);

/** The URL of a store with its own prefix; through: the port of a proxy, or a host and its port. */
export function url(prefix, through) {
  const at = typeof through === 'number' ? `127.0.0.1:${through}` : through;
  return `${at ? `redis://${at}/0` : process.env.HF_REDIS}?prefix=${prefix}:`;
}

const pidOf = () => Number(readFileSync(file('redis.pid'), 'utf8'));
const answers = () => spawnSync('redis-cli', ['-s', socket, 'PING'], { encoding: 'utf8' }).stdout.trim() === 'PONG';

/** Kills Redis: data that it has not written are lost. */
export async function killRedis() {
  const pid = pidOf();
  process.kill(pid, 'SIGKILL');
  await until('Redis is gone', () => stateOf(pid) === 'Z');
}

export async function startRedis() {
  assert.equal(spawnSync('redis-server', [file('redis.conf')], { stdio: 'ignore' }).status, 0);
  await until('Redis answers', answers);
}

/** It sends nothing, and its connections stay open. */
export const freezeRedis = () => process.kill(pidOf(), 'SIGSTOP');
export const thawRedis = () => process.kill(pidOf(), 'SIGCONT');

/** The store for lib/load.mjs and lib/leading.mjs. */
export const storeAt = (prefix) => ({
  url: url(prefix),
  leader: () => {
    const [holder, epoch] = redis('HMGET', `${prefix}:meta`, 'leader', 'leader_epoch');
    return { holder, epoch: Number(epoch) };
  },
  endLead: () => redis('HSET', `${prefix}:meta`, 'leader', 0, 'leader_until', 0),
  jobs: () => redisText('HGETALL', `${prefix}:row`),
  kill: killRedis,
  start: startRedis,
  freeze: freezeRedis,
  thaw: thawRedis,
});

/** The keys of a queue with limits at the claim (unit/limits.c): every ready job has its place, and no slot is in use. */
function checkLimits(prefix, queue, ready) {
  const key = (name) => `${prefix}:q:${queue}:${name}`;
  const size = (name) => redis('ZCARD', key(name));
  const order = redis('HGET', key('l'), 'order');
  const groups = redis('HLEN', key('k'));
  assert.equal(size('s'), 0, `queue ${queue}: slots are in use`);
  assert.equal(size('r'), order ? ready : 0, `queue ${queue}: ready jobs in the order`);
  assert.ok(size('p') + size('f') <= groups && size('p') + size('f') + size('w') >= groups, `queue ${queue}: places of ${groups} groups`);
}

/** The keys must be consistent: each job is in one index by state and holds at most one unique key, and no job is running
 * or held. */
export function checkIndexes(prefix) {
  let rows = 0;
  for (const queue of redis('HVALS', `${prefix}:names`)) {
    const sizes = [1, 2, 3, 4, 5, 6, 7, 'all'].map((index) => redis('ZCARD', `${prefix}:q:${queue}:${index}`));
    const all = sizes.pop();
    assert.equal(sizes.reduce((sum, n) => sum + n, 0), all, `queue ${queue}: ${sizes} of ${all}`);
    assert.equal(sizes[2], 0, 'running');
    checkLimits(prefix, queue, sizes[1]);
    const holders = redisText('HVALS', `${prefix}:q:${queue}:u`).split('\n').map((line) => line.replace(/^\d+\) /, ''));
    assert.equal(new Set(holders).size, holders.length, `queue ${queue}: a job holds two keys`);
    rows += all;
  }
  assert.equal(redis('HLEN', `${prefix}:row`), rows);
  assert.deepEqual(redis('ZRANGE', `${prefix}:holds`, 0, -1), []);
  assert.deepEqual(redis('SMEMBERS', `${prefix}:ordering`), []);
}
