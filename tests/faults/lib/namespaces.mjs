// SPDX-License-Identifier: Apache-2.0
// Two network namespaces with one wire between them, which can be pulled: every packet is then swallowed, and nobody
// is told. On the far side a proxy to the Unix socket of a database; on the near side a node.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { Client } from '../../e2e/lib/client.mjs';
import { temporaryDirectory, until } from '../../e2e/lib/server.mjs';
import { Node } from './cluster.mjs';

/** Why they cannot be made here; false when they can. */
export function noNamespaces() {
  if (process.getuid() !== 0) return 'network namespaces need root';
  const probe = spawnSync('unshare', ['-n', 'true']);
  return probe.status === 0 && spawnSync('ip', ['-V']).status === 0 ? false : 'network namespaces cannot be made here';
}

function ip(...words) {
  const run = spawnSync('ip', words, { encoding: 'utf8' });
  assert.equal(run.status, 0, run.stderr);
}

function makeNamespaces(t) {
  const names = ['a', 'b'].map((side) => `hf-${process.pid}-${side}`);
  t.after(() => names.forEach((name) => spawnSync('ip', ['netns', 'del', name])));
  for (const name of names) ip('netns', 'add', name);
  ip('-n', names[0], 'link', 'add', 'hf0', 'type', 'veth', 'peer', 'name', 'hf1', 'netns', names[1]);
  for (const [i, name] of names.entries()) {
    ip('-n', name, 'addr', 'add', `10.99.0.${i + 1}/24`, 'dev', `hf${i}`);
    ip('-n', name, 'link', 'set', `hf${i}`, 'up');
    ip('-n', name, 'link', 'set', 'lo', 'up');
  }
  return names;
}

/** HF-2: a network that swallows every packet for a while. urlOf gets HOST:PORT; send(node, key) sends one job under a key
 * of idempotency; at the end it is known to the store once. */
export async function darkNetwork(t, { socket, urlOf, send }) {
  const names = makeNamespaces(t);
  const inside = (i) => ['ip', 'netns', 'exec', names[i]];
  const [file, ...words] = [...inside(1), 'node', fileURLToPath(new URL('./proxy.mjs', import.meta.url)), '10.99.0.2', socket];
  const far = spawn(file, words, { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => far.stdin.end());
  const port = Number(await new Promise((resolve) => far.stdout.once('data', (text) => resolve(String(text)))));

  const door = path.join(temporaryDirectory(), 'door');
  const node = new Node(urlOf(`10.99.0.2:${port}`), 1, { via: inside(0), listen: `unix:${door}` });
  await node.start();
  t.after(() => (node.server.exit ? null : node.kill()));
  node.api = new Client({ socketPath: door });
  const ready = () => until('it serves', async () => (await send(node, 'warm')).status < 300, 30_000);
  await ready();
  ip('-n', names[1], 'link', 'set', 'hf1', 'down');
  const answer = await send(node, 'dark');
  assert.ok([503, 504].includes(answer.status));
  await until('it says so', async () => !(await node.cluster()).backend.up, 20_000);
  ip('-n', names[1], 'link', 'set', 'hf1', 'up');
  await ready();
  assert.ok((await send(node, 'dark')).status < 300);
  await node.stop();
}
