#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# bench/redis_ratios.sh [SECONDS [ROUNDS]]: Holdfast on a Redis server of its own beside a Redis stream on
# a server with the same settings (appendfsync always), in turns: W2 (16 producers, 16 consumers, a job at
# a time) and W3 (100 jobs in flight on each connection). Medians, and the goal of W3. What runs is
# bench/peers/run.mjs, which make bench-peers runs with every peer.
set -euo pipefail
cd "$(dirname "$0")/.."
scripts/setup peers
scripts/build release holdfast peerload
exec node bench/peers/run.mjs --peers 'holdfast-redis redis-stream' --works 'W2 W3' --seconds "${1:-3}" \
  --rounds "${2:-3}" --docs no
