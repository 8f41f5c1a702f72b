# SPDX-License-Identifier: Apache-2.0
"""
A job that the worker holds: waiting → running → reporting. Its lease is measured from the moment at which the reply that
granted it arrived (or the request that renewed it was sent), with the clock of this process. The work stops when the server
says so, or when the lease would have ended without a renewal, whichever comes first.
"""
from __future__ import annotations

import asyncio
import io
import math
import threading
from typing import TYPE_CHECKING, Any, Callable, List, Optional

from .._lock import ModuleLock
from ..errors import HoldfastError
from ..types import Job

if TYPE_CHECKING:
    from ._context import Context

WAITING, RUNNING, REPORTING = "waiting", "running", "reporting"

# Handlers in threads ask about the stop while the event loop sets it; this is rare, so that one lock is enough.
_lock = ModuleLock()


class Held:
    __slots__ = ("job", "token", "lease_ms", "since", "renewed_at", "phase", "deadline", "lost", "releasing", "stop_reason",
                 "context", "task", "_latest", "_event", "_listeners")

    def __init__(self, job: Job[Any], now: float) -> None:
        self.job = job
        self.token: str = job.raw["token"]
        self.lease_ms: float = job.raw["lease_ms"]
        self.since = now
        """When the worker got it."""
        self.renewed_at = now
        """When the lease was granted or last renewed, at the earliest."""
        self.phase = WAITING
        timeout_ms = job.raw.get("timeout_ms")
        # An attempt ends at this time even if its lease is renewed.
        self._latest: float = now + timeout_ms if timeout_ms else math.inf
        self.deadline = min(now + self.lease_ms, self._latest)
        """The lease is over, for this worker, at this time."""
        self.lost = False
        """The server has said that the lease is over: no report is sent."""
        self.releasing = False
        self.stop_reason: Optional[HoldfastError] = None
        """Why the work must stop."""
        self.context: Optional[Context] = None
        self.task: Optional[asyncio.Task[Any]] = None
        """The task of an asynchronous handler that is running."""
        self._event: Optional[threading.Event] = None
        self._listeners: List[Callable[[], Any]] = []

    def renewed(self, sent: float) -> None:
        self.renewed_at = max(self.renewed_at, sent)
        self.deadline = max(self.deadline, min(sent + self.lease_ms, self._latest))

    def stop(self, reason: HoldfastError, failed: Callable[[Exception], None]) -> bool:
        """
        Tells the handler, once; False if it was told before. Runs in the event loop. ``failed`` gets what a listener raises.
        """
        with _lock:
            if self.stop_reason:
                return False
            self.stop_reason = reason
            event, listeners = self._event, self._listeners
            self._listeners = []
        if event:
            event.set()
        if self.task:
            self.task.cancel()
        for listener in listeners:
            try:
                listener()
            except Exception as error:
                failed(error)
        return True

    def on_stop(self, listener: Callable[[], Any]) -> None:
        with _lock:
            if not self.stop_reason:
                self._listeners.append(listener)
                return
        listener()

    def where(self) -> str:
        """The stack of the task."""
        text = io.StringIO()
        if self.task:
            self.task.print_stack(file=text)
        return text.getvalue()

    def wait(self, seconds: Optional[float]) -> bool:
        """Waits in a thread until the work must stop; False: the time has passed."""
        with _lock:
            if self.stop_reason:
                return True
            self._event = self._event or threading.Event()
        return self._event.wait(seconds)
