// SPDX-License-Identifier: Apache-2.0
// Answers of Redis (RESP 2), reply by reply, some of them changed: numbers, texts, types, lengths of lists, and the
// protocol around them.
import { boundaries, lies, scramble } from './hostile.mjs';

/** One reply from `at` on: [node, end], or null while a part is missing. */
function parse(bytes, at) {
  const end = bytes.indexOf('\r\n', at);
  if (end < 0) return null;
  const kind = String.fromCharCode(bytes[at]);
  const line = bytes.toString('latin1', at + 1, end);
  if (kind === '$') {
    const length = Number(line);
    if (length < 0) return [{ kind, value: null }, end + 2];
    if (bytes.length < end + 2 + length + 2) return null;
    return [{ kind, value: bytes.subarray(end + 2, end + 2 + length) }, end + 2 + length + 2];
  }
  if (kind !== '*') return [{ kind, value: line }, end + 2];
  const list = [];
  let next = end + 2;
  for (let n = Number(line); n > 0; n--) {
    const one = parse(bytes, next);
    if (!one) return null;
    list.push(one[0]);
    next = one[1];
  }
  return [{ kind, value: Number(line) < 0 ? null : list }, next];
}

function written({ kind, value, raw }) {
  if (raw) return raw;
  if (kind === '*') return Buffer.concat([Buffer.from(`*${value ? value.length : -1}\r\n`), ...(value ?? []).map(written)]);
  if (kind === '$') return value ? Buffer.concat([Buffer.from(`$${value.length}\r\n`), value, Buffer.from('\r\n')]) : Buffer.from('$-1\r\n');
  return Buffer.from(`${kind}${value}\r\n`, 'latin1');
}

function each(node, fn) {
  fn(node);
  if (node.kind === '*') for (const one of node.value ?? []) each(one, fn);
}

const nested = (depth) => ({ raw: Buffer.from('*1\r\n'.repeat(depth) + ':1\r\n') });

/** Another value in the place of a number, a text or a list. */
function nodeInstead(random, node) {
  const number = () => String(random.pick(boundaries));
  const packed = Buffer.alloc(8);
  packed.writeBigInt64BE(random.pick(boundaries));
  if (node.kind === ':' && random.chance(0.7)) return { kind: ':', value: number() };
  if (node.kind === '$' && node.value && random.chance(0.7)) {
    if (/^-?\d+$/.test(node.value.toString('latin1'))) return { kind: '$', value: Buffer.from(number()) };
    const copy = Buffer.from(node.value);
    if (copy.length >= 8 && random.chance(0.5)) packed.copy(copy, random.below(copy.length - 7));
    else return { kind: '$', value: scramble(random, copy) };
    return { kind: '$', value: copy };
  }
  if (node.kind === '*' && node.value?.length && random.chance(0.7)) {
    const list = [...node.value];
    const at = random.below(list.length);
    random.pick([
      () => list.splice(at, 1),
      () => list.splice(at, 0, list[at]),
      () => list.push(...Array(random.below(300)).fill(list[at])),
      () => list.splice(at),
    ])();
    return { kind: '*', value: list };
  }
  return random.pick([
    () => ({ kind: ':', value: number() }),
    () => ({ kind: '$', value: Buffer.from(number()) }),
    () => ({ kind: '$', value: null }),
    () => ({ kind: '$', value: random.bytes(random.below(100)) }),
    () => ({ kind: '+', value: 'OK' }),
    () => ({ kind: '-', value: random.pick(['ERR a lie', 'OOM a lie', 'NOSCRIPT a lie', 'LOADING a lie', 'READONLY a lie', 'BUSY a lie']) }),
    () => ({ kind: '*', value: [] }),
    () => ({ kind: '*', value: null }),
    () => nested(5),
  ])();
}

function changed(random, reply) {
  const nodes = [];
  each(reply, (node) => nodes.push(node));
  for (let n = 1 + random.below(2); n > 0; n--) {
    const node = random.pick(nodes);
    const instead = nodeInstead(random, node);
    delete node.raw;
    Object.assign(node, instead);
  }
  return [written(reply)];
}

/** What else a reply can become. */
const instead = [
  (random, reply) => [reply, reply],
  () => [],
  (random, reply) => [scramble(random, reply)],
  (random) => [random.bytes(1 + random.below(200))],
  (random) => [Buffer.from(`$${random.pick([-2, 2147483647, 9223372036854775807n, 536870912, 100])}\r\n`), random.bytes(20)],
  (random) => [Buffer.from(`*${random.pick([-2, 2147483647, 9223372036854775807n, 100_000_000, 4294967295])}\r\n`), random.bytes(20)],
  (random) => [written(nested(random.pick([6, 8, 20, 100_000])))],
  () => [Buffer.from(':99999999999999999999\r\n')],
  () => [Buffer.from('-\r\n')],
  () => [null],
];

/** rate(): the share of replies that are changed. */
export function redisLies(random, rate, { structure = 0.1, first = 40 } = {}) {
  let held = Buffer.alloc(0);
  let count = 0;
  return {
    take(bytes) {
      const out = [];
      held = Buffer.concat([held, bytes]);
      for (let one; held.length > 0 && (one = parse(held, 0)) !== null;) {
        const raw = held.subarray(0, one[1]);
        held = held.subarray(one[1]);
        count++;
        if (lies(random, rate() * structure, count, first)) out.push(...random.pick(instead)(random, raw));
        else if (lies(random, rate(), count, first)) out.push(...changed(random, one[0]));
        else out.push(raw);
      }
      return out;
    },
  };
}
