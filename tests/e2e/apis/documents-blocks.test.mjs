// SPDX-License-Identifier: Apache-2.0
// Every fenced block of the five documents is either run by a test or listed here with the reason why it cannot run. TF-2 … TF-4:
// what the Python of document 003, which is a part of its own program, says about behaviour is compared with the settings.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';

import { blocks, documentText } from '../lib/documents.mjs';
import { binary } from '../lib/server.mjs';

/** By document and language: how many blocks, and the test that runs them, or why they cannot run. */
const places = {
  '000-orchestrator': {}, // its calls are in the text: documents.test.mjs runs each
  '001-keyval': {
    bash: [17, 'documents.test.mjs'], json: [7, 'documents.test.mjs: the replies to the blocks before them'], javascript: [1, 'keyval-browser.test.mjs'],
    yaml: [2, 'documents.test.mjs'], mermaid: [2, 'cannot run: pictures'], '': [1, 'cannot run: a table of times; KV-12 in keyval.test.mjs'],
  },
  '002-queue-worker': {
    '': [5, 'documents.test.mjs: the environment; the others cannot run: data structures and time lines'],
    python: [3, 'cannot run: a part of a program that is not printed, and two dictionaries, whose members documents.test.mjs compares'],
  },
  '003-queue-manager': { py: [8, 'cannot run: fragments of one loop of a program that is not printed'] },
  '004-normalised-queue': {
    bash: [6, 'documents-webqueue.test.mjs'], json: [1, 'documents-webqueue.test.mjs'], sql: [19, 'documents-webqueue.test.mjs'],
    python: [30, 'cannot run: calls of a library that is not printed; the SQL among them runs in documents-webqueue.test.mjs'], '': [4, 'cannot run: time lines and pseudocode'],
  },
};

test('each block of the documents is run, or cannot run for a reason', () => {
  for (const [name, languages] of Object.entries(places)) {
    const found = [...documentText(name).matchAll(/^ *```(\w*)\n.*?^ *```$/gms)].map(([, language]) => language);
    const counts = Object.fromEntries(Object.keys(languages).map((language) => [language, blocks(documentText(name), language).length]));
    assert.deepEqual(counts, Object.fromEntries(Object.entries(languages).map(([language, [count]]) => [language, count])), name);
    assert.equal(found.length, Object.values(counts).reduce((sum, count) => sum + count, 0), `${name} has blocks in other languages`);
  }
});

test('TF-2 TF-3 TF-4 the fragments of document 003 together are no program; its numbers are the defaults', () => {
  const text = documentText('003-queue-manager');
  const program = blocks(text, 'py').join('\n');
  // What they use is defined nowhere in the document.
  for (const name of ['SessionLocal', 'Tasks', 'TaskStatus', 'push_task', 'SCHEDULER_INTERVAL_S']) {
    assert.match(program, new RegExp(`\\b${name}\\b`));
    assert.doesNotMatch(text, new RegExp(`^ *(def|class|import|from) .*\\b${name}\\b|^${name} *=`, 'm'));
  }
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('HOLDFAST_')));
  const shown = execFileSync(binary, ['serve', '--print-config'], { encoding: 'utf8', env });
  const setting = (section, name) => shown.slice(shown.search(new RegExp(`^${section}:`, 'm'))).match(new RegExp(`^ +${name}: "?([^"\\s]+)"?\\s+# default`, 'm'))?.[1];
  assert.equal(setting('dispatch', 'batch'), /\.limit\((\d+)\)/.exec(program)[1]);
  assert.equal(setting('dispatch', 'interval_ms'), `${/runs every (\d+) seconds \(configurable\)/.exec(text)[1]}s`);
  assert.equal(setting('cluster', 'leader_ttl_ms'), `${/TTL expires \((\d+) seconds\)/.exec(text)[1]}s`);
  assert.equal(setting('cluster', 'leader_key'), /specific key \(`([^`]+)`\)/.exec(text)[1]);
});
