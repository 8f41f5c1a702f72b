// SPDX-License-Identifier: Apache-2.0
// A mail sender: the queue starts at most 20 mails per second, because the mail server allows no more. Errors that may pass are
// tried again after a growing time; an address that does not exist is not tried again.
//
//   HOLDFAST_URL=http://127.0.0.1:8000 node mailer.mjs
import { FailJob, Holdfast, ReleaseJob } from 'holdfast';

const holdfast = new Holdfast({ url: process.env.HOLDFAST_URL ?? 'http://127.0.0.1:8000', token: process.env.HOLDFAST_TOKEN });

await holdfast.request('PUT', '/v1/queues/mail-example', {
  claim_rate: { count: 20, window_ms: 1000, per: 'queue' },
  max_attempts: 4,
  backoff_ms: [50, 100, 200],
});

// This stands for a mail server: the first call for each address of busy.example gets a temporary error.
const seen = new Set();
async function deliver({ to }) {
  const domain = to.split('@')[1];
  if (domain === 'unknown.example') return { status: 550, text: 'no such mailbox' };
  if (domain === 'busy.example' && !seen.has(to)) {
    seen.add(to);
    return { status: 451, text: 'try again later' };
  }
  if (domain === 'closed.example' && !seen.has(to)) {
    seen.add(to);
    return { status: 421, text: 'service not available' };
  }
  return { status: 250, text: 'queued' };
}

const addresses = ['ann@example.org', 'bob@busy.example', 'carol@unknown.example', 'dave@closed.example', ...Array.from({ length: 30 }, (_, i) => `reader${i}@example.org`)];
const outcomes = { sent: 0, refused: 0, retried: 0, postponed: 0 };
let open = addresses.length;
let allEnded;
const ended = new Promise((resolve) => (allEnded = resolve));
const oneEnded = () => --open === 0 && allEnded();

const worker = holdfast.worker(
  'mail-example',
  async (job, ctx) => {
    const reply = await deliver(job.payload);
    ctx.log(`${reply.status} ${reply.text}`);
    if (reply.status === 421) throw new ReleaseJob(reply.text, { delayMs: 50 }); // the fault of the server: no attempt is counted
    if (reply.status >= 500) throw new FailJob(reply.text, { kind: 'business', retry: false });
    if (reply.status >= 400) throw new FailJob(reply.text);
    return reply;
  },
  {
    concurrency: 10,
    hooks: {
      done: () => (outcomes.sent++, oneEnded()),
      failed: (job, error, { state }) => (state === 'dead' ? (outcomes.refused++, oneEnded()) : outcomes.retried++),
      released: () => outcomes.postponed++,
      error: (error) => console.error(error.message),
    },
  },
);

// The unique key keeps a mail from being sent twice if this program is started twice.
await holdfast.enqueueMany('mail-example', addresses.map((to) => ({ payload: { to, subject: 'News' }, unique: to, kind: 'newsletter' })));
await ended;
await worker.stop();
await holdfast.close();
console.log(`done: ${JSON.stringify(outcomes)}`);
