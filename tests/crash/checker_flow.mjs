// SPDX-License-Identifier: Apache-2.0
// C20 to C22: checks of what clients of limits, dependencies and batches (lib/flow.mjs) saw. Their part of a history:
//
//   f_policy {queue, policy}: max_running, max_running_per_group (0: none), claim_rate (null: none), fair, ageing_ms
//   f_put    {queue, mark, group?, id?, parents?: [id], rule?}   f_batch {marks, then, rule, batch?, ids?}
//   f_claim  {queue, id, token, group, mark, lease}   f_ack | f_fail | f_release {id, token, state?, repeat}
//   final.flow {jobs: Map id → {state, queue, mark, reason?}, batches: Map id → {counts, then}, limited: Map queue → counts}
//
// A lease surely lives from the reply to its claim until a client wants to end it, its time may be over, or a crash may have
// undone the claim. Limits are checked for leases that surely live at the same moment.
import { groupBy } from './lib/group_by.mjs';

/** As in checker.mjs: replies take time. */
const SLACK_MS = 50;
/** A restart forgets what jobs that have ended took of a rate: at most one bucket (docs/howto/limits-and-fair-share.md). */
const BUCKETS_A_RESTART = 1;
/** How many jobs of another group may start between two starts of a group that waits (core/queues/claim_limits.h). */
const TURNS = 2;

const surely = (e) => e.sure && e.ok;
const perhaps = (e) => e.ok || !e.sure;

/** The leases with `from` and `to`, between which each surely lives; in the order in which they begin. */
function leasesOf(x) {
  const ends = groupBy(x.of('f_ack', 'f_fail', 'f_release'), (e) => e.id);
  const { crashes } = x.history;
  return x.of('f_claim').map((claim) => {
    const ended = (ends.get(claim.id) ?? []).filter((e) => e.t1 >= claim.t0).map((e) => e.t0);
    const undone = crashes.filter((c) => c.ready >= claim.t1 && x.durableBy(claim.t1) > c.ready).map((c) => c.at);
    return { ...claim, from: claim.t1, to: Math.min(claim.t0 + claim.lease - SLACK_MS, ...ended, ...undone) };
  }).sort((a, b) => a.from - b.from);
}

/** The policies that may be in force at some time from `from` to `to`. A change without a reply may have happened, or not. */
function policiesOf(x, queue) {
  const changes = x.of('f_policy').filter((e) => e.queue === queue && perhaps(e)).sort((a, b) => a.t0 - b.t0);
  return (from, to) => {
    const before = changes.filter((e) => surely(e) && e.t1 <= from);
    const last = Math.max(-Infinity, ...before.map((e) => e.t0)); // what was replaced before this one was asked for is over
    return changes.filter((e) => e.t0 <= to && e.t1 >= last).map((e) => e.policy);
  };
}

const highest = (policies, name) => (policies.length === 0 || policies.some((p) => !p[name]) ? Infinity : Math.max(...policies.map((p) => p[name])));

/** C21: no more jobs run than max_running, in the queue and in each group. The last of them started when the others ran. */
function slots(leases, policies, report) {
  for (const lease of leases) {
    const live = leases.filter((other) => other.from <= lease.from && other.to > lease.from);
    const rules = policies(Math.max(...live.map((l) => l.t0)), lease.from);
    const running = highest(rules, 'max_running');
    if (live.length > running) report('C21', `job ${lease.id} is one of ${live.length} of ${lease.queue} that run, and the limit is ${running}`);
    for (const [group, list] of groupBy(live, (l) => l.group)) {
      const inGroup = highest(rules, 'max_running_per_group');
      if (list.length > inGroup) report('C21', `job ${lease.id}: ${list.length} of group ${group} run, and the limit is ${inGroup}`);
    }
  }
}

/** The rate of all of these policies; null = they have none, or different ones. */
function rateOf(policies) {
  const [first] = policies.map((p) => p.claim_rate);
  const same = ({ claim_rate: r }) => r && r.count === first.count && r.window_ms === first.window_ms && r.per === first.per;
  return first && policies.every(same) ? first : null;
}

