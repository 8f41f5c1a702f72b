# SPDX-License-Identifier: Apache-2.0
"""
Calls that become one request. Everything that is added in one step of the event loop is sent together. While a request is on
its way, further items wait for the next one: batches grow with the load, and the order of the calls is kept.
"""
from __future__ import annotations

import asyncio
from typing import Any, Awaitable, Callable, Deque, Dict, List, Optional
from collections import deque

from ._time import Abort, backoff_ms, now_ms, pause
from ._transport import item_verdict
from .errors import AbortedError, HoldfastError, Problem, ProblemError

ITEMS_MAX = 1000
TEXT_MAX = 1_000_000

Outcome = Dict[str, Any]


class Item:
    __slots__ = ("text", "retry_for_ms", "repeatable", "adapt", "since", "tries", "unknown", "future")

    def __init__(self, text: str, retry_for_ms: float, repeatable: bool,
                 adapt: Optional[Callable[[Item, Problem], bool]] = None) -> None:
        self.text = text
        """The JSON text of this item in the request."""
        self.retry_for_ms = retry_for_ms
        self.repeatable = repeatable
        """The item takes effect once, even if it is sent several times."""
        self.adapt = adapt
        """Changes the item so that it can be sent after this refusal; False: it cannot."""
        self.since = now_ms()
        self.tries = 0
        self.unknown: Optional[HoldfastError] = None
        self.future: asyncio.Future[Outcome]

    def reject(self, error: BaseException) -> None:
        if not self.future.done():
            self.future.set_exception(error)


Send = Callable[[List[Item]], Awaitable[List[Outcome]]]
"""Sends the items and returns one outcome for each, in order: the outcome, or {"error": problem}."""


class Batcher:
    def __init__(self, send: Send, closing: Abort) -> None:
        self._send = send
        self._closing = closing
        self._waiting: Deque[Item] = deque()
        self._task: Optional[asyncio.Task[None]] = None

    @property
    def idle(self) -> bool:
        """Nothing waits and nothing is on its way."""
        return self._task is None

    def add(self, item: Item) -> asyncio.Future[Outcome]:
        if self._closing.aborted:
            raise AbortedError("the client is closed")
        loop = asyncio.get_running_loop()
        item.future = loop.create_future()
        self._waiting.append(item)
        if self._task is None:
            # The task starts after everything that is ready to run now.
            self._task = loop.create_task(self._run())
        return item.future

    async def _run(self) -> None:
        try:
            while self._waiting:
                items = self._next()
                if items:
                    await self._exchange(items)
        finally:
            self._task = None

    async def _exchange(self, items: List[Item]) -> None:
        try:
            wait = self._take(items, await self._send(items))
        except ProblemError as error:
            if error.status not in (400, 413, 422) or len(items) == 1:
                for item in items:
                    item.reject(error)
                return
            # One of them is not a valid item, and must not affect the others.
            half = len(items) // 2
            await self._exchange(items[:half])
            await self._exchange(items[half:])
        except Exception as error:
            for item in items:
                item.reject(error)
        except BaseException:  # the event loop ends
            for item in [*items, *self._waiting]:
                item.reject(AbortedError("the event loop has ended"))
            raise
        else:
            await pause(wait, self._closing)

    def _next(self) -> List[Item]:
        """As many of the first items as fit into one request, without those whose callers do not wait any more."""
        items: List[Item] = []
        length = 0
        while self._waiting and len(items) < ITEMS_MAX:
            item = self._waiting[0]
            if items and length + len(item.text) > TEXT_MAX:
                break
            self._waiting.popleft()
            if item.future.done():
                continue
            items.append(item)
            length += len(item.text)
        return items

    def _take(self, items: List[Item], outcomes: List[Outcome]) -> float:
        """Passes the outcomes on. Items that are sent again come first; returns the time to wait before that."""
        if len(outcomes) != len(items):
            raise HoldfastError(f"the reply has {len(outcomes)} outcomes for {len(items)} items")
        again: List[Item] = []
        wait = 0.0
        for item, outcome in zip(items, outcomes):
            problem = outcome.get("error")
            if not isinstance(problem, dict):
                if not item.future.done():
                    item.future.set_result(outcome)
                continue
            item_wait = self._wait_of(item, problem)
            if item_wait is not None:
                wait = max(wait, item_wait)
                again.append(item)
        self._waiting.extendleft(reversed(again))
        return wait

    def _wait_of(self, item: Item, problem: Problem) -> Optional[float]:
        """The time to wait before the item is sent again; None: it was rejected."""
        verdict = item_verdict(problem)
        assert verdict.error
        if verdict.kind == "refused" or (verdict.kind == "unknown" and not item.repeatable):
            item.reject(verdict.error)
            return None
        if item.adapt and item.adapt(item, problem):
            return 0
        if verdict.kind == "unknown":
            item.unknown = verdict.error
        wait = max(backoff_ms(item.tries), verdict.after_ms)
        item.tries += 1
        if now_ms() + wait <= item.since + item.retry_for_ms:
            return wait
        item.reject(item.unknown or verdict.error)
        return None
