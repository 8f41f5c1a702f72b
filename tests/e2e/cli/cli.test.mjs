// SPDX-License-Identifier: Apache-2.0
// The client commands with a running server: output, requests, exit status.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { Client } from '../lib/client.mjs';
import { execute, run } from '../lib/program.mjs';
import { binary, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue } from '../lib/suite.mjs';

const DONE = 0, REFUSED = 1, USAGE = 2, UNREACHABLE = 3, NOTHING = 4;
let server, api;
const cli = (args, options = {}) => run(args, { ...options, env: { HOLDFAST_SERVER: server.url, ...options.env } });
const ended = (result, code) => assert.equal(result.code, code, `${result.stdout}\n${result.stderr}`);
const json = (result) => {
  assert.match(result.stdout, /^[^\n]*\n$/, 'one line');
  return JSON.parse(result.stdout);
};
const complaint = (result, pattern) => {
  assert.match(result.stderr, /^holdfast: \S/);
  assert.match(result.stderr, pattern);
};
const jobOf = async (id) => (await api.get(`/v1/jobs/${id}`)).json;

/** A command that runs until it is stopped. */
function follow(args) {
  const child = spawn(binary, args, { env: { ...process.env, HOLDFAST_SERVER: server.url }, stdio: ['ignore', 'pipe', 'pipe'] });
  const one = { stdout: '', stderr: '', child };
  child.stdout.setEncoding('utf8').on('data', (chunk) => (one.stdout += chunk));
  child.stderr.setEncoding('utf8').on('data', (chunk) => (one.stderr += chunk));
  one.ended = new Promise((resolve) => child.on('close', (code, signal) => resolve(code ?? signal)));
  return one;
}

