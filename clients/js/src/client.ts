// SPDX-License-Identifier: Apache-2.0
// The client: producers and everything about single jobs. Workers are in worker/.
import { Batcher, type Item, type Outcome } from './batcher.js';
import { type HoldfastError, type Problem, ProblemError, UnknownOutcomeError } from './errors.js';
import { claimedJobs, jobView, jobViews, type Reading } from './job.js';
import { parseExact, toJson } from './json.js';
import { camelObject, snakeObject } from './names.js';
import { randomId } from './random.js';
import { ackMembers, jobText, paths, progressMembers, queryText, refersWithin } from './requests.js';
import { Closing } from './time.js';
import type { Tracing } from './trace.js';
import { type Call, type Fetch, Transport } from './transport.js';
import type {
  AckOptions, AnyQueues, CallOptions, ClaimOptions, Enqueued, EnqueueOptions, FailReport, Job, JobList, JobView, Lease, LeaseReply, ListOptions,
  NewJob, PayloadOf, ProgressReport, QueueType, ReleaseReport, ResultOf,
} from './types.js';
import { type Handler, Worker, type WorkerOptions } from './worker/worker.js';

export interface HoldfastOptions {
  /** The address of the server, such as http://127.0.0.1:8000; it may have a base path. */
  url: string;
  /** The access token, or a function that returns the current one. */
  token?: string | (() => string | Promise<string>);
  /** The time for one attempt of a request, in milliseconds (30,000). */
  timeoutMs?: number;
  /** How long to repeat a request that may be repeated, in milliseconds (30,000); 0: never. */
  retryForMs?: number;
  /** Each enqueue gets a random idempotency key, so that it can be repeated (true). */
  idempotencyKeys?: boolean;
  /** Integers beyond 2^53 in payloads, results and steps are read as bigint (false: as numbers, rounded). */
  bigIntegers?: boolean;
  tracing?: Tracing;
  /** Another implementation of fetch. */
  fetch?: Fetch;
  /** Called before a request is repeated. */
  onRetry?: (error: HoldfastError) => void;
}

type QueueName<Q> = string & keyof Q;

export class Holdfast<Q extends { [K in keyof Q]: QueueType } = AnyQueues> {
  readonly url: string;
  /** @internal */ readonly transport: Transport;
  /** @internal */ readonly options: HoldfastOptions;
  readonly #reading: Reading;
  readonly #closing = new Closing();
  readonly #enqueues = new Map<string, Batcher>();
  readonly #reports = new Map<string, Batcher>();
  readonly #workers = new Set<Worker>();
  readonly #keyPrefix = randomId();
  #keys = 0;

  constructor(options: HoldfastOptions | string) {
    this.options = typeof options === 'string' ? { url: options } : options;
    this.transport = new Transport(this.options);
    this.url = this.transport.url;
    this.#reading = { exact: this.options.bigIntegers ?? false };
  }

