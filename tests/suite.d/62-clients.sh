#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The client libraries: each is built, and passes the cases of tests/clients/conformance on every store, its own tests, and
# the examples of its README. The servers are release builds, because the timing of clients is what these tests exercise.
[ -n "${HF_REDIS:-}" ] || exec "$(dirname "$0")/../../scripts/with-redis" "$0" "$@"
[ -n "${HF_POSTGRES:-}" ] || exec "$(dirname "$0")/../../scripts/with-postgres" "$0" "$@"
source "$(dirname "$0")/tap.bash"
export HF_BIN="$PWD/build/release/holdfast"

# These programs wait for leases and delays most of the time.
tap_jobs=$(($(nproc) * 3))
conform=tests/clients/conformance/run.mjs
js=tests/clients/js
py=tests/clients/python
tap_check clients/js-build $js/check.sh build

js_conform() { # BACKEND: the command that tests it
  words=(env HF_TEST_BACKEND="$1" node $conform -- node $js/adapter.mjs)
}
for backend in '' postgres redis; do
  js_conform "$backend"
  ! tap_wanted "clients/js-conformance${backend:+-$backend}" || tap_ahead "${words[@]}"
done
chaos=(node tests/clients/conformance/chaos.mjs --seconds 3 -- node $js/adapter.mjs)
! tap_wanted clients/js-chaos || tap_ahead "${chaos[@]}"

py_conform() { # BACKEND: the command that tests it
  words=(env HF_TEST_BACKEND="$1" node $conform -- python3 $py/adapter.py)
}
py_threads=(node $conform --case '^worker' -- python3 $py/adapter.py --threads)
py_chaos=(node tests/clients/conformance/chaos.mjs --seconds 1 -- python3 $py/adapter.py --threads)
for backend in '' postgres redis; do
  py_conform "$backend"
  ! tap_wanted "clients/py-conformance${backend:+-$backend}" || tap_ahead "${words[@]}"
done
! tap_wanted clients/py-worker || tap_ahead python3 $py/tap.py test_worker
! tap_wanted clients/py-conformance-threads || tap_ahead "${py_threads[@]}"
! tap_wanted clients/py-chaos || tap_ahead "${py_chaos[@]}"
tap_check clients/js-lint $js/check.sh lint
tap_cases clients/js-unit node --test-reporter=tap $js/unit.test.mjs
tap_cases clients/js-runtime node --test-reporter=tap $js/runtime.test.mjs
tap_cases clients/js-package node --test-reporter=tap $js/package.test.mjs
for backend in '' postgres redis; do
  js_conform "$backend"
  tap_cases "clients/js-conformance${backend:+-$backend}" "${words[@]}"
done
tap_cases clients/js-chaos "${chaos[@]}"
tap_cases clients/js-leaks node --test-reporter=tap $js/leaks.test.mjs

tap_check clients/py-lint $py/check.sh lint
tap_check clients/py-versions $py/check.sh versions
tap_cases clients/py-unit python3 $py/tap.py test_unit
tap_cases clients/py-client python3 $py/tap.py test_client
tap_cases clients/py-worker python3 $py/tap.py test_worker
tap_cases clients/py-package python3 $py/tap.py test_package
for backend in '' postgres redis; do
  py_conform "$backend"
  tap_cases "clients/py-conformance${backend:+-$backend}" "${words[@]}"
done
tap_cases clients/py-conformance-threads "${py_threads[@]}"
tap_cases clients/py-chaos "${py_chaos[@]}"
tap_cases clients/py-leaks python3 $py/tap.py test_leaks
tap_done
