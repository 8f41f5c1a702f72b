#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# check.sh lint|versions: checks the types of clients/python with mypy --strict and that its syntax is that of Python 3.9,
# whatever is installed; or compiles it and runs its unit tests with every Python 3.9 or newer in PATH and of pyenv.
set -euo pipefail
cd "$(dirname "$0")/../../../clients/python"
cache=$(mktemp -d)
trap 'rm -rf "$cache"' EXIT
export PYTHONPYCACHEPREFIX=$cache/pyc

pythons() { # each version once
  local program
  find ${PATH//:/ } "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin -maxdepth 1 -regex '.*/python3\.[0-9]+' 2>/dev/null | while read -r program; do
    "$program" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2>/dev/null || continue
    echo "${program##*/} $program"
  done | LC_ALL=C sort -u -k1,1
}

case $1 in
  lint)
    mypy --cache-dir ../../build/mypy --strict holdfast build_backend.py ../../tests/clients/python/typed.py
    python3 - <<'END'
import ast, pathlib
for folder in (".", "../../tests/clients/python"):
    for path in pathlib.Path(folder).rglob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 9))
END
    ;;
  versions)
    tried=0
    while read -r name program; do
      "$program" -m compileall -q -f holdfast examples ../../tests/clients/python
      "$program" ../../tests/clients/python/tap.py test_unit >"$cache/out" 2>&1 || { cat "$cache/out"; echo "$name: $program"; exit 1; }
      tried=$((tried + 1))
    done < <(pythons)
    echo "$tried versions"
    [ "$tried" -gt 0 ]
    ;;
esac
