// SPDX-License-Identifier: Apache-2.0
// Tests of the checker: for each promise, histories that keep it and histories that break it.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { check } from './checker.mjs';

const LEASE = 1000;

/** A job that is enqueued, claimed and acked; the tests change this history. */
function life() {
  return {
    entries: [
      { kind: 'enqueue', t0: 0, t1: 10, sure: true, created: true, id: 'A', marker: 'mA', queue: 'q', priority: 0 },
      claim({ t0: 20, t1: 30, token: 'k1', attempt: 1 }),
      word('ack', { t0: 40, t1: 50 }),
    ],
    crashes: [],
    final: {
      jobs: new Map([['A', { state: 'done', queue: 'q', marker: 'mA' }]]),
      queues: new Map([['q', { counts: { ready: 0, scheduled: 0, running: 0, done: 1, dead: 0, cancelled: 0 }, listed: { done: 1 } }]]),
    },
    ordered: [
      { id: 'X', priority: 5, seq: 9 },
      { id: 'Y', priority: 1, seq: 3 },
      { id: 'Z', priority: 1, seq: 4 },
    ],
  };
}
const claim = (more) => ({ kind: 'claim', t0: 100, t1: 110, id: 'A', token: 'k2', attempt: 2, marker: 'mA', queue: 'q', lease: LEASE, maxAttempts: 10, ...more });
const word = (kind, more) => ({ kind, t0: 40, t1: 50, id: 'A', token: 'k1', sure: true, ok: true, repeat: false, ...more });
const done = (kind, more) => ({ kind, t0: 35, t1: 38, sure: true, ok: true, queue: 'q', id: 'A', ...more });
const names = (history) => [...new Set(check(history).map((v) => v.check))];
const stateOf = (h, state) => {
  h.final.jobs.get('A').state = state;
  h.final.queues.get('q').counts = { ready: 0, scheduled: 0, running: 0, done: 0, dead: 0, cancelled: 0, [state]: 1 };
  h.final.queues.get('q').listed = { [state]: 1 };
};
const gone = (h) => {
  h.final.jobs.delete('A');
  h.final.queues.get('q').counts.done = 0;
  h.final.queues.get('q').listed = {};
};

test('an ordinary history is accepted', () => assert.deepEqual(check(life()), []));

