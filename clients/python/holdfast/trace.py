# SPDX-License-Identifier: Apache-2.0
"""
Trace context (W3C) without a dependency. A handler runs in the trace of its job, and the jobs that it enqueues belong to the
same trace. A tracing library takes over with an object of the class ``Tracing``; README.md shows OpenTelemetry.
"""
from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import Any, ContextManager, Dict, Iterator, Mapping, Optional

Carrier = Dict[str, str]
"""Holds ``traceparent`` and ``tracestate``."""

_HEADERS = ("traceparent", "tracestate")
_current: ContextVar[Optional[Carrier]] = ContextVar("holdfast_trace", default=None)


class Tracing:
    """How trace context gets into jobs and from jobs into handlers. This class passes it on unchanged."""

    def inject(self, carrier: Carrier) -> None:
        """Writes the current trace context into the carrier; called for each enqueue."""
        carrier.update(_current.get() or {})

    def handle(self, carrier: Mapping[str, str], job: Any) -> ContextManager[Any]:
        """A context manager in which the handler of the job runs."""
        return context(carrier)


@contextlib.contextmanager
def context(carrier: Mapping[str, str]) -> Iterator[None]:
    """Enqueues in this block get the trace context of the carrier."""
    token = _current.set({name: carrier[name] for name in _HEADERS if name in carrier} or None)
    try:
        yield
    finally:
        try:
            _current.reset(token)
        except ValueError:  # the handler ends with its event loop, outside its context
            pass


def current() -> Optional[str]:
    """The ``traceparent`` of the current trace context."""
    return (_current.get() or {}).get("traceparent")


def traced_headers(tracing: Tracing, own: Optional[Mapping[str, str]]) -> Optional[Dict[str, str]]:
    """The headers of a job with the current trace context, which a job that has its own does not get."""
    given = dict(own) if own is not None else None
    if given and "traceparent" in given:
        return given
    carrier: Carrier = {}
    tracing.inject(carrier)
    if not carrier.get("traceparent"):
        return given
    return {**{name: carrier[name] for name in _HEADERS if carrier.get(name)}, **(given or {})}
