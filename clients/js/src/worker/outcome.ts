// SPDX-License-Identifier: Apache-2.0
// What the end of a handler means for its job. No I/O.
import { FailJob, ReleaseJob } from '../errors.js';
import type { FailReport, ReleaseReport } from '../types.js';

const STACK_MAX = 16 * 1024;
const ERROR_MAX = 8 * 1024;
const TYPE_MAX = 128;

export type Ending = { word: 'fail'; report: FailReport } | { word: 'release'; report: ReleaseReport };

const nameOf = (error: Error) => (error.name !== 'Error' ? error.name : error.constructor.name || 'Error');

function stackOf(error: Error): string {
  let text = error.stack ?? `${error.name}: ${error.message}`;
  for (let cause: unknown = error.cause, depth = 0; cause instanceof Error && depth < 5; cause = cause.cause, depth++) text += `\ncaused by: ${cause.stack ?? String(cause)}`;
  return text.slice(0, STACK_MAX);
}

function described(error: unknown): { error: string; errorType: string; stack?: string } {
  if (error instanceof Error) return { error: (error.message || nameOf(error)).slice(0, ERROR_MAX), errorType: nameOf(error).slice(0, TYPE_MAX), stack: stackOf(error) };
  return { error: textOf(error).slice(0, ERROR_MAX), errorType: error === null ? 'null' : typeof error };
}

function textOf(thrown: unknown): string {
  try {
    return typeof thrown === 'string' ? thrown : (JSON.stringify(thrown) ?? String(thrown));
  } catch {
    return Object.prototype.toString.call(thrown);
  }
}

/** What to report when the handler threw this. */
export function endingOf(thrown: unknown): Ending {
  if (thrown instanceof ReleaseJob) {
    const { delayMs, runAt } = thrown.options;
    return { word: 'release', report: defined({ reason: thrown.message || undefined, delayMs, runAt }) };
  }
  if (!(thrown instanceof FailJob)) return { word: 'fail', report: described(thrown) };
  const { kind, retry, delayMs, runAt, result, type, cause } = thrown.options;
  const errorType = type ?? (cause instanceof Error ? nameOf(cause) : thrown.name);
  return { word: 'fail', report: defined({ ...described(thrown), errorType, errorKind: kind, retry, delayMs, runAt, result }) };
}

function defined<T extends object>(members: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never;
}

