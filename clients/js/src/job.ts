// SPDX-License-Identifier: Apache-2.0
// Jobs as programs see them, from the replies of the server.
import { ItemTexts, memberTexts, parseExact } from './json.js';
import { camelObject } from './names.js';
import type { Job, JobView } from './types.js';

/** How payloads, results and steps are read. */
export interface Reading {
  exact: boolean;
}

class ClaimedJob {
  [member: string]: unknown;
  #texts: ItemTexts;
  #index: number;
  constructor(raw: Record<string, unknown>, texts: ItemTexts, index: number) {
    Object.assign(this, camelObject(withPayload(raw)));
    this.#texts = texts;
    this.#index = index;
  }
  /** Only what the reply contained: a job can be printed or copied without its text. */
  get payloadText(): string | undefined {
    return memberTexts(this.#texts.at(this.#index)).get('payload');
  }
}

/** A payload that is not JSON comes under another name: a text, or bytes. */
function withPayload(raw: Record<string, unknown>): Record<string, unknown> {
  if (!('payload_text' in raw) && !('payload_base64' in raw)) return raw;
  const { payload_text: text, payload_base64: bytes, ...members } = raw;
  if (typeof text === 'string') members['payload'] = text;
  else if (typeof bytes === 'string') members['payload'] = Uint8Array.from(atob(bytes), (character) => character.charCodeAt(0));
  return members;
}

/** The jobs of a claim. */
export function claimedJobs<P>(text: string, json: Record<string, unknown>, reading: Reading): Job<P>[] {
  const texts = new ItemTexts(text, 'jobs');
  return (json['jobs'] as Record<string, unknown>[]).map((raw, index) => {
    const job = new ClaimedJob(raw, texts, index);
    if (reading.exact) readExactly(job, memberTexts(texts.at(index)), ['payload', 'steps']);
    return job as unknown as Job<P>;
  });
}

function readExactly(target: Record<string, unknown>, texts: Map<string, string>, members: string[]): void {
  for (const name of members) {
    const text = texts.get(name);
    if (text !== undefined) target[name] = parseExact(text);
  }
}

const NESTED = ['history', 'progress'];

/** A job of GET /v1/jobs, from its text in the reply. */
export function jobView<P, R>(text: string, raw: Record<string, unknown>, reading: Reading): JobView<P, R> {
  const view = camelObject(withPayload(raw), NESTED);
  const texts = memberTexts(text);
  for (const name of ['payload', 'result']) if (texts.has(name)) view[`${name}Text`] = texts.get(name);
  if (reading.exact) readExactly(view, texts, ['payload', 'result']);
  return view as unknown as JobView<P, R>;
}

export function jobViews<P, R>(text: string, json: Record<string, unknown>, reading: Reading): JobView<P, R>[] {
  const texts = new ItemTexts(text, 'jobs');
  return (json['jobs'] as Record<string, unknown>[]).map((raw, index) => jobView(texts.at(index), raw, reading));
}
