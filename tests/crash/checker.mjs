// SPDX-License-Identifier: Apache-2.0
// Reads what clients saw over HTTP, through crashes, and says which promise was broken.
//
// A history is {entries, crashes, final}. Times are milliseconds of one clock. Every entry has t0
// (request sent) and t1 (answer here, or the moment the connection broke), and `sure`: the answer
// came and says what happened. Without it both are possible.
//
//   enqueue {marker, key?, unique?, priority, runAt?, sure, created, id?}
//   claim   {id, token, attempt, marker, lease, bound, maxAttempts}      one entry a job handed out
//   ack | fail | release {id, token, sure, ok, repeat}
//   crash times in `crashes`: {at, ready}: killed at, serving again at
//   final   {jobs: Map id → {state, queue, marker}, queues: Map name → {counts, listed}}
//   ordered [{id, priority, seq}] as one consumer got a queue that had been filled before

/** A claim's answer may leave before its record is durable: so long before a crash it may be forgotten. */
const FORGETTABLE_MS = 1000;
/** Clocks of client and server are the same; answers take their time. */
const SLACK_MS = 50;

const groupBy = (list, key) => {
  const map = new Map();
  for (const item of list) {
    const k = key(item);
    if (!map.has(k)) map.set(k, []);
    map.get(k).push(item);
  }
  return map;
};

function enqueues(history) {
  return history.entries.filter((e) => e.kind === 'enqueue');
}
function claims(history) {
  return history.entries.filter((e) => e.kind === 'claim');
}
function ends(history) {
  return history.entries.filter((e) => ['ack', 'fail', 'release'].includes(e.kind));
}

/** C1: no confirmed enqueue is lost, no confirmed ack either. */
function c1(history, report) {
  for (const e of enqueues(history)) {
    if (!e.sure || !e.created) continue;
    const job = history.final.jobs.get(e.id);
    if (!job) report('C1', `job ${e.id} was confirmed and is not there`);
    else if (!['done', 'dead', 'cancelled'].includes(job.state)) report('C1', `job ${e.id} never came to an end: ${job.state}`);
  }
  for (const e of ends(history)) {
    if (e.kind !== 'ack' || !e.sure || !e.ok) continue;
    const job = history.final.jobs.get(e.id);
    if (!job || job.state !== 'done') report('C1', `job ${e.id} was acked and is ${job?.state ?? 'not there'}`);
  }
}

/** C2: nothing is invented, nothing doubled, payloads are equal. */
function c2(history, report) {
  const sent = new Set(enqueues(history).map((e) => e.marker));
  const byMarker = new Map();
  for (const [id, job] of history.final.jobs) {
    if (!sent.has(job.marker)) report('C2', `job ${id} carries a payload that nobody sent`);
    const other = byMarker.get(job.marker);
    if (other) report('C2', `one enqueue made two jobs: ${other} and ${id}`);
    byMarker.set(job.marker, id);
  }
  const markers = new Map(enqueues(history).filter((e) => e.sure && e.id).map((e) => [e.id, e.marker]));
  for (const c of claims(history)) {
    if (!sent.has(c.marker)) report('C2', `a claim of ${c.id} brought a payload that nobody sent`);
    if (markers.has(c.id) && markers.get(c.id) !== c.marker && !c.shared) report('C2', `job ${c.id} was claimed with another job's payload`);
  }
}

/** C3: no lease after a confirmed ack. */
function c3(history, report) {
  const acked = new Map();
  for (const e of ends(history)) if (e.kind === 'ack' && e.sure && e.ok) acked.set(e.id, Math.min(acked.get(e.id) ?? Infinity, e.t1));
  for (const c of claims(history)) {
    if (acked.has(c.id) && c.t0 > acked.get(c.id)) report('C3', `job ${c.id} was handed out after its ack was confirmed`);
  }
}

/** C4: never two live leases. */
function c4(history, report) {
  const endsByToken = groupBy(ends(history), (e) => e.token);
  for (const [id, list] of groupBy(claims(history), (c) => c.id)) {
    list.sort((a, b) => a.t1 - b.t1);
    for (let i = 1; i < list.length; i++) {
      const [a, b] = [list[i - 1], list[i]];
      const ended = (endsByToken.get(a.token) ?? []).some((e) => e.t0 <= b.t1 && (e.ok || !e.sure));
      const dropped = a.dropped !== undefined && a.dropped <= b.t1;
      const forgotten = history.crashes.some((c) => c.at >= a.t1 - SLACK_MS && c.at - a.t1 < FORGETTABLE_MS && c.at <= b.t1);
      const boundLost = a.bound && history.crashes.some((c) => c.at >= a.t1 - SLACK_MS && c.at <= b.t1);
      const ranOut = b.t1 - a.t0 >= a.lease - SLACK_MS;
      if (!ended && !dropped && !forgotten && !boundLost && !ranOut)
        report('C4', `job ${id} was handed out twice within its lease of ${a.lease} ms: at ${a.t1} and ${b.t1}`);
    }
  }
}

