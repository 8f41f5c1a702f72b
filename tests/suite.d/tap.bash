# SPDX-License-Identifier: Apache-2.0
#
# Sourced by the scripts of tests/suite.d, which print TAP to scripts/test:
#
#   tap_cases NAME COMMAND…   a program that prints TAP itself; its cases are renumbered and passed on
#   tap_check NAME COMMAND…   any other program: one case, passed when it exits with 0
#   tap_ahead COMMAND…        starts the program now, beside others, for a later tap_cases with the same command
#   tap_fail NAME TEXT        one failed case
#   tap_in_memory             programs that start after this keep their files in memory if there is enough space: for
#                             tests that sync often and do not test the disk
#   tap_done                  prints the plan; the last line of every script
#
# HF_ONLY holds the patterns given to scripts/test: names that match none of them are left out.
# HF_TEST_TIMEOUT is the time in seconds (1200) after which a program is killed and counts as failed. It ends programs
# that hang, and is long enough for a busy machine; the tests themselves have no such limit.
# A program that crashes, is killed, exits with an error though all its cases passed (a leak, a
# race), or does not run all the cases of its plan, adds a failed case.

set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1

tap_count=0
tap_log=$(mktemp)
tap_aside=$(mktemp -d) # programs that were started ahead: output, exit status and time, by the hash of the command
trap 'rm -rf "$tap_log" "$tap_aside" ${tap_memory:+"$tap_memory"}' EXIT

tap_limit=${HF_TEST_TIMEOUT:-1200}
export CMOCKA_MESSAGE_OUTPUT=TAP
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_stack_use_after_return=1:strict_string_checks=1}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1}"

# Programs under the thread sanitizer need a fixed address layout on kernels with many random bits.
tap_fixed_layout=()
if setarch -R true 2>/dev/null; then
  tap_fixed_layout=(setarch -R)
fi

tap_memory=
tap_in_memory() {
  [ -z "${TMPDIR:-}" ] && [ -w /dev/shm ] || return 0
  [ "$(df --output=avail -k /dev/shm | tail -1)" -gt 2000000 ] || return 0
  tap_memory=$(mktemp -d /dev/shm/holdfast-test.XXXXXX)
  export TMPDIR=$tap_memory
}

tap_wanted() {
  local pattern
  [ -n "${HF_ONLY:-}" ] || return 0
  for pattern in $HF_ONLY; do
    # shellcheck disable=SC2254 # a pattern, on purpose
    case $1 in *$pattern*) return 0 ;; esac
  done
  return 1
}

tap_key() {
  printf '%s\n' "$@" | sha256sum | cut -c1-32
}

# Runs at most one program per processor, or tap_jobs programs that mostly wait; waits until one more may start.
tap_ahead() {
  local key
  key=$(tap_key "$@")
  while [ "$(jobs -rp | wc -l)" -ge "${tap_jobs:-$(nproc)}" ]; do
    wait -n
  done
  (
    tap_log=$tap_aside/$key.out
    tap_execute "$@"
    echo "$tap_rc $tap_took" >"$tap_aside/$key.end"
  ) &
}

# Runs "$@" with its output in the log, or waits for it if it was started ahead; sets tap_rc and tap_took (seconds,
# two decimals).
tap_execute() {
  local key
  key=$(tap_key "$@")
  if [ "$tap_log" != "$tap_aside/$key.out" ] && [ -e "$tap_aside/$key.out" ]; then
    while [ ! -e "$tap_aside/$key.end" ]; do
      wait -n || true
    done
    read -r tap_rc tap_took <"$tap_aside/$key.end"
    cat "$tap_aside/$key.out" >"$tap_log"
    return
  fi
  local start=${EPOCHREALTIME/[.,]/}
  # The outer redirection hides the message that bash prints when a program is killed by a signal.
  { timeout --kill-after=10 "$tap_limit" "$@" >"$tap_log" 2>&1 </dev/null; } 2>/dev/null
  tap_rc=$?
  local us=$((${EPOCHREALTIME/[.,]/} - start))
  tap_took=$(printf '%d.%02d' $((us / 1000000)) $((us % 1000000 / 10000)))
}

tap_why() {
  if [ "$tap_rc" -eq 124 ] || [ "$tap_rc" -eq 137 ]; then
    echo "killed after $tap_limit s"
  elif [ "$tap_rc" -gt 128 ]; then
    echo "signal $(kill -l $((tap_rc - 128)))"
  else
    echo "exit status $tap_rc"
  fi
}

tap_show_log() {
  sed 's/^/# | /' "$tap_log"
}

tap_ok() {
  tap_count=$((tap_count + 1))
  echo "ok $tap_count - $1"
}

tap_not_ok() {
  tap_count=$((tap_count + 1))
  echo "not ok $tap_count - $1"
}

tap_fail() {
  tap_wanted "$1" || return 0
  tap_not_ok "$1: $2"
}

tap_check() {
  local name=$1
  shift
  tap_wanted "$name" || return 0
  tap_execute "$@"
  if [ "$tap_rc" -eq 0 ]; then
    tap_ok "$name"
    echo "# $(printf '%-46s %4d ok %12s s' "$name" 1 "$tap_took")"
  else
    tap_not_ok "$name: $(tap_why)"
    tap_show_log
  fi
}

tap_cases() {
  local name=$1 line plan='' seen=0 bad=0
  shift
  tap_wanted "$name" || return 0
  tap_execute "$@"
  while IFS= read -r line; do
    case $line in
      1..[0-9]*)
        line=${line#1..}
        plan=$((${plan:-0} + ${line%%[!0-9]*})) # a program with several groups has several plans
        ;;
      'ok '*)
        seen=$((seen + 1))
        tap_ok "$name: $(tap_title "${line#ok }")"
        ;;
      'not ok '*)
        seen=$((seen + 1))
        bad=$((bad + 1))
        tap_not_ok "$name: $(tap_title "${line#not ok }")"
        ;;
    esac
  done < <(tr -d '\000' <"$tap_log" | sed 's/^[ \t]*//' | grep -E '^(ok |not ok |1\.\.[0-9])')
  if [ "$tap_rc" -gt 123 ] || { [ "$tap_rc" -ne 0 ] && [ "$bad" -eq 0 ]; }; then
    bad=$((bad + 1))
    tap_not_ok "$name: $(tap_why) after $seen of ${plan:-unknown} cases"
  elif [ -z "$plan" ] || [ "$plan" -ne "$seen" ] || [ "$seen" -eq 0 ]; then
    bad=$((bad + 1))
    tap_not_ok "$name: ran $seen of ${plan:-unknown} planned cases"
  fi
  if [ "$bad" -gt 0 ]; then
    tap_show_log
  else
    echo "# $(printf '%-46s %4d ok %12s s' "$name" "$seen" "$tap_took")"
  fi
}

# "12 - queue_is_fair" → "queue_is_fair"
tap_title() {
  local title=${1#"${1%%[!0-9]*}"}
  title=${title# }
  echo "${title#- }"
}

tap_done() {
  echo "1..$tap_count"
}
