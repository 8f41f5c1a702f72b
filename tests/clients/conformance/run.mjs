#!/usr/bin/env node
// SPDX-License-Identifier: Apache-2.0
// node run.mjs [--case PATTERN] -- ADAPTER ARGUMENT…: runs the cases against a client and prints TAP. See README.md.
import { readdirSync, readFileSync } from 'node:fs';

import { testBackend } from '../../e2e/lib/backend.mjs';
import { Client } from '../../e2e/lib/client.mjs';
import { startServer, stopServer } from '../../e2e/lib/server.mjs';
import { routes } from '../../e2e/lib/program.mjs';
import { Adapter } from './lib/adapter.mjs';
import { Proxy } from './lib/proxy.mjs';
import { runStep } from './lib/steps.mjs';

const words = process.argv.slice(2);
const dashes = words.indexOf('--');
const command = dashes < 0 ? [] : words.slice(dashes + 1);
const pattern = words[0] === '--case' ? new RegExp(words[1]) : /./;
if (command.length === 0) {
  console.error('usage: node run.mjs [--case PATTERN] -- ADAPTER ARGUMENT…');
  process.exit(2);
}

const folder = new URL('cases/', import.meta.url);
const cases = readdirSync(folder)
  .filter((name) => name.endsWith('.json'))
  .sort()
  .flatMap((file) => JSON.parse(readFileSync(new URL(file, folder), 'utf8')).map((one) => ({ ...one, name: `${file.replace('.json', '')}: ${one.name}` })));

const table = await routes();
const properties = { embedded: testBackend === 'embedded', steps_api: table.some((route) => route.pattern === '/v1/jobs/{id}/steps/{name}') };

/** The address of a port on which no one listens. */
async function nowhere() {
  const proxy = new Proxy();
  await proxy.open();
  await proxy.close();
  return proxy.url;
}

class Run {
  constructor(one) {
    this.one = one;
    this.names = {};
    this.started = new Map();
    this.serverOptions = { args: one.args ?? [] };
  }

  useServer() {
    this.api?.close();
    this.api = new Client(this.server);
    this.proxy.target(this.server);
  }

  async carryOut() {
    this.server = await startServer(this.serverOptions);
    this.server.ownsData = true;
    this.proxy = new Proxy();
    await this.proxy.open();
    this.names = { url: this.proxy.url, nowhere: await nowhere() };
    this.useServer();
    this.adapter = new Adapter(command);
    try {
      for (const [i, step] of this.one.steps.entries())
        await runStep(this, step).catch((error) => {
          throw new Error(`step ${i + 1}, ${JSON.stringify(step)}\n${error.message}\n${this.adapter.errors}`);
        });
      const status = await this.adapter.end();
      if (status !== 0) throw new Error(`the adapter ended with ${status}\n${this.adapter.errors}`);
    } finally {
      this.adapter.child.kill('SIGKILL');
      await this.adapter.exited;
      await this.end();
    }
  }

  async end() {
    this.api.close();
    await this.proxy.close();
    if (this.server.exit) return;
    process.kill(this.server.pid, 'SIGCONT');
    await stopServer(this.server);
  }
}

let [number, bad] = [0, 0];
async function carryOut(one) {
  try {
    await new Run(one).carryOut();
    console.log(`ok ${++number} - ${one.name}`);
  } catch (error) {
    bad++;
    console.log(`not ok ${++number} - ${one.name}\n${String(error.stack ?? error).replaceAll(/^/gm, '# ')}`);
  }
}

// Most of the time the cases wait for leases and pauses, so several run at the same time.
const AT_A_TIME = 6;
const wanted = cases.filter(({ name }) => pattern.test(name));
const missing = ({ needs }) => [needs ?? []].flat().filter((need) => !properties[need]);
for (const one of wanted) if (missing(one).length) console.log(`# left out, because it needs ${missing(one).join(', ')}: ${one.name}`);
const rest = wanted.filter((one) => missing(one).length === 0);
await Promise.all(
  Array.from({ length: AT_A_TIME }, async () => {
    for (let one; (one = rest.shift()); ) await carryOut(one);
  }),
);
console.log(`1..${number}`);
process.exit(bad || number === 0 ? 1 : 0);
