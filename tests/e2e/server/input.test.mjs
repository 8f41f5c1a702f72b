// SPDX-License-Identifier: Apache-2.0
// Bad input of every kind in every body, query and path: each refusal is a problem that names the field, a refused
// request has no effect, the limits hold at n - 1, n and n + 1, and the server and its store are sound afterwards.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';

import { has } from '../lib/backend.mjs';
import { Client, rawExchange } from '../lib/client.mjs';
import * as f from '../lib/fields.mjs';
import { problemFault, refusalFault } from '../lib/problem.mjs';
import { routes, run } from '../lib/program.mjs';
import { startServer, stopServer, temporaryDirectory } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue } from '../lib/suite.mjs';

// The native ones; other APIs have their own members and ids, and their own tests.
// So have keys, alerts and schedules (kv, notify, schedule).
const table = (await routes()).filter(({ pattern }) => !/^\/(api|keyval|v1\/(kv|alerts|notices|breakers|schedules))\b/.test(pattern));
let server, api, world;
const agent = new http.Agent({ keepAlive: true, maxSockets: 32 });

/** One request with a body as text or bytes; a stream counts as answered when it starts. */
function send(method, path, body, headers = {}) {
  const bytes = body === undefined ? undefined : Buffer.from(body);
  const all = { ...(bytes && { 'content-type': 'application/json', 'content-length': bytes.length }), ...headers };
  return new Promise((resolve, reject) => {
    const request = http.request({ host: server.host, port: server.port, method, path, headers: all, agent }, (response) => {
      const answer = { status: response.statusCode, headers: response.headers, text: '' };
      if (/event-stream/.test(response.headers['content-type'] ?? '')) {
        resolve(answer);
        request.destroy();
        return;
      }
      response.setEncoding('utf8').on('data', (chunk) => (answer.text += chunk));
      response.on('end', () => {
        if (/json/.test(response.headers['content-type'] ?? '')) answer.json = JSON.parse(answer.text);
        resolve(answer);
      });
    });
    request.on('error', reject);
    request.end(bytes);
  });
}

/** Runs every case, a few at a time; each returns what is wrong, or nothing. */
async function all(cases, check) {
  const wrong = [];
  let next = 0;
  const runSome = async () => {
    while (next < cases.length) {
      const one = cases[next++];
      const fault = await check(one);
      if (fault) wrong.push(`${one.title}: ${fault}`);
    }
  };
  await Promise.all(Array.from({ length: 16 }, runSome));
  assert.ok(cases.length > 0);
  assert.deepEqual(wrong, []);
}

const object = (members) => `{${Object.entries(members).map(([name, value]) => `${JSON.stringify(name)}:${value}`).join(',')}}`;
const shown = (value) => (value.length > 60 ? `${value.slice(0, 40)}… (${value.length})` : value);

/** The whole state of the server; time stands still, so it changes only by requests. */
async function everything() {
  const jobs = (await send('GET', '/v1/jobs?limit=1000')).json;
  const queues = (await send('GET', '/v1/queues?limit=1000')).json;
  assert.ok(jobs.jobs.length >= 3 && queues.queues.length >= 1);
  return JSON.stringify([jobs.jobs, queues]);
}
async function leavesNothing(act) {
  const earlier = await everything();
  await act();
  assert.equal(await everything(), earlier);
  assert.equal((await send('GET', '/healthz')).status, 200);
}

