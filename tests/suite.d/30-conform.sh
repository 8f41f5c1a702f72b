#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The conformance suite: the same cases on every backend, under both pairs of sanitizers.
source "$(dirname "$0")/tap.bash"

if compgen -G 'tests/conform/*.c' >/dev/null; then
  ! tap_wanted 'conform (debug)' || tap_ahead build/debug/tests/conform
  ! tap_wanted 'conform (tsan)' || tap_ahead "${tap_fixed_layout[@]}" build/tsan/tests/conform
  tap_cases 'conform (debug)' build/debug/tests/conform
  tap_cases 'conform (tsan)' "${tap_fixed_layout[@]}" build/tsan/tests/conform
fi
tap_done
