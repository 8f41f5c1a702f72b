// SPDX-License-Identifier: Apache-2.0
// One who pauses, cancels, requeues and purges. `scratch` and `purged` are queues of its own: on the first
// it acts in bulk, in the second there are only enqueues and purges, so what must be left is known.
import { batch, WORK_QUEUES } from './producers.mjs';
import { pause } from './recorder.mjs';
import { end, noteClaim } from './workers.mjs';

export const OWN_QUEUES = ['scratch', 'purged'];

async function pauseAndResume(load) {
  const queue = load.random.of(WORK_QUEUES);
  const forMs = 20 + load.random.below(150);
  load.seen('pause', await load.call('POST', `/v1/queues/${queue}/pause`, { for_ms: forMs }), { queue, forMs });
  await pause(load.random.below(100));
  if (load.random.chance(60)) load.seen('resume', await load.call('POST', `/v1/queues/${queue}/resume`), { queue });
}

/** One of the last confirmed jobs, whatever it is doing now. */
async function cancelOne(load) {
  const entry = load.recentJob();
  if (entry && load.seen('cancel', await load.call('POST', `/v1/jobs/${entry.id}/cancel`), { id: entry.id }).ok) load.backlog--;
}

async function requeueOne(load) {
  const path = `/v1/jobs?queue=${load.random.of(WORK_QUEUES)}&state=dead,cancelled&order=newest&payload=false&limit=5`;
  const list = await load.call('GET', path);
  if (list.status !== 200 || list.json.jobs.length === 0) return;
  const { id } = load.random.of(list.json.jobs);
  if (load.seen('requeue', await load.call('POST', `/v1/jobs/${id}/requeue`), { id }).ok) load.backlog++;
}

async function purge(load) {
  await batch(load, 'purged');
  if (load.random.chance(50)) load.seen('purge', await load.call('POST', '/v1/queues/purged/purge'), { queue: 'purged' });
}

async function inBulk(load) {
  await batch(load, 'scratch');
  const answer = await load.call('POST', '/v1/queues/scratch/claim', { count: 4, lease_ms: 1000, worker: 'administrator' });
  const jobs = answer.status === 200 ? answer.json.jobs : [];
  for (const job of jobs) noteClaim(load, job, answer);
  for (const job of jobs) await (load.random.chance(50) ? end(load, 'ack', job) : end(load, 'fail', job, { retry: false }));
  const [action, states] = load.random.of([['cancel', ['ready']], ['requeue', ['dead']], ['requeue', ['cancelled', 'dead']]]);
  load.seen(`bulk_${action}`, await load.call('POST', `/v1/queues/scratch/${action}`, { states }), { queue: 'scratch' });
}

export async function administrator(load) {
  while (load.producing) {
    await load.random.of([pauseAndResume, cancelOne, cancelOne, requeueOne, purge, inBulk])(load);
    await pause(load.random.below(40));
  }
}
