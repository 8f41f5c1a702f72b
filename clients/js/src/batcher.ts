// SPDX-License-Identifier: Apache-2.0
// Calls that become one request. Everything that is added in one tick is sent together, at its end. While a request is on
// its way, further items wait for the next one: batches grow with the load, and the order of the calls is kept.
import { type HoldfastError, AbortedError, type Problem, ProblemError } from './errors.js';
import { itemVerdict } from './transport.js';
import { backoffMs, endOfTick, monotonicMs, pause, type Stoppable } from './time.js';

export interface Item {
  /** The JSON text of this item in the request. */
  text: string;
  retryForMs: number;
  /** The item takes effect once, even if it is sent several times. */
  repeatable: boolean;
  /** Changes the item so that it can be sent after this refusal; false: it cannot. */
  adapt?: ((item: Item, problem: Problem) => boolean) | undefined;
}
interface Waiting extends Item {
  since: number;
  tries: number;
  unknown: HoldfastError | undefined;
  resolve(outcome: Outcome): void;
  reject(error: unknown): void;
}
export type Outcome = Record<string, unknown>;

const ITEMS_MAX = 1000;
const TEXT_MAX = 1_000_000;

export interface BatcherOptions {
  /** Sends the items and resolves to one outcome for each, in order: the outcome, or {error: problem}. */
  send(items: Item[], call: { repeatable: boolean; retryForMs: number }): Promise<Outcome[]>;
  signal: Stoppable;
}

/** Whether a request may have been refused as a whole because of one item, which must not affect the others. */
const isAboutAnItem = (error: unknown) => error instanceof ProblemError && [400, 413, 422].includes(error.status);

export class Batcher {
  readonly #options: BatcherOptions;
  #waiting: Waiting[] = [];
  #active = false;

  constructor(options: BatcherOptions) {
    this.#options = options;
  }

  /** Nothing waits and nothing is on its way. */
  get idle(): boolean {
    return !this.#active;
  }

  add(item: Item): Promise<Outcome> {
    if (this.#options.signal.aborted) return Promise.reject(new AbortedError('the client is closed'));
    return new Promise((resolve, reject) => {
      const waiting = Object.assign(item, { since: monotonicMs(), tries: 0, unknown: undefined, resolve, reject });
      this.#waiting.push(waiting);
      if (this.#active) return;
      this.#active = true;
      endOfTick(() => void this.#run());
    });
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const wait = await this.#exchange(this.#next());
      if (wait > 0) await pause(wait, this.#options.signal);
    }
    this.#active = false;
  }

  /** Sends the items; returns the time to wait before some are sent again. */
  async #exchange(items: Waiting[]): Promise<number> {
    const call = { repeatable: items.every(({ repeatable }) => repeatable), retryForMs: Math.max(...items.map(({ retryForMs }) => retryForMs)) };
    try {
      return this.#take(items, await this.#options.send(items, call));
    } catch (error) {
      if (items.length > 1 && isAboutAnItem(error)) {
        const half = items.length >> 1;
        return Math.max(await this.#exchange(items.slice(0, half)), await this.#exchange(items.slice(half)));
      }
      for (const item of items) item.reject(error);
      return 0;
    }
  }

  /** As many of the first items as fit into one request. */
  #next(): Waiting[] {
    let [count, length] = [0, 0];
    for (const { text } of this.#waiting) {
      if (count === ITEMS_MAX || (count > 0 && length + text.length > TEXT_MAX)) break;
      count++;
      length += text.length;
    }
    return this.#waiting.splice(0, count);
  }

  /** Passes the outcomes on. Items that are sent again come first; returns the time to wait before that. */
  #take(items: Waiting[], outcomes: Outcome[]): number {
    const again: Waiting[] = [];
    let wait = 0;
    items.forEach((item, i) => {
      const outcome = outcomes[i] ?? {};
      const problem = outcome['error'] as Problem | undefined;
      if (!problem) return item.resolve(outcome);
      const itemWait = this.#waitOf(item, problem);
      if (itemWait === undefined) return;
      wait = Math.max(wait, itemWait);
      again.push(item);
    });
    this.#waiting.unshift(...again);
    return wait;
  }

  /** The time to wait before the item is sent again; undefined: it was rejected. */
  #waitOf(item: Waiting, problem: Problem): number | undefined {
    const verdict = itemVerdict(problem);
    if (verdict.kind === 'refused' || (verdict.kind === 'unknown' && !item.repeatable)) {
      item.reject(verdict.error);
      return undefined;
    }
    if (item.adapt?.(item, problem)) return 0;
    if (verdict.kind === 'unknown') item.unknown = verdict.error;
    const wait = Math.max(backoffMs(item.tries++), verdict.afterMs);
    if (monotonicMs() + wait <= item.since + item.retryForMs) return wait;
    item.reject(item.unknown ?? verdict.error);
    return undefined;
  }
}
