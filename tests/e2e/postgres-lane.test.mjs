// SPDX-License-Identifier: Apache-2.0
// Units of work that follow each other on one connection to PostgreSQL without waiting: what happens to the
// next when the database refuses one. Runs itself below scripts/with-postgres.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { after, before, describe, test } from 'node:test';

import { Beanstalk, startDoor } from './lib/beanstalk.mjs';
import { Client } from './lib/client.mjs';
import { stopServer } from './lib/server.mjs';

if (!process.env.HF_POSTGRES) {
  const wrapper = fileURLToPath(new URL('../../scripts/with-postgres', import.meta.url));
  const words = ['node', ...process.execArgv, fileURLToPath(import.meta.url)];
  process.exit(spawnSync(wrapper, words, { stdio: 'inherit' }).status ?? 1);
}

const base = process.env.HF_POSTGRES;

function sql(text) {
  const words = ['-h', decodeURIComponent(base.replace(/.*host=/, '')), '-U', 'holdfast', '-d', 'postgres', '-qAt', '-v', 'ON_ERROR_STOP=1', '-c', text];
  const run = spawnSync('psql', words, { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
  return run.stdout.trim();
}

/** Jobs with "once" are refused every other time as if two nodes were in each other's way, those with "never" always. */
const refusing = `
  CREATE SEQUENCE lane.refusals;
  CREATE FUNCTION lane.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF encode(NEW.payload, 'escape') LIKE '%once%' AND nextval('lane.refusals') % 2 = 1 THEN
      RAISE EXCEPTION 'once more' USING ERRCODE = '40001';
    END IF;
    IF encode(NEW.payload, 'escape') LIKE '%never%' THEN
      RAISE EXCEPTION 'never' USING ERRCODE = '22000';
    END IF;
    RETURN NEW;
  END $$;
  CREATE TRIGGER refuse BEFORE INSERT ON lane.job FOR EACH ROW EXECUTE FUNCTION lane.refuse()`;

describe('units that follow each other', { concurrency: false }, () => {
  let server, api;
  before(async () => {
    server = await startDoor({ backend: `${base}&schema=lane` });
    api = new Client(server);
    sql(refusing);
  });
  after(async () => {
    api.close();
    await stopServer(server);
  });

  /** Puts all, ten of them on their way at any time; gives the ids in the order of the puts. */
  async function putAll(connection, bodies) {
    const ids = [];
    for (let i = 0; i < bodies.length; i += 10) {
      const slice = bodies.slice(i, i + 10).map((body) => connection.put(body));
      ids.push(...(await Promise.all(slice)));
    }
    return ids;
  }

  test('one that is refused and tried again keeps its place before those behind it', async () => {
    const connections = await Promise.all(Array.from({ length: 8 }, () => Beanstalk.connect(server.beanstalk)));
    const bodies = connections.map((_, c) => Array.from({ length: 150 }, (_, i) => `${c}-${i}${c === 0 && i % 15 === 0 ? '-once' : ''}`));
    for (const connection of connections) assert.equal(await connection.line('use lane'), 'USING lane');
    const ids = await Promise.all(connections.map((connection, c) => putAll(connection, bodies[c])));
    for (const list of ids) assert.deepEqual(list, [...list].sort((a, b) => a - b), 'in the order they were sent');
    assert.equal(new Set(ids.flat()).size, 8 * 150);
    const stored = sql("SELECT seq || ' ' || encode(payload, 'escape') FROM lane.job ORDER BY seq").split('\n');
    const wanted = ids.flatMap((list, c) => list.map((id, i) => `${id} ${bodies[c][i]}`));
    assert.deepEqual(stored, wanted.sort((a, b) => parseInt(a, 10) - parseInt(b, 10)), 'each once, under the id that was told');
    assert.ok(Number(sql('SELECT last_value FROM lane.refusals')) >= 10, 'some were refused');
    for (const connection of connections) await connection.close();
  });

  test('one that is refused for good takes nobody behind it along', async () => {
    const put = (key, payload) => api.post('/v1/queues/never/jobs', { payload }, { headers: { 'idempotency-key': key } });
    const never = async (i) => {
      const answer = await put(`n${i}`, `never ${i}`);
      assert.equal(answer.status, 503, answer.text);
    };
    /** Whoever is in one unit with a refused job is told to come again. */
    const good = async (i) => {
      for (let answer; answer?.status !== 201; ) {
        answer = await put(`g${i}`, `good ${i}`);
        assert.ok(answer.status === 201 || answer.status === 503, answer.text);
      }
    };
    for (let round = 0; round < 10; round++)
      await Promise.all([never(round), ...Array.from({ length: 20 }, (_, i) => good(round * 20 + i))]);
    const stored = sql("SELECT encode(payload, 'escape') FROM lane.job j JOIN lane.queue q ON q.number = j.queue WHERE q.name = 'never'").split('\n');
    assert.deepEqual(stored.sort(), Array.from({ length: 200 }, (_, i) => `"good ${i}"`).sort());
  });
});
