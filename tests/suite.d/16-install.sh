#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The files that are installed with the program: man page, completions, systemd unit. Each is checked with
# the program that reads it.
source "$(dirname "$0")/tap.bash"

work=$(mktemp -d)
trap 'rm -rf "$work" "$tap_log"' EXIT
export work
build/debug/holdfast man >"$work/holdfast.1"
build/debug/holdfast completion bash >"$work/holdfast.bash"
mkdir "$work/functions"
build/debug/holdfast completion zsh >"$work/functions/_holdfast"

# The unit with the path of a program that exists here.
sed "s|/usr/bin/holdfast|$PWD/build/debug/holdfast|" packaging/holdfast.service >"$work/holdfast.service"

# The exit status of groff does not show warnings.
man_check() {
  local said
  said=$(groff -man -ww -z -Tutf8 "$work/holdfast.1" 2>&1)
  printf '%s\n' "$said"
  [ -z "$said" ] && [ -s "$work/holdfast.1" ]
}

# The page contains every command, option and setting.
man_complete() {
  local page name missing=0
  page=$(groff -man -Tutf8 -P-cbou -rLL=500n "$work/holdfast.1")
  for name in $(build/debug/holdfast help | sed -n 's/^  \([a-z]*\) .*/holdfast \1/p' | tr ' ' '~') \
    $(build/debug/holdfast help config --markdown | sed -n 's/^| `\([a-z_.]*\)`.*/\1:/p'); do
    grep -Fq -- "${name//\~/ }" <<<"$page" || { echo "not in the man page: $name"; missing=1; }
  done
  [ "$(wc -l <<<"$page")" -gt 100 ] && [ "$missing" -eq 0 ]
}

# complete EXPECTED WORD…: the completions that bash offers for the last word.
bash_completes() {
  local expected=$1
  shift
  source "$work/holdfast.bash"
  COMP_WORDS=("$@")
  COMP_CWORD=$(($# - 1))
  _holdfast
  echo "proposed: ${COMPREPLY[*]}"
  [ "${COMPREPLY[*]}" = "$expected" ]
}

# The same from an interactive zsh on its own terminal: prints the completed line.
zsh_completes() {
  timeout 600 zsh -f -c '
    zmodload zsh/zpty
    zpty shell zsh -f -i
    zpty -w shell "PS1=; fpath=($work/functions \$fpath); autoload -Uz compinit; compinit -u -D
      print REA\DY"
    zpty -r -m shell said "*READY*" || exit 1
    # This key prints the line, so that the test does not have to wait for a time.
    zpty -w shell "report() { print -r -- \"<\$BUFFER>\" >\$work/line; print DO\NE; }
      zle -N report; bindkey ^T report; print REA\DY"
    zpty -r -m shell said "*READY*" || exit 1
    zpty -w -n shell "$2"$'"'\\t\\x14'"'
    zpty -r -m shell said "*DONE*" || exit 1
    line=$(<$work/line)
    print -r -- "became: $line"
    [ "$line" = "<$1>" ]
  ' - "$1" "$2"
}

zsh_registers() {
  zsh -f -c 'autoload -Uz compinit; compinit -u -D; source "$work/functions/_holdfast"
    [ "$_comps[holdfast]" = _holdfast ]'
}

# Manual pages are not installed here.
unit_check() {
  systemd-analyze verify --man=no "$work/holdfast.service"
}

# Anything above 2.0 of 10 means that a protection was lost.
unit_exposure() {
  local level
  level=$(systemd-analyze security --offline=true "$work/holdfast.service" |
    sed -n 's/.*Overall exposure level for [^:]*: \([0-9.]*\).*/\1/p')
  echo "exposure level $level"
  [ -n "$level" ] && awk -v level="$level" 'BEGIN { exit !(level <= 2.0) }'
}

# The kernel may kill it like any other service, and does so before the machine is out of memory.
unit_memory() {
  local unit=$work/holdfast.service
  ! grep -n '^OOMScoreAdjust=-' "$unit" || return 1
  grep -q '^MemoryHigh=[0-9]' "$unit" && grep -q '^MemoryMax=[0-9]' "$unit" || { echo 'no MemoryHigh or MemoryMax'; return 1; }
  # More than 20,000 connections, the default limit.
  [ "$(sed -n 's/^LimitNOFILE=//p' "$unit")" -ge 20256 ]
}

installed() {
  local root=$work/root file
  DESTDIR=$root cmake --install build/release --prefix /opt/holdfast || return 1
  for file in bin/holdfast share/man/man1/holdfast.1 share/doc/holdfast/reference/settings.md \
    share/bash-completion/completions/holdfast share/zsh/site-functions/_holdfast \
    lib/systemd/system/holdfast.service; do
    [ -s "$root/opt/holdfast/$file" ] || { echo "not installed: $file"; return 1; }
  done
  grep -q '^ExecStart=/opt/holdfast/bin/holdfast serve' "$root/opt/holdfast/lib/systemd/system/holdfast.service"
}

# On x86-64 the program is marked for shadow stacks, and for branch tracking where the system's start files are;
# the code itself, which the link step has compiled, is ready for both.
cet() {
  local file marked=0 want='x86 feature: SHSTK'
  [ "$(uname -m)" = x86_64 ] || return 0
  readelf -n build/release/holdfast | grep -F 'x86 feature:'
  for file in Scrt1.o crti.o crtn.o; do
    ! readelf -n "$(cc -print-file-name=$file)" | grep -Fq IBT || marked=$((marked + 1))
  done
  echo "$marked of 3 start files are marked for branch tracking"
  [ "$marked" -lt 3 ] || want='x86 feature: IBT, SHSTK'
  readelf -n build/release/holdfast | grep -Fq "$want" || { echo "wanted: $want"; return 1; }
  objdump -d --no-show-raw-insn --disassemble=main build/release/holdfast | grep -A1 '<main>:' | grep -F endbr64
}

export -f man_check man_complete bash_completes zsh_completes zsh_registers unit_check unit_exposure unit_memory installed cet
check() {
  local name=$1
  shift
  tap_check "install/$name" bash -c '"$@"' - "$@"
}

check 'the man page has no warnings' man_check
check 'the man page is complete' man_complete
check 'bash reads its completion' bash -n "$work/holdfast.bash"
check 'bash completes a command' bash_completes serve holdfast ser
check 'bash completes an option' bash_completes '--log-level --log-format' holdfast serve --log
check 'bash completes a choice' bash_completes 'debug' holdfast serve --log-level d
check 'bash completes behind =' bash_completes 'text json' holdfast serve --log-format =
check 'bash completes the words of a command' bash_completes 'bash zsh' holdfast completion ''
check 'bash completes a folder' bash_completes 'tests/suite.d' holdfast check tests/suit
check 'zsh reads its completion' zsh -n "$work/functions/_holdfast"
check 'zsh knows for whom it is' zsh_registers
check 'zsh completes a command' zsh_completes 'holdfast serve ' 'holdfast ser'
check 'zsh completes an option' zsh_completes 'holdfast serve --print-config ' 'holdfast serve --pri'
check 'zsh completes a choice' zsh_completes 'holdfast serve --log-format=json ' 'holdfast serve --log-format=j'
check 'systemd reads the unit' unit_check
check 'the unit is locked up' unit_exposure
check 'the unit bounds its memory' unit_memory
check 'everything is installed' installed
check 'the program is marked for control-flow enforcement' cet
tap_done
