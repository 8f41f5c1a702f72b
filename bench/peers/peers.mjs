// SPDX-License-Identifier: Apache-2.0
// The servers that are compared: how each is started, in which modes, and what it is spoken to with.
//
//   durable   a confirm means that the disk was synced
//   relaxed   the disk is synced soon afterwards, or never
import { execFileSync } from 'node:child_process';
import { chownSync, existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';

import { firstLine, freePort, makeDirectory, removeDirectory, startProcess, stopProcess, untilAnswers } from './processes.mjs';

const here = path.dirname(new URL(import.meta.url).pathname);
export const root = path.resolve(here, '../..');
export const holdfastBinary = path.resolve(process.env.HOLDFAST ?? path.join(root, 'build/release/holdfast'));
export const loadBinary = path.resolve(process.env.PEERLOAD ?? path.join(root, 'build/release/bench/peers/peerload'));
const nullBinary = path.join(path.dirname(loadBinary), 'peernull');

// ---- how each is started: (mode, directory) => {port, servers, load} ----

async function startNull(mode, directory) {
  const port = await freePort();
  const server = startProcess('null', directory, [nullBinary, String(port)]);
  await untilAnswers(server, port);
  return { port, servers: [server] };
}

/** Both APIs; `port` is that of the one which is measured. */
export const startHoldfast = (api, settings = {}, binary = holdfastBinary) => async (mode, directory) => {
  const [http, beanstalk] = [await freePort(), await freePort()];
  const server = startProcess(
    'holdfast',
    directory,
    [binary, 'serve', '--listen', `127.0.0.1:${http}`, '--beanstalk', `127.0.0.1:${beanstalk}`, '--data', path.join(directory, 'data')],
    { env: { ...(mode === 'relaxed' ? { HOLDFAST_QUEUE_DEFAULTS_DURABILITY: 'relaxed' } : {}), ...settings } },
  );
  await untilAnswers(server, http);
  await untilAnswers(server, beanstalk);
  return { port: api === 'http' ? http : beanstalk, servers: [server] };
};

async function startRedis(mode, directory) {
  const port = await freePort();
  const sync = mode === 'relaxed' ? 'everysec' : 'always';
  const server = startProcess('redis', directory, [
    'redis-server', '--port', String(port), '--bind', '127.0.0.1', '--dir', directory, '--save', '', '--appendonly', 'yes',
    '--appendfsync', sync, '--maxmemory-policy', 'noeviction', '--daemonize', 'no',
  ]);
  const ready = async () => firstLine('redis-cli', ['-h', '127.0.0.1', '-p', String(port), 'INFO', 'server'], /process_id:\d+/) === `process_id:${server.pid}`;
  await untilAnswers(server, port, { ready });
  return { port, servers: [server] };
}

/** Holdfast on a server that no other program uses here; both are measured. */
const startOn = (startServer, url) => async (mode, directory) => {
  const below = await startServer(mode, directory);
  const above = await startHoldfast('beanstalk', { HOLDFAST_BACKEND: url(below.port) })(mode, directory);
  return { port: above.port, servers: [...above.servers, ...below.servers], stopSignal: 'SIGINT' };
};

async function startBeanstalkd(mode, directory) {
  const port = await freePort();
  const binlog = path.join(directory, 'binlog');
  mkdirSync(binlog, { recursive: true });
  const server = startProcess('beanstalkd', directory, [
    'beanstalkd', '-l', '127.0.0.1', '-p', String(port), '-b', binlog, ...(mode === 'relaxed' ? ['-f', '1000'] : ['-f', '0']),
  ]);
  await untilAnswers(server, port);
  return { port, servers: [server] };
}

async function startRabbitmq(mode, directory) {
  const [port, distribution, names] = [await freePort(), await freePort(), await freePort()];
  // RabbitMQ would leave a name server of its own behind.
  const epmd = startProcess('epmd', directory, ['epmd', '-port', String(names), '-address', '127.0.0.1']);
  await untilAnswers(epmd, names);
  writeFileSync(path.join(directory, 'rabbitmq.conf'), 'vm_memory_high_watermark.relative = 0.6\ndisk_free_limit.absolute = 50MB\n');
  writeFileSync(path.join(directory, 'enabled_plugins'), '[].\n');
  const server = startProcess('rabbitmq', directory, [existsSync('/usr/lib/rabbitmq/bin/rabbitmq-server') ? '/usr/lib/rabbitmq/bin/rabbitmq-server' : 'rabbitmq-server'], {
    env: {
      HOME: directory,
      ERL_EPMD_PORT: String(names),
      ERL_EPMD_ADDRESS: '127.0.0.1',
      RABBITMQ_NODENAME: `holdfast-bench-${port}@localhost`,
      RABBITMQ_NODE_IP_ADDRESS: '127.0.0.1',
      RABBITMQ_NODE_PORT: String(port),
      RABBITMQ_DIST_PORT: String(distribution),
      RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: '-kernel inet_dist_use_interface {127,0,0,1}',
      RABBITMQ_MNESIA_BASE: path.join(directory, 'mnesia'),
      RABBITMQ_LOG_BASE: directory,
      RABBITMQ_PID_FILE: path.join(directory, 'pid'),
      RABBITMQ_ENABLED_PLUGINS_FILE: path.join(directory, 'enabled_plugins'),
      RABBITMQ_CONFIG_FILE: path.join(directory, 'rabbitmq.conf'),
      RABBITMQ_FEATURE_FLAGS_FILE: path.join(directory, 'feature_flags'),
    },
  });
  await untilAnswers(server, port, { seconds: 90 });
  return { port, servers: [server, epmd], measured: [server] };
}

async function startNats(mode, directory) {
  const port = await freePort();
  const server = startProcess('nats', directory, ['nats-server', '-a', '127.0.0.1', '-p', String(port), '-js', '-sd', path.join(directory, 'jetstream')]);
  await untilAnswers(server, port);
  return { port, servers: [server] };
}

async function startGearmand(mode, directory) {
  const port = await freePort();
  const root = process.getuid() === 0 ? ['--user=root'] : [];
  const server = startProcess('gearmand', directory, [
    'gearmand', '--listen=127.0.0.1', `--port=${port}`, `--log-file=${directory}/gearmand-own.log`, `--pid-file=${directory}/pid`, ...root,
  ]);
  await untilAnswers(server, port);
  return { port, servers: [server] };
}

// ---- PostgreSQL ----

function postgresTool(name) {
  const versions = existsSync('/usr/lib/postgresql') ? readdirSync('/usr/lib/postgresql').sort((a, b) => b - a) : [];
  return versions.map((v) => `/usr/lib/postgresql/${v}/bin/${name}`).find(existsSync) ?? name;
}

/** PostgreSQL does not run as root. */
function postgresUser() {
  if (process.getuid() !== 0) return {};
  const [, , uid, gid] = readFileSync('/etc/passwd', 'utf8').match(/^postgres:.*$/m)?.[0].split(':') ?? [];
  if (!uid) throw new Error('PostgreSQL does not run as root, and there is no user postgres');
  return { uid: Number(uid), gid: Number(gid) };
}

async function startPostgres(mode, directory) {
  const port = await freePort();
  const user = postgresUser();
  const data = path.join(directory, 'data');
  if (!existsSync(data)) {
    mkdirSync(data, { mode: 0o700 });
    if (user.uid !== undefined) chownSync(data, user.uid, user.gid);
    try {
      execFileSync(postgresTool('initdb'), ['-D', data, '-U', 'postgres', '-A', 'trust', '-E', 'UTF8', '--locale=C', '--no-sync'], { cwd: '/', stdio: 'pipe', ...user });
    } catch (problem) {
      throw new Error(`initdb failed; if its user cannot reach the directory, name another with DIR=…\n${problem.stderr ?? problem.message}`);
    }
  }
  const settings = [
    'fsync=on', `synchronous_commit=${mode === 'relaxed' ? 'off' : 'on'}`, 'listen_addresses=127.0.0.1', `unix_socket_directories=`,
    'shared_buffers=256MB', 'max_wal_size=4GB', 'max_connections=200', 'logging_collector=off',
  ];
  const server = startProcess('postgres', directory, [postgresTool('postgres'), '-D', data, '-p', String(port), ...settings.flatMap((s) => ['-c', s])], { user });
  const ready = async () => firstLine('psql', ['-h', '127.0.0.1', '-p', String(port), '-U', 'postgres', '-tAc', 'select 1'], /1/) === '1';
  await untilAnswers(server, port, { ready });
  return { port, servers: [server], stopSignal: 'SIGINT' }; // fast shutdown
}

function resetPostgres(instance) {
  const sql = 'DROP TABLE IF EXISTS jobs; DROP SCHEMA IF EXISTS pgboss CASCADE; DROP SCHEMA IF EXISTS graphile_worker CASCADE; CHECKPOINT';
  for (const statement of sql.split(';'))
    execFileSync('psql', ['-h', '127.0.0.1', '-p', String(instance.port), '-U', 'postgres', '-qc', statement], { stdio: 'pipe' });
}

// ---- the table ----

const versions = {
  holdfast: () => firstLine(holdfastBinary, ['--version']),
  redis: () => firstLine('redis-server', ['--version'], /v=[\d.]+/).replace('v=', 'Redis '),
  beanstalkd: () => firstLine('beanstalkd', ['-v']),
  rabbitmq: () => firstLine('dpkg-query', ['-W', '-f=${Version}', 'rabbitmq-server'], /^[^-]+/).replace(/^/, 'RabbitMQ '),
  postgres: () => firstLine(postgresTool('postgres'), ['--version'], /[\d.]+/).replace(/^/, 'PostgreSQL '),
  nats: () => firstLine('nats-server', ['--version'], /v?[\d.]+/).replace(/^/, 'NATS '),
  gearmand: () => firstLine('gearmand', ['--version'], /gearmand \S+/),
  npm: (name) => () => {
    const file = path.join(here, 'node_modules', name, 'package.json');
    return existsSync(file) ? `${name} ${JSON.parse(readFileSync(file, 'utf8')).version}` : '';
  },
};

const apis = { beanstalk: 'beanstalk port', http: 'HTTP' };
const both = { durable: 'fsync', relaxed: 'durability relaxed' };
const redisModes = { durable: 'appendfsync always', relaxed: 'appendfsync everysec' };
const allHistory = { HOLDFAST_QUEUE_DEFAULTS_KEEP_DONE: 'all', HOLDFAST_QUEUE_DEFAULTS_KEEP_DONE_MS: 'all' };

/**
 * modes: what durable and relaxed mean here. standing: what W4 can keep standing: 'priorities and
 * delays' or 'ready jobs'. program: a node program instead of peerload. kept: started once, frozen
 * while others run, since its start takes seconds. fill: the mode in which it is filled, where
 * syncing each job would take minutes. retention: what is left of a job that is done.
 */
export const peers = [
  { name: 'null', label: 'null server (ceiling)', version: () => '', protocol: 'beanstalk', start: startNull, modes: { durable: 'does nothing', relaxed: 'does nothing' }, retention: 'nothing' },
  { name: 'holdfast', label: `Holdfast, ${apis.beanstalk}`, version: versions.holdfast, protocol: 'beanstalk', start: startHoldfast('beanstalk'), modes: both, standing: 'priorities and delays', memory: true, retention: 'nothing (the API keeps no done jobs)' },
  { name: 'holdfast-http', label: `Holdfast, ${apis.http}`, version: versions.holdfast, protocol: 'http', start: startHoldfast('http'), modes: both, standing: 'priorities and delays', retention: 'default: 10,000 done jobs, 24 h' },
  { name: 'holdfast-history', label: `Holdfast, ${apis.http}, all history`, version: versions.holdfast, protocol: 'http', start: startHoldfast('http', allHistory), modes: { durable: 'fsync' }, cells: ['w2', 'w3'], retention: 'every done job' },
  { name: 'holdfast-postgres', label: 'Holdfast on PostgreSQL, beanstalk port', version: versions.holdfast, protocol: 'beanstalk', start: startOn(startPostgres, (port) => `postgres://postgres@127.0.0.1:${port}/postgres`), modes: { durable: 'synchronous_commit on' }, cells: ['w1', 'w2', 'w3'], retention: 'nothing (the API keeps no done jobs)' },
  { name: 'holdfast-redis', label: 'Holdfast on Redis, beanstalk port', version: versions.holdfast, protocol: 'beanstalk', start: startOn(startRedis, (port) => `redis://127.0.0.1:${port}`), modes: { durable: 'appendfsync always' }, cells: ['w1', 'w2', 'w3'], retention: 'nothing (the API keeps no done jobs)' },
  { name: 'redis-list', label: 'Redis list', version: versions.redis, protocol: 'redis-list', start: startRedis, modes: redisModes, standing: 'ready jobs', memory: true, retention: 'nothing; no lease, no priority, no delay' },
  { name: 'redis-stream', label: 'Redis stream', version: versions.redis, protocol: 'redis-stream', start: startRedis, modes: redisModes, standing: 'ready jobs', memory: true, retention: 'nothing (XDEL); no priority, no delay' },
  { name: 'beanstalkd', label: 'beanstalkd', version: versions.beanstalkd, protocol: 'beanstalk', start: startBeanstalkd, modes: { durable: '-f 0', relaxed: '-f 1000 (each second)' }, standing: 'priorities and delays', fill: 'relaxed', memory: true, retention: 'nothing' },
  { name: 'rabbitmq-classic', label: 'RabbitMQ classic', version: versions.rabbitmq, protocol: 'amqp', load: ['--kind', 'classic'], start: startRabbitmq, kept: 'rabbitmq', modes: { durable: 'durable queue, persistent, confirms' }, memory: true, retention: 'nothing' },
  { name: 'rabbitmq-quorum', label: 'RabbitMQ quorum', version: versions.rabbitmq, protocol: 'amqp', load: ['--kind', 'quorum'], start: startRabbitmq, kept: 'rabbitmq', modes: { durable: 'one replica, confirms' }, memory: true, retention: 'nothing' },
  { name: 'postgres', label: 'PostgreSQL SKIP LOCKED', version: versions.postgres, protocol: 'postgres', start: startPostgres, reset: resetPostgres, kept: 'postgres', modes: { durable: 'synchronous_commit on', relaxed: 'synchronous_commit off' }, standing: 'priorities and delays', memory: 'disk', retention: 'nothing (DELETE)' },
  { name: 'nats', label: 'NATS JetStream', version: versions.nats, protocol: 'nats', start: startNats, modes: { relaxed: 'file storage, synced each 2 min' }, standing: 'ready jobs', memory: true, retention: 'nothing (work queue)' },
  { name: 'gearmand', label: 'gearmand', version: versions.gearmand, protocol: 'gearman', start: startGearmand, modes: { relaxed: 'memory only' }, standing: 'ready jobs', memory: true, retention: 'nothing' },
  { name: 'bullmq', label: 'BullMQ', version: versions.npm('bullmq'), program: 'bullmq.mjs', start: startRedis, modes: redisModes, retention: 'nothing (removeOnComplete)' },
  { name: 'pg-boss', label: 'pg-boss', version: versions.npm('pg-boss'), program: 'pgboss.mjs', start: startPostgres, reset: resetPostgres, kept: 'postgres', modes: { durable: 'synchronous_commit on' }, retention: 'its default: done jobs for 12 h' },
  { name: 'graphile-worker', label: 'graphile-worker', version: versions.npm('graphile-worker'), program: 'graphile.mjs', start: startPostgres, reset: resetPostgres, kept: 'postgres', modes: { durable: 'synchronous_commit on' }, retention: 'nothing' },
];

/** Peers by name; `redis` stands for every redis-…. A name that is none is an error. */
export function choosePeers(names) {
  if (names.length === 0) return peers;
  const chosen = new Set();
  for (const name of names) {
    const found = peers.filter((peer) => peer.name === name || peer.name.startsWith(`${name}-`));
    if (found.length === 0) throw new Error(`there is no peer '${name}'; there are ${peers.map((p) => p.name).join(' ')}`);
    for (const peer of found) chosen.add(peer);
  }
  return peers.filter((peer) => chosen.has(peer));
}

// ---- instances ----

/** A running server with its directory; `again` starts on the directory of an earlier one. */
export async function openInstance(peer, mode, base, again = null) {
  const directory = again?.directory ?? makeDirectory(base, peer.name);
  let started;
  for (let tries = 1; !started; tries++) {
    try {
      started = await peer.start(mode, directory);
    } catch (problem) {
      // Somebody else may have taken the port in between.
      if (tries === 3 || !/in use|bind/i.test(problem.message)) throw problem;
    }
  }
  const measured = started.measured ?? started.servers;
  return { peer, mode, directory, ...started, pids: measured.map((server) => server.pid).join(',') };
}

export async function closeInstance(instance, { keep = false } = {}) {
  for (const server of instance.servers) await stopProcess(server, instance.stopSignal);
  if (!keep) removeDirectory(instance.directory);
}
