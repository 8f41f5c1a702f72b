// SPDX-License-Identifier: Apache-2.0
// The parts of the JavaScript client that need no server.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

const dist = (name) => import(`../../../clients/js/dist/esm/${name}.js`);
const { elementTexts, memberTexts, parseExact, rawJson, toJson } = await dist('json');
const { camelObject, snakeObject } = await dist('names');
const { backoffMs } = await dist('time');
const { endingOf } = await dist('worker/outcome');
const { tracedHeaders } = await dist('trace');
const { FailJob, Holdfast, HoldfastError, ProblemError, ReleaseJob, UnknownOutcomeError, ConnectionError } = await dist('index');
const { Transport } = await dist('transport');
const { LagMonitor } = await dist('worker/lag');
const { JobContext } = await dist('worker/context');
const { durationMs } = await dist('testing');

describe('json', () => {
  test('bigint and raw texts are written exactly, at any depth', () => {
    assert.equal(toJson({ a: [2n ** 64n, { b: rawJson('1.10') }], c: undefined, d: new Date(0) }), '{"a":[18446744073709551616,{"b":1.10}],"d":"1970-01-01T00:00:00.000Z"}');
    assert.equal(toJson(rawJson('[1, 2]')), '[1, 2]');
    assert.equal(toJson(undefined), 'null');
    assert.equal(toJson({ a: 1n, f() {}, n: NaN, s: new String('x'), l: [undefined] }), '{"a":1,"n":null,"s":"x","l":[null]}');
    assert.throws(() => rawJson('{'), SyntaxError);
  });
  test('a payload that contains itself is refused', () => {
    const loop = { a: 1n };
    loop.loop = loop;
    assert.throws(() => toJson(loop), /contain itself/);
    const shared = { x: 1n };
    assert.equal(toJson([shared, shared]), '[{"x":1},{"x":1}]');
  });
  test('integers that a number cannot hold are read as bigint, others as numbers', () => {
    const text = '{"a":12345678901234567890,"b":[-9007199254740993,9007199254740991],"c":1.5e300,"d":"12345678901234567890","__proto__":{"x":12345678901234567890}}';
    const value = parseExact(text);
    assert.deepEqual([value.a, value.b, value.c, value.d], [12345678901234567890n, [-9007199254740993n, 9007199254740991], 1.5e300, '12345678901234567890']);
    assert.equal(Object.getPrototypeOf(value), Object.prototype);
    assert.equal(Object.keys(value).length, 5);
    assert.equal(parseExact(' 12345678901234567890 '), 12345678901234567890n);
  });
  test('the texts of members are those of the reply', () => {
    const text = ' { "a" : [1, {"x":"}\\""}] ,"b":"\\\\","c":-1.5e3 , "d":{}, "e":[ ] }';
    assert.deepEqual([...memberTexts(text)], [['a', '[1, {"x":"}\\""}]'], ['b', '"\\\\"'], ['c', '-1.5e3'], ['d', '{}'], ['e', '[ ]']]);
    assert.deepEqual(elementTexts('[ 1 ,"a]", [2,[3]], {"b":[4]},null]'), ['1', '"a]"', '[2,[3]]', '{"b":[4]}', 'null']);
    assert.deepEqual(elementTexts('[]'), []);
  });
  test('random JSON is divided as JSON.parse does', () => {
    let seed = 7;
    const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
    const value = (depth) => {
      const kind = random(depth > 4 ? 4 : 6);
      if (kind === 4) return Array.from({ length: random(4) }, () => value(depth + 1));
      if (kind === 5) return Object.fromEntries(Array.from({ length: random(4) }, (_, i) => [`k${i}"\\`, value(depth + 1)]));
      return [null, random(1e9) - 5e8, String.fromCodePoint(...Array.from({ length: random(6) }, () => 32 + random(95))), random(2) === 0][kind];
    };
    for (let i = 0; i < 500; i++) {
      const object = { a: value(0), b: value(0) };
      for (const text of [JSON.stringify(object), JSON.stringify(object, null, 2)])
        for (const [name, part] of memberTexts(text)) assert.deepEqual(JSON.parse(part), object[name], text);
    }
  });
});