// Each body: its route, its members, and the required ones. `fresh` creates a target for which a valid one succeeds.
const queueOf = () => ({ queue: freshQueue('in') });
const workerOf = () => ({ name: freshQueue('worker') });
async function withJob(job = { payload: 1 }) {
  const queue = freshQueue('in');
  return { queue, id: (await enqueue(api, queue, job)).id };
}
async function withQueue() {
  const place = queueOf();
  assert.equal((await send('PUT', `/v1/queues/${place.queue}`, '{}')).status, 201);
  return place;
}
async function withLease() {
  const place = await withJob();
  return { ...place, ...(await claimOne(api, place.queue)) };
}
const withToken = ({ token }) => ({ token: JSON.stringify(token) });
const bodies = [
  { route: 'PUT /v1/queues/{queue}', fields: f.policy, fresh: queueOf },
  { route: 'PATCH /v1/queues/{queue}', fields: f.policy, fresh: withQueue },
  { route: 'POST /v1/queues/{queue}/pause', fields: f.pause, fresh: withQueue },
  ...['requeue', 'cancel', 'remove'].map((word) => ({ route: `POST /v1/queues/{queue}/${word}`, fields: { ...f.bulk, ...f[word] }, fresh: withQueue, base: () => ({ states: '["dead"]' }) })),
  { route: 'POST /v1/queues/{queue}/jobs', fields: f.job, fresh: queueOf },
  { route: 'POST /v1/queues/{queue}/claim', fields: f.claim, fresh: withJob },
  { route: 'POST /v1/claim', fields: { ...f.claim, queues: f.texts }, fresh: withJob, base: ({ queue }) => ({ queues: JSON.stringify([queue]) }) },
  { route: 'POST /v1/queues/{queue}/listen', fields: f.listen, fresh: queueOf },
  ...['ack', 'fail', 'extend', 'release'].map((word) => ({ route: `POST /v1/jobs/{id}/${word}`, fields: f[word], fresh: withLease, base: withToken })),
  { route: 'POST /v1/jobs/{id}/progress', fields: f.progress, fresh: withLease, base: (held) => ({ ...withToken(held), percent: '1', message: '"m"' }) },
  { route: 'POST /v1/jobs/{id}/log', fields: f.log, fresh: withLease, base: (held) => ({ ...withToken(held), lines: '["a"]' }) },
  { route: 'POST /v1/jobs/{id}/steps/{name}', fields: f.step, fresh: async () => ({ ...(await withLease()), name: 'step' }), base: (held) => ({ ...withToken(held), result: '{"n":1}' }) },
  // A lease that the worker does not have is reported at once, whatever wait_ms says.
  { route: 'POST /v1/workers/{name}/heartbeat', fields: f.heartbeat, fresh: workerOf, base: () => ({ leases: `[${f.lostLease}]` }) },
  { route: 'PATCH /v1/jobs/{id}', fields: f.patch, fresh: withJob, base: () => ({ priority: '1' }) },
  { route: 'POST /v1/jobs/{id}/cancel', fields: f.cancel, fresh: withJob },
  { route: 'POST /v1/jobs/{id}/requeue', fields: { delay_ms: f.job.delay_ms }, fresh: () => withJob({ delay_ms: 1000 }) },
  ...[{ route: 'POST /v1/batches', fields: { on_failure: f.word('cancel', 'run', 'dead'), open: f.bool }, fresh: queueOf, base: ({ queue }) => ({ jobs: `[{"queue":"${queue}"}]`, then: `{"queue":"${queue}"}` }) }],
  { route: 'POST /v1/test/clock', fields: { advance_ms: f.int(0, 253402300799999) }, base: () => ({ advance_ms: '0' }) },
];
const bodyless = ['POST /v1/queues/{queue}/resume', 'POST /v1/queues/{queue}/purge', 'POST /v1/jobs/{id}/discard', 'POST /v1/clock/accept', 'POST /v1/compact', 'DELETE /v1/queues/{queue}', 'DELETE /v1/jobs/{id}', 'POST /v1/batches/{id}/close'];
// Their members are lists; tests/e2e/features/dependencies.test.mjs has their refusals.
const listed = ['POST /v1/batches', 'POST /v1/batches/{id}/jobs', 'POST /v1/jobs/{id}/dependencies'];
const many = ['ack', 'fail', 'extend', 'release', 'import'].map((word) => `POST /v1/${word}`);
const baseOf = (body, place) => body.base?.(place) ?? {};
const [methodOf, patternOf] = [(route) => route.split(' ')[0], (route) => route.split(' ')[1]];
const pathOf = (route, place) => patternOf(route).replace('{queue}', place.queue).replace('{id}', place.id).replace('{name}', place.name);

