// SPDX-License-Identifier: Apache-2.0
// Reads what clients saw over HTTP, through crashes, and reports which promise was broken.
//
// A history is {entries, crashes, final, ordered}. Times are milliseconds of one clock. Every entry has t0 (when the request was
// sent) and t1 (when the reply arrived, or the connection broke), `sure`: the reply arrived and says whether the change happened,
// and `ok`: it says that it happened. Without `sure` both are possible.
//
//   enqueue {queue, marker, unique?, runAt?, created, repeat, id?}; repeat: it had been created before
//   claim   {queue, id, token, attempt, marker, lease, bound, dropped?, maxAttempts, timeoutAt?}  one a job handed out
//   ack | fail | release | extend {id, token, repeat, state?, runAt?, lease?, failure?, cancel}
//   progress | log | step | heartbeat {id, token, report?, lines?, name?, result?, cancel}, letter {marker, id?}, letter_requeue {id, newId?}:
//     see checker_reports.mjs, with C15 to C18
//   cancel  {id, requested, deadline?}: requested of a running job, which then has until the deadline
//   requeue {id}, pause {queue, forMs}, resume {queue}, bulk_cancel | bulk_requeue {queue}
//   purge   {queue}; of queues from which no client claims while they are purged
//   crashes [{at, ready}]: killed at, serving again at
//   final   {jobs: Map id → {state, queue, marker, error?, error_type?, stack?}, queues: Map name → {counts, listed},
//            letters: Map id → {marker}, reports: Map id → {history, progress?, steps?, lines}}
//   ordered [{id, priority, seq}] as one consumer got a queue that had been filled before
//   what keepers saw (k_…, final.keeps) is in checker_keeps.mjs, with C11 to C14 and C19
//   what clients of limits and dependencies saw (f_…, final.flow) is in checker_flow.mjs, with C20 to C22
//
// What it does not see: jobs whose enqueue was not confirmed; leases whose claim had no reply; the order under load (C7 checks only
// the queue `ordered`); a unique key that a requeue takes again.

import { checkFlow } from './checker_flow.mjs';
import { checkKeeps } from './checker_keeps.mjs';
import { checkReports } from './checker_reports.mjs';
import { groupBy } from './lib/group_by.mjs';

/** Client and server use the same clock, but replies take time. */
const SLACK_MS = 50;
/** The server uses whole milliseconds. */
const ROUND_MS = 2;

const surely = (e) => e.sure && e.ok;
const perhaps = (e) => e.ok || !e.sure;

/** The history by kind and by job, and what several checks need. */
function indexOf(history) {
  const byKind = groupBy(history.entries, (e) => e.kind);
  const of = (...kinds) => kinds.flatMap((kind) => byKind.get(kind) ?? []);
  const x = { history, of, enqueues: of('enqueue'), claims: of('claim'), ends: of('ack', 'fail', 'release') };
  x.claimsOf = groupBy([...x.claims].sort((a, b) => a.t1 - b.t1), (c) => c.id);
  x.queueOf = new Map([...x.claims, ...x.enqueues].filter((e) => e.id).map((e) => [e.id, e.queue]));
  const requeues = groupBy(of('requeue').filter(perhaps), (e) => e.id);
  const bulk = groupBy(of('bulk_requeue').filter(perhaps), (e) => e.queue);
  /** Whether a requeue may have brought the job back in this time. A bulk action continues after its reply. */
  x.requeued = (id, from, to) =>
    (requeues.get(id) ?? []).some((e) => e.t0 <= to && e.t1 >= from) || (bulk.get(x.queueOf.get(id)) ?? []).some((e) => e.t0 <= to);
  x.durableBy = durableBy(x);
  return x;
}

/** t → when it was known that everything the server had recorded until t is durable: batches are synced
 * in order, so the first confirmed change that was asked for after t says so; a repeat changes nothing. */
