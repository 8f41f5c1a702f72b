// SPDX-License-Identifier: Apache-2.0
// Workers: they poll, wait, or listen on a stream, and end leases in every way. Some of them send heartbeats.
import { openStream } from '../../e2e/lib/client.mjs';
import { MAX_ATTEMPTS, MAX_CRASHES, markerOf } from './producers.mjs';
import { now, pause } from './recorder.mjs';

export const LEASE_MS = 1000;

export function noteClaim(load, job, answer, more = {}) {
  return load.record({
    kind: 'claim', queue: job.queue, id: job.id, token: job.token, attempt: job.attempt, marker: markerOf(job), lease: LEASE_MS,
    bound: false, maxAttempts: MAX_ATTEMPTS + MAX_CRASHES - 1, timeoutAt: job.timeout_at && Date.parse(job.timeout_at), t0: answer.t0, t1: answer.t1, ...more,
  });
}

/** What every reply to the holder of a lease says. */
const replyTo = (job, answer) => ({ id: job.id, token: job.token, cancel: answer.json?.cancel === true });

/** Reports how a lease ended, or extends it; repeats the request until it is known whether it took effect. */
export async function end(load, kind, job, body = {}) {
  for (;;) {
    const answer = await load.call('POST', `/v1/jobs/${job.id}/${kind}`, { token: job.token, ...body });
    const { state, run_at: runAt, repeat } = answer.json ?? {};
    load.seen(kind, answer, {
      ...replyTo(job, answer), repeat: repeat === true, state, runAt: runAt && Date.parse(runAt), lease: kind === 'extend' ? LEASE_MS : undefined,
      failure: kind === 'fail' ? body : undefined,
    });
    if (answer.status === 200 && repeat !== true && ['done', 'dead', 'cancelled'].includes(state)) load.backlog--;
    if (answer.sure && answer.status !== 503) return;
  }
}

/** The error follows from the token, so that the error of one attempt cannot pass for that of another. */
const failureOf = (job) => ({ error: `failed under ${job.token}`, error_type: `Error_${job.token}`, stack: `at ${job.token}\n`.repeat(1 + (job.seq % 300)) });
const fail = (load, job, more = {}) => end(load, 'fail', job, { ...failureOf(job), ...more });

let reports = 0;
/** A line of the log is sent once: a repeat would be a second line. */
async function log(load, job) {
  const lines = Array.from({ length: 1 + load.random.below(3) }, () => `line ${++reports} of ${job.token}`);
  load.seen('log', await load.call('POST', `/v1/jobs/${job.id}/log`, { token: job.token, lines }), { id: job.id, token: job.token, lines });
}

async function progress(load, job) {
  const report = { percent: load.random.below(101), message: `report ${++reports} of ${job.token}`, data: { token: job.token, report: reports } };
  const extends_ = load.random.chance(30);
  const answer = await load.call('POST', `/v1/jobs/${job.id}/progress`, { token: job.token, ...report, ...(extends_ ? { lease_ms: LEASE_MS } : {}) });
  load.seen('progress', answer, { ...replyTo(job, answer), report });
  if (extends_) load.seen('extend', answer, { ...replyTo(job, answer), lease: LEASE_MS });
}

/** No two requests store the same result. */
async function step(load, job) {
  const name = `step ${load.random.below(3)}`;
  const result = { token: job.token, n: ++reports };
  const answer = await load.call('POST', `/v1/jobs/${job.id}/steps/${encodeURIComponent(name)}`, { token: job.token, result });
  load.seen('step', answer, { ...replyTo(job, answer), name, result });
}

/** Reports while it works. */
async function reportAndAck(load, job) {
  for (let n = 1 + load.random.below(3); n > 0; n--) await load.random.of([log, progress, step])(load, job);
  await load.random.of([end, end, (l, kind, j) => fail(l, j)])(load, 'ack', job);
}

/** Holds the job for a while, in which a cancel can arrive. */
async function holdAndEnd(load, job) {
  load.held.set(job.token, job);
  await pause(load.random.below(500));
  load.held.delete(job.token);
  await load.random.of([(l, j) => end(l, 'ack', j), (l, j) => end(l, 'release', j), fail])(load, job);
}

