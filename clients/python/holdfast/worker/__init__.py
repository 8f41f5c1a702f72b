# SPDX-License-Identifier: Apache-2.0
"""
A worker: functions for the jobs of queues.

    worker = Worker("http://127.0.0.1:8000", concurrency=10)

    @worker.job("mail")
    def send(job, ctx): ...

    worker.run()

A ``def`` handler runs in a thread, an ``async def`` handler as a task of the worker's event loop.
"""
from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
import signal
import socket
import threading
from dataclasses import replace
from types import TracebackType
from typing import (Any, Awaitable, Callable, Generic, Iterator, Optional, Sequence, Type, TypeVar, Union, overload)

from .._loop import LoopThread, run_loop
from .._transport import Token
from ..aio import AsyncClient
from ..client import Client
from ..payloads import decoder
from ..trace import Tracing
from ..types import Job
from ._context import Context
from ._engine import Engine
from ._hooks import Hooks
from ._settings import Handler, Settings

__all__ = ["Context", "Hooks", "Worker"]

P = TypeVar("P")
STOP_MS = 30_000
SIGNALS = (signal.SIGTERM, signal.SIGINT)


class _Decorator(Generic[P]):
    def __init__(self, add: Callable[[Callable[..., Any]], None]) -> None:
        self._add = add

    @overload
    def __call__(self, function: Callable[[Job[P], Context], Awaitable[Any]]) -> Callable[[Job[P], Context], Awaitable[Any]]: ...

    @overload
    def __call__(self, function: Callable[[Job[P], Context], Any]) -> Callable[[Job[P], Context], Any]: ...

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self._add(function)
        return function


