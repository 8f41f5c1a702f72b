// SPDX-License-Identifier: Apache-2.0
/** A Map from key(item) to the items that have it, in their order. */
export const groupBy = (list, key) => {
  const map = new Map();
  for (const item of list) {
    const k = key(item);
    if (!map.has(k)) map.set(k, []);
    map.get(k).push(item);
  }
  return map;
};
