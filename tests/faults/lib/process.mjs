// SPDX-License-Identifier: Apache-2.0
import { readFileSync } from 'node:fs';

/** The state of a process in one letter, as proc(5) has it; Z if it does not exist. */
export function stateOf(pid) {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'utf8').replace(/^.*\) /, '')[0];
  } catch {
    return 'Z';
  }
}