  /** Stops all workers, waits for their jobs, and ends all requests. */
  async close(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.stop()));
    this.#closing.abort();
    this.transport.close();
  }

  // ---- producers ----

  /** Enqueues a job. Calls of one tick become one request; jobs of one queue keep the order of the calls. */
  async enqueue<K extends QueueName<Q>>(queue: K, payload: PayloadOf<Q, K>, options: EnqueueOptions = {}): Promise<Enqueued> {
    return camelObject(await this.#enqueueBatcher(queue).add(this.#item(payload, options))) as unknown as Enqueued;
  }

  /**
   * Enqueues jobs, up to 1,000 per request, and resolves to the outcome of each, in order: a refused job has `error`, the
   * others do not depend on it. Jobs that refer to each other (`dependsOn: ['#0']`) are one request, all or nothing.
   */
  async enqueueMany<K extends QueueName<Q>>(queue: K, jobs: NewJob<PayloadOf<Q, K>>[]): Promise<(Enqueued | { error: HoldfastError })[]> {
    if (refersWithin(jobs)) return this.#enqueueTogether(queue, jobs);
    const batcher = this.#enqueueBatcher(queue);
    return Promise.all(
      jobs.map(({ payload, ...options }) =>
        batcher.add(this.#item(payload, options)).then(
          (outcome) => camelObject(outcome) as unknown as Enqueued,
          (error: HoldfastError) => ({ error }),
        ),
      ),
    );
  }

  /** All jobs in one commit; refused as a whole. */
  async #enqueueTogether(queue: string, jobs: NewJob[]): Promise<Enqueued[]> {
    const items = jobs.map(({ payload, ...options }) => this.#item(payload, options));
    const call = { repeatable: items.every(({ repeatable }) => repeatable), retryForMs: this.#retryForMs };
    const outcomes = await this.#sendJobs(queue, items, call);
    return outcomes.map((outcome) => {
      const problem = outcome['error'] as Problem | undefined;
      if (problem) throw new ProblemError(problem.status ?? 0, problem);
      return camelObject(outcome) as unknown as Enqueued;
    });
  }

  get #retryForMs(): number {
    return this.options.retryForMs ?? 30_000;
  }

  #item(payload: unknown, options: EnqueueOptions): Item {
    const own = options.idempotencyKey !== undefined;
    const text = (key?: string) => jobText(payload, options, this.options.tracing, key === undefined ? {} : { idempotency_key: key });
    const retryForMs = options.retryForMs ?? this.#retryForMs;
    if (own) return { text: text(), retryForMs, repeatable: true };
    if (this.options.idempotencyKeys === false) return { text: text(), retryForMs, repeatable: false };
    // The server remembers a limited number of keys; a job is more important than the possibility to repeat it.
    const adapt = (item: Item, problem: Problem) => {
      if (problem.code !== 'keys_full') return false;
      Object.assign(item, { text: text(), repeatable: false, adapt: undefined });
      return true;
    };
    return { text: text(`${this.#keyPrefix}-${(this.#keys++).toString(36)}`), retryForMs, repeatable: true, adapt };
  }

  #enqueueBatcher(queue: string): Batcher {
    let batcher = this.#enqueues.get(queue);
    if (batcher) return batcher;
    // Programs may use any number of queues, one after the other.
    if (this.#enqueues.size >= 1000) for (const [name, other] of this.#enqueues) if (other.idle) this.#enqueues.delete(name);
    const send = (items: Item[], call: Call) => this.#sendJobs(queue, items, call);
    this.#enqueues.set(queue, (batcher = new Batcher({ send, signal: this.#closing })));
    return batcher;
  }

  async #sendJobs(queue: string, items: Item[], call: Call): Promise<Outcome[]> {
    const body = `[${items.map(({ text }) => text).join(',')}]`;
    return (await this.#request('POST', paths.enqueue(queue), { ...call, body })).json['jobs'] as Outcome[];
  }

  // ---- jobs ----

  /** The job, or undefined if there is no job with this id. */
  async get<K extends QueueName<Q> = QueueName<Q>>(id: string | number, call: CallOptions = {}): Promise<JobView<PayloadOf<Q, K>, ResultOf<Q, K>> | undefined> {
    try {
      const { text, json } = await this.#request('GET', paths.job(String(id)), { ...call, repeatable: true });
      return jobView(text, json, this.#reading);
    } catch (error) {
      if (error instanceof ProblemError && error.code === 'not_found') return undefined;
      throw error;
    }
  }

  async list<K extends QueueName<Q> = QueueName<Q>>(options: ListOptions & { queue?: K } = {}, call: CallOptions = {}): Promise<JobList<PayloadOf<Q, K>, ResultOf<Q, K>>> {
    const { text, json } = await this.#request('GET', `/v1/jobs${queryText(snakeObject(options))}`, { ...call, repeatable: true });
    return { ...camelObject(json), jobs: jobViews(text, json, this.#reading) } as JobList<PayloadOf<Q, K>, ResultOf<Q, K>>;
  }

  /** Cancels a job. A running job is told to stop: the reply has `cancelRequested`, unless `force` ends its lease at once. */
  async cancel(id: string | number, options: { force?: boolean } & CallOptions = {}): Promise<{ id: string; seq: number; state: string; cancelRequested?: boolean; cancelDeadline?: string }> {
    const { signal, retryForMs, ...body } = options;
    let repeated = false;
    try {
      const call = { body: toJson(body), repeatable: true, onRetry: (error: HoldfastError) => void (repeated ||= error instanceof UnknownOutcomeError) };
      return camelObject((await this.#request('POST', paths.job(String(id), 'cancel'), { ...call, ...pick({ signal, retryForMs }) })).json) as never;
    } catch (error) {
      // An earlier attempt has cancelled it.
      if (repeated && error instanceof ProblemError && error.problem.state === 'cancelled') return { id: error.problem.id ?? String(id), seq: error.problem.seq ?? 0, state: 'cancelled' };
      throw error;
    }
  }

  /** Makes a dead, cancelled or scheduled job ready. Not repeated if the outcome is unknown: the job may have run and died again. */
  async requeue(id: string | number, options: { delayMs?: number } & CallOptions = {}): Promise<{ id: string; seq: number; state: JobView['state'] }> {
    const { signal, retryForMs, ...body } = options;
    return camelObject((await this.#request('POST', paths.job(String(id), 'requeue'), { body: toJson(snakeObject(body)), ...pick({ signal, retryForMs }) })).json) as never;
  }

  // ---- leases ----

  /** Claims jobs of a queue, or of several: those with the highest priority first. */
  async claim<K extends QueueName<Q>>(queues: K | readonly K[], options: ClaimOptions = {}, call: { retryForMs?: number; onRetry?: (error: HoldfastError) => void } = {}): Promise<Job<PayloadOf<Q, K>>[]> {
    const { signal, ...members } = options;
    const many = typeof queues !== 'string';
    const body = toJson({ ...snakeObject(members), ...(many && { queues }) });
    // A claim whose reply is lost may hold jobs until their leases end; repeating it does no further harm.
    const all: Call = { body, repeatable: true, waitMs: options.waitMs ?? 0, ...call, ...pick({ signal }) };
    const { text, json } = await this.#request('POST', many ? '/v1/claim' : paths.claim(queues), all);
    return claimedJobs(text, json, this.#reading);
  }

  ack(lease: Lease, options: AckOptions = {}, call: CallOptions = {}): Promise<LeaseReply> {
    return this.#report('ack', lease, ackMembers(options, this.options.tracing), call);
  }
  fail(lease: Lease, report: FailReport = {}, call: CallOptions = {}): Promise<LeaseReply> {
    return this.#report('fail', lease, snakeObject(report), call);
  }
  /** Gives the job back; the attempt is not counted. */
  release(lease: Lease, report: ReleaseReport = {}, call: CallOptions = {}): Promise<LeaseReply> {
    return this.#report('release', lease, snakeObject(report), call);
  }

  async extend(lease: Lease, options: { leaseMs?: number } & CallOptions = {}): Promise<LeaseReply> {
    const { leaseMs, ...call } = options;
    return this.#leaseCall(paths.job(lease.id, 'extend'), lease, snakeObject({ leaseMs }), call);
  }
  async progress(lease: Lease, report: number | ProgressReport, call: CallOptions = {}): Promise<LeaseReply> {
    return this.#leaseCall(paths.job(lease.id, 'progress'), lease, progressMembers(report), call);
  }
  /** Adds lines to the log of the job. A repetition after an unknown outcome may add them twice. */
  async log(lease: Lease, lines: string[], call: CallOptions = {}): Promise<LeaseReply> {
    return this.#leaseCall(paths.job(lease.id, 'log'), lease, { lines }, call);
  }
  /** Stores the result of a step: the claims of later attempts contain it. */
  async storeStep(lease: Lease, name: string, result: unknown, call: CallOptions = {}): Promise<LeaseReply> {
    return this.#leaseCall(paths.step(lease.id, name), lease, { result: result === undefined ? null : result }, call);
  }

  async #leaseCall(path: string, lease: Lease, members: Record<string, unknown>, call: CallOptions): Promise<LeaseReply> {
    return camelObject((await this.#request('POST', path, { body: toJson({ token: lease.token, ...members }), repeatable: true, ...call })).json) as unknown as LeaseReply;
  }

  /** The reports of one tick are one request. The lease token makes them repeatable. */
  async #report(word: string, { id, token }: Lease, members: Record<string, unknown>, call: CallOptions): Promise<LeaseReply> {
    const text = toJson({ id, token, ...members });
    return camelObject(await this.#reportBatcher(word).add({ text, retryForMs: call.retryForMs ?? this.#retryForMs, repeatable: true })) as unknown as LeaseReply;
  }

  #reportBatcher(word: string): Batcher {
    let batcher = this.#reports.get(word);
    if (!batcher) {
      const send = async (items: Item[], call: Call) => {
        const body = `{"jobs":[${items.map(({ text }) => text).join(',')}]}`;
        return (await this.#request('POST', `/v1/${word}`, { ...call, body })).json['jobs'] as Outcome[];
      };
      this.#reports.set(word, (batcher = new Batcher({ send, signal: this.#closing })));
    }
    return batcher;
  }

  // ---- workers ----

  /** Starts a worker: it claims jobs of the queue and runs the handler for each. */
  worker<K extends QueueName<Q>>(queues: K | readonly K[], handler: Handler<PayloadOf<Q, K>, ResultOf<Q, K>>, options: WorkerOptions = {}): Worker<PayloadOf<Q, K>, ResultOf<Q, K>> {
    const worker = new Worker<PayloadOf<Q, K>, ResultOf<Q, K>>(this as unknown as Holdfast, queues, handler, options);
    this.#workers.add(worker as unknown as Worker);
    void worker.ended.then(() => this.#workers.delete(worker as unknown as Worker));
    return worker;
  }

  // ---- everything else ----

  /** Any request of the API, with the names of the API. `repeatable`: it may be sent again if its outcome is unknown (default: GET, PUT and DELETE). */
  async request<T = Record<string, unknown>>(method: string, path: string, body?: unknown, options: CallOptions & { repeatable?: boolean; headers?: Record<string, string> } = {}): Promise<T> {
    const repeatable = options.repeatable ?? /^(GET|HEAD|PUT|DELETE)$/.test(method);
    const { text, json } = await this.#request(method, path, { ...options, repeatable, ...(body !== undefined && { body: toJson(body) }) });
    return (this.#reading.exact ? parseExact(text) : json) as T;
  }

  #request(method: string, path: string, call: Call): ReturnType<Transport['request']> {
    return this.transport.request(method, path, this.options.onRetry ? { onRetry: this.options.onRetry, ...call } : call);
  }
}

function pick<T extends object>(members: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never;
}
