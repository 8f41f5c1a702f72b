// SPDX-License-Identifier: Apache-2.0
// Cases for nodes that share a store. They hold on PostgreSQL and on Redis, and are written once: a test file starts the
// nodes and declares the cases of a table with declareCases().
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { openStream } from './client.mjs';
import { until } from './server.mjs';

const WAIT_MS = 60_000;
/** One of the clients, in turn. */
const client = (apis, n) => apis[n % apis.length];

async function cancelReachesNodes({ nodes, apis }) {
  await apis[0].put('/v1/queues/stop', { cancel_grace_ms: 60_000 });
  await apis[0].post('/v1/queues/stop/jobs', { payload: 1 });
  const stream = await openStream(nodes[1], '/v1/events?queue=stop&events=cancel_requested').opened;
  const [job] = (await apis[1].post('/v1/queues/stop/claim', { wait_ms: WAIT_MS })).json.jobs;
  assert.equal((await apis[0].post(`/v1/jobs/${job.id}/cancel`)).status, 202);
  const { event, data } = await stream.next();
  stream.close();
  assert.deepEqual([event, JSON.parse(data).job.id, JSON.parse(data).queue], ['cancel_requested', job.id, 'stop']);
  assert.equal((await apis[1].post(`/v1/jobs/${job.id}/extend`, { token: job.token })).json.cancel, true);
  assert.equal((await apis[1].post(`/v1/jobs/${job.id}/release`, { token: job.token })).json.state, 'cancelled');
  const late = await apis[0].post(`/v1/jobs/${job.id}/ack`, { token: job.token });
  assert.deepEqual([late.status, late.json.code], [409, 'cancelled']);
}

async function uniqueKeyIsShared({ apis }) {
  const replies = await Promise.all(Array.from({ length: 24 }, (_, n) => client(apis, n).post('/v1/queues/unique/jobs', { payload: n, unique: 'same' })));
  assert.equal(replies.filter((reply) => reply.status === 201).length, 1);
  assert.equal(replies.filter((reply) => reply.status === 409).length, 23);
  assert.equal((await apis[1].get('/v1/queues/unique')).json.counts.ready, 1);
}

async function idempotencyKeyIsShared({ apis }) {
  await apis[0].put('/v1/queues/keyed', {});
  for (let round = 0; round < 20; round++) {
    const headers = { 'idempotency-key': `k${round}` };
    const replies = await Promise.all(apis.map((api) => api.post('/v1/queues/keyed/jobs', { payload: 1 }, { headers })));
    assert.equal(new Set(replies.map((reply) => reply.json.id)).size, 1);
  }
  assert.equal((await apis[1].get('/v1/queues/keyed')).json.counts.ready, 20);
}

async function claimWaitsAcrossNodes({ apis }) {
  for (const delay of [0, 300]) {
    const waiting = apis[0].post('/v1/queues/far/claim', { wait_ms: WAIT_MS });
    const made = await apis[1].post('/v1/queues/far/jobs', { payload: delay, delay_ms: delay });
    assert.equal((await waiting).json.jobs[0]?.id, made.json.id);
  }
}

async function tokenIsShared({ apis }) {
  await apis[0].post('/v1/queues/token/jobs', { payload: 1 });
  const [job] = (await apis[1].post('/v1/queues/token/claim', {})).json.jobs;
  const ack = (api, token) => api.post(`/v1/jobs/${job.id}/ack`, { token });
  assert.equal((await ack(apis.at(-1), 'zz-1')).status, 409);
  assert.equal((await ack(apis.at(-1), job.token)).status, 200);
  assert.equal((await ack(apis[0], job.token)).status, 200);
}

async function breakerIsShared({ apis }) {
  const at = '/v1/breakers/pay';
  assert.equal((await apis[0].put(at, { failure_threshold: 4, open_cooldown_seconds: 86400, half_open_probe_count: 3 })).status, 201);
  await Promise.all([0, 1, 2, 3].map((n) => client(apis, n).post(`${at}/report`, { ok: false }))); // no report is lost
  for (const api of apis) {
    const { json } = await api.post(`${at}/allow`);
    assert.deepEqual([json.allowed, json.state], [false, 'open']);
    assert.match((await api.get('/metrics')).text, /^holdfast_breaker_state\{target="pay"\} 1$/m);
  }
  // It is opened again with a short cooldown. While it is open, the settings for its probes can change.
  const set = async (settings) => assert.equal((await apis[1].put(at, settings)).status, 200);
  await set({ failure_threshold: 1, open_cooldown_seconds: 1 });
  for (const ok of [true, false]) await apis[0].post(`${at}/report`, { ok });
  await set({ open_cooldown_seconds: 86400, half_open_probe_count: 3 });
  await until('the cooldown is over', async () => Date.parse((await apis[0].get(at)).json.until) < Date.now());
  const replies = await Promise.all(Array.from({ length: 40 }, (_, n) => client(apis, n).post(`${at}/allow`)));
  for (const reply of replies) assert.equal(reply.status, 200, reply.text);
  assert.equal(replies.filter((reply) => reply.json.allowed).length, 3);
  assert.equal((await apis[1].post(`${at}/report`, { ok: true })).json.state, 'closed');
  assert.equal((await apis[0].post(`${at}/allow`)).json.allowed, true);
  assert.equal((await apis[0].delete(at)).status, 200);
}

