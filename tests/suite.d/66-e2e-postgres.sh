#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The end-to-end suites of the API and its doors once more, on a store in PostgreSQL: each with a server of its
# own, each Holdfast with a schema of its own.
source "$(dirname "$0")/tap.bash"

on_postgres=(scripts/with-postgres env HF_TEST_BACKEND=postgres node --test-reporter=tap)
# The longest first, so that none is left over at the end.
parts='stream beanstalk tasks webqueue pdq input orchestrator http native smoke'
for part in $parts; do
  ! tap_wanted "e2e-postgres/$part" || tap_ahead "${on_postgres[@]}" "tests/e2e/$part.test.mjs"
done
for part in $parts; do
  tap_cases "e2e-postgres/$part" "${on_postgres[@]}" "tests/e2e/$part.test.mjs"
done
tap_done
