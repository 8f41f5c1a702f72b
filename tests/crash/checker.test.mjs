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
      { kind: 'enqueue', t0: 0, t1: 10, sure: true, created: true, id: 'A', marker: 'mA', priority: 0 },
      { kind: 'claim', t0: 20, t1: 30, id: 'A', token: 'k1', attempt: 1, marker: 'mA', lease: LEASE, maxAttempts: 10 },
      { kind: 'ack', t0: 40, t1: 50, id: 'A', token: 'k1', sure: true, ok: true, repeat: false },
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
const names = (history) => [...new Set(check(history).map((v) => v.check))];
const claim = (more) => ({ kind: 'claim', t0: 100, t1: 110, id: 'A', token: 'k2', attempt: 2, marker: 'mA', lease: LEASE, maxAttempts: 10, ...more });

test('an ordinary life is fine', () => assert.deepEqual(check(life()), []));

const broken = {
  'C1 a confirmed enqueue is lost': (h) => h.final.jobs.delete('A'),
  'C1 a confirmed ack is lost': (h) => (h.final.jobs.get('A').state = 'dead'),
  'C2 a payload nobody sent': (h) => (h.final.jobs.get('A').marker = 'other'),
  'C2 one enqueue made two jobs': (h) => h.final.jobs.set('B', { state: 'done', queue: 'q', marker: 'mA' }),
  'C3 handed out after the ack': (h) => h.entries.push(claim({ t0: 5000, t1: 5010 })),
  'C4 two live leases': (h) => h.entries.splice(2, 1, claim({ t0: 32, t1: 38 })),
  'C4 two live leases, the first one refused': (h) => {
    h.entries[2].ok = false;
    h.entries.push(claim({ t0: 52, t1: 58 }), { ...h.entries[2], t0: 60, t1: 65, token: 'k2', ok: true });
  },
  'C5 a token twice': (h) => h.entries.splice(2, 0, claim({ token: 'k1', t0: 2000, t1: 2010 })),
  'C5 an older token succeeds': (h) => {
    h.entries[2] = { ...h.entries[2], t0: 3000, t1: 3010 };
    h.entries.splice(2, 0, claim({ t0: 1500, t1: 1510 }));
  },
  'C6 attempts fall': (h) => {
    h.entries[1].attempt = 3;
    h.entries.splice(2, 0, claim({ t0: 1500, t1: 1510, attempt: 2 }));
    h.entries[3].token = 'k2';
  },
  'C6 too many attempts': (h) => (h.entries[1].attempt = 11),
  'C7 order': (h) => h.ordered.reverse(),
  'C8 a key live twice': (h) => {
    h.entries[0].unique = 'u';
    h.entries.push({ ...h.entries[0], t0: 15, t1: 20, id: 'B', marker: 'mB' });
    h.final.jobs.set('B', { state: 'done', queue: 'q', marker: 'mB' });
  },
  'C9 too early': (h) => (h.entries[0].runAt = 500),
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

test('a claim forgotten by a crash is no second lease', () => {
  const history = life();
  history.entries.splice(2, 0, claim({ t0: 200, t1: 210 }));
  history.entries[3] = { ...history.entries[3], token: 'k2', t0: 300, t1: 310 };
  assert.deepEqual(names(history), ['C4']);
  history.crashes.push({ at: 60, ready: 150 });
  assert.deepEqual(names(history), []);
});

test('an unsure enqueue may or may not be there', () => {
  const history = life();
  history.entries.push({ kind: 'enqueue', t0: 0, t1: 10, sure: false, created: false, marker: 'mB', priority: 0 });
  assert.deepEqual(names(history), []);
  history.final.jobs.set('B', { state: 'done', queue: 'q', marker: 'mB' });
  assert.deepEqual(names(history), []);
});