/** C5: no token twice; an older one never succeeds once a newer claim was answered. */
function c5(history, report) {
  for (const [token, list] of groupBy(claims(history), (c) => c.token))
    if (list.length > 1) report('C5', `token ${token} was given out ${list.length} times`);
  const byJob = groupBy(claims(history), (c) => c.id);
  for (const e of ends(history)) {
    if (!e.sure || !e.ok || e.repeat) continue;
    const own = (byJob.get(e.id) ?? []).find((c) => c.token === e.token);
    const newer = (byJob.get(e.id) ?? []).find((c) => own && c.t0 > own.t1 && c.t1 < e.t0);
    if (newer) report('C5', `job ${e.id}: ${e.kind} with an older token succeeded after a newer claim`);
  }
}

/** C6: attempts rise and stay within their bound. */
function c6(history, report) {
  for (const [id, list] of groupBy(claims(history), (c) => c.id)) {
    list.sort((a, b) => a.t1 - b.t1);
    for (let i = 0; i < list.length; i++) {
      if (list[i].attempt > list[i].maxAttempts) report('C6', `job ${id}: attempt ${list[i].attempt} of ${list[i].maxAttempts}`);
      const overlap = i > 0 && list[i].t0 < list[i - 1].t1;
      if (i > 0 && !overlap && list[i].attempt < list[i - 1].attempt)
        report('C6', `job ${id}: attempt ${list[i].attempt} came after attempt ${list[i - 1].attempt}`);
    }
  }
}

/** C7: by priority, then in the order of enqueue. */
function c7(history, report) {
  for (let i = 1; i < history.ordered.length; i++) {
    const [a, b] = [history.ordered[i - 1], history.ordered[i]];
    if (a.priority < b.priority || (a.priority === b.priority && a.seq > b.seq))
      report('C7', `job ${a.id} (priority ${a.priority}) came before ${b.id} (priority ${b.priority})`);
  }
}

/** C8: a unique key is never live twice. */
function c8(history, report) {
  const firstEnd = new Map();
  for (const e of ends(history)) firstEnd.set(e.id, Math.min(firstEnd.get(e.id) ?? Infinity, e.t0));
  const made = enqueues(history).filter((e) => e.unique && e.sure && e.created);
  for (const [key, list] of groupBy(made, (e) => e.unique)) {
    list.sort((a, b) => a.t1 - b.t1);
    for (let i = 1; i < list.length; i++) {
      const [a, b] = [list[i - 1], list[i]];
      if (a.id !== b.id && (firstEnd.get(a.id) ?? Infinity) > b.t1)
        report('C8', `key ${key} is live twice: ${a.id} and ${b.id}`);
    }
  }
}

/** C9: never before run_at. */
function c9(history, report) {
  const runAt = new Map(enqueues(history).filter((e) => e.runAt && e.id).map((e) => [e.id, e.runAt]));
  for (const c of claims(history)) {
    const at = runAt.get(c.id);
    if (at !== undefined && c.attempt === 1 && c.t1 < at - 2) report('C9', `job ${c.id} came ${at - c.t1} ms too early`);
  }
}

/** C10: everything drained, and counters equal a recount. */
function c10(history, report) {
  for (const [name, { counts, listed }] of history.final.queues) {
    for (const state of ['ready', 'scheduled', 'running'])
      if (counts[state] !== 0) report('C10', `queue ${name} still has ${counts[state]} ${state} jobs`);
    for (const [state, n] of Object.entries(counts))
      if ((listed[state] ?? 0) !== n) report('C10', `queue ${name} counts ${n} ${state} jobs and lists ${listed[state] ?? 0}`);
  }
}

const checks = [c1, c2, c3, c4, c5, c6, c7, c8, c9, c10];

/** All violations as {check, text}; none = every promise was kept. */
export function check(history) {
  const found = [];
  for (const one of checks) one(history, (name, text) => found.push({ check: name, text }));
  return found;
}
