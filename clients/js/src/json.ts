// SPDX-License-Identifier: Apache-2.0
// JSON without loss: the server keeps payloads byte for byte, but JSON.parse rounds integers beyond 2^53. `RawJson` sends a
// text as it is, bigint values are written as integers, and `memberTexts` finds the text of a member in a reply.

/** JSON that is sent as it is written, at any depth of a payload or result. */
export class RawJson {
  readonly text: string;
  constructor(text: string) {
    JSON.parse(text);
    this.text = text;
  }
  toJSON(): never {
    throw new Inexact();
  }
}
export const rawJson = (text: string): RawJson => new RawJson(text);

class Inexact extends Error {}

/** The JSON text of a value. `undefined` as a whole is null, as it is within an array. */
export function toJson(value: unknown): string {
  if (value instanceof RawJson) return value.text;
  try {
    return JSON.stringify(value) ?? 'null';
  } catch (error) {
    // A bigint gives a TypeError; so does a cycle, which the exact writer reports as well.
    if (error instanceof Inexact || error instanceof TypeError) return writeExact(value, '', []) ?? 'null';
    throw error;
  }
}

function writeExact(value: unknown, key: string, above: unknown[]): string | undefined {
  if (value instanceof RawJson) return value.text;
  if (typeof value === 'bigint') return value.toString();
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  if (above.includes(value)) throw new TypeError('a payload cannot contain itself');
  const replaced = 'toJSON' in value && typeof value.toJSON === 'function' ? (value.toJSON(key) as unknown) : value;
  if (replaced !== value) return writeExact(replaced, key, above);
  const inside = [...above, value];
  if (Array.isArray(value)) return `[${value.map((item, i) => writeExact(item, String(i), inside) ?? 'null').join(',')}]`;
  if (value instanceof Number || value instanceof String || value instanceof Boolean) return JSON.stringify(value);
  const members: string[] = [];
  for (const [name, item] of Object.entries(value)) {
    const text = writeExact(item, name, inside);
    if (text !== undefined) members.push(`${JSON.stringify(name)}:${text}`);
  }
  return `{${members.join(',')}}`;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

const isSpace = (code: number) => code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
function skipSpace(text: string, at: number): number {
  while (isSpace(text.charCodeAt(at))) at++;
  return at;
}

function skipString(text: string, at: number): number {
  for (let end = text.indexOf('"', at + 1); ; end = text.indexOf('"', end + 1)) {
    if (end < 0) throw new SyntaxError('a text in the reply does not end');
    let slashes = 0;
    while (text.charCodeAt(end - 1 - slashes) === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return end + 1;
  }
}

/** The position after the value that begins at `at`. The text is known to be JSON. */
function skipValue(text: string, at: number): number {
  let depth = 0;
  for (;;) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = skipString(text, at);
    else if (code === 0x7b || code === 0x5b) {
      depth++;
      at++;
      continue;
    } else if (code === 0x7d || code === 0x5d) {
      depth--;
      at++;
    } else if (code === 0x2c || code === 0x3a || isSpace(code)) {
      at++;
      continue;
    } else at = skipScalar(text, at);
    if (depth === 0) return at;
  }
}

function skipScalar(text: string, at: number): number {
  const end = /[\s,:\]}]/g;
  end.lastIndex = at;
  const found = end.exec(text);
  return found ? found.index : text.length;
}

/** The texts of the members of the object that begins at `at`. */
export function memberTexts(text: string, at = 0): Map<string, string> {
  const members = new Map<string, string>();
  at = skipSpace(text, at);
  if (text[at] !== '{') return members;
  at = skipSpace(text, at + 1);
  while (text[at] !== '}') {
    const nameEnd = skipString(text, at);
    const name = JSON.parse(text.slice(at, nameEnd)) as string;
    const begin = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const end = skipValue(text, begin);
    members.set(name, text.slice(begin, end));
    at = skipSpace(text, end);
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
  return members;
}

/** The texts of the elements of the array that begins at `at`. */
export function elementTexts(text: string, at = 0): string[] {
  const elements: string[] = [];
  at = skipSpace(text, at);
  if (text[at] !== '[') return elements;
  at = skipSpace(text, at + 1);
  while (text[at] !== ']') {
    const end = skipValue(text, at);
    elements.push(text.slice(at, end));
    at = skipSpace(text, end);
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
  return elements;
}

/** The items of a list in a reply, each as a text that is found when it is first needed. */
export class ItemTexts {
  #reply: string | undefined;
  #member: string;
  #items: string[] | undefined;
  constructor(reply: string, member: string) {
    this.#reply = reply;
    this.#member = member;
  }
  at(index: number): string {
    if (!this.#items) {
      this.#items = elementTexts(memberTexts(this.#reply ?? '').get(this.#member) ?? '[]');
      this.#reply = undefined;
    }
    return this.#items[index] ?? '{}';
  }
}

/** JSON.parse, but integers that a number cannot hold exactly become bigint. */
export function parseExact(text: string): unknown {
  return /\d{16}/.test(text) ? readExact(text) : JSON.parse(text);
}

function readExact(text: string): unknown {
  text = text.trim();
  switch (text[0]) {
    case '{': {
      const object: Record<string, unknown> = {};
      for (const [name, item] of memberTexts(text)) Object.defineProperty(object, name, { value: parseExact(item), enumerable: true, writable: true, configurable: true });
      return object;
    }
    case '[':
      return elementTexts(text).map(parseExact);
    default: {
      const value = JSON.parse(text) as unknown;
      return typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(text) ? BigInt(text) : value;
    }
  }
}
