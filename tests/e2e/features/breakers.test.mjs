// SPDX-License-Identifier: Apache-2.0
// PDQ-9, PDQ-12: circuit breakers that workers consult over HTTP, on one server.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { refusalFault } from '../lib/problem.mjs';
import { binary, killServer, startServer, stopServer, until } from '../lib/server.mjs';
import { onStores, stores } from '../lib/suite.mjs';

const env = { HOLDFAST_BREAKER_FAILURE_THRESHOLD: '2', HOLDFAST_BREAKER_OPEN_COOLDOWN_SECONDS: '30' };
const metric = async (api, target) => {
  const line = `holdfast_breaker_state{target="${target}"} `;
  const found = (await api.get('/metrics')).text.split('\n').find((l) => l.startsWith(line));
  return found === undefined ? undefined : Number(found.slice(line.length));
};

/** The calls of one worker. */
const calls = (api, name) => ({
  allow: async () => (await api.post(`/v1/breakers/${name}/allow`)).json,
  report: async (body) => (await api.post(`/v1/breakers/${name}/report`, body)).json,
  show: async () => (await api.get(`/v1/breakers/${name}`)).json,
});

onStores('PDQ-9 named breakers', stores, { args: ['--test-clock'], env }, (use) => {
  const advance = async (ms) => assert.equal((await use.api.post('/v1/test/clock', { advance_ms: ms })).status, 200);

  test('open, deny, probe and close; PDQ-12 the metric follows', async () => {
    const { allow, report, show } = calls(use.api, 'api.example');
    assert.equal(refusalFault(await use.api.get('/v1/breakers/api.example'), 'no_breaker'), null);
    assert.deepEqual(await allow(), { allowed: true, state: 'closed' });
    assert.equal(await metric(use.api, 'api.example'), 0);
    assert.equal((await report({ ok: false })).failures, 1);
    assert.equal((await report({ ok: true })).failures, 0);
    await report({ ok: false });
    const open = await report({ ok: false, rate_limited: true });
    assert.equal(open.state, 'open');
    assert.deepEqual([open.name, open.target, open.type, open.failure_threshold, open.open_cooldown_seconds, open.half_open_probe_count],
      ['api.example', 'api.example', 'named', 2, 30, 1]);
    assert.equal(await metric(use.api, 'api.example'), 1);
    const denied = await allow();
    assert.deepEqual([denied.allowed, denied.state], [false, 'open']);
    assert.ok(denied.retry_after_ms > 0 && denied.retry_after_ms <= 30_000, String(denied.retry_after_ms));
    await advance(30_000);
    assert.deepEqual(await allow(), { allowed: true, state: 'half_open' });
    assert.equal(await metric(use.api, 'api.example'), 2);
    assert.equal((await allow()).allowed, false);
    await advance(30_000); // the probe lapses
    assert.equal((await allow()).allowed, true);
    assert.equal((await report({ ok: true })).state, 'closed');
    assert.equal((await show()).until, null);
    assert.equal(await metric(use.api, 'api.example'), 0);
  });

  test('a rate limit keeps it open at least as long as it says', async () => {
    const { allow, report } = calls(use.api, 'limited');
    await report({ rate_limited: true, retry_after_ms: 120_000 });
    assert.equal((await report({ ok: false })).state, 'open');
    await advance(119_000);
    assert.equal((await allow()).allowed, false);
    await advance(1_000);
    assert.equal((await allow()).allowed, true);
  });

  test('PUT sets it as a whole, DELETE deletes it', async () => {
    const at = '/v1/breakers/set';
    const made = await use.api.put(at, { failure_threshold: 1, half_open_probe_count: 3 });
    assert.equal(made.status, 201, made.text);
    assert.deepEqual([made.json.failure_threshold, made.json.open_cooldown_seconds, made.json.half_open_probe_count], [1, 30, 3]);
    assert.equal((await use.api.put(at, { open_cooldown_seconds: 7 })).status, 200);
    const { failure_threshold, open_cooldown_seconds } = (await use.api.get(at)).json;
    assert.deepEqual([failure_threshold, open_cooldown_seconds], [2, 7]);
    assert.ok((await use.api.get('/v1/breakers')).json.breakers.some((b) => b.name === 'set' && b.type === 'named'));
    assert.deepEqual((await use.api.delete(at)).json, { name: 'set', deleted: true });
    assert.equal(refusalFault(await use.api.delete(at), 'no_breaker'), null);
  });

  test('bad input is refused', async () => {
    const { api } = use;
    for (const [answer, code] of [
      [await api.post('/v1/breakers/a%20b/allow'), 'invalid_field'],
      [await api.post(`/v1/breakers/${'x'.repeat(101)}/allow`), 'invalid_field'],
      [await api.post('/v1/breakers/a/report', {}), 'missing_field'],
      [await api.post('/v1/breakers/a/report', { ok: true, rate_limited: true }), 'invalid_field'],
      [await api.post('/v1/breakers/a/report', { ok: true, retry_after_ms: 5 }), 'invalid_field'],
      [await api.post('/v1/breakers/a/report', { ok: false, retry_after_ms: -1 }), 'invalid_field'],
      [await api.put('/v1/breakers/a', { failure_threshold: 0 }), 'invalid_field'],
      [await api.put('/v1/breakers/a', { open_cooldown_seconds: 86401 }), 'invalid_field'],
      [await api.put('/v1/breakers/a', { cooldown: 1 }), 'unknown_field'],
    ])
      assert.equal(refusalFault(answer, code), null, answer.text);
    assert.equal((await api.get('/v1/breakers/a')).status, 404);
  });

  test('breakers without settings are dropped after a week without use; others stay', async () => {
    const { api } = use;
    assert.equal((await api.post('/v1/breakers/old/allow')).status, 200);
    assert.equal((await api.put('/v1/breakers/kept', { failure_threshold: 9 })).status, 201);
    await advance(7 * 24 * 3600_000);
    await until('it is dropped', async () => {
      await advance(3600_000); // another pass, in case the store did not answer the last one
      return (await api.get('/v1/breakers/old')).status === 404;
    });
    assert.equal((await api.get('/v1/breakers/kept')).status, 200);
  });
});