class Worker:
    """
    ``server``: an address, or a client whose options are used. ``concurrency``: handlers that run at the same time.
    ``prefetch``: jobs that wait in this process for a free handler. ``lease_ms``: the length of a lease (default: that of the
    queue). ``wait_ms``: how long the server holds a claim when there is no job. ``name`` is shown in GET /v1/workers.
    """

    def __init__(self, server: Union[str, Client, AsyncClient, None] = None, *, concurrency: int = 1, prefetch: int = 0,
                 lease_ms: Optional[int] = None, wait_ms: int = 30_000, name: Optional[str] = None,
                 hooks: Optional[Hooks] = None) -> None:
        client = server if isinstance(server, (Client, AsyncClient)) else AsyncClient(server)
        self._settings = Settings(client.options, concurrency, prefetch, lease_ms, wait_ms, hooks or Hooks())
        self._settings.check()
        self._given_name = name
        self.name = name or _new_name()
        self._engine: Optional[Engine] = None
        self._thread: Optional[LoopThread] = None
        self._ended = threading.Event()
        self._pid = os.getpid()

    def configure(self, *, url: Optional[str] = None, token: Token = None, concurrency: Optional[int] = None,
                  prefetch: Optional[int] = None, name: Optional[str] = None) -> None:
        """Changes options before the worker is started; None leaves one as it is."""
        options = self._settings.options
        self._settings.options = replace(options, url=url or options.url, token=options.token if token is None else token)
        self._settings.concurrency = self._settings.concurrency if concurrency is None else concurrency
        self._settings.prefetch = self._settings.prefetch if prefetch is None else prefetch
        self._settings.check()
        self._given_name = name or self._given_name
        self.name = name or self.name

    # ---- handlers ----

    @overload
    def job(self, queue: str, *, kind: Optional[str] = None, payload: Type[P]) -> _Decorator[P]: ...

    @overload
    def job(self, queue: str, *, kind: Optional[str] = None) -> _Decorator[Any]: ...

    def job(self, queue: str, *, kind: Optional[str] = None, payload: Any = None) -> _Decorator[Any]:
        """
        The decorator of a handler: a function of the job and its context. ``payload``: the type of the payload, such as a dataclass.
        ``kind``: only for jobs of this kind.
        """
        decode = None if payload is None else decoder(payload)
        return _Decorator(lambda function: self.add(queue, function, kind=kind, decode=decode))

    def add(self, queue: str, function: Callable[..., Any], *, kind: Optional[str] = None,
            decode: Optional[Callable[[Any], Any]] = None) -> None:
        """Adds a handler without a decorator."""
        if self._running:
            raise RuntimeError("handlers are added before the worker is started")
        tracing: Tracing = self._settings.options.tracing
        handler = Handler(function, decode, tracing)
        kinds = self._settings.handlers.setdefault(queue, {})
        if kind in kinds:
            raise ValueError(f"the queue {queue} has a handler" + (f" for the kind {kind}" if kind else ""))
        kinds[kind] = handler

    # ---- running ----

    def run(self, *, stop_timeout_ms: float = STOP_MS, drain: bool = False,
            signals: Sequence[signal.Signals] = SIGNALS) -> None:
        """
        Runs until the worker has stopped: by ``request_stop()``, or by a signal if this is the main thread; the second signal stops it
        at once. ``drain``: until all jobs that are ready have been processed.
        """
        if asyncio._get_running_loop():
            raise RuntimeError("this thread runs an event loop; use run_async()")
        if threading.current_thread() is not threading.main_thread():
            signals = ()
        run_loop(self.run_async(stop_timeout_ms=stop_timeout_ms, drain=drain, signals=signals))

    async def run_async(self, *, stop_timeout_ms: float = STOP_MS, drain: bool = False,
                        signals: Sequence[signal.Signals] = ()) -> None:
        """The same in the running event loop. When its task is cancelled, the worker stops at once."""
        engine = self._begin()
        received = 0

        def on_signal() -> None:
            nonlocal received
            received += 1
            engine.request_stop(stop_timeout_ms if received == 1 else 0, False)

        with _signals(engine.loop, signals, on_signal):
            if drain:
                engine.request_stop(None, True)
            try:
                await asyncio.shield(engine.ended)
            except asyncio.CancelledError:
                engine.request_stop(0, False)
                await asyncio.shield(engine.ended)
                raise

    def start(self) -> Worker:
        """Runs in its own thread until ``stop()``."""
        if self._running:
            raise RuntimeError("the worker is running")
        self._thread = LoopThread(f"holdfast-{self.name}")
        try:
            self._thread.run(self._begin_async())
        except BaseException:
            self._thread.stop()
            raise
        return self

    def request_stop(self, *, timeout_ms: Optional[float] = STOP_MS, drain: bool = False) -> None:
        """Like ``stop()``, without waiting. May be called from anywhere: handlers, hooks, other threads, signal handlers."""
        if self._running and self._engine:
            try:
                self._engine.loop.call_soon_threadsafe(self._engine.request_stop, timeout_ms, drain)
            except RuntimeError:  # it has ended meanwhile
                pass

    def stop(self, *, timeout_ms: Optional[float] = None, drain: bool = False) -> None:
        """
        Stops: no further job is claimed, jobs that have not started are released, and running handlers may finish. After
        ``timeout_ms`` (30,000; with ``drain`` without limit) they are told to stop and their jobs are released, uncounted. With
        ``drain`` all jobs that are ready are processed first. A second call can shorten the time.
        """
        if not self._running or not self._engine:
            return
        if self._engine.owns(threading.get_ident()):
            raise RuntimeError("stop() would wait for itself; use request_stop() or stop_async()")
        self.request_stop(timeout_ms=self._limit(timeout_ms, drain), drain=drain)
        self._ended.wait()
        thread, self._thread = self._thread, None
        if thread:
            thread.stop()

    async def stop_async(self, *, timeout_ms: Optional[float] = None, drain: bool = False) -> None:
        """``stop()`` for programs whose event loop runs the worker."""
        engine = self._engine
        if self._running and engine:
            engine.request_stop(self._limit(timeout_ms, drain), drain)
            await asyncio.shield(engine.ended)

    def __enter__(self) -> Worker:
        return self.start()

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.stop()

    async def __aenter__(self) -> Worker:
        self._begin()
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.stop_async()

    @staticmethod
    def _limit(timeout_ms: Optional[float], drain: bool) -> Optional[float]:
        return timeout_ms if timeout_ms is not None or drain else STOP_MS

    @property
    def _running(self) -> bool:
        # In a forked process the worker of the parent does not run.
        return self._engine is not None and self._pid == os.getpid() and not self._ended.is_set()

    def _begin(self) -> Engine:
        """Starts in the running event loop."""
        if self._running:
            raise RuntimeError("the worker is running")
        if not self._settings.handlers:
            raise RuntimeError("the worker has no handler; add one with the decorator job()")
        if self._pid != os.getpid():
            self.name = self._given_name or _new_name()  # several processes may have been forked from one that had the worker
        self._pid = os.getpid()
        self._ended = ended = threading.Event()
        self._engine = engine = Engine(self._settings, self.name)
        engine.ended.add_done_callback(lambda future: ended.set())
        return engine

    async def _begin_async(self) -> None:
        self._begin()


def _new_name() -> str:
    host = re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:60]
    return f"{host}-{secrets.token_hex(6)}"


@contextlib.contextmanager
def _signals(loop: asyncio.AbstractEventLoop, signals: Sequence[signal.Signals], call: Callable[[], None]) -> Iterator[None]:
    """Calls back in the event loop for each of the signals; afterwards their earlier handlers are back."""
    before = {number: signal.getsignal(number) for number in signals}
    for number in signals:
        try:
            loop.add_signal_handler(number, call)
        except NotImplementedError:  # Windows
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(call))
    try:
        yield
    finally:
        for number, handler in before.items():
            try:
                loop.remove_signal_handler(number)
            except NotImplementedError:
                pass
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