/** C21: within each time in which one rate surely is in force, no more jobs start than it has tokens. */
function tokens(leases, policies, crashes, report) {
  const tooMany = (list, rate) => {
    for (let i = 0; i < list.length; i++)
      for (let n = i + 1, t1 = list[i].t1; n < list.length && list[n].t0 - list[i].t0 < 4 * rate.window_ms; n++) {
        t1 = Math.max(t1, list[n].t1);
        const restarts = crashes.filter((c) => c.ready >= list[i].t0 && c.at <= t1).length;
        const most = rate.count * (1 + BUCKETS_A_RESTART * restarts) + ((t1 - list[i].t0 + SLACK_MS) * rate.count) / rate.window_ms + 1;
        if (n - i + 1 > most) return { count: n - i + 1, ms: t1 - list[i].t0, job: list[n].id };
      }
    return null;
  };
  // Another rate begins with a full bucket, so each change to one ends a period.
  let period = [];
  let rate = null;
  const finish = () => {
    if (period.length === 0) return;
    const lists = rate.per === 'group' ? [...groupBy(period, (l) => l.group).values()] : [period];
    for (const list of lists) {
      const found = tooMany(list, rate);
      if (found) report('C21', `job ${found.job} is one of ${found.count} that started within ${found.ms} ms, and the rate is ${rate.count} in ${rate.window_ms} ms`);
    }
  };
  for (const lease of [...leases].sort((a, b) => a.t0 - b.t0)) {
    const goesOn = period.length > 0 && rateOf(policies(period.at(-1).t0, lease.t1));
    if (!goesOn) {
      finish();
      period = [];
      rate = rateOf(policies(lease.t0, lease.t1));
    }
    if (rate) period.push(lease);
  }
  finish();
}

/** C22: while a job of a group waits, each other group starts at most two jobs for each that its own group starts. */
function turns(x, leases, report) {
  const { crashes } = x.history;
  const first = new Map();
  for (const lease of leases) if (!first.has(lease.id) || first.get(lease.id).t0 > lease.t0) first.set(lease.id, lease);
  for (const put of x.of('f_put').filter((e) => e.queue === 'f-fair' && surely(e) && e.id)) {
    const start = first.get(put.id);
    if (!start || crashes.some((c) => c.ready >= put.t0 && c.at <= start.t1)) continue;
    const meanwhile = leases.filter((l) => l.t1 > put.t1 && l.t0 < start.t1);
    const own = meanwhile.filter((l) => l.group === put.group && l.id !== put.id).length;
    const inside = meanwhile.filter((l) => l.t0 >= put.t1 && l.t1 <= start.t0);
    for (const [group, list] of groupBy(inside, (l) => l.group))
      if (group !== put.group && list.length > TURNS * (own + 1))
        report('C22', `job ${put.id} of group ${put.group} waited while its group started ${own} jobs and group ${group} ${list.length}`);
  }
}

// ---- dependencies ----

/** C20: a job starts once, after its parents have ended as its rule says; otherwise the rule ends it. */
function children(x, leases, report) {
  const { jobs } = x.flow;
  const ends = groupBy(x.of('f_ack', 'f_fail'), (e) => e.id);
  const endedByRule = (id) => jobs.get(id)?.reason === 'dependency_failed';
  /** Whether the parent may have ended before t; `well`: by an ack. */
  const mayHaveEnded = (id, well, t) => {
    const mine = (ends.get(id) ?? []).filter((e) => e.t0 <= t);
    return mine.some((e) => e.kind === 'f_ack' || !well) || (!well && endedByRule(id));
  };
  const depends = new Map();
  for (const e of x.of('f_put').filter((one) => one.parents?.length > 0)) depends.set(e.mark, e);
  const byMark = new Map([...jobs].map(([id, job]) => [job.mark, id]));
  for (const e of x.of('f_batch')) {
    const parents = e.marks.map((mark) => byMark.get(mark)).filter((id) => id !== undefined);
    depends.set(e.then, { parents, rule: e.rule });
  }
  for (const lease of leases) {
    const made = depends.get(lease.mark);
    for (const parent of made?.parents ?? [])
      if (!mayHaveEnded(parent, made.rule !== 'run', lease.t1)) report('C20', `job ${lease.id} started before job ${parent} had ended as declared`);
  }
  for (const [mark, { parents, rule }] of depends) {
    const id = byMark.get(mark);
    const state = jobs.get(id)?.state;
    const failed = parents.filter((parent) => jobs.get(parent)?.state !== 'done');
    const byRule = { cancel: 'cancelled', dead: 'dead' }[rule];
    if (!state) continue;
    if (failed.length > 0 && byRule && state !== byRule) report('C20', `job ${id} is ${state}, although job ${failed[0]} failed`);
    if ((failed.length === 0 || !byRule) && endedByRule(id)) report('C20', `job ${id} was ended by its rule, although its parents have ended as declared`);
  }
}

