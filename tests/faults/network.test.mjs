// SPDX-License-Identifier: Apache-2.0
// HF-2: a connection to the database that breaks at the worst moment, stalls, or is refused. A request that may have been
// done gets 504, one that certainly was not gets 503, in bounded time; a repetition with its key is done once.
import assert from 'node:assert/strict';
import path from 'node:path';
import { test } from 'node:test';

import { stopServer, until } from '../e2e/lib/server.mjs';
import { Node, times } from './lib/cluster.mjs';
import { darkNetwork, noNamespaces } from './lib/namespaces.mjs';
import { socket, sql } from './lib/postgres.mjs';
import { Proxy } from './lib/proxy.mjs';

const unixSocket = path.join(socket, '.s.PGSQL.5432');

async function nodeBehindProxy(t, schema) {
  const proxy = await new Proxy({ path: unixSocket }).listen();
  const node = await new Node(`postgres://holdfast@127.0.0.1:${proxy.port}/postgres?schema=${schema}`, 1).start();
  t.after(async () => {
    if (!node.server.exit) await node.kill();
    proxy.close();
  });
  const ready = () => until('it serves', async () => (await node.api.post('/v1/queues/warm/jobs', { payload: 0 })).status === 201);
  await ready();
  return { proxy, node, ready };
}

const send = (node, key) => node.api.post('/v1/queues/q/jobs', { payload: `payload ${key}` }, { headers: { 'idempotency-key': key } });

const places = {
  'the commit is swallowed': (key) => ({ marker: `payload ${key}`, before: true }),
  'the answer to the commit is swallowed': (key) => ({ marker: `payload ${key}` }),
  'the answer that it is on the disk is swallowed': () => ({ known: 'n.syncs + 1' }),
};

test('HF-2 a connection that is closed between request and reply', async (t) => {
  const { proxy, node, ready } = await nodeBehindProxy(t, 'cuts');
  for (const [i, [what, place]] of Object.entries(places).entries()) {
    const key = `key-${i}`;
    const cut = proxy.cut(place(key));
    const answer = await send(node, key);
    await cut;
    assert.equal(answer.status, 504, what);
    assert.equal(answer.json.code, 'unknown', what);
    await ready();
    const repeat = await until('the repeat is answered', async () => {
      const again = await send(node, key);
      return again.status < 300 ? again : null;
    });
    assert.ok([200, 201].includes(repeat.status), what);
    assert.equal((await send(node, key)).json.id, repeat.json.id);
    assert.equal(sql(`SELECT count(*) FROM cuts.job WHERE payload = '"payload ${key}"'`), '1', what);
  }
  // A claim whose reply was lost is released, uncounted, long before the lease ends.
  await node.api.post('/v1/queues/claimed/jobs', { payload: 'mine' });
  const cut = proxy.cut({ marker: 'claimer' });
  const lost = await node.api.post('/v1/queues/claimed/claim', { worker: 'claimer', lease_ms: 600_000 });
  await cut;
  assert.ok([503, 504].includes(lost.status), String(lost.status));
  const [job] = await until('the job is back', async () => {
    const again = await node.api.post('/v1/queues/claimed/claim', { lease_ms: 600_000, wait_ms: 1000 });
    return again.json.jobs?.length ? again.json.jobs : null;
  });
  assert.equal(job.attempt, 1);
  await node.stop();
});

test('HF-2 a database that stalls or refuses connections: replies come in bounded time, and the node recovers', async (t) => {
  const { proxy, node, ready } = await nodeBehindProxy(t, 'stalls');
  for (const mode of ['stall', 'refuse']) {
    proxy.set(mode);
    const began = Date.now();
    const answer = await send(node, mode);
    const took = Date.now() - began;
    assert.ok([503, 504].includes(answer.status), `${mode}: ${answer.status}`);
    assert.match(answer.json.detail, /the database cannot be reached/);
    // The node may try twice, and the machine may be busy.
    assert.ok(took < times.answer + 20_000, `${mode}: answered after ${took} ms`);
    const view = await until('it says so', async () => {
      const seen = await node.cluster();
      return seen.backend.up ? null : seen;
    });
    assert.match(view.backend.last_error, mode === 'stall' ? /no answer within \d+ ms/ : /./);
    assert.ok(Date.parse(view.backend.since) >= began - 1000);
    const readiness = await node.api.get('/readyz');
    assert.deepEqual([readiness.status, readiness.json.status], [503, 'backend_down']);
    assert.equal((await node.api.get('/healthz')).status, 200);
    assert.equal(await node.metric('holdfast_backend_up'), 0);
    assert.equal(await node.metric('holdfast_leader'), 0);
    // Requests do not wait while the database is known to be unavailable.
    assert.equal((await send(node, mode)).status, 503);
    proxy.set('pass');
    await ready();
    assert.equal((await node.api.get('/readyz')).status, 200);
    await until('all connections are back', async () => {
      const { backend } = await node.cluster();
      return backend.up && backend.connections === backend.connections_wanted;
    });
    assert.ok((await send(node, mode)).status < 300);
    assert.equal(sql(`SELECT count(*) FROM stalls.job WHERE payload = '"payload ${mode}"'`), '1');
  }
  await node.stop();
});

test('HF-2 a server can be stopped while the database is unavailable', async (t) => {
  const { proxy, node } = await nodeBehindProxy(t, 'stops');
  proxy.set('stall');
  const open = send(node, 'last').then((answer) => answer.status);
  await until('it asks the database', () => proxy.held() > 0);
  await stopServer(node.server);
  assert.ok([503, 504].includes(await open));
  node.api.close();
});

test('HF-2 a network that drops every packet', { skip: noNamespaces() }, async (t) => {
  const urlOf = (at) => `postgres://holdfast@${at}/postgres?schema=netns`;
  await darkNetwork(t, { socket: unixSocket, urlOf, send });
  assert.equal(sql('SELECT count(*) FROM netns.job WHERE payload = \'"payload dark"\''), '1');
});
