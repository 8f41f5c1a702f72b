// SPDX-License-Identifier: Apache-2.0
// Memory, timers and connections of a worker do not grow with the number of jobs. HF_LEAK_JOBS is the number (30,000).
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';

import { execute } from '../../e2e/lib/program.mjs';
import { startServer, stopServer } from '../../e2e/lib/server.mjs';

const jobs = Number(process.env.HF_LEAK_JOBS ?? 30_000);
const client = new URL('../../../clients/js/dist/esm/index.js', import.meta.url).href;
/** Growth of the heap, in bytes, that is not a leak: compiled code, caches of fetch. */
const NOISE = 3_000_000;

const program = `
import { FailJob, Holdfast, ReleaseJob } from '${client}';
const holdfast = new Holdfast(process.argv[1]);
let [ended, wake] = [0, () => {}];
const worker = holdfast.worker('leaks', async (job, ctx) => {
  ctx.signal.addEventListener('abort', () => {});
  if (job.payload.n % 500 === 0) await ctx.progress(50);
  if (job.payload.n % 500 === 1) ctx.log('a line');
  if (job.payload.n % 100 === 2) throw new FailJob('no', { retry: false });
  return job.payload;
}, { concurrency: 50, prefetch: 100, hooks: { done: () => { ended++; wake(); }, failed: () => { ended++; wake(); }, error: (error) => { throw error; } } });
async function process_(count) {
  const goal = ended + count;
  for (let from = 0; from < count; from += 1000) {
    await holdfast.enqueueMany('leaks', Array.from({ length: 1000 }, (_, i) => ({ payload: { n: from + i, text: 'x'.repeat(100) } })));
    while (ended < goal - count + from + 1000) await new Promise((resolve) => (wake = resolve));
  }
}
const state = async () => {
  await new Promise((resolve) => setTimeout(resolve, 300));
  for (let i = 0; i < 3; i++) { gc(); await new Promise((resolve) => setTimeout(resolve, 20)); }
  const resources = process.getActiveResourcesInfo();
  return { heap: process.memoryUsage().heapUsed, timers: resources.filter((name) => name === 'Timeout').length, sockets: resources.filter((name) => /TCP|TLS/.test(name)).length };
};
await process_(${Math.min(10_000, jobs)});
const before = await state();
await process_(${jobs});
const after = await state();
await worker.stop();
await holdfast.close();
console.log(JSON.stringify({ before, after }));
`;

let server;
before(async () => (server = await startServer()));
after(() => stopServer(server));

test(`${jobs} jobs leave nothing behind`, async () => {
  const { code, stdout, stderr } = await execute(process.execPath, ['--expose-gc', '--unhandled-rejections=strict', '--input-type=module', '-e', program, server.url]);
  assert.equal(code, 0, stderr);
  const { before: first, after: last } = JSON.parse(stdout);
  console.log(`# heap ${first.heap} → ${last.heap} bytes, ${first.timers} → ${last.timers} timers, ${first.sockets} → ${last.sockets} sockets`);
  assert.ok(last.heap - first.heap < NOISE, stdout);
  assert.ok(last.timers <= first.timers + 2, stdout);
  assert.ok(last.sockets <= first.sockets + 2, stdout);
});
