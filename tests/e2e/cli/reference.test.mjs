// SPDX-License-Identifier: Apache-2.0
// docs/reference and the other documents compared with what a server shows: the pages come from the tables of the
// program (tests/suite.d/15-cli.sh checks that), and this checks the tables.
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';

import { Client } from '../lib/client.mjs';
import { startServer, stopServer } from '../lib/server.mjs';

const root = fileURLToPath(new URL('../../../', import.meta.url));
const page = (name) => readFileSync(`${root}docs/reference/${name}.md`, 'utf8');
const families = new Map(
  [...page('metrics').matchAll(/^\| `(\w+)` \| (\w+) \| (.*?) \| /gm)].map(([, name, type, labels]) => [name, { type, labels }]),
);

describe('the reference of metrics', () => {
  test('a page of a server has exactly these families and labels', async () => {
    const server = await startServer({ args: ['--beanstalk', '127.0.0.1:0'] });
    const api = new Client(server);
    await api.post('/v1/queues/q/jobs', { payload: 1 });
    const { text } = await api.get('/metrics');
    api.close();
    await stopServer(server);
    const shown = [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, type]) => [name, type]);
    assert.deepEqual(Object.fromEntries(shown.sort()), Object.fromEntries([...families].map(([name, { type }]) => [name, type]).sort()));
    let labelled = 0;
    for (const [, sample, labels] of text.matchAll(/^(\w+)(?:\{(.*)\})? /gm)) {
      const name = families.has(sample) ? sample : sample.replace(/_(bucket|sum|count)$/, '');
      const pairs = [...(labels ?? '').matchAll(/(\w+)="(?:[^"\\]|\\.)*"/g)];
      const names = pairs.map(([, label]) => label).filter((label) => label !== 'le');
      const documented = families.get(name).labels;
      if (names.length > 0 || !/if there are/.test(documented)) assert.equal(names.join(', '), documented, sample);
      labelled += names.length > 0;
    }
    assert.ok(labelled > 10);
  });

  test('every metric that a document names exists', () => {
    let named = 0;
    for (const file of ['README.md', 'CHANGELOG.md', 'SECURITY.md', ...documentsBelow('docs')])
      for (const [, name] of readFileSync(root + file, 'utf8').matchAll(/\b(holdfast_[a-z_]+)/g)) {
        if (name.endsWith('_')) continue; // holdfast_journal_… stands for several
        named++;
        assert.ok(families.has(name.replace(/_(bucket|sum|count)$/, '')) || families.has(name), `${file}: ${name}`);
      }
    assert.ok(named > 50);
  });
});

function documentsBelow(folder) {
  return readdirSync(root + folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? documentsBelow(`${folder}/${entry.name}`) : entry.name.endsWith('.md') ? [`${folder}/${entry.name}`] : [],
  );
}