function durableBy({ enqueues, ends }) {
  const writes = [...enqueues.filter((e) => e.sure && e.created && !e.repeat), ...ends.filter((e) => surely(e) && !e.repeat)];
  writes.sort((a, b) => a.t0 - b.t0);
  const earliest = new Array(writes.length + 1).fill(Infinity);
  for (let i = writes.length - 1; i >= 0; i--) earliest[i] = Math.min(earliest[i + 1], writes[i].t1);
  return (t) => {
    let [low, high] = [0, writes.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (writes[middle].t0 > t) high = middle;
      else low = middle + 1;
    }
    return earliest[low];
  };
}

/** C1: no confirmed enqueue, ack, last failure or cancel is lost. */
function c1(x, report) {
  const { jobs } = x.history.final;
  const purges = groupBy(x.of('purge').filter(perhaps), (e) => e.queue);
  for (const e of x.enqueues) {
    if (!e.sure || !e.created) continue;
    const job = jobs.get(e.id);
    const purged = (purges.get(e.queue) ?? []).some((p) => p.t1 >= e.t0);
    if (!job && !purged) report('C1', `job ${e.id} was confirmed and does not exist`);
    else if (job && !['done', 'dead', 'cancelled'].includes(job.state)) report('C1', `job ${e.id} never ended: ${job.state}`);
  }
  const outcome = (e, state) => {
    const job = jobs.get(e.id);
    const changed = state !== 'done' && x.requeued(e.id, e.t0, Infinity);
    if (!changed && job?.state !== state) report('C1', `${e.kind} of job ${e.id} was confirmed, and it is ${job?.state ?? 'not found'}`);
  };
  for (const e of x.of('ack').filter(surely)) outcome(e, 'done');
  for (const e of x.of('fail').filter((f) => surely(f) && f.state === 'dead')) outcome(e, 'dead');
  for (const e of x.of('cancel').filter((c) => surely(c) && !c.requested)) outcome(e, 'cancelled');
}

/** C2: nothing is invented, nothing doubled, nothing comes back once removed; payloads are equal. */
function c2(x, report) {
  const sent = new Set(x.enqueues.map((e) => e.marker));
  const byMarker = new Map();
  for (const [id, job] of x.history.final.jobs) {
    if (!sent.has(job.marker)) report('C2', `job ${id} carries a payload that no client sent: ${job.marker}`);
    const other = byMarker.get(job.marker);
    if (other) report('C2', `one enqueue created two jobs: ${other} and ${id}`);
    byMarker.set(job.marker, id);
  }
  const made = x.enqueues.filter((e) => e.sure && e.created);
  const markers = new Map(made.map((e) => [e.id, e.marker]));
  for (const c of x.claims) {
    if (!sent.has(c.marker)) report('C2', `a claim of ${c.id} brought a payload that no client sent: ${c.marker}`);
    else if (markers.has(c.id) && markers.get(c.id) !== c.marker) report('C2', `job ${c.id} was claimed with another job's payload`);
  }
  const lastPurge = new Map();
  for (const p of x.of('purge').filter(surely)) lastPurge.set(p.queue, Math.max(lastPurge.get(p.queue) ?? 0, p.t0));
  for (const e of made)
    if (e.t1 < (lastPurge.get(e.queue) ?? 0) && x.history.final.jobs.has(e.id)) report('C2', `job ${e.id} was purged and is back`);
}

/** C3: no lease after a confirmed ack, or after a cancel or the request for one, unless the job was requeued. */
function c3(x, report) {
  for (const e of x.of('ack', 'cancel').filter(surely)) {
    for (const c of x.claimsOf.get(e.id) ?? []) {
      if (c.t0 > e.t1 && !(e.kind === 'cancel' && x.requeued(e.id, e.t0, c.t1)))
        report('C3', `job ${c.id} was handed out after its ${e.kind} was confirmed`);
    }
  }
}

