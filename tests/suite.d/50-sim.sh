#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The simulation: seeded histories of the engine checked against a model. `make soak` runs more.
source "$(dirname "$0")/tap.bash"

if compgen -G 'tests/sim/*.c' >/dev/null; then
  tap_cases 'sim (debug)' build/debug/tests/sim --suite
fi
tap_done
