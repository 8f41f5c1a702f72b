// SPDX-License-Identifier: Apache-2.0
// ORC-18, PDQ-9: notices are delivered, signed and retried, survive kill -9, and are never sent to forbidden addresses.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';

import { Client, openStream } from '../lib/client.mjs';
import { freePort } from '../lib/ports.mjs';
import { refusalFault } from '../lib/problem.mjs';
import { Receiver } from '../lib/receiver.mjs';
import { killServer, logged, startServer, stopServer, until } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue, onStores, stores } from '../lib/suite.mjs';

const page = readFileSync(new URL('../../../docs/notifications.md', import.meta.url), 'utf8');
const block = (language) => page.match(new RegExp('```' + language + '\\n([^]*?)```'))[1];
const { genuine } = await import(`data:text/javascript,${encodeURIComponent(block('js'))}`);

const allowed = { HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.0/8' };
const metric = async (api, line) => {
  const found = (await api.get('/metrics')).text.split('\n').find((l) => l.startsWith(`${line} `));
  return found === undefined ? undefined : Number(found.split(' ').pop());
};

/** A job of this queue dies. */
async function die(api, queue, job = { payload: 1 }, error = 'smtp: no such user') {
  const { id } = await enqueue(api, queue, job);
  const claimed = await claimOne(api, queue);
  assert.equal(claimed.id, id);
  const answer = await api.post(`/v1/jobs/${id}/fail`, { token: claimed.token, error, retry: false });
  assert.equal(answer.status, 200, answer.text);
  assert.equal(answer.json.state, 'dead');
  return id;
}

/** One server, one receiver. */
async function withServer(options, run) {
  const receiver = await new Receiver().listen();
  const server = await startServer({ ...options, env: { ...allowed, ...options.env } });
  const api = new Client(server);
  const use = {
    receiver, server, api,
    rule: async (name, rule) => {
      const answer = await use.api.put(`/v1/alerts/${name}`, { webhook: { url: receiver.url }, ...rule });
      assert.ok(answer.status === 201 || answer.status === 200, answer.text);
      return answer.json;
    },
    advance: async (ms) => assert.equal((await use.api.post('/v1/test/clock', { advance_ms: ms })).status, 200),
    notices: async () => (await use.api.get('/v1/notices')).json.notices,
    restart: async (how) => {
      use.server.ownsData = false;
      await how(use.server);
      use.api.close();
      use.server = await startServer({ ...options, env: { ...allowed, ...options.env }, data: use.server.data });
      use.api = new Client(use.server);
    },
  };
  try {
    await run(use);
  } finally {
    use.api.close();
    if (!use.server.exit) await stopServer(use.server);
    await receiver.close();
  }
}

onStores('alert rules (ORC-18)', stores, {}, (use) => {
  test('are set, shown without their secret, changed and deleted', async () => {
    const at = '/v1/alerts/rule-1';
    const made = await use.api.put(at, { on: 'error_share', queue: 'mail-*', percent: 25, webhook: { url: 'https://hooks.example/in', secret: 'tops3cret' } });
    assert.ok([200, 201].includes(made.status), made.text);
    const { created_at, updated_at, ...rule } = made.json;
    assert.deepEqual(rule, {
      name: 'rule-1', on: 'error_share', queue: 'mail-*', enabled: true, percent: 25, window_ms: 300000, min_ends: 20,
      webhook: { url: 'https://hooks.example/in', secret: 'set' }, raised_count: 0, raised: [], pending: 0, dead: 0,
    });
    assert.ok(Date.parse(created_at) <= Date.parse(updated_at));
    assert.ok((await use.api.get('/v1/alerts')).json.alerts.some((a) => a.name === 'rule-1'));
    const patched = await use.api.patch(at, { min_ends: 5, webhook: { url: 'https://hooks.example/other' } });
    assert.equal(patched.status, 200, patched.text);
    assert.equal(patched.json.min_ends, 5);
    assert.equal(patched.json.percent, 25);
    assert.deepEqual(patched.json.webhook, { url: 'https://hooks.example/other', secret: 'set' });
    const unsigned = await use.api.patch(at, { webhook: { secret: '' } });
    assert.deepEqual(unsigned.json.webhook, { url: 'https://hooks.example/other', secret: 'not set' });
    const bare = await use.api.patch(at, { webhook: null, enabled: false });
    assert.equal(bare.json.webhook, null);
    assert.equal(bare.json.enabled, false);
    const other = await use.api.patch(at, { on: 'no_claim' });
    assert.equal(other.json.after_ms, 60000);
    assert.ok(!('percent' in other.json));
    assert.ok([200, 404].includes((await use.api.delete(at)).status));
    assert.equal(refusalFault(await use.api.get(at), 'no_alert'), null);
    assert.equal(refusalFault(await use.api.patch(at, {}), 'no_alert'), null);
    assert.ok(!use.server.stderr.includes('tops3cret'));
  });

  test('invalid rules are refused, and the field is named', async () => {
    const url = 'https://hooks.example/';
    const cases = [
      [{}, 'missing_field', 'on'],
      [{ on: 'died' }, 'invalid_field', 'on'],
      [{ on: 'dead', queu: 'x' }, 'unknown_field', 'queu'],
      [{ on: 'dead', depth: 5 }, 'invalid_field', 'depth'],
      [{ on: 'deep', with_payload: true }, 'invalid_field', 'with_payload'],
      [{ on: 'dead', queue: '' }, 'invalid_field', 'queue'],
      [{ on: 'error_share', percent: 0 }, 'invalid_field', 'percent'],
      [{ on: 'error_share', window_ms: 86400001 }, 'invalid_field', 'window_ms'],
      [{ on: 'dead', webhook: {} }, 'missing_field', 'webhook.url'],
      [{ on: 'dead', webhook: 5 }, ['invalid_field', 'malformed_json']],
      [{ on: 'dead', webhook: { url, headers: {} } }, 'unknown_field', 'headers'],
      [{ on: 'dead', webhook: { url: 'ftp://hooks.example/' } }, 'invalid_field', 'url'],
      [{ on: 'dead', webhook: { url: 'https://ann:word@hooks.example/' } }, 'invalid_field', 'url'],
    ];
    for (const host of ['127.0.0.1', '10.1.2.3', '192.168.0.9', '169.254.169.254', '100.64.0.1', '0.0.0.0', '224.0.0.1', '[::1]', '[::ffff:127.0.0.1]', '[fe80::1]', '[fd00::1]', '[64:ff9b::7f00:1]', '[2002:7f00:1::]', '[::]'])
      cases.push([{ on: 'dead', webhook: { url: `http://${host}/` } }, 'invalid_field', 'webhook.url']);
    for (const host of ['2130706433', '127.1', '0x7f.0.0.1', '0177.0.0.1'])
      cases.push([{ on: 'dead', webhook: { url: `http://${host}/` } }, 'invalid_field', 'url']);
    for (const [rule, code, field] of cases)
      assert.equal(refusalFault(await use.api.put('/v1/alerts/bad', rule), code, field), null, JSON.stringify(rule));
    assert.equal(refusalFault(await use.api.put('/v1/alerts/-bad', { on: 'dead' }), 'invalid_field', 'name'), null);
    assert.equal((await use.api.get('/v1/alerts/bad')).status, 404);
    assert.equal(refusalFault(await use.api.get('/v1/notices/1'), 'no_notice'), null);
    assert.equal(refusalFault(await use.api.post('/v1/notices/1/redeliver'), 'no_notice'), null);
    assert.equal(refusalFault(await use.api.delete('/v1/notices/1'), 'no_notice'), null);
    assert.equal(refusalFault(await use.api.get('/v1/notices/x'), 'invalid_id'), null);
  });
});

for (const backend of stores)
  test(`a dead job is delivered, signed, once for each rule, on ${backend} (ORC-18)`, async () => {
    const proxy = await freePort();
    // A proxy of the environment must not be used: no server listens there.
    const env = { http_proxy: `http://127.0.0.1:${proxy}`, HTTP_PROXY: `http://127.0.0.1:${proxy}`, ALL_PROXY: `http://127.0.0.1:${proxy}` };
    await withServer({ backend, env }, async ({ api, receiver, server, rule }) => {
      const secret = 'whsec-Grüße';
      await rule('signed', { on: 'dead', queue: 'q-*', webhook: { url: receiver.url, secret } });
      await rule('plain', { on: 'dead', with_payload: true });
      await rule('elsewhere', { on: 'dead', queue: 'other' });
      const q = freshQueue();
      const stream = await openStream(server, '/v1/events?events=dead').opened;
      const id = await die(api, q, { payload: { to: 'ann' }, correlation_id: 'c-7' });
      const event = JSON.parse((await stream.next()).data);
      stream.close();
      await receiver.wait(2);
      const signed = receiver.requests.find((r) => r.json.alert === 'signed');
      const plain = receiver.requests.find((r) => r.json.alert === 'plain');
      assert.equal(signed.method, 'POST');
      assert.equal(signed.url, '/in');
      assert.equal(signed.headers['content-type'], 'application/json');
      const { id: notice, at, ...rest } = signed.json;
      assert.equal(signed.headers['holdfast-notice'], notice);
      assert.ok(Math.abs(Date.parse(at) - Date.now()) < 60_000);
      assert.deepEqual(rest, {
        event: 'dead', alert: 'signed', queue: q,
        job: { id, seq: rest.job.seq, state: 'dead', reason: 'rejected', attempts: 1, error: 'smtp: no such user', correlation_id: 'c-7' },
      });
      const { error, ...job } = rest.job;
      assert.deepEqual(event, { id: event.id, event: 'dead', at, queue: q, job }, 'the event stream has the same object');
      assert.deepEqual(plain.json.job.payload, { to: 'ann' });
      assert.ok(!('holdfast-signature' in plain.headers));
      assert.ok(!signed.raw.includes('ann'));
      // As the documentation says.
      assert.ok(genuine(secret, signed.headers, signed.raw));
      assert.ok(!genuine('other', signed.headers, signed.raw));
      assert.ok(!genuine(secret, signed.headers, `${signed.raw} `));
      assert.ok(!genuine(secret, signed.headers, signed.raw, Date.now() + 400_000));
      const shell = execFileSync('sh', ['-c', block('sh')], { env: { ...process.env, TIMESTAMP: signed.headers['holdfast-timestamp'], BODY: signed.raw, SECRET: secret } });
      assert.equal(shell.toString().trim(), signed.headers['holdfast-signature']);
      await until('an empty outbox', async () => (await api.get('/v1/notices')).json.notices.length === 0);
      assert.ok((await metric(api, 'holdfast_notices_delivered_total')) >= 2);
      assert.equal(await metric(api, 'holdfast_notices_pending'), 0);
      assert.ok(!server.stderr.includes('whsec'));
    });
  });

test('payloads that are not JSON', async () => {
  await withServer({ backend: 'memory' }, async ({ api, receiver, rule }) => {
    await rule('all', { on: 'dead', with_payload: true });
    for (const [body, type] of [['grün', 'text/plain'], [Buffer.from([0, 1, 255]), 'application/octet-stream']]) {
      const q = freshQueue();
      const made = await api.once('POST', `/v1/queues/${q}/jobs`, { body, headers: { 'content-type': type } });
      assert.equal(made.status, 201, made.text);
      const job = await claimOne(api, q);
      await api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, retry: false });
    }
    await receiver.wait(2);
    const jobs = receiver.requests.map((r) => r.json.job);
    assert.ok(jobs.some((j) => j.payload_text === 'grün'));
    assert.ok(jobs.some((j) => j.payload_base64 === Buffer.from([0, 1, 255]).toString('base64')));
  });
});

