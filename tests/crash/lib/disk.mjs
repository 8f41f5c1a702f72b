// SPDX-License-Identifier: Apache-2.0
// A disk whose power can be cut: an ext4 file system in a file, on a loop device. Whatever was mounted is
// unmounted when the process ends, also by a signal; what a process that was killed left behind is taken
// away by the next one. Names carry a marker and the process, so nothing else is ever touched.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

import { compile } from './faults.mjs';

const MARKER = 'holdfast-power-';
const BYTES = 512 << 20;
const quietly = { stdio: ['ignore', 'ignore', 'pipe'] };
const run = (file, ...args) => execFileSync(file, args, quietly);

const mounts = () => readFileSync('/proc/self/mounts', 'utf8').split('\n').map((line) => line.split(' ')[1] ?? '');
const isAlive = (pid) => existsSync(`/proc/${pid}`);

/** Unmounts what is below a directory of ours and removes it. */
function removeWhole(directory) {
  for (const mount of mounts().filter((m) => m.startsWith(`${directory}/`))) {
    try {
      run('umount', mount);
    } catch {
      run('umount', '--lazy', mount);
    }
  }
  rmSync(directory, { recursive: true, force: true });
}

/** The server of a test that was killed may still run on its disk. */
function killServersOn(directory) {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(`${directory}/root/data`)) process.kill(Number(pid), 'SIGKILL');
    } catch {
      // it has just ended
    }
  }
}

function sweepStale() {
  for (const name of readdirSync(tmpdir()).filter((n) => n.startsWith(MARKER))) {
    const directory = path.join(tmpdir(), name);
    if (isAlive(name.slice(MARKER.length).split('-')[0])) continue;
    killServersOn(directory);
    removeWhole(directory);
  }
}

const disks = new Set();
process.on('exit', () => disks.forEach((disk) => disk.remove()));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1));

/** Why no such disk can be had here, or null. */
export function whyNoDisk() {
  if (process.getuid() !== 0) return 'mounting needs root';
  let disk;
  try {
    disk = new Disk();
    disk.cut(2);
    return null;
  } catch (error) {
    return `no loop-mounted ext4: ${String(error.stderr ?? error.message).trim()}`;
  } finally {
    disk?.remove();
  }
}

export class Disk {
  constructor() {
    sweepStale();
    this.home = mkdtempSync(path.join(tmpdir(), `${MARKER}${process.pid}-`));
    disks.add(this);
    this.image = path.join(this.home, 'image');
    this.root = path.join(this.home, 'root');
    this.data = path.join(this.root, 'data');
    this.cutter = compile('power_cut.c', path.join(this.home, 'power_cut'));
    mkdirSync(this.root);
    writeFileSync(this.image, '');
    truncateSync(this.image, BYTES);
    run('mkfs.ext4', '-q', '-F', this.image);
    this.mount();
  }

  mount() {
    run('mount', '-o', 'loop', this.image, this.root);
  }

  /** The power goes; flags as in power_cut.c. Whoever has files open gets errors from now on. */
  cut(flags) {
    run(this.cutter, this.root, String(flags));
  }

  /** The power is back: nobody may have files open. */
  restore() {
    run('umount', this.root);
    this.mount();
  }

  /** Everything written so far is on the disk. */
  sync() {
    run('sync', '--file-system', this.root);
  }

  remove() {
    disks.delete(this);
    removeWhole(this.home);
  }
}