/** C4: never two live leases. The reply to a claim may be sent before the claim is durable; a crash may undo such a claim. */
function c4(x, report) {
  const { crashes } = x.history;
  const wordsOf = groupBy(x.ends, (e) => e.token);
  const extended = groupBy(x.of('extend').filter(surely), (e) => e.token);
  const cancels = groupBy(x.of('cancel', 'requeue').filter(perhaps), (e) => e.id);
  const bulk = groupBy(x.of('bulk_cancel', 'bulk_requeue').filter(perhaps), (e) => e.queue);
  const mayHaveEnded = (a, b) =>
    (wordsOf.get(a.token) ?? []).some((e) => e.t0 <= b.t1 && perhaps(e)) ||
    (cancels.get(a.id) ?? []).some((e) => e.t0 <= b.t1 && e.t1 >= a.t0) ||
    (bulk.get(a.queue) ?? []).some((e) => e.t0 <= b.t1) ||
    (a.dropped !== undefined && a.dropped <= b.t1) ||
    (a.timeoutAt !== undefined && a.timeoutAt - SLACK_MS <= b.t1);
  const lostByCrash = (a, b) => crashes.some((c) => c.ready >= a.t1 && c.at <= b.t1 && (a.bound || x.durableBy(a.t1) > c.ready));
  const ranOut = (a, b) => {
    const last = (extended.get(a.token) ?? []).reduce((t, e) => (e.t1 <= b.t1 ? Math.max(t, e.t0 + e.lease) : t), a.t0 + a.lease);
    return b.t1 >= last - SLACK_MS;
  };
  for (const [id, list] of x.claimsOf) {
    for (let i = 1; i < list.length; i++) {
      const [a, b] = [list[i - 1], list[i]];
      // If the server was stopped for a while, replies may arrive in another order, more than a lease apart: then b came first.
      if (!mayHaveEnded(a, b) && !lostByCrash(a, b) && !ranOut(a, b) && !ranOut(b, a))
        report('C4', `job ${id} was handed out twice within its lease of ${a.lease} ms: at ${a.t1} and ${b.t1}`);
    }
  }
}

/** C5: no token is issued twice; none succeeds after the reply to a newer claim, or after it has ended its lease. */
function c5(x, report) {
  for (const [token, list] of groupBy(x.claims, (c) => c.token))
    if (list.length > 1) report('C5', `token ${token} was given out ${list.length} times`);
  const words = [...x.ends, ...x.of('extend', 'progress', 'step', 'log')].filter((e) => surely(e) && !e.repeat);
  for (const e of words) {
    const claims = x.claimsOf.get(e.id) ?? [];
    const own = claims.find((c) => c.token === e.token);
    if (own && claims.some((c) => c.t0 > own.t1 && c.t1 < e.t0)) report('C5', `job ${e.id}: ${e.kind} with an older token succeeded after a newer claim`);
  }
  for (const [token, list] of groupBy(words, (e) => e.token)) {
    const first = list.reduce((t, e) => (['ack', 'fail', 'release'].includes(e.kind) ? Math.min(t, e.t1) : t), Infinity);
    for (const e of list) if (e.t0 > first) report('C5', `${e.kind} with token ${token} succeeded after it had ended its lease`);
  }
}

/** C6: attempts increase as counted and stay within their limit; a dead job stays dead until it is requeued. */
function c6(x, report) {
  for (const [id, list] of x.claimsOf) {
    for (let i = 0; i < list.length; i++) {
      const [a, b] = [list[i - 1], list[i]];
      if (b.attempt > b.maxAttempts) report('C6', `job ${id}: attempt ${b.attempt} of ${b.maxAttempts}`);
      if (a && b.t0 >= a.t1 && b.attempt < a.attempt && !x.requeued(id, a.t0, b.t1))
        report('C6', `job ${id}: attempt ${b.attempt} came after attempt ${a.attempt}`);
    }
  }
  for (const e of x.of('fail').filter(surely)) {
    const claims = x.claimsOf.get(e.id) ?? [];
    const own = claims.find((c) => c.token === e.token);
    for (const c of claims.filter((later) => later.t0 > e.t1 && !x.requeued(e.id, e.t0, later.t1))) {
      if (e.state === 'dead') report('C6', `job ${e.id} was handed out after it was dead`);
      else if (own && c.attempt <= own.attempt) report('C6', `job ${e.id}: the failure of attempt ${own.attempt} was not counted`);
    }
  }
}

