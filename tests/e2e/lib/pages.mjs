// SPDX-License-Identifier: Apache-2.0
// The checksums of the pages of holdfast.db (src/backend/local/pages/dbpage.h), for tests that change the file.
import { readFileSync, writeFileSync } from 'node:fs';
import { execFileSync } from 'node:child_process';

export const PAGE = 4096;

const table = Uint32Array.from({ length: 256 }, (_, n) => {
  for (let i = 0; i < 8; i++) n = n & 1 ? (n >>> 1) ^ 0x82f63b78 : n >>> 1;
  return n;
});

function crc32c(...parts) {
  let crc = 0xffffffff;
  for (const part of parts) for (const byte of part) crc = (crc >>> 8) ^ table[(crc ^ byte) & 0xff];
  return ~crc >>> 0;
}

/** Gives every page of the file the right checksum, whatever is in it. */
export function sealPages(file) {
  const bytes = readFileSync(file);
  const number = Buffer.alloc(4);
  for (let at = 0; at + PAGE <= bytes.length; at += PAGE) {
    const page = bytes.subarray(at, at + PAGE);
    number.writeUInt32BE(at / PAGE + 1);
    page.fill(0, PAGE - 16, PAGE - 4);
    page.writeUInt32BE(crc32c(number, page.subarray(0, PAGE - 4)), PAGE - 4);
  }
  writeFileSync(file, bytes);
}

/** Runs SQL on the database of a server that has stopped cleanly. */
export function runSql(file, sql) {
  execFileSync('sqlite3', [file, sql]);
  sealPages(file);
}