/** C20: no one has the same job twice. */
function once(x, leases, report) {
  const acks = groupBy(x.of('f_ack').filter(surely), (e) => e.id);
  for (const [id, list] of groupBy(leases, (l) => l.id)) {
    for (const ack of acks.get(id) ?? [])
      for (const l of list) if (l.t0 > ack.t1) report('C20', `job ${id} started again after its end`);
    for (let i = 1; i < list.length; i++)
      if (list[i].t0 >= list[i - 1].from && list[i - 1].to > list[i].t1) report('C20', `job ${id} started twice`);
  }
}

/** C20: a batch exists completely or not at all, once, and its counts are those of its jobs. */
function batches(x, report) {
  const { jobs, batches: read } = x.flow;
  const made = groupBy([...jobs].map(([id, job]) => ({ id, ...job })), (job) => job.mark);
  for (const [then, entries] of groupBy(x.of('f_batch'), (e) => e.then)) {
    const marks = [...entries[0].marks, then];
    const there = marks.filter((mark) => made.has(mark)).length;
    if (there > 0 && there < marks.length) report('C20', `of ${marks.length} jobs of batch ${then} there are ${there}`);
    if (there === 0 && entries.some(surely)) report('C20', `batch ${then} was confirmed and is not there`);
    for (const mark of marks) if (made.get(mark)?.length > 1) report('C20', `batch ${then} created job ${mark} twice`);
  }
  for (const [id, { counts }] of read) {
    if (counts.waiting !== 0) report('C20', `batch ${id} still waits for ${counts.waiting} jobs`);
    const total = x.of('f_batch').find((e) => e.batch === id).marks.length;
    if (counts.total !== total) report('C20', `batch ${id} has ${counts.total} jobs of ${total}`);
  }
}

/** C20: confirmed jobs are there. C21: no slot is lost: when nothing runs, nothing waits for a slot. */
function left(x, report) {
  for (const e of x.of('f_put').filter((one) => surely(one) && one.id)) {
    const job = x.flow.jobs.get(e.id);
    if (!job || !['done', 'dead', 'cancelled'].includes(job.state)) report('C20', `job ${e.id} of ${e.queue} is ${job?.state ?? 'not found'}`);
  }
  for (const e of x.of('f_ack').filter(surely))
    if (x.flow.jobs.get(e.id)?.state !== 'done') report('C20', `job ${e.id} was acked, and is ${x.flow.jobs.get(e.id)?.state ?? 'not found'}`);
  for (const [queue, counts] of x.flow.limited)
    for (const [what, n] of Object.entries(counts)) if (n !== 0) report('C21', `${n} jobs of ${queue} wait for ${what}, and none runs`);
}

/** For a history that clients of limits and dependencies were part of. */
export function checkFlow(x, report) {
  x.flow = x.history.final.flow;
  if (!x.flow) return;
  const byQueue = groupBy(leasesOf(x), (l) => l.queue);
  for (const [queue, leases] of byQueue) {
    const policies = policiesOf(x, queue);
    slots(leases, policies, report);
    tokens(leases, policies, x.history.crashes, report);
  }
  turns(x, byQueue.get('f-fair') ?? [], report);
  children(x, byQueue.get('f-children') ?? [], report);
  once(x, [...byQueue.values()].flat(), report);
  batches(x, report);
  left(x, report);
}
