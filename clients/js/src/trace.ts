// SPDX-License-Identifier: Apache-2.0
// Trace context without a dependency: two functions that a tracing library fills in. README.md shows OpenTelemetry.

/** Carries `traceparent` and `tracestate`. */
export type Carrier = Record<string, string>;

export interface Tracing {
  /** Writes the current trace context; called for each enqueue. */
  inject?(carrier: Carrier): void;
  /** Runs a handler in the trace context of its job; must return what `run` returns. */
  handle?<T>(carrier: Carrier, info: { queue: string; id: string; attempt: number; kind?: string }, run: () => Promise<T>): Promise<T>;
}

const TRACE_HEADERS = ['traceparent', 'tracestate'] as const;

/** The headers of a job with the current trace context, which a job that has its own does not get. */
export function tracedHeaders(tracing: Tracing | undefined, own: Carrier | undefined): Carrier | undefined {
  if (!tracing?.inject || own?.['traceparent'] !== undefined) return own;
  const carrier: Carrier = {};
  tracing.inject(carrier);
  if (carrier['traceparent'] === undefined) return own;
  const headers = { ...own };
  for (const name of TRACE_HEADERS) if (carrier[name] && headers[name] === undefined) headers[name] = carrier[name];
  return headers;
}
