// SPDX-License-Identifier: Apache-2.0
// Several nodes on one database, with short times here and the default times in a soak.
import { Client } from '../../e2e/lib/client.mjs';
import { killServer, startServer, stopServer, until } from '../../e2e/lib/server.mjs';

/** HF_FULL=1: the default times of a server. */
export const full = process.env.HF_FULL === '1';
export const times = full ? { ttl: 10_000, silent: 15_000, answer: 15_000 } : { ttl: 1000, silent: 1500, answer: 1000 };
const settings = {
  HOLDFAST_CLUSTER_LEADER_TTL_MS: `${times.ttl}ms`,
  HOLDFAST_CLUSTER_SILENT_MS: `${times.silent}ms`,
  HOLDFAST_TIMEOUTS_BACKEND_MS: `${times.answer}ms`,
};

export class Node {
  constructor(backend, number, more = {}) {
    Object.assign(this, { backend, number, more, frozen: false });
  }

  async start() {
    const { env, args = [], ...rest } = this.more;
    this.server = await startServer({ backend: this.backend, args: ['--node', String(this.number), ...args], env: { ...settings, ...env }, ...rest });
    this.api = new Client(this.server);
    return this;
  }

  freeze() {
    this.server.process.kill('SIGSTOP');
    this.frozen = true;
  }
  thaw() {
    this.server.process.kill('SIGCONT');
    this.frozen = false;
  }
  async kill() {
    this.api.close();
    await killServer(this.server);
  }
  async stop() {
    this.api.close();
    await stopServer(this.server);
  }

  /** Its view of the cluster. */
  async cluster() {
    return (await this.api.get('/v1/cluster')).json;
  }
  /** One value of /metrics. */
  async metric(name) {
    const { text } = await this.api.get('/metrics');
    return Number(text.match(new RegExp(`^${name} (\\S+)$`, 'm'))?.[1]);
  }
}

/** Starts `count` nodes at once; t.after ends those that still run. */
export async function startNodes(t, backend, count, more) {
  const nodes = Array.from({ length: count }, (_, i) => new Node(backend, i + 1, more));
  t.after(() => Promise.all(nodes.map((node) => (node.server && !node.server.exit ? node.kill() : null))));
  await Promise.all(nodes.map((node) => node.start()));
  return nodes;
}

/** The node that leads, once exactly one reports that it does and all know it. */
export const leaderOf = (nodes, limitMs) =>
  until('one node leads', async () => {
    const views = await Promise.all(nodes.map((node) => node.cluster()));
    const leads = nodes.filter((_, i) => views[i].leader?.self);
    const epochs = new Set(views.map((view) => view.leader?.epoch));
    return leads.length === 1 && epochs.size === 1 ? leads[0] : null;
  }, limitMs);
