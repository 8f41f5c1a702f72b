#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The conformance suite on the stores that nodes share; each store has its own server. On Redis the cases run for a
# single node, and again beside another node, where jobs are held for claims and every change is checked. With
# dispatch, PostgreSQL is the same store: all cases pass, and those about claims and states run here.
source "$(dirname "$0")/tap.bash"

conform() { # NAME PROFILE [PATTERN]: "ahead" as the name begins it
  local words=(build/debug/tests/conform --backend "$2" ${3:+--case "$3"})
  case $2 in *postgres*) words=(scripts/with-postgres "${words[@]}") ;; esac
  case $2 in *redis*) words=(scripts/with-redis "${words[@]}") ;; esac
  if [ "$1" = ahead ]; then
    tap_ahead "${words[@]}"
  else
    tap_cases "$1" "${words[@]}"
  fi
}
if tap_wanted 'conform (postgres)'; then
  conform ahead postgres
  conform ahead redis
  conform ahead shared+redis
fi
conform 'conform (postgres)' postgres
conform 'conform (redis)' redis
conform 'conform (redis, shared)' shared+redis
for part in TF- PDQ- ORC-; do
  conform "conform (postgres+redis, $part)" postgres+redis "$part"
done
tap_done
