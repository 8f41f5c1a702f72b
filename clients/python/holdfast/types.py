# SPDX-License-Identifier: Apache-2.0
"""What the API takes and returns, with the names of the API. docs/api.md explains every member."""
from __future__ import annotations

import functools
from dataclasses import dataclass
from datetime import datetime
from typing import (TYPE_CHECKING, Any, Callable, Dict, FrozenSet, Generic, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Type,
                    TypeVar, Union)

from . import _json

P = TypeVar("P")
Time = Union[datetime, str, None]


@dataclass
class NewJob:
    """
    A job to enqueue. ``queue`` is needed only where jobs of several queues are enqueued together (``ctx.on_ack``). Other
    members are those of the API; None leaves a member out.
    """

    payload: Any
    queue: Optional[str] = None
    priority: Union[int, str, None] = None
    priority_label: Optional[str] = None
    delay_ms: Optional[int] = None
    run_at: Time = None
    unique: Optional[str] = None
    unique_mode: Optional[str] = None
    max_attempts: Optional[int] = None
    max_crashes: Optional[int] = None
    lease_ms: Optional[int] = None
    timeout_ms: Optional[int] = None
    backoff_ms: Optional[Sequence[int]] = None
    backoff: Optional[Mapping[str, Any]] = None
    expires_at: Time = None
    expires_in_ms: Optional[int] = None
    group: Optional[str] = None
    correlation_id: Optional[str] = None
    kind: Optional[str] = None
    headers: Optional[Mapping[str, str]] = None
    keys_if_undelivered: Optional[Sequence[Any]] = None
    idempotency_key: Optional[str] = None
    """Default: a random key, so that a repeated request enqueues once."""
    depends_on: Optional[Sequence[str]] = None
    on_dependency_failure: Optional[str] = None


class SetKey(NamedTuple):
    """A key to set in the commit of an ack."""

    key: Sequence[Any]
    value: Any = None
    expires_in_ms: Optional[int] = None
    expires_at: Time = None


class Lease(NamedTuple):
    """What proves a lease: the id of a job and the lease token of a claim. A claimed job has both as well."""

    id: str
    token: str


class LeaseLike(Protocol):
    """A claimed job, or a Lease."""

    @property
    def id(self) -> str: ...

    @property
    def token(self) -> str: ...


class View:
    """
    An object of a reply. Its members are attributes: None if the reply does not have a member that this class declares.
    ``raw`` has all members, also those that this version does not know.
    """

    __slots__ = ("raw",)
    raw: Dict[str, Any]

    def __init__(self, raw: Dict[str, Any]) -> None:
        self.raw = raw

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            if name.startswith("_") or name == "raw":
                raise AttributeError(name)
            try:
                return self.raw[name]
            except KeyError:
                if name in _declared(type(self)):
                    return None
                raise AttributeError(f"{type(self).__name__} has no member {name}") from None

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, View) and other.raw == self.raw

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.raw!r})"


@functools.lru_cache(maxsize=None)
def _declared(kind: Type[View]) -> FrozenSet[str]:
    """The members that a class of views declares. Python 3.14 does not keep annotations among the attributes of a class."""
    return frozenset(name for one in kind.__mro__ if issubclass(one, View) for name in getattr(one, "__annotations__", {}))


class Enqueued(View):
    """The outcome of an enqueue."""

    __slots__ = ()
    id: str
    seq: int
    state: str
    created: bool
    """False: the job existed (``unique_mode="return"``, or an idempotency key that was used before)."""
    run_at: Optional[str]
    duplicate_of: Optional[str]
    replaced: Optional[int]
    """The sequence number of the job that ``unique_mode="replace"`` cancelled."""
    spooled: Optional[bool]
    durability: Optional[str]


class LeaseReply(View):
    """The reply to ack, fail, release, extend, progress, log and store_step."""

    __slots__ = ()
    id: str
    seq: int
    state: str
    repeat: Optional[bool]
    """The call was accepted before."""
    run_at: Optional[str]
    lease_until: Optional[str]
    cancel: Optional[bool]
    """The cancel of the job is requested: stop the work."""
    cancel_deadline: Optional[str]


