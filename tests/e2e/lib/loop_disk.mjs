// SPDX-License-Identifier: Apache-2.0
// A small private disk, which can be filled to the last block: an ext4 file system in a file, on a loop
// device. It is unmounted when the process ends, also by a signal; what a process that was killed left
// behind is removed by the next one. Names carry a marker and the process, so nothing else is ever touched.
import { execFileSync } from 'node:child_process';
import { closeSync, existsSync, fsyncSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, statfsSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const MARKER = 'holdfast-disk-';
export const run = (file, ...args) => execFileSync(file, args, { stdio: ['ignore', 'ignore', 'pipe'] });
const mounts = () => readFileSync('/proc/self/mounts', 'utf8').split('\n').map((line) => line.split(' ')[1] ?? '');

/** Unmounts everything below a directory of this program and removes it. */
function removeWhole(directory) {
  for (const mount of mounts().filter((m) => m.startsWith(`${directory}/`))) {
    try {
      run('umount', mount);
    } catch {
      run('umount', '--lazy', mount); // a server that was just killed may still be ending
    }
  }
  rmSync(directory, { recursive: true, force: true });
}

/** The server of a test that was killed may still run on its disk. */
function killServersOn(directory) {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      if (readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0').includes(path.join(directory, 'root', 'data'))) process.kill(Number(pid), 'SIGKILL');
    } catch {
      // it has just ended
    }
  }
}

function sweepStale() {
  for (const name of readdirSync(tmpdir()).filter((n) => n.startsWith(MARKER))) {
    if (existsSync(`/proc/${name.slice(MARKER.length).split('-')[0]}`)) continue;
    killServersOn(path.join(tmpdir(), name));
    removeWhole(path.join(tmpdir(), name));
  }
}

const disks = new Set();
process.on('exit', () => disks.forEach((disk) => disk.remove()));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, () => process.exit(1));

/** Why no such disk can be created here, or false; for the `skip` of a test. `make` creates and tries one. */
export function whyNoDisk(make = () => new LoopDisk()) {
  if (process.getuid() !== 0) return 'mounting needs root';
  let disk;
  try {
    disk = make();
    return false;
  } catch (error) {
    return `no loop-mounted ext4: ${String(error.stderr ?? error.message).trim()}`;
  } finally {
    disk?.remove();
  }
}

export class LoopDisk {
  constructor(bytes = 96 << 20) {
    sweepStale();
    this.home = mkdtempSync(path.join(tmpdir(), `${MARKER}${process.pid}-`));
    disks.add(this);
    this.image = path.join(this.home, 'image');
    this.root = path.join(this.home, 'root');
    this.data = path.join(this.root, 'data');
    this.junk = path.join(this.root, 'junk');
    mkdirSync(this.root);
    writeFileSync(this.image, '');
    truncateSync(this.image, bytes);
    run('mkfs.ext4', '-q', '-F', '-b', '4096', '-m', '0', this.image);
    this.mount();
  }

  mount() {
    run('mount', '-o', 'loop', this.image, this.root);
  }

  /** Everything written so far is on the disk. */
  sync() {
    run('sync', '--file-system', this.root);
  }

  freeBytes() {
    const { bavail, bsize } = statfsSync(this.root);
    return bavail * bsize;
  }

  /** Uses every free block except for this many bytes. */
  fill(leave = 0) {
    const fd = openSync(this.junk, 'a');
    for (const size of [1 << 20, 4096]) {
      const bytes = Buffer.alloc(size, 'junk');
      try {
        while (this.freeBytes() - size >= leave || leave === 0) if (writeSync(fd, bytes) < size) break;
      } catch (error) {
        if (error.code !== 'ENOSPC') throw error;
      }
      fsyncSync(fd);
    }
    closeSync(fd);
  }

  /** Frees the space again. */
  empty() {
    rmSync(this.junk, { force: true });
    this.sync();
  }

  remove() {
    disks.delete(this);
    removeWhole(this.home);
  }
}
