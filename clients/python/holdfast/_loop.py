# SPDX-License-Identifier: Apache-2.0
"""An event loop in its own thread, for programs that have none."""
from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from typing import Any, Callable, Coroutine, TypeVar

from .errors import AbortedError

T = TypeVar("T")
TASKS_S = 2
"""How long the end of an event loop waits for tasks that were cancelled."""


class LoopThread:
    """Runs coroutines for other threads. The thread is a daemon: a program may end without closing it."""

    def __init__(self, name: str) -> None:
        self.loop = _new_loop()
        self._lock = threading.Lock()
        self._stopped = False
        self.thread = threading.Thread(target=_run, args=(self.loop,), name=name, daemon=True)
        self.thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of the coroutine. An exception in this thread, such as KeyboardInterrupt, cancels it."""
        if threading.current_thread() is self.thread:
            work.close()
            raise RuntimeError("this call would wait for its own thread")
        with self._lock:
            if self._stopped:
                work.close()
                raise RuntimeError("the event loop has ended")
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise AbortedError("the client is closed") from None
        except BaseException:
            future.cancel()
            raise

    def stop(self, before: Callable[[], None] = lambda: None) -> None:
        """Cancels what runs and ends the thread. ``before`` is called in the event loop."""
        with self._lock:
            if self._stopped:
                return
            self._stopped = True
            self.loop.call_soon_threadsafe(before)
            self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self.thread:
            self.thread.join(2 * TASKS_S)


def run_loop(work: Coroutine[Any, Any, T]) -> T:
    """Runs the coroutine in a new event loop in this thread. Other than asyncio.run() it does not wait for tasks that ignore it."""
    loop = _new_loop()
    asyncio.set_event_loop(loop)
    main = loop.create_task(work)
    try:
        return loop.run_until_complete(main)
    finally:
        main.cancel()
        _end(loop)


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        _end(loop)


def _end(loop: asyncio.AbstractEventLoop) -> None:
    try:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=TASKS_S))
        loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        asyncio.set_event_loop(None)
        loop.close()  # also shuts its executor down, without waiting for it


def _new_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    # Names of hosts are resolved in it.
    loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(4, "holdfast-resolver"))
    return loop