describe('retries (ORC-18)', () => {
  const clock = { backend: 'sqlite', args: ['--test-clock'], env: { HOLDFAST_WEBHOOKS_TIMEOUT_MS: '1s', HOLDFAST_BREAKER_FAILURE_THRESHOLD: '1000' } };

  test('a wrong reply, a redirect, no reply and a closed port; each retry waits longer', async (t) => {
    await withServer(clock, async ({ api, receiver, rule, advance, notices }) => {
      const elsewhere = await new Receiver().listen();
      t.after(() => elsewhere.close());
      await rule('all', { on: 'dead' });
      const failures = [
        [500, 500, /answered 500/],
        [429, 429, /answered 429/],
        [(request, response) => response.writeHead(302, { location: elsewhere.url }).end(), 302, /redirects are not followed/],
        [(request, response) => response.writeHead(307, { location: elsewhere.url }).end(), 307, /redirects are not followed/],
        [() => {}, undefined, /time|timed/i],
        [(request, response) => response.destroy(), undefined, /.+/],
      ];
      receiver.answer = failures[0][0];
      await die(api, freshQueue());
      const id = (await receiver.wait())[0].json.id;
      let wait = 1000;
      for (let i = 0; i < failures.length; i++) {
        const [, status, error] = failures[i];
        const notice = await until(`attempt ${i + 1} is known`, async () => (await notices()).find((n) => n.attempts === i + 1));
        assert.equal(notice.id, id);
        assert.equal(notice.state, 'pending');
        assert.equal(notice.status, status);
        assert.match(notice.error, error);
        const now = Date.parse((await api.get('/v1/test/clock')).json.now);
        const left = Date.parse(notice.next_at) - now;
        assert.ok(left >= wait * 0.9 && left <= wait * 1.1, `attempt ${i + 1}: ${left} of ${wait}`);
        await advance(left - 1);
        assert.equal(receiver.requests.length, i + 1); // not earlier
        receiver.answer = failures[i + 1]?.[0] ?? 204;
        await advance(1);
        await receiver.wait(i + 2);
        wait *= 2;
      }
      await until('an empty outbox', async () => (await notices()).length === 0);
      assert.equal(new Set(receiver.requests.map((r) => r.headers['holdfast-notice'])).size, 1);
      assert.equal(elsewhere.requests.length, 0);
      assert.equal(await metric(api, 'holdfast_notices_failed_total'), failures.length);
    });
  });

  test('a refused connection; notices are given up by age, then delivered again or discarded', async () => {
    await withServer({ ...clock, env: { ...clock.env, HOLDFAST_WEBHOOKS_GIVE_UP_MS: '5s' } }, async ({ api, receiver, rule, advance, notices }) => {
      const port = await freePort();
      await rule('all', { on: 'dead', webhook: { url: `http://127.0.0.1:${port}/in` } });
      await die(api, freshQueue());
      await die(api, freshQueue());
      await until('both failed', async () => (await notices()).every((n) => n.attempts === 1 && /connect/i.test(n.error)));
      await advance(6000);
      const [first, second] = await until('both given up', async () => {
        const all = await notices();
        return all.every((n) => n.state === 'dead') ? all : null;
      });
      assert.equal(await metric(api, 'holdfast_notices_dead'), 2);
      assert.equal((await api.get('/v1/alerts/all')).json.dead, 2);
      await advance(24 * 3600_000);
      assert.equal((await notices())[0].attempts, first.attempts);
      await rule('all', { on: 'dead' }); // to the receiver
      assert.equal((await api.post(`/v1/notices/${first.id}/redeliver`)).status, 200);
      assert.equal((await receiver.wait())[0].json.id, first.id);
      assert.equal((await api.delete(`/v1/notices/${second.id}`)).status, 200);
      await until('an empty outbox', async () => (await notices()).length === 0);
      assert.equal(refusalFault(await api.get(`/v1/notices/${second.id}`), 'no_notice'), null);
    });
  });
});

