# SPDX-License-Identifier: Apache-2.0
"""What a worker reports to its program."""
from __future__ import annotations

import inspect
import logging
from typing import Any, Optional, Union

from ..errors import JobCancelledError, LeaseLostError
from ..types import Job, LeaseReply

logger = logging.getLogger("holdfast")


class Hooks:
    """
    A program overrides what it wants to know. The methods run in the event loop of the worker, so they must not block; what they
    raise is logged and does not affect the worker.
    """

    def started(self, job: Job[Any]) -> None:
        """A handler starts."""

    def done(self, job: Job[Any], reply: LeaseReply) -> None:
        """The job is done."""

    def failed(self, job: Job[Any], error: BaseException, reply: LeaseReply) -> None:
        """The attempt failed; ``reply.state`` says what follows: scheduled, ready or dead."""

    def released(self, job: Job[Any], reply: LeaseReply) -> None:
        """The job was given back."""

    def cancelled(self, job: Job[Any]) -> None:
        """The job was cancelled, or its cancel was requested and the worker has released it."""

    def lost(self, job: Job[Any], error: Union[LeaseLostError, JobCancelledError], late: bool, blocked_ms: int) -> None:
        """
        The lease ended while this worker had the job. ``late``: the report came after the end, and the work may be done twice;
        ``blocked_ms``: the longest time for which the event loop was blocked since the claim, which is the usual cause.
        """
        logger.warning("job %s: %s; the event loop was blocked for up to %d ms", job.id, error, blocked_ms)

    def blocked(self, ms: int) -> None:
        """The event loop was blocked for this time: no lease was renewed."""
        logger.warning("the event loop of the worker was blocked for %d ms; blocking work belongs into a def handler", ms)

    def ignored(self, job: Job[Any], seconds: float, where: str) -> None:
        """A handler continues although it was told to stop this long ago. ``where`` shows what it is doing."""
        logger.error("the handler of job %s continues %d s after it was told to stop\n%s", job.id, seconds, where)

    def error(self, error: BaseException, job: Optional[Job[Any]] = None) -> None:
        """Something failed that the worker repeats: a claim, a heartbeat, a report."""
        logger.warning("%s%s: %s", f"job {job.id}: " if job else "", type(error).__name__, error)


def call_hook(hooks: Hooks, name: str, *args: Any) -> None:
    """Calls a hook; what it raises goes to the hook ``error``, and what that raises to the log."""
    try:
        returned = getattr(hooks, name)(*args)
        if inspect.iscoroutine(returned):
            returned.close()
            raise TypeError(f"the hook `{name}` is an async def; hooks are ordinary functions")
    except Exception as error:
        if name == "error":
            logger.exception("the hook `error` failed")
        else:
            call_hook(hooks, "error", error)
