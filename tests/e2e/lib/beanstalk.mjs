// SPDX-License-Identifier: Apache-2.0
// The protocol of beanstalkd on the wire, and servers that implement it.
import { spawn } from 'node:child_process';
import net from 'node:net';

import { freePort } from './ports.mjs';
import { startServer, until } from './server.mjs';

/** One connection. Replies are complete: {line, data?}, where data follows the line. */
export class Beanstalk {
  static async connect(port, host = '127.0.0.1') {
    const socket = typeof port === 'string' ? net.connect(port) : net.connect(port, host);
    await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject));
    return new Beanstalk(socket);
  }

  constructor(socket) {
    this.socket = socket;
    this.buffer = Buffer.alloc(0);
    this.answers = [];
    this.wanting = [];
    this.ended = false;
    socket.on('data', (chunk) => {
      this.buffer = this.buffer.length ? Buffer.concat([this.buffer, chunk]) : chunk;
      this.#parse();
    });
    socket.on('error', () => {});
    this.closed = new Promise((resolve) =>
      socket.on('close', () => {
        this.ended = true;
        for (const want of this.wanting.splice(0)) want({ line: 'CLOSED' });
        resolve();
      }),
    );
  }

  #parse() {
    for (;;) {
      const end = this.buffer.indexOf('\r\n');
      if (end < 0) return;
      const line = this.buffer.toString('latin1', 0, end);
      const sized = line.match(/^(?:OK (\d+)|(?:RESERVED|FOUND) \d+ (\d+))$/);
      let used = end + 2;
      const answer = { line };
      if (sized) {
        const bytes = Number(sized[1] ?? sized[2]);
        if (this.buffer.length < used + bytes + 2) return;
        answer.data = this.buffer.subarray(used, used + bytes);
        answer.tail = this.buffer.toString('latin1', used + bytes, used + bytes + 2);
        used += bytes + 2;
      }
      this.buffer = this.buffer.subarray(used);
      const want = this.wanting.shift();
      if (want) want(answer);
      else this.answers.push(answer);
    }
  }

  write(bytes) {
    this.socket.write(bytes, 'latin1');
  }

  /** The next reply. */
  answer() {
    if (this.answers.length) return Promise.resolve(this.answers.shift());
    if (this.ended) return Promise.resolve({ line: 'CLOSED' });
    return new Promise((resolve) => this.wanting.push(resolve));
  }

  /** One command (its "\r\n" is added) and its answer. */
  async ask(command) {
    this.write(`${command}\r\n`);
    return this.answer();
  }
  async line(command) {
    return (await this.ask(command)).line;
  }
  async put(body, { pri = 1024, delay = 0, ttr = 60 } = {}) {
    const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body, 'latin1');
    this.socket.write(Buffer.concat([Buffer.from(`put ${pri} ${delay} ${ttr} ${bytes.length}\r\n`), bytes, Buffer.from('\r\n')]));
    const { line } = await this.answer();
    const id = line.match(/^INSERTED (\d+)$/);
    if (!id) throw new Error(`put: ${line}`);
    return Number(id[1]);
  }
  /** The fields of stats, stats-job, stats-tube; null = NOT_FOUND. */
  async stats(command) {
    const { line, data } = await this.ask(command);
    return data ? fieldsOf(data) : line === 'NOT_FOUND' ? null : Promise.reject(new Error(line));
  }

  close() {
    this.socket.destroy();
    return this.closed;
  }
}

export function fieldsOf(data) {
  const lines = data.toString('latin1').split('\n');
  return Object.fromEntries(lines.filter((l) => l.includes(': ')).map((l) => [l.slice(0, l.indexOf(':')), l.slice(l.indexOf(':') + 2).replace(/^"(.*)"$/, '$1')]));
}
export const listOf = (data) => data.toString('latin1').split('\n').filter((l) => l.startsWith('- ')).map((l) => l.slice(2));

/** Holdfast with this API; server.beanstalk is its port. */
export async function startBeanstalk({ args = [], listen = '127.0.0.1:0', ...options } = {}) {
  const server = await startServer({ ...options, args: ['--beanstalk', listen, ...args] });
  const ready = await until('the API listens', () => server.stdout.match(/^listening on beanstalk:\/\/127\.0\.0\.1:(\d+)\n/m));
  server.beanstalk = Number(ready[1]);
  return server;
}

/** Waits until a server listens on the port. */
export async function listening(port, process) {
  await until(`a server listens on ${port}`, async () => {
    if (process.exitCode !== null) throw new Error(`it ended with ${process.exitCode}`);
    try {
      await (await Beanstalk.connect(port)).close();
      return true;
    } catch {
      return false;
    }
  });
}

/** The beanstalkd of Debian. */
export async function startBeanstalkd(args = []) {
  const port = await freePort();
  const child = spawn('beanstalkd', ['-l', '127.0.0.1', '-p', String(port), ...args], { stdio: 'ignore' });
  process.on('exit', () => child.kill('SIGKILL'));
  await listening(port, child);
  return { port, process: child, pid: child.pid, stop: () => new Promise((resolve) => child.once('exit', resolve) && child.kill()) };
}
