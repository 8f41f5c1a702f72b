// SPDX-License-Identifier: Apache-2.0
// An administrator: it pauses queues and cancels, requeues and purges jobs. The queues `scratch` and `purged` are its own: on
// the first it acts in bulk; the second has only enqueues and purges, so it is known which jobs must be left.
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

/** The cancel of a running job is a request (202), unless it is forced. */
async function cancel(load, id, body = {}) {
  const answer = await load.call('POST', `/v1/jobs/${id}/cancel`, body);
  const requested = answer.status === 202;
  const deadline = requested ? Date.parse(answer.json.cancel_deadline) : undefined;
  const entry = load.seen('cancel', answer, { id, requested, deadline, ok: answer.status === 200 || requested });
  if (entry.ok && !requested) load.backlog--;
}

/** One of the last confirmed jobs, in any state. */
async function cancelRecent(load) {
  const entry = load.recentJob();
  if (entry) await cancel(load, entry.id);
}

/** Cancels jobs that workers hold for a while. */
export async function cancelHeld(load) {
  while (load.producing) {
    const held = [...load.held.values()];
    if (held.length > 0) await cancel(load, load.random.of(held).id, load.random.chance(20) ? { force: true } : {});
    await pause(load.random.below(60));
  }
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
    await load.random.of([pauseAndResume, cancelRecent, cancelRecent, requeueOne, purge, inBulk])(load);
    await pause(load.random.below(40));
  }
}