const broken = {
  'C1 a confirmed enqueue is lost': (h) => h.entries.splice(1) && gone(h),
  'C1 a job is lost, purged before it was there': (h) => h.entries.splice(1, 2, done('purge', { t0: -20, t1: -10 })) && gone(h),
  'C1 a confirmed ack is lost': (h) => stateOf(h, 'dead'),
  'C1 a last failure is lost': (h) => (h.entries[2] = word('fail', { state: 'dead' })),
  'C1 a cancel is lost': (h) => h.entries.splice(2, 1, done('cancel')),
  'C2 a payload that no client sent': (h) => (h.final.jobs.get('A').marker = 'other'),
  'C2 a claim brings a payload that no client sent': (h) => (h.entries[1].marker = 'other'),
  "C2 a claim brings another job's payload": (h) => {
    h.entries.push({ ...h.entries[0], id: 'B', marker: 'mB' });
    h.entries[1].marker = 'mB';
  },
  'C2 one enqueue made two jobs': (h) => h.final.jobs.set('B', { state: 'done', queue: 'q', marker: 'mA' }),
  'C2 a purged job is back': (h) => h.entries.splice(1, 2, done('purge')),
  'C3 handed out after the ack': (h) => h.entries.push(claim({ t0: 5000, t1: 5010 })),
  'C3 handed out after a cancel': (h) => {
    h.entries.splice(2, 1, done('cancel'), claim({}));
    stateOf(h, 'cancelled');
  },
  'C4 two live leases': (h) => h.entries.splice(2, 1, claim({ t0: 32, t1: 38 })),
  'C4 two live leases, the first one refused': (h) => {
    h.entries[2].ok = false;
    h.entries.push(claim({ t0: 52, t1: 58 }), word('ack', { t0: 60, t1: 65, token: 'k2' }));
  },
  'C4 a lease that was extended': (h) => h.entries.splice(2, 1, word('extend', { t0: 900, t1: 910, lease: LEASE }), claim({ t0: 1300, t1: 1310 })),
  'C4 a crash that cannot have forgotten the claim': (h) => {
    h.entries.splice(2, 1, { ...h.entries[0], id: 'B', marker: 'mB', t0: 40, t1: 45 }, claim({}));
    h.final.jobs.set('B', { state: 'done', queue: 'q', marker: 'mB' });
    h.crashes.push({ at: 60, ready: 90 });
  },
  'C5 a token twice': (h) => h.entries.splice(2, 0, claim({ token: 'k1', t0: 2000, t1: 2010 })),
  'C5 an older token succeeds': (h) => {
    h.entries[2] = { ...h.entries[2], t0: 3000, t1: 3010 };
    h.entries.splice(2, 0, claim({ t0: 1500, t1: 1510 }));
  },
  'C5 an older token extends': (h) => h.entries.push(claim({ t0: 1500, t1: 1510 }), word('extend', { t0: 3000, t1: 3010, lease: LEASE })),
  'C5 a token that gave its lease back': (h) => h.entries.splice(2, 0, word('release', { t0: 32, t1: 35 })),
  'C6 attempts fall': (h) => {
    h.entries[1].attempt = 3;
    h.entries.splice(2, 0, claim({ t0: 1500, t1: 1510, attempt: 2 }));
    h.entries[3].token = 'k2';
  },
  'C6 a failure is not counted': (h) => h.entries.splice(2, 1, word('fail', { state: 'ready' }), claim({ attempt: 1 })),
  'C6 too many attempts': (h) => (h.entries[1].attempt = 11),
  'C6 handed out when dead': (h) => {
    h.entries.splice(2, 1, word('fail', { state: 'dead' }), claim({}));
    stateOf(h, 'dead');
  },
  'C7 order': (h) => h.ordered.reverse(),
  'C8 a key live twice': (h) => {
    h.entries[0].unique = 'u';
    h.entries.push({ ...h.entries[0], t0: 15, t1: 20, id: 'B', marker: 'mB' });
    h.final.jobs.set('B', { state: 'done', queue: 'q', marker: 'mB' });
  },
  'C9 too early': (h) => (h.entries[0].runAt = 500),
  'C9 a retry too early': (h) => h.entries.splice(2, 1, word('fail', { state: 'scheduled', runAt: 500 }), claim({})),
  'C9 from a paused queue': (h) => h.entries.push(done('pause', { t0: 12, t1: 15, forMs: 200 })),
  'C10 something is left': (h) => (h.final.queues.get('q').counts.ready = 1),
  'C10 a counter is wrong': (h) => (h.final.queues.get('q').counts.done = 2),
};
for (const [name, breakIt] of Object.entries(broken)) {
  test(`caught: ${name}`, () => {
    const history = life();
    breakIt(history);
    assert.ok(names(history).includes(name.split(' ')[0]), `found ${JSON.stringify(check(history))}`);
  });
}

/** Histories that are allowed, although they are similar to forbidden ones. */
const allowed = {
  'a claim forgotten by a crash is no second lease': (h) => {
    h.entries.splice(2, 1, claim({ t0: 200, t1: 210 }), word('ack', { token: 'k2', t0: 300, t1: 310 }));
    h.crashes.push({ at: 60, ready: 150 });
  },
  'a claim forgotten, though a repeat was answered after it': (h) => {
    h.entries.splice(2, 1, claim({ t0: 200, t1: 210 }), word('ack', { token: 'k2', t0: 300, t1: 310 }));
    h.entries.push({ ...h.entries[0], t0: 40, t1: 45, repeat: true });
    h.crashes.push({ at: 60, ready: 150 });
  },
  'a lease bound to a connection ends with it': (h) => {
    Object.assign(h.entries[1], { bound: true, dropped: 60 });
    h.entries.splice(2, 1, claim({}), word('ack', { token: 'k2', t0: 300, t1: 310 }));
  },
  'a lease that ran out': (h) => h.entries.splice(2, 1, claim({ t0: 1100, t1: 1110 }), word('ack', { token: 'k2', t0: 1120, t1: 1130 })),
  'an unsure enqueue that is not there': (h) => h.entries.push({ ...h.entries[0], id: undefined, marker: 'mB', sure: false, created: false }),
  'an unsure enqueue that is there': (h) => {
    h.entries.push({ ...h.entries[0], id: undefined, marker: 'mB', sure: false, created: false });
    h.final.jobs.set('B', { state: 'done', queue: 'q', marker: 'mB' });
  },
  'a purged job is gone': (h) => h.entries.splice(1, 2, done('purge')) && gone(h),
  'a purge whose outcome is unknown': (h) => h.entries.splice(1, 2, done('purge', { sure: false, ok: false })),
  'cancelled, requeued, done': (h) =>
    h.entries.splice(2, 1, done('cancel', { t0: 31, t1: 32 }), done('requeue', { t0: 33, t1: 34 }), claim({ t0: 35, t1: 36 }), word('ack', { token: 'k2' })),
  'dead, requeued, from the first attempt on': (h) =>
    h.entries.splice(2, 1, word('fail', { state: 'dead' }), done('requeue', { t0: 60, t1: 65 }), claim({ attempt: 1 }), word('ack', { token: 'k2', t0: 120, t1: 130 })),
  'a second ack gets the first answer': (h) => h.entries.push(word('ack', { t0: 60, t1: 70, repeat: true })),
  'a pause that was ended': (h) => h.entries.push(done('pause', { t0: 12, t1: 15, forMs: 200 }), done('resume', { t0: 16, t1: 18 })),
};
for (const [name, change] of Object.entries(allowed)) {
  test(`allowed: ${name}`, () => {
    const history = life();
    change(history);
    assert.deepEqual(check(history), []);
  });
}

