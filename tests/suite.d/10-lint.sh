#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Static checks of the sources, and fixtures that prove that the checks can fail.
source "$(dirname "$0")/tap.bash"

# A fixture is a small tree with a file `expect`, which contains the sorted output of the check for this tree.
# If `expect` is empty, the tree must pass.
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
tap_check lint/files scripts/check-files
export -f fixture_check format_check
for check in layers banned node words files; do
  for fixture in tests/lint/"$check"/*/; do
    fixture=${fixture%/}
    tap_check "lint/check-$check on ${fixture##*/}" \
      bash -c 'fixture_check "$@"' - "check-$check" "$fixture"
  done
done
tap_check lint/format bash -c 'set -o pipefail; format_check'

# clang-tidy takes minutes: it runs beside the tests at a low priority; 80-lint-tidy.sh reports its result.
if tap_wanted lint/tidy; then
  mkdir -p build/tidy
  rm -f build/tidy/aside.*
  setsid bash -c 'echo $$ >build/tidy/aside.pid
    nice -n 19 scripts/tidy >build/tidy/aside.out 2>&1
    echo $? >build/tidy/aside.rc' </dev/null >/dev/null 2>&1 &
fi
tap_done
