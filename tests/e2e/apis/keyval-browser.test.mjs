// SPDX-License-Identifier: Apache-2.0
// KV-13: the JavaScript consumer of the keyval document, unchanged, in Chromium: from a page of the
// server itself, and from a page of another origin that is on the allow-list.
import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, describe, test } from 'node:test';

import { chromium } from 'playwright-core';

import { Client } from '../lib/client.mjs';
import { blocks, documentText } from '../lib/documents.mjs';
import { startServer, stopServer, until } from '../lib/server.mjs';

// As it is printed; paths are those of the page's own origin.
const [consumer] = blocks(documentText('001-keyval'), 'javascript');

/** A script of the page: the first delivery of a message that requests it fails. */
const worker = `
const tried = new Set();
window.processed = [];
async function processMessage(value) {
  if (value.failOnce && !tried.has(value.n)) {
    tried.add(value.n);
    throw new Error("not yet");
  }
  window.processed.push(value.n);
}
`;

const flags = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'];

describe('the printed consumer in Chromium', () => {
  let browser, other, server, api;

  before(async () => {
    // A page of another origin; <base> turns the relative paths of the consumer into paths of the server,
    // which EventSource and fetch both follow.
    other = http.createServer((request, response) => {
      response.setHeader('content-type', 'text/html');
      response.end(`<!doctype html><base href="${server.url}/"><title>another site</title>`);
    });
    await new Promise((resolve) => other.listen(0, '127.0.0.1', resolve));
    const origin = `http://127.0.0.1:${other.address().port}`;
    server = await startServer({ backend: 'sqlite', args: ['--origins', origin] });
    server.friend = origin;
    api = new Client(server);
    browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: flags, chromiumSandbox: false });
  });

  after(async () => {
    await browser?.close();
    api?.close();
    if (server) await stopServer(server);
    other?.closeAllConnections();
    other?.close();
  });

  const run = async (address) => {
    const page = await browser.newPage();
    const said = [];
    page.on('console', (message) => said.push(message.text()));
    await page.goto(address);
    const opened = page.waitForResponse((response) => response.url().endsWith('/queue/listen'));
    await page.addScriptTag({ content: worker + consumer });
    return { page, said, opened };
  };
  const enqueue = (value) => api.post('/keyval/api/queue/enqueue', { value, options: { backoffSchedule: [10, 10] } });
  const stats = async () => (await api.get('/keyval/api/queue/stats')).json;

  for (const where of ['the same origin', 'another origin on the allow-list']) {
    test(`KV-13 from ${where}: messages are processed, acknowledged, and retried after a nack`, async () => {
      const { page, said, opened } = await run(where === 'the same origin' ? `${server.url}/healthz` : server.friend);
      assert.equal((await opened).status(), 200);
      const first = (await enqueue({ n: 1 })).json.id;
      const second = (await enqueue({ n: 2, failOnce: true })).json.id;
      await until('both are processed and gone', async () => (await stats()).total === 0 && (await page.evaluate('window.processed.length')) === 2);
      assert.deepEqual((await page.evaluate('window.processed')).sort(), [1, 2]);
      assert.ok(said.includes(`Processing: ${first}, attempt: 1`), said.join('\n'));
      assert.ok(said.includes(`Processing: ${second}, attempt: 2`), said.join('\n'));
      const held = (await enqueue({ n: 3 })).json.id;
      await until('the third is gone', async () => (await api.get(`/v1/jobs/${held}`)).status === 404);
      await page.close();
    });
  }

  test('KV-13 a page that is not on the list is refused', async () => {
    const stranger = http.createServer((request, response) => {
      response.setHeader('content-type', 'text/html');
      response.end(`<!doctype html><base href="${server.url}/"><title>a stranger</title>`);
    });
    await new Promise((resolve) => stranger.listen(0, '127.0.0.1', resolve));
    try {
      const page = await browser.newPage();
      await page.goto(`http://127.0.0.1:${stranger.address().port}`);
      await page.addScriptTag({ content: worker + consumer.replace('const eventSource', 'window.eventSource') });
      await until('the browser gave up', () => page.evaluate('window.eventSource.readyState === EventSource.CLOSED'));
      const { id } = (await enqueue({ n: 9 })).json;
      assert.equal((await api.get(`/v1/jobs/${id}`)).json.state, 'ready');
      await page.close();
    } finally {
      stranger.closeAllConnections();
      stranger.close();
    }
  });
});
