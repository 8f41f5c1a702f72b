#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The generator that turns SQL and Lua into C strings (cmake/embed.c): how it treats names, parts and
# comments, and that it refuses input that it does not know.
source "$(dirname "$0")/tap.bash"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# embedded TEXT FILE: prints the texts that the generator creates from a file with this content, one per line.
embedded() {
  printf '%s\n' "$1" >"$dir/$2"
  build/debug/embed id ID texts "$dir/gen.h" "$dir/gen.c" "$dir/$2" || return
  tr -d '\n' <"$dir/gen.c" | sed 's/^.*_COUNT\] = {//; s/"[[:space:]]*"//g; s/,[[:space:]]*\[/\n[/g; s/};$//' | grep -o '\[ID_.*"' | sed 's/\] =[[:space:]]*/ /'
}
# comes_to EXPECTED TEXT FILE
comes_to() {
  diff <(printf '%s\n' "$1") <(embedded "$2" "$3")
}
# refused MESSAGE TEXT FILE
refused() {
  local said
  if said=$(embedded "$2" "$3" 2>&1); then
    return 1
  fi
  [[ $said == *"$1"* ]] || { echo "$said"; return 1; }
}
export -f embedded comes_to refused
export dir
check() {
  tap_check "embed/$1" bash -c '"$@"' - "${@:2}"
}

check 'a state by its name, without comments and line breaks' comes_to \
  '[ID_A "SELECT 1 FROM job WHERE state = 2 AND x = '"' -- '"'"' \
  $'-- about\n-- name: a\n-- it\'s one\nSELECT 1\n  FROM job -- all\nWHERE state = ${ready} AND x = \' -- \';' a.sql
check 'parts with arguments, also within each other' comes_to \
  '[ID_A "SELECT f(x, (f($1, 0)))"' \
  $'-- part: zero(what; or)\nf(${what}, ${or})\n-- name: a\nSELECT ${zero(x; (${zero($1; 0)}))};\n' a.sql
check 'a pattern for each name of a list' comes_to \
  '[ID_A "a = 0 OR b = 0; sum(a), sum(b)"' \
  $'-- part: both\na, b\n-- name: a\n${each(${both}; % = 0; OR)}; ${each(${both}; sum(%))}\n' a.sql
check 'several statements' comes_to $'[ID_A "BEGIN"\n[ID_B_C "COMMIT"' $'\n-- name: a\nBEGIN;\n-- name: b_c\nCOMMIT;' a.sql
check 'fields of a Redis row' comes_to \
  '[ID_A "return byte(row, 7) == 2 and sub(row, 56, 59) == sub(row, 8, 11)\n"' \
  'return ${job.state(row)} == ${ready} and ${job.generation(row)} == ${job.queue.bytes(row)}' a.lua
check 'an unknown name is refused' refused 'unknown name: reddy' $'\n-- name: a\nSELECT ${reddy}' a.sql
check 'an unknown field is refused' refused 'unknown name: job.size' 'return ${job.size(row)}' a.lua
check 'wrong arguments are refused' refused 'wrong arguments: one' $'\n-- part: one(x)\n${x}\n-- name: a\n${one(1; 2)}' a.sql
check 'a name without an end is refused' refused 'a name has no end' $'\n-- name: a\nSELECT ${ready' a.sql
tap_done
