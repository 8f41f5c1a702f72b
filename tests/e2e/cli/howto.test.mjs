// SPDX-License-Identifier: Apache-2.0
// Every command of the pages in docs/howto, in order, with a new server for each page: each succeeds, and its output is
// the one that is printed below it. The programs of the pages are saved under their names first.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';

import { commandsOf, filesOf, patternOf } from '../lib/blocks.mjs';
import { Client } from '../lib/client.mjs';
import { execute } from '../lib/program.mjs';
import { binary, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';

const folder = new URL('../../../docs/howto/', import.meta.url);
const pages = readdirSync(folder).map((name) => ({ name, text: readFileSync(new URL(name, folder), 'utf8') }));
const END = '@@@ end of command';

/** A server with the options of the page's first `holdfast serve`, and a directory with the page's files. */
async function setUp({ text }) {
  const home = temporaryDirectory();
  const serve = /^ {4}\$ holdfast serve ?(.*)$/m.exec(text)?.[1];
  const server = await startServer(serve === undefined ? {} : { backend: '', args: serve.split(' ') });
  const here = (words) => words.replaceAll('localhost:8000', `${server.host}:${server.port}`);
  mkdirSync(path.join(home, 'bin'));
  symlinkSync(binary, path.join(home, 'bin/holdfast'));
  for (const file of filesOf(text)) writeFileSync(path.join(home, file.name), here(file.text));
  return { home, server, here };
}

/** Runs the commands in one shell: [{status, said}]. */
async function runAll(lines, { home, server, here }) {
  const script = [`cd '${home}'`, 'curl() { command curl -sS --fail-with-body "$@"; }', 'set -o pipefail'];
  for (const line of lines) script.push(here(line), `printf '\\n%s %s\\n' '${END}' $?`);
  const env = { PATH: `${home}/bin:${process.env.PATH}`, HOLDFAST_SERVER: server.url };
  const { stdout, stderr } = await execute('bash', ['-c', script.join('\n')], { env });
  const ended = [...stdout.matchAll(new RegExp(`(.*?)\\n${END} (\\d+)\\n`, 'gs'))];
  assert.equal(ended.length, lines.length, stderr);
  return ended.map(([, said, status]) => ({ said, status: Number(status), stderr }));
}

const CURL_HTTP_ERROR = 22;
function check({ line, printed }, { said, status, stderr }) {
  const refused = /"status":[45]\d\d/.test(printed);
  assert.equal(status, refused ? CURL_HTTP_ERROR : 0, `${line}\n${said}\n${stderr}`);
  if (!printed) return;
  if (line.startsWith('curl')) assert.match(said.replaceAll(/\s+/g, ''), patternOf(printed), line);
  const rows = said.split('\n').map((row) => row.replaceAll(/\s+/g, ''));
  if (!line.startsWith('curl'))
    for (const row of printed.split('\n').filter(Boolean)) assert.ok(rows.some((one) => patternOf(row).test(one)), `${row}\n${said}`);
}

describe('the how-to pages', () => {
  test('there are pages, and docs/README.md leads to each', () => {
    const entry = readFileSync(new URL('../README.md', folder), 'utf8');
    assert.ok(pages.length >= 8);
    for (const { name } of pages) assert.ok(entry.includes(`(howto/${name})`), name);
  });

  for (const page of pages)
    test(page.name, async () => {
      const commands = commandsOf(page.text, { inline: false }).filter(({ line }) => !line.startsWith('holdfast serve'));
      assert.ok(commands.length > 0);
      const place = await setUp(page);
      try {
        const ends = await runAll(commands.map(({ line }) => line), place);
        for (const [i, command] of commands.entries()) check(command, ends[i]);
      } finally {
        await stopServer(place.server);
      }
    });
});

describe('the workers of the how-to page', () => {
  const page = pages.find(({ name }) => name === 'workers.md');
  const interpreters = { sh: 'bash', py: 'python3', mjs: 'node' };
  for (const { name } of filesOf(page.text).filter((file) => file.name.startsWith('worker.')))
    test(`${name} acknowledges jobs that succeed, and fails the others`, async () => {
      const { home, server } = await setUp(page);
      const api = new Client(server);
      for (const to of ['ann@example.org', 'eve']) await api.post('/v1/queues/mail/jobs', { payload: { to } });
      const child = spawn(interpreters[name.split('.')[1]], [name], { cwd: home, detached: true, stdio: ['ignore', 'ignore', 'inherit'] });
      const ended = new Promise((resolve) => child.on('close', resolve));
      try {
        for (const [seq, state] of [[1, 'done'], [2, 'dead']])
          await until(`job ${seq} is ${state}`, async () => (await api.get(`/v1/jobs/${seq}`)).json.state === state);
      } finally {
        process.kill(-child.pid, 'SIGKILL');
        await ended;
        api.close();
        await stopServer(server);
      }
    });
});
