// SPDX-License-Identifier: Apache-2.0
// The members of every request body and the parameters of every query, with their limits, and the
// values that each kind of member must take or refuse.

const hour = 3600_000;
const year9999 = 253402300799999;
const int64 = { min: -9223372036854775808n, max: 9223372036854775807n };

export const text = (max, more = {}) => ({ kind: 'text', max, ...more });
export const cut = { kind: 'cut' };
export const int = (min, max, more = {}) => ({ kind: 'int', min, max, ...more });
export const bool = { kind: 'bool' };
export const time = { kind: 'time' };
export const word = (...words) => ({ kind: 'word', words });
export const words = (...list) => ({ kind: 'words', words: list });
export const priority = { kind: 'priority' };
export const steps = { kind: 'steps' };
export const backoff = { kind: 'backoff' };
export const raw = { kind: 'raw' };
export const texts = { kind: 'texts' };
export const token = { kind: 'token' };
export const percent = { kind: 'percent', nullable: true };
export const json = (max) => ({ kind: 'json', max, nullable: true });
export const lines = { kind: 'lines' };
export const leases = { kind: 'leases' };
/** A lease of a job that does not exist. */
export const lostLease = '{"id":"9007199254740991","token":"1-1"}';

const lease = int(100, 24 * hour);
const states = ['scheduled', 'ready', 'running', 'done', 'dead', 'cancelled'];
const uniqueMode = word('reject', 'return', 'replace');
const count = int(0, int64.max, { nullable: true });
const when = { delay_ms: int(0, year9999), run_at: time };

export const policy = {
  lease_ms: lease, timeout_ms: int(0, 30 * 24 * hour), cancel_grace_ms: int(0, 24 * hour), max_attempts: int(1, 60000),
  max_crashes: int(0, 60000), backoff, backoff_ms: steps,
  lease_end: word('requeue', 'requeue_counted', 'fail'), unique_mode: uniqueMode, unique_scope: word('live', 'kept', 'none'),
  durability: word('fsync', 'relaxed'), refuse_new: bool, require_token: bool, ranked: bool, priority, capacity: int(1, int64.max, { nullable: true }),
  payload_max: int(0, 64 << 20), warn_depth: int(0, 4294967295), keep_done_ms: count, keep_done: count, keep_dead_ms: count,
  keep_dead: count, description: text(4096), owner: text(64),
};
export const job = {
  payload: raw, priority, ...when, unique: text(512), unique_mode: uniqueMode, max_attempts: int(1, 60000), max_crashes: int(1, 60000),
  lease_ms: lease, timeout_ms: int(0, 30 * 24 * hour), backoff_ms: steps, backoff, expires_at: time, expires_in_ms: int(1, year9999), group: text(512),
  correlation_id: text(512), priority_label: text(64), kind: text(128),
};
/** Without the payloads, whose limits are those of whole bodies. */
export const imported = {
  id: text(128), queue: text(200), state: word('scheduled', 'ready', 'running', 'dead'), reason: word('failed', 'lease_expired'), priority, priority_label: text(64),
  failures: int(0, 65535), crashes: int(0, 65535), max_attempts: int(1, 60000), max_crashes: int(1, 60000), lease_ms: lease,
  timeout_ms: int(0, 30 * 24 * hour), backoff, created_at: time,
  run_at: time, expires_at: time, unique: text(512), group: text(512), correlation_id: text(512), kind: text(128), error: cut, error_type: cut, stack: cut, error_kind: word('app', 'business'),
  seq: int(0, int64.max), attempts: int(0, int64.max), state_since: time,
};
export const claim = { count: int(1, 1000), wait_ms: int(0, 60000), lease_ms: lease, worker: text(128) };
export const ack = { token, result: raw };
export const fail = { token, error: cut, error_type: cut, stack: cut, error_kind: word('app', 'business'), result: raw, retry: bool, ...when };
export const extend = { token, lease_ms: lease };
export const progress = { token, percent, message: text(1024, { nullable: true }), data: json(4096), lease_ms: lease };
export const log = { token, lines };
export const step = { token, result: raw };
const nullable = { nullable: true };
export const heartbeat = {
  host: text(200, nullable), pid: int(0, 4294967295, nullable), version: text(64, nullable), done: int(0, int64.max), failed: int(0, int64.max), leases,
  extend_ms: lease, wait_ms: int(0, 60000), stopping: bool,
};
export const release = { token, reason: cut, ...when };
export const listen = { prefetch: int(1, 1000), lease_ms: lease, worker: text(128) };
export const patch = { priority, ...when, payload: raw };
export const pause = { until: time, for_ms: int(1, year9999) };
export const bulk = { states: words(...states), group: text(512), kind: text(128), dry_run: bool };
export const cancel = { force: bool };

