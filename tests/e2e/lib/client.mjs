// SPDX-License-Identifier: Apache-2.0
// HTTP as the program of a user sends it (Client), as raw bytes (rawExchange), and server-sent events.
import http from 'node:http';
import net from 'node:net';

export class Client {
  constructor(server, { retryUnavailable = server.backend?.startsWith('fault+') ?? false } = {}) {
    this.server = server;
    this.retry = retryUnavailable;
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 64 });
  }

  close() {
    this.agent.destroy();
  }

  /** One request; resolves to {status, headers, text, json}. `json` or `body` is sent. */
  once(method, path, { json, body, headers = {}, signal } = {}) {
    const bytes = json !== undefined ? JSON.stringify(json) : body;
    const all = { ...headers };
    if (json !== undefined && !('content-type' in all)) all['content-type'] = 'application/json';
    if (bytes !== undefined) all['content-length'] = Buffer.byteLength(bytes);
    return new Promise((resolve, reject) => {
      const request = http.request(
        { host: this.server.host, port: this.server.port, socketPath: this.server.socketPath, method, path, headers: all, agent: this.agent, signal },
        (response) => {
          const chunks = [];
          response.on('data', (chunk) => chunks.push(chunk));
          response.on('error', reject);
          response.on('end', () => {
            const raw = Buffer.concat(chunks);
            const text = raw.toString('utf8');
            const type = response.headers['content-type'] ?? '';
            const isJson = /json/.test(type) && text.length > 0;
            resolve({ status: response.statusCode, headers: response.headers, raw, text, json: isJson ? JSON.parse(text) : undefined });
          });
        },
      );
      request.on('error', reject);
      request.end(bytes);
    });
  }

  /**
   * With a store that fails from time to time, a request that gets 503 or 504 is repeated, as a client should do; if
   * nothing can be done twice, also when this is the result of one job of many. `repeated`: an earlier attempt may have
   * done all or a part of it.
   */
  async request(method, path, options = {}) {
    const parts = options.headers?.['idempotency-key'] !== undefined || /^\/v1\/(ack|fail|extend|release)$/.test(path);
    for (let tries = 0, repeated = false; ; tries++) {
      const answer = { ...(await this.once(method, path, options)), repeated };
      const told = [answer.status, ...(parts ? (answer.json?.jobs ?? []).map((job) => job.error?.status) : [])];
      if (!this.retry || tries > 200 || !(told.includes(503) || told.includes(504))) return answer;
      repeated ||= told.length > 1 || answer.status === 504;
    }
  }

  get(path, options) {
    return this.request('GET', path, options);
  }
  post(path, json, options = {}) {
    return this.request('POST', path, { json, ...options });
  }
  put(path, json, options = {}) {
    return this.request('PUT', path, { json, ...options });
  }
  patch(path, json, options = {}) {
    return this.request('PATCH', path, { json, ...options });
  }
  delete(path, options) {
    return this.request('DELETE', path, options);
  }
}

/** Sends bytes on a new connection and collects the reply until the server closes or `done` holds. */
export function rawExchange(server, bytes, { done = () => false, limitMs = 60_000 } = {}) {
  return new Promise((resolve, reject) => {
    const socket = net.connect(server.port, server.host);
    let text = '';
    const timer = setTimeout(() => finish(new Error(`no end after ${limitMs} ms; got: ${text}`)), limitMs);
    const finish = (error) => {
      clearTimeout(timer);
      socket.destroy();
      if (error) reject(error);
      else resolve(text);
    };
    socket.setEncoding('latin1');
    socket.on('data', (chunk) => {
      text += chunk;
      if (done(text)) finish();
    });
    socket.on('end', () => finish());
    socket.on('error', (error) => (text ? finish() : finish(error)));
    for (const piece of Array.isArray(bytes) ? bytes : [bytes]) socket.write(piece, 'latin1');
  });
}

/** Server-sent events: `await stream.next()` returns {event, id, data}; `close()` closes the connection. */
export function openStream(server, path, { method = 'GET', json, headers = {} } = {}) {
  const waiting = [];
  const ready = [];
  let failure = null;
  const push = (item) => (waiting.length ? waiting.shift().resolve(item) : ready.push(item));
  const fail = (error) => {
    failure = error;
    for (const { reject } of waiting.splice(0)) reject(error);
  };
  const body = json === undefined ? undefined : JSON.stringify(json);
  const all = body === undefined ? headers : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...headers };
  const stream = { status: null, headers: null, comments: 0 };
  stream.opened = new Promise((resolve, reject) => {
    stream.request = http.request({ host: server.host, port: server.port, method, path, headers: all, agent: false }, (response) => {
      stream.status = response.statusCode;
      stream.headers = response.headers;
      let rest = '';
      response.setEncoding('utf8');
      response.on('data', (chunk) => {
        rest += chunk;
        for (let end; (end = rest.indexOf('\n\n')) >= 0; rest = rest.slice(end + 2)) {
          const item = {};
          for (const line of rest.slice(0, end).split('\n')) {
            if (line.startsWith(':')) {
              stream.comments++;
              continue;
            }
            const colon = line.indexOf(':');
            const value = line.slice(colon + 1).replace(/^ /, '');
            const name = line.slice(0, colon);
            item[name] = name === 'data' && 'data' in item ? `${item.data}\n${value}` : value;
          }
          if ('event' in item || 'data' in item) push(item);
        }
      });
      response.on('end', () => fail(new Error('the stream ended')));
      response.on('error', fail);
      resolve(stream);
    });
    stream.request.on('error', (error) => {
      fail(error);
      reject(error);
    });
    stream.request.end(body);
  });
  stream.next = () =>
    ready.length
      ? Promise.resolve(ready.shift())
      : failure
        ? Promise.reject(failure)
        : new Promise((resolve, reject) => waiting.push({ resolve, reject }));
  stream.ended = () => failure !== null;
  stream.close = () => stream.request.destroy();
  stream.opened.catch(() => {});
  return stream;
}
