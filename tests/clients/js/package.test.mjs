// SPDX-License-Identifier: Apache-2.0
// The package as users install it: every block of its README, the folder examples, ESM and CommonJS, and what is in it.
import assert from 'node:assert/strict';
import { cpSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { execute } from '../../e2e/lib/program.mjs';
import { binary, startServer, stopServer, temporaryDirectory } from '../../e2e/lib/server.mjs';

const client = fileURLToPath(new URL('../../../clients/js/', import.meta.url));
const readme = readFileSync(path.join(client, 'README.md'), 'utf8');
/** [{language, name, text}], also the blocks that show an output, which have no name. */
const blocks = [...readme.matchAll(/^```(\w+)(?: (\S+))?\n(.*?)^```$/gms)].map(([, language, name, text]) => ({ language, name, text }));
const programs = blocks.map((block, i) => ({ ...block, printed: blocks[i + 1]?.language === 'text' ? blocks[i + 1].text : undefined })).filter(({ name }) => name);

describe('the package', () => {
  const home = temporaryDirectory();
  let server;
  const env = { HOLDFAST_BINARY: binary };
  const here = (text) => text.replaceAll('http://127.0.0.1:8000', server.url);
  const run = async (file, args, options = {}) => {
    const { code, stdout, stderr } = await execute(file, args, { env, ...options });
    assert.equal(code, 0, `${stdout}\n${stderr}`);
    return stdout;
  };
  const inHome = (file, ...args) => run('sh', ['-c', 'cd "$0" && exec "$@"', home, file, ...args]);

  before(async () => {
    server = await startServer();
    const packed = JSON.parse(await run('npm', ['pack', '--json', '--silent', '--pack-destination', home, client]));
    writeFileSync(path.join(home, 'package.json'), '{"private": true}');
    await inHome('npm', 'install', '--offline', '--no-audit', '--no-fund', `./${packed[0].filename}`);
    mkdirSync(path.join(home, 'node_modules/@opentelemetry'));
    symlinkSync(path.join(client, 'node_modules/@opentelemetry/api'), path.join(home, 'node_modules/@opentelemetry/api'));
  });
  after(() => stopServer(server));

  test('the README has the blocks that this test expects', () => {
    assert.ok(programs.length >= 12, JSON.stringify(programs.map(({ name }) => name)));
    assert.deepEqual(blocks.filter(({ language, name }) => language !== 'text' && !name), []);
    const commands = readme.replaceAll(/^```.*?^```$/gms, '').split('\n').filter((line) => /^ {4}\S/.test(line)).map((line) => line.trim().replace(/ +#.*/, ''));
    assert.deepEqual(commands, ['npm install holdfast', 'npm ci', 'npm run build', 'npm run check', '../../scripts/test clients']);
  });

  for (const { language, name, text, printed } of programs)
    test(`README.md: ${name}`, async () => {
      writeFileSync(path.join(home, name), here(text));
      let file = name;
      if (language === 'ts') {
        const tsc = path.join(client, 'node_modules/typescript/bin/tsc');
        await inHome(process.execPath, tsc, '--strict', '--target', 'es2022', '--module', 'nodenext', '--lib', 'es2022,dom', name);
        file = name.replace('.mts', '.mjs');
      }
      const said = await inHome(process.execPath, '--unhandled-rejections=strict', file);
      if (printed !== undefined) assert.equal(said, printed);
    });

  test('ESM and CommonJS have the same names', async () => {
    const list = "console.log(JSON.stringify(['holdfast','holdfast/node','holdfast/testing'].map((name) => Object.keys(require(name)).sort())))";
    const listEsm = "console.log(JSON.stringify(await Promise.all(['holdfast','holdfast/node','holdfast/testing'].map(async (name) => Object.keys(await import(name)).filter((key) => key !== 'default').sort()))))";
    const said = await inHome(process.execPath, '-e', list);
    assert.equal(await inHome(process.execPath, '--input-type=module', '-e', listEsm), said);
    assert.ok(JSON.parse(said)[0].includes('Holdfast'), said);
  });

  test('it has no dependencies and no file of tests', async () => {
    const { dependencies, peerDependencies, optionalDependencies } = JSON.parse(readFileSync(path.join(home, 'node_modules/holdfast/package.json'), 'utf8'));
    assert.deepEqual([dependencies, peerDependencies, optionalDependencies], [undefined, undefined, undefined]);
    const core = ['index', 'client', 'transport', 'worker/worker'].map((name) => readFileSync(path.join(home, `node_modules/holdfast/dist/esm/${name}.js`), 'utf8'));
    for (const text of core) assert.doesNotMatch(text, /node:|require\(/);
  });

  for (const name of ['mailer', 'crawler'])
    test(`examples/${name}.mjs`, async () => {
      cpSync(path.join(client, 'examples', `${name}.mjs`), path.join(home, `${name}.mjs`));
      const said = await run('sh', ['-c', 'cd "$0" && exec "$@"', home, process.execPath, '--unhandled-rejections=strict', `${name}.mjs`], { env: { ...env, HOLDFAST_URL: server.url } });
      assert.match(said, /^done: /m, said);
    });
});
