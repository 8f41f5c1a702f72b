# SPDX-License-Identifier: Apache-2.0
"""
One run of a worker, in one event loop: it claims jobs, runs the handler for each and reports the outcome.

It holds at most ``concurrency + prefetch`` leases, from the claim until the report is confirmed. One task claims, one sends
heartbeats; handlers run in between, as tasks or in threads. Every lease that the worker holds is renewed, also that of a job
that waits for a free handler. A handler is told when its work must stop: its task is cancelled, or the flag of its context is
set. What it returns then is still reported, because the server decides whether a report is accepted; only after the server
itself has ended the lease nothing is sent.
"""
from __future__ import annotations

import asyncio
import functools
import math
import os
import socket
import threading
from collections import deque
from typing import Any, Coroutine, Deque, Dict, List, Optional, Set, Union

from .._time import Abort, backoff_ms, now_ms, pause
from .._transport import Call
from ..aio import AsyncClient
from ..errors import (AbortedError, HoldfastError, JobCancelledError, LeaseLostError, NoConnectionError, UnknownOutcomeError,
                      WorkerStoppedError)
from ..types import Job, LeaseReply
from ._context import Context
from ._heartbeat import Heartbeats
from ._held import REPORTING, RUNNING, WAITING, Held
from ._hooks import call_hook
from ._lag import LagMonitor
from ._outcome import ending_of
from ._settings import Handler, Settings
from ._threads import HandlerThreads

REPORT_MS = 3_600_000
"""Reports are repeated until the server replies; it keeps replies to reports for at least this time."""
ABANDON_MS = 1000
"""How long a stop at once waits for handlers and releases."""
EMPTY_MS = 100
"""The time between claims that return no job at once, because of `wait_ms` or of what is between worker and server."""
IGNORED_S = 10
"""A handler that continues for this long after it was told to stop is reported, and again after twice the time."""

Ended = Union[LeaseLostError, JobCancelledError]


