// SPDX-License-Identifier: Apache-2.0
// The network between Holdfast and its database, for tests in which it fails.
import net from 'node:net';
import path from 'node:path';

import { freePort } from './ports.mjs';

/** Where the server of scripts/with-postgres has its socket. */
export const postgresDirectory = () => decodeURIComponent(process.env.HF_POSTGRES.replace(/.*host=/, '').replace(/&.*/, ''));

/** Forwards what `near` sends to `far`; when one of them closes, so does the other. `sockets` is the set of open ones. */
export function joinSockets(sockets, near, far) {
  for (const socket of [near, far]) {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.on('close', () => {
      sockets.delete(socket);
      near.destroy();
      far.destroy();
    });
  }
  near.on('data', (chunk) => far.write(chunk));
}

/** A proxy between a server and PostgreSQL: it forwards, is closed, or drops the replies. */
export class PostgresProxy {
  constructor() {
    this.sockets = new Set();
    this.deaf = false;
  }

  async open() {
    this.port ??= await freePort();
    this.listener = net.createServer((near) => this.join(near));
    await new Promise((resolve, reject) => this.listener.once('error', reject).listen(this.port, '127.0.0.1', resolve));
  }

  join(near) {
    const far = net.connect(path.join(postgresDirectory(), '.s.PGSQL.5432'));
    joinSockets(this.sockets, near, far);
    far.on('data', (chunk) => this.deaf || near.write(chunk));
  }

  /** Stops listening and closes all connections. */
  async cut() {
    const closed = new Promise((resolve) => this.listener.close(resolve));
    for (const socket of this.sockets) socket.destroy();
    await closed;
    this.deaf = false;
  }

  restore() {
    return this.open();
  }

  url(schema) {
    return `postgres://holdfast@127.0.0.1:${this.port}/postgres?sslmode=disable&schema=${schema}`;
  }
}