const events = words('enqueued', 'dead', 'queue_deep');
const namePage = { cursor: text(2048), limit: int(1, 1000) };
export const queries = {
  '/v1/queues': namePage,
  '/v1/queues/{queue}/stats': { group: text(512) },
  '/v1/queues/{queue}/peek': { state: word(...states), limit: int(1, 100), payload: bool },
  '/v1/queues/{queue}/history': { from: time, to: time },
  '/v1/queues/{queue}/listen': { events, after: int(0, int64.max) },
  '/v1/jobs': {
    queue: text(200), state: words(...states), group: text(512), unique: text(512), correlation_id: text(512), kind: text(128), priority_min: int(int64.min, int64.max),
    priority_max: int(int64.min, int64.max), created_from: time, created_to: time, reason: words('failed', 'expired'), order: word('oldest', 'newest'),
    limit: int(1, 1000), payload: bool, reports: bool,
  },
  '/v1/jobs/{id}': { payload: bool },
  '/v1/events': { events, after: int(0, int64.max), queue: text(200) },
  '/v1/snapshot': { queue: text(200) },
  '/v1/exceptions': { queue: text(200), limit: int(1, 1000) },
  '/v1/workers': namePage,
  '/v1/alerts': namePage,
  '/v1/breakers': namePage,
};

// ---- values, as JSON texts ----

const types = { null: 'null', boolean: 'true', string: '"nonsense"', number: '123', array: '[]', object: '{}' };
const right = {
  text: ['string'], cut: ['string'], int: ['number'], bool: ['boolean'], time: [], word: [], words: ['array'], priority: ['number'], steps: ['array'],
  backoff: ['object'], raw: Object.keys(types), texts: [], token: [], percent: [], json: Object.keys(types), lines: [], leases: ['array'],
};
const quoted = (s) => JSON.stringify(s);

export const badTimes = [
  '', 'tomorrow', '1893456000', '2030-01-31', '2030-01-31T12:00:00', '2030-13-01T00:00:00Z', '2030-00-01T00:00:00Z', '2030-02-30T00:00:00Z', '2030-01-31T24:00:00Z',
  '2030-01-31T12:60:00Z', '2030-01-31T12:00:61Z', '2030-01-31T12:00Z', '2030-01-31T12:00:00+25:00', '2030-01-31T12:00:00+0100', '2030-01-31T12:00:00.Z', ' 2030-01-31T12:00:00Z',
  '2030-01-31T12:00:00Zx', '2030-01-31T12:00:00Z\0', '10000-01-01T00:00:00Z', '-2030-01-31T12:00:00Z', '20300131T120000Z',
];
export const goodTimes = ['2030-01-31T12:00:00Z', '2030-01-31T12:00:00.5Z', '2030-01-31T12:00:00.123456789Z', '2030-01-31t12:00:00z', '2030-01-31T12:00:00+23:59', '2030-01-31T12:00:00-00:00', '2028-02-29T00:00:00Z', '9999-12-31T23:59:59.999Z'];

const manySteps = (n) => `[${Array(n).fill(1).join(',')}]`;
const backoffMs = 30 * 24 * hour;
const special = {
  text: (f) => [quoted('x'.repeat(f.max + 1)), quoted('ü'.repeat(f.max / 2) + 'x'), '"a\\u0000b"', '"\\ud800"', '"\\udc00\\ud800"', '"x\\udfff"'],
  cut: () => ['"\\ud800"'],
  int: (f) => [f.min - (typeof f.min === 'bigint' ? 1n : 1), f.max + (typeof f.max === 'bigint' ? 1n : 1), '1.5', '1e400', '-1e400', '9'.repeat(400), '9223372036854775808', '-9223372036854775809', '"5"'].map(String),
  bool: () => ['"true"', '1', '0'],
  time: () => badTimes.map(quoted),
  word: (f) => ['""', quoted(f.words[0].toUpperCase()), quoted(`${f.words[0]} `), quoted(`${f.words[0]}\0`), '"\\ud800"', quoted('x'.repeat(5000))],
  words: (f) => ['["nonsense"]', quoted(f.words[0]), '[1]', '[null]', `[${quoted(f.words[0])},""]`, '[[]]'],
  priority: () => ['""', '"hgh"', '1.5', '1e400', '9223372036854775808', '-9223372036854775809', '"\\ud800"', '"\\u001b[31m"', quoted('x'.repeat(5000))],
  steps: () => [manySteps(33), '[-1]', `[${backoffMs + 1}]`, '[1.5]', '["1"]', '[null]', '[[1]]', '"1,2"'],
  backoff: () => [
    '{"type":"linear"}', '{"type":"list"}', '{"type":"exponential","steps_ms":[1]}', '{"type":"list","steps_ms":[1],"base_ms":1}', '{"base_ms":2,"max_ms":1}', '{"jitter_percent":101}', '{"base_ms":-1}',
    `{"max_ms":${backoffMs + 1}}`, `{"type":"list","steps_ms":${manySteps(33)}}`, '{"nonsense":1}', '{"base_ms":"1"}', '{"type":1}',
  ],
  raw: () => [],
  texts: () => ['["a",1]', '[null]', '[]', '["\\ud800"]', '["a\\u0000"]', '[""]', quoted('a'), `[${Array(101).fill('"a"').join(',')}]`, quoted('x'.repeat(201)).replace(/.*/, '[$&]')],
  percent: () => ['-1', '-0.001', '100.001', '1e400', '"50"'],
  json: (f) => [quoted('x'.repeat(f.max - 1)), quoted('ü'.repeat(f.max / 2))],
  lines: () => ['["a",1]', '[null]', '["\\ud800"]', '["a\\u0000"]', `[${quoted('x'.repeat(16385))}]`, `[${Array(1001).fill('"a"').join(',')}]`],
  leases: () => ['[1]', '[null]', '[{}]', '[{"id":"1"}]', '[{"token":"1-1"}]', '[{"id":"x","token":"1-1"}]', '[{"id":"1","token":"x"}]', '[{"id":"1","token":"1-1","nonsense":1}]', `[${Array(1001).fill(lostLease).join(',')}]`],
  token: () => ['""', '"x"', '"1"', '"-1-1"', '"1-1 "', '"1-1-1"', `"${'9'.repeat(30)}-1"`, '"1-0x1"'],
};

