// SPDX-License-Identifier: Apache-2.0
// Starts the real binary on a free port with its own directory, and stops it again.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { storeSettings, storeUrl } from './backend.mjs';

const root = fileURLToPath(new URL('../../..', import.meta.url));
export const binary = process.env.HF_BIN ?? path.join(root, 'build/debug/holdfast');

/** Whether the program was built with the address sanitizer, which makes each new process several times as expensive. */
export const sanitized = () => readFileSync(binary).includes('__asan_init');

const live = new Set();
const directories = [];
process.on('exit', () => {
  for (const server of live) server.process.kill('SIGKILL');
  if (process.env.HF_KEEP) return;
  // A server that was killed just now may still be writing.
  for (const directory of directories) rmSync(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
});

/** A directory that is removed when the process ends; HF_KEEP=1 keeps it for inspection. */
export function temporaryDirectory() {
  const directory = mkdtempSync(path.join(tmpdir(), 'holdfast-e2e-'));
  directories.push(directory);
  return directory;
}

// A sanitizer finding must not look like an ordinary exit.
const sanitizer = {
  ASAN_OPTIONS: 'detect_stack_use_after_return=1:exitcode=99:abort_on_error=0',
  UBSAN_OPTIONS: 'print_stacktrace=1:exitcode=99',
};

/**
 * backend: 'sqlite' | 'memory' | 'fault+sqlite' | 'fault+memory', or a URL (see backend.mjs);
 * '' uses the settings. `args` and `env` are added;
 * `data` keeps an existing directory (a restart); `via` is a command that executes the server;
 * `spawned` gets the server before it is ready. Resolves when the server says that it listens.
 */
export async function startServer({ backend = 'sqlite', args = [], env = {}, data = null, listen = '127.0.0.1:0', via = [], spawned = () => {} } = {}) {
  const dir = data ?? temporaryDirectory();
  const store = backend ? ['--backend', storeUrl(backend, dir)] : [];
  const [file, ...words] = [...via, binary, 'serve', '--listen', listen, '--data', dir, ...store, ...args];
  // Small segments are used again soon; lists must show what was just done, however slow the disk.
  const settings = { HOLDFAST_JOURNAL_SEGMENT_BYTES: '1MiB', HOLDFAST_TIMEOUTS_LIST_WAIT_MS: '30s', ...storeSettings };
  const child = spawn(file, words, {
    env: { ...process.env, ...sanitizer, ...settings, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const server = { process: child, pid: child.pid, data: dir, ownsData: data === null, stdout: '', stderr: '', backend };
  live.add(server);
  child.stderr.on('data', (chunk) => (server.stderr += chunk));
  server.exited = new Promise((resolve) => {
    child.on('exit', (code, signal) => {
      live.delete(server);
      server.exit = { code, signal };
      resolve(server.exit);
    });
  });
  /** The process has ended, and all its output has been read. */
  server.closed = new Promise((resolve) => child.on('close', () => resolve(server.exit)));
  spawned(server);
  await new Promise((resolve, reject) => {
    child.stdout.on('data', (chunk) => {
      server.stdout += chunk;
      const ready = server.stdout.match(/^listening on (\S+)\n/m);
      if (ready) {
        server.url = ready[1];
        resolve();
      }
    });
    server.closed.then(({ code, signal }) =>
      reject(new Error(`the server ended before it was ready (${code ?? signal})\n${server.stderr}`)),
    );
  });
  if (/^https?:/.test(server.url)) {
    const { hostname, port } = new URL(server.url);
    server.host = hostname.replace(/^\[|\]$/g, '');
    server.port = Number(port);
  }
  return server;
}

/** Sends SIGTERM; fails if the server does not end cleanly. All its output has been read then. */
export async function stopServer(server) {
  if (!server.exit) server.process.kill('SIGTERM');
  await server.closed;
  if (server.ownsData) rmSync(server.data, { recursive: true, force: true });
  if (server.exit.code !== 0) {
    throw new Error(`exit ${server.exit.code ?? server.exit.signal}\n${server.stderr}`);
  }
}

/** Sends SIGKILL, like a crash; the data directory is kept. */
export async function killServer(server) {
  server.process.kill('SIGKILL');
  await server.closed;
}

// Freed memory that a sanitizer keeps would count as memory of the server.
export const leanSanitizer = { ASAN_OPTIONS: 'detect_stack_use_after_return=0:exitcode=99:abort_on_error=0:quarantine_size_mb=0:thread_local_quarantine_size_kb=0' };
/** The resident memory of the server, in MiB. */
export const residentMiB = (server) => Number(readFileSync(`/proc/${server.pid}/status`, 'utf8').match(/^VmRSS:\s+(\d+)/m)[1]) / 1024;
/** Processor time that the server has used, in seconds. */
export function processorSeconds(server) {
  const fields = readFileSync(`/proc/${server.pid}/stat`, 'utf8').replace(/^.*\) /, '').split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Polls a condition that becomes true by itself. The limit only ends a test that fails: a busy machine stays
 * well below it. */
export async function until(what, condition, limitMs = 60_000) {
  const end = Date.now() + limitMs;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (Date.now() > end) throw new Error(`never happened: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

/** Waits for a line in the log: it may arrive a moment later than the reply to the request that caused it. */
export const logged = (server, pattern) => until(`a line like ${pattern} in the log`, () => server.stderr.match(pattern));
