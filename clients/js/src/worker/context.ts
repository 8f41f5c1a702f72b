// SPDX-License-Identifier: Apache-2.0
// What a handler gets beside its job.
import type { Holdfast } from '../client.js';
import { JobCancelledError, LeaseLostError } from '../errors.js';
import type { HandOff, Job, LeaseReply, ProgressReport } from '../types.js';
import type { Held } from './held.js';

const LINES_MAX = 1000;

/** Told what replies say about a lease. */
export interface LeaseNews {
  cancelRequested(held: Held): void;
  lost(held: Held, error: LeaseLostError | JobCancelledError): void;
  failed(error: unknown, held: Held): void;
}

export class JobContext<P = unknown> {
  /** The name of the worker. */
  readonly worker: string;
  readonly client: Holdfast;
  readonly #held: Held<P>;
  readonly #news: LeaseNews;
  readonly #handOff: Required<HandOff> = { enqueues: [], sets: [], deletes: [] };
  #lines: string[] = [];
  #logging: Promise<void> | undefined;
  #progress: ProgressReport | undefined;
  #progressing: Promise<void> | undefined;

  /** @internal */
  constructor(client: Holdfast, worker: string, held: Held<P>, news: LeaseNews) {
    this.client = client;
    this.worker = worker;
    this.#held = held;
    this.#news = news;
  }

  get job(): Job<P> {
    return this.#held.job;
  }

  /**
   * Aborts when the work must stop. Its `reason` is a LeaseLostError (another worker may have the job), a JobCancelledError, or
   * a WorkerStoppedError.
   */
  get signal(): AbortSignal {
    return this.#held.signal;
  }

  /** Throws the reason if the work must stop. */
  throwIfStopped(): void {
    if (this.#held.stopReason) throw this.#held.stopReason;
  }

  /**
   * Reports the progress: a percentage, or `{percent, message, data}`. Resolves when the newest report was sent; reports that
   * were replaced in the meantime are left out. Never rejects: the progress is information, not part of the work.
   */
  progress(report: number | ProgressReport): Promise<void> {
    this.#progress = typeof report === 'number' ? { percent: report } : report;
    return (this.#progressing ??= this.#sendProgress().finally(() => (this.#progressing = undefined)));
  }

  async #sendProgress(): Promise<void> {
    await Promise.resolve();
    for (let report; (report = this.#progress); ) {
      this.#progress = undefined;
      await this.#quietly(this.client.progress(this.#held.job, report));
    }
  }

  /** Adds lines to the log of the job. They are sent together, before the job ends. */
  log(...lines: string[]): void {
    this.#lines.push(...lines);
    this.#logging ??= this.#sendLines().finally(() => (this.#logging = undefined));
  }

  async #sendLines(): Promise<void> {
    await Promise.resolve();
    while (this.#lines.length) await this.#quietly(this.client.log(this.#held.job, this.#lines.splice(0, LINES_MAX)));
  }

  async #quietly(call: Promise<LeaseReply>): Promise<void> {
    try {
      if ((await call).cancel) this.#news.cancelRequested(this.#held as Held);
    } catch (error) {
      if (error instanceof LeaseLostError || error instanceof JobCancelledError) this.#news.lost(this.#held as Held, error);
      else this.#news.failed(error, this.#held as Held);
    }
  }

  /**
   * A step whose result is kept: when the job is attempted again, a step that was completed returns the stored result and `run`
   * is not called. The result is JSON. A step can run twice if its result could not be stored.
   */
  async step<T>(name: string, run: () => Promise<T> | T): Promise<T> {
    const steps = (this.#held.job.steps ??= {});
    if (Object.prototype.hasOwnProperty.call(steps, name)) return steps[name] as T;
    this.throwIfStopped();
    const result = await run();
    try {
      await this.client.storeStep(this.#held.job, name, result);
    } catch (error) {
      if (error instanceof LeaseLostError || error instanceof JobCancelledError) this.#news.lost(this.#held as Held, error);
      throw error;
    }
    // Not by assignment, which would change the prototype if the name is __proto__.
    Object.defineProperty(steps, name, { value: result ?? null, enumerable: true, configurable: true, writable: true });
    return result;
  }

  /** Extends the lease by hand; the worker renews it anyway. */
  async extend(leaseMs?: number): Promise<void> {
    await this.#quietly(this.client.extend(this.#held.job, leaseMs === undefined ? {} : { leaseMs }));
  }

  /** Adds jobs and changes of keys to the ack: they take effect in its commit if the job is done, and otherwise not at all. */
  onAck({ enqueues = [], sets = [], deletes = [] }: HandOff): void {
    this.#handOff.enqueues.push(...enqueues);
    this.#handOff.sets.push(...sets);
    this.#handOff.deletes.push(...deletes);
  }

  /** @internal */
  get handOff(): HandOff {
    return this.#handOff;
  }

  /** @internal Sends what was reported: the lease token is worth nothing after the end of the job. */
  async flush(): Promise<void> {
    while (this.#logging || this.#progressing) await Promise.all([this.#logging, this.#progressing]);
  }
}
