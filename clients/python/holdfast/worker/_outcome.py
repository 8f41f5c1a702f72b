# SPDX-License-Identifier: Apache-2.0
"""What the end of a handler means for its job. No I/O."""
from __future__ import annotations

import traceback
from typing import Any, Dict, NamedTuple

from .._requests import sent
from ..errors import FailJob, PayloadError, ReleaseJob

STACK_MAX = 16 * 1024
ERROR_MAX = 8 * 1024
TYPE_MAX = 128


class Ending(NamedTuple):
    word: str
    """fail or release"""
    report: Dict[str, Any]


def ending_of(error: BaseException) -> Ending:
    """What to report when the handler raised this."""
    if isinstance(error, ReleaseJob):
        members = {"reason": _cut(error.message, ERROR_MAX) or None, "delay_ms": error.delay_ms, "run_at": error.run_at}
        return Ending("release", sent(members))
    report: Dict[str, Any] = {"error": _cut(_text(error), ERROR_MAX), "error_type": _cut(_class(error), TYPE_MAX),
                              "stack": _stack(error)}
    if isinstance(error, PayloadError):
        report.update(retry=False, error_kind="business")
    if isinstance(error, FailJob):
        cause = error.__cause__
        kind = error.type or (_class(cause) if cause else None)
        report.update(sent({"error_type": kind and _cut(kind, TYPE_MAX), "error_kind": error.kind, "retry": error.retry,
                            "delay_ms": error.delay_ms, "run_at": error.run_at, "result": error.result}))
    return Ending("fail", report)


def _class(error: BaseException) -> str:
    return type(error).__name__


def _text(error: BaseException) -> str:
    try:
        return str(error) or _class(error)
    except Exception:
        return _class(error)


def _stack(error: BaseException) -> str:
    """The traceback with its causes. If it is too long, its end, which has the place of the error."""
    try:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    except Exception:
        return _class(error)
    return _cut(text[-STACK_MAX:], STACK_MAX, from_end=True)


def _cut(text: str, most: int, from_end: bool = False) -> str:
    """At most this number of bytes; what is not valid UTF-8 is replaced."""
    data = text.encode("utf-8", "replace")
    if len(data) > most:
        data = data[-most:] if from_end else data[:most]
    return data.decode("utf-8", "ignore")
