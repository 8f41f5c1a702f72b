import { mock, test } from 'node:test';

const here = import.meta.dirname;
test('a', (t) => t.assert.equal([1, 2].toReversed().at(0), here));
mock.timers.enable();
const { resolve } = Promise.withResolvers();
resolve(crypto.randomUUID());
export const words = new Map().keys().map(String);