describe('input', () => {
  before(async () => {
    server = await startServer({ args: ['--test-clock'], data: temporaryDirectory() });
    api = new Client(server);
    const queue = 'world';
    await enqueue(api, queue, { payload: 1, priority: 5 });
    const held = await claimOne(api, queue, { lease_ms: 60000 });
    const waiting = await enqueue(api, queue, { payload: 2, group: 'g' });
    await enqueue(api, queue, { payload: 3, delay_ms: 60000 });
    world = { queue, held, waiting };
  });
  after(async () => {
    agent.destroy();
    api.close();
    await stopServer(server);
    if (!has('files')) return;
    const { code, stdout, stderr } = await run(['check', server.data]);
    assert.equal(code, 0, stdout + stderr);
  });
  const place = (route) => ({ queue: world.queue, id: /PATCH|requeue|cancel/.test(route) ? world.waiting.id : world.held.id, token: world.held.token, name: 'worker' });
  const post = (route, text, headers) => send(methodOf(route), pathOf(route, place(route)), text, headers);

  // The APIs of other systems have their own tables in their own tests.
  test('these tables contain every route with a body', () => {
    const known = new Set([...bodies.map((body) => body.route), ...bodyless, ...listed, ...many]);
    const unknown = table.filter(({ method, pattern }) => pattern.startsWith('/v1/') && ['POST', 'PUT', 'PATCH'].includes(method)).map(({ method, pattern }) => `${method} ${pattern}`).filter((route) => !known.has(route));
    assert.deepEqual(unknown, []);
  });

  test('members of a wrong type or value are refused by name', () =>
    leavesNothing(async () => {
      const cases = bodies.flatMap((body) =>
        Object.entries(body.fields).flatMap(([name, field]) => f.badValues(field).map((value) => ({ title: `${body.route} ${name}=${shown(value)}`, body, name, field, value }))),
      );
      await all(cases, async ({ body, name, value }) => {
        const answer = await post(body.route, object({ ...baseOf(body, place(body.route)), [name]: value }));
        // Of a back-off and of a list of leases the member inside may be named.
        const codes = name === 'leases' ? ['invalid_field', 'unknown_field', 'missing_field', 'invalid_id'] : ['invalid_field', 'unknown_field'];
        return refusalFault(answer, codes, ['backoff', 'leases'].includes(name) ? undefined : name);
      });
    }));

  test('unknown members, members given twice, broken JSON', () =>
    leavesNothing(async () => {
      const whole = (body, more) => object({ ...baseOf(body, place(body.route)), ...more });
      const inside = (body, text) => whole(body, {}).replace(/\}$/, `${Object.keys(baseOf(body, place(body.route))).length ? ',' : ''}${text}}`);
      const deep = (n) => '['.repeat(n) + ']'.repeat(n);
      const kinds = (body) => {
        const [name, field] = Object.entries(body.fields)[0];
        const value = f.goodValues(field)[0] ?? `"${world.held.token}"`;
        const twice = `"${name}":${value},"${name}":${value}`;
        return [
          ['unknown_field', inside(body, '"nonsense":1'), 'nonsense'],
          ['unknown_field', inside(body, `"${name.toUpperCase()}":1`), name.toUpperCase()],
          ['unknown_field', inside(body, '"\\u001b[2J":null')],
          ['unknown_field', inside(body, `"${'n'.repeat(100000)}":null`)],
          ['unknown_field', inside(body, '"":null'), ''],
          [['unknown_field', 'malformed_json'], inside(body, '"\\u0000":null')],
          ['malformed_json', `{${twice}}`],
          ['malformed_json', `{"${name}":${value},"\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}":${value}}`],
          ...['{', '}', '{}x', '{}{}', '{"a"}', '{"a":}', '{"a":1,}', "{'a':1}", '\ufeff{}', '{"a":NaN}', '{"a":01}', '{"a":+1}', '{"a":.5}', '{"a":1.}', '{"a":tru}', '{"a":"\t"}', '{"a":"\\x"}', '{"a":"\\u12"}', '{a:1}', '{/**/}', '{"a":1]', '\0', ' '].map((text) => [['malformed_json', 'unknown_field'], text]),
          [['malformed_json', 'unknown_field'], Buffer.from('7b226e223a22ff227d', 'hex')],
          [['malformed_json', 'unknown_field'], Buffer.from('7b226e223a22c0af227d', 'hex')],
          [['malformed_json', 'unknown_field'], Buffer.from('7b226e223a22eda080227d', 'hex')],
          [['malformed_json', 'unknown_field'], Buffer.from('7b22ff223a317d', 'hex')],
          [['malformed_json', 'unknown_field'], `{"n":${deep(100000)}}`],
          ...['null', '1', '"x"', 'true'].map((text) => ['invalid_field', text]),
          ...(body.route.endsWith('/jobs') ? [] : [['invalid_field', '[]'], ['invalid_field', '[{}]']]),
        ];
      };
      const cases = bodies.flatMap((body) => kinds(body).map(([codes, text, field]) => ({ title: `${body.route} ${shown(String(text))}`, body, codes, text, field })));
      await all(cases, async ({ body, codes, text, field }) => refusalFault(await post(body.route, text), codes, field));
    }));

  test('a missing member is named', () =>
    leavesNothing(async () => {
      const missing = { 'POST /v1/claim': 'queues', 'POST /v1/test/clock': 'advance_ms' };
      for (const word of ['ack', 'fail', 'extend', 'release', 'progress', 'log', 'steps/{name}']) missing[`POST /v1/jobs/{id}/${word}`] = 'token';
      for (const word of ['ack', 'fail', 'extend', 'release']) missing[`POST /v1/${word}`] = 'jobs';
      const cases = Object.entries(missing).map(([route, field]) => ({ title: route, route, field }));
      await all(cases, async ({ route, field }) => refusalFault(await post(route, '{}'), 'missing_field', field));
      await all(cases, async ({ route, field }) => refusalFault(await post(route, ''), ['missing_field', 'malformed_json'], /claim|clock/.test(route) ? field : undefined));
      assert.equal(refusalFault(await post('PATCH /v1/jobs/{id}', '{}'), 'missing_field'), null);
      const nothing = await post('POST /v1/jobs/{id}/progress', object(withToken(world.held)));
      assert.equal(refusalFault(nothing, 'invalid_field'), null, 'a progress without anything to report');
      const pairs = [['POST /v1/queues/{queue}/jobs', 'delay_ms', 'run_at'], ['POST /v1/queues/{queue}/jobs', 'expires_at', 'expires_in_ms'], ['POST /v1/queues/{queue}/jobs', 'backoff_ms', 'backoff'], ['PUT /v1/queues/{queue}', 'backoff', 'backoff_ms'], ['POST /v1/jobs/{id}/fail', 'delay_ms', 'run_at'], ['POST /v1/jobs/{id}/release', 'delay_ms', 'run_at'], ['PATCH /v1/jobs/{id}', 'delay_ms', 'run_at'], ['POST /v1/queues/{queue}/pause', 'until', 'for_ms']];
      await all(pairs.map(([route, a, b]) => ({ title: `${route} ${a} ${b}`, route, a, b })), async ({ route, a, b }) => {
        const body = bodies.find((one) => one.route === route);
        const good = (name) => f.goodValues(body.fields[name]).at(-1);
        return refusalFault(await post(route, object({ ...baseOf(body, place(route)), [a]: good(a), [b]: good(b) })), 'invalid_field');
      });
    }));

  test('routes without members refuse members instead of ignoring them', () =>
    leavesNothing(async () => {
      const cases = bodyless.flatMap((route) => [['unknown_field', '{"group":"g"}'], ['unknown_field', '{"nonsense":1}'], ['malformed_json', '{'], ['invalid_field', '[]']].map(([codes, text]) => ({ title: `${route} ${text}`, route, codes, text })));
      await all(cases, async ({ route, codes, text }) => refusalFault(await post(route, text), codes));
    }));

  test('every element of a list of leases is checked separately', () =>
    leavesNothing(async () => {
      for (const word of ['ack', 'fail', 'extend', 'release']) {
        const fields = f[word];
        const bad = Object.entries(fields).flatMap(([name, field]) => f.badValues(field).map((value) => ({ name, value })));
        const elements = bad.map(({ name, value }) => object({ id: `"${world.held.id}"`, token: `"${world.held.token}"`, [name]: value }));
        const ids = ['null', 'true', '[]', '{}', '"x"', '-1', '1.5', '1e3', '9007199254740992', '""', '"\\ud800"'];
        elements.push(...ids.map((id) => object({ id, token: `"${world.held.token}"` })), '1', 'null', '[]', '"x"', '{}');
        const answer = await send('POST', `/v1/${word}`, `{"jobs":[${elements.join(',')}]}`);
        assert.equal(answer.status, 200, answer.text.slice(0, 500));
        assert.equal(answer.json.jobs.length, elements.length);
        for (const [i, { error }] of answer.json.jobs.entries()) {
          assert.ok(error, `${word} took ${elements[i]}`);
          assert.equal(problemFault(error, ['invalid_field', 'invalid_id', 'missing_field', 'unknown_field', 'malformed_json'], bad[i]?.name), null, `${word} ${elements[i]}`);
        }
        for (const jobs of ['[]', 'null', '1', '{}', '"x"', `[${Array(1001).fill('{}').join(',')}]`]) {
          assert.equal(refusalFault(await send('POST', `/v1/${word}`, `{"jobs":${jobs}}`), 'invalid_field', 'jobs'), null, `${word} ${shown(jobs)}`);
        }
        const most = await send('POST', `/v1/${word}`, `{"jobs":[${Array(1000).fill('{}').join(',')}]}`);
        assert.equal(most.json.jobs.length, 1000);
      }
    }));

  test('every element of an array or of NDJSON is checked separately; malformed JSON refuses all', () =>
    leavesNothing(async () => {
      const elements = Object.entries(f.job).flatMap(([name, field]) => f.badValues(field).map((value) => ({ name, text: object({ payload: '1', [name]: value }) })));
      elements.push(...['1', 'null', '[]', '"x"', '{"nonsense":1}', '{"payload":1,"payload":2}'].map((text) => ({ text })));
      for (const [type, body] of [['application/json', `[${elements.map((e) => e.text).join(',')}]`], ['application/x-ndjson', elements.map((e) => e.text).join('\r\n')]]) {
        const answer = await send('POST', `/v1/queues/${world.queue}/jobs`, body, { 'content-type': type });
        assert.equal(answer.status, 200, answer.text.slice(0, 500));
        for (const [i, { error }] of answer.json.jobs.entries()) {
          assert.ok(error, `took ${elements[i].text}`);
          assert.equal(problemFault(error, ['invalid_field', 'unknown_field', 'malformed_json'], elements[i].name === 'backoff' ? undefined : elements[i].name), null, elements[i].text);
        }
      }
      const jobs = `/v1/queues/${world.queue}/jobs`;
      const line = { 'content-type': 'application/x-ndjson' };
      for (const [body, headers] of [['[{},', {}], ['[{}]]', {}], ['[{}{}]', {}], ['[{},]', {}], ['{}\n{', line], ['{}\n{}x', line], ['{} {}', line], ['{"payload":\n1}', line]]) {
        assert.equal(refusalFault(await send('POST', jobs, body, headers), 'malformed_json'), null, body);
      }
      for (const [body, headers] of [['[]', {}], ['', line], ['\n \r\n', line], [`[${Array(1001).fill('{}').join(',')}]`, {}], ['{}\n'.repeat(1001), line]]) {
        assert.equal(refusalFault(await send('POST', jobs, body, headers), 'invalid_field'), null, shown(body));
      }
    }));

  test('every element of an import is checked separately', async () => {
    let count = 0;
    const element = (name, value) => object({ id: `"i${++count}"`, queue: '"imported"', [name]: value });
    const judged = async (elements) => {
      const answers = [];
      for (let i = 0; i < elements.length; i += 500) {
        const answer = await send('POST', '/v1/import', `[${elements.slice(i, i + 500).map((e) => e.text).join(',')}]`);
        assert.equal(answer.status, 200, answer.text.slice(0, 500));
        answers.push(...answer.json.jobs);
      }
      return answers;
    };
    const each = (values) => Object.entries(f.imported).flatMap(([name, field]) => values(field).map((value) => ({ name, text: element(name, value) })));
    await leavesNothing(async () => {
      const bad = each(f.badValues);
      bad.push(...['1', 'null', '[]', '{}', '{"id":"x"}', '{"id":"","queue":"q"}', '{"id":"x","queue":"-q"}', '{"id":"x","queue":"q","nonsense":1}', '{"id":"x","id":"y","queue":"q"}'].map((text) => ({ text })));
      for (const [i, { error }] of (await judged(bad)).entries()) {
        assert.ok(error, `took ${bad[i].text}`);
        assert.equal(problemFault(error, ['invalid_field', 'unknown_field', 'missing_field', 'malformed_json'], bad[i].name === 'backoff' ? undefined : bad[i].name), null, bad[i].text);
      }
    });
    const good = each((field) => f.goodValues(field)).filter(({ name, text }) => name !== 'queue' || !text.includes('\\n'));
    for (const [i, { error, created }] of (await judged(good)).entries()) assert.ok(created, `${shown(good[i].text)}: ${error?.detail}`);
  });

  test('query parameters: wrong values, unknown, twice, badly encoded', () =>
    leavesNothing(async () => {
      const bytes = { route: `/v1/queues/${world.queue}/jobs`, method: 'POST' };
      const tables = Object.entries(f.queries).map(([pattern, fields]) => ({ method: 'GET', at: pathOf(`GET ${pattern}`, { queue: world.queue, id: world.held.id }), fields }));
      const { payload, backoff, ...options } = f.job;
      assert.ok(payload && backoff);
      tables.push({ method: 'POST', at: bytes.route, fields: options });
      const cases = tables.flatMap(({ method, at, fields }) => {
        const [first, field] = Object.entries(fields)[0];
        const good = encodeURIComponent(f.goodTexts(field)[0]);
        const encoded = ['%', '%4', '%zz', '%ff', '%c0%af', '%ed%a0%80', '%f4%90%80%80', '%00'];
        return [
          ...Object.entries(fields).flatMap(([name, one]) => f.badTexts(one).map((value) => ['invalid_field', `${name}=${encodeURIComponent(value)}`, name])),
          ['unknown_field', 'nonsense=1', 'nonsense'],
          ['unknown_field', `${first}x=1`, `${first}x`],
          ['unknown_field', '%1b%5b2J=1'],
          ['invalid_field', `${first}=${good}&${first}=${good}`, first],
          ...encoded.map((value) => ['invalid_field', `${first}=${value}`]),
          ...encoded.map((value) => ['invalid_field', `${value}=1`]),
          [['invalid_field', 'unknown_field'], Array.from({ length: 200 }, (_, i) => `n${i}=1`).join('&')],
        ].map(([codes, query, name]) => ({ title: `${method} ${at}?${shown(query)}`, method, path: `${at}?${query}`, codes, name }));
      });
      await all(cases, async ({ method, path, codes, name }) =>
        refusalFault(await send(method, path, method === 'POST' ? 'bytes' : undefined, method === 'POST' ? { 'content-type': 'text/plain' } : {}), codes, name),
      );
      for (const name of ['payload=1', 'backoff=1']) assert.equal(refusalFault(await send('POST', `${bytes.route}?${name}`, 'x', { 'content-type': 'text/plain' }), ['invalid_field', 'unknown_field']), null, name);
      assert.equal(refusalFault(await send('GET', '/v1/jobs?cursor=nonsense'), 'invalid_field', 'cursor'), null);
      for (const id of ['x', '-1', '1.5', '9223372036854775808']) assert.equal(refusalFault(await send('GET', '/v1/events', undefined, { 'last-event-id': id }), 'invalid_field', 'Last-Event-ID'), null, id);
    }));

  test('a query is refused on routes without one', () =>
    leavesNothing(async () => {
      const withQuery = new Set(Object.keys(f.queries).map((pattern) => `GET ${pattern}`));
      const cases = table
        .filter(({ method, pattern, scope }) => scope !== 'open' && pattern !== '/metrics' && !withQuery.has(`${method} ${pattern}`))
        .map(({ method, pattern }) => ({ title: `${method} ${pattern}`, method, route: `${method} ${pattern}` }));
      await all(cases, async ({ method, route }) => {
        const body = bodies.find((one) => one.route === route);
        const text = ['POST', 'PUT', 'PATCH'].includes(method) ? object(body ? baseOf(body, place(route)) : {}) : undefined;
        return refusalFault(await send(method, `${pathOf(route, place(route))}?group=g`, text), 'unknown_field', 'group');
      });
    }));

  test('names of queues in paths', () =>
    leavesNothing(async () => {
      const bad = ['x'.repeat(201), '%c3%bc'.repeat(101), '%00', 'a%00b', '%0a', '%7f', '%c2%80', '-x', '%ff', '%c0%af', '%ed%a0%80', '%f8%88%80%80%80', '%zz', '%', 'a%4'];
      const cases = table.filter(({ pattern }) => pattern.includes('{queue}')).flatMap(({ method, pattern }) => bad.map((name) => ({ title: `${method} ${pattern} ${shown(name)}`, method, path: pattern.replace('{queue}', name) })));
      await all(cases, async ({ method, pattern, path }) => {
        const answer = await send(method, path, ['POST', 'PUT', 'PATCH'].includes(method) ? '{}' : undefined);
        return answer.json?.code === 'bad_request' ? refusalFault(answer, 'bad_request') : refusalFault(answer, 'invalid_field', 'queue');
      });
      const text = await send('POST', '/v1/claim', '{"queues":["-x"]}');
      assert.equal(refusalFault(text, 'invalid_field', 'queues'), null);
    }));

  test('ids of jobs in paths', () =>
    leavesNothing(async () => {
      const bad = ['x', '-1', '+1', '1.5', '1e3', '0x1', '00', '9007199254740992', '99999999999999999999', `${world.held.id}x`, world.held.id.slice(1), 'I'.repeat(26), '8ZZZZZZZZZZZZZZZZZZZZZZZZZ', '00000000-0000-0000-0000-00000000000g', '%31%00', 'a%2fb', '%ff'];
      const cases = table.filter(({ pattern }) => pattern.includes('{id}')).flatMap(({ method, pattern }) => bad.map((id) => ({ title: `${method} ${pattern} ${id}`, method, pattern, path: pattern.replace('{id}', id) })));
      await all(cases, async ({ method, pattern, path }) => {
        const answer = await send(method, path, ['POST', 'PUT', 'PATCH'].includes(method) && !bodyless.includes(`${method} ${pattern}`) ? `{"token":"${world.held.token}"}` : undefined);
        return answer.json?.code === 'bad_request' ? refusalFault(answer, 'bad_request') : refusalFault(answer, 'invalid_id', 'id');
      });
      for (const id of ['9007199254740991', '4242', world.held.id.replace(/...$/, 'ZZZ'), '01890a5d-ac96-7000-8000-000000000001']) {
        assert.equal(refusalFault(await send('GET', `/v1/jobs/${id}`), 'not_found'), null, id);
      }
    }));

  test('members at their limits are accepted', async () => {
    const cases = bodies
      .filter((body) => body.fresh)
      .flatMap((body) => Object.entries(body.fields).flatMap(([name, field]) => f.goodValues(field).map((value) => ({ title: `${body.route} ${name}=${shown(value)}`, body, name, field, value }))));
    await all(cases, async ({ body, name, field, value }) => {
      const where = await body.fresh();
      const answer = await send(methodOf(body.route), pathOf(body.route, where), object({ ...baseOf(body, where), [name]: value }));
      if (answer.status > 299) return `${answer.status} ${answer.text}`;
      if (!body.route.endsWith('/jobs') || field.kind !== 'text') return null;
      const kept = (await send('GET', `/v1/jobs/${answer.json.id}`)).json[name];
      return kept === JSON.parse(value) ? null : `kept as ${kept}`;
    });
  });

  test('query parameters at their limits are accepted', async () => {
    const { payload, backoff, ...options } = f.job;
    assert.ok(payload && backoff);
    const tables = [...Object.entries(f.queries).map(([pattern, fields]) => ['GET', pattern, fields]), ['POST', '/v1/queues/{queue}/jobs', options]];
    const cases = tables.flatMap(([method, pattern, fields]) => Object.entries(fields).flatMap(([name, field]) => f.goodTexts(field).map((value) => ({ title: `${method} ${pattern} ${name}=${shown(value)}`, method, pattern, name, value }))));
    await all(cases, async ({ method, pattern, name, value }) => {
      const path = pathOf(`${method} ${pattern}`, { queue: method === 'POST' ? freshQueue('in') : world.queue, id: world.held.id });
      const answer = await send(method, `${path}?${name}=${encodeURIComponent(value)}`, method === 'POST' ? 'bytes' : undefined, method === 'POST' ? { 'content-type': 'text/plain' } : {});
      // A queue that does not exist has no snapshot.
      return answer.status < 300 || answer.json?.code === 'no_queue' ? null : `${answer.status} ${answer.text}`;
    });
  });

  test('names of queues: bytes, slashes, any script', async () => {
    const names = ['x'.repeat(199), 'x'.repeat(200), 'ü'.repeat(100), 'a/b', 'a b', '.', '..', '%', 'ジョブ', '\u{1f4e6}', "it's", 'a?b#c', 'a\\b', 'x-', '"'];
    for (const name of names) {
      const at = `/v1/queues/${encodeURIComponent(name)}`;
      const made = await send('POST', `${at}/jobs`, '{"payload":1}');
      assert.equal(made.status, 201, `${name}: ${made.text}`);
      assert.equal((await send('GET', at)).json.name, name);
      assert.equal((await send('POST', `${at}/claim`, '{}')).json.jobs[0].queue, name);
    }
    const label = '"(?:[^"\\\\\\n]|\\\\[\\\\n"])*"';
    const line = new RegExp(`^(#.*|[a-z_]+(\\{[a-z_]+=${label}(,[a-z_]+=${label})*\\})? [-+0-9.eInfNa]+)$`, 'u');
    const figures = (await send('GET', '/metrics')).text.trimEnd().split('\n');
    assert.deepEqual(figures.filter((one) => !line.test(one)), [], 'metrics stay readable');
    for (const name of names) assert.ok(figures.some((one) => one.includes(`queue=${JSON.stringify(name)}`)), name);
    for (const name of names) assert.equal((await send('DELETE', `/v1/queues/${encodeURIComponent(name)}`)).json.name, name);
  });

  test('names of workers: 1 to 128 bytes of UTF-8', async () => {
    const heartbeat = (name) => send('POST', `/v1/workers/${name}/heartbeat`, '{}');
    for (const name of ['w', 'w'.repeat(127), 'w'.repeat(128), 'ü'.repeat(64), 'a/b "c"']) {
      const answer = await heartbeat(encodeURIComponent(name));
      assert.equal(answer.status, 200, `${name}: ${answer.text}`);
      assert.ok((await send('GET', '/v1/workers?limit=1000')).json.workers.some((one) => one.name === name), name);
    }
    for (const name of ['w'.repeat(129), 'ü'.repeat(64) + 'w']) assert.equal(refusalFault(await heartbeat(encodeURIComponent(name)), 'invalid_field', 'name'), null, name);
    assert.equal(refusalFault(await heartbeat('%ff'), ['invalid_field', 'bad_request']), null);
  });

  test('payloads: the largest, the deepest', async () => {
    const { queue } = queueOf();
    await send('PUT', `/v1/queues/${queue}`, '{"payload_max":100}');
    const text = (n) => `"${'x'.repeat(n - 2)}"`;
    const statuses = [];
    for (const n of [99, 100, 101]) statuses.push((await send('POST', `/v1/queues/${queue}/jobs`, `{"payload":${text(n)}}`)).status);
    for (const n of [99, 100, 101]) statuses.push((await send('POST', `/v1/queues/${queue}/jobs`, 'x'.repeat(n), { 'content-type': 'text/plain' })).status);
    assert.deepEqual(statuses, [201, 201, 413, 201, 201, 413]);
    assert.equal(refusalFault(await send('POST', `/v1/queues/${queue}/jobs`, `{"payload":${text(101)}}`), 'too_big'), null);
    const mixed = (await send('POST', `/v1/queues/${queue}/jobs`, `[{"payload":${text(101)}},{"payload":${text(100)}}]`)).json.jobs;
    assert.equal(mixed[0].error.code, 'too_big');
    assert.equal(mixed[1].created, true);
    const deep = (n) => `{"payload":${'['.repeat(n - 1)}${']'.repeat(n - 1)}}`;
    const other = freshQueue('deep');
    for (const n of [127, 128]) assert.equal((await send('POST', `/v1/queues/${other}/jobs`, deep(n))).status, 201, `depth ${n}`);
    assert.equal(refusalFault(await send('POST', `/v1/queues/${other}/jobs`, deep(129)), 'malformed_json'), null);
    const claimed = (await send('POST', `/v1/queues/${other}/claim`, '{"count":10}')).json.jobs;
    assert.deepEqual(claimed.map((job) => JSON.stringify(job.payload).length), [252, 254], 'what was taken comes back');
    assert.equal((await send('GET', `/v1/jobs/${claimed[1].id}`)).status, 200);
  });

  test('batches of 1,000 and claims of 100 queues are accepted, one more is not', async () => {
    const { queue } = queueOf();
    const full = await send('POST', `/v1/queues/${queue}/jobs`, `[${Array(1000).fill('{}').join(',')}]`);
    assert.equal(full.json.jobs.length, 1000);
    assert.ok(full.json.jobs.every((one) => one.created));
    assert.equal((await send('POST', `/v1/queues/${queue}/jobs`, '{}\n'.repeat(1000), { 'content-type': 'application/x-ndjson' })).json.jobs.length, 1000);
    const names = (n) => JSON.stringify(Array.from({ length: n }, (_, i) => (i ? `none-${i}` : queue)));
    const claimed = (await send('POST', '/v1/claim', `{"queues":${names(100)},"count":1000}`)).json.jobs.length;
    assert.equal(claimed, has('whole_claims') ? 1000 : 2000 / 100); // of 2,000 that are looked at an equal part of each queue
    assert.equal(refusalFault(await send('POST', '/v1/claim', `{"queues":${names(101)}}`), 'invalid_field', 'queues'), null);
  });

  test('Idempotency-Key: 1 to 200 bytes of UTF-8', async () => {
    const { queue } = queueOf();
    const raw = async (key) => {
      const answer = await rawExchange(server, `POST /v1/queues/${queue}/jobs HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nIdempotency-Key: ${key}\r\nContent-Length: 2\r\n\r\n{}`);
      return Number(answer.slice(9, 12));
    };
    const utf8 = (s) => Buffer.from(s).toString('latin1');
    assert.deepEqual([await raw('k'), await raw('k'.repeat(199)), await raw('k'.repeat(200)), await raw(utf8('ü'.repeat(100)))], [201, 201, 201, 201]);
    assert.deepEqual([await raw(''), await raw('k'.repeat(201)), await raw('\xff'), await raw('\xc0\xaf')], [422, 422, 422, 422]);
    const long = await send('POST', `/v1/queues/${queue}/jobs`, '[{},{}]', { 'idempotency-key': 'm'.repeat(200) });
    assert.ok(long.json.jobs.every((one) => one.created), 'a key of 200 bytes serves a batch, too');
    assert.equal((await send('GET', `/v1/queues/${queue}`)).json.counts.ready, 6);
  });

  test('content types: JSON by its name, everything else is bytes', async () => {
    const { queue } = queueOf();
    const taken = async (type, body = '{"payload":1}') => {
      const made = await send('POST', `/v1/queues/${queue}/jobs`, body, type ? { 'content-type': type } : { 'content-type': [] });
      assert.equal(made.status, 201, `${type}: ${made.text}`);
      const { payload, payload_text, payload_base64 } = (await send('GET', `/v1/jobs/${made.json.id}`)).json;
      return payload ?? payload_text ?? payload_base64;
    };
    for (const type of ['application/json', 'APPLICATION/JSON', 'application/json; charset=utf-8', 'application/json;charset="utf-8"', 'application/x-www-form-urlencoded']) assert.equal(await taken(type), 1, type);
    for (const type of ['text/plain', 'application/jsonx', 'application/json-seq', 'x', 'application/octet-stream; a=application/json']) assert.equal(await taken(type), '{"payload":1}', type);
    assert.equal(await taken('text/plain', Buffer.from([255])), '/w==');
    assert.equal(await taken('text/plain', ''), '');
  });
});
