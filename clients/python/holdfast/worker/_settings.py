# SPDX-License-Identifier: Apache-2.0
"""What a worker was created with: its options, and the handlers of its queues."""
from __future__ import annotations

import inspect
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, List, Optional, Union

from .._transport import Options
from ..errors import ReleaseJob
from ..trace import Tracing
from ..types import Job
from ._context import Context
from ._hooks import Hooks

HELD_MAX = 1000
NO_HANDLER_MS = 10_000
"""A job for which this worker has no handler is given back for this time: other workers may have one."""


class Handler:
    """A function for the jobs of a queue, or for those of one kind."""

    def __init__(self, function: Callable[[Any, Context], Any], decode: Optional[Callable[[Any], Any]],
                 tracing: Tracing) -> None:
        try:
            inspect.signature(function).bind(None, None)
        except ValueError:  # a function of C says nothing about its arguments
            pass
        except TypeError as error:
            raise TypeError(f"a handler takes the job and its context: {error}") from None
        self._function = function
        self._decode = decode
        self._tracing = tracing
        # Also an object whose __call__ is a coroutine function.
        called = getattr(type(function), "__call__", None)
        self.asynchronous = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)

    def run(self, job: Job[Any], context: Context) -> Any:
        with self._tracing.handle(job.raw.get("headers") or {}, job):
            result = self._function(self._decoded(job), context)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError("the handler returned an awaitable; declare it with async def")
        return result

    async def run_async(self, job: Job[Any], context: Context) -> Any:
        try:
            with self._tracing.handle(job.raw.get("headers") or {}, job):
                return await self._function(self._decoded(job), context)
        except SystemExit as error:
            # In a task it would end the event loop.
            raise RuntimeError(f"the handler raised SystemExit({error.code!r})") from error

    def _decoded(self, job: Job[Any]) -> Job[Any]:
        if self._decode:
            job.payload = self._decode(job.payload)
        return job


@dataclass
class Settings:
    options: Options
    concurrency: int = 1
    prefetch: int = 0
    lease_ms: Optional[int] = None
    wait_ms: int = 30_000
    hooks: Hooks = field(default_factory=Hooks)
    handlers: Dict[str, Dict[Optional[str], Handler]] = field(default_factory=dict)

    def check(self) -> None:
        _whole("concurrency", self.concurrency, 1)
        _whole("prefetch", self.prefetch, 0)
        held = self.concurrency + self.prefetch
        if held > HELD_MAX:
            raise ValueError(f"concurrency and prefetch are {held} together; at most {HELD_MAX} jobs can be held, "
                             "use several workers for more")

    @property
    def queues(self) -> Union[str, List[str]]:
        names = list(self.handlers)
        return names[0] if len(names) == 1 else names

    def handler_of(self, job: Job[Any]) -> Union[Handler, Exception]:
        kinds, kind = self.handlers[job.raw["queue"]], job.raw.get("kind")
        handler = kinds.get(kind) or kinds.get(None)
        return handler or ReleaseJob(f"this worker has no handler for the kind {kind!r}", delay_ms=NO_HANDLER_MS)


def _whole(name: str, value: int, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} is {value!r}; it must be a whole number from {least}")
