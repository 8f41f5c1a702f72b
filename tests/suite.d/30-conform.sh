#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The conformance suite: the same cases on every backend that needs no server, under both pairs of
# sanitizers; the thread sanitizer runs only on the store on disk, which has threads.
source "$(dirname "$0")/tap.bash"

tap_in_memory
on_disk=("${tap_fixed_layout[@]}" build/tsan/tests/conform --backend fault+sqlite)
! tap_wanted 'conform (debug)' || tap_ahead build/debug/tests/conform
! tap_wanted 'conform (tsan)' || tap_ahead "${on_disk[@]}"
tap_cases 'conform (debug)' build/debug/tests/conform
tap_cases 'conform (tsan)' "${on_disk[@]}"
tap_done
