# SPDX-License-Identifier: Apache-2.0
"""Notices when the event loop was blocked: then no lease was renewed, and the reports come too late."""
from __future__ import annotations

import asyncio
from collections import deque
from typing import Callable, Deque, Tuple

from .._time import now_ms

INTERVAL_MS = 250


class LagMonitor:
    def __init__(self, threshold_ms: Callable[[], float], blocked: Callable[[float], None]) -> None:
        """Calls back after each block of at least this length."""
        self._threshold_ms = threshold_ms
        self._blocked = blocked
        self._blocks: Deque[Tuple[float, float]] = deque(maxlen=32)
        self._loop = asyncio.get_running_loop()
        self._expect()

    def _expect(self) -> None:
        self._expected = now_ms() + INTERVAL_MS
        self._timer = self._loop.call_later(INTERVAL_MS / 1000, self._check)

    def _check(self) -> None:
        now = now_ms()
        ms = now - self._expected
        self._expect()
        if ms >= self._threshold_ms():
            self._blocks.append((now, ms))
            self._blocked(ms)

    def longest_since(self, time: float) -> int:
        """The longest block that ended after this time, or the one that is ending now."""
        current = max(0.0, now_ms() - self._expected)
        return round(max([current, *(ms for end, ms in self._blocks if end > time)]))

    def close(self) -> None:
        self._timer.cancel()