/** What one node knows of claims and breakers, the others learn a moment later. */
async function whyIsShared({ apis }) {
  const why = async (api, id) => (await api.get(`/v1/jobs/${id}/why`)).json.reasons.map((reason) => reason.code);
  const { id } = (await apis[0].post('/v1/queues/why/jobs', { payload: 1 })).json;
  for (const api of apis) assert.deepEqual(await why(api, id), ['no_workers']);
  await apis[0].post('/v1/queues/why/pause', {});
  assert.equal((await apis[1].post('/v1/queues/why/claim', { worker: 'w' })).json.jobs.length, 0);
  await until('the other node knows of the claim', async () => (await why(apis[0], id)).join() === 'queue_paused');
  await apis[0].post('/v1/queues/why/resume', {});

  const other = (await apis[0].post('/v1/queues/why-breaker/jobs', { payload: 1 })).json;
  await apis[0].put('/v1/breakers/far', { failure_threshold: 1, open_cooldown_seconds: 86400 });
  await apis[0].post('/v1/breakers/far/report', { ok: false });
  const denied = await apis[1].post('/v1/breakers/far/allow', { queues: ['why-breaker'] });
  assert.equal(denied.json.allowed, false);
  await until('the other node knows of the breaker', async () => (await why(apis[0], other.id)).join() === 'breaker_open');
  // A list of the workers has none but those with names.
  assert.deepEqual((await apis[0].get('/v1/workers')).json.workers.map((worker) => worker.name).filter((name) => name !== 'w' && /why/.test(name)), []);
}

async function breakerIsCreatedOnce({ apis }) {
  const replies = await Promise.all(Array.from({ length: 20 }, (_, n) => client(apis, n).post(`/v1/breakers/new${n >> 1}/allow`)));
  for (const reply of replies) assert.deepEqual([reply.status, reply.json.allowed], [200, true], reply.text);
}

/** leading(): the index of the node that leads. expectRaised(names), if there is one, checks the rows of the store. */
async function conditionIsRaisedOnce({ apis, receiver, leading, expectRaised = () => {} }) {
  const other = 1 - (await leading());
  const rule = { on: 'deep', depth: 2, queue: 'deep', webhook: { url: receiver.url } };
  const delivered = (count) => receiver.wait(count, ({ json }) => json.alert === 'backlog', WAIT_MS);
  const raisedCount = async (expected) => {
    for (const api of apis) assert.equal((await api.get('/v1/alerts/backlog')).json.raised_count, expected);
  };
  assert.equal((await apis[other].put('/v1/alerts/backlog', rule)).status, 201);
  for (let n = 0; n < 3; n++) await client(apis, n).post('/v1/queues/deep/jobs', { payload: n });
  await delivered(1);
  await raisedCount(1);
  expectRaised(['deep']);
  await apis[other].post('/v1/queues/deep/claim', { count: 3 });
  assert.deepEqual((await delivered(2)).map(({ json }) => json.event), ['alert_raised', 'alert_cleared']);
  await raisedCount(0);
  expectRaised([]);
}

/** For two or more nodes that know each other: {nodes, apis}. */
export const nodeCases = [
  ['HF-21 a cancel that one node receives is an event on the others, and their replies to extend show it', cancelReachesNodes],
  ['NOM-3 only one live job has a unique key, whichever nodes receive the requests', uniqueKeyIsShared],
  ['HF-2 an idempotency key holds across nodes', idempotencyKeyIsShared],
  ['PDQ-4 a claim that waits on one node gets a job from another, also one that becomes due', claimWaitsAcrossNodes],
  ['HF-2 a lease token of one node is valid on the others', tokenIsShared],
  ['PDQ-9 PDQ-12 named breakers are shared by the nodes, which together allow the configured number of probes', breakerIsShared],
  ['PDQ-9 nodes that create the same breaker at once share it', breakerIsCreatedOnce],
  ['HF-5 why: a node knows of the claims and the breakers that workers use through other nodes', whyIsShared],
];

/** For two nodes and a receiver of webhooks: {apis, receiver, leading, expectRaised}. */
export const alertCases = [['NOM-11 a condition is raised and cleared once, and both nodes show it', conditionIsRaisedOnce]];

/** Declares the cases of a table; use() returns what they need, when they run. */
export function declareCases(table, use) {
  for (const [title, run] of table) test(title, () => run(use()));
}
