// SPDX-License-Identifier: Apache-2.0
// Notices when the event loop was blocked: then no lease was renewed, and the reports come too late.
import { monotonicMs, unref } from '../time.js';

const INTERVAL_MS = 250;
const KEPT = 32;

export class LagMonitor {
  readonly #timer: unknown;
  #expected = monotonicMs() + INTERVAL_MS;
  #blocks: { until: number; ms: number }[] = [];

  /** Calls back after each block of at least this length. */
  constructor(thresholdMs: () => number, blocked: (ms: number) => void) {
    this.#timer = setInterval(() => {
      const now = monotonicMs();
      const ms = now - this.#expected;
      this.#expected = now + INTERVAL_MS;
      if (ms < thresholdMs()) return;
      this.#blocks.push({ until: now, ms });
      if (this.#blocks.length > KEPT) this.#blocks.shift();
      blocked(Math.round(ms));
    }, INTERVAL_MS);
    unref(this.#timer);
  }

  /** The longest block that ended after this time, or the one that is ending now. */
  longestSince(time: number): number {
    const current = Math.max(0, monotonicMs() - this.#expected);
    return Math.round(this.#blocks.reduce((longest, { until, ms }) => (until > time ? Math.max(longest, ms) : longest), current));
  }

  close(): void {
    clearInterval(this.#timer as number);
  }
}
