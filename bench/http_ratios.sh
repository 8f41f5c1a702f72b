#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/http_ratios.sh [ROUNDS [SECONDS]]: Holdfast over HTTP beside Redis that syncs each write, on
# the same machine, disk and minute. Every round (3) runs each measurement for about SECONDS (5), one
# after the other, so that a slow minute hits them all; the table has the medians.
#
#   enqueue   durable, one job a request, 64 connections     | Redis: LPUSH, appendfsync always
#   healthz   the same server, requests that touch no store
#   cycle     enqueue, claim and ack in batches of 100       | Redis: LPUSH of 100 and RPOP of 100,
#                                                            | which has no lease and no ack
#   wake-up   one enqueue each 20 ms to a waiting consumer   | Redis: LPUSH to a waiting BLMOVE
#
# Servers run on ports of their own with data below build/, and are stopped again. Needs the release
# build and `scripts/setup bench`. HOLDFAST=… measures another binary.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${1:-3}
seconds=${2:-5}
holdfast=${HOLDFAST:-build/release/holdfast}
connections=64
payload=200
batch=100

work=$(mktemp -d build/ratios.XXXXXX)
pids=()
cleanup() {
  local pid
  for pid in "${pids[@]}"; do
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
  done
  rm -rf "$work"
}
trap cleanup EXIT
fail() {
  echo "http_ratios: $*" >&2
  exit 1
}
progress() { [ ! -t 2 ] || printf '\r\033[K%s' "$*" >&2; }

# ---- the two servers -----------------------------------------------------------------------------

