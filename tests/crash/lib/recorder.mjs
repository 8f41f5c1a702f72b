// SPDX-License-Identifier: Apache-2.0
// Sends HTTP requests to a server that is killed and restarted, and records what was seen (the format is described
// at the top of ../checker.mjs). After a broken connection the outcome is not known.
import http from 'node:http';

export const now = () => performance.timeOrigin + performance.now();
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** A small seeded generator, so that the plan of a failing run can be repeated. */
export function randomOf(seed) {
  let s = seed >>> 0 || 1;
  const next = () => {
    s ^= s << 13;
    s ^= s >>> 17;
    s ^= s << 5;
    s >>>= 0;
    return s;
  };
  for (let i = 0; i < 8; i++) next(); // small seeds begin alike
  return { below: (n) => next() % n, chance: (percent) => next() % 100 < percent, of: (list) => list[next() % list.length] };
}

/** Statuses that say whether the change happened: 503 and 507 mean that it did not; below 500 the reply says so. */
const surelyAnswered = (status) => (status > 0 && status < 500) || status === 503 || status === 507;

/** A server without memory may send an error without a body. */
function parse(method, path, status, text) {
  if (status >= 500 && text === '') return {};
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${method} ${path}: ${status} with a body that is no JSON: ${text.slice(0, 200)} (${error.message})`);
  }
}

export class Recorder {
  constructor(seed) {
    this.random = randomOf(seed);
    this.history = { entries: [], crashes: [], ordered: [], final: null };
    this.server = null;
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 256 });
    this.setUp = () => {};
    this.hold();
  }

  /** The server is ready (again). */
  serve(server) {
    this.server = server;
    this.setUp();
  }

  /** The server is about to be killed: new requests wait, and outstanding ones continue until the connection breaks. */
  hold() {
    this.setUp();
    this.up = new Promise((resolve) => (this.setUp = resolve));
  }

  /** The server has ended. */
  down() {
    this.agent.destroy();
    this.agent = new http.Agent({ keepAlive: true, maxSockets: 256 });
  }

  /** Closes idle connections, so that the next requests need new ones. */
  reconnect() {
    for (const sockets of Object.values(this.agent.freeSockets)) for (const socket of [...sockets]) socket.destroy();
  }

  record(entry) {
    this.history.entries.push(entry);
    return entry;
  }

  /** For good: callers get no reply, so that the clients stop. */
  abandon() {
    this.call = () => new Promise(() => {});
    this.down();
  }

  /** {sure, status, json, t0, t1}; sure: a reply arrived that says whether the change happened. */
  async call(method, path, json = {}, headers = {}) {
    for (let gate; gate !== this.up; await gate) gate = this.up;
    const t0 = now();
    try {
      const { status, text } = await this.exchange(method, path, JSON.stringify(json), headers);
      return { sure: surelyAnswered(status), status, json: parse(method, path, status, text), t0, t1: now() };
    } catch (error) {
      if (error.code === undefined && error.message !== 'cut off') throw error;
      await pause(2);
      return { sure: false, status: 0, t0, t1: now() };
    }
  }

  exchange(method, path, body, more) {
    const { host, port } = this.server;
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body), ...more };
    return new Promise((resolve, reject) => {
      const request = http.request({ host, port, method, path, headers, agent: this.agent }, (response) => {
        let text = '';
        response.setEncoding('utf8');
        response.on('data', (chunk) => (text += chunk));
        response.on('error', reject);
        response.on('end', () => (response.complete ? resolve({ status: response.statusCode, text }) : reject(new Error('cut off'))));
      });
      request.on('error', reject);
      request.end(body);
    });
  }

  /** Records what every reply says; callers add the outcome. */
  seen(kind, answer, more) {
    return this.record({ kind, t0: answer.t0, t1: answer.t1, sure: answer.sure, ok: answer.status === 200 || answer.status === 201, ...more });
  }
}