// ---- reports ----

const failure = (token) => ({ error: `failed under ${token}`, error_type: `Error_${token}`, stack: `at ${token}` });
const attempt = (number, outcome, more = {}) => ({ number, outcome, ...more });

/** A job that failed once, reported progress and log lines, and was then cancelled; and a dead letter that was replaced. */
function reporting() {
  const history = life();
  history.entries.splice(2, 1,
    word('fail', { t0: 40, t1: 50, state: 'scheduled', failure: failure('k1'), cancel: false }),
    claim({ t0: 60, t1: 70, token: 'k2', attempt: 2, timeoutAt: 900 }),
    word('progress', { token: 'k2', t0: 72, t1: 74, report: { percent: 1, message: 'a', data: 1 }, cancel: false }),
    word('progress', { token: 'k2', t0: 75, t1: 77, report: { percent: 2, message: 'b', data: 2 }, cancel: false }),
    word('log', { token: 'k2', t0: 78, t1: 80, lines: ['first', 'second'] }),
    word('step', { token: 'k2', t0: 81, t1: 82, name: 'pay', result: { n: 1 }, cancel: false }),
    word('step', { token: 'k2', t0: 83, t1: 84, name: 'pay', result: { n: 2 }, cancel: false }),
    done('cancel', { t0: 100, t1: 110, requested: true, deadline: 400 }),
    word('heartbeat', { token: 'k2', t0: 120, t1: 130, cancel: true }),
    word('extend', { token: 'k2', t0: 140, t1: 150, lease: LEASE, cancel: true }),
    word('release', { token: 'k2', t0: 160, t1: 170, state: 'cancelled', cancel: false }),
    { kind: 'letter', t0: 0, t1: 5, sure: true, ok: true, marker: 'l', id: 'L' },
    { kind: 'letter_requeue', t0: 10, t1: 15, sure: true, ok: true, id: 'L', newId: 'M' },
  );
  history.final.letters = new Map([['M', { state: 'dead', marker: 'l' }]]);
  history.final.reports = new Map([
    ['A', {
      history: [attempt(1, 'failed', failure('k1')), attempt(2, 'cancelled')],
      progress: { percent: 2, message: 'b', data: 2, at: 'some time' },
      steps: { pay: { n: 2 } },
      lines: ['first', 'second'],
    }],
  ]);
  stateOf(history, 'cancelled');
  return history;
}
const entry = (h, kind, nth = 0) => h.entries.filter((e) => e.kind === kind)[nth];
const reportOf = (h) => h.final.reports.get('A');
/** The job is acked in place of its release. */
const ackLast = (h, more) => {
  Object.assign(entry(h, 'release'), { kind: 'ack', state: 'done', ...more });
  stateOf(h, 'done');
  reportOf(h).history[1].outcome = 'done';
};

