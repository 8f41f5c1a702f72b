#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# PostgreSQL or Redis, shared by several servers, under faults: it is killed, frozen or disconnected; leaders are
# stopped; the replies of the store are changed on their way (hostile).
# The times are short here; `make soak SOAK='faults-pg faults-redis'` uses the default ones.
source "$(dirname "$0")/tap.bash"

# The longest come first, so that none of them runs alone at the end.
parts='hostile-postgres redis database inbox leader redis-links plans network sync hostile-redis pooler'
for part in $parts; do
  ! tap_wanted "faults/$part" || tap_ahead node --test-reporter=tap "tests/faults/$part.test.mjs"
done
for part in $parts; do
  tap_cases "faults/$part" node --test-reporter=tap "tests/faults/$part.test.mjs"
done
tap_done
