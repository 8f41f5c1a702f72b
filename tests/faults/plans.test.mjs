// SPDX-License-Identifier: Apache-2.0
// TF-1: with very many delayed, ready and finished jobs, what the server asks of PostgreSQL touches a few rows of an
// index. The plans are those of the statements as they run: auto_explain writes them into the server's log. HF_ROWS=n.
import assert from 'node:assert/strict';
import { appendFileSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { before, test } from 'node:test';

import { until } from '../e2e/lib/server.mjs';
import { countOf } from '../crash/lib/trial.mjs';
import { leaderOf, startNodes } from './lib/cluster.mjs';
import { socket, sql, url } from './lib/postgres.mjs';

const rows = countOf('HF_ROWS', 100_000);
const log = () => readFileSync(path.join(socket, 'log'), 'utf8');

before(() => {
  const settings = { log_min_duration: '0', log_analyze: 'on', log_buffers: 'on', log_timing: 'off', log_format: 'json' };
  const lines = Object.entries(settings).map(([name, value]) => `auto_explain.${name} = ${value}`);
  appendFileSync(`${process.env.HF_POSTGRES_DATA}/postgresql.conf`, ["session_preload_libraries = 'auto_explain'", ...lines, ''].join('\n'));
  sql('SELECT pg_reload_conf()');
});

/** All nodes of a plan. */
const flat = (plan) => [plan, ...(plan.Plans ?? []).flatMap(flat)];

/** The plans that were logged after this position: [{text, nodes, blocks}]. */
function plansSince(length) {
  return [...log().slice(length).matchAll(/ plan:\n((?:\t.*\n)+)/g)].map(([, json]) => {
    const { 'Query Text': text, Plan: plan } = JSON.parse(json.replaceAll(/^\t/gm, ''));
    return { text, nodes: flat(plan), blocks: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'] };
  });
}

/** Copies of a job of a queue, with another state and time. */
const fill = (queue, state, columns) => {
  const names = sql("SELECT string_agg(column_name, ',') FROM information_schema.columns WHERE table_schema = 'plans' AND table_name = 'job'").split(',');
  const values = names.map((name) => ({ seq: "nextval('plans.job_seq')", state: String(state), ...columns })[name] ?? `j.${name}`);
  sql(`INSERT INTO plans.job (${names.join(',')}) SELECT ${values.join(',')} FROM plans.job j JOIN plans.queues q ON q.number = j.queue, generate_series(1, ${rows}) WHERE q.name = '${queue}' AND j.seq = (SELECT min(seq) FROM plans.job WHERE queue = q.number)`);
};

test(`TF-1 the plans of frequent statements, with three times ${rows} jobs`, async (t) => {
  const [node] = await startNodes(t, url('plans'), 1);
  await leaderOf([node]);
  const post = async (where, body, wanted = 200) => {
    const answer = await node.api.post(where, body);
    assert.equal(answer.status, wanted, answer.text);
    return answer.json;
  };
  for (const queue of ['delayed', 'ready', 'ended']) await post(`/v1/queues/${queue}/jobs`, { payload: 1, delay_ms: 86_400_000 }, 201);
  fill('delayed', 1, { run_at: '(extract(epoch FROM now()) * 1000)::int8 + 86400000 + (random() * 1e9)::int8' });
  fill('ready', 2, { run_at: '0' });
  fill('ended', 4, { run_at: '0', since: '(extract(epoch FROM now()) * 1000)::int8' });
  sql('ANALYZE plans.job');

  const before = log().length;
  await post('/v1/queues/delayed/jobs', { payload: 'now' }, 201);
  for (const queue of ['delayed', 'ready']) {
    const { jobs } = await post(`/v1/queues/${queue}/claim`, { count: 3, lease_ms: 6000 });
    assert.equal(jobs.length, queue === 'delayed' ? 1 : 3);
    await post(`/v1/jobs/${jobs[0].id}/ack`, { token: jobs[0].token });
  }
  const { id } = await post('/v1/queues/delayed/jobs', { payload: 'soon', delay_ms: 300, unique: 'one' }, 201);
  const { jobs } = await post('/v1/queues/delayed/claim', { wait_ms: 20_000 });
  assert.equal(jobs[0].id, id, 'the job that became due');
  await post(`/v1/jobs/${id}/fail`, { token: jobs[0].token });
  // Two of the ready ones are held: their leases end.
  await until('leases have ended', () => sql('SELECT count(*) FROM plans.job WHERE crashes > 0 -- ours') === '2');

  const plans = plansSince(before).filter(({ text, nodes }) => !text.endsWith('-- ours') && nodes.some((n) => n['Relation Name'] === 'job'));
  const statements = new Set(plans.map(({ text }) => text));
  console.log(`# ${plans.length} plans of ${statements.size} statements over jobs; at most ${Math.max(...plans.map((p) => p.blocks))} blocks`);
  assert.ok(statements.size >= 10, 'the log has the plans');
  for (const index of ['job_ready', 'job_due', 'job_lease'])
    assert.ok(plans.some(({ nodes }) => nodes.some((n) => n['Index Name'] === index)), `${index} is used`);
  for (const { text, nodes, blocks } of plans) {
    for (const one of nodes.filter((n) => n['Relation Name'] === 'job')) {
      assert.notEqual(one['Node Type'], 'Seq Scan', text);
      const touched = (one['Actual Rows'] + (one['Rows Removed by Filter'] ?? 0) + (one['Rows Removed by Index Recheck'] ?? 0)) * one['Actual Loops'];
      assert.ok(touched <= 500, `${touched} rows of ${one['Index Name'] ?? one['Node Type']}: ${text}`);
    }
    assert.ok(blocks < 500, `${blocks} blocks: ${text}`);
  }
  await node.stop();
});

test(`TF-1 claims of a queue with limits, with ${rows} groups of which many are full`, async (t) => {
  const [node] = await startNodes(t, url('limitplans'), 1);
  await leaderOf([node]);
  const post = async (where, body, wanted = 200) => {
    const answer = await node.api.post(where, body);
    assert.equal(answer.status, wanted, answer.text);
    return answer.json;
  };
  const put = await node.api.put('/v1/queues/q', { max_running_per_group: 1, fair: 'group', lease_ms: 3_600_000 });
  assert.equal(put.status, 201, put.text);
  await post('/v1/queues/q/jobs', { payload: 1, group: 'first', delay_ms: 86_400_000 }, 201);
  // Two ready jobs of each group; every tenth group is full, and these are first in the order.
  const names = sql("SELECT string_agg(column_name, ',' ORDER BY ordinal_position) FROM information_schema.columns WHERE table_schema = 'limitplans' AND table_name = 'job'").split(',');
  const values = (state, flags) => names.map((name) => ({ seq: "nextval('limitplans.job_seq')", state, flags, run_at: '0', group_key: "'g' || g", until: "(extract(epoch FROM now()) * 1000)::int8 + 3600000" })[name] ?? `j.${name}`).join(',');
  const copies = `FROM limitplans.job j, generate_series(1, ${rows}) g WHERE j.group_key = 'first'`;
  for (let i = 0; i < 2; i++) sql(`INSERT INTO limitplans.job (${names.join(',')}) SELECT ${values('2', '0')} ${copies}`);
  sql(`INSERT INTO limitplans.job (${names.join(',')}) SELECT ${values('3', '256')} ${copies} AND g % 10 = 1`);
  sql('INSERT INTO limitplans.claim_ready (seq, queue, version, group_key, priority) SELECT seq, queue, 1, group_key, priority FROM limitplans.job WHERE state = 2');
  sql("INSERT INTO limitplans.claim_group (queue, group_key, version, priority, seq, round, busy, full_us, wait_us) SELECT queue, group_key, 1, priority, min(seq), 1, substr(group_key, 2)::int8 % 10 = 1, 0, 0 FROM limitplans.job WHERE state = 2 GROUP BY queue, group_key, priority");
  for (const table of ['job', 'claim_ready', 'claim_group']) sql(`ANALYZE limitplans.${table}`);

  const before = log().length;
  await post('/v1/queues/q/jobs', { payload: 1, group: 'g2' }, 201);
  await post('/v1/queues/q/jobs', { payload: 1, group: 'new' }, 201);
  for (let i = 0; i < 3; i++) {
    const { jobs } = await post('/v1/queues/q/claim', { count: 3 });
    assert.equal(new Set(jobs.map((job) => job.group)).size, 3, 'each group has one slot');
    assert.ok(jobs.every((job) => Number(job.group.slice(1)) % 10 !== 1), 'full groups are passed over');
    await post(`/v1/jobs/${jobs[0].id}/ack`, { token: jobs[0].token });
    await post(`/v1/jobs/${jobs[1].id}/release`, { token: jobs[1].token });
  }
  const tables = ['job', 'claim_ready', 'claim_group'];
  const plans = plansSince(before).filter(({ text, nodes }) => /claim_(ready|group)/.test(text) && nodes.some((n) => tables.includes(n['Relation Name'])));
  const claims = plans.filter(({ text }) => !/claim_step|max_running\) VALUES|QUEUE_VIEWS/.test(text));
  console.log(`# ${claims.length} plans; at most ${Math.max(...claims.map((p) => p.blocks))} blocks`);
  assert.ok(claims.some(({ nodes }) => nodes.some((n) => n['Index Name'] === 'claim_group_place')), 'claim_group_place is used');
  for (const { text, nodes, blocks } of claims) {
    for (const one of nodes.filter((n) => tables.includes(n['Relation Name']))) {
      assert.notEqual(one['Node Type'], 'Seq Scan', text);
      const touched = (one['Actual Rows'] + (one['Rows Removed by Filter'] ?? 0) + (one['Rows Removed by Index Recheck'] ?? 0)) * one['Actual Loops'];
      assert.ok(touched <= 500, `${touched} rows of ${one['Index Name'] ?? one['Node Type']}: ${text}`);
    }
    assert.ok(blocks < 1500, `${blocks} blocks: ${text}`);
  }
  await node.stop();
});

test('TF-1 the view of a queue whose groups wait for tokens reads each of them once, also before its tables were analysed', async (t) => {
  const groups = 2000;
  const [node] = await startNodes(t, url('viewplans'), 1);
  await leaderOf([node]);
  const put = await node.api.put('/v1/queues/q', { claim_rate: { per: 'group', count: 1, window_ms: 86_400_000 } });
  assert.equal(put.status, 201, put.text);
  const far = '(extract(epoch FROM now()) * 1000000)::int8 + 80000000000';
  // As many groups without jobs, whose bucket is not full yet, and as many ready jobs of other groups, every fourth of which waits.
  sql(`INSERT INTO viewplans.claim_group (queue, group_key, version, priority, seq, round, busy, full_us, wait_us) SELECT 1, 'idle' || g, 1, NULL, NULL, 1, false, ${far}, ${far} FROM generate_series(1, ${groups}) g`);
  sql(`INSERT INTO viewplans.claim_group (queue, group_key, version, priority, seq, round, busy, full_us, wait_us) SELECT 1, 'g' || g, 1, 0, 1000 + g, 1, false, 0, CASE WHEN g % 4 = 0 THEN ${far} ELSE 0 END FROM generate_series(1, ${groups}) g`);
  sql(`INSERT INTO viewplans.claim_ready (seq, queue, version, group_key, priority) SELECT 1000 + g, 1, 1, 'g' || g, 0 FROM generate_series(1, ${groups}) g`);
  const before = log().length;
  const view = await node.api.get('/v1/queues/q');
  assert.equal(view.status, 200, view.text);
  assert.equal(view.json.limited.claim_rate, groups / 4);
  const plans = await until('the plan of the view', () => {
    const found = plansSince(before).filter(({ text, nodes }) => nodes.some((n) => n['Relation Name'] === 'claim_ready') && /max_running/.test(text));
    return found.length > 0 && found;
  });
  for (const { text, nodes } of plans)
    for (const one of nodes.filter((n) => ['claim_ready', 'claim_group'].includes(n['Relation Name']))) {
      const touched = (one['Actual Rows'] + (one['Rows Removed by Filter'] ?? 0) + (one['Rows Removed by Index Recheck'] ?? 0)) * one['Actual Loops'];
      assert.ok(touched <= 3 * groups, `${touched} rows of ${one['Index Name'] ?? one['Node Type']}: ${text}`);
    }
  await node.stop();
});

test('TF-1 a queue with limits that has just been filled reads only the jobs that it enqueues, before its tables were analysed', async (t) => {
  const [node] = await startNodes(t, url('fillplans'), 1);
  await leaderOf([node]);
  const put = await node.api.put('/v1/queues/q', { max_running_per_group: 2, fair: 'group' });
  assert.equal(put.status, 201, put.text);
  for (const table of ['job', 'claim_ready', 'claim_group']) sql(`ALTER TABLE fillplans.${table} SET (autovacuum_enabled = off)`);
  const many = (from) => Array.from({ length: 1000 }, (_, i) => ({ payload: 1, group: `g${from + i}` }));
  for (let i = 0; i < 10; i++) assert.equal((await node.api.post('/v1/queues/q/jobs', many(1000 * i))).status, 200);
  const before = log().length;
  for (let i = 0; i < 3; i++) assert.equal((await node.api.post('/v1/queues/q/jobs', { payload: 1, group: 'g1' })).status, 201);
  const plans = await until('the plans of the order', () => {
    const found = plansSince(before).filter(({ text }) => /INSERT INTO \S*claim_ready/.test(text));
    return found.length > 0 && found;
  });
  for (const { text, nodes } of plans)
    for (const one of nodes.filter((n) => n['Relation Name'] === 'job')) {
      const touched = (one['Actual Rows'] + (one['Rows Removed by Filter'] ?? 0) + (one['Rows Removed by Index Recheck'] ?? 0)) * one['Actual Loops'];
      assert.ok(touched <= 50, `${touched} rows of ${one['Index Name'] ?? one['Node Type']}: ${text}`);
    }
  await node.stop();
});

test(`TF-1 the document's query on the view tasks uses its index, with ${10 * rows} tasks`, async (t) => {
  const [node] = await startNodes(t, url('taskplans'), 1);
  await leaderOf([node]);
  const answer = await node.api.post('/api/tasks', { name: 'report', scheduled_at: new Date(Date.now() + 3600_000).toISOString() });
  assert.equal(answer.status, 201, answer.text);
  const names = sql("SELECT string_agg(column_name, ',' ORDER BY ordinal_position) FROM information_schema.columns WHERE table_schema = 'taskplans' AND table_name = 'job'").split(',');
  const values = names.map((name) => ({ seq: 'j.seq + g', run_at: 'j.run_at + g * 60', priority: 'j.priority - g * 60' })[name] ?? `j.${name}`);
  sql(`INSERT INTO taskplans.job (${names.join(',')}) SELECT ${values.join(',')} FROM taskplans.job j, generate_series(1, ${10 * rows}) g`);
  sql('ANALYZE taskplans.job');
  // As SQLAlchemy writes it, and the query of the first half of the document.
  for (const where of ["status = 'PENDING' AND scheduled_at IS NOT NULL AND scheduled_at <= now()", "status = 'SCHEDULED' AND scheduled_at <= now()"]) {
    const [{ Plan: plan }] = JSON.parse(sql(`EXPLAIN (ANALYZE, FORMAT JSON) SELECT * FROM taskplans.tasks WHERE ${where} ORDER BY scheduled_at ASC LIMIT 100 FOR UPDATE SKIP LOCKED -- ours`));
    const scans = flat(plan).filter((one) => one['Relation Name'] === 'job');
    assert.deepEqual(scans.map((one) => one['Index Name']), ['job_task'], where);
    assert.ok(scans[0]['Actual Rows'] <= 100, where);
  }
  await node.stop();
});

test(`TF-1 HF-28 jobs that depend on others, with ${rows} edges and three times as many jobs`, async (t) => {
  const [node] = await startNodes(t, url('dependencyplans'), 1);
  await leaderOf([node]);
  const post = async (where, body, wanted = 200) => {
    const answer = await node.api.post(where, body);
    assert.equal(answer.status, wanted, answer.text);
    return answer.json;
  };
  await post('/v1/queues/ended/jobs', { payload: 1, delay_ms: 86_400_000 }, 201);
  const names = sql("SELECT string_agg(column_name, ',' ORDER BY ordinal_position) FROM information_schema.columns WHERE table_schema = 'dependencyplans' AND table_name = 'job'").split(',');
  const copies = (state) => names.map((name) => ({ seq: "nextval('dependencyplans.job_seq')", state, run_at: '0', since: '(extract(epoch FROM now()) * 1000)::int8' })[name] ?? `j.${name}`).join(',');
  for (const state of ['2', '4', '7']) sql(`INSERT INTO dependencyplans.job (${names.join(',')}) SELECT ${copies(state)} FROM dependencyplans.job j, generate_series(1, ${rows}) WHERE j.seq = 1`);
  sql('INSERT INTO dependencyplans.dependent SELECT seq, 0, false, 1, 0, 0, 0, 0 FROM dependencyplans.job WHERE state = 7');
  sql(`INSERT INTO dependencyplans.dependency SELECT seq, seq - ${2 * rows} FROM dependencyplans.job WHERE state = 7`);
  for (const table of ['job', 'dependent', 'dependency', 'dependency_work']) sql(`ANALYZE dependencyplans.${table}`);

  const before = log().length;
  const { batch } = await post('/v1/batches', { jobs: [{ queue: 'p' }, { queue: 'p' }], then: { queue: 'c' }, open: true }, 201);
  await post(`/v1/batches/${batch}/jobs`, { jobs: [{ queue: 'p' }] });
  await post(`/v1/batches/${batch}/close`);
  const strict = await post('/v1/queues/c/jobs', { depends_on: [batch], on_dependency_failure: 'dead', expires_in_ms: 60_000 }, 201);
  for (let i = 0; i < 3; i++) {
    const [job] = (await post('/v1/queues/p/claim', { wait_ms: 5000 })).jobs;
    await post(`/v1/jobs/${job.id}/ack`, { token: job.token });
  }
  assert.equal((await node.api.get(`/v1/jobs/${strict.id}?dependencies=true`)).json.waits_for.length, 1);
  await until('the final job is ready', async () => (await node.api.get(`/v1/jobs/${batch}`)).json.state === 'ready');
  await post('/v1/queues/c/purge', {});
  await until('the purge is complete', () => sql(`SELECT count(*) FROM dependencyplans.dependency WHERE child = ${strict.seq} -- ours`) === '0');

  const tables = ['job', 'dependent', 'dependency', 'dependency_work'];
  const plans = plansSince(before).filter(({ text, nodes }) => text.includes('dependencyplans') && !text.endsWith('-- ours') && nodes.some((n) => tables.includes(n['Relation Name'])));
  console.log(`# ${plans.length} plans of ${new Set(plans.map(({ text }) => text)).size} statements; at most ${Math.max(...plans.map((p) => p.blocks))} blocks`);
  for (const index of ['dependency_pkey', 'dependency_parent', 'dependent_pkey'])
    assert.ok(plans.some(({ nodes }) => nodes.some((n) => n['Index Name'] === index)), `${index} is used`);
  for (const { text, nodes, blocks } of plans) {
    for (const one of nodes.filter((n) => tables.includes(n['Relation Name']))) {
      // The work list is empty, or nearly so.
      if (one['Relation Name'] !== 'dependency_work') assert.notEqual(one['Node Type'], 'Seq Scan', text);
      const touched = (one['Actual Rows'] + (one['Rows Removed by Filter'] ?? 0) + (one['Rows Removed by Index Recheck'] ?? 0)) * one['Actual Loops'];
      assert.ok(touched <= 1100, `${touched} rows of ${one['Index Name'] ?? one['Node Type']}: ${text}`);
    }
    assert.ok(blocks < 500, `${blocks} blocks: ${text}`);
  }
  await node.stop();
});