test('a breaker opens for a failing target, denies calls without counting them, half-opens and closes; it survives a restart (PDQ-9)', async () => {
  const env = { HOLDFAST_BREAKER_FAILURE_THRESHOLD: '3', HOLDFAST_BREAKER_OPEN_COOLDOWN_SECONDS: '30', HOLDFAST_WEBHOOKS_CONCURRENCY: '1' };
  await withServer({ backend: 'sqlite', args: ['--test-clock'], env }, async (use) => {
    const { receiver } = use;
    const target = `http://127.0.0.1:${receiver.port}`;
    const breaker = async () => (await use.api.get('/v1/breakers')).json.breakers.find((b) => b.target === target);
    receiver.answer = 503;
    await use.rule('all', { on: 'dead' });
    for (let i = 0; i < 5; i++) await die(use.api, freshQueue());
    const open = await until('it opens', async () => ((await breaker())?.state === 'open' ? breaker() : null));
    assert.equal(open.failures, 3);
    assert.equal(await metric(use.api, `holdfast_breaker_state{target="${target}"}`), 1);
    assert.equal(receiver.requests.length, 3);
    await use.advance(29_000); // the back-off of all notices has ended, the cooldown has not
    assert.equal(receiver.requests.length, 3);
    const kept = await use.notices();
    assert.equal(kept.length, 5);
    assert.deepEqual(kept.map((n) => n.attempts).sort(), [0, 0, 1, 1, 1]);
    await use.restart(stopServer);
    assert.equal((await breaker()).state, 'open');
    assert.equal(receiver.requests.length, 3);
    // A restarted test clock begins with the time of the machine, which is behind: still within the cooldown.
    await use.advance(60_000);
    await receiver.wait(4); // one probe, which fails
    await until('it is open again', async () => (await breaker()).state === 'open');
    assert.equal(receiver.requests.length, 4);
    receiver.answer = 200;
    await use.advance(30_000);
    await until('everything is delivered', async () => (await use.notices()).length === 0);
    assert.equal((await breaker()).state, 'closed');
    assert.equal((await breaker()).failures, 0);
    assert.equal(await metric(use.api, `holdfast_breaker_state{target="${target}"}`), 0);
    assert.equal(new Set(receiver.requests.slice(4).map((r) => r.json.id)).size, 5);
  });
});

