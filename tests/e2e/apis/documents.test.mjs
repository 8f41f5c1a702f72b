// SPDX-License-Identifier: Apache-2.0
// What documents 000, 001 and 002 print and can be run, taken from their text and run as it is printed, except for host,
// port and sample ids: KV-1 … KV-12 (001), ORC-1 … ORC-8 (000), PDQ-1, PDQ-6, PDQ-10, PDQ-12 (002). The JavaScript of
// 001 runs in keyval-browser.test.mjs. The Python of 002 belongs to its own program: here its names are compared.
import assert from 'node:assert/strict';
import { execFile, execFileSync, spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { Client } from '../lib/client.mjs';
import { blocks, documentText } from '../lib/documents.mjs';
import { binary, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';
import { claimOne, enqueue, freshQueue, onStores } from '../lib/suite.mjs';

const run = promisify(execFile);
const API = '/keyval/api';

/** The members and the types of their values, at any depth. */
const shapeOf = (value) => (Array.isArray(value) ? value.map(shapeOf) : value && typeof value === 'object' ? Object.fromEntries(Object.entries(value).map(([key, one]) => [key, shapeOf(one)])) : value === null ? 'null' : typeof value);

onStores('document 001', ['memory', 'sqlite'], { args: ['--test-clock'] }, (use) => {
  const text = documentText('001-keyval');
  const at = (script) => script.replaceAll('http://localhost:8000', use.server.url);
  const bash = async (script) => (await run('bash', ['-c', at(script).replaceAll('curl ', 'curl -s ')])).stdout;
  const send = async (value, options) => (await use.api.post(`${API}/queue/enqueue`, { value, options })).json.id;
  const poll = async () => (await use.api.get(`${API}/queue/poll`)).json.message;
  const dead = async () => {
    const id = await send({ task: 'webhook', url: 'https://api.example.com/hook' }, { backoffSchedule: [] });
    assert.equal((await poll()).id, id);
    await use.api.post(`${API}/queue/nack`, { id, error: 'Connection timeout' });
    return id;
  };
  /** The printed reply that follows a block, if one does. */
  const replyTo = (script) => {
    const after = text.slice(text.indexOf(script) + script.length);
    const next = /^```\n+(?:[^`#]*\n)??```json\n(.*?)^```/ms.exec(after);
    return next && after.indexOf(next[0]) === 0 ? JSON.parse(next[1]) : undefined;
  };
  const empty = async () => {
    await use.api.post('/v1/queues/keyval/purge', undefined);
    await use.api.delete(`${API}/queue/dlq`);
  };

  for (const [index, script] of blocks(text, 'bash').entries()) {
    const first = script.split('\n').find((line) => line.startsWith('curl'));
    test(`KV-1 … KV-8 block ${index + 1}: ${first}`, async () => {
      const { api } = use;
      const command = script;
      if (script.includes('/queue/listen')) {
        if (!script.includes('enqueue')) await send({ task: 'send-email' });
        const child = spawn('bash', ['-c', at(command)], { detached: true, stdio: ['ignore', 'pipe', 'ignore'] });
        let got = '';
        child.stdout.on('data', (chunk) => (got += chunk));
        await until('a message came', () => /^event: message\nid: (\S+)\ndata: \{"id":"\1","value":\{.*\},"attempts":1\}$/m.test(got));
        process.kill(-child.pid, 'SIGKILL');
        await until('its messages are back', async () => (await api.get(`${API}/queue/stats`)).json.processing === 0);
        await empty();
        return;
      }
      const acts = /queue\/(ack|nack)/.exec(script)?.[1];
      const id = script.includes('dlq') ? await dead() : acts || script.includes('poll') ? await send({ task: 'send-email' }) : '';
      if (acts) assert.equal((await poll()).id, id);
      const filled = command.replaceAll(/01J9X3K2M5N7P8Q9R0S1T2V3W4|dlq-001/g, id);
      const output = await bash(filled);
      const replies = output.trim().split('\n').filter(Boolean).map((line) => JSON.parse(line));
      assert.ok(replies.length > 0, output);
      for (const reply of replies) assert.equal(reply.type, undefined, `a problem: ${output}`);
      const printed = replyTo(script);
      if (printed) assert.deepEqual(shapeOf(replies[0]), shapeOf(printed), output);
      if (acts) assert.equal((await api.get(`/v1/jobs/${id}`)).json.state, acts === 'ack' ? undefined : 'scheduled');
      if (script.includes('enqueue')) {
        const sent = JSON.parse(/-d '(.*?)'$/ms.exec(script)[1]);
        assert.deepEqual((await api.get(`/v1/jobs/${replies[0].id}`)).json.payload, sent.value);
      }
      if (script.includes('poll')) await api.post(`${API}/queue/ack`, { id });
      await empty();
    });
  }

  test('KV-8 the entry of a dead letter has the members that are printed', async () => {
    const id = await dead();
    const [printed] = blocks(text, 'json').map((one) => JSON.parse(one)).find(Array.isArray);
    const [entry] = (await use.api.get(`${API}/queue/dlq`)).json;
    assert.deepEqual(shapeOf(entry), shapeOf(printed));
    assert.deepEqual([entry.id, entry.value, entry.errorMessage], [id, printed.value, printed.errorMessage]);
    await empty();
  });
});

test('KV-11 each YAML block of document 001 is a settings file', async () => {
  const found = blocks(documentText('001-keyval'), 'yaml');
  assert.equal(found.length, 2);
  for (const text of found) {
    const file = path.join(temporaryDirectory(), 'manifest.yaml');
    writeFileSync(file, text);
    const shown = execFileSync(binary, ['serve', '--config', file, '--print-config'], { encoding: 'utf8' });
    assert.match(shown, /lockDuration: 30s\s+# file, line/);
    if (text.includes('cleanupInterval')) assert.match(shown, /cleanupInterval: 1m\s+# file, line/);
  }
});

test('ORC-1 … ORC-8, ORC-14 every call that document 000 names exists', async (t) => {
  const server = await startServer({ backend: 'memory' });
  const api = new Client(server);
  t.after(async () => {
    api.close();
    await stopServer(server);
  });
  const queue = (await api.post('/api/queues', { name: 'document' })).json;
  const item = async () => (await api.post('/api/queue-items', { queue_id: queue.id, payload: 1 })).json.id;
  const calls = new Map([...documentText('000-orchestrator').matchAll(/`(GET|POST|PUT|DELETE) (\/api\/[^`]*)`/g)].map(([, method, at]) => [`${method} ${at}`, [method, at]]));
  assert.ok(calls.size >= 6, [...calls.keys()].join());
  const bodies = { 'POST /api/queue-items': { queue_id: queue.id }, 'POST /api/queue-items/add': { queue_name: queue.name }, 'PUT /api/queue-items/{id}': { status: 'IN_PROGRESS' } };
  for (const [name, [method, at]] of calls) {
    const where = at.replace('/queues/{id}', `/queues/${queue.id}`).replace('{id}', at.includes('{id}') ? await item() : '').replace('/next', `/next?queue_name=${queue.name}`);
    const answer = await api.request(method, where, { json: bodies[name] });
    assert.ok(answer.status >= 200 && answer.status < 300, `${name}: ${answer.text}`);
  }
  // The members of its data model.
  const model = (heading) => [...new RegExp(`### ${heading} fields\\n(.*?)\\n\\n`, 's').exec(documentText('000-orchestrator'))[1].matchAll(/^- ((?:`\w+`(?:, )?)+)/gm)].flatMap(([, names]) => [...names.matchAll(/`(\w+)`/g)].map(([, one]) => one));
  for (const field of model('Queue')) assert.ok(field in queue, field);
  const one = (await api.get(`/api/queue-items/${await item()}`)).json;
  for (const field of model('QueueItem')) assert.ok(field in one, field);
  const trigger = (await api.post('/api/triggers', { type: 'QUEUE', queue_id: queue.id })).json;
  for (const field of ['type', 'queue_id', 'batch_size', 'polling_interval', 'last_processed_item_id', 'last_fired_at', 'next_fire_at']) assert.ok(field in trigger, field);
});

test('PDQ-1 PDQ-6 the settings, priorities and environment of document 002 are accepted as printed', () => {
  const text = documentText('002-queue-worker');
  const keys = [...text.matchAll(/^\| QUEUE_SETTINGS\.(\w+) \|/gm)].map(([, key]) => key);
  assert.equal(keys.length, 8);
  const labels = [...text.matchAll(/^\| (high|normal|low) \| (\d+) \|/gm)].map(([, label, value]) => `    ${label}: ${value}`);
  const values = { priorities: `\n${labels.join('\n')}`, max_in_memory: ' 1000', warn_depth: ' 100', use_redis: ' false', redis_url: ' redis://localhost:6379/0', redis_ready_key: ' affiliate:ready_queue', redis_scheduled_key: ' affiliate:scheduled_jobs', redis_health_check_timeout: ' 2.0' };
  const file = path.join(temporaryDirectory(), 'holdfast.yaml');
  writeFileSync(file, `queue_settings:\n${keys.map((key) => `  ${key}:${values[key]}\n`).join('')}`);
  execFileSync(binary, ['serve', '--config', file, '--print-config']);
  const environment = Object.fromEntries(blocks(text, '').find((one) => one.startsWith('USE_REDIS_QUEUE')).trim().split('\n').map((line) => line.split('=')));
  const shown = execFileSync(binary, ['serve', '--print-config'], { encoding: 'utf8', env: { ...process.env, ...environment } });
  assert.match(shown, /use_redis: true\s+# environment/);
  assert.ok(shown.includes(`redis_url: "${environment.REDIS_URL}"`), shown);
  assert.match(shown, /redis_health_check_timeout: 2s\s+# environment/);
});

onStores('document 002', ['memory', 'sqlite'], {}, (use) => {
  const text = documentText('002-queue-worker');
  test('PDQ-10 snapshot and exceptions have the members that are printed', async () => {
    const { api } = use;
    const membersOf = (block) => [...block.matchAll(/^ {4}"(\w+)":/gm)].map(([, name]) => name);
    const python = blocks(text, 'python').filter((block) => block.startsWith('{')).map(membersOf);
    const queue = freshQueue();
    await enqueue(api, queue, { payload: 1, delay_ms: 3600_000 });
    await enqueue(api, queue, { payload: 2 });
    const snapshot = (await api.get(`/v1/snapshot?queue=${queue}`)).json;
    for (const member of python[0]) assert.ok(member in snapshot, member);
    assert.deepEqual([snapshot.depth, snapshot.ready, snapshot.scheduled, snapshot.shutdown], [2, 1, 1, false]);
    const job = await claimOne(api, queue);
    await api.post(`/v1/jobs/${job.id}/fail`, { token: job.token, error: 'no report', retry: false });
    const [exception] = (await api.get(`/v1/exceptions?queue=${queue}`)).json.exceptions;
    for (const member of python[1]) assert.ok((member === 'report_id' ? 'job_id' : member) in exception, member);
    assert.deepEqual([exception.job_id, exception.error], [job.id, 'no report']);
    await api.post(`/v1/queues/${queue}/purge`);
    assert.equal((await api.get(`/v1/snapshot?queue=${queue}`)).json.depth, 0, 'purge() clears both queues');
  });

  test('PDQ-12 each metric of its roadmap exists', async () => {
    const { api } = use;
    await enqueue(api, freshQueue(), { payload: 1 });
    const names = { queue_depth: 'holdfast_queue_depth', dequeue_latency_histogram: 'holdfast_dequeue_latency_seconds', job_processing_duration: 'holdfast_job_processing_seconds', job_failures_total: 'holdfast_job_failures_total', 'breaker_state_gauge{platform}': 'holdfast_breaker_state', redis_health: 'holdfast_redis_up' };
    const section = text.slice(text.indexOf('## 15.'), text.indexOf('## 16.'));
    const roadmap = [...section.matchAll(/^\| ([a-z_{}]+) \|/gm)].map(([, name]) => name);
    assert.deepEqual(roadmap, Object.keys(names));
    const metrics = (await api.get('/metrics')).text;
    for (const name of roadmap) assert.ok(metrics.includes(`# TYPE ${names[name]} `), name);
  });
});
