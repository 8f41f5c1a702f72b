// SPDX-License-Identifier: Apache-2.0
// Two network namespaces with a link between them that can be taken down: every packet is then dropped without an error.
// The far side has a proxy to the Unix socket of a database, the near side a node.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { Client } from '../../e2e/lib/client.mjs';
import { temporaryDirectory, until } from '../../e2e/lib/server.mjs';
import { Node } from './cluster.mjs';

/** Why they cannot be created here, and what is needed; false when they can. */
export function noNamespaces() {
  const probe = spawnSync('unshare', ['--net', 'ip', '-V'], { encoding: 'utf8' });
  if (probe.status === 0) return false;
  return `needs iproute2, and CAP_SYS_ADMIN to create network namespaces: ${probe.error?.message ?? probe.stderr.trim()}`;
}

function execute([file, ...words]) {
  const run = spawnSync(file, words, { encoding: 'utf8' });
  assert.equal(run.status, 0, run.error?.message ?? run.stderr);
}

/** A namespace lives as long as the process in it, which ends with this one. `ip netns` would give it a name, but its
 * `exec` cannot be used below chroot: it changes how mounts of "/" propagate, and there "/" is not a mount point. */
async function createNamespace(t) {
  const holder = spawn('unshare', ['--net', 'cat'], { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => holder.stdin.end());
  holder.stdin.write('.');
  await once(holder.stdout, 'data'); // `cat` runs, so the namespace exists
  return { pid: holder.pid, inside: ['nsenter', `--net=/proc/${holder.pid}/ns/net`] };
}

async function createNamespaces(t) {
  const sides = [await createNamespace(t), await createNamespace(t)];
  execute([...sides[0].inside, 'ip', 'link', 'add', 'hf0', 'type', 'veth', 'peer', 'name', 'hf1', 'netns', String(sides[1].pid)]);
  for (const [i, { inside }] of sides.entries()) {
    execute([...inside, 'ip', 'addr', 'add', `10.99.0.${i + 1}/24`, 'dev', `hf${i}`]);
    for (const device of [`hf${i}`, 'lo']) execute([...inside, 'ip', 'link', 'set', device, 'up']);
  }
  return sides;
}

/** HF-2: a network that drops every packet for some time. urlOf gets HOST:PORT; send(node, key) sends one job with an
 * idempotency key; at the end the store contains it once. */
export async function darkNetwork(t, { socket, urlOf, send }) {
  const [near, away] = await createNamespaces(t);
  const link = (state) => execute([...away.inside, 'ip', 'link', 'set', 'hf1', state]);
  const [file, ...words] = [...away.inside, process.execPath, fileURLToPath(new URL('./proxy.mjs', import.meta.url)), '10.99.0.2', socket];
  const far = spawn(file, words, { stdio: ['pipe', 'pipe', 'inherit'] });
  t.after(() => far.stdin.end());
  const port = Number(await new Promise((resolve) => far.stdout.once('data', (text) => resolve(String(text)))));

  const listening = path.join(temporaryDirectory(), 'node.sock');
  const node = new Node(urlOf(`10.99.0.2:${port}`), 1, { via: near.inside, listen: `unix:${listening}` });
  await node.start();
  t.after(() => (node.server.exit ? null : node.kill()));
  node.api = new Client({ socketPath: listening });
  const ready = () => until('it serves', async () => (await send(node, 'warm')).status < 300);
  await ready();
  link('down');
  const answer = await send(node, 'dark');
  assert.ok([503, 504].includes(answer.status));
  await until('it says so', async () => !(await node.cluster()).backend.up);
  link('up');
  await ready();
  assert.ok((await send(node, 'dark')).status < 300);
  await node.stop();
}
