// SPDX-License-Identifier: Apache-2.0
// HF-19: requests that pages can make Chromium send to the ports of the server. Pages of other sites, and a page whose name
// resolves to the beanstalk port, use every way to send a request; nothing runs and nothing is consumed.
import assert from 'node:assert/strict';
import http from 'node:http';
import net from 'node:net';
import { after, before, describe, test } from 'node:test';

import { chromium } from 'playwright-core';

import { Beanstalk, startBeanstalk } from '../lib/beanstalk.mjs';
import { Client } from '../lib/client.mjs';
import { startServer, stopServer, until } from '../lib/server.mjs';

const flags = [
  '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync',
  // Names of other sites that resolve to this address, as with DNS rebinding.
  '--host-resolver-rules=MAP evil.example 127.0.0.1, MAP jobs.example 127.0.0.1',
  // The test must not pass only because of the browser's own protection.
  '--disable-features=LocalNetworkAccessChecks,BlockInsecurePrivateNetworkRequests,PrivateNetworkAccessSendPreflights,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable',
  '--ignore-certificate-errors',
];

const commands = '\r\nput 0 0 60 6\r\nforged\r\nreserve-with-timeout 0\r\ndelete 1\r\nkick 10\r\npause-tube default 3600\r\nuse forged\r\nwatch forged\r\n';

/** Every way to send a request, called in a page as way(url, body). None of them waits for a reply. */
const posts = {
  'fetch, no-cors': (url, body) => void fetch(url, { method: 'POST', mode: 'no-cors', body }).catch(() => {}),
  'fetch, cors, plain text': (url, body) => void fetch(url, { method: 'POST', headers: { 'content-type': 'text/plain' }, body }).catch(() => {}),
  'fetch, cors, a preflight': (url, body) => void fetch(url, { method: 'POST', headers: { 'content-type': 'application/json' }, body }).catch(() => {}),
  'fetch, a method of its own': (url, body) => void fetch(url, { method: 'use', body }).catch(() => {}),
  'XMLHttpRequest': (url, body) => {
    const request = new XMLHttpRequest();
    request.open('POST', url);
    request.send(body);
  },
  'a beacon': (url, body) => navigator.sendBeacon(url, body),
  'a form of plain text': (url, body) => {
    const form = Object.assign(document.createElement('form'), { method: 'POST', enctype: 'text/plain', action: url, target: `sink${++window.sinks}` });
    document.body.append(Object.assign(document.createElement('iframe'), { name: form.target }), form);
    form.append(Object.assign(document.createElement('input'), { type: 'hidden', name: body, value: '' }));
    form.submit();
  },
  'a multipart form': (url, body) => {
    const form = Object.assign(document.createElement('form'), { method: 'POST', enctype: 'multipart/form-data', action: url, target: `sink${++window.sinks}` });
    document.body.append(Object.assign(document.createElement('iframe'), { name: form.target }), form);
    form.append(Object.assign(document.createElement('textarea'), { name: 'a', value: body }));
    form.submit();
  },
};
const gets = {
  'fetch, no-cors, GET': (url) => void fetch(url, { mode: 'no-cors' }).catch(() => {}),
  'fetch, no-cors, no Referer': (url) => void fetch(url, { mode: 'no-cors', referrerPolicy: 'no-referrer' }).catch(() => {}),
  'fetch, cors, GET': (url) => void fetch(url).catch(() => {}),
  'an EventSource': (url) => {
    const source = new EventSource(url);
    source.onerror = () => source.close();
  },
  'an image': (url) => void (new Image().src = url),
  'an image without Referer': (url) => void Object.assign(new Image(), { referrerPolicy: 'no-referrer', src: url }),
  'a script': (url) => document.head.append(Object.assign(document.createElement('script'), { src: url })),
  'a script without Referer': (url) => document.head.append(Object.assign(document.createElement('script'), { referrerPolicy: 'no-referrer', src: url })),
  'a style sheet': (url) => document.head.append(Object.assign(document.createElement('link'), { rel: 'stylesheet', href: url })),
  'a prefetch': (url) => document.head.append(Object.assign(document.createElement('link'), { rel: 'prefetch', href: url })),
  'a video': (url) => document.body.append(Object.assign(document.createElement('video'), { src: url, preload: 'auto' })),
  'a frame': (url) => document.body.append(Object.assign(document.createElement('iframe'), { src: url })),
  'a frame without Referer': (url) => document.body.append(Object.assign(document.createElement('iframe'), { referrerPolicy: 'no-referrer', src: url })),
  'a form, GET': (url) => {
    const form = Object.assign(document.createElement('form'), { method: 'GET', action: url, target: `sink${++window.sinks}` });
    // The fields replace the query of the address.
    for (const [name, value] of new URL(url).searchParams) form.append(Object.assign(document.createElement('input'), { type: 'hidden', name, value }));
    document.body.append(Object.assign(document.createElement('iframe'), { name: form.target }), form);
    form.submit();
  },
  'a WebSocket': (url) => void (new WebSocket(url.replace(/^http/, 'ws')).onerror = () => {}),
};
const tls = {
  'https': (url) => void fetch(url.replace(/^http:/, 'https:'), { mode: 'no-cors' }).catch(() => {}),
  'a WebSocket over TLS': (url) => void (new WebSocket(url.replace(/^http:/, 'wss:')).onerror = () => {}),
};

