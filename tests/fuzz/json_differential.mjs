// SPDX-License-Identifier: Apache-2.0
//
// Our JSON reader against Node's: random texts, mutations of them and of the fuzz corpus, and the
// corpus itself must be accepted by both or refused by both. Left out is only what the two may
// differ in: nesting deeper than our limit of 128.
//
//   node json_differential.mjs FUZZ_JSON CORPUS [COUNT] [SEED]
//
// FUZZ_JSON answers with HF_JSON_ACCEPT set. Exit status 0: all COUNT texts agree.

import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const [program, corpus, countText = '60000', seedText = String(Date.now() % 1e9)] =
  process.argv.slice(2);
const count = Number(countText);
const seed = Number(seedText);
const DEPTH_MAX = 128;

// ---- random numbers from a seed (splitmix32) -----------------------------------------------------
let state = seed >>> 0;
function random() {
  state = (state + 0x9e3779b9) >>> 0;
  let z = state;
  z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
  z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
  return (z ^ (z >>> 15)) >>> 0;
}
const below = (n) => random() % n;
const chance = (percent) => below(100) < percent;
const pick = (list) => list[below(list.length)];

// ---- valid texts ---------------------------------------------------------------------------------
const spaces = ['', '', '', '', ' ', '\n', '\t', '\r\n', '  '];
const characters = [
  'a', 'Z', '0', ' ', '/', "'", '\x7f', 'é', '€', '\u2028', '\ufeff', '\uffff', '😀', '\u{10ffff}',
  '\\"', '\\\\', '\\/', '\\b', '\\f', '\\n', '\\r', '\\t', '\\u0000', '\\u00e9', '\\uD83D\\uDE00',
  '\\ud800', '\\uDFFF', '\\ude00\\ud83d', 'plain text, long enough for a word at a time',
];
const digits = (n) => Array.from({ length: n }, () => below(10)).join('');

function number() {
  let text = chance(30) ? '-' : '';
  text += chance(30) ? '0' : String(1 + below(9)) + digits(below(chance(5) ? 40 : 6));
  if (chance(30)) text += '.' + digits(1 + below(5));
  if (chance(30)) text += pick(['e', 'E']) + pick(['', '+', '-']) + digits(1 + below(4));
  return text;
}

function string() {
  let text = '"';
  for (let n = below(8); n > 0; n--) text += pick(characters);
  return text + '"';
}

function value(depth) {
  const space = () => pick(spaces);
  switch (depth > 0 ? below(8) : below(5)) {
    case 0: return pick(['null', 'true', 'false']);
    case 1:
    case 2: return number();
    case 3:
    case 4: return string();
    case 5: // a chain, sometimes right up to the limit
      if (chance(3)) {
        const n = chance(50) ? DEPTH_MAX - depth : below(DEPTH_MAX - 10);
        return '['.repeat(n) + ']'.repeat(n);
      } // otherwise an array
    case 6: {
      const items = Array.from({ length: below(5) }, () => space() + value(depth - 1) + space());
      return '[' + (items.length ? items.join(',') : space()) + ']';
    }
    default: {
      const members = Array.from({ length: below(5) }, () =>
        space() + string() + space() + ':' + space() + value(depth - 1) + space());
      return '{' + (members.length ? members.join(',') : space()) + '}';
    }
  }
}

const fresh = () => Buffer.from(pick(spaces) + value(below(6)) + pick(spaces), 'utf8');

// ---- mutations -----------------------------------------------------------------------------------
const tokens = [
  '{', '}', '[', ']', ',', ':', '"', '\\', 'null', 'true', '-', '+', '.', 'e', 'E', '0', '1', '00',
  '\\u', '\\ud800', '\\x', ' ', '\n', '\t', '\0', '\x1f', "'", '/', '//', 'NaN', '\ufeff', '\u00a0',
].map((text) => Buffer.from(text)).concat(
  ['ff', '80', 'c0af', 'c3', 'e28280', 'e282', 'eda080', 'f48fbfbf', 'f4908080', 'f09f98', 'efbbbf']
    .map((hex) => Buffer.from(hex, 'hex')));

function mutate(bytes) {
  const at = below(bytes.length + 1);
  const before = bytes.subarray(0, at);
  switch (below(6)) {
    case 0: return Buffer.concat([before, pick(tokens), bytes.subarray(at)]);
    case 1: return Buffer.concat([before, pick(tokens), bytes.subarray(at + 1)]);
    case 2: return Buffer.concat([before, bytes.subarray(at + 1 + below(3))]);
    case 3: return Buffer.concat([before, Buffer.from([below(256)]), bytes.subarray(at + 1)]);
    case 4: return before;
    default: {
      const from = below(bytes.length + 1);
      return Buffer.concat([before, bytes.subarray(from, from + below(12)), bytes.subarray(at)]);
    }
  }
}

// ---- both answers --------------------------------------------------------------------------------
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function nodeAccepts(bytes) {
  try {
    JSON.parse(decoder.decode(bytes));
    return true;
  } catch {
    return false;
  }
}

// The deepest place, as brackets outside of strings are counted; good enough to leave texts out.
function depthOf(bytes) {
  let depth = 0;
  let most = 0;
  let inString = false;
  for (let i = 0; i < bytes.length; i++) {
    const c = bytes[i];
    if (inString) {
      if (c === 0x5c) i++;
      else if (c === 0x22) inString = false;
    } else if (c === 0x22) inString = true;
    else if (c === 0x5b || c === 0x7b) most = Math.max(most, ++depth);
    else if (c === 0x5d || c === 0x7d) depth--;
  }
  return most;
}

function holdfastAccepts(texts) {
  const parts = [];
  for (const text of texts) {
    const length = Buffer.alloc(4);
    length.writeUInt32LE(text.length);
    parts.push(length, text);
  }
  const run = spawnSync(program, [], {
    input: Buffer.concat(parts),
    env: { ...process.env, HF_JSON_ACCEPT: '1' },
    maxBuffer: 1 << 28,
  });
  const answers = run.stdout?.toString('latin1') ?? '';
  if (run.status !== 0 || answers.length !== texts.length) {
    console.error(`${program}: status ${run.status}, ${answers.length} of ${texts.length} answers`);
    console.error(run.error ?? run.stderr?.toString() ?? '');
    process.exit(1);
  }
  return Array.from(answers, (answer) => answer === '1');
}

const kept = readdirSync(corpus).sort().map((name) => readFileSync(join(corpus, name)));
const texts = [...kept];
while (texts.length < count) {
  let text = chance(40) ? fresh() : chance(50) ? pick(kept) : pick(texts);
  for (let n = chance(30) ? 0 : 1 + below(3); n > 0; n--) text = mutate(text);
  texts.push(text);
}
const compared = texts.filter((text) => depthOf(text) <= DEPTH_MAX);

const ours = holdfastAccepts(compared);
let accepted = 0;
let different = 0;
compared.forEach((text, i) => {
  const theirs = nodeAccepts(text);
  accepted += theirs;
  if (theirs === ours[i] || ++different > 10) return;
  console.log(`Node ${theirs ? 'accepts' : 'refuses'}, Holdfast does not agree: ` +
    JSON.stringify(text.toString('latin1')));
});
console.log(`${compared.length} texts from seed ${seed}: ${accepted} valid, ${different} different`);
// A generator that makes only valid or only invalid texts would prove nothing.
if (accepted < compared.length / 10 || accepted > (compared.length * 9) / 10) {
  console.log('too few texts of one kind');
  process.exit(1);
}
process.exit(different === 0 ? 0 : 1);
