#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The real binary over real sockets, driven by Node: behaviour, then kill -9 under load.
source "$(dirname "$0")/tap.bash"

for file in tests/e2e/*.test.mjs tests/crash/*.test.mjs; do
  name=${file#tests/}
  tap_cases "${name%.test.mjs}" node --test-reporter=tap "$file"
done
tap_done
