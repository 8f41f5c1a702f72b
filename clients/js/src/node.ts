// SPDX-License-Identifier: Apache-2.0
// What only Node can do: signals of the process, and servers on Unix sockets.
import http from 'node:http';

import type { Fetch } from './transport.js';
import type { StopOptions, Worker } from './worker/worker.js';

/**
 * Stops the workers when the process gets SIGTERM or SIGINT; the second signal stops them at once. Resolves when all of them
 * have stopped, for whatever reason; the handlers of the signals are removed then.
 */
export async function stopOnSignals(workers: Worker | Worker[], options: StopOptions & { signals?: NodeJS.Signals[] } = {}): Promise<void> {
  const { signals = ['SIGTERM', 'SIGINT'], ...stop } = options;
  const all = Array.isArray(workers) ? workers : [workers];
  let received = 0;
  const onSignal = () => {
    received++;
    for (const worker of all) void worker.stop(received === 1 ? stop : { timeoutMs: 0 });
  };
  for (const signal of signals) process.on(signal, onSignal);
  try {
    await Promise.all(all.map(({ ended }) => ended));
  } finally {
    for (const signal of signals) process.off(signal, onSignal);
  }
}

/** A fetch for a server that listens on a Unix socket: `new Holdfast({ url: 'http://localhost', fetch: unixFetch('/run/holdfast.sock') })`. */
export function unixFetch(socketPath: string): Fetch {
  const agent = new http.Agent({ keepAlive: true });
  return (url, { method, headers, body, signal }) =>
    new Promise((resolve, reject) => {
      const { pathname, search } = new URL(url);
      const length = body === undefined ? {} : { 'content-length': Buffer.byteLength(body) };
      const request = http.request({ socketPath, agent, method, path: pathname + search, headers: { ...headers, ...length }, signal }, (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('error', reject);
        response.on('end', () => {
          const text = Buffer.concat(chunks).toString('utf8');
          const get = (name: string) => {
            const value = response.headers[name];
            return typeof value === 'string' ? value : null;
          };
          resolve({ status: response.statusCode ?? 0, headers: { get }, text: () => Promise.resolve(text) });
        });
      });
      request.on('error', reject);
      request.end(body);
    });
}
