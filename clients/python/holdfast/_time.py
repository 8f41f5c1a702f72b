# SPDX-License-Identifier: Apache-2.0
"""Time of this process. Leases are measured with a clock that never jumps, and never compared with that of the server."""
from __future__ import annotations

import asyncio
import random
import time
from typing import Callable, Dict, Optional

if hasattr(time, "CLOCK_BOOTTIME"):

    def now_ms() -> float:
        """Milliseconds of a clock that never goes back, and goes on while the machine sleeps: the leases do, too."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) * 1000

else:

    def now_ms() -> float:
        """Milliseconds of a clock that never goes back."""
        return time.monotonic() * 1000


def backoff_ms(n: int, first: float = 100, most: float = 5000, rand: Callable[[], float] = random.random) -> float:
    """
    The pause before repetition ``n`` (0 is the first): between half of a doubling time and all of it. A client that others
    wait for as well must not come back at the same moment as they do.
    """
    full: float = min(most, first * 2 ** min(n, 30))
    return full / 2 + full / 2 * rand()


class Abort:
    """
    Says once, to any number of listeners, that something must end. Requests are aborted with it and not by cancelling their
    tasks, so that a reply that has already arrived is never thrown away. Belongs to one event loop.
    """

    __slots__ = ("aborted", "_listeners")

    def __init__(self) -> None:
        self.aborted = False
        self._listeners: Dict[Callable[[], None], None] = {}

    def add(self, listener: Callable[[], None]) -> None:
        self._listeners[listener] = None

    def remove(self, listener: Callable[[], None]) -> None:
        self._listeners.pop(listener, None)

    def abort(self) -> None:
        if self.aborted:
            return
        self.aborted = True
        listeners, self._listeners = self._listeners, {}
        for listener in listeners:
            listener()


async def pause(ms: Optional[float], *aborts: Optional[Abort]) -> None:
    """Waits; ends early when one of the signals aborts. None: until then."""
    waited = [abort for abort in aborts if abort is not None]
    if any(abort.aborted for abort in waited) or (ms is not None and ms <= 0):
        return
    loop = asyncio.get_running_loop()
    ended: "asyncio.Future[None]" = loop.create_future()

    def end() -> None:
        if not ended.done():
            ended.set_result(None)

    timer = None if ms is None else loop.call_later(ms / 1000, end)
    for abort in waited:
        abort.add(end)
    try:
        await ended
    finally:
        if timer:
            timer.cancel()
        for abort in waited:
            abort.remove(end)
