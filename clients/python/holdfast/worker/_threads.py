# SPDX-License-Identifier: Apache-2.0
"""
The threads of a worker's handlers. They are daemons: a handler that does not react to a stop cannot keep the process from
ending. The results of several handlers wake the event loop once.
"""
from __future__ import annotations

import asyncio
import contextvars
import queue
import sys
import threading
import traceback
from collections import deque
from typing import Any, Callable, Deque, Dict, List, Optional, Tuple

from ._held import Held

Ended = Callable[[Held, Any, Optional[BaseException]], None]
_Work = Optional[Tuple[Held, Callable[[], Any]]]


class HandlerThreads:
    def __init__(self, most: int, name: str, ended: Ended) -> None:
        self._most = most
        self._name = name
        self._ended = ended
        self._loop = asyncio.get_running_loop()
        self._queue: queue.SimpleQueue[_Work] = queue.SimpleQueue()
        self._threads: List[threading.Thread] = []
        self._busy = 0
        self._results: Deque[Tuple[Held, Any, Optional[BaseException]]] = deque()
        self._woken = False
        self._running: Dict[int, Held] = {}

    def submit(self, held: Held, handler: Callable[[], Any]) -> None:
        self._busy += 1
        if self._busy > len(self._threads) and len(self._threads) < self._most:
            name = f"{self._name}-{len(self._threads) + 1}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._queue.put((held, handler))

    def where(self, held: Held) -> str:
        """The stack of the thread that runs this job."""
        frames = sys._current_frames()
        for thread in self._threads:
            if thread.ident is not None and self._running.get(thread.ident) is held and thread.ident in frames:
                return f"{thread.name}:\n" + "".join(traceback.format_stack(frames[thread.ident]))
        return ""

    def busy(self, thread: int) -> bool:
        """Whether this thread runs a handler."""
        return thread in self._running

    def close(self) -> None:
        """Ends the threads that are free; the others end with their handlers."""
        for _ in self._threads:
            self._queue.put(None)

    def _work(self) -> None:
        ident = threading.get_ident()
        while True:
            work = self._queue.get()
            if work is None:
                return
            held, handler = work
            self._running[ident] = held
            result, error = None, None
            try:
                result = contextvars.copy_context().run(handler)
            except BaseException as raised:  # also SystemExit: a handler does not end the worker
                error = raised
            self._running.pop(ident, None)
            self._results.append((held, result, error))
            # The references would keep the last job alive while the thread waits.
            work = held = handler = result = error = None  # type: ignore[assignment]
            self._wake()

    def _wake(self) -> None:
        if self._woken:
            return
        self._woken = True
        try:
            self._loop.call_soon_threadsafe(self._take)
        except RuntimeError:  # the worker has ended
            pass

    def _take(self) -> None:
        self._woken = False
        while self._results:
            held, result, error = self._results.popleft()
            self._busy -= 1
            self._ended(held, result, error)