class Moved(View):
    """The reply to cancel and requeue."""

    __slots__ = ()
    id: str
    seq: int
    state: str
    cancel_requested: Optional[bool]
    cancel_deadline: Optional[str]


class Texts:
    """The text of a reply, which is divided when someone asks for the text of a payload."""

    __slots__ = ("_text", "_items")

    def __init__(self, text: str) -> None:
        self._text = text
        self._items: Optional[List[str]] = None

    def item(self, index: int) -> str:
        if self._items is None:
            self._items = _json.elements(_json.members(self._text)["jobs"])
            self._text = ""  # the items are copies
        return self._items[index]


class Job(View, Generic[P]):
    """A claimed job: the lease token proves that this program holds it."""

    __slots__ = ("payload", "_texts", "_index")
    id: str
    seq: int
    queue: str
    token: str
    """The lease token of this claim."""
    attempt: int
    max_attempts: int
    priority: int
    lease_ms: int
    lease_until: str
    created_at: str
    kind: Optional[str]
    headers: Optional[Dict[str, str]]
    group: Optional[str]
    correlation_id: Optional[str]
    priority_label: Optional[str]
    timeout_ms: Optional[int]
    steps: Optional[Dict[str, Any]]
    """The results of steps that earlier attempts completed."""
    payload: P

    def __init__(self, raw: Dict[str, Any], payload: P, texts: Optional[Texts] = None, index: int = 0) -> None:
        self.raw = raw
        self.payload = payload
        self._texts = texts
        self._index = index

    @property
    def payload_text(self) -> Optional[str]:
        """The payload as the producer sent it, byte for byte; None if it is not JSON."""
        if self._texts is None:
            return None
        return _json.members(self._texts.item(self._index)).get("payload")


class JobView(View):
    """A job as GET /v1/jobs/{id} shows it."""

    __slots__ = ("payload", "_text")
    id: str
    seq: int
    queue: str
    state: str
    payload: Any
    result: Any
    reason: Optional[str]
    priority: int
    attempts: int
    failures: int
    crashes: int
    created_at: str
    state_since: Optional[str]
    run_at: Optional[str]
    error: Optional[str]
    error_kind: Optional[str]
    error_type: Optional[str]
    stack: Optional[str]
    kind: Optional[str]
    headers: Optional[Dict[str, str]]
    group: Optional[str]
    correlation_id: Optional[str]
    progress: Optional[Dict[str, Any]]
    history: Optional[List[Dict[str, Any]]]
    lease_until: Optional[str]
    cancel_requested_at: Optional[str]
    cancel_deadline: Optional[str]

    def __init__(self, raw: Dict[str, Any], text: Callable[[], str]) -> None:
        self.raw = raw
        self.payload = _json.payload_of(raw)
        self._text = text

    @property
    def payload_text(self) -> Optional[str]:
        """The payload as the server stores it; None if it is not JSON."""
        return _json.members(self._text()).get("payload")

    @property
    def result_text(self) -> Optional[str]:
        """The result as the server stores it."""
        return _json.members(self._text()).get("result")


class JobList(View):
    """A page of GET /v1/jobs."""

    __slots__ = ("jobs",)
    next_cursor: Optional[str]
    """Where the next page begins; None: this is the last one."""

    def __init__(self, raw: Dict[str, Any], text: str) -> None:
        self.raw = raw
        texts = Texts(text)
        self.jobs: List[JobView] = [JobView(job, functools.partial(texts.item, index)) for index, job in enumerate(raw["jobs"])]


def claimed_jobs(raw: Dict[str, Any], text: str) -> List[Job[Any]]:
    """The jobs of a claim."""
    texts = Texts(text)
    return [Job(job, _json.payload_of(job), texts, index) for index, job in enumerate(raw["jobs"])]
