#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every tests/unit/**/test_*.c under the address and undefined-behaviour sanitizers; what has
# threads (tests/unit/backend, the load generator) under the thread sanitizer too.
source "$(dirname "$0")/tap.bash"

# unit HOW PRESET FOLDER|FILE PREFIX…: HOW is ahead (begin them) or cases (count them). The list comes from
# the sources, so a program that was not built fails. Histories of the journal run on one thread.
unit() {
  local how=$1 preset=$2 folder=$3 source name skip=
  shift 3
  [ "$preset" != tsan ] || skip=test_journal_history.c
  [ -e "$folder" ] || return 0
  while IFS= read -r source; do
    name=${source#tests/}
    name=${name%.c}
    if [ "$how" = ahead ]; then
      ! tap_wanted "$name ($preset)" || tap_ahead "$@" "build/$preset/tests/$name"
    elif [ -x "build/$preset/tests/$name" ]; then
      tap_cases "$name ($preset)" "$@" "build/$preset/tests/$name"
    else
      tap_fail "$name ($preset)" 'was not built'
    fi
  done < <(find "$folder" -name 'test_*.c' ! -name "$skip" | LC_ALL=C sort)
}

for how in ahead cases; do
  unit $how debug tests/unit
  unit $how tsan tests/unit/backend "${tap_fixed_layout[@]}"
  unit $how tsan tests/unit/app/test_bench_run.c "${tap_fixed_layout[@]}"
done
tap_done
