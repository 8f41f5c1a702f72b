// SPDX-License-Identifier: Apache-2.0
// A web crawler: one job per page, one group per host. The queue runs at most two jobs of a host at the same time and lets the hosts
// take turns, so that a large site does not delay the others. A page's links are enqueued in the commit of its ack: no page
// is lost, and none is fetched twice, because its address is the unique key, which is kept after the job has ended.
//
//   HOLDFAST_URL=http://127.0.0.1:8000 node crawler.mjs
import http from 'node:http';

import { FailJob, Holdfast } from 'holdfast';

// Two small sites on this machine, so that the example does not depend on others.
async function openSite(pages) {
  const site = { active: 0, most: 0, fetched: [] };
  const server = http.createServer((request, response) => {
    site.most = Math.max(site.most, ++site.active);
    site.fetched.push(request.url);
    setTimeout(() => {
      site.active--;
      const links = pages[request.url];
      response.writeHead(links ? 200 : 404, { 'content-type': 'text/html' });
      response.end((links ?? []).map((link) => `<a href="${link}">${link}</a>`).join('\n'));
    }, 5);
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  return Object.assign(site, { server, url: `http://127.0.0.1:${server.address().port}` });
}
const numbered = (count) => Array.from({ length: count }, (_, i) => `/page/${i}`);
const large = await openSite({ '/': numbered(30), ...Object.fromEntries(numbered(30).map((page, i) => [page, ['/', `/page/${(i * 7) % 30}`]])) });
const small = await openSite({ '/': ['/about', '/missing'], '/about': ['/'] });

const holdfast = new Holdfast({ url: process.env.HOLDFAST_URL ?? 'http://127.0.0.1:8000', token: process.env.HOLDFAST_TOKEN });
const QUEUE = 'crawl-example';
await holdfast.request('PUT', `/v1/queues/${QUEUE}`, { max_running_per_group: 2, fair: 'group', unique_scope: 'kept', max_attempts: 3, backoff_ms: [100] });

const pageJob = (url) => ({ queue: QUEUE, payload: { url }, unique: url, uniqueMode: 'return', group: new URL(url).host });
let [fetched, missing] = [0, 0];

const worker = holdfast.worker(
  QUEUE,
  async ({ payload: { url } }, ctx) => {
    const page = await fetch(url, { signal: ctx.signal });
    if (page.status === 404) throw new FailJob('the page does not exist', { kind: 'business', retry: false });
    if (!page.ok) throw new Error(`status ${page.status}`);
    const links = [...(await page.text()).matchAll(/href="([^"]+)"/g)].map(([, link]) => new URL(link, url).href);
    ctx.onAck({ enqueues: [...new Set(links)].map(pageJob) });
    return { links: links.length };
  },
  { concurrency: 8, hooks: { done: () => fetched++, failed: () => missing++, error: (error) => console.error(error.message) } },
);

for (const { url } of [large, small]) {
  const { queue, payload, ...options } = pageJob(`${url}/`);
  await holdfast.enqueue(queue, payload, options);
}
await worker.stop({ drain: true });
await holdfast.close();
for (const { server } of [large, small]) {
  server.closeAllConnections();
  server.close();
}
for (const site of [large, small]) if (new Set(site.fetched).size !== site.fetched.length) throw new Error(`fetched twice: ${site.fetched}`);
console.log(`done: ${fetched} pages, ${missing} missing; at most ${large.most} at the same time`);
