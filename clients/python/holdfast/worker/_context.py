# SPDX-License-Identifier: Apache-2.0
"""What a handler gets beside its job."""
from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable, Dict, Iterable, List, Optional, Protocol, Sequence, TypeVar, cast

from .._lock import ModuleLock
from .._time import Abort
from .._transport import Call
from ..aio import AsyncClient
from ..errors import AbortedError, HoldfastError, JobCancelledError, LeaseLostError
from ..types import Job, LeaseReply, NewJob, SetKey
from ._held import Held

T = TypeVar("T")
LINES_MAX = 1000
TEXT_MAX = 300_000

_lock = ModuleLock()


class LeaseNews(Protocol):
    """Told what replies say about a lease."""

    def cancel_requested(self, held: Held) -> None: ...

    def lease_lost(self, held: Held, error: Optional[HoldfastError] = None) -> None: ...

    def call_failed(self, error: BaseException, held: Held) -> None: ...


class Context:
    """Every method may be called from any thread, and only steps wait for the server."""

    __slots__ = ("worker", "_held", "_client", "_loop", "_news", "_enqueues", "_sets", "_deletes", "_lines", "_progress",
                 "_extend", "_sending", "_task")

    def __init__(self, worker: str, held: Held, client: AsyncClient, loop: asyncio.AbstractEventLoop,
                 news: LeaseNews) -> None:
        self.worker = worker
        """The name of the worker."""
        self._held = held
        self._client = client
        self._loop = loop
        self._news = news
        self._enqueues: List[NewJob] = []
        self._sets: List[SetKey] = []
        self._deletes: List[Sequence[Any]] = []
        self._lines: List[str] = []
        self._progress: Optional[Dict[str, Any]] = None
        self._extend: Optional[Dict[str, Any]] = None
        self._sending = False
        self._task: Optional[asyncio.Task[None]] = None

    @property
    def job(self) -> Job[Any]:
        return self._held.job

    # ---- the stop ----

    @property
    def stop_reason(self) -> Optional[HoldfastError]:
        """
        Why the work must stop: a LeaseLostError (another worker may have the job), a JobCancelledError, or a WorkerStoppedError.
        None: it must not.
        """
        return self._held.stop_reason

    @property
    def stopped(self) -> bool:
        """Whether the work must stop."""
        return self._held.stop_reason is not None

    def raise_if_stopped(self) -> None:
        """Raises the reason if the work must stop."""
        if self._held.stop_reason:
            raise self._held.stop_reason

    def wait(self, seconds: Optional[float] = None) -> bool:
        """
        For handlers in threads: sleeps, and ends early when the work must stop; returns whether it must. Asynchronous handlers use
        asyncio.sleep, which is cancelled.
        """
        _check_thread("wait() would block the event loop; use asyncio.sleep(), which is cancelled when the work must stop")
        return self._held.wait(seconds)

    def on_stop(self, listener: Callable[[], Any]) -> None:
        """
        Calls the listener when the work must stop, in the event loop of the worker; at once if it must already. For what a flag does
        not end: closing a connection, killing a process.
        """
        self._held.on_stop(listener)

    # ---- steps ----

    def step(self, name: str, run: Callable[[], T]) -> T:
        """
        For handlers in threads: a step whose result is kept. When the job is attempted again, a step that was completed returns the
        stored result, as JSON, and ``run`` is not called. A step can run twice if its result could not be stored.
        """
        _check_thread("step() would block the event loop; use step_async()")
        stored = self._stored_steps()
        if name in stored:
            return cast(T, stored[name])
        self.raise_if_stopped()
        result = run()
        store = self._store_step(name, result)
        try:
            future = asyncio.run_coroutine_threadsafe(store, self._loop)
        except RuntimeError:
            store.close()
            raise AbortedError("the worker has ended") from None
        future.result()
        return result

    async def step_async(self, name: str, run: Callable[[], Awaitable[T]]) -> T:
        """The same for asynchronous handlers."""
        stored = self._stored_steps()
        if name in stored:
            return cast(T, stored[name])
        self.raise_if_stopped()
        result = await run()
        await self._store_step(name, result)
        return result

    def _stored_steps(self) -> Dict[str, Any]:
        steps: Dict[str, Any] = self._held.job.raw.setdefault("steps", {})
        return steps

    async def _store_step(self, name: str, result: Any) -> None:
        # A step must not wait for a server that is away when the work must stop.
        abort = Abort()
        self._held.on_stop(abort.abort)
        try:
            reply = await self._client._store_step(self._held.job, name, result, Call(abort=abort))
        except (LeaseLostError, JobCancelledError) as error:
            self._news.lease_lost(self._held, error)
            raise
        except AbortedError:
            self.raise_if_stopped()
            raise
        self._stored_steps()[name] = result
        if reply.cancel:
            self._news.cancel_requested(self._held)

    # ---- what is sent ----

    def progress(self, percent: Optional[float] = None, message: Optional[str] = None, data: Any = None) -> None:
        """
        Reports the progress. It is sent in the background, before the report of the job at the latest; a newer report replaces one
        that was not sent. A report that cannot be sent goes to the hook ``error``: it is information, not part of the work.
        """
        self._send(progress={"percent": percent, "message": message, "data": data})

    def log(self, *lines: str) -> None:
        """Adds lines to the log of the job. They are sent together, before the report of the job at the latest."""
        self._send(lines=lines)

    def extend(self, lease_ms: Optional[int] = None) -> None:
        """Extends the lease by hand; the worker renews it anyway."""
        self._send(extend={"lease_ms": lease_ms})

    def on_ack(self, enqueues: Iterable[NewJob] = (), sets: Iterable[SetKey] = (),
               deletes: Iterable[Sequence[Any]] = ()) -> None:
        """
        Adds jobs and changes of keys to the ack: they take effect in its commit if the job is done, and otherwise not at all. Each
        job names its queue.
        """
        jobs = list(enqueues)
        if any(job.queue is None for job in jobs):
            raise ValueError("each job of `enqueues` needs a `queue`")
        self._enqueues.extend(jobs)
        self._sets.extend(sets)
        self._deletes.extend(deletes)

    def _send(self, lines: Sequence[str] = (), progress: Optional[Dict[str, Any]] = None,
              extend: Optional[Dict[str, Any]] = None) -> None:
        with _lock:
            self._lines.extend(str(line) for line in lines)
            self._progress = progress or self._progress
            self._extend = extend or self._extend
            if self._sending:
                return
            self._sending = True
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError:  # the worker has ended, and this thread has not
            pass

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._send_all())

    async def _send_all(self) -> None:
        lease = self._held.job
        while True:
            with _lock:
                progress, self._progress = self._progress, None
                extend, self._extend = self._extend, None
                count = _lines_of_request(self._lines)
                lines, self._lines = self._lines[:count], self._lines[count:]
                if not progress and not extend and not lines:
                    self._sending = False
                    return
            if progress:
                await self._quietly(self._client.progress(lease, **progress))
            if extend:
                await self._quietly(self._client.extend(lease, **extend))
            if lines:
                await self._quietly(self._client.log(lease, lines))

    async def _quietly(self, call: Awaitable[LeaseReply]) -> None:
        try:
            if (await call).cancel:
                self._news.cancel_requested(self._held)
        except (LeaseLostError, JobCancelledError) as error:
            self._news.lease_lost(self._held, error)
        except Exception as error:
            self._news.call_failed(error, self._held)

    async def flush(self) -> None:
        """Sends what was reported: the lease token is worth nothing after the end of the job."""
        while self._sending:
            await (self._task or asyncio.sleep(0))

    @property
    def hand_off(self) -> Dict[str, Any]:
        return {"enqueues": self._enqueues, "sets": self._sets, "deletes": self._deletes}


def _check_thread(message: str) -> None:
    if asyncio._get_running_loop():
        raise RuntimeError(message)


def _lines_of_request(lines: List[str]) -> int:
    """How many of the first lines fit into one request, at least one."""
    size = 0
    for count, line in enumerate(lines[:LINES_MAX]):
        size += len(line)
        if count and size > TEXT_MAX:
            return count
    return min(len(lines), LINES_MAX)