start_holdfast() {
  local line
  mkfifo "$work/ready"
  "$holdfast" serve --listen 127.0.0.1:0 --data "$work/holdfast" >"$work/ready" 2>"$work/holdfast.log" &
  holdfast_pid=$!
  pids+=("$holdfast_pid")
  exec {ready}<"$work/ready"
  read -r -t 30 -u "$ready" line || { cat "$work/holdfast.log" >&2; fail "holdfast did not start"; }
  server=${line#listening on }
  case $server in http://*) ;; *) fail "holdfast said '$line'" ;; esac
}

# Redis cannot be told to find a port: tries some until the server that answers is the one started.
start_redis() {
  local try tick
  mkdir "$work/redis"
  for try in 1 2 3 4 5 6 7 8 9 10; do
    redis_port=$((20000 + RANDOM % 20000))
    redis-server --port "$redis_port" --bind 127.0.0.1 --dir "$PWD/$work/redis" --save '' \
      --appendonly yes --appendfsync always --daemonize no >"$work/redis.log" 2>&1 &
    redis_pid=$!
    for tick in {1..100}; do
      kill -0 "$redis_pid" 2>/dev/null || break
      if redis INFO server 2>/dev/null | grep -q "^process_id:$redis_pid"; then
        pids+=("$redis_pid")
        return
      fi
      sleep 0.05
    done
    kill "$redis_pid" 2>/dev/null || true
    wait "$redis_pid" 2>/dev/null || true
  done
  cat "$work/redis.log" >&2
  fail "redis-server did not start"
}
redis() { redis-cli -h 127.0.0.1 -p "$redis_port" "$@"; }

# ---- measurements --------------------------------------------------------------------------------

# measure NAME FILTER OPTION…: a run of the load generator; FILTER takes figures out of its JSON.
measure() {
  local name=$1 filter=$2
  shift 2
  "$holdfast" bench --server "$server" --server-pid "$holdfast_pid" --connections $connections \
    --payload $payload --duration "${seconds}s" --json "$@" >"$work/run.json" ||
    fail "the run '$name' had errors: $(cat "$work/run.json")"
  jq -r "$filter" "$work/run.json" >>"$work/$name"
}

# redis_rate N COMMAND…: requests a second.
redis_rate() {
  local n=$1
  shift
  redis-benchmark -h 127.0.0.1 -p "$redis_port" -c $connections -n "$n" --csv "$@" |
    awk -F'","' 'NR > 1 { print $2; seen = 1 } END { exit !seen }'
}

# redis_long COMMAND…: the rate over about SECONDS; a short run says how many requests that takes.
redis_long() {
  local rate
  rate=$(redis_rate 2000 "$@")
  redis_rate "$(awk -v r="$rate" -v s="$seconds" 'BEGIN { printf "%d", r * s + 1 }')" "$@"
}

redis_enqueue() {
  redis_long LPUSH enqueue "$value" >>"$work/redis_enqueue"
  redis DEL enqueue >/dev/null
}

# Jobs a second when each batch is pushed once and popped once.
redis_cycle() {
  local n push pop
  push=$(redis_rate 500 LPUSH cycle "${values[@]}")
  n=$(awk -v r="$push" -v s="$seconds" 'BEGIN { printf "%d", r * s / 2 + 1 }')
  redis DEL cycle >/dev/null
  push=$(redis_rate "$n" LPUSH cycle "${values[@]}")
  pop=$(redis_rate "$n" RPOP cycle $batch)
  [ "$(redis LLEN cycle)" -eq 0 ] || fail "Redis was left with jobs"
  awk -v a="$push" -v b="$pop" -v n=$batch 'BEGIN { printf "%.0f\n", n / (1 / a + 1 / b) }' \
    >>"$work/redis_cycle"
}

# wake NAME PROTOCOL PORT: p50 in us of an enqueue that somebody waits for.
wake() {
  build/release/bench/bench_wake "$2" "$3" $((seconds * 50)) | awk '{ print $1 }' >>"$work/$1"
}

median() { sort -n "$work/$1" | awk '{ v[NR] = $1 } END { print (v[int((NR + 1) / 2)] + v[int(NR / 2) + 1]) / 2 }'; }

# row NAME FIGURE UNIT [OTHER LABEL]…: a figure, and its ratio to others.
row() {
  local name=$1 figure=$2
  shift 2
  printf '%-38s %10.0f' "$name" "$figure"
  while [ $# -gt 0 ]; do
    awk -v a="$figure" -v b="$1" -v l="$2" 'BEGIN { printf "   %.2f of %s", a / b, l }'
    shift 2
  done
  echo
}

value=$(head -c $payload /dev/zero | tr '\0' x)
values=()
for ((i = 0; i < batch; i++)); do values+=("$value"); done

start_holdfast
start_redis
rate='.jobs_per_s'
for ((round = 1; round <= rounds; round++)); do
  progress "round $round of $rounds"
  measure enqueue "$rate" --mode enqueue --fsync-dir "$work"
  jq -r '.fdatasync_per_s' "$work/run.json" >>"$work/syncs"
  jq -r '.server_cpu_ns_per_job' "$work/run.json" >>"$work/enqueue_cpu"
  redis_enqueue
  measure healthz '.requests_per_s' --mode healthz
  measure cycle "$rate" --mode cycle --batch $batch
  jq -r '.server_cpu_ns_per_job' "$work/run.json" >>"$work/cycle_cpu"
  redis_cycle
  wake wake http "${server##*:}"
  wake redis_wake redis "$redis_port"
done
progress ''

enqueue=$(median enqueue)
lpush=$(median redis_enqueue)
healthz=$(median healthz)
echo "medians of $rounds rounds, $connections connections, payloads of $payload bytes; per second:"
row 'Redis LPUSH, always synced' "$lpush"
row 'Holdfast enqueue, durable' "$enqueue" "$lpush" Redis "$healthz" healthz
row 'Holdfast healthz' "$healthz"
row "Redis LPUSH $batch + RPOP $batch, jobs" "$(median redis_cycle)"
row "Holdfast cycle, batches of $batch, jobs" "$(median cycle)" "$(median redis_cycle)" Redis
row 'Redis wake-up, us (p50)' "$(median redis_wake)"
row 'Holdfast wake-up, us (p50)' "$(median wake)" "$(median redis_wake)" Redis
row 'fdatasync of 4 KiB' "$(median syncs)"
awk -v e="$(median enqueue_cpu)" -v c="$(median cycle_cpu)" \
  'BEGIN { printf "server CPU: %.1f us an enqueue, %.1f us a job of the cycle\n", e / 1000, c / 1000 }'
