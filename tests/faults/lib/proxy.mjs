// SPDX-License-Identifier: Apache-2.0
// A proxy between a node and its database that can stall, refuse connections, and close a connection at an exact place:
// after a request has passed, before its reply does.
import net from 'node:net';
import { fileURLToPath } from 'node:url';

export class Proxy {
  /** target: as for net.connect. */
  constructor(target) {
    this.target = target;
    this.mode = 'pass';
    this.pairs = new Set();
    this.cuts = [];
    this.server = net.createServer((client) => this.take(client));
  }

  async listen(host = '127.0.0.1') {
    await new Promise((resolve, reject) => this.server.once('error', reject).listen(0, host, resolve));
    this.port = this.server.address().port;
    return this;
  }

  take(client) {
    if (this.mode === 'refuse') {
      client.destroy();
      return;
    }
    const pair = { client, server: net.connect(this.target), held: [], said: '', cut: null };
    this.pairs.add(pair);
    const end = () => (pair.late ? this.pairs.delete(pair) : this.end(pair)); // held bytes must still be sent
    for (const one of [pair.client, pair.server]) one.on('error', end).on('close', end);
    pair.client.on('data', (bytes) => this.ask(pair, bytes));
    pair.server.on('data', (bytes) => this.answer(pair, bytes));
  }

  end(pair) {
    this.pairs.delete(pair);
    pair.client.destroy();
    pair.server.destroy();
  }

  /** Statements are sent as text once a connection, and by name from then on. */
  ask(pair, bytes) {
    const text = bytes.toString('latin1');
    pair.said = (pair.said + text).slice(-1_000_000);
    const cut = this.cuts.find((one) => one.matches(pair, text));
    if (cut) {
      this.cuts.splice(this.cuts.indexOf(cut), 1);
      if (cut.before) {
        cut.done();
        this.end(pair);
        return;
      }
      pair.cut = cut;
    }
    this.pass(pair, pair.server, bytes);
  }

  answer(pair, bytes) {
    if (pair.cut?.hold) {
      pair.late = [...(pair.late ?? []), bytes];
      pair.cut.done(this.release(pair, pair.cut.on));
    } else if (pair.cut) {
      pair.cut.done();
      this.end(pair);
    } else {
      this.pass(pair, pair.client, bytes);
    }
  }

  /** Sends the held bytes; on: the connection continues then. kept(): the held bytes so far. */
  release(pair, on) {
    const kept = () => Buffer.concat(pair.late);
    const say = () => {
      const bytes = kept();
      pair.late = pair.cut = null;
      if (on) pair.client.write(bytes);
      else pair.client.end(bytes);
    };
    return Object.assign(say, { kept });
  }

  pass(pair, to, bytes) {
    if (this.mode === 'stall') pair.held.push([to, bytes]);
    else to.write(bytes);
  }

  /** The number of held pieces. */
  held() {
    return [...this.pairs].reduce((n, pair) => n + pair.held.length, 0);
  }

  /** 'pass' | 'stall': nothing passes, nothing is closed | 'refuse': connections are refused. */
  set(mode) {
    this.mode = mode;
    if (mode === 'refuse') for (const pair of this.pairs) this.end(pair);
    if (mode === 'pass') for (const pair of this.pairs) for (const [to, bytes] of pair.held.splice(0)) to.write(bytes);
  }

  /** Once: closes the connection whose next request contains `marker`, and which has sent `known` before;
   * before: the request is swallowed, else its answer; hold: the answer is kept, however the server ends, until
   * the function that this gives is called; that ends the connection, unless on. Resolves when that has happened. */
  cut({ marker = '', known = '', before = false, hold = false, on = false }) {
    return new Promise((done) => {
      this.cuts.push({ before, hold, on, done, matches: (pair, text) => text.includes(marker) && pair.said.includes(known) });
    });
  }

  close() {
    this.set('refuse');
    this.server.close();
  }
}

// As a program: node proxy.mjs HOST SOCKET prints its port, and ends with its standard input.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , host, path] = process.argv;
  const proxy = await new Proxy({ path }).listen(host);
  console.log(proxy.port);
  process.stdin.on('end', () => process.exit(0)).resume();
}
