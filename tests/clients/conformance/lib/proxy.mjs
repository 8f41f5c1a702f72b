// SPDX-License-Identifier: Apache-2.0
// The network between a client and the server: it passes requests on, records them, and does to them what rules say.
import http from 'node:http';

import { now } from '../../../crash/lib/recorder.mjs';

export class Proxy {
  /**
   * For chaos.mjs: `recording.note(request, reply)` is called for each request, with null if the client got no reply, and then
   * the requests are not kept; `mishap()` returns what happens to a request: {drop} as in a rule, or {delayMs}.
   */
  recording = null;
  mishap = undefined;

  constructor() {
    this.rules = [];
    this.requests = [];
    this.held = new Map();
    this.agent = new http.Agent({ keepAlive: true, maxSockets: Infinity });
    this.sockets = new Set();
    this.server = http.createServer((request, response) => this.handle(request, response));
    this.server.on('connection', (socket) => {
      this.sockets.add(socket);
      socket.on('close', () => this.sockets.delete(socket));
    });
  }

  async open() {
    await new Promise((resolve) => this.server.listen(0, '127.0.0.1', resolve));
    this.url = `http://127.0.0.1:${this.server.address().port}`;
  }

  async close() {
    for (const socket of this.sockets) socket.destroy();
    this.agent.destroy();
    await new Promise((resolve) => this.server.close(resolve));
  }

  /** `server` is the one of lib/server.mjs, which can be another one after a restart. */
  target(server) {
    this.to = { host: server.host, port: server.port };
  }

  setRules(rules) {
    this.rules = rules.map((rule) => ({ ...rule, left: rule.times ?? Infinity }));
  }

  unhold(name) {
    const held = this.held.get(name);
    if (!held) throw new Error(`the proxy holds no reply ${name}`);
    this.held.delete(name);
    held();
  }

  ruleFor(path) {
    if (this.mishap) return this.mishap();
    const rule = this.rules.find((one) => one.left > 0 && new RegExp(one.path).test(path));
    if (rule) rule.left--;
    return rule ?? {};
  }

  async handle(request, response) {
    const chunks = [];
    try {
      for await (const chunk of request) chunks.push(chunk);
    } catch {
      return; // the client has gone
    }
    const body = Buffer.concat(chunks);
    const rule = this.ruleFor(request.url);
    const seen = { method: request.method, path: request.url, headers: request.headers, body: parsed(body), t0: now() };
    if (!this.recording) this.requests.push(seen);
    if (rule.drop === 'request') return this.lose(request, seen);
    if (rule.reply) {
      const { status, headers = {}, body: text = '' } = rule.reply;
      const json = typeof text === 'string' ? text : JSON.stringify(text);
      response.writeHead(status, { 'content-type': typeof text === 'string' ? 'text/plain' : 'application/json', ...headers });
      return response.end(json);
    }
    this.pass(request, response, body, rule, seen);
  }

  /** The client gets no reply. */
  lose(request, seen) {
    request.socket.destroy();
    if (seen.lost) return;
    seen.lost = true;
    this.recording?.note(seen, null);
  }

  pass(request, response, body, rule, seen) {
    const onward = http.request({ ...this.to, method: request.method, path: request.url, headers: request.headers, agent: this.agent }, (reply) => {
      const chunks = [];
      reply.on('data', (chunk) => chunks.push(chunk));
      reply.on('error', () => this.lose(request, seen));
      reply.on('end', () => {
        const bytes = Buffer.concat(chunks);
        const send = () => {
          if (request.socket.destroyed) return this.lose(request, seen);
          response.writeHead(reply.statusCode, reply.headers);
          response.end(bytes);
          this.recording?.note(seen, { status: reply.statusCode, body: parsed(bytes) });
        };
        if (rule.drop === 'reply') this.lose(request, seen);
        else if (rule.delayMs) setTimeout(send, rule.delayMs);
        else if (rule.hold) this.held.set(rule.hold, send);
        else send();
      });
    });
    onward.on('error', () => this.lose(request, seen));
    // The server must notice that the client does not wait any more.
    response.on('close', () => response.writableFinished || onward.destroy());
    onward.end(body);
  }
}

function parsed(body) {
  try {
    return body.length ? JSON.parse(body.toString('utf8')) : null;
  } catch {
    return body.toString('utf8');
  }
}
