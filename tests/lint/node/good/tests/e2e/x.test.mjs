import { createHash, randomUUID } from 'node:crypto';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(import.meta.url);
const list = [...[3, 1, 2]].reverse();
export const text = `${here} ${randomUUID()} ${createHash('sha256').update(String(list.at(-1))).digest('hex')}`;
export const keys = [...new Map([[1, 2]]).keys()].map(String);
