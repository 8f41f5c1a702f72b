// SPDX-License-Identifier: Apache-2.0
// The API writes names as run_at, this library as runAt. Only the members that belong to the API are renamed, never those in
// payloads, results, headers or attributes.

const camel = new Map<string, string>();
const snake = new Map<string, string>();

export function camelName(name: string): string {
  let found = camel.get(name);
  if (found === undefined) camel.set(name, (found = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())));
  return found;
}

export function snakeName(name: string): string {
  let found = snake.get(name);
  if (found === undefined) {
    // The names of options come from the program, so their number is small; the limit is for programs that compute them.
    if (snake.size > 1000) snake.clear();
    snake.set(name, (found = name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)));
  }
  return found;
}

/** A copy with the names of this library; `nested` are members whose own members (or elements) are renamed as well. */
export function camelObject(object: Record<string, unknown>, nested: readonly string[] = []): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const name in object) {
    const value = object[name];
    out[camelName(name)] = nested.includes(name) ? camelNested(value) : value;
  }
  return out;
}

function camelNested(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(camelNested);
  return typeof value === 'object' && value !== null ? camelObject(value as Record<string, unknown>) : value;
}

/** A copy with the names of the API, without undefined members; a Date becomes RFC 3339. */
export function snakeObject(object: object): Record<string, unknown> {
  const out: Record<string, unknown> = {};
  for (const [name, value] of Object.entries(object)) {
    if (value === undefined) continue;
    out[snakeName(name)] = value instanceof Date ? value.toISOString() : (value as unknown);
  }
  return out;
}
