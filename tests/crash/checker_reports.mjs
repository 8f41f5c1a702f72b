// SPDX-License-Identifier: Apache-2.0
// C15 to C18: cancels of running jobs, the run time of attempts, what workers report about jobs, and jobs that take the place
// of dead ones. The entries are described in checker.mjs; in addition
//
//   fail      {failure: {error, error_type, stack}}: each follows from the lease token
//   progress  {report: {percent, message, data}}, log {lines}, step {name, result}: no two are the same
//   cancel of extend, progress, step and heartbeat: the reply said that a cancel of the job is requested
//   final.reports Map id → {history: [{number, outcome, error, error_type, stack}], progress, steps, lines}
import { isDeepStrictEqual } from 'node:util';

import { groupBy } from './lib/group_by.mjs';

/** The clocks of client and server are the same; the server uses whole milliseconds. */
const SLACK_MS = 50;
/** The server shows this many attempts of a job. */
const HISTORY_MAX = 20;

const surely = (e) => e.sure && e.ok;
const perhaps = (e) => e.ok || !e.sure;

/** C15: a confirmed request to cancel is not lost: its worker learns of it, and the job ends cancelled, or done by an ack in time. */
function c15(x, report) {
  const acks = groupBy(x.of('ack').filter(perhaps), (e) => e.id);
  const ends = groupBy(x.of('ack', 'fail', 'release', 'extend', 'progress', 'step', 'heartbeat').filter((e) => surely(e) && !e.repeat), (e) => e.id);
  for (const e of x.of('cancel').filter((c) => surely(c) && c.requested)) {
    const state = x.history.final.jobs.get(e.id)?.state ?? 'not found';
    const acked = state === 'done' && acks.has(e.id);
    if (state !== 'cancelled' && !acked && !x.requeued(e.id, e.t0, Infinity)) report('C15', `the cancel of job ${e.id} was confirmed, and the job is ${state}`);
    for (const later of ends.get(e.id) ?? []) {
      const lease = x.leaseOf(later.token);
      if (!lease || lease.t1 > e.t0 || later.t0 < e.t1 || x.requeued(e.id, lease.t0, later.t1)) continue;
      if (later.kind === 'ack' && later.t0 > e.deadline + SLACK_MS) report('C15', `job ${e.id} was acked ${later.t0 - e.deadline} ms after its time to react`);
      if (['fail', 'release'].includes(later.kind) && later.state !== 'cancelled') report('C15', `job ${e.id} became ${later.state} by a ${later.kind} after its cancel`);
      if (!later.cancel && ['extend', 'progress', 'step', 'heartbeat'].includes(later.kind)) report('C15', `the reply to ${later.kind} does not mention the cancel of job ${e.id}`);
    }
  }
  const requests = groupBy(x.of('cancel').filter(perhaps), (e) => e.id);
  for (const e of x.of('extend', 'progress', 'step', 'heartbeat').filter((one) => one.cancel))
    if (!(requests.get(e.id) ?? []).some((c) => c.t0 <= e.t1)) report('C15', `the reply to ${e.kind} mentions a cancel of job ${e.id} that no client requested`);
}

/** C16: nothing is accepted from an attempt that has run for longer than allowed, and an attempt ends once. */
function c16(x, report) {
  for (const e of x.of('ack', 'fail', 'release', 'extend', 'progress', 'step', 'log').filter((one) => surely(one) && !one.repeat)) {
    const late = e.t0 - (x.leaseOf(e.token)?.timeoutAt ?? Infinity);
    if (late > SLACK_MS) report('C16', `${e.kind} of job ${e.id} succeeded ${late} ms after the attempt had timed out`);
  }
  const ended = (a) => ['done', 'failed', 'timed_out', 'crashed', 'lease_expired'].includes(a.outcome);
  for (const [id, { history }] of x.history.final.reports) {
    if (x.requeued(id, 0, Infinity)) continue; // The numbers of attempts begin again.
    for (const [number, list] of groupBy(history.filter(ended), (a) => a.number))
      if (list.length > 1) report('C16', `attempt ${number} of job ${id} ended twice: ${list.map((a) => a.outcome).join(', ')}`);
  }
}

const failureIn = ({ error, error_type, stack }) => ({ error, error_type, stack });

function checkFailures(x, report) {
  const sent = groupBy(x.of('fail').filter((e) => e.failure), (e) => e.id);
  const known = (id, shown) => (sent.get(id) ?? []).some((e) => isDeepStrictEqual(failureIn(e.failure), failureIn(shown)));
  const shown = (id, one) => {
    if (one.error?.startsWith('failed under') && !known(id, one)) report('C17', `job ${id} shows an error that no worker sent: ${JSON.stringify(failureIn(one)).slice(0, 200)}`);
  };
  for (const [id, job] of x.history.final.jobs) shown(id, job);
  for (const [id, { history }] of x.history.final.reports) for (const attempt of history) shown(id, attempt);
  for (const e of x.of('fail').filter((one) => surely(one) && one.failure && one.state !== 'cancelled')) {
    const attempts = x.history.final.reports.get(e.id)?.history;
    const found = attempts?.some((a) => isDeepStrictEqual(failureIn(a), failureIn(e.failure)));
    if (attempts && !found && attempts.length < HISTORY_MAX) report('C17', `the failure of job ${e.id} under ${e.token} was confirmed and is not in its history`);
  }
}

