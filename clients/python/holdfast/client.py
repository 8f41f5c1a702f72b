# SPDX-License-Identifier: Apache-2.0
"""
The client for programs without an event loop. Its methods are those of AsyncClient, which runs in its own thread. Any
number of threads may use one client, and calls of several threads become one request.
"""
from __future__ import annotations

import functools
import os
import ssl
import threading
import weakref
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Coroutine, Optional, Type, TypeVar

from ._loop import LoopThread
from ._transport import Options, Token
from .aio import AsyncClient
from .errors import AbortedError, HoldfastError
from .trace import Tracing

T = TypeVar("T")
if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    A = ParamSpec("A")

    def _blocking(method: Callable[Concatenate[AsyncClient, A], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Client, A], T]: ...

else:

    def _blocking(method):
        @functools.wraps(method)
        def call(self, *args, **kwargs):
            return self._run(method(self._client, *args, **kwargs))

        return call


class Client:
    """A client that any number of threads may use. The options are those of AsyncClient."""

    def __init__(self, url: Optional[str] = None, *, token: Token = None, timeout_ms: float = 30_000,
                 retry_for_ms: float = 30_000, idempotency_keys: bool = True,
                 parse_float: Optional[Callable[[str], Any]] = None, tracing: Optional[Tracing] = None,
                 tls: Optional[ssl.SSLContext] = None,
                 on_retry: Optional[Callable[[HoldfastError], None]] = None) -> None:
        self._client = AsyncClient(url, token=token, timeout_ms=timeout_ms, retry_for_ms=retry_for_ms,
                                   idempotency_keys=idempotency_keys, parse_float=parse_float, tracing=tracing, tls=tls,
                                   on_retry=on_retry)
        self._lock = threading.Lock()
        self._thread: Optional[LoopThread] = None
        self._end: Optional[Callable[[], Any]] = None
        _clients.add(self)

    enqueue = _blocking(AsyncClient.enqueue)
    enqueue_many = _blocking(AsyncClient.enqueue_many)
    get = _blocking(AsyncClient.get)
    list = _blocking(AsyncClient.list)
    cancel = _blocking(AsyncClient.cancel)
    requeue = _blocking(AsyncClient.requeue)
    claim = _blocking(AsyncClient.claim)
    ack = _blocking(AsyncClient.ack)
    fail = _blocking(AsyncClient.fail)
    release = _blocking(AsyncClient.release)
    extend = _blocking(AsyncClient.extend)
    progress = _blocking(AsyncClient.progress)
    log = _blocking(AsyncClient.log)
    store_step = _blocking(AsyncClient.store_step)
    request = _blocking(AsyncClient.request)

    @property
    def url(self) -> str:
        return self._client.url

    @property
    def options(self) -> Options:
        return self._client.options

    def close(self) -> None:
        """Ends all requests; later ones fail with AbortedError."""
        with self._lock:
            end = self._end
            self._thread = self._end = None
            closed, self._client._closed = self._client._closed, True
        if end and not closed:
            end()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.close()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            thread = self._running()
        except BaseException:
            work.close()
            raise
        return thread.run(work)

    def _running(self) -> LoopThread:
        with self._lock:
            if self._client.closed:
                raise AbortedError("the client is closed")
            if not self._thread:
                self._thread = LoopThread("holdfast-client")
                # Also when the program ends, or drops the client without closing it.
                self._end = weakref.finalize(self, _end, self._thread, self._client)
            return self._thread

    def _forked(self) -> None:
        """In a child process: the thread exists only in the parent, whose event loop must not be touched."""
        _inherited.append(self._thread)
        if isinstance(self._end, weakref.finalize):
            self._end.detach()
        self._thread = self._end = None
        self._lock = threading.Lock()


def _end(thread: LoopThread, client: AsyncClient) -> None:
    thread.stop(client._abort)


_clients: weakref.WeakSet[Client] = weakref.WeakSet()
_inherited: Any = []


def _after_fork() -> None:
    for client in list(_clients):
        client._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
