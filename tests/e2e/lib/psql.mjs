// SPDX-License-Identifier: Apache-2.0
// A session of psql that stays open, for transactions that a test begins, holds open and ends.
import { spawn } from 'node:child_process';

export class Psql {
  #marks = 0;
  #waiting = null;
  #output = '';

  constructor(socket, { user = 'holdfast', port = 5432 } = {}) {
    const words = ['-h', socket, '-p', String(port), '-U', user, '-d', 'postgres', '-qAtX', '-v', 'VERBOSITY=verbose'];
    // One stream, so that errors and the mark keep their order.
    this.process = spawn('sh', ['-c', 'exec psql "$@" 2>&1', 'psql', ...words], { stdio: ['pipe', 'pipe', 'ignore'] });
    this.process.stdin.on('error', () => {});
    this.process.stdout.setEncoding('utf8');
    this.process.stdout.on('data', (text) => {
      this.#output += text;
      this.#look();
    });
    this.closed = new Promise((resolve) => this.process.on('close', resolve));
  }

  #look() {
    const end = this.#waiting ? this.#output.indexOf(this.#waiting.mark) : -1;
    if (end < 0) return;
    const text = this.#output.slice(0, end).trim();
    const { resolve } = this.#waiting;
    this.#output = this.#output.slice(end + this.#waiting.mark.length);
    this.#waiting = null;
    resolve(text);
  }

  /** What the statements print, errors included. One call at a time. */
  run(text) {
    const mark = `--mark ${++this.#marks}--`;
    return new Promise((resolve) => {
      this.#waiting = { mark, resolve };
      this.process.stdin.write(`${text};\n\\echo ${mark}\n`);
    });
  }

  async close() {
    this.process.stdin.end();
    await this.closed;
  }
}