test('kill -9 between the death of a job and the delivery: exactly the durable notices are delivered after the restart (ORC-18)', async () => {
  await withServer({ backend: 'sqlite' }, async (use) => {
    const { receiver } = use;
    receiver.answer = () => {}; // reads every request and does not reply
    await use.rule('all', { on: 'dead', webhook: { url: receiver.url, secret: 's' } });
    const dead = [];
    for (let i = 0; i < 20; i++) dead.push(await die(use.api, freshQueue()));
    const first = new Set((await receiver.wait(16)).map((r) => r.json.id));
    await use.restart(killServer);
    receiver.answer = 200;
    await until('an empty outbox', async () => (await use.notices()).length === 0);
    const after = receiver.requests.slice(first.size);
    assert.deepEqual(after.map((r) => r.json.job.id).sort(), [...dead].sort());
    assert.equal(new Set(after.map((r) => r.json.id)).size, 20);
    for (const id of first) assert.ok(after.some((r) => r.json.id === id)); // delivered again, with the same id
    assert.ok(after.every((r) => genuine('s', r.headers, r.raw)));
  });
});

describe('forbidden addresses', () => {
  test('a name of a loopback address is refused at the delivery, unless it is allowed', async () => {
    await withServer({ backend: 'memory', env: { HOLDFAST_WEBHOOKS_ALLOW: '' } }, async ({ api, receiver, rule, server, notices }) => {
      await rule('all', { on: 'dead', webhook: { url: `http://localhost:${receiver.port}/` } });
      await die(api, freshQueue());
      const [notice] = await until('it failed', async () => {
        const all = await notices();
        return all[0]?.attempts > 0 ? all : null;
      });
      assert.match(notice.error, /refused: localhost is a loopback address/);
      assert.equal(receiver.requests.length, 0);
      assert.ok((await metric(api, 'holdfast_notices_refused_total')) >= 1);
      assert.deepEqual((await api.get('/v1/breakers')).json.breakers, []); // no request was sent
      await logged(server, /notice_not_delivered/);
    });
    for (const env of [{ HOLDFAST_WEBHOOKS_ALLOW: 'LOCALHOST' }, { HOLDFAST_WEBHOOKS_ALLOW: '127.0.0.1,::1' }, { HOLDFAST_WEBHOOKS_ALLOW: '', HOLDFAST_WEBHOOKS_ALLOW_PRIVATE: 'true' }])
      await withServer({ backend: 'memory', env }, async ({ api, receiver, rule }) => {
        await rule('all', { on: 'dead', webhook: { url: `http://localhost:${receiver.port}/` } });
        await die(api, freshQueue());
        assert.equal((await receiver.wait()).length, 1);
      });
  });

  test('an invalid setting is refused at the start', async () => {
    await assert.rejects(startServer({ backend: 'memory', env: { HOLDFAST_WEBHOOKS_ALLOW: '10.0.0.1/8' } }), /webhooks\.allow/);
  });

  test('a name that cannot be resolved counts for the breaker', async () => {
    await withServer({ backend: 'memory' }, async ({ api, rule, notices }) => {
      await rule('all', { on: 'dead', webhook: { url: 'http://no-such-host.invalid/' } });
      await die(api, freshQueue());
      const found = await until('it failed', async () => (await notices()).find((n) => n.attempts > 0), 60_000);
      assert.match(found.error, /cannot be resolved/);
      assert.equal((await api.get('/v1/breakers')).json.breakers[0].failures, 1);
    });
  });
});
