#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Reports the result of clang-tidy, which 10-lint.sh started.
source "$(dirname "$0")/tap.bash"

tidy_ended() {
  while [ ! -e build/tidy/aside.rc ]; do
    kill -0 "$(cat build/tidy/aside.pid)" || return 1
    sleep 0.5
  done
  cat build/tidy/aside.out
  return "$(cat build/tidy/aside.rc)"
}

export -f tidy_ended
tap_limit=7200 tap_check lint/tidy bash -c tidy_ended
tap_done
