#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A database, or Redis, that several servers share, under faults: killed, frozen, cut off; leaders that are stopped;
# servers whose answers are changed on the way (hostile).
# Times are short here; `make soak SOAK='faults-pg faults-redis'` takes the full ones.
source "$(dirname "$0")/tap.bash"

# The longest first, so that none is left over at the end.
parts='hostile-postgres redis database leader redis-links plans network sync hostile-redis pooler'
for part in $parts; do
  ! tap_wanted "faults/$part" || tap_ahead node --test-reporter=tap "tests/faults/$part.test.mjs"
done
for part in $parts; do
  tap_cases "faults/$part" node --test-reporter=tap "tests/faults/$part.test.mjs"
done
tap_done
