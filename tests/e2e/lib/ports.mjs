// SPDX-License-Identifier: Apache-2.0
// Ports for servers that get a fixed port, or that start again on the same one: below the range that the system assigns,
// in which a connection of any program could take the port in the meantime.
import net from 'node:net';

const [FIRST, COUNT] = [10_000, 20_000];

const listens = (server, port) =>
  new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen(port, '127.0.0.1', () => resolve(true));
  });

/** A port of 127.0.0.1 on which no server listens. */
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
