// SPDX-License-Identifier: Apache-2.0
// What passes the proxy, as the history that tests/crash/checker.mjs reads. The proxy stands where the client does: what it drops,
// the client has not seen.
import { now } from '../../../crash/lib/recorder.mjs';

const answered = (status) => (status > 0 && status < 500) || status === 503 || status === 507;

/** The marker of a payload of the chaos test, whose first action is ["note", marker]. */
export const markerOf = (payload) => payload?.[0]?.[1];

export class Recording {
  constructor({ leaseMs, maxAttempts }) {
    this.history = { entries: [], crashes: [], ordered: [], final: null };
    this.leaseMs = leaseMs;
    this.maxAttempts = maxAttempts;
  }

  /** `seen`: {path, body, t0}; reply: {status, body} or null if the client got none. */
  note(seen, reply) {
    const base = { t0: seen.t0, t1: now(), sure: reply !== null && answered(reply.status), ok: reply?.status === 200 || reply?.status === 201 };
    const path = seen.path.split('/').slice(2); // v1/…
    if (path[0] === 'queues' && path[2] === 'jobs') this.enqueues(seen, reply, base, path[1]);
    else if (path[path.length - 1] === 'claim') this.claims(reply, base);
    else if (path[0] === 'workers') this.heartbeat(seen, reply, base);
    else if (['ack', 'fail', 'release'].includes(path[0])) this.reports(path[0], seen, reply, base);
    else if (path[0] === 'jobs' && ['ack', 'fail', 'release', 'extend'].includes(path[2])) this.report(path[2], { id: path[1], ...seen.body }, reply?.body, base);
  }

  enqueues(seen, reply, base, queue) {
    const jobs = Array.isArray(seen.body) ? seen.body : [seen.body];
    const outcomes = base.ok ? (reply.body.jobs ?? [reply.body]) : [];
    jobs.forEach((job, i) => {
      const outcome = outcomes[i] ?? {};
      const created = outcome.created === true || outcome.duplicate_of !== undefined;
      this.history.entries.push({ kind: 'enqueue', ...base, queue, marker: markerOf(job.payload), created: base.ok && !outcome.error && created, repeat: outcome.created === false, id: outcome.id });
    });
  }

  claims(reply, base) {
    if (!base.ok) return;
    for (const job of reply.body.jobs)
      this.history.entries.push({ kind: 'claim', ...base, queue: job.queue, id: job.id, token: job.token, attempt: job.attempt, marker: markerOf(job.payload), lease: this.leaseMs, bound: false, maxAttempts: this.maxAttempts });
  }

  heartbeat(seen, reply, base) {
    const lost = new Set(reply?.body?.lost_tokens);
    for (const { id, token } of seen.body?.leases ?? []) this.history.entries.push({ kind: 'extend', ...base, ok: base.ok && !lost.has(token), id, token, repeat: false, lease: this.leaseMs });
  }

  reports(kind, seen, reply, base) {
    (seen.body.jobs ?? []).forEach((job, i) => {
      const outcome = base.ok ? reply.body.jobs[i] : undefined;
      const status = outcome?.error?.status;
      this.report(kind, job, outcome, { ...base, sure: base.sure && (status === undefined || answered(status)), ok: base.ok && status === undefined });
    });
  }

  report(kind, { id, token }, outcome, base) {
    const runAt = outcome?.run_at && Date.parse(outcome.run_at);
    this.history.entries.push({ kind, ...base, id, token, repeat: outcome?.repeat === true, state: outcome?.state, runAt, lease: kind === 'extend' ? this.leaseMs : undefined });
  }
}
