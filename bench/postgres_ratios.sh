#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/postgres_ratios.sh [SECONDS]: Holdfast on a PostgreSQL server of its own against a plain
# SKIP LOCKED table on the same server, in turns: W2 (16 producers, 16 consumers, a job at a time), W3
# (the same in batches of 100), and W2 with delayed jobs standing (DELAYED, default 1000000).
# Durable: fsync and synchronous_commit are on. Set TMPDIR to the disk to measure.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ -z "${HF_POSTGRES:-}" ]; then
  export TMPDIR=${TMPDIR:-/tmp} HF_POSTGRES_CONF="shared_buffers = 256MB"
  exec scripts/with-postgres "$0" "$@"
fi
seconds=${1:-5} delayed=${DELAYED:-1000000} holdfast=${HF_BIN:-build/release/holdfast}
socket=$(dirname "$HF_POSTGRES_DATA")
work=$(mktemp -d)
sql() { psql -h "$socket" -U holdfast -d postgres -qAt -v ON_ERROR_STOP=1 -c "$1"; }

"$holdfast" serve --backend "$HF_POSTGRES" --listen 127.0.0.1:0 >"$work/out" 2>"$work/err" &
server=$!
trap 'kill "$server" 2>/dev/null; wait "$server" 2>/dev/null; rm -rf "$work"' EXIT
until url=$(sed -n 's/^listening on //p' "$work/out") && [ -n "$url" ]; do sleep 0.05; done

# BATCH: full cycles a second.
ours() {
  "$holdfast" bench -s "$url" --mode mixed --producers 16 --consumers 16 --batch "$1" --queue ours \
    --duration "${seconds}s" | awk '$1 == "jobs/s" { print $2 }'
}

sql "CREATE TABLE plain (id bigserial PRIMARY KEY, state int NOT NULL DEFAULT 0, priority int NOT NULL DEFAULT 0,
  run_at timestamptz NOT NULL DEFAULT now(), payload text NOT NULL);
  CREATE INDEX ON plain (state, priority DESC, id)"
for batch in 1 100; do
  echo "INSERT INTO plain (payload) SELECT repeat('x', 200) FROM generate_series(1, $batch);" >"$work/put.$batch"
  cat >"$work/take.$batch" <<SQL
UPDATE plain SET state = 1 WHERE id IN (SELECT id FROM plain WHERE state = 0 AND run_at <= now()
  ORDER BY priority DESC, id LIMIT $batch FOR UPDATE SKIP LOCKED) RETURNING id \aset
DELETE FROM plain WHERE id IN (SELECT id FROM plain WHERE state = 1 ORDER BY id LIMIT $batch FOR UPDATE SKIP LOCKED);
SQL
done
sed -i 's/ RETURNING id \\aset/;/' "$work"/take.*

plain() {
  local run=("$HF_POSTGRES_BIN/pgbench" -h "$socket" -U holdfast -n -M prepared -c 16 -j 1 postgres)
  "${run[@]}" -T $((seconds + 1)) -f "$work/put.$1" >"$work/put.out" 2>&1 &
  local producers=$!
  sleep 0.5
  "${run[@]}" -T "$seconds" -f "$work/take.$1" 2>&1 | awk -v batch="$1" '/^tps/ { printf "%d\n", $3 * batch }'
  wait "$producers"
  sql 'TRUNCATE plain'
}

row() { printf '%-28s %10s %10s %8s\n' "$1" "$2" "$3" "$(awk -v a="$2" -v b="$3" 'BEGIN { printf "%.2f", a / b }')"; }
printf '%-28s %10s %10s %8s\n' work holdfast peer ratio
for round in 1 2; do
  p=$(plain 1) o=$(ours 1)
  row "W2 (round $round)" "$o" "$p"
  p=$(plain 100) b=$(ours 100)
  row "W3 (round $round)" "$b" "$p"
done
sql "INSERT INTO holdfast.job (seq, id_hi, queue, state, priority, run_at, since, generation, payload_kind, payload_bytes, payload)
  SELECT nextval('holdfast.job_seq'), 1, number, 1, 0, 32503680000000, 0, 0, 1, 3, '\"x\"'
  FROM holdfast.queues, generate_series(1, $delayed) WHERE name = 'ours';
  INSERT INTO holdfast.delta (queue, hour, jobs_scheduled) SELECT number, 0, $delayed FROM holdfast.queues WHERE name = 'ours'"
row "W2 with $delayed delayed" "$(ours 1)" "$o"
