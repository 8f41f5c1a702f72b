#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The real binary over real sockets, driven by Node.
source "$(dirname "$0")/tap.bash"

# The driver of Chromium and third-party clients, in the versions of their lock files.
for packages in tests/e2e tests/clients; do
  modules=$packages/node_modules
  cmp -s "$packages/package-lock.json" "$modules/.holdfast-lock" && continue
  if npm ci --no-audit --no-fund --prefix "$packages" >"$tap_aside/npm.log" 2>&1; then
    cp "$packages/package-lock.json" "$modules/.holdfast-lock"
  else
    sed 's/^/# /' "$tap_aside/npm.log"
  fi
done

tap_jobs=$(($(nproc) * 3 / 2))
# The longest come first, so that none of them runs alone at the end.
long=(postgres migrate redis postgres-nodes full cli work_server tasks stream)
# A test is named after its file, without the folder: e2e/kv is tests/e2e/features/kv.test.mjs.
long=("${long[@]/#/tests/e2e/*/}")
for file in ${long[@]/%/.test.mjs} tests/e2e/*/*.test.mjs; do
  name=e2e/${file##*/}
  ! tap_wanted "${name%.test.mjs}" || [ -e "$tap_aside/$(tap_key node --test-reporter=tap "$file").out" ] ||
    tap_ahead node --test-reporter=tap "$file"
done
for file in tests/e2e/*/*.test.mjs; do
  name=e2e/${file##*/}
  tap_cases "${name%.test.mjs}" node --test-reporter=tap "$file"
done
# 10,000 processes with the address sanitizer take minutes, so the test of the sanitized program starts fewer.
tap_cases e2e/work_server-release env HF_BIN="$PWD/build/release/holdfast" node --test-reporter=tap tests/e2e/work/work_server.test.mjs
tap_done
