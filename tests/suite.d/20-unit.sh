#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every tests/unit/**/test_*.c under the address and undefined-behaviour sanitizers; what has
# threads (tests/unit/backend, the load generator) under the thread sanitizer too.
source "$(dirname "$0")/tap.bash"

# unit PRESET FOLDER|FILE PREFIX…: the list comes from the sources, so a program that was not built fails.
unit() {
  local preset=$1 folder=$2 source name
  shift 2
  [ -e "$folder" ] || return 0
  while IFS= read -r source; do
    name=${source#tests/}
    name=${name%.c}
    if [ -x "build/$preset/tests/$name" ]; then
      tap_cases "$name ($preset)" "$@" "build/$preset/tests/$name"
    else
      tap_fail "$name ($preset)" 'was not built'
    fi
  done < <(find "$folder" -name 'test_*.c' | LC_ALL=C sort)
}

unit debug tests/unit
unit tsan tests/unit/backend "${tap_fixed_layout[@]}"
unit tsan tests/unit/app/test_bench_run.c "${tap_fixed_layout[@]}"
tap_done