/** Extends the lease for longer than attempts may run; the ack of a job with timeout_ms is too late. */
async function extendForLong(load, job) {
  for (let i = 0; i < 4; i++) {
    await pause(200);
    await end(load, 'extend', job, { lease_ms: LEASE_MS });
  }
  await end(load, 'ack', job);
}

/** The probability in percent, and what the worker does with the job. */
const habits = [
  [46, (load, job) => end(load, 'ack', job, { result: { ok: true } })],
  [9, fail],
  [3, (load, job) => fail(load, job, { retry: false })],
  [5, (load, job) => end(load, 'release', job, { reason: 'not now' })],
  [6, (load, job) => end(load, 'extend', job, { lease_ms: LEASE_MS }).then(() => end(load, 'ack', job))],
  [3, (load, job) => load.task(pause(LEASE_MS * 1.3).then(() => end(load, 'ack', job)))], // The lease ends first, so the ack is stale.
  [5, (load, job) => end(load, 'ack', job).then(() => end(load, 'ack', job))],
  [2, (load, job) => end(load, 'release', job).then(() => end(load, 'ack', job))], // The ack is stale.
  [2, (load, job) => fail(load, job).then(() => fail(load, job))],
  [10, reportAndAck],
  [6, (load, job) => load.task(holdAndEnd(load, job))],
  [3, (load, job) => load.task(extendForLong(load, job))],
];
function work(load, job) {
  let dice = load.random.below(100);
  return habits.find(([percent]) => (dice -= percent) < 0)[1](load, job);
}

async function claimer(load, name, waitMs) {
  while (load.working) {
    const body = { count: 1 + load.random.below(4), lease_ms: LEASE_MS, worker: name, wait_ms: waitMs };
    const answer = load.random.chance(50)
      ? await load.call('POST', '/v1/claim', { queues: load.queues, ...body })
      : await load.call('POST', `/v1/queues/${load.random.of(load.queues)}/claim`, body);
    const jobs = answer.status === 200 ? answer.json.jobs : [];
    for (const job of jobs) noteClaim(load, job, answer);
    await Promise.all(jobs.map((job) => work(load, job)));
    if (jobs.length === 0) await pause(5);
  }
}

/** Jobs pushed over server-sent events; the connection is closed now and then. */
async function listener(load) {
  while (load.working) {
    await load.up;
    const t0 = now();
    const stream = openStream(load.server, `/v1/queues/${load.random.of(load.queues)}/listen`, {
      method: 'POST', json: { prefetch: 3, lease_ms: LEASE_MS, worker: 'listener' },
    });
    const held = [];
    let closedAt = null;
    const close = setTimeout(() => {
      closedAt = now();
      stream.close();
    }, 50 + load.random.below(500));
    try {
      for (;;) {
        const job = JSON.parse((await stream.next()).data);
        held.push(noteClaim(load, job, { t0, t1: now() }, { bound: true }));
        load.task(work(load, job));
      }
    } catch {
      // When the server closes a stream by itself, the time is not known here.
      for (const entry of held) entry.dropped = closedAt ?? entry.t1;
      await pause(5);
    }
    clearTimeout(close);
    stream.close();
  }
}

/** Renews the leases of the jobs that workers hold for a while, and learns which of them are to stop. */
async function heartbeats(load) {
  while (load.working) {
    const held = [...load.held.values()];
    const leases = held.map(({ id, token }) => ({ id, token }));
    const waits = load.random.chance(50);
    const body = waits ? { leases, wait_ms: 100 } : { leases, extend_ms: LEASE_MS };
    const answer = await load.call('POST', '/v1/workers/holder/heartbeat', body);
    const { cancel = [], lost = [] } = answer.json ?? {};
    for (const { id, token } of held) {
      const has = answer.status === 200 && !lost.includes(id);
      load.seen('heartbeat', answer, { id, token, ok: has, cancel: cancel.includes(id) });
      if (!waits) load.seen('extend', answer, { id, token, ok: has, cancel: cancel.includes(id), lease: LEASE_MS });
    }
    await pause(20 + load.random.below(60));
  }
}

export const startWorkers = (load) => [
  ...['poll-1', 'poll-2', 'poll-3'].map((name) => claimer(load, name, 0)),
  ...['wait-1', 'wait-2', 'wait-3'].map((name) => claimer(load, name, 200)),
  listener(load),
  listener(load),
  heartbeats(load),
];
