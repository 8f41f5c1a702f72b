// SPDX-License-Identifier: Apache-2.0
// Time of this process. Leases are measured with a clock that never jumps; the clock of the server is never compared with it.

interface Timers {
  performance?: { now(): number };
  setImmediate?: (task: () => void) => unknown;
}
const here = globalThis as unknown as Timers;

/** Milliseconds of a clock that never goes back. */
export const monotonicMs = (): number => here.performance?.now() ?? Date.now();

/** setTimeout takes at most this. */
export const TIMER_MS_MAX = 2_147_483_647;

/** A timer that does not keep the process running. */
export function quietTimer(task: () => void, ms: number): { clear(): void } {
  const timer = setTimeout(task, Math.min(Math.max(ms, 0), TIMER_MS_MAX)) as unknown;
  unref(timer);
  return { clear: () => clearTimeout(timer as number) };
}

export function unref(timer: unknown): void {
  if (typeof timer === 'object' && timer !== null && 'unref' in timer && typeof timer.unref === 'function') timer.unref();
}

/** Calls the task when everything that is ready to run has run. */
export function endOfTick(task: () => void): void {
  if (here.setImmediate) here.setImmediate(task);
  else setTimeout(task, 0);
}

/** What this library uses of an AbortSignal. */
export interface Stoppable {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** A signal with any number of listeners; Node warns of a leak when an AbortSignal has more than ten. */
export class Closing implements Stoppable {
  aborted = false;
  readonly #listeners = new Set<() => void>();
  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.add(listener);
  }
  removeEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.delete(listener);
  }
  abort(): void {
    this.aborted = true;
    for (const listener of [...this.#listeners]) listener();
    this.#listeners.clear();
  }
}

/** Waits; ends early when the signal aborts. Never rejects. */
export function pause(ms: number, signal?: Stoppable): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', end);
      resolve();
    };
    const timer = setTimeout(end, Math.min(ms, TIMER_MS_MAX));
    signal?.addEventListener('abort', end);
  });
}

/**
 * The pause before repetition `n` (0 is the first): between half of a doubling time and all of it, at most `max`. A client
 * that others wait for as well must not come back at the same moment as they do.
 */
export function backoffMs(n: number, first = 100, max = 5000, random: () => number = Math.random): number {
  const full = Math.min(max, first * 2 ** Math.min(n, 30));
  return full / 2 + (full / 2) * random();
}
