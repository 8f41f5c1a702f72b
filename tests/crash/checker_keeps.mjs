// SPDX-License-Identifier: Apache-2.0
// C11 to C14, and C19: checks of what keepers (lib/keepers.mjs) saw. Their part of a history:
//
//   k_commit {mark, payload, id?, version?}   k_run {id?}   k_item {id?}
//   k_claim  {id, token, queue, items: [{id, token}]}   k_ack | k_fail | k_release {id, token, state?, handoff?, next?}
//   k_look   {item, itemToken, id, state, holder}: an item of job `id`, as it was shown
//   final.keeps {jobs: Map id → {state, queue, payload, attributes}, keys: Map JSON of key → {value},
//                schedules: [{name, fired}], told: [{id, job}]}
//
// No job or key is removed, so the state at the end is everything that became durable.
import { groupBy } from './lib/group_by.mjs';

const surely = (e) => e.sure && e.ok;

/** C11: the key and the job of a commit exist together or not at all; the key that a job leaves exists exactly if the job died. */
function c11(x, report) {
  const { jobs, keys } = x.keeps;
  const made = groupBy([...jobs].filter(([, job]) => job.payload?.commit !== undefined), ([, job]) => job.payload.commit);
  for (const [mark, entries] of groupBy(x.of('k_commit'), (e) => e.mark)) {
    const found = made.get(mark) ?? [];
    const key = keys.has(JSON.stringify(['c', mark]));
    const left = keys.get(JSON.stringify(['u', mark]));
    if (found.length > 1) report('C11', `commit ${mark} made ${found.length} jobs`);
    if (key !== found.length > 0) report('C11', `commit ${mark} left its ${key ? 'key' : 'job'} alone`);
    if (entries.some(surely) && !key) report('C11', `commit ${mark} was confirmed and is not there`);
    if (entries.filter(surely).length > 1) report('C11', `commit ${mark} happened twice`);
    const dead = found[0]?.[1].state === 'dead';
    if (dead !== (left !== undefined)) report('C11', `job ${found[0]?.[0]} is ${found[0]?.[1].state}, and its key is ${left ? '' : 'not '}there`);
    if (left && JSON.stringify(left.value) !== JSON.stringify(entries[0].payload)) report('C11', `job ${found[0]?.[0]} left another payload`);
  }
}

/** C12: one job at most for each time of a schedule; each job counted; no firing lost. */
function c12(x, report) {
  const { jobs, schedules } = x.keeps;
  const fired = [...jobs].filter(([, job]) => job.attributes?.source === 'TRIGGER');
  for (const schedule of schedules) {
    const own = fired.filter(([, job]) => job.attributes.schedule === schedule.name);
    if (own.length !== schedule.fired) report('C12', `${schedule.name} fired ${schedule.fired} times, and there are ${own.length} jobs`);
    if (schedule.every_ms !== 1000) continue;
    for (const [time, list] of groupBy(own, ([, job]) => job.attributes.fire_time))
      if (list.length > 1) report('C12', `${schedule.name} made ${list.length} jobs for ${time}: ${list.map(([id]) => id).join(' ')}`);
  }
  for (const e of x.of('k_run', 'k_claim', 'k_item'))
    if (surely(e) && e.id && !jobs.has(e.id)) report('C12', `job ${e.id} was seen and is not there`);
}

/** C13: the items of a job are held by it alone until a client ends the job or the item. */
function c13(x, report) {
  const ends = groupBy(x.of('k_ack', 'k_fail', 'k_release'), (e) => e.id);
  const jobEnds = (id, until) => (ends.get(id) ?? []).some((e) => e.kind !== 'k_release' && e.t0 <= until);
  const itemEnds = (id, token, until) => (ends.get(id) ?? []).some((e) => e.token === token && e.t0 <= until);
  for (const e of x.of('k_look').filter(surely)) {
    if (jobEnds(e.id, e.t1) || itemEnds(e.item, e.itemToken, e.t1)) continue;
    if (e.state !== 'running' || e.holder !== e.id) report('C13', `item ${e.item} of job ${e.id} is ${e.state}, held by ${e.holder}`);
  }
  const claims = x.of('k_claim').filter((e) => e.items.length > 0);
  const holders = groupBy(claims.flatMap((c) => c.items.map((item) => ({ ...c, item }))), (c) => c.item.id);
  for (const [item, list] of holders) {
    for (const a of list)
      for (const b of list)
        if (a.id < b.id && a.t0 > b.t1 && !jobEnds(a.id, a.t1) && !itemEnds(item, a.item.token, a.t1))
          report('C13', `item ${item} went to job ${b.id} while job ${a.id} held it`);
  }
  for (const [token, list] of groupBy([...holders.values()].flat(), (c) => c.item.token))
    if (new Set(list.map((c) => c.id)).size > 1) report('C13', `token ${token} was given to two jobs`);
  for (const e of x.of('k_ack').filter(surely))
    if (x.keeps.jobs.get(e.id)?.state !== 'done') report('C13', `job ${e.id} was acked, and is ${x.keeps.jobs.get(e.id)?.state ?? 'not there'}`);
}

/** C14: there is one notice for each job that died and no other notice; each was delivered at least once. */
function c14(x, report) {
  const { jobs, told } = x.keeps;
  const of = groupBy(told, (one) => one.job);
  for (const [id, job] of jobs)
    if (job.state === 'dead' && !of.has(id)) report('C14', `job ${id} died without a notice`);
  for (const [id, list] of of) {
    if (jobs.get(id)?.state !== 'dead') report('C14', `job ${id} was reported dead, and is ${jobs.get(id)?.state ?? 'not there'}`);
    if (new Set(list.map((one) => one.id)).size > 1) report('C14', `job ${id} died once, and there were several notices`);
  }
}

/** C19: the job and the key that an ack hands off exist together, and exactly if the acked job is done by it. */
function c19(x, report) {
  const { jobs, keys } = x.keeps;
  const acks = groupBy(x.of('k_ack'), (e) => e.id);
  const made = groupBy([...jobs].filter(([, job]) => job.payload?.handoff !== undefined), ([, job]) => job.payload.handoff);
  const mayHaveEnded = (e) => (e.handoff ? made.has(e.handoff) : e.ok || !e.sure);
  for (const [mark, entries] of groupBy(x.of('k_ack').filter((e) => e.handoff), (e) => e.handoff)) {
    const { id } = entries[0];
    const count = made.get(mark)?.length ?? 0;
    const key = keys.has(JSON.stringify(['h', mark]));
    const done = jobs.get(id)?.state === 'done';
    if (count > 1) report('C19', `hand-off ${mark} made ${count} jobs`);
    if (key !== count > 0) report('C19', `hand-off ${mark} left its ${key ? 'key' : 'job'} alone`);
    if (count > 0 && !done) report('C19', `hand-off ${mark} exists, and job ${id} is ${jobs.get(id)?.state ?? 'not there'}`);
    if (count === 0 && entries.some(surely)) report('C19', `hand-off ${mark} was confirmed and is not there`);
    if (done && !acks.get(id).some(mayHaveEnded)) report('C19', `job ${id} is done, and hand-off ${mark} is not there`);
  }
}

/** For a history that keepers were part of. */
export function checkKeeps(x, report) {
  x.keeps = x.history.final.keeps;
  for (const one of x.keeps ? [c11, c12, c13, c14, c19] : []) one(x, report);
}
