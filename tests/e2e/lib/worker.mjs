// SPDX-License-Identifier: Apache-2.0
// `holdfast work` as a process of a test, and the processes that it starts.
import { spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';

import { binary, until } from './server.mjs';

const live = new Set();
process.on('exit', () => {
  for (const child of live) child.kill('SIGKILL');
});

/** Starts a runner: {process, stderr, exited}; exited resolves to {code, signal}, with all of stderr there. */
export function startWork(server, args, { env = {} } = {}) {
  const child = spawn(binary, ['work', '--server', server.url, ...args], { env: { ...process.env, ...env }, stdio: ['ignore', 'ignore', 'pipe'] });
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
