// SPDX-License-Identifier: Apache-2.0
// Makes system calls of a server fail: compiles faults.c, and controls it through a file that both map.
import { execFileSync } from 'node:child_process';
import { closeSync, ftruncateSync, openSync, readSync, realpathSync, writeSync } from 'node:fs';
import { constants } from 'node:os';
import path from 'node:path';

/** Compiles a C file next to this one. */
export function compile(source, output, flags = []) {
  const file = new URL(source, import.meta.url).pathname;
  execFileSync('gcc', ['-std=gnu17', '-Wall', '-Wextra', '-Werror', '-O1', ...flags, '-o', output, file, '-ldl']);
  return output;
}

// As in faults.c.
const calls = { sync: 1, write: 2, open: 3, descriptor: 4, memory: 5, ownMemory: 6 };
const special = { lie: -1, short: -2 };
const at = { call: 0, fault: 4, nth: 8, every: 16, passed: 24, fired: 32, firedMs: 40, what: 48, deciding: 248 };
const BYTES = 256;
const DECIDING_MS = 200;

export class Faults {
  /** work: a directory for library and control file; data: the directory whose files count. */
  constructor(work, data) {
    this.library = compile('faults.c', path.join(work, 'faults.so'), ['-shared', '-fPIC', '-fno-builtin', '-U_FORTIFY_SOURCE']);
    this.name = path.join(work, 'faults');
    this.fd = openSync(this.name, 'w+');
    ftruncateSync(this.fd, BYTES);
    this.env = { LD_PRELOAD: this.library, HF_FAULTS: this.name, HF_FAULTS_DIR: `${realpathSync(path.dirname(data))}/${path.basename(data)}` };
  }

  /** The nth call of a kind fails (and then each time after `every` more); fault: 'EIO', …, 'lie' or 'short'. */
  arm({ call, fault, nth = 1, every = 0 }) {
    this.disarm();
    const bytes = Buffer.alloc(BYTES);
    bytes.writeInt32LE(special[fault] ?? constants.errno[fault], at.fault);
    bytes.writeBigUInt64LE(BigInt(nth), at.nth);
    bytes.writeBigUInt64LE(BigInt(every), at.every);
    writeSync(this.fd, bytes, at.fault, BYTES - at.fault, at.fault);
    bytes.writeUInt32LE(calls[call], at.call);
    writeSync(this.fd, bytes, at.call, 4, at.call);
  }

  /** After it, no further call fails: seen() has all that did. */
  disarm() {
    writeSync(this.fd, Buffer.alloc(4), 0, 4, at.call);
    const deciding = Buffer.alloc(4);
    // A process that was killed while it decided never finishes; it does not fail a call either.
    for (const end = Date.now() + DECIDING_MS; Date.now() < end;) {
      readSync(this.fd, deciding, 0, 4, at.deciding);
      if (deciding.readUInt32LE() === 0) return;
    }
  }

  /** {passed, fired, firedMs, what}: calls of the kind since it was armed, how many failed, the first of them. */
  seen() {
    const bytes = Buffer.alloc(BYTES);
    readSync(this.fd, bytes, 0, BYTES, 0);
    const number = (offset) => Number(bytes.readBigUInt64LE(offset));
    return { passed: number(at.passed), fired: number(at.fired), firedMs: number(at.firedMs), what: bytes.toString('utf8', at.what, bytes.indexOf(0, at.what)) };
  }

  close() {
    closeSync(this.fd);
  }
}
