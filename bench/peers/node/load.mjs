// SPDX-License-Identifier: Apache-2.0
// The loads of peerload for queues that are a library in Node: the same options, the same line of
// JSON. Producers and consumers are loops of promises in this process, as in a program that uses the
// library; its processor time is the client's.
import { execFileSync } from 'node:child_process';
import { parseArgs } from 'node:util';

const numbers = { port: 0, producers: 1, consumers: 0, depth: 1, size: 200, backlog: 0, seconds: 3, warmup: 0.5, count: 0, 'interval-us': 0 };

function readOptions() {
  const options = { queue: { type: 'string', default: 'jobs' }, pids: { type: 'string', default: '' } };
  for (const name of Object.keys(numbers)) options[name] = { type: 'string' };
  const { values } = parseArgs({ options });
  for (const [name, preset] of Object.entries(numbers)) {
    values[name] = values[name] === undefined ? preset : Number(values[name]);
    if (!Number.isFinite(values[name])) throw new Error(`--${name} takes a number`);
  }
  return values;
}

const BACKLOG_MAX = 2000; // filling a larger one would take the time that is to be measured

const now = () => process.hrtime.bigint();
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function usageUs(pids) {
  if (!pids) return 0;
  return JSON.parse(execFileSync(process.env.PEERLOAD, ['--usage', '--pids', pids], { encoding: 'utf8' })).server_cpu_us;
}

function quantile(values, q) {
  if (values.length === 0) return 0;
  values.sort((a, b) => a - b);
  return values[Math.min(values.length - 1, Math.floor(values.length * q))];
}

class Load {
  constructor(options) {
    Object.assign(this, { options, sent: 0, confirmed: 0, settled: 0, going: true, measuring: false, confirmUs: [], wakeUs: [] });
  }
  payload() {
    return now().toString(16).padStart(16, '0').padEnd(this.options.size, 'x');
  }
  received(payload) {
    if (payload?.length !== this.options.size) throw new Error(`a job came back with ${payload?.length} letters`);
    if (this.measuring) this.wakeUs.push(Number(now() - BigInt(`0x${payload.slice(0, 16)}`)) / 1000);
  }
  done(jobs = 1) {
    this.settled += jobs;
  }
  async putOnce(library) {
    const jobs = Array.from({ length: this.options.depth }, () => this.payload());
    const began = now();
    this.sent += jobs.length;
    await library.put(jobs);
    this.confirmed += jobs.length;
    if (this.measuring) this.confirmUs.push(Number(now() - began) / 1000);
  }
  async producer(library) {
    const { backlog, count, 'interval-us': interval } = this.options;
    while (this.going && (count === 0 || this.sent < count)) {
      if (interval) await sleep(interval / 1000);
      if (backlog && this.sent - this.settled >= Math.min(backlog, BACKLOG_MAX)) await sleep(1);
      else await this.putOnce(library);
    }
  }
  jobs() {
    return this.options.consumers > 0 ? this.settled : this.confirmed;
  }
  async window() {
    const { pids, seconds } = this.options;
    const server = usageUs(pids);
    const [own, began, jobs, confirmed] = [process.cpuUsage(), now(), this.jobs(), this.confirmed];
    this.measuring = true;
    await sleep(seconds * 1000);
    this.measuring = false;
    const s = Number(now() - began) / 1e9;
    const { user, system } = process.cpuUsage(own);
    const done = this.jobs() - jobs;
    return {
      seconds: s, jobs: done, jobs_per_s: done / s, confirmed_per_s: (this.confirmed - confirmed) / s,
      confirm_p50_us: quantile(this.confirmUs, 0.5), confirm_p99_us: quantile(this.confirmUs, 0.99),
      wake_p50_us: quantile(this.wakeUs, 0.5), wake_p99_us: quantile(this.wakeUs, 0.99),
      server_cpu_us_per_job: (usageUs(pids) - server) / Math.max(1, done),
      client_cpu_us_per_job: (user + system) / Math.max(1, done), client_cpu: (user + system) / 1e6 / s,
    };
  }
}

/**
 * library(options, load) resolves to {put(payloads), close()} and has its consumers going, which call
 * load.received(payload) and load.done().
 */
export async function drive(protocol, library) {
  const options = readOptions();
  const load = new Load(options);
  const made = await library(options, load);
  const failed = (problem) => {
    process.stderr.write(`${protocol}: ${problem.stack ?? problem}\n`);
    process.exit(1);
  };
  process.on('unhandledRejection', failed);
  const producers = Array.from({ length: options.producers }, () => load.producer(made).catch(failed));
  if (options.count > 0) await Promise.all(producers);
  else await sleep(options.warmup * 1000);
  const figures = await load.window();
  process.stdout.write(`${JSON.stringify({ protocol, ...figures })}\n`, () => process.exit(0));
}