/** JSON texts that a member must refuse. */
export function badValues(field) {
  const wrongType = Object.entries(types)
    .filter(([type]) => !right[field.kind].includes(type) && !(type === 'null' && field.nullable))
    .map(([, value]) => value);
  return [...new Set([...wrongType, ...special[field.kind](field)])];
}

/** JSON texts that a member must take: its limits and what is just inside them. */
export function goodValues(field) {
  const one = (v) => (typeof v === 'bigint' ? 1n : 1);
  switch (field.kind) {
    case 'text': return ['x'.repeat(field.max - 1), 'x'.repeat(field.max), 'ü'.repeat(field.max / 2), '\u{1f4e6}\n\u001b[0m"\\'].map(quoted).concat(field.nullable ? ['null'] : []);
    case 'cut': return [quoted(''), quoted('x'.repeat(8192)), quoted('ü'.repeat(9000)), '"a\\u0000b"'];
    case 'int': return [field.min, field.min + one(field.min), field.max - one(field.max), field.max].map(String).concat(field.nullable ? ['null'] : []);
    case 'bool': return ['true', 'false'];
    case 'time': return goodTimes.map(quoted);
    case 'word': return field.words.map(quoted);
    case 'words': return field.words.map((w) => `[${quoted(w)}]`).concat(`[${field.words.map(quoted).join(',')}]`);
    case 'priority': return ['0', '-1', '9223372036854775807', '-9223372036854775807', '"high"', '"low"'];
    case 'steps': return ['[]', '[0]', manySteps(31), manySteps(32), `[${backoffMs}]`];
    case 'backoff': return ['{}', '{"type":"list","steps_ms":[]}', '{"type":"exponential","base_ms":0,"max_ms":0,"jitter_percent":0}', `{"jitter_percent":100,"max_ms":${backoffMs}}`];
    case 'raw': return Object.values(types);
    case 'percent': return ['0', '0.01', '99.99', '100', '1e1', 'null'];
    case 'json': return [...Object.values(types), quoted('x'.repeat(field.max - 3)), quoted('x'.repeat(field.max - 2))];
    case 'lines': return ['["a"]', '["", "b\\nc"]', `[${quoted('x'.repeat(16384))}]`, `[${Array(1000).fill('"a"').join(',')}]`];
    case 'leases': return ['[]', `[${Array(1000).fill(lostLease).join(',')}]`];
    default: return [];
  }
}

// ---- values, as texts of a query ----

const queryBad = {
  text: (f) => ['x'.repeat(f.max + 1), 'ü'.repeat(f.max / 2) + 'x'],
  int: (f) => ['', 'nonsense', `${f.min - (typeof f.min === 'bigint' ? 1n : 1)}`, `${f.max + (typeof f.max === 'bigint' ? 1n : 1)}`, '1.5', '1e400', '9'.repeat(400), '0x10', '+5', '5 5', '05', 'true', '"5"', '\u0663'],
  bool: () => ['', '1', 'TRUE', 'yes', 'null'],
  time: () => badTimes.filter((t) => !t.includes('\0')),
  word: (f) => ['', 'nonsense', f.words[0].toUpperCase(), `${f.words[0]},`],
  words: (f) => ['', 'nonsense', f.words[0].toUpperCase(), `${f.words[0]},`, `,${f.words[0]}`, `${f.words[0]},,${f.words[0]}`, `${f.words[0]}, ${f.words[0]}`],
  priority: () => ['', 'hgh', '1.5', '9223372036854775808', '\u001b[31m'],
  steps: () => ['', '1,', '-1', '1.5', 'x', `${backoffMs + 1}`, Array(33).fill(1).join(',')],
};
/** Texts that a query's parameter must refuse, and those that it must take. */
export const badTexts = (field) => queryBad[field.kind](field);
export function goodTexts(field) {
  const unquoted = (json) => (json.startsWith('"') ? JSON.parse(json) : json.startsWith('[') ? JSON.parse(json).join(',') : json);
  return goodValues(field).filter((json) => json !== 'null' && json !== '[]').map(unquoted);
}