/** A proxy between the browser and a port of the server, which records both directions of each connection. */
class Tap {
  constructor(port) {
    this.connections = [];
    this.listener = net.createServer((near) => this.#join(near, net.connect(port, '127.0.0.1')));
  }
  async open() {
    await new Promise((resolve, reject) => this.listener.once('error', reject).listen(0, '127.0.0.1', resolve));
    this.port = this.listener.address().port;
    return this;
  }
  #join(near, far) {
    const connection = { sent: '', answered: '', closed: false, near };
    this.connections.push(connection);
    near.on('data', (chunk) => (connection.sent += chunk.toString('latin1')) && far.write(chunk));
    far.on('data', (chunk) => (connection.answered += chunk.toString('latin1')) && near.write(chunk));
    for (const socket of [near, far]) socket.on('error', () => {});
    near.on('close', () => far.end());
    far.on('close', () => {
      connection.closed = true;
      near.destroy();
    });
  }
  #count = (text, pattern) => text.match(pattern)?.length ?? 0;
  /** The requests for this path that have arrived. */
  requests = (path) => this.connections.reduce((sum, { sent }) => sum + sent.split(` ${path}`).length - 1, 0);
  hellos = () => this.connections.filter(({ sent }) => sent.startsWith('\x16\x03')).length;
  /** Every request has its reply, or the server has closed its connection. */
  settled = () => this.connections.every(({ sent, answered, closed }) => closed || this.#count(answered, /^HTTP\/1\.1 (?!1)/gm) >= this.#count(sent, /^\S+ \S+ HTTP\/1\.1\r$/gm));
  answers = () => this.connections.map(({ answered }) => answered).join('');
  statuses = () => [...new Set(this.connections.flatMap(({ answered }) => [...answered.matchAll(/^HTTP\/1\.1 (\d+)/gm)].map(([, status]) => Number(status))))];
  close() {
    for (const { near } of this.connections) near.destroy();
    this.listener.close();
  }
}

describe('Chromium against every port', () => {
  let browser, strangers, server, api, control;
  const taps = [];
  const tap = async (port) => taps[taps.push(await new Tap(port).open()) - 1];
  const page = async (address) => {
    const opened = await browser.newPage();
    await opened.goto(address);
    return opened;
  };
  /** State that would change if a request created or took a job, a message, an item or a tube. */
  const everything = async () => {
    const jobs = (await api.get('/v1/jobs?limit=1000')).json.jobs.map(({ seq, queue, state, attempts }) => [seq, queue, state, attempts]);
    const queues = (await api.get('/v1/queues?limit=1000')).json.queues.map(({ name, paused, counts }) => [name, paused, counts]);
    const { workers } = (await api.get('/v1/workers')).json;
    const figures = Object.entries(await control.stats('stats')).filter(([key]) => /^(cmd-(?!stats$)|total-jobs|current-jobs|current-tubes|current-workers|current-producers)/.test(key));
    return { jobs, queues, workers, figures: Object.fromEntries(figures), keys: (await api.get('/v1/kv')).json };
  };
  /** Each way by itself, until `reached` says that its bytes have come and the server has ended it. Each request has its own
   * URL: a browser that has not noticed the end of a request for the same URL yet would join it instead of sending another. */
  let tries = 0;
  const tryAll = async (origin, ways, wire, urls, reached) => {
    const before = await everything();
    const from = await page(origin);
    await from.evaluate('window.sinks = 0');
    for (const [name, way] of Object.entries(ways)) {
      for (const address of urls) {
        const url = new URL(address);
        url.searchParams.set('try', String(++tries));
        const path = url.pathname + url.search;
        const count = reached(wire, path);
        await from.evaluate(`(${way})(${JSON.stringify(url.href)}, ${JSON.stringify(commands)}); undefined`);
        await until(`${name} from ${origin} has come to ${url.href}`, () => reached(wire, path) > count && wire.settled());
      }
    }
    await from.close();
    assert.deepEqual(await everything(), before);
  };
  const requested = (wire, path) => wire.requests(path);
  const sentHello = (wire) => wire.hellos();

  before(async () => {
    strangers = http.createServer((request, response) => {
      response.setHeader('content-type', 'text/html');
      response.end('<!doctype html><title>another site</title><body>');
    });
    await new Promise((resolve) => strangers.listen(0, '127.0.0.1', resolve));
    server = await startBeanstalk({ backend: 'sqlite', args: ['--hosts', 'jobs.example'] });
    api = new Client(server);
    control = await Beanstalk.connect(server.beanstalk);
    assert.equal(await control.put('victim'), 1);
    assert.equal((await api.post('/keyval/api/queue/enqueue', { value: 'victim' })).status, 200);
    const queue = await api.post('/api/queues', { name: 'invoices', max_retries: 1 });
    assert.equal(queue.status, 201, queue.text);
    const item = await api.post('/api/queue-items/add', { queue_name: 'invoices', payload: 1 });
    assert.equal(item.status, 201, item.text);
    browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: flags, chromiumSandbox: false, timeout: 120_000 });
  });
  after(async () => {
    await browser?.close();
    for (const wire of taps) wire.close();
    await control?.close();
    api?.close();
    if (server) await stopServer(server);
    strangers?.closeAllConnections();
    strangers?.close();
  });

