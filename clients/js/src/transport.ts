// SPDX-License-Identifier: Apache-2.0
// One request and its repetitions. docs/clients.md has the rules: a refusal is never repeated, "nothing was done" always may
// be, and an unknown outcome only if the request cannot take effect twice.
import { AbortedError, ConnectionError, type HoldfastError, type Problem, problemError, UnknownOutcomeError } from './errors.js';
import { backoffMs, Closing, monotonicMs, pause, TIMER_MS_MAX } from './time.js';

/** What this library needs of `fetch`. */
export type Fetch = (
  url: string,
  init: { method: string; headers: Record<string, string>; body?: string; signal: AbortSignal; redirect: 'manual' },
) => Promise<{ status: number; headers: { get(name: string): string | null }; text(): Promise<string> }>;

export interface Reply {
  status: number;
  text: string;
  json: Record<string, unknown>;
}

export interface Call {
  body?: string;
  headers?: Record<string, string>;
  /** The request has the same effect once or several times. */
  repeatable?: boolean;
  /** The time for which the server may hold the request; it is added to the timeout. */
  waitMs?: number;
  /** The time for which repetitions may start; 0: none. */
  retryForMs?: number;
  signal?: AbortSignal | undefined;
  /** Called before each repetition. */
  onRetry?: ((error: HoldfastError) => void) | undefined;
}

export interface TransportOptions {
  url: string;
  token?: string | (() => string | Promise<string>) | undefined;
  fetch?: Fetch | undefined;
  /** The time for one attempt of a request, in milliseconds (30,000). */
  timeoutMs?: number | undefined;
  /** The time for which a request is repeated, in milliseconds (30,000). */
  retryForMs?: number | undefined;
}

const RETRY_FIRST_MS = 100;
const RETRY_MAX_MS = 5000;

type Verdict =
  | { kind: 'reply'; reply: Reply }
  | { kind: 'refused'; error: HoldfastError }
  | { kind: 'nothing_done' | 'unknown'; error: HoldfastError; afterMs: number };

// Errors of a connection that never existed: nothing was sent.
const NOT_SENT = new Set(['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN', 'ENETUNREACH', 'EHOSTUNREACH', 'ENOENT', 'UND_ERR_CONNECT_TIMEOUT']);

function causeCodes(error: unknown, codes: string[] = []): string[] {
  for (let at = error as { code?: unknown; cause?: unknown; errors?: unknown } | undefined, depth = 0; at && depth < 5; at = at.cause as typeof at, depth++)
    if (typeof at.code === 'string') codes.push(at.code);
  return codes;
}

const messageOf = (error: unknown) => (error instanceof Error ? (error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message) : String(error));

function checkedUrl(text: string): string {
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw new TypeError('`url` is not an address; it looks like http://127.0.0.1:8000');
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw new TypeError(`\`url\` begins with ${url.protocol}; http: and https: are supported`);
  if (url.username || url.password) throw new TypeError('`url` contains a user name or password; pass the access token as `token`');
  if (url.search || url.hash) throw new TypeError('`url` has a query or fragment; give the address of the server alone');
  return url.href.replace(/\/+$/, '');
}

export class Transport {
  readonly url: string;
  readonly #options: TransportOptions;
  readonly #fetch: Fetch;
  readonly #closing = new Closing();

  constructor(options: TransportOptions) {
    this.url = checkedUrl(options.url);
    this.#options = options;
    const given = options.fetch ?? (globalThis as unknown as { fetch?: Fetch }).fetch;
    if (!given) throw new TypeError('this runtime has no fetch; pass one as the option `fetch`');
    // Browsers require that fetch is called without another `this`.
    this.#fetch = (url, init) => given(url, init);
  }

  get closed(): boolean {
    return this.#closing.aborted;
  }

  /** Aborts all requests; later ones fail. */
  close(): void {
    this.#closing.abort();
  }

  async request(method: string, path: string, call: Call = {}): Promise<Reply> {
    const until = monotonicMs() + (call.retryForMs ?? this.#options.retryForMs ?? 30_000);
    let unknown: HoldfastError | undefined;
    for (let n = 0; ; n++) {
      const verdict = await this.#once(method, path, call);
      if (verdict.kind === 'reply') return verdict.reply;
      if (verdict.kind === 'refused') throw verdict.error;
      if (verdict.kind === 'unknown') {
        unknown = verdict.error;
        if (!call.repeatable) throw unknown;
      }
      const wait = Math.max(backoffMs(n, RETRY_FIRST_MS, RETRY_MAX_MS), verdict.afterMs);
      // An earlier attempt may have taken effect, whatever happened to the last one.
      if (monotonicMs() + wait > until) throw unknown ?? verdict.error;
      call.onRetry?.(verdict.error);
      await pause(wait, call.signal);
      this.#checkAborted(call.signal);
    }
  }

  #checkAborted(signal: AbortSignal | undefined): void {
    if (this.closed) throw new AbortedError('the client is closed');
    if (signal?.aborted) throw new AbortedError('the request was aborted', { cause: signal.reason });
  }

