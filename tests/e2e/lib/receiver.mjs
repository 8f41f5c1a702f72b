// SPDX-License-Identifier: Apache-2.0
// A receiver of webhooks: it keeps the requests and replies as configured.
import http from 'node:http';

import { until } from './server.mjs';

export class Receiver {
  constructor() {
    this.requests = [];
    /** The reply: a status, or a function of (request, response) that replies itself. */
    this.answer = 200;
    this.server = http.createServer((request, response) => this.#take(request, response));
    this.sockets = new Set();
    this.server.on('connection', (socket) => {
      this.sockets.add(socket);
      socket.on('close', () => this.sockets.delete(socket));
    });
  }

  #take(request, response) {
    const chunks = [];
    request.on('data', (chunk) => chunks.push(chunk));
    request.on('end', () => {
      const raw = Buffer.concat(chunks).toString('utf8');
      const kept = { method: request.method, url: request.url, headers: request.headers, raw, json: JSON.parse(raw) };
      this.requests.push(kept);
      if (typeof this.answer === 'function') this.answer(kept, response);
      else response.writeHead(this.answer).end('thank you');
    });
    request.on('error', () => {});
  }

  async listen(port = 0) {
    await new Promise((resolve, reject) => {
      this.server.once('error', reject);
      this.server.listen(port, '127.0.0.1', resolve);
    });
    this.port = this.server.address().port;
    this.url = `http://127.0.0.1:${this.port}/in`;
    return this;
  }

  /** The first `count` requests that `which` holds for. */
  wait(count = 1, which = () => true, limitMs) {
    return until(`${count} deliveries`, () => {
      const found = this.requests.filter(which);
      return found.length >= count ? found : null;
    }, limitMs);
  }

  async close() {
    for (const socket of this.sockets) socket.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }
}