const brokenReports = {
  'C1 a forced cancel is lost': (h) => (entry(h, 'cancel').requested = false) || stateOf(h, 'dead'),
  'C3 a job is handed out after its cancel was requested': (h) => h.entries.push(claim({ t0: 5000, t1: 5010, token: 'k3', attempt: 3 })),
  'C5 progress with a token that has ended its lease': (h) => h.entries.push(word('progress', { token: 'k1', t0: 55, t1: 58, report: {}, cancel: false })),
  'C15 a requested cancel is lost': (h) => stateOf(h, 'dead'),
  'C15 a cancelled job is done without an ack': (h) => stateOf(h, 'done'),
  'C15 an ack after the time to react': (h) => ackLast(h, { t0: 500, t1: 510 }),
  'C15 a release makes a cancelled job ready': (h) => (entry(h, 'release').state = 'ready'),
  'C15 a heartbeat does not mention the cancel': (h) => (entry(h, 'heartbeat').cancel = false),
  'C15 an extend does not mention the cancel': (h) => (entry(h, 'extend').cancel = false),
  'C15 a heartbeat mentions a cancel that no client requested': (h) => Object.assign(entry(h, 'cancel'), { ok: false }),
  'C16 an ack after the attempt has timed out': (h) => ackLast(h, { t0: 960, t1: 970 }),
  'C16 an extend after the attempt has timed out': (h) => Object.assign(entry(h, 'extend'), { t0: 960, t1: 970 }),
  'C16 an attempt timed out and was acked': (h) => ackLast(h, {}) || reportOf(h).history.push(attempt(2, 'timed_out')),
  'C17 an error without its stack': (h) => delete reportOf(h).history[0].stack,
  'C17 an error with the type of another attempt': (h) => (reportOf(h).history[0].error_type = 'Error_k2'),
  'C17 a failure is not in the history': (h) => reportOf(h).history.shift(),
  'C17 a job shows an error that no worker sent': (h) => Object.assign(h.final.jobs.get('A'), failure('k9')),
  'C5 a step with a token that has ended its lease': (h) => h.entries.push(word('step', { token: 'k1', t0: 55, t1: 58, name: 'pay', result: 0, cancel: false })),
  'C17 a step is lost': (h) => (reportOf(h).steps = {}),
  'C17 an older result of a step': (h) => (reportOf(h).steps.pay = { n: 1 }),
  'C17 a result of a step that no worker stored': (h) => (reportOf(h).steps.pay = { n: 3 }),
  'C17 a step that no worker stored': (h) => (reportOf(h).steps.mail = 1),
  'C17 a log line is lost': (h) => reportOf(h).lines.pop(),
  'C17 a log line is there twice': (h) => reportOf(h).lines.push('first'),
  'C17 log lines are in another order': (h) => reportOf(h).lines.reverse(),
  'C17 a log line that no worker sent': (h) => reportOf(h).lines.push('third'),
  'C17 progress that no worker sent': (h) => (reportOf(h).progress.data = 7),
  'C17 the newest progress of a done job is lost': (h) => ackLast(h, {}) || (reportOf(h).progress = undefined),
  'C17 a done job shows earlier progress': (h) => ackLast(h, {}) || (reportOf(h).progress = { percent: 1, message: 'a', data: 1 }),
  'C18 a replaced job still exists': (h) => h.final.letters.set('L', { marker: 'l' }),
  'C18 neither the dead job nor the new one exists': (h) => h.final.letters.clear(),
  'C18 another value': (h) => (h.final.letters.get('M').marker = 'other'),
};
for (const [name, breakIt] of Object.entries(brokenReports)) {
  test(`caught: ${name}`, () => {
    const history = reporting();
    breakIt(history);
    assert.ok(names(history).includes(name.split(' ')[0]), `found ${JSON.stringify(check(history))}`);
  });
}

