#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The client commands and the load generator of the real binary, without a server and with one.
source "$(dirname "$0")/tap.bash"

work=$(mktemp -d)
server_pid=
cleanup() {
  [ -z "$server_pid" ] || { kill "$server_pid" && wait "$server_pid"; } 2>/dev/null
  rm -rf "$work" "$tap_log"
}
trap cleanup EXIT
export work
unset HOLDFAST_SERVER http_proxy all_proxy

# client STATUS STREAM PATTERN ARGUMENT…: exits with STATUS, and a line of STREAM (1 or 2) matches; with
# the pattern "" STREAM is empty.
# Standard input is the file $work/in.
client() {
  local status=$1 stream=$2 pattern=$3 out rc=0
  shift 3
  out=$(mktemp -d "$work/XXXXXX") || return 1
  build/debug/holdfast "$@" <"$work/in" >"$out/1" 2>"$out/2" || rc=$?
  head -n 50 "$out/1" "$out/2"
  echo "exit status $rc"
  [ "$rc" -eq "$status" ] || return
  if [ -n "$pattern" ]; then grep -Eq -- "$pattern" "$out/$stream"; else [ ! -s "$out/$stream" ]; fi
}
export -f client
check() {
  local name=$1
  shift
  tap_check "client/$name" bash -c 'client "$@"' - "$@"
}
: >"$work/in"

# ---- no server -----------------------------------------------------------------------------------

nowhere=http://127.0.0.1:1
check 'no server' 3 2 "^holdfast: no reply from the server at $nowhere" queues -s $nowhere
check 'no server to load' 3 2 '^holdfast: no reply from the server' bench -s $nowhere
check 'no socket' 3 2 'no reply from the server at unix:/nonexistent' queues -s unix:/nonexistent
check 'another scheme' 2 2 'scheme other than http and https; it is written' queues -s ftp://host
check 'no password in the address' 2 2 'user name or password' queues -s http://u:p@127.0.0.1
check 'no password in the complaint' 2 2 "address '…' cannot be read" queues -s 'http://u:p@local host'
check 'payload must be JSON' 2 2 'the payload is not JSON .*--raw sends bytes' enqueue q text
check 'a payload must be given' 2 2 'the payload is missing; give JSON .*- to read .*@FILE .*null' enqueue q
check 'bulk needs states' 2 2 '`cancel --queue` needs --state, .*scheduled,ready,running' cancel --queue q
check 'bulk requeue needs a confirmation' 2 2 '`requeue --queue` asks for confirmation, .*--yes' requeue --queue q
check 'an empty group is no group' 2 2 '^holdfast: --group is empty; give a value, or leave the option out' cancel --queue q --state ready --group '' --yes
check 'an empty queue is no queue' 2 2 '^holdfast: --queue is empty' requeue --queue '' --yes
check 'a list has no empty filter' 2 2 '^holdfast: --correlation-id is empty' jobs --correlation-id ''
check 'an export has no empty filter' 2 2 '^holdfast: --queue is empty' export --queue ''
check 'events have no empty filter' 2 2 '^holdfast: --queue is empty' events --queue ''
check 'bulk cancel needs a confirmation' 2 2 '`cancel --queue` asks for confirmation, .*--yes' cancel --queue q --state ready
check 'delete of a queue needs a confirmation' 2 2 '`queues delete` asks for confirmation, .*--yes' queues delete q
check 'purge needs a confirmation' 2 2 '`queues purge` asks for confirmation, .*--yes' queues purge q
check 'showing needs none' 2 2 '--yes can only be used with `queues delete\|purge QUEUE`' queues q --yes
check 'payload file must be there' 2 2 "cannot read the file '/nonexistent'" enqueue q @/nonexistent
check 'lines say their options' 2 2 'with --ndjson the lines contain what --priority would' enqueue q --ndjson -p 5
check 'lines name the member' 2 2 '"delay_ms":' enqueue q --ndjson --delay 5s
check 'raw or lines' 2 2 'cannot be combined' enqueue q --ndjson --raw
check 'key without control characters' 2 2 '--key must be 1 to 200 bytes' enqueue q 1 --key $'a\nb'
check 'a queue has no such action' 2 2 'it must be create, set, delete' queues frob q
check 'wrong policy value' 2 2 "--keep-done is 'none'; it must be a whole number, or all" queues set q --keep-done none
check 'an option for pausing' 2 2 '--for can only be used with `queues pause QUEUE`' queues resume q --for 5m
check 'an option for the policy' 2 2 '--lease-ms can only be used with `queues create\|set QUEUE`' queues q --lease-ms 5s
check 'lists of queues take none' 2 2 '--backoff-max-ms can only be used with' queues --backoff-max-ms 5s
check 'a queue has a name' 2 2 'is empty' queues ''
check 'a job has an id' 2 2 'is empty' ack '' 1-1
check 'raw claims one' 2 2 'claims one job' claim q --raw -n 2
check 'cancel needs jobs' 2 2 'give the IDs of jobs, or a queue with --queue' cancel
check 'not by id and queue' 2 2 'but not both' requeue 5 --queue q
check 'filters go with a queue' 2 2 '--state can only be used with --queue' requeue 5 --state dead
check 'lists have filters, a job has none' 2 2 '--queue is for lists' jobs 5 --queue q
check 'lists have an order, a job has none' 2 2 '--newest is for lists' jobs 5 --newest
check 'bench range' 2 2 '--connections is 0; it must be from 1 to' bench -c 0
check 'bench by jobs or time' 2 2 'cannot be combined' bench --jobs 5 --duration 1s
check 'bench sides' 2 2 'are for --mode mixed' bench --producers 5
check 'bench unknown mode' 2 2 '--mode is .frob.; it must be one of enqueue\|cycle' bench --mode frob
check 'bench without the authority' 2 2 '--cacert cannot be used' bench -s https://127.0.0.1 --cacert /no/such/file

