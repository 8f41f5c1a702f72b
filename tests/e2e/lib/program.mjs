// SPDX-License-Identifier: Apache-2.0
// The program as a user runs it, and its table of routes.
import { spawn } from 'node:child_process';

import { binary } from './server.mjs';

/** Runs any program to its end: {code, stdout, stderr}. `spawned` gets the process when it is there. */
export function execute(file, args, { env = {}, input = '', spawned = () => {} } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(file, args, { env: { ...process.env, ...env }, stdio: ['pipe', 'pipe', 'pipe'] });
    const out = { stdout: '', stderr: '' };
    child.stdout.setEncoding('utf8').on('data', (chunk) => (out.stdout += chunk));
    child.stderr.setEncoding('utf8').on('data', (chunk) => (out.stderr += chunk));
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code: code ?? signal, ...out }));
    child.stdin.on('error', () => {}); // it may end without reading everything
    child.stdin.end(input);
    spawned(child);
  });
}

/** Runs Holdfast to its end. */
export const run = (args, options) => execute(binary, args, options);

/** The table of routes: [{method, pattern, scope}]. */
export async function routes() {
  const { code, stdout } = await run(['help', 'routes']);
  const rows = [...stdout.matchAll(/^\| ([A-Z]+) \| `(\S+)` \| (\w+) \|/gm)];
  if (code !== 0 || rows.length < 20) throw new Error(`help routes: ${code}\n${stdout}`);
  return rows.map(([, method, pattern, scope]) => ({ method, pattern, scope }));
}
