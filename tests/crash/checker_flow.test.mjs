// SPDX-License-Identifier: Apache-2.0
// Tests of the checks of limits, dependencies and batches: for each promise, histories that keep it and histories that break it.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { check } from './checker.mjs';

const LEASE = 1000;
const flow = (kind, more) => ({ kind: `f_${kind}`, t0: 0, t1: 10, sure: true, ok: true, ...more });
const policy = (queue, limits, more) =>
  flow('policy', { queue, policy: { max_running: 0, max_running_per_group: 0, claim_rate: null, fair: 'none', ageing_ms: 0, ...limits }, ...more });
let tokens = 0;
const claim = (queue, id, t, more) =>
  flow('claim', { queue, id, token: `t${++tokens}`, group: 'a', mark: id, lease: LEASE, t0: t, t1: t + 5, ...more });
const ack = (id, t, more) => flow('ack', { id, token: `t-${id}`, t0: t, t1: t + 5, state: 'done', repeat: false, ...more });
const put = (queue, id, more) => flow('put', { queue, mark: id, group: 'a', id, ...more });
const job = (queue, mark, more) => ({ state: 'done', queue, mark, ...more });

/** Jobs that claims name are there and done, unless `jobs` says otherwise. */
function history(entries, { jobs = {}, crashes = [], batches = [], limited = [] } = {}) {
  const seen = entries.filter((e) => e.kind === 'f_claim').map((e) => [e.id, job(e.queue, e.mark)]);
  const all = new Map([...seen, ...Object.entries(jobs)].filter(([, j]) => j !== null));
  const final = { jobs: new Map(), queues: new Map(), flow: { jobs: all, batches: new Map(batches), limited: new Map(limited) } };
  return { entries, crashes, ordered: [], final };
}

// ---- limits ----

const twoRun = (limits = { max_running: 2 }) => [policy('f-slots', limits), claim('f-slots', 'A', 20), claim('f-slots', 'B', 30, { group: 'b' })];
const third = (more) => claim('f-slots', 'C', 60, more);
/** The first change after it proves that what was recorded until 36 is durable. */
const durable = { kind: 'enqueue', t0: 40, t1: 45, sure: true, created: true, id: 'E', marker: 'mE', queue: 'q', priority: 0 };
const withDurable = (entries, more) => {
  const h = history([...entries, durable], more);
  h.final.jobs.set('E', { state: 'done', queue: 'q', marker: 'mE' });
  return h;
};
const rate = { count: 2, window_ms: 1000, per: 'queue' };
const rated = (times, limits = {}) => [policy('f-rate', { claim_rate: rate, ...limits }), ...times.map((t, i) => claim('f-rate', `R${i}`, t))];
const otherRate = policy('f-rate', { claim_rate: { ...rate, count: 3 } }, { t0: 40, t1: 45 });
const otherLimit = policy('f-rate', { claim_rate: rate, max_running: 9 }, { t0: 40, t1: 45 });

/** A job of group b waits while `count` jobs of group a start. */
function passedOver(count, more = {}) {
  const starts = Array.from({ length: count }, (_, i) => claim('f-fair', `L${i}`, 20 + 10 * i));
  const last = claim('f-fair', 'S', 20 + 10 * count, { group: 'b' });
  return history([policy('f-fair', { fair: 'group' }), put('f-fair', 'S', { group: 'b' }), ...starts, last], more);
}

// ---- dependencies ----

const child = (rule = 'cancel') => put('f-children', 'C', { parents: ['P', 'Q'], rule });
const parents = [claim('f-children', 'P', 20), claim('f-children', 'Q', 20)];
const starts = (more) => claim('f-children', 'C', 60, more);
const family = (entries, jobs = {}) => history([child(), ...parents, ...entries], { jobs });
const failed = (rule, jobs, more = []) =>
  history([child(rule), ...parents, ack('P', 30), flow('fail', { id: 'Q', token: 'x', t0: 30, t1: 35, state: 'dead' }), ...more], {
    jobs: { Q: job('f-children', 'Q', { state: 'dead' }), ...jobs },
  });
const byRule = (state) => job('f-children', 'C', { state, reason: 'dependency_failed' });

const batch = (more) => flow('batch', { marks: ['M1', 'M2'], then: 'T', rule: 'cancel', batch: 'T', ids: ['M1', 'M2'], ...more });
const member = (id) => job('f-children', id);
const counts = (more) => ['T', { counts: { total: 2, waiting: 0, done: 2, ...more } }];
const members = { M1: member('M1'), M2: member('M2'), T: member('T') };
const batchOf = (entries, jobs, read = [counts()]) => history(entries, { jobs, batches: read });
const allDone = [ack('M1', 30), ack('M2', 30), claim('f-children', 'T', 60), ack('T', 70)];

