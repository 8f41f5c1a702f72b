// SPDX-License-Identifier: Apache-2.0
// The commands, outputs and files that a document shows, so that tests can run them.

/** The commands of the text, in order: {line, printed}. Those in prose (`inline`) have nothing printed below them. */
export function commandsOf(text, { inline = true } = {}) {
  const found = [];
  let last = null;
  for (const line of text.split('\n')) {
    const block = /^ {4}(.*)$/.exec(line)?.[1];
    const command = /^\$ (.*)$/.exec(block ?? '')?.[1];
    if (command) found.push((last = { line: command, printed: '' }));
    else if (block !== undefined && last) last.printed += `${block}\n`;
    else {
      last = null;
      if (!inline) continue;
      for (const [, code] of line.matchAll(/`((?:curl|holdfast) -[^`]*)`/g)) found.push({ line: code, printed: '' });
    }
  }
  return found;
}

/** The files that the text shows, as fenced blocks with a name: [{name, text}]. */
export const filesOf = (text) => [...text.matchAll(/^```\w+ (\S+)\n(.*?)^```$/gms)].map(([, name, body]) => ({ name, text: body }));

/** The indented block of the text that begins with this line. */
export const blockOf = (text, first) => text.split('\n\n').find((part) => part.startsWith(`    ${first}`))?.replaceAll(/^ {4}/gm, '');

const escaped = (text) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&');
/** What may differ from run to run: ids, times, and what the text leaves out ("…"). White space is not compared. */
export function patternOf(printed) {
  const parts = printed.replaceAll(/\s+/g, '').split(/(…|01[0-9A-Z]{24}|\d{4}-\d\d-\d\dT[\d:.]+Z)/);
  return new RegExp(`^${parts.map((part, i) => (i % 2 === 0 ? escaped(part) : part === '…' ? '.*' : part.includes('T') && part.includes(':') ? '[-0-9T:.]+Z' : '[0-9A-Z]{26}')).join('')}$`, 's');
}
