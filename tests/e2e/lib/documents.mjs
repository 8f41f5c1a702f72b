// SPDX-License-Identifier: Apache-2.0
// The documents that the APIs implement (tests/e2e/documents), and the code that they print.
import { readFileSync } from 'node:fs';

/** The text of a document, by the beginning of its name. */
export const documentText = (name) => readFileSync(new URL(`../documents/${name}.md`, import.meta.url), 'utf8');

/** The fenced blocks of the text in this language ('' = none is named), in order, without the indentation of their fence. */
export function blocks(text, language) {
  const found = [...text.matchAll(/^( *)```(\w*)\n(.*?)^\1```$/gms)];
  return found.filter(([, , named]) => named === language).map(([, indent, , body]) => body.replaceAll(new RegExp(`^${indent}`, 'gm'), ''));
}
