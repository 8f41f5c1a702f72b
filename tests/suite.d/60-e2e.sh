#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The real binary over real sockets, driven by Node.
source "$(dirname "$0")/tap.bash"

[ -d tests/e2e/node_modules/playwright-core ] || npm ci --silent --no-audit --no-fund --prefix tests/e2e >&2

# Clients of other people, as their lock file has them.
modules=tests/clients/node_modules
if ! cmp -s tests/clients/package-lock.json "$modules/.holdfast-lock"; then
  if npm ci --prefix tests/clients >"$tap_aside/npm.log" 2>&1; then
    cp tests/clients/package-lock.json "$modules/.holdfast-lock"
  else
    sed 's/^/# /' "$tap_aside/npm.log"
  fi
fi

tap_jobs=$(($(nproc) * 3 / 2))
# The longest first, so that none is left over at the end.
long=(postgres migrate redis postgres-nodes full cli tasks stream)
long=("${long[@]/#/tests/e2e/}")
for file in "${long[@]/%/.test.mjs}" tests/e2e/*.test.mjs; do
  name=${file#tests/}
  ! tap_wanted "${name%.test.mjs}" || [ -e "$tap_aside/$(tap_key node --test-reporter=tap "$file").out" ] ||
    tap_ahead node --test-reporter=tap "$file"
done
for file in tests/e2e/*.test.mjs; do
  name=${file#tests/}
  tap_cases "${name%.test.mjs}" node --test-reporter=tap "$file"
done
tap_done