  const origins = () => ['evil.example', '127.0.0.1'].map((host) => `http://${host}:${strangers.address().port}/`);

  test('HF-19 a page of another site runs nothing on the beanstalk port', async () => {
    const wire = await tap(server.beanstalk);
    for (const origin of origins()) {
      await tryAll(origin, { ...posts, ...gets }, wire, [`http://127.0.0.1:${wire.port}/x`], requested);
      await tryAll(origin, tls, wire, [`http://127.0.0.1:${wire.port}/x`], sentHello);
    }
    assert.equal(wire.answers(), '');
  });

  test('HF-19 a page whose name resolves to the beanstalk port runs nothing there, even with methods that are commands', async () => {
    const wire = await tap(server.beanstalk);
    const own = `http://evil.example:${wire.port}/`;
    const before = await everything();
    const from = await browser.newPage();
    await from.route(own, (route) => route.fulfill({ contentType: 'text/html', body: '<!doctype html><title>the same origin</title>' }));
    await from.goto(own);
    const methods = ['POST', 'use', 'watch', 'ignore', 'put', 'reserve', 'reserve-with-timeout', 'reserve-job', 'delete', 'release', 'bury', 'touch', 'kick', 'kick-job', 'peek', 'peek-ready', 'stats', 'stats-tube', 'list-tubes', 'pause-tube', 'quit', 'PRI'];
    for (const method of methods) {
      for (const path of ['/x', `/${'a'.repeat(1000)}`]) {
        const count = wire.requests(path);
        await from.evaluate(([to, how, body]) => void fetch(to, { method: how, body, headers: { use: 'x', stats: 'x' } }).catch(() => {}), [path, method, commands]);
        await until(`${method} ${path.slice(0, 10)} has come`, () => wire.requests(path) > count && wire.settled());
      }
    }
    await from.close();
    assert.ok(wire.connections.some(({ sent }) => sent.startsWith('use /x HTTP/1.1\r\n')), 'the browser sends such methods');
    assert.equal(wire.answers(), '');
    assert.deepEqual(await everything(), before);
  });

