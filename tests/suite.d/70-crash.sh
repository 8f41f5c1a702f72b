#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A machine that breaks under the server: kill -9, power cuts, deaths at named places, calls that fail.
# `make soak` does the same for hours.
source "$(dirname "$0")/tap.bash"

# The longest come first, so that none of them runs alone at the end.
parts='failpoint faults kill power checker checker_flow'
for part in $parts; do
  ! tap_wanted "crash/$part" || tap_ahead node --test-reporter=tap "tests/crash/$part.test.mjs"
done
for part in $parts; do
  tap_cases "crash/$part" node --test-reporter=tap "tests/crash/$part.test.mjs"
done
tap_done