function checkLogs(x, report) {
  const logs = groupBy(x.of('log'), (e) => e.id);
  for (const [id, { lines }] of x.history.final.reports) {
    const entries = logs.get(id) ?? [];
    const sent = new Set(entries.filter(perhaps).flatMap((e) => e.lines));
    for (const line of lines) if (!sent.has(line)) report('C17', `the log of job ${id} has a line that no worker sent: ${line}`);
    if (new Set(lines).size < lines.length) report('C17', `the log of job ${id} has a line twice`);
    for (const [token, own] of groupBy(entries.filter(surely), (e) => e.token)) {
      const places = own.flatMap((e) => e.lines).map((line) => lines.indexOf(line));
      if (places.includes(-1)) report('C17', `the log of job ${id} lacks a confirmed line of ${token}`);
      if (places.some((place, i) => i > 0 && place < places[i - 1])) report('C17', `the log of job ${id} has the lines of ${token} in another order`);
    }
  }
}

/** Progress belongs to the newest lease, which is known for certain of a job that was acked. */
function checkProgress(x, report) {
  const reports = groupBy(x.of('progress').filter(perhaps), (e) => e.id);
  const acked = new Map(x.of('ack').filter(surely).map((e) => [e.id, e.token]));
  for (const [id, { progress }] of x.history.final.reports) {
    const sent = reports.get(id) ?? [];
    const same = (e) => isDeepStrictEqual({ percent: progress.percent, message: progress.message, data: progress.data }, e.report);
    const place = progress ? sent.findIndex(same) : -1;
    if (progress && place === -1) report('C17', `job ${id} shows progress that no worker sent: ${JSON.stringify(progress)}`);
    const last = sent.reduce((found, e, i) => (e.sure && e.token === acked.get(id) ? i : found), -1);
    if (last > place) report('C17', `job ${id} lacks the newest confirmed progress of ${acked.get(id)}`);
  }
}

/** The newest result of each step is shown, whichever lease stored it. */
function checkSteps(x, report) {
  const stored = groupBy(x.of('step').filter(perhaps), (e) => e.id);
  for (const [id, { steps = {} }] of x.history.final.reports) {
    const sent = groupBy(stored.get(id) ?? [], (e) => e.name);
    for (const name of Object.keys(steps)) if (!sent.has(name)) report('C17', `job ${id} shows a result of the step ${name} that no worker stored`);
    for (const [name, own] of sent) {
      const place = own.findIndex((e) => isDeepStrictEqual(e.result, steps[name]));
      const last = own.reduce((found, e, i) => (surely(e) ? i : found), -1);
      if (name in steps && place === -1) report('C17', `job ${id} shows a result of the step ${name} that no worker stored: ${JSON.stringify(steps[name])}`);
      else if (last > place) report('C17', `job ${id} lacks the newest confirmed result of the step ${name}`);
    }
  }
}

/** C17: what a worker reported about a job comes back unchanged: errors, progress, lines of the log, results of steps. */
function c17(x, report) {
  checkFailures(x, report);
  checkLogs(x, report);
  checkProgress(x, report);
  checkSteps(x, report);
}

/** C18: a job that takes the place of a dead one: one of them exists, never both, never neither. */
function c18(x, report) {
  const { letters } = x.history.final;
  const copies = groupBy([...letters], ([, job]) => job.marker);
  const sent = groupBy(x.of('letter'), (e) => e.marker);
  for (const [marker, list] of copies) {
    if (!sent.has(marker)) report('C18', `the dead letter ${list[0][0]} has a value that no client sent: ${marker}`);
    if (list.length > 1) report('C18', `message ${marker} exists ${list.length} times: ${list.map(([id]) => id).join(' ')}`);
  }
  for (const [marker, entries] of sent)
    if (entries.some(surely) && !copies.has(marker)) report('C18', `message ${marker} was confirmed and does not exist`);
  const replaced = new Set(x.of('letter_requeue').filter(perhaps).map((e) => e.id));
  for (const e of x.of('letter_requeue').filter(surely)) {
    if (letters.has(e.id)) report('C18', `the dead letter ${e.id} was replaced and still exists`);
    if (!letters.has(e.newId) && !replaced.has(e.newId)) report('C18', `message ${e.newId} was confirmed and does not exist`);
  }
}

/** For a history whose end was read with reports. */
export function checkReports(x, report) {
  if (!x.history.final.reports) return;
  const leases = new Map(x.claims.map((c) => [c.token, c]));
  x.leaseOf = (token) => leases.get(token);
  for (const one of [c15, c16, c17, c18]) one(x, report);
}