const allowedReports = {
  'a job that reports and is cancelled': () => {},
  'an ack in time makes a job done whose cancel was requested': (h) => ackLast(h, {}),
  'a cancelled job is requeued and dies': (h) => {
    h.entries.push(done('requeue', { t0: 200, t1: 210 }), claim({ t0: 220, t1: 230, token: 'k3', attempt: 1 }), word('fail', { token: 'k3', t0: 240, t1: 250, state: 'dead', failure: failure('k3') }));
    reportOf(h).history.push(attempt(1, 'failed', failure('k3')));
    reportOf(h).progress = undefined;
    stateOf(h, 'dead');
  },
  'a lease whose attempt has timed out is handed out again': (h) => {
    h.entries.splice(h.entries.findIndex((e) => e.kind === 'cancel'), 4, claim({ t0: 920, t1: 930, token: 'k3', attempt: 3 }), word('ack', { token: 'k3', t0: 940, t1: 950 }));
    reportOf(h).history[1].outcome = 'timed_out';
    reportOf(h).progress = undefined;
    stateOf(h, 'done');
  },
  'a log line whose request had no reply': (h) => h.entries.push(word('log', { token: 'k2', t0: 81, t1: 82, sure: false, ok: false, lines: ['third'] })) && reportOf(h).lines.push('third'),
  'a step whose request had no reply': (h) => h.entries.push(word('step', { token: 'k2', t0: 85, t1: 86, sure: false, ok: false, name: 'pay', result: 3 })) && (reportOf(h).steps.pay = 3),
  'a replacement whose request had no reply': (h) => Object.assign(entry(h, 'letter_requeue'), { sure: false, ok: false, newId: undefined }),
};
for (const [name, change] of Object.entries(allowedReports)) {
  test(`allowed: ${name}`, () => {
    const history = reporting();
    change(history);
    assert.deepEqual(check(history), []);
  });
}

// ---- keepers ----

const kept = (kind, more) => ({ kind: `k_${kind}`, t0: 0, t1: 10, sure: true, ok: true, ...more });
const timed = (n, schedule = 's') => ({ state: 'done', queue: 'k-fired', attributes: { source: 'TRIGGER', schedule, fire_time: `t${n}` } });

/** A commit whose job died, a schedule that fired, a job that holds an item: all promises are kept. */
function keeping() {
  const history = life();
  history.entries.push(
    kept('commit', { mark: 1, payload: { commit: 1 }, id: 'K' }),
    kept('run', { id: 'F' }),
    kept('claim', { t0: 20, t1: 30, id: 'W', token: 'w1', items: [{ id: 'I', token: 'i1' }] }),
    kept('look', { t0: 40, t1: 50, id: 'W', item: 'I', itemToken: 'i1', state: 'running', holder: 'W' }),
    kept('ack', { t0: 60, t1: 70, id: 'I', token: 'i1' }),
    kept('ack', { t0: 80, t1: 90, id: 'W', token: 'w1' }),
    kept('ack', { t0: 80, t1: 90, id: 'P', token: 'p1', handoff: 1, next: 'N' }),
  );
  history.final.keeps = {
    jobs: new Map([
      ['K', { state: 'dead', queue: 'k-jobs', payload: { commit: 1 } }],
      ['F', timed(1)],
      ['I', { state: 'done', queue: 'k-items' }],
      ['W', { state: 'done', queue: 'k-work' }],
      ['P', { state: 'done', queue: 'k-jobs', payload: {} }],
      ['N', { state: 'done', queue: 'k-next', payload: { handoff: 1 } }],
    ]),
    keys: new Map([['["h",1]', { value: 1 }], ['["c",1]', { value: 1 }], ['["u",1]', { value: { commit: 1 } }]]),
    schedules: [{ name: 's', every_ms: 1000, fired: 1 }],
    told: [{ id: 'n1', job: 'K' }],
  };
  return history;
}
const find = (h, kind) => h.entries.find((e) => e.kind === `k_${kind}`);

