// SPDX-License-Identifier: Apache-2.0
// Patterns and values of the cases; README.md describes them.

const kinds = {
  $any: (value) => value !== undefined,
  $absent: (value) => value === undefined,
  $null: (value) => value === null,
  $text: (value) => typeof value === 'string',
  $number: (value) => typeof value === 'number',
};

const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value);
const show = (value) => (value === undefined ? 'nothing' : JSON.stringify(value).slice(0, 600));

const tests = {
  $match: (value, text) => typeof value === 'string' && new RegExp(text).test(value),
  $min: (value, least) => typeof value === 'number' && value >= least,
  $max: (value, most) => typeof value === 'number' && value <= most,
  $length: (value, length) => value?.length === length,
  $not: (value, pattern, names) => mismatch(value, pattern, names) !== null,
  $same: (value, name, names) => JSON.stringify(value) === JSON.stringify(lookUp(name, names)),
  $all: (value, pattern, names) => Array.isArray(value) && value.every((item) => mismatch(item, pattern, names) === null),
  $some: (value, pattern, names) => Array.isArray(value) && value.some((item) => mismatch(item, pattern, names) === null),
};

/** Null if the value has the form of the pattern, or else a text that says where it has not. */
export function mismatch(value, pattern, names, at = 'the value') {
  if (typeof pattern === 'string' && pattern in kinds) return kinds[pattern](value) ? null : `${at} is ${show(value)}, expected ${pattern}`;
  if (Array.isArray(pattern)) {
    if (!Array.isArray(value) || value.length !== pattern.length) return `${at} is ${show(value)}, expected ${show(pattern)}`;
    return firstOf(pattern.map((item, i) => () => mismatch(value[i], item, names, `${at}[${i}]`)));
  }
  if (!isObject(pattern)) return value === pattern ? null : `${at} is ${show(value)}, expected ${show(pattern)}`;
  const words = Object.keys(pattern);
  if (words.length > 0 && words.every((word) => word in tests))
    return words.every((word) => tests[word](value, pattern[word], names)) ? null : `${at} is ${show(value)}, expected ${show(pattern)}`;
  if (!isObject(value)) return `${at} is ${show(value)}, expected ${show(pattern)}`;
  return firstOf(words.map((word) => () => mismatch(value[word], pattern[word], names, `${at}.${word}`)));
}

function firstOf(checks) {
  for (const check of checks) {
    const found = check();
    if (found) return found;
  }
  return null;
}

export function lookUp(path, names) {
  let value = names;
  for (const part of path.split('.')) {
    if (value === null || value === undefined) throw new Error(`the case has no value ${path}`);
    value = value[part];
  }
  if (value === undefined) throw new Error(`the case has no value ${path}`);
  return value;
}

/** The value with its references to stored values replaced. */
export function filled(value, names) {
  if (typeof value === 'string') {
    const whole = /^\$\{([\w.]+)\}$/.exec(value);
    if (whole) return lookUp(whole[1], names);
    return value.replace(/\$\{([\w.]+)\}/g, (_, path) => String(lookUp(path, names)));
  }
  if (Array.isArray(value)) return value.map((item) => filled(item, names));
  if (!isObject(value)) return value;
  if ('$repeat' in value) return Array.from({ length: value.$repeat }, () => filled(value.of, names));
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, filled(item, names)]));
}
