// SPDX-License-Identifier: Apache-2.0
// `holdfast work` as a process of a test, and the processes that it starts.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import http from 'node:http';
import net from 'node:net';

import { binary, until } from './server.mjs';

const live = new Set();
process.on('exit', () => {
  for (const child of live) child.kill('SIGKILL');
});

/**
 * Starts a runner: {process, stderr, exited}; exited resolves to {code, signal}, with all of stderr there. `before` is a
 * command that executes the one after it.
 */
export function startWork(server, args, { env = {}, before = [] } = {}) {
  const [program, ...words] = [...before, binary, 'work', '--server', server.url, ...args];
  const child = spawn(program, words, { env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'pipe'] });
  const runner = { process: child, stderr: '' };
  live.add(child);
  child.stderr.setEncoding('utf8').on('data', (chunk) => (runner.stderr += chunk));
  runner.exited = new Promise((resolve) =>
    child.on('close', (code, signal) => {
      live.delete(child);
      resolve((runner.exit = { code, signal }));
    }),
  );
  /** A line of its log. */
  runner.logged = (pattern) =>
    until(`a line like ${pattern} in the log of the runner\n${runner.stderr}`, () => runner.stderr.match(pattern) ?? (runner.exit && (() => { throw new Error(`it ended\n${runner.stderr}`); })()));
  runner.stop = async () => {
    if (!runner.exit) child.kill('SIGTERM');
    return runner.exited;
  };
  return runner;
}

/** Runs it to its end: {code, stderr}. */
export async function runWork(server, args, options) {
  const runner = startWork(server, args, options);
  const { code, signal } = await runner.exited;
  return { code: code ?? signal, stderr: runner.stderr };
}

export const job = async (api, id) => (await api.get(`/v1/jobs/${id}`)).json;
/** Waits until the job is in the state. */
export const stateOf = (api, id, state) =>
  until(`job ${id} is ${state}`, async () => {
    const one = await job(api, id);
    return one.state === state ? one : null;
  });

/** Waits until the lease of a running job has been renewed for this long; fails if the job starts another attempt. */
export async function renewedFor(api, id, ms) {
  const first = Date.parse((await stateOf(api, id, 'running')).lease_until);
  await until(`the lease of job ${id} is renewed for ${ms} ms`, async () => {
    const { attempts, lease_until } = await job(api, id);
    if (attempts > 1) throw new Error(`the lease was lost: attempt ${attempts}`);
    return Date.parse(lease_until) >= first + ms;
  });
}

/** The process id that a process has written into a file. */
export const pidIn = (file) => until(`a pid in ${file}`, () => existsSync(file) && Number(readFileSync(file, 'utf8').trim()));
/** Whether a process exists and is not a zombie. */
export function alive(pid) {
  try {
    return !/^\d+ \(.*\) [ZX]/s.test(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return false;
  }
}
export const gone = (pid) => until(`process ${pid} has ended`, () => !alive(pid));

/** Waits in a shell script until the file exists. */
export const waitFor = (file) => `while [ ! -e ${file} ]; do sleep 0.05; done`;

/**
 * An HTTP server between a runner and its server: {url, close}. hook(request, body, forward) answers with
 * {status, headers, raw}; forward() gets the answer of the server.
 */
export async function startHook(api, hook) {
  const server = http.createServer((request, response) => {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', async () => {
      const body = Buffer.concat(chunks);
      const forward = () => api.once(request.method, request.url, { body: body.length ? body : undefined, headers: { 'content-type': 'application/json' } });
      const answer = await hook(request, body, forward);
      response.writeHead(answer.status, { 'content-type': 'application/json', ...answer.extra }).end(answer.raw);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const close = () => {
    server.closeAllConnections?.();
    server.close();
  };
  return { url: `http://127.0.0.1:${server.address().port}`, close };
}

/** A TCP proxy: {url, swallow, close}. swallow() makes the present connections silent; new ones work. */
export async function startTcpProxy(server) {
  const pairs = [];
  const listener = net.createServer((near) => {
    const pair = { near, far: net.connect(server.port, '127.0.0.1'), silent: false };
    pairs.push(pair);
    for (const [from, to] of [[near, pair.far], [pair.far, near]]) {
      from.on('error', () => {});
      from.on('data', (chunk) => pair.silent || to.write(chunk));
      from.on('close', () => pair.silent || to.destroy());
    }
  });
  await new Promise((resolve) => listener.listen(0, '127.0.0.1', resolve));
  const swallow = () => pairs.forEach((pair) => (pair.silent = true));
  const close = () => {
    for (const { near, far } of pairs) near.destroy() && far.destroy();
    listener.close();
  };
  return { url: `http://127.0.0.1:${listener.address().port}`, swallow, close };
}