  const consuming = ['/keyval/api/queue/poll', '/keyval/api/queue/listen', '/api/queue-items/next?queue_name=invoices&robot_id=7', '/v1/backup'];
  const changing = ['/v1/queues/default/jobs', '/v1/queues/default/claim', '/keyval/api/queue/enqueue'];

  // Chromium does not say which site asks when the name is neither secure nor a loopback one.
  for (const host of ['127.0.0.1', 'jobs.example']) {
    test(`HF-19 a page of another site changes nothing on the port of HTTP, as ${host}`, async () => {
      const [wire, dark] = [await tap(server.port), await tap(server.port)];
      for (const origin of origins()) {
        await tryAll(origin, gets, wire, consuming.map((path) => `http://${host}:${wire.port}${path}`), requested);
        await tryAll(origin, posts, wire, changing.map((path) => `http://${host}:${wire.port}${path}`), requested);
        await tryAll(origin, tls, dark, [`http://${host}:${dark.port}/v1/queues`], sentHello);
      }
      assert.deepEqual(wire.statuses(), [403]);
      assert.deepEqual(dark.statuses(), [400]);
      const named = wire.connections.some(({ sent }) => /^sec-fetch-site/im.test(sent));
      assert.equal(named, host === '127.0.0.1', 'whether the browser says Sec-Fetch-Site');
    });

    test(`HF-19 the address bar consumes nothing, as ${host}`, async () => {
      const at = `http://${host}:${server.port}`;
      const before = await everything();
      const from = await page(`${at}/healthz`);
      for (const path of consuming) {
        const response = await from.goto(at + path);
        assert.equal(response.status(), 403, path);
        assert.match((await response.json()).detail, /address bar/);
      }
      await from.close();
      assert.deepEqual(await everything(), before);
    });
  }
});

describe('Chromium on pages of the server itself', () => {
  let browser, server, api;
  before(async () => {
    server = await startServer({ backend: 'memory', args: ['--hosts', 'jobs.example'] });
    api = new Client(server);
    browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: flags, chromiumSandbox: false, timeout: 120_000 });
  });
  after(async () => {
    await browser?.close();
    api?.close();
    if (server) await stopServer(server);
  });

  for (const host of ['127.0.0.1', 'jobs.example']) {
    test(`HF-19 fetch and EventSource may consume, as ${host}`, async () => {
      const from = await browser.newPage();
      await from.goto(`http://${host}:${server.port}/healthz`);
      const queue = `own-${host}`;
      for (const payload of ['first', 'second']) assert.equal((await api.post(`/v1/queues/${queue}/jobs`, { payload })).status, 201);
      const polled = await from.evaluate((path) => fetch(path).then(async (answer) => [answer.status, await answer.text()]), `/keyval/api/queue/poll?queue=${queue}`);
      assert.equal(polled[0], 200, polled[1]);
      assert.match(polled[1], /"first"/);
      const heard = await from.evaluate((path) => new Promise((resolve) => {
        const source = new EventSource(path);
        source.onmessage = ({ data }) => resolve(data) ?? source.close();
        source.onerror = () => resolve('refused');
      }), `/keyval/api/queue/listen?queue=${queue}`);
      assert.match(heard, /"second"/);
      await from.close();
    });
  }

  test('HF-19 programs may consume: fetch() of Node, which sends some headers of a browser', async () => {
    assert.equal((await api.post('/v1/queues/program/jobs', { payload: 'third' })).status, 201);
    const answer = await fetch(`${server.url}/keyval/api/queue/poll?queue=program`);
    assert.equal(answer.status, 200);
    assert.match(await answer.text(), /"third"/);
  });
});
