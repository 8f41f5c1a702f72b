// SPDX-License-Identifier: Apache-2.0
// What tests expect of answers; each returns the body.
import assert from 'node:assert/strict';

export const status = (answer, wanted) => {
  assert.equal(answer.status, wanted, answer.text);
  return answer.json;
};

export const problem = (answer, wanted, code) => {
  assert.equal(status(answer, wanted).code, code, answer.text);
  return answer.json;
};
