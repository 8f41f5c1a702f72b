// SPDX-License-Identifier: Apache-2.0
// A server for tests: in memory, with a clock that moves only when the test says so.
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { Holdfast, type HoldfastOptions } from './client.js';
import type { AnyQueues, QueueType } from './types.js';

export interface TestServerOptions {
  /** The program; default: HOLDFAST_BINARY, or `holdfast` in PATH. */
  binary?: string;
  /** More arguments of `holdfast serve`. */
  args?: string[];
  /** How long to wait for the server to start, in milliseconds (30,000). */
  timeoutMs?: number;
}

const units: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** "90s", "1h30m", "7d" or milliseconds, in milliseconds. */
export function durationMs(duration: string | number): number {
  if (typeof duration === 'number') return duration;
  const parts = [...duration.matchAll(/(\d+(?:\.\d+)?)(ms|[smhdw])/g)];
  if (parts.length === 0 || parts.map(([part]) => part).join('') !== duration.trim()) throw new RangeError(`'${duration}' is not a duration; it looks like 500ms, 90s, 1h30m or 7d`);
  return Math.round(parts.reduce((sum, [, number, unit]) => sum + Number(number) * (units[unit ?? ''] ?? 0), 0));
}

export class TestServer {
  readonly url: string;
  readonly #end: () => Promise<void>;
  readonly #clients: Holdfast[] = [];
  readonly #own: Holdfast;

  /** @internal Use testServer(). */
  constructor(url: string, end: () => Promise<void>) {
    this.url = url;
    this.#end = end;
    this.#own = new Holdfast({ url });
  }

  /** A client of this server; it is closed with the server. */
  client<Q extends { [K in keyof Q]: QueueType } = AnyQueues>(options: Omit<HoldfastOptions, 'url'> = {}): Holdfast<Q> {
    const client = new Holdfast<Q>({ url: this.url, ...options });
    this.#clients.push(client as unknown as Holdfast);
    return client;
  }

  /** Moves the clock ("7d", "90s", milliseconds). Resolves when everything that became due has happened. */
  async advance(duration: string | number): Promise<Date> {
    const { now } = await this.#own.request<{ now: string }>('POST', '/v1/test/clock', { advance_ms: durationMs(duration) });
    return new Date(now);
  }

  /** The time of the server. */
  async now(): Promise<Date> {
    return new Date((await this.#own.request<{ now: string }>('GET', '/v1/test/clock')).now);
  }

  /** Closes the clients and ends the server. */
  async stop(): Promise<void> {
    await Promise.all(this.#clients.splice(0).map((client) => client.close()));
    await this.#own.close();
    await this.#end();
  }
}

/** Starts a server in memory, on a free port, with the test clock. */
export async function testServer(options: TestServerOptions = {}): Promise<TestServer> {
  const binary = options.binary ?? process.env['HOLDFAST_BINARY'] ?? 'holdfast';
  const data = mkdtempSync(path.join(tmpdir(), 'holdfast-test-'));
  const args = ['serve', '--listen', '127.0.0.1:0', '--data', data, '--backend', 'memory:', '--test-clock', ...(options.args ?? [])];
  // The settings of the shell belong to another server.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('HOLDFAST_')));
  const child = spawn(binary, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let [out, errors] = ['', ''];
  const kill = () => void child.kill('SIGKILL');
  process.on('exit', kill);
  const closed = new Promise<void>((resolve) => {
    const end = () => {
      process.off('exit', kill);
      rmSync(data, { recursive: true, force: true });
      resolve();
    };
    child.once('close', end);
    child.once('error', end);
  });
  const end = async () => {
    child.kill('SIGTERM');
    await closed;
  };
  const url = await new Promise<string>((resolve, reject) => {
    const timer = setTimeout(() => {
      kill();
      reject(new Error(`holdfast did not start in time\n${errors}`));
    }, options.timeoutMs ?? 30_000);
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
      out += chunk;
      const ready = /^listening on (http:\S+)\n/m.exec(out);
      if (!ready?.[1]) return;
      clearTimeout(timer);
      resolve(ready[1]);
    });
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => (errors = (errors + chunk).slice(-10_000)));
    child.once('error', (error) => {
      clearTimeout(timer);
      reject(new Error(`${binary} cannot be started: ${error.message}; set HOLDFAST_BINARY or the option binary`, { cause: error }));
    });
    void closed.then(() => {
      clearTimeout(timer);
      reject(new Error(`holdfast ended before it was ready\n${errors}`));
    });
  });
  return new TestServer(url, end);
}
