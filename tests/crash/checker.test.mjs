// SPDX-License-Identifier: Apache-2.0
// The checker is checked first: a history for each promise, kept and broken.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { check } from './checker.mjs';

const LEASE = 1000;

/** One job's ordinary life, as a base to break. */
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

test('an ordinary life is fine', () => assert.deepEqual(check(life()), []));

const broken = {
  'C1 a confirmed enqueue is lost': (h) => h.entries.splice(1) && gone(h),
  'C1 a job is lost, purged before it was there': (h) => h.entries.splice(1, 2, done('purge', { t0: -20, t1: -10 })) && gone(h),
  'C1 a confirmed ack is lost': (h) => stateOf(h, 'dead'),
  'C1 a last failure is lost': (h) => (h.entries[2] = word('fail', { state: 'dead' })),
  'C1 a cancel is lost': (h) => h.entries.splice(2, 1, done('cancel')),
  'C2 a payload nobody sent': (h) => (h.final.jobs.get('A').marker = 'other'),
  'C2 a claim brings a payload nobody sent': (h) => (h.entries[1].marker = 'other'),
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

/** What is allowed looks much like what is not. */
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
  'a purge of which nobody knows whether it happened': (h) => h.entries.splice(1, 2, done('purge', { sure: false, ok: false })),
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

// ---- keepers ----

const kept = (kind, more) => ({ kind: `k_${kind}`, t0: 0, t1: 10, sure: true, ok: true, ...more });
const timed = (n, schedule = 's') => ({ state: 'done', queue: 'k-fired', attributes: { source: 'TRIGGER', schedule, fire_time: `t${n}` } });

/** A commit whose job died, a time that was fired, a job that holds an item: nothing is wrong with it. */
function keeping() {
  const history = life();
  history.entries.push(
    kept('commit', { mark: 1, payload: { commit: 1 }, id: 'K' }),
    kept('run', { id: 'F' }),
    kept('claim', { t0: 20, t1: 30, id: 'W', token: 'w1', items: [{ id: 'I', token: 'i1' }] }),
    kept('look', { t0: 40, t1: 50, id: 'W', item: 'I', itemToken: 'i1', state: 'running', holder: 'W' }),
    kept('ack', { t0: 60, t1: 70, id: 'I', token: 'i1' }),
    kept('ack', { t0: 80, t1: 90, id: 'W', token: 'w1' }),
  );
  history.final.keeps = {
    jobs: new Map([
      ['K', { state: 'dead', queue: 'k-jobs', payload: { commit: 1 } }],
      ['F', timed(1)],
      ['I', { state: 'done', queue: 'k-items' }],
      ['W', { state: 'done', queue: 'k-work' }],
    ]),
    keys: new Map([['["c",1]', { value: 1 }], ['["u",1]', { value: { commit: 1 } }]]),
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
  'C14 nobody was told of a death': ({ final: { keeps } }) => keeps.told.pop(),
  'C14 told of a death that was none': ({ final: { keeps } }) => keeps.told.push({ id: 'n2', job: 'F' }),
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
