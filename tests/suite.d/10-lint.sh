#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# What can be said about the sources without running them, and the proof that the checks can fail.
source "$(dirname "$0")/tap.bash"

# A fixture is a small tree and a file `expect`: what the check prints about it, sorted.
# An empty `expect` is a tree that must pass.
fixture_check() {
  local check=$1 fixture=$2 said status=0 expected=0
  said=$("scripts/$check" "$fixture") || status=$?
  [ ! -s "$fixture/expect" ] || expected=1
  diff -u "$fixture/expect" <(printf '%s' "$said" | LC_ALL=C sort) && [ "$status" -eq "$expected" ]
}

format_check() {
  scripts/sources src tests bench | xargs clang-format --dry-run -Werror
}

tap_check lint/layers scripts/check-layers
tap_check lint/banned scripts/check-banned
tap_check lint/node scripts/check-node
tap_check lint/words scripts/check-words
export -f fixture_check format_check
for check in layers banned node words; do
  for fixture in tests/lint/"$check"/*/; do
    fixture=${fixture%/}
    tap_check "lint/check-$check on ${fixture##*/}" \
      bash -c 'fixture_check "$@"' - "check-$check" "$fixture"
  done
done
tap_check lint/format bash -c 'set -o pipefail; format_check'

# clang-tidy takes minutes: it works beside the tests, on the processor time they leave;
# 80-lint-tidy.sh asks how it ended.
if tap_wanted lint/tidy; then
  mkdir -p build/tidy
  rm -f build/tidy/aside.*
  setsid bash -c 'echo $$ >build/tidy/aside.pid
    nice -n 19 scripts/tidy >build/tidy/aside.out 2>&1
    echo $? >build/tidy/aside.rc' </dev/null >/dev/null 2>&1 &
fi
tap_done
