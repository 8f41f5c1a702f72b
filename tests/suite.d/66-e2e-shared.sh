#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The end-to-end suites of all APIs again, on the stores that nodes share: one PostgreSQL server and one Redis server
# for all suites; each Holdfast server has its own schema or prefix. tests/e2e/lib/backend.mjs says which tests are
# left out on which store.
[ -n "${HF_REDIS:-}" ] || exec "$(dirname "$0")/../../scripts/with-redis" "$0" "$@"
[ -n "${HF_POSTGRES:-}" ] || exec "$(dirname "$0")/../../scripts/with-postgres" "$0" "$@"
source "$(dirname "$0")/tap.bash"

tap_jobs=$((2 * $(nproc)))
# The longest come first, so that none of them runs alone at the end.
parts='clauses orchestrator-clauses keyval-clauses pdq-clauses tasks-clauses webqueue-clauses breakers stream notify schedule beanstalk orchestrator-triggers tasks keyval webqueue nomarr pdq ops alerts input kv handoff steps why limits dependencies export_dependencies orchestrator documents documents-webqueue http native smoke'
on() { # ahead|NAME BACKEND PART
  local words=(env HF_TEST_BACKEND="$2" node --test-reporter=tap tests/e2e/*/"$3.test.mjs")
  case $1 in
    ahead) ! tap_wanted "e2e-$2/$3" || tap_ahead "${words[@]}" ;;
    *) tap_cases "$1" "${words[@]}" ;;
  esac
}
each() { # ahead|''
  local part backend
  for part in $parts; do
    for backend in postgres redis; do
      on "${1:-e2e-$backend/$part}" "$backend" "$part"
    done
  done
}
each ahead
each ''
tap_done
