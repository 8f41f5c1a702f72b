#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The command line of the real binary: exit status, and what it says where.
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
cli_check 'no command is wrong usage' 2 2 '^Usage: holdfast COMMAND'
cli_check 'unknown command, a name is near' 2 2 "unknown command 'vesion'; did you mean 'version'\\?" vesion
cli_check 'unknown command, no name is near' 2 2 "unknown command 'flarp'; .holdfast help. lists" flarp
cli_check 'unknown command, very long' 2 2 "unknown command" "$(printf 'x%.0s' {1..5000})"
tap_check 'cli/lost output is a failure' bash -c full_disk
tap_done
