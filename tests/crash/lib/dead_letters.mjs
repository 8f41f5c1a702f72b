// SPDX-License-Identifier: Apache-2.0
// A client of the keyval API: its messages die at the first nack, and a requeue puts a new message in the place of a dead
// letter in one commit. ../checker_reports.mjs checks that each message exists exactly once at the end.
import { pause } from './recorder.mjs';

const API = '/keyval/api/queue';
export const DEAD_LETTER_QUEUE = 'keyval';

let markers = 0;

async function enqueue(load) {
  const marker = `letter-${++markers}`;
  const answer = await load.call('POST', `${API}/enqueue`, { value: { marker }, options: { backoffSchedule: [] } });
  load.seen('letter', answer, { marker, id: answer.json?.id });
}

async function requeue(load) {
  const list = await load.call('GET', `${API}/dlq?limit=5`);
  if (list.status !== 200 || list.json.length === 0) return;
  const { id } = load.random.of(list.json);
  const answer = await load.call('POST', `${API}/dlq/${id}/requeue`);
  load.seen('letter_requeue', answer, { id, newId: answer.json?.newId });
}

/** Polls until the queues are drained, so that every message ends as a dead letter. */
async function reject(load) {
  while (load.working) {
    const { json } = await load.call('GET', `${API}/poll`);
    if (json?.message) await load.call('POST', `${API}/nack`, { id: json.message.id, error: 'rejected' });
    else await pause(20);
  }
}

async function produce(load) {
  while (load.producing) {
    await load.random.of([enqueue, requeue])(load);
    await pause(load.random.below(40));
  }
}

export const startDeadLetters = (load) => ({ producer: produce(load), worker: reject(load) });