describe('names', () => {
  test('only the members of the API are renamed', () => {
    assert.deepEqual(camelObject({ run_at: 1, payload: { my_name: 2 }, history: [{ error_type: 3 }] }, ['history']), { runAt: 1, payload: { my_name: 2 }, history: [{ errorType: 3 }] });
    assert.deepEqual(snakeObject({ runAt: new Date(0), headers: { aB: 'c' }, unique: undefined }), { run_at: '1970-01-01T00:00:00.000Z', headers: { aB: 'c' } });
  });
});

describe('time', () => {
  test('the pause doubles, is random and has a limit', () => {
    assert.deepEqual([0, 1, 2, 20].map((n) => backoffMs(n, 100, 5000, () => 1)), [100, 200, 400, 5000]);
    assert.equal(backoffMs(0, 100, 5000, () => 0), 50);
  });
  test('durations', () => {
    assert.deepEqual(['7d', '1h30m', '500ms', '1.5s', 20].map(durationMs), [604_800_000, 5_400_000, 500, 1500, 20]);
    for (const wrong of ['', '7', 'd', '1x', '1d x']) assert.throws(() => durationMs(wrong), RangeError, wrong);
  });
  test('a blocked event loop is noticed', async () => {
    let monitor;
    const begin = performance.now();
    const ms = await new Promise((resolve) => {
      monitor = new LagMonitor(() => 100, resolve);
      const end = Date.now() + 500;
      while (Date.now() < end);
      setTimeout(() => {}, 30_000).unref();
      setImmediate(() => {}); // the timer of the monitor does not keep the process running
      globalThis.keep = setTimeout(() => resolve(0), 20_000);
    });
    clearTimeout(globalThis.keep);
    monitor.close();
    assert.ok(ms >= 200, `${ms}`);
    assert.ok(monitor.longestSince(begin) >= ms);
  });
});

describe('the end of a handler', () => {
  class PaymentError extends Error {}
  test('an error fails with message, class and stack', () => {
    const { word, report } = endingOf(new PaymentError('no money', { cause: new TypeError('inner') }));
    assert.deepEqual([word, report.error, report.errorType], ['fail', 'no money', 'PaymentError']);
    assert.match(report.stack, /no money[^]*caused by: TypeError: inner/);
  });
  test('anything can be thrown', () => {
    for (const [thrown, error, errorType] of [['text', 'text', 'string'], [undefined, 'undefined', 'undefined'], [null, 'null', 'null'], [{ a: 1 }, '{"a":1}', 'object'], [new Error(''), 'Error', 'Error']])
      assert.deepEqual([endingOf(thrown).report.error, endingOf(thrown).report.errorType], [error, errorType]);
    const loop = {};
    loop.loop = loop;
    assert.equal(endingOf(loop).report.error, '[object Object]');
    assert.equal(endingOf(new Error('x'.repeat(10_000))).report.error.length, 8192);
  });
  test('FailJob and ReleaseJob say what to report', () => {
    const { report } = endingOf(new FailJob('no', { retry: false, kind: 'business', delayMs: 5, cause: new PaymentError('x'), result: { r: 1 } }));
    assert.deepEqual({ ...report, stack: '' }, { error: 'no', errorType: 'PaymentError', stack: '', errorKind: 'business', retry: false, delayMs: 5, result: { r: 1 } });
    assert.deepEqual(endingOf(new ReleaseJob('later', { delayMs: 5 })), { word: 'release', report: { reason: 'later', delayMs: 5 } });
    assert.deepEqual(endingOf(new ReleaseJob()), { word: 'release', report: {} });
  });
});

test('a step runs once in an attempt, whatever its name', async () => {
  const stored = [];
  const held = { job: { id: '1', token: '1-1' }, stopReason: undefined };
  const context = new JobContext({ storeStep: async (job, name, result) => stored.push([name, result]) }, 'w', held, {});
  for (const name of ['charge', '__proto__', 'constructor']) {
    for (let i = 0; i < 2; i++) assert.deepEqual(await context.step(name, () => ({ name })), { name });
  }
  assert.deepEqual(stored.map(([name]) => name), ['charge', '__proto__', 'constructor']);
});

test('the trace context is added unless the job has its own', () => {
  const tracing = { inject: (carrier) => Object.assign(carrier, { traceparent: 't', tracestate: 's', baggage: 'b' }) };
  assert.deepEqual(tracedHeaders(tracing, { a: '1' }), { a: '1', traceparent: 't', tracestate: 's' });
  assert.deepEqual(tracedHeaders(tracing, { traceparent: 'own' }), { traceparent: 'own' });
  assert.equal(tracedHeaders({ inject() {} }, undefined), undefined);
  assert.equal(tracedHeaders(undefined, undefined), undefined);
});

