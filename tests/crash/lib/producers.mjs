// SPDX-License-Identifier: Apache-2.0
// Producers: they enqueue single jobs and batches, under keys, with delays and priorities.
import { isDeepStrictEqual } from 'node:util';

import { pause } from './recorder.mjs';

export const MAX_ATTEMPTS = 8;
export const MAX_CRASHES = 5;
export const WORK_QUEUES = ['q0', 'q1', 'q2'];

/** Attempts of some jobs may run for less time than their lease lasts. */
const TIMEOUT_MS = 600;

/** A payload follows from its marker, so that a client that sees it can tell that no byte is missing. */
const padOf = (marker) => marker.repeat(Math.ceil(Number(marker.split('-')[1]) / marker.length));
const payloadOf = (marker) => ({ marker, pad: padOf(marker) });
const ENVELOPE = ['kind', 'headers', 'correlation_id', 'group', 'timeout_ms'];
/** The members of ENVELOPE that a job with this marker was enqueued with: they follow from the marker, too. */
export function envelopeOf(marker) {
  const number = Number(/^m(\d+)/.exec(marker)[1]);
  return {
    ...(number % 2 === 0 ? { kind: `kind-${number}`, headers: { marker, note: 'h'.repeat(number % 500) } } : {}),
    ...(number % 3 === 0 ? { correlation_id: `correlation-${marker}`, group: `group-${number % 5}` } : {}),
    ...(number % 16 === 5 ? { timeout_ms: TIMEOUT_MS } : {}),
  };
}

/** The marker of a job as a claim or a list shows it, or a text that no producer has sent. */
export function markerOf(job) {
  const { marker, pad } = job.payload ?? {};
  const known = typeof marker === 'string' && /^m\d+-\d+$/.test(marker) && pad === padOf(marker);
  if (!known) return `damaged payload: ${JSON.stringify(job.payload)?.slice(0, 80)}`;
  const shown = Object.fromEntries(ENVELOPE.filter((name) => job[name] !== undefined).map((name) => [name, job[name]]));
  return isDeepStrictEqual(shown, envelopeOf(marker)) ? marker : `damaged fields of ${marker}: ${JSON.stringify(shown).slice(0, 200)}`;
}

/** Producers pause while about this many jobs wait for the workers, so that the queues can be drained soon. */
const BACKLOG_MAX = 400;

let markers = 0;
/** Mostly small; some larger than a page, a few larger than many. load.heavy: all of them large. */
function bytesOf({ random, heavy }) {
  const dice = random.below(1000);
  return random.below(dice >= 997 ? 150_000 : dice >= 960 || heavy ? 12_000 : 300);
}

export function plainJob(load) {
  const marker = `m${++markers}-${bytesOf(load)}`;
  return { payload: payloadOf(marker), ...envelopeOf(marker), max_attempts: MAX_ATTEMPTS, max_crashes: MAX_CRASHES, backoff_ms: [5, 10] };
}

/** outcome: what the answer says of this job, or null. */
function noteEnqueue(load, queue, job, answer, outcome) {
  const created = outcome?.created === true;
  const entry = load.record({
    kind: 'enqueue', queue, marker: job.payload.marker, unique: job.unique && `${queue}/${job.unique}`, priority: job.priority ?? 0,
    runAt: job.run_at && Date.parse(job.run_at), t0: answer.t0, t1: answer.t1, sure: answer.sure, created, id: created ? outcome.id : undefined,
    repeat: outcome?.repeat === true,
  });
  if (created) load.noteRecent(entry);
}

async function one(load, queue, job) {
  const answer = await load.call('POST', `/v1/queues/${queue}/jobs`, job);
  noteEnqueue(load, queue, job, answer, answer.status === 201 || answer.status === 200 ? answer.json : null);
}

export async function batch(load, queue) {
  const jobs = Array.from({ length: 2 + load.random.below(20) }, () => plainJob(load));
  const answer = await load.call('POST', `/v1/queues/${queue}/jobs`, jobs);
  jobs.forEach((job, i) => noteEnqueue(load, queue, job, answer, answer.status === 200 ? answer.json.jobs[i] : null));
}

/** Repeats under one key until it is sure: never two jobs. A batch's jobs have their place as key, too. */
async function underKey(load, queue, count) {
  const jobs = Array.from({ length: count }, () => plainJob(load));
  const headers = { 'idempotency-key': `key-${jobs[0].payload.marker}` };
  for (;;) {
    const answer = await load.call('POST', `/v1/queues/${queue}/jobs`, count === 1 ? jobs[0] : jobs, headers);
    const done = answer.status === 200 || answer.status === 201;
    const outcomes = !done ? [] : count === 1 ? [answer.json] : answer.json.jobs;
    const all = done && outcomes.every((o) => o.id !== undefined);
    if (!all && (load.producing || !answer.sure)) {
      await pause(answer.sure ? 20 : 0);
      continue;
    }
    jobs.forEach((job, i) => noteEnqueue(load, queue, job, answer, outcomes[i]?.id ? { id: outcomes[i].id, created: true, repeat: !outcomes[i].created } : null));
    return;
  }
}

const soon = (load) => new Date(Date.now() + load.random.below(400)).toISOString();
const kinds = {
  single: (load, queue) => one(load, queue, plainJob(load)),
  batch,
  keyed: (load, queue) => underKey(load, queue, 1),
  keyedBatch: (load, queue) => underKey(load, queue, 2 + load.random.below(6)),
  unique: (load, queue) =>
    one(load, queue, { ...plainJob(load), unique: `u${load.random.below(5)}`, unique_mode: load.random.of(['reject', 'reject', 'return']) }),
  delayed: (load, queue) => one(load, queue, { ...plainJob(load), run_at: soon(load) }),
  prioritised: (load, queue) => one(load, queue, { ...plainJob(load), priority: load.random.below(10) - 5 }),
  /** Only fills up; one consumer takes it at the end. */
  ordered: (load) => one(load, 'ordered', { ...plainJob(load), priority: load.random.below(7) }),
};

async function producer(load, produce) {
  while (load.producing) {
    await produce(load, load.random.of(WORK_QUEUES));
    do await pause(load.random.below(load.paceMs));
    while (load.producing && load.backlog > BACKLOG_MAX);
  }
}

export const startProducers = (load) => Object.values(kinds).map((produce) => producer(load, produce));
