#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/shared_costs.sh postgres|redis [SECONDS]: what a job costs on a store that nodes share, on its own
# server: full cycles a second through one node, processor time of the node and of the server, and bytes of its
# log, a job at a time (W2) and in batches of 100 (W3). docs/scaling.md has a model based on these figures.
# Durable: the server syncs before it confirms. Set TMPDIR to the disk to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
kind=${1:?postgres or redis} seconds=${2:-5} holdfast=${HF_BIN:-build/release/holdfast}
if [ "$kind" = postgres ] && [ -z "${HF_POSTGRES:-}" ]; then
  export TMPDIR=${TMPDIR:-/tmp} HF_POSTGRES_CONF="shared_buffers = 256MB"
  exec scripts/with-postgres "$0" "$@"
fi
if [ "$kind" = redis ] && [ -z "${HF_REDIS:-}" ]; then
  export TMPDIR=${TMPDIR:-/tmp}
  exec scripts/with-redis "$0" "$@"
fi
work=$(mktemp -d)
case $kind in
  postgres)
    url=$HF_POSTGRES root=$(head -n 1 "$HF_POSTGRES_DATA/postmaster.pid")
    logged() { psql -h "$(dirname "$HF_POSTGRES_DATA")" -U holdfast -d postgres -qAtc "SELECT pg_current_wal_lsn() - '0/0'"; }
    ;;
  redis)
    url=$HF_REDIS root=$(cat "$HF_REDIS_DIR/redis.pid")
    logged() { redis-cli -s "$HF_REDIS_DIR/redis.sock" INFO persistence | awk -F'[:\r]' '/^aof_current_size:/ { print $2 }'; }
    ;;
  *) echo "shared_costs.sh: postgres or redis, not '$kind'" >&2; exit 2 ;;
esac

"$holdfast" serve --backend "$url" --listen 127.0.0.1:0 >"$work/out" 2>"$work/err" &
node=$!
trap 'kill "$node" 2>/dev/null; wait "$node" 2>/dev/null; rm -rf "$work"' EXIT
until at=$(sed -n 's/^listening on //p' "$work/out") && [ -n "$at" ]; do
  kill -0 "$node" 2>/dev/null || { cat "$work/err" >&2; exit 1; }
  sleep 0.05
done

# PID…: processor time of these processes and their children that ended, in ticks.
ticks() {
  local all=0 one
  for one in "$@"; do
    [ -r "/proc/$one/stat" ] || continue
    all=$((all + $(awk '{ sub(/.*\) /, ""); print $12 + $13 + $14 + $15 }' "/proc/$one/stat")))
  done
  echo "$all"
}
family() { echo "$1"; pgrep -P "$1" || true; }

hertz=$(getconf CLK_TCK)
printf '%-4s %10s %14s %14s %14s\n' work jobs/s 'node us/job' 'server us/job' 'log bytes/job'
for batch in 1 100; do
  mapfile -t servers < <(family "$root")
  before=("$(ticks "$node")" "$(ticks "${servers[@]}")" "$(logged)")
  began=$(date +%s.%N)
  rate=$("$holdfast" bench -s "$at" --mode mixed --producers 16 --consumers 16 --batch "$batch" --queue costs \
    --duration "${seconds}s" | awk '$1 == "jobs/s" { print $2 }')
  ended=$(date +%s.%N)
  after=("$(ticks "$node")" "$(ticks "${servers[@]}")" "$(logged)")
  awk -v work="$([ "$batch" = 1 ] && echo W2 || echo W3)" -v rate="$rate" -v began="$began" -v ended="$ended" -v hz="$hertz" \
    -v n=$((after[0] - before[0])) -v v=$((after[1] - before[1])) -v l=$((after[2] - before[2])) 'BEGIN {
      jobs = rate * (ended - began); us = 1e6 / hz / jobs
      printf "%-4s %10d %14.1f %14.1f %14d\n", work, rate, n * us, v * us, l / jobs }'
done
