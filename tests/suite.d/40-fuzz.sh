#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs each fuzz target over its stored inputs, tests/fuzz/corpus/<target>/ (fuzz_json → fuzz_json or
# json), and over a fixed number of mutations of them from a fixed seed. `make fuzz` runs longer.
source "$(dirname "$0")/tap.bash"

for source in tests/fuzz/fuzz_*.c; do
  [ -e "$source" ] || continue
  target=$(basename "$source" .c)
  corpus=tests/fuzz/corpus/$target
  [ -d "$corpus" ] || corpus=tests/fuzz/corpus/${target#fuzz_}
  if [ -d "$corpus" ] && [ -n "$(find "$corpus" -type f -print -quit)" ]; then
    tap_check "fuzz/$target" "build/debug/tests/fuzz/$target" --runs 2000 --seed 1 "$corpus"
  else
    tap_fail "fuzz/$target" "has no inputs in tests/fuzz/corpus/$target"
  fi
done
tap_done
