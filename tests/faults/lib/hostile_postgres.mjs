// SPDX-License-Identifier: Apache-2.0
// Answers of PostgreSQL (protocol 3.0), message by message, some of them changed: values of rows, their number and
// width, whole messages, and the frames around them.
import { boundaries, lies, scramble } from './hostile.mjs';

const frame = (kind, content) => {
  const head = Buffer.alloc(5);
  head.write(kind, 0, 'latin1');
  head.writeInt32BE(content.length + 4, 1);
  return Buffer.concat([head, content]);
};
const error = (state, text) => frame('E', Buffer.from(`SERROR\0VERROR\0C${state}\0M${text}\0\0`));
const copy = (kind) => frame(kind, Buffer.from([0, 0, 0]));

/** Columns of a DataRow; null is NULL. */
function columnsOf(content) {
  const columns = [];
  let at = 2;
  for (let n = content.readInt16BE(0); n > 0; n--) {
    const length = content.readInt32BE(at);
    at += 4;
    columns.push(length < 0 ? null : content.subarray(at, at + length));
    at += Math.max(length, 0);
  }
  return columns;
}

function rowOf(columns) {
  const parts = [Buffer.alloc(2)];
  parts[0].writeInt16BE(columns.length);
  for (const column of columns) {
    const length = Buffer.alloc(4);
    length.writeInt32BE(column ? column.length : -1);
    parts.push(length, column ?? Buffer.alloc(0));
  }
  return frame('D', Buffer.concat(parts));
}

/** A value of the same width, or of any. */
function valueInstead(random, value) {
  const wide = Buffer.alloc(8);
  wide.writeBigInt64BE(random.pick(boundaries));
  if (value && [1, 2, 4, 8].includes(value.length) && random.chance(0.8)) return wide.subarray(8 - value.length);
  return random.pick([() => null, () => Buffer.alloc(0), () => scramble(random, value ?? Buffer.alloc(8)), () => random.bytes(random.below(40)), () => wide])();
}

function changedRow(random, content) {
  const columns = columnsOf(content);
  if (columns.length && random.chance(0.9)) {
    for (let n = 1 + random.below(2); n > 0; n--) {
      const at = random.below(columns.length);
      columns[at] = valueInstead(random, columns[at]);
    }
    return [rowOf(columns)];
  }
  const row = rowOf(columns);
  return random.pick([
    () => Array(2 + random.below(300)).fill(row),
    () => [rowOf(columns.slice(1))],
    () => [rowOf([...columns, random.bytes(8)])],
    () => [],
  ])();
}

/** What else a message can become. */
const instead = [
  (random, message) => [message, message],
  () => [],
  (random, message) => [scramble(random, message)],
  (random, message) => [frame(message.toString('latin1', 0, 1), scramble(random, message.subarray(5)))],
  (random, message) => [frame(random.pick([...'TDCZE123nIsSAKRtGHWdcNv']), message.subarray(5))],
  (random, message) => [error(random.pick(['40001', '42P01', '23505', '57P01', 'XX000', '']), 'a lie'), message],
  () => [error('57P01', 'a lie')],
  (random, message) => [frame('Z', Buffer.from(random.pick(['I', 'T', 'E', 'x']))), message],
  (random, message) => [message, frame('Z', Buffer.from('I'))],
  (random, message) => [frame('A', Buffer.concat([Buffer.from([0, 0, 0, 1]), Buffer.from('holdfast_wake\0'), random.bytes(20), Buffer.from([0])])), message],
  (random, message) => [frame('N', Buffer.from('SNOTICE\0C00000\0Ma lie\0\0')), message],
  (random) => [copy(random.pick(['G', 'H', 'W']))],
  (random, message) => [frame('S', Buffer.from('server_version\0-1\0')), message],
  (random) => [random.bytes(1 + random.below(200))],
  (random, message) => {
    const lying = Buffer.from(message);
    lying.writeInt32BE(random.pick([0, 3, 4, 5, 29_999, 0x3fffffff, 0x7fffffff, -1, -2147483648]), 1);
    return [lying];
  },
  () => [null],
];

/** rate(): the share of messages that are changed; values of rows are the most frequent change, and the last to end a connection. */
export function postgresLies(random, rate, { structure = 0.1, first = 40 } = {}) {
  let held = Buffer.alloc(0);
  let count = 0;
  return {
    take(bytes) {
      const out = [];
      held = Buffer.concat([held, bytes]);
      while (held.length >= 5 && held.length >= 1 + held.readInt32BE(1)) {
        const message = held.subarray(0, 1 + held.readInt32BE(1));
        held = held.subarray(message.length);
        const row = message[0] === 0x44;
        count++;
        if (lies(random, rate() * structure, count, first)) out.push(...random.pick(instead)(random, message));
        else if (row && lies(random, rate(), count, first)) out.push(...changedRow(random, message.subarray(5)));
        else out.push(message);
      }
      return out;
    },
  };
}
