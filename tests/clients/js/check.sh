#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check.sh build|lint: builds clients/js, after installing what its lock file says; or checks the package with publint,
# attw and tsd.
set -euo pipefail
cd "$(dirname "$0")/../../../clients/js"

case $1 in
  build)
    if ! cmp -s package-lock.json node_modules/.holdfast-lock; then
      npm ci --no-audit --no-fund --ignore-scripts
      cp package-lock.json node_modules/.holdfast-lock
    fi
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
