// SPDX-License-Identifier: Apache-2.0
// Servers as process groups of their own: started on free loopback ports with a directory each,
// frozen while another is measured, ended by their ids, also when this program is interrupted.
import { execFile, execFileSync, spawn } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import { promisify } from 'node:util';

// Debian puts some servers where only root looks.
process.env.PATH = `${process.env.PATH}:/usr/sbin:/usr/local/sbin`;

const live = new Set();
const helpers = new Set();
const directories = new Set();

function signalGroup(child, signal) {
  try {
    process.kill(-child.pid, signal);
  } catch (problem) {
    if (problem.code !== 'ESRCH') throw problem;
  }
}

/** Ends everything at once; for the end of this program. */
export function endAll() {
  for (const child of live) signalGroup(child, 'SIGKILL');
  for (const child of helpers) child.kill('SIGKILL');
  for (const directory of directories) rmSync(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  directories.clear();
}
process.on('exit', endAll);
for (const [signal, status] of [['SIGINT', 130], ['SIGTERM', 143], ['SIGHUP', 129]]) {
  process.on(signal, () => {
    process.stderr.write('\ninterrupted: servers are stopped, directories removed\n');
    process.exit(status);
  });
}

/** A directory below `base` that goes with removeDirectory, or with this program. */
export function makeDirectory(base, name) {
  mkdirSync(base, { recursive: true });
  const directory = mkdtempSync(path.join(base, `${name}-`));
  chmodSync(directory, 0o755); // PostgreSQL may run as another user
  directories.add(directory);
  return directory;
}

export function removeDirectory(directory) {
  rmSync(directory, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
  directories.delete(directory);
}

function isFree(port) {
  return new Promise((resolve) => {
    const server = net.createServer().once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)));
  });
}

/** Below the range from which the kernel takes ports for outgoing connections, so that none of the
 * load's own takes it before the server does. */
export async function freePort() {
  for (;;) {
    const port = 10000 + Math.floor(Math.random() * 20000);
    if (await isFree(port)) return port;
  }
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function answers(port) {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1');
    socket.once('connect', () => (socket.destroy(), resolve(true)));
    socket.once('error', () => resolve(false));
  });
}

/** What a server wrote last, for an error message. */
export function logTail(file) {
  try {
    return readFileSync(file, 'utf8').trim().split('\n').slice(-15).join('\n');
  } catch {
    return '';
  }
}

/**
 * Starts a server in its own process group; its output goes to DIRECTORY/NAME.log. `user`
 * {uid, gid} is the user that it runs as.
 */
export function startProcess(name, directory, command, { env = {}, user = {} } = {}) {
  const log = path.join(directory, `${name}.log`);
  const fd = openSync(log, 'a');
  const child = spawn(command[0], command.slice(1), {
    cwd: directory,
    detached: true,
    env: { ...process.env, ...env },
    stdio: ['ignore', fd, fd],
    ...user,
  });
  const server = { name, child, log, pid: child.pid, ended: null };
  live.add(child);
  server.exited = new Promise((resolve) => {
    child.once('error', (problem) => {
      live.delete(child);
      server.ended = problem.message;
      resolve();
    });
    child.once('exit', (code, signal) => {
      live.delete(child);
      server.ended = `ended with ${code ?? signal}`;
      resolve();
    });
  });
  return server;
}

/** As execFile, of a program that does not outlive this one. */
export async function runProgram(file, args, options) {
  const running = promisify(execFile)(file, args, options);
  helpers.add(running.child);
  try {
    return await running;
  } finally {
    helpers.delete(running.child);
  }
}

/** Waits until the port answers and `ready`, if given, says so too. */
export async function untilAnswers(server, port, { seconds = 60, ready = async () => true } = {}) {
  const end = Date.now() + seconds * 1000;
  while (Date.now() < end) {
    if (server.ended) throw new Error(`${server.name} ${server.ended} before it was ready:\n${logTail(server.log)}`);
    if ((await answers(port)) && (await ready())) return;
    await pause(30);
  }
  throw new Error(`${server.name} did not answer on port ${port} within ${seconds} s:\n${logTail(server.log)}`);
}

export function freeze(server) {
  signalGroup(server.child, 'SIGSTOP');
}
export function thaw(server) {
  signalGroup(server.child, 'SIGCONT');
}

/** Asks the server to end, then insists. */
export async function stopProcess(server, signal = 'SIGTERM') {
  if (server.ended) return;
  thaw(server);
  try {
    process.kill(server.pid, signal);
  } catch {}
  const insist = setTimeout(() => signalGroup(server.child, 'SIGKILL'), 15000);
  await server.exited;
  clearTimeout(insist);
  signalGroup(server.child, 'SIGKILL'); // what it may have left behind in its group
}

/** The first line that a command prints, or '' when there is no such command. */
export function firstLine(file, args, pattern = /.*/) {
  try {
    const text = execFileSync(file, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
    return text.match(pattern)?.[0].trim() ?? '';
  } catch {
    return '';
  }
}
