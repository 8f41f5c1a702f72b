// SPDX-License-Identifier: Apache-2.0
// Every curl and holdfast line of README.md, in order, with a new server: each succeeds, and its output is the one that
// is printed below it. The file runs itself with scripts/with-postgres, which provides the database of the README.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';

import { blockOf, commandsOf, patternOf } from '../lib/blocks.mjs';
import { Client } from '../lib/client.mjs';
import '../lib/postgres.mjs';
import { execute } from '../lib/program.mjs';
import { binary, startServer, stopServer, temporaryDirectory, until } from '../lib/server.mjs';

const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8');

describe('README.md', () => {
  const commands = commandsOf(readme);
  const home = temporaryDirectory();
  let server, other, api;

  before(async () => {
    mkdirSync(path.join(home, 'bin'));
    symlinkSync(binary, path.join(home, 'bin/holdfast'));
    server = await startServer({ data: path.join(home, 'holdfast-data'), backend: '' });
    other = await startServer();
    api = new Client(server);
  });
  after(async () => {
    api.close();
    for (const one of [server, other]) if (!one.exit) await stopServer(one);
  });

  /** The machines of the text are servers of this test. */
  const here = (line) =>
    line
      .replaceAll('http://other:8000', other.url)
      .replaceAll('localhost:8000', `${server.host}:${server.port}`)
      .replaceAll('postgres://holdfast@db/jobs', `'${process.env.HF_POSTGRES}&schema=readme'`);
  const env = () => ({
    PATH: `${home}/bin:${process.env.PATH}`, HOLDFAST_SERVER: server.url, HOLDFAST_LISTEN: '127.0.0.1:0', HOLDFAST_DATA: path.join(home, 'node'),
  });
  const shell = (line, options = '') => ['-c', `cd '${home}'\ncurl() { command curl -sS ${options} "$@"; }\n${here(line)}`];

  /** A command that runs until it is interrupted: it must print something first, which `nudge` may cause. */
  async function interrupted(line, begun = /./, nudge = () => {}) {
    const child = spawn('bash', shell(line.replace(/^holdfast/, 'exec holdfast').replace(/^curl/, 'exec curl -v')), {
      env: { ...process.env, ...env() }, stdio: ['ignore', 'pipe', 'pipe'],
    });
    let [said, errors] = ['', ''];
    child.stdout.setEncoding('utf8').on('data', (chunk) => (said += chunk));
    child.stderr.setEncoding('utf8').on('data', (chunk) => (errors += chunk));
    const ended = new Promise((resolve) => child.on('close', (code, signal) => resolve(code ?? signal)));
    const over = () => begun.test(said) || begun.test(errors) || child.exitCode !== null;
    await until(`output of ${line}`, async () => over() || nudge(), 60_000);
    child.kill('SIGINT');
    return { code: await ended, said, errors };
  }

  async function curl({ line, printed }) {
    const { code, stdout, stderr } = await execute('bash', shell(line, String.raw`-w '\n%{http_code}'`), { env: env() });
    const [, body, status] = /^(.*)\n(\d+)$/s.exec(stdout) ?? assert.fail(`${stdout}\n${stderr}`);
    assert.equal(code, 0, stderr);
    assert.equal(Number(status), Number(/"status":(\d+)/.exec(printed)?.[1] ?? (status[0] === '2' ? status : 200)), body);
    if (printed) assert.match(body.replaceAll(/\s+/g, ''), patternOf(printed));
  }

  async function holdfast({ line, printed }) {
    const { code, stdout, stderr } = await execute('bash', shell(line), { env: env() });
    assert.equal(code, 0, `${stdout}\n${stderr}`);
    const said = stdout.split('\n').map((text) => text.replaceAll(/\s+/g, ''));
    for (const row of printed.split('\n').filter(Boolean)) assert.ok(said.some((text) => patternOf(row).test(text)), `${row}\n${stdout}`);
  }

  async function serves(line) {
    const { code, said, errors } = await interrupted(line, /^listening on .*\n/m);
    assert.match(said, /^listening on /, errors);
    assert.equal(code, 0, errors);
  }

  const enqueues = async () => void (await api.post('/v1/queues/seen/jobs', { payload: 1 }));
  async function one(command) {
    const { line } = command;
    if (/^holdfast serve/.test(line)) return serves(line);
    if (/with the server stopped/.test(line)) await stopServer(server);
    if (/^curl -N/.test(line)) {
      const { errors } = await interrupted(line, /^< HTTP\/1\.1 \d{3}/m); // what -v prints about the reply
      return assert.match(errors, /^< HTTP\/1\.1 200 /m);
    }
    if (/--watch|^holdfast events/.test(line)) {
      const { code, said, errors } = await interrupted(line, /./, /events/.test(line) ? enqueues : undefined);
      assert.equal(code, 0, errors);
      return assert.ok(said);
    }
    return line.startsWith('curl') ? curl(command) : holdfast(command);
  }

  test('it contains the commands that this test expects', () => {
    const of = (word) => commands.filter(({ line }) => line.startsWith(word)).length;
    assert.ok(of('curl ') >= 15 && of('holdfast ') >= 10, JSON.stringify(commands, null, 1));
    assert.equal(of('curl ') + of('holdfast '), commands.length, 'others are not tried');
  });
  for (const command of commands) test(command.line, () => one(command));
});

describe('the worker of the quick start', () => {
  const quickstart = readFileSync(new URL('../../../docs/quickstart.md', import.meta.url), 'utf8');
  const worker = blockOf(quickstart, 'build/holdfast work ');
  test('README.md and the quick start contain the same worker', () => assert.equal(`build/${blockOf(readme, 'holdfast work ')}`, worker));

  test('it acknowledges jobs that succeed, and fails the others', async () => {
    const home = temporaryDirectory();
    const server = await startServer();
    const api = new Client(server);
    const enqueues = quickstart.split('\n').filter((line) => /^ {4}curl .*\/jobs -d/.test(line)).join('\n');
    writeFileSync(path.join(home, 'send-mail'), blockOf(quickstart, '#!/bin/sh'), { mode: 0o755 });
    const child = spawn('bash', ['-c', `${enqueues}\n${worker}`.replaceAll('localhost:8000', `${server.host}:${server.port}`).replace('build/holdfast', binary)], {
      cwd: home, detached: true, stdio: 'ignore', env: { ...process.env, HOLDFAST_SERVER: server.url },
    });
    const ended = new Promise((resolve) => child.on('close', resolve));
    const job = async (seq) => (await api.get(`/v1/jobs/${seq}`)).json;
    try {
      for (const seq of [1, 2]) await until(`job ${seq} is done`, async () => (await job(seq)).state === 'done');
      const failed = await until('job 3 has failed', async () => ((await job(3)).history ?? []).find(({ outcome }) => outcome === 'failed'));
      assert.equal(failed.number, 1);
      assert.equal((await job(1)).result, 'ann@example.org');
    } finally {
      process.kill(-child.pid, 'SIGKILL');
      await ended;
      api.close();
      await stopServer(server);
    }
  });
});