describe('transport', () => {
  const reply = (status, body, headers = {}) => ({ status, headers: { get: (name) => headers[name] ?? null }, text: async () => (typeof body === 'string' ? body : JSON.stringify(body)) });
  /** A transport whose requests get these outcomes, one after the other. */
  const over = (...outcomes) => {
    const sent = [];
    const fetch = async (url, init) => {
      sent.push({ url, ...init });
      const outcome = outcomes.shift();
      if (outcome instanceof Error) throw outcome;
      return outcome;
    };
    return { sent, transport: new Transport({ url: 'http://host/base/', token: 'secret', fetch, retryForMs: 60_000 }) };
  };

  test('the address may have a base path; what does not belong there is refused', async () => {
    const { transport, sent } = over(reply(200, {}));
    await transport.request('GET', '/v1/server');
    assert.equal(sent[0].url, 'http://host/base/v1/server');
    assert.equal(sent[0].headers.authorization, 'Bearer secret');
    for (const url of ['nonsense', 'ftp://x', 'http://u:p@h', 'http://h/?q', 'unix:/x']) assert.throws(() => new Holdfast(url), TypeError, url);
  });
  test('errors do not contain the access token', async () => {
    const failed = Object.assign(new TypeError('fetch failed'), { cause: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }) });
    const { transport } = over(failed);
    await assert.rejects(transport.request('GET', '/x', { retryForMs: 0 }), (error) => error instanceof ConnectionError && !JSON.stringify([error.message, error.stack]).includes('secret'));
  });
  test('a redirect is not followed, and a reply that is not JSON is not a success', async () => {
    await assert.rejects(over(reply(302, '')).transport.request('GET', '/x'), { code: 'http_302' });
    await assert.rejects(over(reply(0, '')).transport.request('GET', '/x'), { code: 'http_0' });
    await assert.rejects(over(reply(200, '<html>')).transport.request('POST', '/x'), UnknownOutcomeError);
  });
  test('an unknown outcome stays unknown, whatever follows', async () => {
    const broken = Object.assign(new TypeError('fetch failed'), { cause: Object.assign(new Error('reset'), { code: 'ECONNRESET' }) });
    const refused = Object.assign(new TypeError('fetch failed'), { cause: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }) });
    const { transport } = over(broken, refused, refused, refused, refused, refused);
    await assert.rejects(transport.request('POST', '/x', { repeatable: true, retryForMs: 200 }), UnknownOutcomeError);
  });
  test('a request that was not sent is repeated even if it may not be repeated', async () => {
    const refused = Object.assign(new TypeError('fetch failed'), { cause: Object.assign(new Error('refused'), { code: 'ECONNREFUSED' }) });
    const { transport, sent } = over(refused, reply(200, { ok: true }));
    assert.deepEqual((await transport.request('POST', '/x')).json, { ok: true });
    assert.equal(sent.length, 2);
  });
  test('Retry-After is respected: seconds, a date, or retry_after_ms', async () => {
    for (const [body, headers] of [[{ code: 'queue_full' }, { 'retry-after': '3600' }], [{ code: 'queue_full', retry_after_ms: 3_600_000 }, {}], [{ code: 'queue_full' }, { 'retry-after': new Date(Date.now() + 3_600_000).toUTCString() }]]) {
      const { transport, sent } = over(reply(429, body, headers));
      await assert.rejects(transport.request('POST', '/x', { repeatable: true }), (error) => error instanceof ProblemError && error.code === 'queue_full');
      assert.equal(sent.length, 1);
    }
  });
  test('an aborted request and a closed client reject with `aborted`', async () => {
    const hanging = (url, { signal }) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    const transport = new Transport({ url: 'http://host', fetch: hanging });
    const controller = new AbortController();
    const first = transport.request('GET', '/x', { signal: controller.signal });
    const second = transport.request('GET', '/x');
    controller.abort();
    await assert.rejects(first, { code: 'aborted' });
    transport.close();
    await assert.rejects(second, { code: 'aborted' });
    await assert.rejects(transport.request('GET', '/x'), (error) => error instanceof HoldfastError && error.code === 'aborted');
  });
});
