#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The conformance suite on a Redis server of its own: alone there, and beside another node, where what
# claims may get is taken out of reach and every change is checked.
source "$(dirname "$0")/tap.bash"

tap_cases 'conform (redis)' scripts/with-redis build/debug/tests/conform --backend redis
tap_cases 'conform (redis, shared)' scripts/with-redis build/debug/tests/conform --backend shared+redis
tap_cases 'conform (postgres+redis)' scripts/with-postgres scripts/with-redis build/debug/tests/conform --backend postgres+redis
tap_done