const brokenKeeping = {
  'C11 a commit without its key': ({ final: { keeps } }) => keeps.keys.delete('["c",1]'),
  'C11 a commit without its job': ({ final: { keeps } }) => keeps.jobs.delete('K') && keeps.keys.delete('["u",1]') && keeps.told.pop(),
  'C11 a confirmed commit is lost': ({ final: { keeps } }) => keeps.jobs.delete('K') && keeps.keys.clear() && keeps.told.pop(),
  'C11 a commit happened twice': (h) => h.entries.push({ ...find(h, 'commit') }),
  'C11 a dead job left no key': ({ final: { keeps } }) => keeps.keys.delete('["u",1]'),
  'C11 a key of a job that did not die': ({ final: { keeps } }) => (keeps.jobs.get('K').state = 'done') && keeps.told.pop(),
  'C11 another payload': ({ final: { keeps } }) => (keeps.keys.get('["u",1]').value = 'other'),
  'C12 two jobs for one time': ({ final: { keeps } }) => keeps.jobs.set('G', timed(1)) && (keeps.schedules[0].fired = 2),
  'C12 a firing without its job': ({ final: { keeps } }) => (keeps.schedules[0].fired = 2),
  'C12 a confirmed firing is lost': ({ final: { keeps } }) => keeps.jobs.delete('F') && (keeps.schedules[0].fired = 0),
  'C13 an item is free while its job lives': (h) => Object.assign(find(h, 'look'), { state: 'ready', holder: undefined }),
  'C13 an item is held by another job': (h) => Object.assign(find(h, 'look'), { holder: 'X' }),
  'C13 an item went to a second job': (h) => {
    h.entries.push(kept('claim', { t0: 32, t1: 34, id: 'X', token: 'x1', items: [{ id: 'I', token: 'i2' }] }));
    h.entries.push(kept('claim', { t0: 36, t1: 38, id: 'W', token: 'w2', items: [{ id: 'I', token: 'i1' }] }));
    h.final.keeps.jobs.set('X', { state: 'done', queue: 'k-work' });
  },
  'C13 an acked item came back': ({ final: { keeps } }) => (keeps.jobs.get('I').state = 'dead') && keeps.told.push({ id: 'n2', job: 'I' }),
  'C14 a death without a notice': ({ final: { keeps } }) => keeps.told.pop(),
  'C14 a notice about a job that is not dead': ({ final: { keeps } }) => keeps.told.push({ id: 'n2', job: 'F' }),
  'C19 a confirmed hand-off is lost': ({ final: { keeps } }) => keeps.jobs.delete('N') && keeps.keys.delete('["h",1]'),
  'C19 a hand-off without its key': ({ final: { keeps } }) => keeps.keys.delete('["h",1]'),
  'C19 a hand-off without its job': ({ final: { keeps } }) => keeps.jobs.delete('N'),
  'C19 a hand-off that happened twice': ({ final: { keeps } }) => keeps.jobs.set('O', keeps.jobs.get('N')),
  'C19 a hand-off of a job that is not done': (h) => Object.assign(h.entries.at(-1), { sure: false, ok: false }) && (h.final.keeps.jobs.get('P').state = 'cancelled'),
  'C19 the ack of a hand-off that was refused': (h) => Object.assign(h.entries.at(-1), { ok: false }) && h.final.keeps.jobs.delete('N') && h.final.keeps.keys.delete('["h",1]'),
  'C14 two notices of one death': ({ final: { keeps } }) => keeps.told.push({ id: 'n2', job: 'K' }),
};
for (const [name, breakIt] of Object.entries(brokenKeeping)) {
  test(`caught: ${name}`, () => {
    const history = keeping();
    breakIt(history);
    assert.ok(names(history).includes(name.split(' ')[0]), `found ${JSON.stringify(check(history))}`);
  });
}

const allowedKeeping = {
  'what keepers do': () => {},
  'an unsure hand-off that is not there': (h) => {
    Object.assign(h.entries.at(-1), { sure: false, ok: false });
    h.final.keeps.jobs.delete('N');
    h.final.keeps.keys.delete('["h",1]');
    h.final.keeps.jobs.get('P').state = 'cancelled';
  },
  'an unsure hand-off that is not there, and a plain ack': (h) => {
    h.entries.splice(-1, 1, kept('ack', { id: 'P', token: 'p0', handoff: 1, sure: false, ok: false }), kept('ack', { id: 'P', token: 'p1' }));
    h.final.keeps.jobs.delete('N');
    h.final.keeps.keys.delete('["h",1]');
  },
  'an unsure commit that is not there': (h) => h.entries.push(kept('commit', { mark: 2, payload: { commit: 2 }, sure: false, ok: false })),
  'an unsure commit that is there': (h) => {
    h.entries.push(kept('commit', { mark: 2, payload: { commit: 2 }, sure: false, ok: false }));
    h.final.keeps.jobs.set('L', { state: 'done', queue: 'k-jobs', payload: { commit: 2 } });
    h.final.keeps.keys.set('["c",2]', { value: 2 });
  },
  'an item that is free, since its job may have ended': (h) => {
    Object.assign(find(h, 'look'), { t0: 82, t1: 95, state: 'ready', holder: undefined });
  },
  'a notice that was delivered twice': ({ final: { keeps } }) => keeps.told.push({ id: 'n1', job: 'K' }),
};
for (const [name, change] of Object.entries(allowedKeeping)) {
  test(`allowed: ${name}`, () => {
    const history = keeping();
    change(history);
    assert.deepEqual(check(history), []);
  });
}