/** C7: by priority, then in the order of enqueue. */
function c7({ history }, report) {
  for (let i = 1; i < history.ordered.length; i++) {
    const [a, b] = [history.ordered[i - 1], history.ordered[i]];
    if (a.priority < b.priority || (a.priority === b.priority && a.seq > b.seq))
      report('C7', `job ${a.id} (priority ${a.priority}) came before ${b.id} (priority ${b.priority})`);
  }
}

/** C8: a unique key is never live twice. */
function c8(x, report) {
  const firstEnd = new Map();
  for (const e of [...x.ends, ...x.of('cancel')]) firstEnd.set(e.id, Math.min(firstEnd.get(e.id) ?? Infinity, e.t0));
  const made = x.enqueues.filter((e) => e.unique && e.sure && e.created);
  for (const [key, list] of groupBy(made, (e) => e.unique)) {
    list.sort((a, b) => a.t1 - b.t1);
    for (let i = 1; i < list.length; i++) {
      const [a, b] = [list[i - 1], list[i]];
      if (a.id !== b.id && (firstEnd.get(a.id) ?? Infinity) > b.t1) report('C8', `key ${key} is live twice: ${a.id} and ${b.id}`);
    }
  }
}

/** C9: no job is claimed before run_at, set by the producer or by a retry, or from a paused queue. */
function c9(x, report) {
  const early = (c, at) => c.t1 < at - ROUND_MS;
  for (const e of x.enqueues.filter((one) => one.runAt && one.id))
    for (const c of x.claimsOf.get(e.id) ?? [])
      if (early(c, e.runAt) && !x.requeued(e.id, e.t0, c.t1)) report('C9', `job ${e.id} came ${e.runAt - c.t1} ms too early`);
  for (const e of x.of('fail', 'release').filter((one) => surely(one) && one.runAt))
    for (const c of x.claimsOf.get(e.id) ?? [])
      if (c.t1 > e.t1 && c.token !== e.token && early(c, e.runAt) && !x.requeued(e.id, e.t0, c.t1))
        report('C9', `job ${e.id} was retried ${e.runAt - c.t1} ms too early`);
  const claimsOfQueue = groupBy(x.claims, (c) => c.queue);
  for (const [queue, list] of groupBy(x.of('pause', 'resume').sort((a, b) => a.t0 - b.t0), (e) => e.queue)) {
    list.forEach((p, i) => {
      if (p.kind !== 'pause' || !surely(p)) return;
      const until = Math.min(p.t0 + p.forMs, list[i + 1]?.t0 ?? Infinity);
      for (const c of claimsOfQueue.get(queue) ?? [])
        if (c.t0 > p.t1 && early(c, until)) report('C9', `job ${c.id} was handed out while ${queue} was paused`);
    });
  }
}

/** C10: all queues are drained, and the counters equal a recount. */
function c10({ history }, report) {
  for (const [name, { counts, listed }] of history.final.queues) {
    for (const state of ['ready', 'scheduled', 'running', 'blocked'])
      if ((counts[state] ?? 0) !== 0) report('C10', `queue ${name} still has ${counts[state]} ${state} jobs`);
    for (const [state, n] of Object.entries(counts))
      if ((listed[state] ?? 0) !== n) report('C10', `queue ${name} counts ${n} ${state} jobs and lists ${listed[state] ?? 0}`);
  }
}

const checks = [c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, checkKeeps, checkFlow, checkReports];

/** Everything that is known about the jobs of some violations, as lines. */
export function stories(history, violations) {
  const ids = new Set(violations.flatMap((v) => v.text.match(/\b[0-9A-Z]{26}\b/g) ?? []));
  const about = history.entries.filter((e) => ids.has(e.id));
  const [from, to] = [Math.min(...about.map((e) => e.t0)), Math.max(...about.map((e) => e.t1))];
  const crashes = history.crashes.filter((c) => c.ready >= from && c.at <= to).map((c) => ({ kind: 'crash', t0: c.at, t1: c.ready }));
  return [...about, ...crashes].sort((a, b) => a.t1 - b.t1).map((e) => JSON.stringify(e));
}

/** All violations as {check, text}; an empty list means that every promise was kept. */
export function check(history) {
  const found = [];
  const index = indexOf(history);
  for (const one of checks) one(index, (name, text) => found.push({ check: name, text }));
  return found;
}