class Engine:
    def __init__(self, settings: Settings, name: str) -> None:
        self.name = name
        self.done = 0
        self.failed = 0
        self.running = 0
        self.loop = asyncio.get_running_loop()
        self._settings = settings
        self._hooks = settings.hooks
        self._client = AsyncClient.from_options(settings.options)
        self._capacity = settings.concurrency + settings.prefetch
        self._held: Dict[str, Held] = {}
        # Whose handlers run; their leases may be over.
        self._handled: Set[Held] = set()
        self._waiting: Deque[Held] = deque()
        self._state = "active"
        self._claiming = Abort()
        self._hard = Abort()
        self._limits: List[asyncio.TimerHandle] = []
        self._changed = asyncio.Event()
        self._lease_ms = 30_000.0
        self._expiry: Optional[asyncio.TimerHandle] = None
        self._expiry_at = math.inf
        self._tasks: Set[asyncio.Task[Any]] = set()
        self._stopped: Optional[asyncio.Task[None]] = None
        self._drained: Optional[asyncio.Task[None]] = None
        self.thread = threading.get_ident()
        self._threads = HandlerThreads(settings.concurrency, f"holdfast-{name}", self._handler_ended)
        self._lag = LagMonitor(lambda: min(1000, self._lease_ms / 3), self._was_blocked)
        self._heartbeats = Heartbeats(self._client, self, {"host": socket.gethostname()[:60], "pid": os.getpid()})
        self._claims = self.loop.create_task(self._claim_loop())
        self.ended: asyncio.Future[None] = self.loop.create_future()

    def owns(self, thread: int) -> bool:
        """Whether a stop that is awaited in this thread would wait for itself."""
        return thread == self.thread or self._threads.busy(thread)

    # ---- the stop ----

    def request_stop(self, timeout_ms: Optional[float], drain: bool) -> None:
        """Runs in the event loop. ``ended`` is done when the worker has stopped. A second call can shorten the time."""
        drain = drain and self._state == "active"
        if self._state != "stopping":
            self._state = "draining" if drain else "stopping"
        if drain:
            self._drained = self.loop.create_task(self._drain())
        else:
            self._claiming.abort()
        if not self._stopped:
            self._stopped = self.loop.create_task(self._stop())
        self._changed.set()
        if timeout_ms is not None and not self.ended.done():
            self._limits.append(self.loop.call_later(timeout_ms / 1000, self._hard.abort))

    async def _stop(self) -> None:
        try:
            await self._or_hard(self._claims_ended())
            self._state = "stopping"
            self._changed.set()
            while self._waiting:
                self._spawn(self._release(self._waiting.popleft()))
            await self._or_hard(self._idle())
            if self._hard.aborted:
                await self._abandon()
            await self._heartbeats.end(1000)
        finally:
            self._lag.close()
            self._threads.close()
            for timer in [*self._limits, *([self._expiry] if self._expiry else [])]:
                timer.cancel()
            await self._client.close()
            if not self.ended.done():
                self.ended.set_result(None)

    async def _or_hard(self, work: Coroutine[Any, Any, None]) -> None:
        """Waits for the work, or until the worker must stop at once."""
        task = self.loop.create_task(work)
        hard = self.loop.create_task(pause(None, self._hard))
        try:
            await asyncio.wait({task, hard}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.cancel()
            hard.cancel()
        self._claiming.abort()

    async def _claims_ended(self) -> None:
        # The tasks themselves must not be cancelled with the wait for them.
        await asyncio.wait({task for task in (self._claims, self._drained) if task})

    async def _idle(self) -> None:
        while self._held or self.running:
            await self._change()

    async def _abandon(self) -> None:
        """Tells what runs to stop and releases it; waits for a short time only."""
        for held in list(self._held.values()):
            if held.phase == REPORTING:
                continue
            self._tell(held, WorkerStoppedError())
            self._spawn(self._release(held))
        pending = [asyncio.ensure_future(pause(ABANDON_MS)), asyncio.ensure_future(self._idle())]
        await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        for held in list(self._handled):
            self._ignored(held, 0)

    async def _change(self) -> None:
        """The next end of a job, or a stop."""
        self._changed.clear()
        await self._changed.wait()

    @property
    def _is_stopping(self) -> bool:
        return self._state == "stopping" or self._client.closed

    # ---- claims ----

    async def _claim_loop(self) -> None:
        failures = 0
        while self._state == "active" and not self._is_stopping:
            free = self._capacity - len(self._held)
            if free < self._least_free():
                await self._change()
                continue
            begin = now_ms()
            try:
                jobs = await self._claim(free, self._settings.wait_ms, self._claiming)
                self._take(jobs)
                failures = 0
                if not jobs:
                    await pause(begin + EMPTY_MS - now_ms(), self._claiming)
            except AbortedError:
                continue
            except Exception as error:
                call_hook(self._hooks, "error", error)
                await pause(backoff_ms(failures), self._claiming)
                failures += 1

    async def _drain(self) -> None:
        """
        Claims until nothing is ready and nothing is held. The claim that may be waiting stays open until then: jobs that it gets
        are processed, and would come back to the queue too late if it were aborted now.
        """
        failures = 0
        while not self._is_stopping:
            try:
                free = self._capacity - len(self._held)
                jobs = await self._claim(free, 0, None) if free > 0 else []
                failures = 0
                self._take(jobs)
                if jobs:
                    continue
                # Jobs that are held may enqueue more when they end.
                if self._held:
                    await self._change()
                    continue
                self._claiming.abort()
                await asyncio.wait({self._claims})
                if not self._held:
                    return
            except AbortedError:
                return
            except Exception as error:
                call_hook(self._hooks, "error", error)
                await pause(backoff_ms(failures), self._hard)
                failures += 1

    def _least_free(self) -> int:
        """A claim for one job while handlers are busy would make many small claims."""
        starving = not self._waiting and self.running < self._settings.concurrency
        return 1 if starving else math.ceil(self._capacity / 4)

    async def _claim(self, count: int, wait_ms: int, abort: Optional[Abort]) -> List[Job[Any]]:
        call = Call(retry_for_ms=0, abort=abort)
        return await self._client._claim(self._settings.queues, call, count=count, wait_ms=wait_ms, worker=self.name,
                                         lease_ms=self._settings.lease_ms)

    def _take(self, jobs: List[Job[Any]]) -> None:
        now = now_ms()
        for job in jobs:
            held = Held(job, now)
            self._lease_ms = held.lease_ms
            self._held[held.token] = held
            # A claim that the stop could not abort any more.
            if self._is_stopping:
                self._spawn(self._release(held))
            else:
                self._waiting.append(held)
            self._watch_expiry(held.deadline)
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and self.running < self._settings.concurrency:
            self._start(self._waiting.popleft())

    # ---- one job ----

    def _start(self, held: Held) -> None:
        held.phase = RUNNING
        self.running += 1
        self._handled.add(held)
        held.context = context = Context(self.name, held, self._client, self.loop, self)
        call_hook(self._hooks, "started", held.job)
        handler = self._settings.handler_of(held.job)
        if isinstance(handler, Exception):
            self._handler_ended(held, None, handler)
        elif handler.asynchronous:
            self._start_task(held, handler, context)
        else:
            self._threads.submit(held, functools.partial(handler.run, held.job, context))

    def _start_task(self, held: Held, handler: Handler, context: Context) -> None:
        task = held.task = self._spawn(handler.run_async(held.job, context))

        def ended(task: asyncio.Task[Any]) -> None:
            held.task = None
            error = asyncio.CancelledError("the handler was cancelled") if task.cancelled() else task.exception()
            self._handler_ended(held, None if error else task.result(), error)

        task.add_done_callback(ended)

    def _handler_ended(self, held: Held, result: Any, error: Optional[BaseException]) -> None:
        self._spawn(self._finish(held, result, error))

    async def _finish(self, held: Held, result: Any, error: Optional[BaseException]) -> None:
        assert held.context
        await held.context.flush()
        held.phase = REPORTING
        self.running -= 1
        self._handled.discard(held)
        self._start_waiting()
        self._changed.set()
        if self._is_over(held):
            return
        if error is None:
            await self._ack(held, result)
        # The handler stopped because it was told to, or with its process: that is not a failure of the job.
        elif held.stop_reason or self._is_end_of_process(error):
            await self._release(held)
        else:
            await self._unfinished(held, error)

    def _is_end_of_process(self, error: BaseException) -> bool:
        if isinstance(error, asyncio.CancelledError):
            return self._state == "stopping"
        return isinstance(error, KeyboardInterrupt)

    def _forget(self, held: Held) -> None:
        """The lease is over or was given back."""
        self._held.pop(held.token, None)
        self._changed.set()

    async def _ack(self, held: Held, result: Any) -> None:
        assert held.context
        try:
            reply = await self._client.ack(held.job, result, retry_for_ms=REPORT_MS, **held.context.hand_off)
        except Exception as error:
            if self._ended_by_server(held, error) or self._closed(held, error):
                return
            if isinstance(error, (NoConnectionError, UnknownOutcomeError)):
                self._report_failed(held, error)
                return
            # The result or the hand-off was refused: the job cannot be done in this way.
            call_hook(self._hooks, "error", error, held.job)
            await self._unfinished(held, error)
            return
        self.done += 1
        self._forget(held)
        call_hook(self._hooks, "done", held.job, reply)

    async def _unfinished(self, held: Held, error: BaseException) -> None:
        ending = ending_of(error)
        if ending.word == "release":
            await self._release(held, ending.report)
            return
        try:
            reply = await self._client.fail(held.job, retry_for_ms=REPORT_MS, **ending.report)
        except Exception as refused:
            self._report_failed(held, refused)
            return
        self.failed += 1
        self._forget(held)
        call_hook(self._hooks, "failed", held.job, error, reply)

    async def _release(self, held: Held, report: Optional[Dict[str, Any]] = None) -> None:
        if held.releasing or self._is_over(held):
            return
        held.releasing = True
        try:
            reply: LeaseReply = await self._client.release(held.job, retry_for_ms=REPORT_MS, **(report or {}))
        except Exception as error:
            self._report_failed(held, error)
            return
        self._forget(held)
        if reply.state == "cancelled":
            call_hook(self._hooks, "cancelled", held.job)
        else:
            call_hook(self._hooks, "released", held.job, reply)

    def _report_failed(self, held: Held, error: Exception) -> None:
        if self._ended_by_server(held, error) or self._closed(held, error):
            return
        call_hook(self._hooks, "error", error, held.job)
        self._forget(held)

    def _is_over(self, held: Held) -> bool:
        """Whether nothing is left to report."""
        if not held.lost and held.token in self._held:
            return False
        self._forget(held)
        return True

    def _closed(self, held: Held, error: Exception) -> bool:
        """Whether a report was given up because the worker ends."""
        if not isinstance(error, AbortedError):
            return False
        self._forget(held)
        return True

    def _ended_by_server(self, held: Held, error: Exception) -> bool:
        """Whether the refusal of a report says that the lease was over."""
        if not isinstance(error, (LeaseLostError, JobCancelledError)):
            return False
        self._lose(held, error, late=True)
        self._forget(held)
        return True

    # ---- leases ----

    def _tell(self, held: Held, reason: HoldfastError) -> bool:
        """Tells the handler to stop, once."""
        if not held.stop(reason, lambda error: call_hook(self._hooks, "error", error, held.job)):
            return False
        if held.phase == RUNNING:
            self.loop.call_later(IGNORED_S, self._ignored, held, IGNORED_S)
        return True

    def _ignored(self, held: Held, seconds: float) -> None:
        if held.phase != RUNNING:
            return
        call_hook(self._hooks, "ignored", held.job, seconds, held.where() or self._threads.where(held))
        if seconds:
            self.loop.call_later(seconds, self._ignored, held, 2 * seconds)

    def _lose(self, held: Held, error: Ended, late: bool = False) -> None:
        held.lost = True
        self._tell(held, error)
        if isinstance(error, JobCancelledError):
            call_hook(self._hooks, "cancelled", held.job)
        else:
            call_hook(self._hooks, "lost", held.job, error, late, self._lag.longest_since(held.since))

    def renewable(self) -> List[Held]:
        return [held for held in self._held.values() if not held.lost and not isinstance(held.stop_reason, LeaseLostError)]

    def cancel_requested(self, held: Held) -> None:
        problem = {"code": "cancelled", "title": "The cancel of the job is requested", "id": held.job.id}
        if self._tell(held, JobCancelledError(202, problem)) and held.phase == WAITING:
            self._drop_waiting(held, release=True)

    def lease_lost(self, held: Held, error: Optional[HoldfastError] = None) -> None:
        """The server says that the lease is over."""
        # A report that has just been accepted ends the lease as well.
        if held.phase == REPORTING or held.releasing or held.lost:
            return
        known = isinstance(error, (LeaseLostError, JobCancelledError))
        self._lose(held, error if known else _lost(held.job, "the server has ended the lease"))  # type: ignore[arg-type]
        if held.phase == WAITING:
            self._drop_waiting(held, release=False)

    def call_failed(self, error: BaseException, held: Held) -> None:
        call_hook(self._hooks, "error", error, held.job)

    def heartbeat_failed(self, error: BaseException) -> None:
        call_hook(self._hooks, "error", error)

    def _drop_waiting(self, held: Held, release: bool) -> None:
        try:
            self._waiting.remove(held)
        except ValueError:
            pass
        if release:
            self._spawn(self._release(held))
        else:
            self._forget(held)

    def _was_blocked(self, ms: float) -> None:
        # Replies may have waited in the socket in the meantime, so that their leases are older than they seem.
        for held in self._held.values():
            held.renewed_at = -math.inf
        self._expire()
        call_hook(self._hooks, "blocked", round(ms))

    def _watch_expiry(self, deadline: float) -> None:
        """Tells handlers to stop when their leases end without a renewal, whether or not the server can be reached."""
        if self._expiry and self._expiry_at <= deadline:
            return
        if self._expiry:
            self._expiry.cancel()
        self._expiry_at = deadline
        self._expiry = self.loop.call_later(max(0, deadline - now_ms() + 1) / 1000, self._expire)

    def _expire(self) -> None:
        if self._expiry:
            self._expiry.cancel()
        self._expiry, self._expiry_at = None, math.inf
        now, first = now_ms(), math.inf
        for held in list(self._held.values()):
            if held.phase == REPORTING or held.stop_reason:
                continue
            if held.deadline > now:
                first = min(first, held.deadline)
            else:
                self._expired(held)
        if first < math.inf:
            self._watch_expiry(first)

    def _expired(self, held: Held) -> None:
        error = _lost(held.job, "the lease was not renewed in time")
        self._tell(held, error)
        call_hook(self._hooks, "lost", held.job, error, False, self._lag.longest_since(held.since))
        if held.phase == WAITING:
            self._drop_waiting(held, release=False)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """A task that is referred to until it ends; the event loop itself does not."""
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _lost(job: Job[Any], detail: str) -> LeaseLostError:
    problem = {"code": "lease_lost", "title": "The lease is lost", "detail": detail, "id": job.id, "seq": job.seq}
    return LeaseLostError(409, problem)
