#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The command line of the real binary: exit status, and what it prints on which stream.
source "$(dirname "$0")/tap.bash"

# cli STATUS STREAM PATTERN ARGUMENT…: exits with STATUS, and a line of STREAM (1 or 2) matches.
cli() {
  local status=$1 stream=$2 pattern=$3 out rc=0
  shift 3
  out=$(mktemp -d) || return 1
  build/debug/holdfast "$@" >"$out/1" 2>"$out/2" || rc=$?
  head -n 50 "$out/1" "$out/2"
  echo "exit status $rc"
  [ "$rc" -eq "$status" ] && grep -Eq -- "$pattern" "$out/$stream"
  rc=$?
  rm -r "$out"
  return $rc
}
export -f cli
cli_check() {
  local name=$1
  shift
  tap_check "cli/$name" bash -c 'cli "$@"' - "$@"
}

work=$(mktemp -d)
trap 'rm -rf "$work" "$tap_log"' EXIT
printf 'queue_defaults:\n  max_attempts: 3\n' >"$work/good.yaml"
printf 'limits:\n  bodybytes: 3\n' >"$work/bad.yaml"

full_disk() {
  build/debug/holdfast version >/dev/full
  [ $? -eq 1 ]
}
export -f full_disk

cli_check 'version' 0 1 '^holdfast [0-9]+\.[0-9]+\.[0-9]+( \([0-9a-f]+\+?\))?$' version
cli_check '--version is the same' 0 1 '^holdfast [0-9]' --version
cli_check 'version takes no argument' 2 2 '^usage: holdfast version$' version now
cli_check 'help lists commands' 0 1 '^  version +print ' help
cli_check 'help of one command' 0 1 '^holdfast version: ' help version
cli_check 'help of an unknown command' 2 2 "unknown command 'versoin'; did you mean 'version'" help versoin
cli_check 'help of check names its exit status' 0 1 '^Exit status: 0 ' help check
cli_check '--help of one command' 0 1 '^holdfast check DIR: ' check --help
cli_check 'an option the command does not have' 2 2 "unknown option '--fix'; this command has none" check --fix DIR
cli_check 'behind -- every word is an argument' 2 1 'no store' check -- --nonexistent
cli_check 'check needs a directory' 2 2 '^usage: holdfast check DIR$' check
cli_check 'check of a missing directory' 2 1 'no store' check /nonexistent/holdfast
cli_check 'check of a directory without a store' 2 1 'no store' check tests/suite.d
cli_check 'restore needs a backup' 2 2 '^usage: holdfast restore \[OPTION\]\.\.\. BACKUP$' restore
cli_check 'restore needs a place' 2 2 '^holdfast: --data is missing' restore tests
cli_check 'restore of a directory without a backup' 2 2 'no file holdfast.db' restore tests --data "$work/store"
cli_check 'restore of a missing backup' 2 2 'cannot find the backup /nonexistent' restore /nonexistent --data "$work/store"
cli_check 'no command is wrong usage' 2 2 '^Usage: holdfast COMMAND'
cli_check 'unknown command, a name is near' 2 2 "unknown command 'vesion'; did you mean 'version'\\?" vesion
cli_check 'unknown command, no name is near' 2 2 "unknown command 'flarp'; .holdfast help. lists" flarp
cli_check 'unknown command, very long' 2 2 "unknown command" "$(printf 'x%.0s' {1..5000})"
cli_check 'help of the settings of a queue' 0 1 '^  max_attempts: number, 1 to 60000  \(default 10\)$' help policy
cli_check 'help of the settings' 0 1 '^  body_bytes: BYTES  \(default 2MiB\)$' help config
cli_check 'help of the routes' 0 1 '^\| POST \| `/v1/queues/\{queue\}/claim` \| consume \|' help routes
cli_check 'help of the reasons' 0 1 '^\| `no_workers` \| No claim waits' help reasons
cli_check 'help of the problems' 0 1 '^lease_lost \(409\): The lease is lost$' help problems
cli_check 'serve lists its options' 0 1 '^  -c, --config FILE +read settings' help serve
cli_check 'serve prints its settings' 0 1 '^node: 7 +# flag$' serve --node 7 --print-config
cli_check 'serve prints a file as it is read' 0 1 '^  max_attempts: 3 +# file, line 2$' \
  serve --print-config --config "$work/good.yaml"
cli_check 'an unknown key names file, line and the nearest' 2 2 \
  "bad.yaml:2: 'limits.bodybytes' is not a setting; did you mean 'limits.body_bytes'\\?" \
  serve --config "$work/bad.yaml"
cli_check 'a missing file of settings' 2 2 'cannot read the configuration .*No such file' \
  serve --config "$work/none.yaml"
cli_check 'serve with a typing slip' 2 2 "unknown option '--lisen'; did you mean '--listen'\\?" serve --lisen x
cli_check 'serve needs a value' 2 2 '^holdfast: --data needs a value: --data DIR$' serve --data
HOLDFAST_NODE=9 cli_check 'the environment counts' 0 1 '^node: 9 +# environment$' serve --print-config
HOLDFAST_NOD=9 cli_check 'an unknown variable' 2 2 "'HOLDFAST_NOD'.*did you mean 'HOLDFAST_NODE'" serve --print-config
# The pages that `make docs` writes match the tables.
for page in commands:commands config:settings events:events metrics:metrics policy:policy problems:problems reasons:reasons; do
  tap_check "cli/docs/reference/${page#*:}.md is what the table says" \
    bash -c 'build/debug/holdfast help "${1%:*}" --markdown | diff "docs/reference/${1#*:}.md" -' - "$page"
done
cli_check 'queues create needs a name' 2 2 'needs the name of a queue' queues create
tap_check 'cli/lost output is a failure' bash -c full_disk
tap_done