describe('client commands', () => {
  before(async () => {
    server = await startServer({ backend: 'memory' });
    api = new Client(server);
  });
  after(async () => {
    api.close();
    await stopServer(server);
  });

  test('every client command in the help text is tested here', async () => {
    const { stdout } = await run(['help']);
    const listed = [...stdout.split('Commands that connect to a server:')[1].matchAll(/^  (\w+)/gm)].map((m) => m[1]);
    const here = readFileSync(new URL(import.meta.url), 'utf8');
    const missing = listed.filter((name) => !here.includes(`['${name}'`));
    assert.ok(listed.length > 10);
    assert.deepEqual(missing, []);
  });

  test('backup and compact: backup.test.mjs tests all of it', async () => {
    ended(await cli(['backup', `${temporaryDirectory()}/copy`]), REFUSED); // a server in memory
    ended(await cli(['backup']), USAGE);
    ended(await cli(['compact']), REFUSED);
    ended(await cli(['compact', 'a']), USAGE);
  });

  test('export and import: export.test.mjs tests all of it', async () => {
    const q = freshQueue('export');
    await enqueue(api, q, { payload: 1 });
    const text = await cli(['export', '--queue', q]);
    ended(text, DONE);
    const back = await cli(['import', '-'], { input: text.stdout });
    ended(back, DONE);
    assert.match(back.stdout, /^1 imported, 0 already present/); // here it is a job of another server
    ended(await cli(['import', 'a', 'b']), USAGE);
    ended(await cli(['export', 'a']), USAGE);
  });

  test('HF-8 schedules: create, show, set, list, preview, pause, resume, run, delete', async () => {
    const name = freshQueue('nightly ü');
    const q = freshQueue('reports');
    const at = () => api.get(`/v1/schedules/${encodeURIComponent(name)}`).then((answer) => answer.json);
    ended(await cli(['schedules', 'create', name, '--cron', '30 2 * * *', '--timezone', 'Europe/Berlin', '--queue', q, '--payload', '{"kind":"daily"}', '--priority', 'high', '--description', 'Reports']), DONE);
    const made = await at();
    assert.deepEqual([made.cron, made.timezone, made.queue, made.job.payload, made.job.priority, made.description], ['30 2 * * *', 'Europe/Berlin', q, { kind: 'daily' }, 10, 'Reports']);
    const again = await cli(['schedules', 'create', name, '--every', '1h']);
    ended(again, REFUSED);
    complaint(again, /exists/);
    ended(await cli(['schedules', 'set', name, '--misfire', 'all', '--misfire-window', '2h', '--overlap', 'skip', '--max-attempts', '3']), DONE);
    const set = json(await cli(['schedules', name, '--json']));
    assert.deepEqual([set.misfire, set.misfire_window_ms, set.overlap, set.cron, set.job.max_attempts, set.job.payload], ['all', 7200000, 'skip', '30 2 * * *', 3, { kind: 'daily' }]);
    const shown = await cli(['schedules', name]);
    ended(shown, DONE);
    assert.match(shown.stdout, /^cron: +30 2 \* \* \*$/m);
    const listed = await cli(['schedules']);
    ended(listed, DONE);
    assert.match(listed.stdout, /^SCHEDULE +WHEN +QUEUE +NEXT +FIRED/);
    assert.match(listed.stdout, new RegExp(`^${name} +30 2 \\* \\* \\* +${q} +20`, 'm'));
    assert.ok(json(await cli(['schedules', '--json'])).schedules.some((one) => one.name === name));
    const previewed = await cli(['schedules', 'preview', name, '--count', '2', '--after', '2026-03-28T12:00:00Z']);
    ended(previewed, DONE);
    assert.match(previewed.stdout, /^AT +LOCAL +DST\n2026-03-29T01:00:00.000Z +2026-03-29T03:00:00\+02:00 +moved\n2026-03-30T00:30/);
    assert.equal(json(await cli(['schedules', 'preview', '--every', '10m', '--count', '3', '--json'])).firings.length, 3);
    ended(await cli(['schedules', 'pause', name]), DONE);
    assert.equal((await at()).paused, true);
    ended(await cli(['schedules', 'resume', name]), DONE);
    assert.equal((await at()).paused, false);
    const ran = json(await cli(['schedules', 'run', name, '--json']));
    assert.equal(ran.fired, true);
    assert.equal((await api.get(`/v1/jobs/${ran.job.id}`)).json.queue, q);
    const items = freshQueue('items');
    ended(await cli(['schedules', 'create', `${name}-t`, '--source-queue', items, '--queue', q, '--batch-size', '5', '--interval', '2s', '--eager', 'yes', '--paused', 'yes']), DONE);
    const trigger = json(await cli(['schedules', `${name}-t`, '--json']));
    assert.deepEqual([trigger.source_queue, trigger.batch_size, trigger.interval_ms, trigger.eager, trigger.paused], [items, 5, 2000, true, true]);
    assert.match((await cli(['schedules'])).stdout, new RegExp(`items of ${items} .*paused`));
    for (const one of [name, `${name}-t`]) {
      ended(await cli(['schedules', 'delete', one]), DONE);
      const gone = await cli(['schedules', one]);
      ended(gone, REFUSED);
      complaint(gone, /schedule/);
    }
    const before = (await api.get('/v1/schedules')).text;
    for (const wrong of [
      ['drop', name], ['create'], ['run'], ['pause', name, '--cron', '* * * * *'], [name, '--queue', q], ['create', name, '--count', '3'], ['--after', 'x'],
      ['create', name, '--every', 'soon'], ['create', name, '--cron', '* * * * *', '--payload', '{'], ['a', 'b', 'c'], ['create', name, '--overlap', 'never'],
    ]) ended(await cli(['schedules', ...wrong]), USAGE);
    for (const wrong of [['create', name], ['create', name, '--cron', '61 * * * *'], ['set', name, '--every', '1m'], ['create', name, '--cron', '* * * * *', '--every', '1m'], ['preview', '--cron', 'x'], ['run', name]])
      ended(await cli(['schedules', ...wrong]), REFUSED);
    assert.equal((await api.get('/v1/schedules')).text, before);
  });

  test('why: the reasons, in sentences and as JSON', async () => {
    const q = freshQueue('why');
    const parent = (await enqueue(api, q, { payload: 1, delay_ms: 600000 })).id;
    const child = (await enqueue(api, q, { payload: 2, depends_on: [parent] })).id;
    const late = await cli(['why', parent]);
    ended(late, DONE);
    assert.match(late.stdout, new RegExp(`^The job ${parent} of the queue ${q} is scheduled\\.\n1\\. .*\\(not_due\\)\n`));
    assert.match(late.stdout, /^It is expected to start at 20.*Z\.$/m);
    const blocked = await cli(['why', child]);
    ended(blocked, DONE);
    assert.match(blocked.stdout, new RegExp(`^The job ${child} of the queue ${q} is blocked\\.\n1\\. .*${parent}`));
    assert.deepEqual(json(await cli(['why', child, '--json'])), (await api.get(`/v1/jobs/${child}/why`)).json);
    const gone = await cli(['why', '4000000000']);
    ended(gone, REFUSED);
    complaint(gone, /no job/);
    ended(await cli(['why']), USAGE);
    ended(await cli(['why', parent, child]), USAGE);
  });

  test('HF-10 step: stores the result of a step, and prints it', async () => {
    const q = freshQueue();
    const { id } = await enqueue(api, q, { payload: 1 });
    const { token } = json(await cli(['claim', q, '--json'])).jobs[0];
    complaint(await cli(['step', id, 'charge']), /no result/);
    const stored = await cli(['step', id, 'charge', '{"receipt":7}', '--token', token]);
    ended(stored, DONE);
    assert.equal(stored.stdout, '');
    assert.equal(json(await cli(['step', id, 'a "b"/c', '-t', token, '"text"', '--json'])).state, 'running');
    assert.deepEqual((await jobOf(id)).steps, { charge: { receipt: 7 }, 'a "b"/c': 'text' });
    const shown = await cli(['step', id, 'charge']);
    ended(shown, DONE);
    assert.equal(shown.stdout, '{"receipt":7}\n');
    ended(await cli(['step', id, 'charge', '1', '-t', '9-9']), REFUSED);
    for (const wrong of [[id], [id, 'charge', '1'], [id, 'charge', 'text', '-t', token], [id, 'charge', '1', '2', '-t', token]]) ended(await cli(['step', ...wrong]), USAGE);
    assert.deepEqual((await jobOf(id)).steps.charge, { receipt: 7 }, 'what was refused changed nothing');
  });

  test('progress, log and workers: what a worker reports', async () => {
    const q = freshQueue();
    const worker = freshQueue('worker');
    const { id } = await enqueue(api, q, { payload: 1 });
    const { token } = json(await cli(['claim', q, '--worker', worker, '--json'])).jobs[0];
    ended(await cli(['progress', id, '--token', token, '42.5', 'half way']), DONE);
    const { progress } = await jobOf(id);
    assert.deepEqual([progress.percent, progress.message], [42.5, 'half way']);
    assert.equal(json(await cli(['progress', id, '-t', token, '60', '--lease', '1h', '--json'])).state, 'running');
    const extended = await jobOf(id);
    assert.equal(extended.progress.percent, 60);
    assert.ok(Date.parse(extended.lease_until) > Date.now() + 3000_000);
    for (const wrong of [['101'], ['5', 'm'.repeat(100_000)]]) ended(await cli(['progress', id, '--token', token, ...wrong]), REFUSED);
    const strange = await cli(['progress', id, '--token', 'zzz', '5']);
    ended(strange, REFUSED);
    complaint(strange, /token/);
    for (const wrong of [[id, '5'], [id, '--token', token], [id, '--token', token, 'half'], [id, '--token', token, '5', 'a', 'b']]) ended(await cli(['progress', ...wrong]), USAGE);
    assert.equal((await jobOf(id)).progress.percent, 60, 'what was refused changed nothing');

    assert.equal((await api.post(`/v1/jobs/${id}/log`, { token, lines: ['first', 'sec\u001bond'] })).status, 200);
    const log = await cli(['log', id]);
    ended(log, DONE);
    assert.match(log.stdout, /^AT +ATTEMPT +TEXT\n20\S+ +1 +first\n20\S+ +1 +sec/);
    assert.ok(!log.stdout.includes('\u001b'), 'nothing steers the terminal');
    assert.deepEqual(json(await cli(['log', id, '--json'])).lines.map((line) => line.text), ['first', 'sec\u001bond']);
    ended(await cli(['log', 'none']), REFUSED);
    ended(await cli(['log']), USAGE);

    const listed = await cli(['workers']);
    ended(listed, DONE);
    assert.match(listed.stdout, /^WORKER +STATE +LAST SEEN +JOBS +DONE +FAILED +HOST +PID +VERSION\n/);
    assert.match(listed.stdout, new RegExp(`^${worker} +active +20\\S+ +1 +0 +0 `, 'm'));
    ended(await cli(['ack', id, token]), DONE);
    const one = json(await cli(['workers', '--json'])).workers.find(({ name }) => name === worker);
    assert.deepEqual([one.running, one.claimed, one.done], [0, 1, 1]);
    ended(await cli(['workers', worker]), USAGE);
  });

  test('PDQ-9 breakers: breakers.test.mjs tests all of it', async () => {
    const name = freshQueue('target');
    ended(await cli(['breakers', 'set', name, '--failure-threshold', '3']), DONE);
    const listed = await cli(['breakers']);
    ended(listed, DONE);
    assert.match(listed.stdout, /^BREAKER +TYPE +STATE +FAILURES +OF +UNTIL\n/);
    assert.match(listed.stdout, new RegExp(`^${name} +named +closed +0 +3 `, 'm'));
    assert.equal(json(await cli(['breakers', 'show', name, '--json'])).failure_threshold, 3);
    ended(await cli(['breakers', 'delete', name, '--yes']), DONE);
    ended(await cli(['breakers', 'show', name]), REFUSED);
    ended(await cli(['breakers', 'open', name]), USAGE);
  });

  test('PDQ-8 work: the files work_*.test.mjs test all of it', async () => {
    const q = freshQueue();
    const { id } = await enqueue(api, q, { payload: { a: 1 } });
    ended(await cli(['work', q, '--once', '--', 'cat']), DONE);
    const done = await jobOf(id);
    assert.deepEqual([done.state, done.result], ['done', { a: 1 }]);
    ended(await cli(['work', q, '--once', '--poll', '1ms', '--', 'cat']), NOTHING);
    ended(await cli(['work', q]), USAGE);
  });

  test('KV-10 kv: set, get, list, delete, versions', async () => {
    const stem = freshQueue('k');
    const text = `${stem} ü`;
    const parts = JSON.stringify([stem, 7, true]);
    ended(await cli(['kv', 'set', text, '{"n": 1}']), DONE);
    const got = await cli(['kv', 'get', text]);
    ended(got, DONE);
    assert.equal(got.stdout, '{"n": 1}\n');
    assert.deepEqual((await api.get(`/v1/kv/keys/${encodeURIComponent(text)}`)).json.value, { n: 1 });
    ended(await cli(['kv', 'set', parts, '-', '--expires-in', '1h'], { input: '[1,\n2]' }), DONE);
    const view = json(await cli(['kv', 'get', parts, '--json'])).keys[0];
    assert.deepEqual([view.key, view.value], [[stem, 7, true], [1, 2]]);
    assert.ok(Date.parse(view.expires_at) > Date.now() + 3000_000);
    // With a version: only if the key has not changed.
    const { version } = view;
    const taken = await cli(['kv', 'set', parts, '2', '--version', '0']);
    ended(taken, REFUSED);
    complaint(taken, /version/);
    ended(await cli(['kv', 'delete', parts, '--version', String(version + 1000)]), REFUSED);
    ended(await cli(['kv', 'set', parts, '2', '--version', String(version)]), DONE);
    ended(await cli(['kv', 'set', `${stem}-new`, 'null', '--version', '0']), DONE);
    assert.equal((await cli(['kv', 'get', `${stem}-new`])).stdout, 'null\n');
    await api.post('/v1/kv/commit', { sets: [{ key: [stem, 'text'], value_text: 'pl\u001bain' }, { key: [stem, 'raw'], value_base64: 'AP8B' }] });
    assert.ok(!(await cli(['kv', 'get', JSON.stringify([stem, 'text'])])).stdout.includes('\u001b'), 'nothing steers the terminal');
    assert.equal((await cli(['kv', 'get', JSON.stringify([stem, 'raw'])])).stdout, 'AP8B\n');
    const listed = await cli(['kv', 'list', stem]);
    ended(listed, DONE);
    assert.match(listed.stdout, /^KEY +VERSION +EXPIRES +VALUE\n/);
    assert.equal(listed.stdout.trim().split('\n').length, 4, 'the prefix is parts, not letters');
    assert.ok(json(await cli(['kv', 'list', '--json'])).keys.some((one) => one.key[0] === text));
    ended(await cli(['kv', 'delete', parts]), DONE);
    const gone = await cli(['kv', 'get', parts]);
    ended(gone, REFUSED);
    complaint(gone, /no such key/);
    ended(await cli(['kv', 'delete', parts]), DONE);
    const before = (await api.get('/v1/kv?limit=1000')).json.keys;
    for (const wrong of [
      [], ['take', 'a'], ['get'], ['get', 'a', 'b'], ['set', 'a'], ['set', 'a', '{'], ['set', '[1', '1'], ['set', '[1', '1', '--version', '0'], ['delete', '['], ['list', 'a', 'b'],
      ['get', 'a', '--version', '1'], ['delete', 'a', '--expires-in', '1h'], ['set', 'a', '1', '--version', 'x'],
    ]) ended(await cli(['kv', ...wrong]), USAGE);
    for (const wrong of [['get', '[]'], ['set', '[{}]', '1'], ['set', 'a', '1', '--expires-at', 'then']]) ended(await cli(['kv', ...wrong]), REFUSED);
    assert.deepEqual((await api.get('/v1/kv?limit=1000')).json.keys, before);
  });

  test('NOM-11 alerts: list, show, delete', async () => {
    const name = freshQueue('deep ü');
    const q = freshQueue('alerts');
    const made = await api.put(`/v1/alerts/${encodeURIComponent(name)}`, { on: 'deep', queue: q, depth: 1 });
    assert.equal(made.status, 201, made.text);
    for (let i = 0; i < 2; i++) await enqueue(api, q, { payload: i });
    await until('it is raised', async () => (await api.get(`/v1/alerts/${encodeURIComponent(name)}`)).json.raised_count === 1);
    const listed = await cli(['alerts']);
    ended(listed, DONE);
    assert.match(listed.stdout, /^ALERT +ON +QUEUE +RAISED +PENDING +DEAD +WEBHOOK/);
    assert.match(listed.stdout, new RegExp(`^${name} +deep +${q} +1 `, 'm'));
    const shown = await cli(['alerts', name]);
    ended(shown, DONE);
    assert.match(shown.stdout, new RegExp(`^RAISED FOR +SINCE +VALUE +LIMIT\\n${q} `, 'm'));
    assert.equal(json(await cli(['alerts', name, '--json'])).name, name);
    assert.ok(json(await cli(['alerts', '--json'])).alerts.some((one) => one.name === name));
    for (const wrong of [['delete'], ['create', name], ['a', 'b', 'c']]) ended(await cli(['alerts', ...wrong]), USAGE);
    ended(await cli(['alerts', 'delete', name]), DONE);
    ended(await cli(['alerts', name]), REFUSED);
    ended(await cli(['alerts', 'delete', name]), REFUSED);
  });

  test('queues: create, show, set, list, pause, resume, purge, delete', async () => {
    const q = freshQueue('cli ü');
    ended(await cli(['queues', 'create', q, '--lease-ms', '5s', '--max-attempts', '3', '--backoff-ms', '1s,30s', '--description', 'Orders', '--capacity', 'none']), DONE);
    const made = (await api.get(`/v1/queues/${encodeURIComponent(q)}`)).json;
    assert.deepEqual([made.policy.lease_ms, made.policy.max_attempts, made.policy.capacity, made.description], [5000, 3, null, 'Orders']);
    assert.deepEqual(made.policy.backoff, { type: 'list', steps_ms: [1000, 30000] });
    const again = await cli(['queues', 'create', q]);
    ended(again, REFUSED);
    complaint(again, /exists/);
    ended(await cli(['queues', 'set', q, '--lease-ms', '7000']), DONE);
    const set = json(await cli(['queues', q, '--json']));
    assert.deepEqual([set.policy.lease_ms, set.policy.max_attempts], [7000, 3]);
    const shown = await cli(['queues', q]);
    ended(shown, DONE);
    for (const word of [q, 'Orders', '7000']) assert.ok(shown.stdout.includes(word), `${word} in ${shown.stdout}`);
    const listed = await cli(['queues']);
    ended(listed, DONE);
    assert.ok(listed.stdout.includes(q));
    assert.match(listed.stdout, /^NAME|^QUEUE/m);
    assert.ok(json(await cli(['queues', '--json'])).queues.some((one) => one.name === q));
    ended(await cli(['queues', 'pause', q, '--for', '1h']), DONE);
    assert.equal(json(await cli(['queues', q, '--json'])).paused, true);
    ended(await cli(['queues', 'resume', q]), DONE);
    assert.equal(json(await cli(['queues', q, '--json'])).paused, false);
    await cli(['enqueue', q, '1']);
    ended(await cli(['queues', 'purge', q]), USAGE);
    assert.equal(json(await cli(['queues', q, '--json'])).counts.ready, 1);
    ended(await cli(['queues', 'purge', q, '--yes']), DONE);
    assert.equal(json(await cli(['queues', q, '--json'])).counts.ready, 0);
    ended(await cli(['queues', 'delete', q]), USAGE);
    ended(await cli(['queues', 'delete', q, '--yes']), DONE);
    const gone = await cli(['queues', q]);
    ended(gone, REFUSED);
    complaint(gone, /no queue/);
    ended(await cli(['queues', 'set', q, '--lease-ms', '7000']), REFUSED);
    ended(await cli(['queues', 'drop', q]), USAGE);
    ended(await cli(['queues', 'create', q, '--keep-done', 'all', '--keep-dead-ms', 'all', '--warn-depth', '7']), DONE);
    const kept = (await api.get(`/v1/queues/${encodeURIComponent(q)}`)).json.policy;
    assert.deepEqual([kept.keep_done, kept.keep_dead_ms, kept.warn_depth], [null, null, 7]);
    ended(await cli(['queues', 'set', q, '--lease-ms', 'soon']), USAGE);
    ended(await cli(['queues', 'set', q, '--ranked', 'yes', '--unique-scope', 'none', '--capacity', 'none', '--enqueue-rate', '10/1s/group', '--backoff-max-ms', '1m']), DONE);
    const changed = (await api.get(`/v1/queues/${encodeURIComponent(q)}`)).json.policy;
    assert.deepEqual([changed.ranked, changed.unique_scope, changed.capacity, changed.enqueue_rate, changed.backoff.max_ms], [true, 'none', null, { per: 'group', count: 10, window_ms: 1000 }, 60_000]);
    assert.deepEqual([changed.keep_done, changed.keep_dead_ms, changed.warn_depth], [null, null, 7], 'the others stay');
    ended(await cli(['queues', 'set', q, '--enqueue-rate', 'none']), DONE);
    assert.equal((await api.get(`/v1/queues/${encodeURIComponent(q)}`)).json.policy.enqueue_rate, null);
    const wrong = await cli(['queues', 'set', q, '--enqueue-rate', '10']);
    ended(wrong, USAGE);
    complaint(wrong, /--enqueue-rate is '10'; it must be none, or N\/DURATION such as 100\/1m/);
    const misplaced = await cli(['queues', 'pause', q, '--ranked', 'yes']);
    ended(misplaced, USAGE);
    complaint(misplaced, /--ranked can only be used with `queues create\|set QUEUE`/);
  });

  test('enqueue: argument, file, standard input, bytes, options', async () => {
    const q = freshQueue();
    const payloadOf = async (args, options) => {
      const result = await cli(['enqueue', q, '--json', ...args], options);
      ended(result, DONE);
      return jobOf(json(result).id);
    };
    const text = '{"a": 1.0, "b": [null, "é\\n"]}';
    const file = path.join(temporaryDirectory(), 'payload.json');
    writeFileSync(file, text);
    assert.deepEqual((await payloadOf([text])).payload, JSON.parse(text));
    assert.deepEqual((await payloadOf([`@${file}`])).payload, JSON.parse(text));
    assert.deepEqual((await payloadOf(['-'], { input: text })).payload, JSON.parse(text));
    assert.equal((await payloadOf(['null'])).payload, null);
    for (const input of [undefined, text]) {
      const none = await cli(['enqueue', q], { input });
      ended(none, USAGE);
      complaint(none, /payload is missing; .*standard input.*@FILE.*null/);
    }
    assert.equal((await payloadOf(['--raw', 'plain\ttext'])).payload_text, 'plain\ttext');
    assert.equal((await payloadOf(['--raw', '-'], { input: Buffer.from([0, 255, 10]) })).payload_base64, Buffer.from([0, 255, 10]).toString('base64'));
    const large = `"${'x'.repeat(900_000)}"`;
    assert.equal((await payloadOf(['-'], { input: large })).payload.length, 900_000);
    const job = await payloadOf(['1', '-p', 'high', '-g', 'g1', '--correlation-id', 'c1', '--priority-label', 'L', '--delay', '1h', '--max-attempts', '2', '-u', 'u1', '--lease', '2m', '--backoff', '1s,1m', '--expires-in', '48h']);
    assert.deepEqual([job.priority, job.group, job.correlation_id, job.priority_label, job.state, job.max_attempts, job.unique], [10, 'g1', 'c1', 'L', 'scheduled', 2, 'u1']);
    assert.ok(job.expires_at && job.run_at);
    const human = await cli(['enqueue', q, '1']);
    ended(human, DONE);
    assert.match(human.stdout, /^[0-9A-Z]{26} +ready\n$/);
    const duplicate = await cli(['enqueue', q, '1', '--unique', 'u1']);
    ended(duplicate, REFUSED);
    complaint(duplicate, /unique key/);
    assert.equal(json(await cli(['enqueue', q, '1', '--unique', 'u1', '--json'])).code, 'duplicate');
    ended(await cli(['enqueue', q, '1', '--unique', 'u1', '--unique-mode', 'return']), DONE);
    const key = ['enqueue', q, '"once"', '--key', 'k1', '--json'];
    const [first, second] = [json(await cli(key)), json(await cli(key))];
    assert.deepEqual([first.id, second.created], [second.id, false]);
    ended(await cli(['enqueue', q, '"twice"', '--key', 'k1']), REFUSED);
    for (const args of [[q, 'plain text'], [q, '{'], [q, '@/nonexistent/file'], [], [q, '1', '2'], [q, '1', '--delay', 'x'], [q, '1', '--unique-mode', 'maybe'], [q, '1', '--key', 'a\nb'], [q, '1', '--key', 'k'.repeat(201)], [q, '1', '--nonsense']]) {
      const wrong = await cli(['enqueue', ...args]);
      ended(wrong, USAGE);
      assert.ok(wrong.stderr.length > 10, args.join(' '));
    }
    ended(await cli(['enqueue', q, '1', '--priority', 'hgh']), REFUSED);
    ended(await cli(['enqueue', '-x', '1']), USAGE);
    ended(await cli(['enqueue', 'x'.repeat(201), '1']), REFUSED);
  });

  test('enqueue --ndjson: 2,500 lines in order, refused lines by number', async () => {
    const q = freshQueue();
    const lines = Array.from({ length: 2500 }, (_, i) => JSON.stringify({ payload: i }));
    const all = await cli(['enqueue', q, '--ndjson'], { input: `${lines.join('\n')}\n` });
    ended(all, DONE);
    assert.match(all.stdout, /2500/);
    assert.equal(json(await cli(['queues', q, '--json'])).counts.ready, 2500);
    const claimed = (await api.post(`/v1/queues/${q}/claim`, { count: 1000 })).json.jobs;
    assert.deepEqual(claimed.map((job) => job.payload), Array.from({ length: 1000 }, (_, i) => i));
    const file = path.join(temporaryDirectory(), 'jobs.ndjson');
    lines[1234] = '{"payload":1,"priority":"hgh"}';
    lines[1235] = '{"\\u001b[31m":1}';
    writeFileSync(file, `${lines.slice(0, 1500).join('\r\n')}\n\n`);
    const some = await cli(['enqueue', q, `@${file}`, '--ndjson']);
    ended(some, REFUSED);
    assert.match(some.stderr, /line 1235: .*hgh/);
    assert.match(some.stderr, /line 1236: /);
    assert.doesNotMatch(some.stderr, /\u001b/);
    assert.equal(json(await cli(['queues', q, '--json'])).counts.ready, 1500 + 1498);
    const r = freshQueue();
    const keyed = ['enqueue', r, '--ndjson', '--key', 'k'.repeat(180)];
    const input = Array(1500).fill('{}').join('\n');
    ended(await cli(keyed, { input }), DONE);
    ended(await cli(keyed, { input }), DONE);
    assert.equal(json(await cli(['queues', r, '--json'])).counts.ready, 1500, 'a repeat under the same key adds nothing');
    ended(await cli(['enqueue', r, '--ndjson', '--key', 'k'.repeat(181)], { input }), USAGE);
    const broken = await cli(['enqueue', r, '--ndjson'], { input: '{}\n{' });
    ended(broken, REFUSED);
    assert.equal(json(await cli(['queues', r, '--json'])).counts.ready, 1500);
  });

  test('claim, ack, fail, extend, release', async () => {
    const q = freshQueue();
    const none = await cli(['claim', q]);
    ended(none, NOTHING);
    assert.equal(none.stdout, '');
    assert.deepEqual(json(await cli(['claim', q, '--json'])).jobs, []);
    for (let i = 0; i < 5; i++) await enqueue(api, q, { payload: { i } });
    const human = await cli(['claim', q, '--worker', 'me']);
    ended(human, DONE);
    assert.match(human.stdout, /^ID +TOKEN +QUEUE/);
    const [id, token] = human.stdout.split('\n')[1].split(/ +/);
    assert.equal((await jobOf(id)).worker, 'me');
    const done = await cli(['ack', id, token, '{"r":1}']);
    ended(done, DONE);
    assert.match(done.stdout, /done/);
    assert.deepEqual((await jobOf(id)).result, { r: 1 });
    const stale = await cli(['ack', id, '1-999']);
    ended(stale, REFUSED);
    complaint(stale, /./);
    ended(await cli(['ack', id, token, 'no json']), USAGE);
    ended(await cli(['ack', id]), USAGE);
    const some = json(await cli(['claim', q, freshQueue(), '-n', '3', '--lease', '1h', '--json'])).jobs;
    assert.equal(some.length, 3);
    ended(await cli(['fail', some[0].id, some[0].token, '--error', 'boom', '--error-kind', 'business', '--no-retry']), DONE);
    const dead = await jobOf(some[0].id);
    assert.deepEqual([dead.state, dead.error, dead.error_kind], ['dead', 'boom', 'business']);
    const longer = json(await cli(['extend', some[1].id, some[1].token, '--lease', '2h', '--json']));
    assert.ok(Date.parse(longer.lease_until) - Date.now() > 3600_000);
    ended(await cli(['release', some[1].id, some[1].token, '--reason', 'later', '--delay', '1h']), DONE);
    assert.equal((await jobOf(some[1].id)).state, 'scheduled');
    ended(await cli(['fail', some[2].id, some[2].token, '--delay', '1h']), DONE);
    assert.equal((await jobOf(some[2].id)).state, 'scheduled');
    ended(await cli(['fail', some[2].id, some[2].token, '--error-kind', 'mine']), USAGE);
    const raw = Buffer.from('raw\u0000\u001b[31m\n', 'latin1');
    await api.request('POST', `/v1/queues/${q}-raw/jobs`, { body: raw, headers: { 'content-type': 'text/plain' } });
    const bytes = await cli(['claim', `${q}-raw`, '--raw']);
    ended(bytes, DONE);
    assert.equal(bytes.stdout, raw.toString('latin1'));
    assert.match(bytes.stderr, /^[0-9A-Z]{26} \S+\n$/);
    ended(await cli(['claim', `${q}-raw`, '--raw']), NOTHING);
    ended(await cli(['claim', `${q}-raw`, '--raw', '--count', '2']), USAGE);
    ended(await cli(['claim', q, '--count', '1001']), REFUSED);
    ended(await cli(['claim']), USAGE);
    const waiting = cli(['claim', `${q}-wait`, '--wait', '30s', '--json']);
    await until('it waits', async () => (await api.get('/metrics')).text.includes('holdfast_claims_waiting 1'));
    await enqueue(api, `${q}-wait`, { payload: 'at last' });
    assert.equal(json(await waiting).jobs[0].payload, 'at last');
  });

  test('jobs, requeue, cancel, stats', async () => {
    const q = freshQueue();
    const ids = [];
    for (let i = 0; i < 7; i++) ids.push((await enqueue(api, q, { payload: `payload ${i}`, group: i < 3 ? 'g' : 'h' })).id);
    const list = await cli(['jobs', '--queue', q]);
    ended(list, DONE);
    for (const id of ids) assert.ok(list.stdout.includes(id));
    const page = await cli(['jobs', '--queue', q, '-n', '3']);
    ended(page, DONE);
    complaint(page, /there are more jobs: .*--cursor/);
    const cursor = page.stderr.match(/--cursor (\S+)/)[1];
    const second = json(await cli(['jobs', '--queue', q, '-n', '3', '--cursor', cursor, '--json']));
    assert.deepEqual(second.jobs.map((job) => job.id), ids.slice(3, 6));
    const all = await cli(['jobs', '--queue', q, '-n', '2', '--all', '--json']);
    ended(all, DONE);
    assert.deepEqual(all.stdout.trim().split('\n').flatMap((line) => JSON.parse(line).jobs.map((job) => job.id)), ids);
    assert.equal(json(await cli(['jobs', '--queue', q, '--newest', '-n', '1', '--json'])).jobs[0].id, ids[6]);
    assert.equal(json(await cli(['jobs', '--queue', q, '--group', 'g', '--json'])).jobs.length, 3);
    const one = await cli(['jobs', ids[0]]);
    ended(one, DONE);
    assert.match(one.stdout, /payload 0/);
    assert.equal(json(await cli(['jobs', ids[0], '--json'])).id, ids[0]);
    const none = await cli(['jobs', '4242424242']);
    ended(none, REFUSED);
    complaint(none, /no job/);
    ended(await cli(['jobs', 'nonsense']), REFUSED);
    const state = await cli(['jobs', '--state', 'nonsense']);
    ended(state, REFUSED);
    complaint(state, /^holdfast: allowed: \[.*"dead"/m);
    ended(await cli(['jobs', ids[0], '--queue', q]), USAGE);
    ended(await cli(['cancel', ids[0], ids[1]]), DONE);
    assert.equal((await jobOf(ids[1])).state, 'cancelled');
    const again = await cli(['cancel', ids[1]]);
    ended(again, REFUSED);
    complaint(again, /^holdfast: state: "cancelled"\nholdfast: legal_moves: \[.*"requeue"/m);
    ended(await cli(['cancel', ids[2], '4242424242']), REFUSED);
    assert.equal((await jobOf(ids[2])).state, 'cancelled', 'the others are done all the same');
    ended(await cli(['requeue', ids[0]]), DONE);
    assert.equal((await jobOf(ids[0])).state, 'ready');
    ended(await cli(['cancel', '--queue', q, '--group', 'h', '--state', 'ready', '--yes']), DONE);
    assert.equal(json(await cli(['jobs', '--queue', q, '--state', 'cancelled', '--json'])).jobs.length, 6);
    const back = json(await cli(['requeue', '--queue', q, '--state', 'cancelled', '--yes', '--json']));
    assert.equal(back.changed, 6);
    for (const wrong of [['requeue'], ['cancel'], ['cancel', ids[0], '--queue', q], ['requeue', '--state', 'dead']]) ended(await cli(wrong), USAGE);
    const stats = await cli(['stats', q]);
    ended(stats, DONE);
    for (const word of ['ready', 'enqueued', 'waited']) assert.match(stats.stdout, new RegExp(word));
    assert.equal(json(await cli(['stats', q, '--json'])).counts.ready, 7);
    assert.equal(json(await cli(['stats', q, '--group', 'g', '--json'])).counts.ready, 3);
    ended(await cli(['stats']), DONE);
    assert.equal(typeof json(await cli(['stats', '--json'])).depth, 'number');
    ended(await cli(['stats', 'no-such-queue']), REFUSED);
    ended(await cli(['stats', '--group', 'g']), USAGE);
    const watch = follow(['stats', q, '--watch', '--json']);
    await until('it printed twice', () => watch.stdout.split('\n').length > 2);
    watch.child.kill('SIGINT');
    assert.equal(await watch.ended, 0, watch.stderr);
  });

  test('events: one line each until interrupted', async () => {
    const q = freshQueue();
    const human = follow(['events', '--queue', q, '--events', 'enqueued,cancelled']);
    const machine = follow(['events', '--queue', q, '--json']);
    await until('both listen', async () => (await api.get('/metrics')).text.match(/^holdfast_listeners (\d+)/m)[1] === '2');
    const { id } = await enqueue(api, q, { payload: 1 });
    await api.post(`/v1/jobs/${id}/cancel`);
    await until('both saw it', () => human.stdout.includes('cancelled') && machine.stdout.includes('cancelled'));
    assert.match(human.stdout.split('\n')[0], new RegExp(`^\\S+Z +enqueued +${q} +${id}`));
    for (const line of machine.stdout.trim().split('\n')) assert.equal(JSON.parse(line).queue, q);
    human.child.kill('SIGINT');
    machine.child.kill('SIGTERM');
    assert.deepEqual([await human.ended, await machine.ended], [0, 0]);
    ended(await cli(['events', '--events', 'nonsense']), REFUSED);
  });

  test('text of jobs cannot control a terminal', async () => {
    const q = freshQueue();
    const nasty = '\u001b]0;title\u0007\u001b[2J\u009b31m\u202egnp.exe\r\n\u0000\u007f';
    await api.put(`/v1/queues/${q}`, { description: nasty.replace('\u0000', '') });
    const made = await enqueue(api, q, { payload: nasty, priority_label: 'L\u001b[1m', group: 'g\u009b', correlation_id: 'c\r\n' });
    await api.request('POST', `/v1/queues/${q}/jobs`, { body: nasty, headers: { 'content-type': 'text/plain' } });
    const job = await claimOne(api, q);
    await api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: nasty, retry: false });
    for (const args of [['jobs', '--queue', q], ['jobs', made.id], ['claim', q], ['queues', q], ['queues'], ['stats'], ['stats', q]]) {
      const result = await cli(args);
      ended(result, DONE);
      assert.doesNotMatch(result.stdout + result.stderr, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u202e]/, args.join(' '));
    }
    // On a terminal, --json must not control it either, and has the same content.
    const typed = await execute('script', ['-qec', `"${binary}" jobs ${made.id} --json --server ${server.url}`, '/dev/null']);
    ended(typed, 0);
    const line = typed.stdout.replace(/\r\n/g, '\n');
    assert.doesNotMatch(line, /[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/);
    assert.equal(JSON.parse(line).payload, nasty);
  });

  test('a server that does not exist, is not Holdfast, or sends too much', async () => {
    for (const url of ['http://127.0.0.1:1', 'unix:/nonexistent/socket', 'http://localhost:1/']) {
      const result = await cli(['queues', '--server', url]);
      ended(result, UNREACHABLE);
      complaint(result, /./);
    }
    for (const url of ['ftp://localhost', 'localhost', 'http://', 'unix:', 'http://user:secret@localhost:1', 'file:///etc/passwd', '']) {
      const result = await cli(['queues', '--server', url]);
      assert.ok([USAGE, UNREACHABLE].includes(result.code), `${url}: ${result.code}`);
      assert.doesNotMatch(result.stderr + result.stdout, /secret|root:/);
    }
    const answers = { '/v1/queues?': [200, 'text/html', '<p>hello'], 302: [302, 'text/plain', ''], 500: [500, 'text/plain', 'oops'], json: [200, 'application/json', '{"queues":'], odd: [200, 'application/json', '[1,2]'] };
    for (const [name, [status, type, body]] of Object.entries(answers)) {
      const other = http.createServer((request, response) => response.writeHead(status, { 'content-type': type, ...(status === 302 && { location: server.url }) }).end(body));
      await new Promise((resolve) => other.listen(0, '127.0.0.1', resolve));
      const result = await cli(['queues', '--server', `http://127.0.0.1:${other.address().port}`]);
      other.closeAllConnections();
      other.close();
      assert.notEqual(result.code, 99, result.stderr);
      if (name === '302') assert.notEqual(result.code, DONE, 'redirects are not followed');
      else if (name !== 'odd') ended(result, UNREACHABLE);
    }
    const proxied = await cli(['queues', '--json'], { env: { http_proxy: 'http://127.0.0.1:1', HTTP_PROXY: 'http://127.0.0.1:1', ALL_PROXY: 'http://127.0.0.1:1' } });
    ended(proxied, DONE);
  });

  test('bench: plausible figures, exit status 0, and its queue is deleted', async () => {
    for (const [mode, more] of [['enqueue', []], ['cycle', ['--batch', '20']], ['mixed', []], ['healthz', []], ['claim', ['--backlog', '500', '--jobs', '500', '--batch', '50']]]) {
      const result = await cli(['bench', '--mode', mode, '--connections', '8', ...(mode === 'claim' ? [] : ['--duration', '1s']), '--json', '--server-pid', String(server.pid), ...more]);
      ended(result, DONE);
      const figures = json(result);
      assert.equal(figures.errors, 0, result.stdout);
      assert.ok(figures.requests >= 10 && figures.requests_per_s > 10, result.stdout);
      assert.ok(figures.elapsed_ms > 0 && figures.server_cpu_ns_per_job > 0, result.stdout);
      const kinds = { enqueue: ['enqueue'], cycle: ['enqueue', 'claim', 'ack'], mixed: ['enqueue', 'claim', 'ack'], healthz: ['healthz'], claim: ['claim', 'ack'] };
      assert.deepEqual(Object.keys(figures.latency).sort(), kinds[mode].sort());
      for (const { count, p50_us: p50, p95_us: p95, p99_us: p99, max_us: max } of Object.values(figures.latency)) {
        assert.ok(count > 0 && p50 > 0 && p50 <= p95 && p95 <= p99 && p99 <= max * 1.05, result.stdout);
      }
      assert.ok(figures.jobs > 20, result.stdout);
      if (mode === 'claim') assert.equal(figures.acked, 500);
    }
    assert.ok(!json(await cli(['queues', '--json'])).queues.some((one) => one.name.startsWith('bench-')));
    const human = await cli(['bench', '--jobs', '100', '--connections', '2']);
    ended(human, DONE);
    assert.match(human.stdout, /p99/i);
    ended(await cli(['bench', '--duration', '1s', '--server', 'http://127.0.0.1:1']), UNREACHABLE);
    ended(await cli(['bench', '--mode', 'fast']), USAGE);
    const plain = await cli(['bench', '--duration', '1']);
    ended(plain, USAGE);
    complaint(plain, /--duration is '1'; it must be a number with its unit, such as 500ms/);
    const short = await cli(['bench', '--duration', '1ms']);
    ended(short, USAGE);
    complaint(short, /1 ms; it must be at least 100 ms \(1 seconds are 1s\)/);
    ended(await cli(['bench', '--connections', '0']), USAGE);
  });

  test('the completion loads in bash and offers words', async () => {
    const file = path.join(temporaryDirectory(), 'completion.bash');
    writeFileSync(file, (await run(['completion', 'bash'])).stdout);
    const propose = async (words, current) => {
      const { code, stdout, stderr } = await execute('bash', ['-c', `source '${file}'; COMP_WORDS=(${words.map((w) => `'${w}'`).join(' ')}); COMP_CWORD=${current}; _holdfast; printf '%s\\n' "\${COMPREPLY[@]}"`]);
      assert.deepEqual([code, stderr], [0, '']);
      return stdout.trim().split('\n');
    };
    assert.deepEqual(await propose(['holdfast', 'enq'], 1), ['enqueue']);
    assert.deepEqual(await propose(['holdfast', 'help', 'rou'], 2), ['routes']);
    assert.ok((await propose(['holdfast', 'claim', '--w'], 2)).includes('--wait'));
    assert.deepEqual(await propose(['holdfast', 'enqueue', '--unique-mode', 're'], 3), ['reject', 'return', 'replace']);
  });
});

describe('over a Unix socket', () => {
  test('a job from enqueue to ack, with the address in an option and in the environment', async (t) => {
    const dir = temporaryDirectory();
    const socket = `unix:${dir}/holdfast.sock`;
    const own = await startServer({ backend: 'memory', listen: socket });
    t.after(() => stopServer(own));
    const at = (args, env = {}) => run(args, { env });
    ended(await at(['enqueue', 'q', '1', '--server', socket]), DONE);
    const { jobs } = json(await at(['claim', 'q', '--json'], { HOLDFAST_SERVER: socket }));
    ended(await at(['ack', jobs[0].id, jobs[0].token], { HOLDFAST_SERVER: socket }), DONE);
    ended(await at(['queues', 'q', '-s', socket]), DONE);
    const bench = await at(['bench', '--jobs', '200', '--connections', '4', '--json', '-s', socket]);
    ended(bench, DONE);
    assert.ok(existsSync(`${dir}/holdfast.sock`));
  });
});
