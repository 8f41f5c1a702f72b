// SPDX-License-Identifier: Apache-2.0
// What the types promise; checked by tsd.
import { expectAssignable, expectError, expectType } from 'tsd';

import { type Enqueued, FailJob, Holdfast, type HoldfastError, type Job, type JobContext, LeaseLostError, ProblemError, type Worker } from '../dist/esm/index.js';

interface Mail {
  to: string;
}
interface Queues {
  mail: { payload: Mail; result: number };
  plain: { payload: string };
}

const typed = new Holdfast<Queues>({ url: 'http://localhost:8000' });
expectType<Promise<Enqueued>>(typed.enqueue('mail', { to: 'ann' }));
expectType<Promise<Enqueued>>(typed.enqueue('plain', 'text', { delayMs: 5, runAt: new Date(), priority: 'high' }));
expectError(typed.enqueue('mail', { to: 7 }));
expectError(typed.enqueue('other', {}));
expectError(typed.enqueue('mail', { to: 'ann' }, { delay: 5 }));
expectType<Promise<(Enqueued | { error: HoldfastError })[]>>(typed.enqueueMany('mail', [{ payload: { to: 'ann' }, unique: 'u' }]));

const worker = typed.worker('mail', async (job, ctx) => {
  expectType<Mail>(job.payload);
  expectAssignable<Job<Mail>>(job);
  expectType<JobContext<Mail>>(ctx);
  expectType<AbortSignal>(ctx.signal);
  expectType<number>(await ctx.step('pay', () => 7));
  return 5;
});
expectType<Worker<Mail, number>>(worker);
expectError(typed.worker('mail', () => 'a text'));
typed.worker('plain', (job) => expectType<string>(job.payload));

const untyped = new Holdfast('http://localhost:8000');
void untyped.enqueue('anything', { any: 'payload' });
untyped.worker('anything', (job) => job.payload.whatever);
untyped.worker(['a', 'b'], () => undefined, { concurrency: 5, hooks: { failed: (_job, _error, reply) => expectType<string>(reply.id) } });

expectAssignable<ProblemError>({} as LeaseLostError);
expectType<string>(new FailJob('no', { retry: false, kind: 'business' }).code);
expectError(new FailJob('no', { kind: 'other' }));
