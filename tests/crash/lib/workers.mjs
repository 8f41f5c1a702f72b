// SPDX-License-Identifier: Apache-2.0
// Those who claim: polling, waiting, over streams; and every way in which a lease can end.
import { openStream } from '../../e2e/lib/client.mjs';
import { MAX_ATTEMPTS, MAX_CRASHES, markerOf } from './producers.mjs';
import { now, pause } from './recorder.mjs';

export const LEASE_MS = 1000;

export function noteClaim(load, job, answer, more = {}) {
  return load.record({
    kind: 'claim', queue: job.queue, id: job.id, token: job.token, attempt: job.attempt, marker: markerOf(job.payload), lease: LEASE_MS,
    bound: false, maxAttempts: MAX_ATTEMPTS + MAX_CRASHES - 1, t0: answer.t0, t1: answer.t1, ...more,
  });
}

/** Says how a lease ended, again and again until it is known whether that counted. */
export async function end(load, kind, job, body = {}) {
  for (;;) {
    const answer = await load.call('POST', `/v1/jobs/${job.id}/${kind}`, { token: job.token, ...body });
    const { state, run_at: runAt, repeat } = answer.json ?? {};
    load.seen(kind, answer, {
      id: job.id, token: job.token, repeat: repeat === true, state, runAt: runAt && Date.parse(runAt), lease: kind === 'extend' ? LEASE_MS : undefined,
    });
    if (answer.status === 200 && repeat !== true && ['done', 'dead'].includes(state)) load.backlog--;
    if (answer.sure && answer.status !== 503) return;
  }
}

/** How likely in a hundred, and what is done with the job. */
const habits = [
  [62, (load, job) => end(load, 'ack', job, { result: { ok: true } })],
  [10, (load, job) => end(load, 'fail', job, { error: 'made to fail' })],
  [3, (load, job) => end(load, 'fail', job, { error: 'made to fail for good', retry: false })],
  [6, (load, job) => end(load, 'release', job, { reason: 'not now' })],
  [7, (load, job) => end(load, 'extend', job, { lease_ms: LEASE_MS }).then(() => end(load, 'ack', job))],
  [3, (load, job) => load.task(pause(LEASE_MS * 1.3).then(() => end(load, 'ack', job)))], // lets the lease end; its late ack is stale
  [5, (load, job) => end(load, 'ack', job).then(() => end(load, 'ack', job))],
  [2, (load, job) => end(load, 'release', job).then(() => end(load, 'ack', job))], // stale
  [2, (load, job) => end(load, 'fail', job).then(() => end(load, 'fail', job))],
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

/** Jobs pushed over server-sent events; the connection goes now and then. */
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
      // A server that ends a stream by itself does so at a moment that is not known here.
      for (const entry of held) entry.dropped = closedAt ?? entry.t1;
      await pause(5);
    }
    clearTimeout(close);
    stream.close();
  }
}

export const startWorkers = (load) => [
  ...['poll-1', 'poll-2', 'poll-3'].map((name) => claimer(load, name, 0)),
  ...['wait-1', 'wait-2', 'wait-3'].map((name) => claimer(load, name, 200)),
  listener(load),
  listener(load),
];
