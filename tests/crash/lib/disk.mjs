// SPDX-License-Identifier: Apache-2.0
// A disk whose power can be cut.
import path from 'node:path';

import { LoopDisk, run, whyNoDisk as whyNone } from '../../e2e/lib/loop_disk.mjs';
import { compile } from './faults.mjs';

const BYTES = 512 << 20;

export class Disk extends LoopDisk {
  constructor() {
    super(BYTES);
    this.cutter = compile('power_cut.c', path.join(this.home, 'power_cut'));
  }

  /** Cuts the power; flags as in power_cut.c. From now on, operations on open files fail. */
  cut(flags) {
    run(this.cutter, this.root, String(flags));
  }

  /** Restores the power. No process may have files open. */
  restore() {
    run('umount', this.root);
    this.mount();
  }
}

/** Why such a disk is not available here, or false. */
export const whyNoDisk = () =>
  whyNone(() => {
    const disk = new Disk();
    disk.cut(2);
    return disk;
  });