# ---- with a server -------------------------------------------------------------------------------

start_server() {
  local line
  mkfifo "$work/ready"
  build/debug/holdfast serve --listen 127.0.0.1:0 --data "$work/data" \
    >"$work/ready" 2>"$work/server.log" &
  server_pid=$!
  exec {ready}<"$work/ready"
  read -r -t 60 -u "$ready" line || return 1
  export HOLDFAST_SERVER=${line#listening on }
  export server_pid
}

if ! start_server; then
  tap_fail 'client/server starts' "$(head -c 500 "$work/server.log")"
  tap_done
  exit
fi

check 'create a queue' 0 1 '^name: +mail$' queues create mail --lease-ms 1m --max-attempts 3 --backoff-ms 10,20 --keep-done all --description 'for letters'
check 'create it twice' 1 2 '^holdfast: .* exists' queues create mail
check 'set its policy' 0 1 '^policy\.max_attempts: +7$' queues set mail --max-attempts 7
check 'what was not set stays' 0 1 '^policy\.lease_ms: +60000$' queues mail
check 'no such queue' 1 2 '^holdfast: ' queues nowhere
check 'list queues' 0 1 '^mail +0 +0 +0' queues
check 'list queues as JSON' 0 1 '^\{"queues":\[\{"name":"mail"' queues --json
check 'refusals as JSON' 1 1 '"status":404' queues nowhere --json

check 'nothing to claim' 4 1 '' claim mail
check 'nothing to claim, raw' 4 1 '' claim mail --raw
check 'enqueue' 0 1 '^[0-9A-Z]{26}  ready$' enqueue mail '{"to":"a"}' -p 5 --correlation-id c1 --group g
check 'enqueue later' 0 1 '  scheduled$' enqueue mail 1 --delay 1h
check 'enqueue once' 0 1 '  ready$' enqueue mail 2 --unique k --key once
check 'enqueue again' 0 1 'already existed' enqueue mail 2 --unique k --key once
check 'enqueue a duplicate' 1 2 '^holdfast: ' enqueue mail 3 --unique k
check 'enqueue wrongly' 1 2 '^holdfast: .*max_attempts' enqueue mail 1 --max-attempts -5
printf 'two\nlines \033[31m' >"$work/in"
check 'enqueue bytes' 0 1 '  ready$' enqueue bytes --raw -p 9 --priority-label red
check 'bytes are shown escaped' 0 1 'two\\nlines \\x1b\[31m$' jobs --queue bytes
check 'claim bytes' 0 1 '^lines .\[31m$' claim bytes --raw

for ((i = 1; i <= 2500; i++)); do echo "{\"payload\":$i}"; done >"$work/in"
check 'enqueue lines' 0 1 '^2500 enqueued, 0 already present, 0 refused$' enqueue lines --ndjson
printf '{"payload":1}\n\n{"payload":2,"priorty":1}\n{"payload":3}\n' >"$work/in"
check 'a wrong line is named' 1 2 '^holdfast: line 3: .*priorty' enqueue lines2 --ndjson
check 'the others are enqueued' 0 1 '^lines2 +2 ' queues
: >"$work/in"

pages() {
  local lines
  lines=$(build/debug/holdfast jobs --queue lines --limit 1000 --all | grep -vc '^ID ')
  echo "$lines jobs on all pages"
  [ "$lines" -eq 2500 ]
}
export -f pages
tap_check 'client/all pages' bash -c pages
check 'a page has a next one' 0 2 'there are more jobs: use --all, or --cursor ' jobs --queue lines
check 'newest first' 0 1 ' 2500$' jobs --queue lines --newest --limit 1
check 'state and group' 0 1 '\{"to":"a"\}$' jobs --queue mail --state ready,dead --group g

# One job through every command that needs its token.
life() {
  local hf=build/debug/holdfast job id token
  job=$("$hf" claim mail --worker w1 --lease 90s --json) || return
  id=$(jq -r '.jobs[0].id' <<<"$job")
  token=$(jq -r '.jobs[0].token' <<<"$job")
  echo "$job"
  client 0 1 '"worker":"w1"' jobs "$id" --json &&
    client 0 1 "^$id  running  20" extend "$id" "$token" --lease 2m &&
    client 0 1 "^$id  (ready|scheduled)" release "$id" "$token" --reason 'not now' &&
    client 1 2 '^holdfast: ' ack "$id" "$token" || return
  job=$("$hf" claim mail other --json) || return
  token=$(jq -r '.jobs[0].token' <<<"$job")
  client 0 1 "^$id  dead" fail "$id" "$token" --error $'bad\033[2J' --error-kind business --no-retry &&
    client 0 1 'bad\\x1b\[2J' jobs "$id" &&
    client 0 1 '^1 changed, 0 refused$' requeue --queue mail --yes || return
  job=$("$hf" claim mail --json) || return
  token=$(jq -r '.jobs[0].token' <<<"$job")
  client 2 2 'a member "enqueue"; it can have enqueues, sets and deletes' ack "$id" "$token" --handoff '{"enqueue":[]}' &&
    client 1 2 '^holdfast: .*payloud' ack "$id" "$token" --handoff '{"enqueues":[{"queue":"handed","payloud":1}]}' &&
    client 0 1 "^$id  done" ack "$id" "$token" '{"ok":true}' --handoff '{"enqueues":[{"queue":"handed","payload":{"next":1}}],"sets":[{"key":["handed"],"value":7}]}' &&
    client 0 1 '\{"next":1\}$' jobs --queue handed && client 0 1 '^7$' kv get '["handed"]' &&
    client 0 1 '^result: +\{"ok":true\}$' jobs "$id" &&
    client 1 2 '^holdfast: ' cancel "$id"
}
export -f life
tap_check 'client/life of a job' bash -c life
check 'what a cancel would change' 0 1 '^2 jobs of queue "mail" would be cancelled$' cancel --queue mail --state ready,scheduled --dry-run
check 'cancel in bulk' 0 1 '^2 changed, 0 refused$' cancel --queue mail --state ready,scheduled --yes
check 'requeue of no job' 1 2 '^holdfast: ' requeue 999999999

# The total is the sum of the parts, and each part is correct.
sums() {
  local hf=build/debug/holdfast line sum parts
  "$hf" enqueue sums 1 --delay 1h && "$hf" enqueue sums 2 && "$hf" claim sums || return
  line=$("$hf" stats | head -n 1)
  echo "$line"
  read -r sum parts < <(sed -nE 's/^Waiting and running jobs: ([0-9]+) \(([0-9]+) ready, ([0-9]+) scheduled, ([0-9]+) blocked, ([0-9]+) running\)$/\1 \2+\3+\4+\5/p' <<<"$line")
  [ -n "$parts" ] && [ "$sum" -eq $((parts)) ] && grep -Eq '[1-9][0-9]* scheduled, [0-9]+ blocked, [1-9][0-9]* running' <<<"$line"
}
export -f sums
tap_check 'client/the sum of the stats' bash -c sums
check 'stats of a queue' 0 1 '^enqueued +[0-9]+$' stats mail
watched() {
  local out=$work/watch
  build/debug/holdfast stats mail --watch >"$out" &
  local pid=$!
  until [ "$(grep -c '^STATE' "$out")" -ge 2 ]; do kill -0 $pid || return; done
  kill -INT $pid
  wait $pid
}
export -f watched
tap_check 'client/stats again and again' bash -c watched

# Another program causes events until one has arrived.
followed() {
  local out=$work/events pid
  build/debug/holdfast events --queue seen >"$out" &
  pid=$!
  until grep -q ' seen ' "$out"; do
    kill -0 $pid || return
    build/debug/holdfast enqueue seen 1 >/dev/null
    build/debug/holdfast cancel --queue seen --state ready --yes >/dev/null
  done
  head -n 3 "$out"
  kill -INT $pid
  wait $pid
}
export -f followed
tap_check 'client/events' bash -c followed

check 'export' 0 1 '^\{"end":\{"queues":1,"jobs":0\}\}$' export --queue mail
check 'export to a file' 0 2 '^[0-9]+ jobs and [0-9]+ queues exported$' export --queue mail --output "$work/export"
check 'export replaces nothing' 2 2 'exists; .*--force' export --queue mail --output "$work/export"
check 'import what is there' 0 1 'queues: 0 created, 0 changed, [0-9]+ kept$' import "$work/export"
check 'import nothing' 2 2 'the input is empty' import
check 'pause' 0 1 '^paused: +true$' queues pause lines --for 1h
check 'a paused queue hands out nothing' 4 2 '' claim lines
check 'resume' 0 1 '^paused: +false$' queues resume lines
check 'purge' 0 1 '^purged: +2500$' queues purge lines --yes
check 'delete' 0 1 '^deleted: +true$' queues delete lines --yes

# ---- on a terminal -------------------------------------------------------------------------------

# terminal KEYS STATUS PATTERN ARGUMENT…: types KEYS at the prompt; a line on the terminal must match PATTERN.
terminal() {
  local keys=$1 status=$2 pattern=$3 rc=0
  shift 3
  tests/support/on_terminal.py "$keys" build/debug/holdfast "$@" >"$work/shown" || rc=$?
  cat "$work/shown"
  echo "exit status $rc"
  [ "$rc" -eq "$status" ] && grep -Eq -- "$pattern" "$work/shown"
}
export -f terminal
asks() {
  local name=$1
  shift
  tap_check "client/terminal: $name" bash -c 'terminal "$@"' - "$@"
}
for ((i = 1; i <= 1204; i++)); do echo "{\"payload\":$i,\"delay_ms\":$((i % 4 ? 0 : 3600000))}"; done >"$work/in"
check 'jobs to ask about' 0 1 '^1204 enqueued' enqueue asked --ndjson
: >"$work/in"
check 'another queue' 0 1 '  ready$' enqueue 'other "q"' 1 --group g

asks 'the counts are shown' 'n\n' 1 '^asked: 301 scheduled, 903 ready$' queues delete asked
asks 'delete asks' 'n\n' 1 '^Delete queue "asked" and its 1,204 jobs\? \[y/N\] n$' queues delete asked
asks 'n changes nothing' 'n\n' 1 '^holdfast: not confirmed; nothing was changed$' queues delete asked
asks 'no answer changes nothing' '\n' 1 'not confirmed' queues delete asked
asks 'another answer changes nothing' 'yeah\n' 1 'not confirmed' queues delete asked
asks 'an answer with another word changes nothing' 'yes please\n' 1 'not confirmed' queues delete asked
asks 'neither does y with more behind it' 'y n\n' 1 'not confirmed' queues delete asked
asks 'the end of the input changes nothing' '\x04' 1 'not confirmed' queues delete asked
asks 'Ctrl-C changes nothing' '\x03' 130 'Delete queue' queues delete asked
asks 'purge asks' 'n\n' 1 '^Remove 1,204 waiting jobs from queue "asked"\? \[y/N\] n$' queues purge asked
asks 'cancel asks' 'n\n' 1 '^Cancel 301 jobs of queue "asked"\? \[y/N\] n$' cancel --queue asked --state scheduled
asks 'a group is named' 'n\n' 1 '^Cancel 1 job of group "g" in queue "other "q""\? ' cancel --queue 'other "q"' --state ready,scheduled --group g
asks 'requeue of no job asks nothing' '' 0 '^0 jobs of queue "asked" would be requeued$' requeue --queue asked
check 'nothing was changed' 0 1 '^asked +903 +301 ' queues
asks 'y does it' 'y\n' 0 '^301 changed, 0 refused$' cancel --queue asked --state scheduled
asks 'requeue asks' 'Yes\n' 0 '^Requeue 301 jobs of queue "asked"\? ' requeue --queue asked --state cancelled
check 'that was done' 0 1 '^asked +1204 +0 +0 +0 +0 +0 ' queues
asks 'no such queue, no question' '' 1 '^holdfast: .*queue' queues delete nowhere
asks '--yes asks nothing' '' 0 '^purged: +1204$' queues purge asked --yes
asks 'a queue without jobs' 'y\n' 0 '^Delete queue "asked", which has no jobs\? ' queues delete asked
check 'it is deleted' 1 2 '^holdfast: ' queues asked
check 'a schedule' 0 1 '^name: +nightly$' schedules create nightly --cron '30 2 * * *' --queue reports
asks 'delete of a schedule asks' 'n\n' 1 '^Delete schedule "nightly"\? \[y/N\] n$' schedules delete nightly
check 'a script names the schedule' 0 1 '^deleted: +true$' schedules delete nightly

check 'compact' 0 1 '^[0-9.]+ MiB before, [0-9.]+ MiB now$' compact
check 'backup' 0 1 '^.*/copy/holdfast.db: [0-9]+ jobs? in [0-9]+ queues?, .*; checked$' backup "$work/copy"
check 'backup needs an empty directory' 2 2 'is not empty; a backup needs an empty directory' backup "$work"
check 'restore' 0 1 'start it with `holdfast serve --data' restore "$work/copy" --data "$work/store"
check 'what was restored is sound' 0 1 'no problems found' check "$work/store"
check 'restore over a store' 2 2 'already has a store' restore "$work/copy" --data "$work/store"

# ---- the load generator --------------------------------------------------------------------------

for mode in enqueue cycle mixed healthz; do
  check "bench $mode" 0 1 '"jobs":1500,.*"errors":0,' bench --mode $mode --jobs 1500 --connections 8 --batch 7 --pipeline 2 --threads 2 --json
  check "bench $mode, one by one" 0 1 '"jobs":300,.*"errors":0,' bench --mode $mode --jobs 300 --connections 8 --json
done
check 'bench claim' 0 1 '"acked":3000,.*"errors":0,' bench --mode claim --backlog 3000 --batch 100 --priorities 10 --connections 4 --json
check 'bench by time' 0 1 '^server CPU ' bench --duration 300ms --connections 4 --server-pid "$server_pid" --fsync-dir "$work"
check 'bench says what failed' 1 2 'errors; the first: enqueue answered 4' bench --jobs 10 --payload 3MiB --connections 2
no_bench_queues() { ! build/debug/holdfast queues | grep '^bench-'; }
export -f no_bench_queues
tap_check 'client/bench removes its queues' bash -c no_bench_queues
tap_done
