// SPDX-License-Identifier: Apache-2.0
// node build.mjs: writes dist/esm and dist/cjs with their types. The core must not need Node: TypeScript checks it without
// Node's types, and a bundle for browsers is built from it and thrown away.
import { execFileSync } from 'node:child_process';
import { cpSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

const here = path.dirname(fileURLToPath(import.meta.url));
const inside = (...names) => path.join(here, ...names);
const tsc = (...args) => execFileSync(process.execPath, [inside('node_modules/typescript/bin/tsc'), ...args], { cwd: here, stdio: 'inherit' });

rmSync(inside('dist'), { recursive: true, force: true });
tsc('-p', 'tsconfig.json', '--noEmit', '--emitDeclarationOnly', 'false');
tsc('-p', 'tsconfig.node.json');

const sources = ['', 'worker'].flatMap((folder) => readdirSync(inside('src', folder), { withFileTypes: true }).filter((entry) => entry.isFile()).map(({ name }) => inside('src', folder, name)));
const common = { entryPoints: sources, outbase: inside('src'), target: 'node18', sourcemap: true, sourcesContent: false, logLevel: 'warning' };
await build({ ...common, format: 'esm', outdir: inside('dist/esm') });
await build({ ...common, format: 'cjs', outdir: inside('dist/cjs') });
cpSync(inside('dist/esm'), inside('dist/cjs'), { recursive: true, filter: (name) => !/\.js(\.map)?$/.test(name) });
writeFileSync(inside('dist/esm/package.json'), '{"type":"module"}\n');
writeFileSync(inside('dist/cjs/package.json'), '{"type":"commonjs"}\n');

await build({ entryPoints: [inside('src/index.ts')], bundle: true, platform: 'browser', format: 'esm', target: 'es2022', write: false, logLevel: 'warning' });
