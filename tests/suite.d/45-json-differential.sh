#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Compares the JSON reader with JSON.parse of Node: both must accept or refuse the same texts. The seed is
# printed when they differ; HF_SEED=n repeats a run.
source "$(dirname "$0")/tap.bash"

tap_check 'fuzz/json agrees with Node' node tests/fuzz/json_differential.mjs \
  build/debug/tests/fuzz/fuzz_json tests/fuzz/corpus/fuzz_json 60000 "${HF_SEED:-$RANDOM}"
tap_done