const broken = {
  'C21 one job too many': () => history([...twoRun(), third()]),
  'C21 one job too many, after a crash that cannot have undone the others': () =>
    withDurable([...twoRun(), third({ t0: 100, t1: 105 })], { crashes: [{ at: 50, ready: 90 }] }),
  'C21 a start under a limit that was lowered': () =>
    history([...twoRun(), policy('f-slots', { max_running: 1 }, { t0: 40, t1: 45 }), ack('A', 50), third()]),
  'C21 one job of a group too many': () => history([...twoRun({ max_running_per_group: 1 }), third({ group: 'b' })]),
  'C21 a start without a token': () => history(rated([20, 25, 50, 60])),
  'C21 tokens from a change of another limit': () => history([...rated([20, 25, 50, 60]), otherLimit]),
  'C21 more tokens than a restart gives': () => history(rated([20, 25, 100, 105, 110, 115]), { crashes: [{ at: 50, ready: 90 }] }),
  'C21 a slot that leaks': () => history([...twoRun(), ack('A', 50), ack('B', 50)], { limited: [['f-slots', { queue_limit: 1, group_limit: 0, claim_rate: 0 }]] }),
  'C22 a group keeps its turn': () => passedOver(3),
  'C20 a child starts before its parents': () => family([ack('P', 30), starts(), ack('Q', 100)]),
  'C20 a child starts although a parent failed': () => failed('cancel', {}, [starts()]),
  'C20 a child does not follow its rule': () => failed('dead', { C: job('f-children', 'C', { state: 'cancelled', reason: 'dependency_failed' }) }),
  'C20 a child follows a rule without a reason': () => family([ack('P', 30), ack('Q', 30)], { C: byRule('cancelled') }),
  'C20 a child starts twice': () => family([ack('P', 30), ack('Q', 30), starts(), starts({ t0: 80, t1: 85 })]),
  'C20 a child starts again after its end': () => family([ack('P', 30), ack('Q', 30), starts(), ack('C', 70), starts({ t0: 2000, t1: 2005 })]),
  'C20 a child is lost': () => family([ack('P', 30), ack('Q', 30)]),
  'C20 a child stays blocked': () => family([ack('P', 30), ack('Q', 30)], { C: job('f-children', 'C', { state: 'blocked' }) }),
  'C20 the final job of a batch starts too early': () =>
    batchOf([batch(), ack('M1', 30), claim('f-children', 'T', 60), ack('M2', 100), ack('T', 110)], members),
  'C20 the final job of a batch fires twice': () => batchOf([batch(), ...allDone], { ...members, U: job('f-children', 'T') }),
  'C20 a part of a batch': () => batchOf([batch({ sure: false, ok: false, batch: undefined })], { M1: member('M1') }, []),
  'C20 a confirmed batch is lost': () => batchOf([batch()], {}, []),
  'C20 a batch counts wrongly': () => batchOf([batch(), ...allDone], members, [counts({ total: 3 })]),
  'C20 a batch waits for nothing': () => batchOf([batch(), ...allDone], members, [counts({ waiting: 1 })]),
};
for (const [name, make] of Object.entries(broken)) {
  test(`caught: ${name}`, () => {
    const found = check(make());
    assert.deepEqual([...new Set(found.map((v) => v.check))], [name.split(' ')[0]], `found ${JSON.stringify(found)}`);
  });
}

const allowed = {
  'a slot that may be free': () => history([...twoRun(), ack('A', 50, { sure: false, ok: false }), third()], {}),
  'a lease that has run out': () => history([...twoRun(), third({ t0: 1100, t1: 1105 })]),
  'claims that a crash may have undone': () => history([...twoRun(), third({ t0: 100, t1: 105 })], { crashes: [{ at: 50, ready: 90 }] }),
  'a limit that may have been raised': () =>
    history([...twoRun(), policy('f-slots', { max_running: 3 }, { t0: 40, t1: 45, sure: false, ok: false }), third()]),
  'a limit below what runs': () => history([...twoRun(), policy('f-slots', { max_running: 1 }, { t0: 40, t1: 45 })]),
  'groups that have slots of their own': () => history([...twoRun({ max_running_per_group: 1 }), third({ group: 'c' })]),
  'tokens that come with time': () => history(rated([20, 25, 600, 1100, 1600])),
  'another rate, which begins with all of its tokens': () => history([...rated([20, 25, 50, 55, 60]), otherRate]),
  'tokens after a restart': () => history(rated([20, 25, 100, 105]), { crashes: [{ at: 50, ready: 90 }] }),
  'groups that take turns': () => passedOver(2),
  'turns that begin again after a restart': () => passedOver(6, { crashes: [{ at: 40, ready: 45 }] }),
  'a child that starts after its parents': () => family([ack('P', 30), ack('Q', 30), starts(), ack('C', 70)]),
  'a parent whose ack had no reply': () => family([ack('P', 30), ack('Q', 30, { sure: false, ok: false }), starts(), ack('C', 70)]),
  'a child that its rule cancels': () => failed('cancel', { C: byRule('cancelled') }),
  'a child that its rule lets run': () => failed('run', {}, [starts(), ack('C', 70)]),
  'a child of a job that its own rule ended': () =>
    history([put('f-children', 'D', { parents: ['C'], rule: 'run' }), claim('f-children', 'D', 60), ack('D', 70)], { jobs: { C: byRule('cancelled') } }),
  'a child that starts again when its lease is over': () => family([ack('P', 30), ack('Q', 30), starts(), starts({ t0: 1200, t1: 1205 }), ack('C', 1300)]),
  'a batch': () => batchOf([batch(), ...allDone], members),
  'a batch that is repeated': () => batchOf([batch({ sure: false, ok: false, batch: undefined }), batch(), ...allDone], members),
  'a batch without a reply that is not there': () => batchOf([batch({ sure: false, ok: false, batch: undefined })], {}, []),
};
for (const [name, make] of Object.entries(allowed)) test(`allowed: ${name}`, () => assert.deepEqual(check(make()), []));