test('PDQ-9 a breaker survives a restart and a kill -9', async (t) => {
  let server = await startServer({ backend: 'sqlite', env });
  let api = new Client(server);
  t.after(() => stopServer(server));
  const again = async (how) => {
    api.close();
    server.ownsData = false;
    await how(server);
    server = await startServer({ backend: 'sqlite', env, data: server.data });
    api = new Client(server);
  };
  // The cooldown must not end before the test does.
  assert.equal((await api.put('/v1/breakers/pay', { failure_threshold: 1, open_cooldown_seconds: 86400 })).status, 201);
  assert.equal((await calls(api, 'pay').report({ ok: false })).state, 'open');
  for (const how of [stopServer, killServer]) {
    await again(how);
    assert.deepEqual([(await calls(api, 'pay').allow()).allowed, await metric(api, 'pay')], [false, 1]);
  }
  assert.equal((await calls(api, 'pay').report({ ok: true })).state, 'closed');
  await again(killServer);
  assert.equal((await calls(api, 'pay').allow()).allowed, true);
  assert.equal((await calls(api, 'pay').show()).open_cooldown_seconds, 86400);
  api.close();
});

test('PDQ-9 there is a limit, and a clear error at it', async (t) => {
  const server = await startServer({ backend: 'memory', env });
  const api = new Client(server);
  t.after(() => stopServer(server));
  for (let n = 0; n < 1000; n++) assert.equal((await api.post(`/v1/breakers/n${n}/allow`)).status, 200);
  assert.equal(refusalFault(await api.post('/v1/breakers/more/allow'), 'breakers_full'), null);
  assert.equal((await api.post('/v1/breakers/n7/allow')).status, 200);
  assert.equal((await api.delete('/v1/breakers/n7')).status, 200);
  assert.equal((await api.post('/v1/breakers/more/allow')).status, 200);
  api.close();
});

describe('PDQ-9 holdfast breakers', () => {
  test('lists, shows, sets and deletes', async (t) => {
    const server = await startServer({ backend: 'memory', env });
    t.after(() => stopServer(server));
    const run = (...words) => execFileSync(binary, ['breakers', '--server', server.url, ...words], { encoding: 'utf8', stdio: 'pipe' });
    assert.match(run('set', 'pay', '--failure-threshold', '3'), /failure_threshold:\s+3/);
    assert.match(run(), /pay\s+named\s+closed\s+0\s+3/);
    assert.match(run('show', 'pay'), /open_cooldown_seconds:\s+30/);
    assert.equal(JSON.parse(run('delete', 'pay', '--json')).deleted, true);
    assert.throws(() => run('show', 'pay'), /no_breaker|no breaker/);
    assert.throws(() => run('list', 'pay'), /takes no name/);
    assert.throws(() => run('set'), /needs the name/);
    assert.throws(() => run('open', 'pay'), /must be list, show, set or delete/);
    assert.throws(() => run('--failure-threshold', '3'), /breakers set NAME/);
  });
});