  /** One attempt. Throws only when it was aborted. */
  async #once(method: string, path: string, call: Call): Promise<Verdict> {
    this.#checkAborted(call.signal);
    const attempt = new AbortController();
    const abort = () => attempt.abort();
    const closing = this.#closing;
    const timeoutMs = (this.#options.timeoutMs ?? 30_000) + (call.waitMs ?? 0);
    const timer = setTimeout(abort, Math.min(timeoutMs, TIMER_MS_MAX));
    call.signal?.addEventListener('abort', abort);
    closing.addEventListener('abort', abort);
    let sent = false;
    try {
      const headers = await this.#headers(call);
      this.#checkAborted(call.signal);
      const init = { method, headers, signal: attempt.signal, redirect: 'manual' as const };
      sent = true;
      const response = await this.#fetch(this.url + path, call.body === undefined ? init : { ...init, body: call.body });
      return verdictOf(response.status, response.headers, await response.text());
    } catch (error) {
      this.#checkAborted(call.signal);
      const where = `${method} ${path}`;
      if (attempt.signal.aborted) return { kind: 'unknown', error: new UnknownOutcomeError(`${where}: no reply after ${timeoutMs} ms`), afterMs: 0 };
      if (!sent) return { kind: 'refused', error: new ConnectionError(`${where}: the access token is not available: ${messageOf(error)}`, { cause: error }) };
      if (causeCodes(error).some((code) => NOT_SENT.has(code)))
        return { kind: 'nothing_done', error: new ConnectionError(`${where}: no connection to ${this.url}: ${messageOf(error)}`, { cause: error }), afterMs: 0 };
      return { kind: 'unknown', error: new UnknownOutcomeError(`${where}: the connection broke before the reply: ${messageOf(error)}`, { cause: error }), afterMs: 0 };
    } finally {
      clearTimeout(timer);
      call.signal?.removeEventListener('abort', abort);
      closing.removeEventListener('abort', abort);
    }
  }

  async #headers(call: Call): Promise<Record<string, string>> {
    const headers: Record<string, string> = { accept: 'application/json', ...call.headers };
    if (call.body !== undefined) headers['content-type'] ??= 'application/json';
    const { token } = this.#options;
    if (token !== undefined) headers['authorization'] = `Bearer ${typeof token === 'string' ? token : await token()}`;
    return headers;
  }
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(text) as unknown;
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

function retryAfterMs(headers: { get(name: string): string | null }, problem: Problem | undefined): number {
  if (typeof problem?.retry_after_ms === 'number') return problem.retry_after_ms;
  const text = headers.get('retry-after')?.trim();
  if (!text) return 0;
  if (/^\d+$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text);
  return Number.isNaN(date) ? 0 : Math.max(0, date - Date.now());
}

function verdictOf(status: number, headers: { get(name: string): string | null }, text: string): Verdict {
  const json = text === '' ? {} : parseObject(text);
  if (status >= 200 && status < 300) {
    if (json) return { kind: 'reply', reply: { status, text, json } };
    return { kind: 'unknown', error: new UnknownOutcomeError(`the reply (${status}) is not JSON`), afterMs: 0 };
  }
  const own = typeof json?.['code'] === 'string' ? (json as Problem) : undefined;
  const problem: Problem = own ?? { code: `http_${status}`, title: status === 0 || (status >= 300 && status < 400) ? 'The server redirects; give its final address' : 'A reply that is not from Holdfast' };
  const error = problemError(status, problem);
  const afterMs = retryAfterMs(headers, own);
  if (status === 429 || status === 408 || (status === 503 && own)) return { kind: 'nothing_done', error, afterMs };
  // Only Holdfast itself promises that nothing was done; a proxy may say 503 after it has passed the request on.
  const uncertain = status === 504 || (!own && (status === 500 || status === 502 || status === 503));
  if (uncertain) return { kind: 'unknown', error: new UnknownOutcomeError(error.message, { cause: error }), afterMs };
  return { kind: 'refused', error };
}

/** What the problem of one job of many means: the same as that of a whole request. */
export function itemVerdict(problem: Problem): { kind: 'refused' | 'nothing_done' | 'unknown'; error: HoldfastError; afterMs: number } {
  const status = problem.status ?? 500;
  const error = problemError(status, problem);
  const afterMs = problem.retry_after_ms ?? 0;
  if (status === 429 || status === 503) return { kind: 'nothing_done', error, afterMs };
  if (status === 504) return { kind: 'unknown', error: new UnknownOutcomeError(error.message, { cause: error }), afterMs };
  return { kind: 'refused', error, afterMs };
}
