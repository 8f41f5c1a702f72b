# SPDX-License-Identifier: Apache-2.0
"""Every error of this library. A program decides by class or by ``code``, never by the message."""
from __future__ import annotations

from datetime import datetime
from typing import Any, Dict, Optional, Union

Problem = Dict[str, Any]
"""The problem document (RFC 9457) of a refused request; its member ``code`` is stable."""


class HoldfastError(Exception):
    """The base of all errors of this library."""

    code = "error"

    # The arguments of an exception stay those of its constructor, so that it can be pickled.
    @property
    def message(self) -> str:
        return str(self.args[0]) if self.args else ""

    def __str__(self) -> str:
        return self.message


class ProblemError(HoldfastError):
    """The server refused the request; nothing was changed."""

    def __init__(self, status: int, problem: Problem) -> None:
        self.status = status
        self.problem = problem
        self.code = str(problem.get("code", "error"))

    @property
    def message(self) -> str:
        detail = self.problem.get("detail")
        text = f"{self.problem.get('title') or self.code} ({self.status} {self.code})"
        return f"{text}: {detail}" if detail else text


class LeaseLostError(ProblemError):
    """The lease ended: another worker may have the job. The work must stop."""


class JobCancelledError(ProblemError):
    """The job was cancelled, or its cancel was requested. The work must stop."""


class UnknownOutcomeError(HoldfastError):
    """There was no reply, so the request may have taken effect."""

    code = "unknown"


class NoConnectionError(HoldfastError):
    """The server could not be reached; nothing was changed."""

    code = "no_connection"


class AbortedError(HoldfastError):
    """The client was closed, or its caller aborted the request."""

    code = "aborted"


class WorkerStoppedError(HoldfastError):
    """The reason of a stop when the worker ends before the handler."""

    code = "worker_stopped"

    def __init__(self) -> None:
        pass

    @property
    def message(self) -> str:
        return "the worker stops; the job is released"


class PayloadError(HoldfastError):
    """The payload does not have the type that the handler expects. Another attempt is useless."""

    code = "payload"


class FailJob(HoldfastError):
    """
    A handler raises it to say how its attempt failed. Any other exception fails the attempt with the defaults.

    ``kind``: ``business`` means that the request itself is wrong, ``app`` (default) that the program failed. ``retry=False``
    makes the job dead at once. ``delay_ms`` and ``run_at`` replace the back-off of the policy. ``type`` is the class that is
    stored (default: that of ``__cause__``, or FailJob); ``result`` is stored as with an ack.
    """

    code = "failed"

    def __init__(self, message: str = "", *, kind: Optional[str] = None, retry: Optional[bool] = None,
                 delay_ms: Optional[int] = None, run_at: Union[datetime, str, None] = None, type: Optional[str] = None,
                 result: Any = None) -> None:
        self.kind = kind
        self.retry = retry
        self.delay_ms = delay_ms
        self.run_at = run_at
        self.type = type
        self.result = result


class ReleaseJob(HoldfastError):
    """A handler raises it to give its job back. The attempt is not counted."""

    code = "released"

    def __init__(self, reason: str = "", *, delay_ms: Optional[int] = None,
                 run_at: Union[datetime, str, None] = None) -> None:
        self.delay_ms = delay_ms
        self.run_at = run_at


def problem_error(status: int, problem: Problem) -> ProblemError:
    """The error of a refused request, by its code."""
    code = problem.get("code")
    if code in ("lease_lost", "gone"):
        return LeaseLostError(status, problem)
    if code == "cancelled":
        return JobCancelledError(status, problem)
    return ProblemError(status, problem)
