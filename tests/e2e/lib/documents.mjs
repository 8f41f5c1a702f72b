// SPDX-License-Identifier: Apache-2.0
// The code blocks of a document, as it prints them.

/** The bodies of the fenced blocks of this language, in order. */
export const blocks = (text, language) => [...text.matchAll(new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\``, 'gms'))].map(([, body]) => body);
