# SPDX-License-Identifier: Apache-2.0
"""The bodies and paths of requests. The only place that knows how options become members of the API."""
from __future__ import annotations

import dataclasses
from typing import Any, Dict, Iterable, List, Mapping, Sequence, Tuple, Union
from urllib.parse import quote

from . import _json
from .trace import Tracing, traced_headers
from .types import NewJob, SetKey

_FIELDS = [field.name for field in dataclasses.fields(NewJob)]
_FIELDS.remove("payload")


def sent(members: Mapping[str, Any]) -> Dict[str, Any]:
    """The members that the caller gave. The server refuses unknown names, so nothing else is sent."""
    return {name: _json.time_text(value) for name, value in members.items() if value is not None}


def job_members(job: NewJob, tracing: Tracing) -> Dict[str, Any]:
    members: Dict[str, Any] = {"payload": job.payload}
    for name in _FIELDS:
        value = getattr(job, name)
        if value is not None:
            members[name] = _json.time_text(value)
    headers = traced_headers(tracing, job.headers)
    if headers is not None:
        members["headers"] = headers
    return members


def hand_off_members(enqueues: Iterable[NewJob], sets: Iterable[SetKey], deletes: Iterable[Sequence[Any]],
                     tracing: Tracing) -> Dict[str, Any]:
    """What takes effect in the commit of an ack."""
    lists: Dict[str, List[Any]] = {
        "enqueues": [job_members(job, tracing) for job in enqueues],
        "sets": [{"value": one.value, **sent({**one._asdict(), "value": None})} for one in sets],
        "deletes": list(deletes),
    }
    return {name: items for name, items in lists.items() if items}


def refers_within(jobs: Sequence[NewJob]) -> bool:
    """Whether jobs refer to others of the same request ("#0"), which must then stay one request."""
    return any(id_.startswith("#") for job in jobs for id_ in job.depends_on or ())


def _encode(part: Union[str, int]) -> str:
    return quote(str(part), safe="")


def queue_path(queue: str, action: str) -> str:
    return f"/v1/queues/{_encode(queue)}/{action}"


def job_path(id_: Union[str, int], action: str = "") -> str:
    return f"/v1/jobs/{_encode(id_)}" + (f"/{action}" if action else "")


def step_path(id_: Union[str, int], name: str) -> str:
    return job_path(id_, f"steps/{_encode(name)}")


def heartbeat_path(worker: str) -> str:
    return f"/v1/workers/{_encode(worker)}/heartbeat"


def query(members: Mapping[str, Any]) -> str:
    parts = [f"{name}={_encode(_query_text(value))}" for name, value in sent(members).items()]
    return "?" + "&".join(parts) if parts else ""


def _query_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return ",".join(str(one) for one in value)
    return str(value)


def claim_target(queues: Union[str, Sequence[str]]) -> Tuple[str, Dict[str, Any]]:
    """The path of a claim, and the members that name its queues."""
    if isinstance(queues, str):
        return queue_path(queues, "claim"), {}
    return "/v1/claim", {"queues": list(queues)}
