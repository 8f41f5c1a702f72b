#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The conformance suite on a PostgreSQL server of its own.
source "$(dirname "$0")/tap.bash"

tap_cases 'conform (postgres)' scripts/with-postgres build/debug/tests/conform --backend postgres
tap_done
