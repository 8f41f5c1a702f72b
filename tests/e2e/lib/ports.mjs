// SPDX-License-Identifier: Apache-2.0
// Ports for those who are told theirs, or come back to it: below the ones that the system hands out, of which any
// connection of any program may have taken one meanwhile.
import net from 'node:net';

const [FIRST, COUNT] = [10_000, 20_000];

const listens = (server, port) =>
  new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => resolve(true));
  });

/** A port of 127.0.0.1 that nobody listens on. */
export async function freePort() {
  for (let tries = 0; tries < 1000; tries++) {
    const port = FIRST + Math.floor(Math.random() * COUNT);
    const probe = net.createServer();
    const free = await listens(probe, port);
    if (free) await new Promise((resolve) => probe.close(resolve));
    if (free) return port;
  }
  throw new Error('no port is free');
}
