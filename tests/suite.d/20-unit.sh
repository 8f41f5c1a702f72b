#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every tests/unit/**/test_*.c under the address and undefined-behaviour sanitizers; programs that
# start threads also run under the thread sanitizer.
source "$(dirname "$0")/tap.bash"

threads='backend/local/test_applier backend/local/test_backup backend/failover/test_failover backend/local/journal/test_journal
  backend/local/test_local backend/local/sqlite/test_store backend/local/sqlite/test_store_read cli/bench/test_bench_run'

# unit HOW PRESET NAME COMMAND…: HOW is ahead (start it) or cases (count its cases). The names come from
# the sources, so a program that was not built is a failure.
unit() {
  local how=$1 preset=$2 name=$3
  shift 3
  if [ "$how" = ahead ]; then
    ! tap_wanted "$name ($preset)" || tap_ahead "$@" "build/$preset/tests/$name"
  elif [ -x "build/$preset/tests/$name" ]; then
    tap_cases "$name ($preset)" "$@" "build/$preset/tests/$name"
  else
    tap_fail "$name ($preset)" 'was not built'
  fi
}

units() {
  local source name
  while IFS= read -r source; do
    name=${source#tests/}
    unit "$1" debug "${name%.c}"
  done < <(find tests/unit -name 'test_*.c' | LC_ALL=C sort)
  for name in $threads; do
    unit "$1" tsan "unit/$name" "${tap_fixed_layout[@]}"
  done
}

tap_in_memory
units ahead
units cases
tap_done
