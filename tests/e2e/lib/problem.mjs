// SPDX-License-Identifier: Apache-2.0
// What a refusal must look like.

/** What is wrong with a reply that should be a refusal, or null. `codes`: the correct ones. */
export function refusalFault(answer, codes, field) {
  const { json, status } = answer;
  if (!/^application\/problem\+json/.test(answer.headers['content-type'] ?? '') || !json) return `no problem document: ${status} ${answer.text?.slice(0, 200)}`;
  return problemFault(json, codes, field) ?? (json.status === status ? null : `says ${json.status}, is ${status}`);
}

const statuses = {
  malformed_json: 400, invalid_field: 422, unknown_field: 422, missing_field: 422, invalid_id: 422, not_found: 404, no_queue: 404, no_alert: 404, no_notice: 404, no_breaker: 404, no_schedule: 404, breakers_full: 507,
  no_route: 404, method_not_allowed: 405, too_big: 413, bad_request: 400,
};

/** The same for a problem inside a batch. */
export function problemFault(problem, codes, field) {
  const { code, status, type, title, detail } = problem;
  const list = [codes].flat();
  if (!list.includes(code)) return `code ${code}, not ${list.join(' or ')}: ${detail}`;
  if (status !== statuses[code]) return `status ${status} for ${code}`;
  if (type !== `/problems/${code}` || !title) return `type ${type}, title ${title}`;
  if (!(typeof detail === 'string' && detail.length > 3)) return 'no detail';
  if (field !== undefined && problem.field !== field) return `field ${problem.field}, not ${field}: ${detail}`;
  return null;
}
