// SPDX-License-Identifier: Apache-2.0
// HF-29 under faults: nodes are killed while they take rows of the inbox, and the database crashes. A job exists exactly
// once if its transaction was committed, and never otherwise.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Psql } from '../e2e/lib/psql.mjs';
import { until } from '../e2e/lib/server.mjs';
import { Node, startNodes } from './lib/cluster.mjs';
import { killDatabase, socket, sql, startDatabase, url } from './lib/postgres.mjs';

const count = (schema, table) => Number(sql(`SELECT count(*) FROM ${schema}.${table}`));
const emptied = (schema) => until('the inbox is empty', () => count(schema, 'inbox') === 0);
const payloads = (schema) => sql(`SELECT convert_from(payload, 'UTF8') FROM ${schema}.job`).split('\n');

test('HF-29 nodes that are killed while they take rows', async (t) => {
  const nodes = await startNodes(t, url('inboxkilled'), 2);
  const rows = 10_000;
  const ids = sql(`SELECT inboxkilled.enqueue('q', n::text) FROM generate_series(1, ${rows}) n`).split('\n');
  let inside = 0;
  for (let round = 0; round < 4; round++) {
    const before = count('inboxkilled', 'inbox');
    await until('some rows were taken', () => count('inboxkilled', 'inbox') < before || before === 0);
    const victim = nodes[round % 2];
    await victim.kill();
    inside += count('inboxkilled', 'inbox') > 0;
    nodes[round % 2] = await new Node(victim.backend, victim.number, victim.more).start();
    t.after(() => (nodes[round % 2].server.exit ? null : nodes[round % 2].kill()));
  }
  assert.ok(inside > 0, 'at least one was killed before the end');
  await emptied('inboxkilled');
  assert.equal(count('inboxkilled', 'inbox_refusal'), 0);
  assert.deepEqual(payloads('inboxkilled').map(Number).sort((a, b) => a - b), Array.from({ length: rows }, (_, i) => i + 1));
  assert.equal((await nodes[0].api.get(`/v1/jobs/${ids.at(-1)}`)).status, 200);
  assert.equal((await nodes[1].api.get('/v1/queues/q')).json.counts.ready, rows);
  for (const node of nodes) await node.stop();
});

test('HF-29 the database crashes while rows are written and taken', async (t) => {
  const nodes = await startNodes(t, url('inboxcrash'), 2);
  const committed = new Set(), perhaps = new Set(), undone = new Set();
  for (let round = 0; round < 3; round++) {
    let down = false;
    const writer = async (w) => {
      const one = new Psql(socket);
      one.closed.then(() => (one.gone = true));
      const said = (text) => Promise.race([one.run(text), one.closed.then(() => null)]);
      for (let i = 0; !down && !one.gone; i++) {
        const key = `${round}.${w}${String(i).padStart(6, '0')}`;
        await said('BEGIN');
        await said(`SELECT inboxcrash.enqueue('q', '${key}')`);
        if (i % 3 === 0) {
          undone.add(key);
          await said('ROLLBACK');
          continue;
        }
        perhaps.add(key);
        if ((await said('COMMIT; SELECT 1')) === '1') committed.add(key);
      }
      if (!one.gone) await one.close();
    };
    const writers = Array.from({ length: 4 }, (_, w) => writer(w + 1));
    const enough = committed.size + 100;
    await until('some are committed', () => committed.size >= enough);
    await killDatabase();
    down = true;
    await Promise.all(writers);
    startDatabase();
    await until('the nodes serve again', async () => (await Promise.all(nodes.map((node) => node.api.get('/readyz')))).every((answer) => answer.status === 200));
  }
  await emptied('inboxcrash');
  const there = payloads('inboxcrash');
  assert.equal(new Set(there).size, there.length, 'each once');
  for (const key of committed) assert.ok(there.includes(key), `${key} was committed and is lost`);
  for (const key of there) assert.ok(perhaps.has(key) && !undone.has(key), `${key} was not committed`);
  assert.equal(count('inboxcrash', 'inbox_refusal'), 0);
  for (const node of nodes) await node.stop();
});
