// SPDX-License-Identifier: Apache-2.0
// The adapter of a client as a process: commands to it, replies and events from it.
import { spawn } from 'node:child_process';

export class Adapter {
  constructor([file, ...args]) {
    this.child = spawn(file, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    this.replies = new Map();
    this.events = [];
    this.next = 1;
    this.waiting = new Set();
    this.errors = '';
    this.child.stdin.on('error', () => {});
    this.child.stderr.setEncoding('utf8').on('data', (chunk) => (this.errors += chunk));
    let rest = '';
    this.child.stdout.setEncoding('utf8').on('data', (chunk) => {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop();
      for (const line of lines) if (line.trim()) this.read(line);
      this.changed();
    });
    this.exited = new Promise((resolve) => {
      this.child.on('error', (error) => {
        this.errors += error.message;
        resolve('an error');
      });
      this.child.on('close', (code, signal) => resolve(code ?? signal));
    }).then((status) => {
      this.status = status;
      this.changed();
      return status;
    });
  }

  read(line) {
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      this.errors += `not JSON on standard output: ${line}\n`;
      return;
    }
    if ('event' in message) this.events.push(message);
    else this.replies.set(message.seq, message);
  }

  changed() {
    for (const wake of this.waiting) wake();
    this.waiting.clear();
  }

  /** Writes commands at once; returns their numbers. */
  send(commands) {
    const numbered = commands.map((command) => ({ seq: this.next++, ...command }));
    this.child.stdin.write(numbered.map((command) => `${JSON.stringify(command)}\n`).join(''));
    return numbered.map(({ seq }) => seq);
  }

  /** Waits for a condition that changes only with what the adapter writes. The limit only ends a case that fails. */
  async wait(what, condition, limitMs = 60_000) {
    const end = Date.now() + limitMs;
    for (;;) {
      const found = condition();
      if (found !== undefined) return found;
      if (this.status !== undefined) throw new Error(`the adapter ended (${this.status}) while the case waited for ${what()}\n${this.errors}`);
      if (Date.now() > end) throw new Error(`never happened: ${what()}`);
      await new Promise((resolve) => {
        const timer = setTimeout(resolve, end - Date.now());
        this.waiting.add(() => {
          clearTimeout(timer);
          resolve();
        });
      });
    }
  }

  reply(seq) {
    return this.wait(
      () => `the reply to command ${seq}`,
      () => this.replies.get(seq),
    );
  }

  /** Removes and returns the first event that the condition accepts. */
  event(what, accepts) {
    return this.wait(
      () => `${what}; events: ${JSON.stringify(this.events).slice(0, 2000)}`,
      () => {
        const at = this.events.findIndex(accepts);
        return at < 0 ? undefined : this.events.splice(at, 1)[0];
      },
    );
  }

  /** Ends standard input; the adapter must then end by itself. */
  async end() {
    this.child.stdin.end();
    const timer = setTimeout(() => this.child.kill('SIGKILL'), 60_000);
    const status = await this.exited;
    clearTimeout(timer);
    return status;
  }
}
