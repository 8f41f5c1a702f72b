#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check.sh build|lint: builds clients/js, after installing what its lock file and that of tests/e2e (the driver of
# Chromium) say; or checks the package with publint, attw and tsd.
set -euo pipefail
cd "$(dirname "$0")/../../../clients/js"

case $1 in
  build)
    for packages in . ../../tests/e2e; do
      cmp -s $packages/package-lock.json $packages/node_modules/.holdfast-lock && continue
      npm ci --no-audit --no-fund --ignore-scripts --prefix $packages
      cp $packages/package-lock.json $packages/node_modules/.holdfast-lock
    done
    node build.mjs
    ;;
  lint)
    npx --no-install publint --strict
    packed=$(mktemp -d)
    trap 'rm -rf "$packed"' EXIT
    npx --no-install attw "$packed/$(npm pack --silent --pack-destination "$packed")"
    npx --no-install tsd --typings dist/esm/index.d.ts --files 'test-d/*.test-d.ts'
    ;;
esac
