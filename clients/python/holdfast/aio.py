# SPDX-License-Identifier: Apache-2.0
"""The client for asyncio. ``holdfast.Client`` is the same for programs without an event loop."""
from __future__ import annotations

import asyncio
import functools
import os
import secrets
import ssl
from types import TracebackType
from typing import Any, Awaitable, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type, Union

from . import _json, _requests
from ._batcher import Batcher, Item, Outcome
from ._http import Address
from ._transport import Call, Options, Reply, Token, Transport
from .errors import AbortedError, HoldfastError, Problem, ProblemError, UnknownOutcomeError, problem_error
from .trace import Tracing
from .types import (Enqueued, Job, JobList, JobView, LeaseLike, LeaseReply, Moved, NewJob, SetKey, Time, claimed_jobs)

URL_DEFAULT = "http://127.0.0.1:8000"
ENQUEUE_BATCHERS_MAX = 1000


class _Session:
    """What belongs to one event loop of one process."""

    def __init__(self, options: Options, address: Address) -> None:
        self.loop = asyncio.get_running_loop()
        self.pid = os.getpid()
        self.transport = Transport(options, address)
        self.enqueues: Dict[str, Batcher] = {}
        self.reports: Dict[str, Batcher] = {}

    def ended(self) -> bool:
        """Whether its event loop has ended, so that another one may take its place."""
        return self.pid != os.getpid() or not self.loop.is_running()


# Sessions of a parent process: closing them would disturb the sockets and the event loop that the parent still uses.
_inherited: List[_Session] = []


class AsyncClient:
    """
    A client for one event loop at a time.

    ``url``: ``http://host:port``, ``https://…`` or ``unix:/path``; default: HOLDFAST_SERVER, or http://127.0.0.1:8000; then
    ``token`` and ``tls`` default to HOLDFAST_TOKEN and HOLDFAST_CACERT. ``token``: the access token, or a function that returns
    the current one. ``timeout_ms``: the time for one attempt of a request. ``retry_for_ms``: how long a request that may be
    repeated is repeated; 0: never. ``idempotency_keys``: each enqueue gets a random key, so that it can be repeated.
    ``parse_float``: how numbers with a fraction are read, such as ``decimal.Decimal``. ``on_retry`` is called before each
    repetition.
    """

    def __init__(self, url: Optional[str] = None, *, token: Token = None, timeout_ms: float = 30_000,
                 retry_for_ms: float = 30_000, idempotency_keys: bool = True,
                 parse_float: Optional[Callable[[str], Any]] = None, tracing: Optional[Tracing] = None,
                 tls: Optional[ssl.SSLContext] = None,
                 on_retry: Optional[Callable[[HoldfastError], None]] = None) -> None:
        if url is None:
            url = os.environ.get("HOLDFAST_SERVER") or URL_DEFAULT
            token = token if token is not None else os.environ.get("HOLDFAST_TOKEN") or None
            cacert = os.environ.get("HOLDFAST_CACERT")
            tls = tls or (ssl.create_default_context(cafile=cacert) if cacert else None)
        self._address = Address(url)
        self._tracing = tracing or Tracing()
        self.options = Options(self._address.url, token, timeout_ms, retry_for_ms, idempotency_keys, parse_float,
                               self._tracing, tls, on_retry)
        self._session: Optional[_Session] = None
        self._closed = False

    @classmethod
    def from_options(cls, options: Options) -> AsyncClient:
        """Another client with the same options."""
        return cls(options.url, token=options.token, timeout_ms=options.timeout_ms, retry_for_ms=options.retry_for_ms,
                   idempotency_keys=options.idempotency_keys, parse_float=options.parse_float, tracing=options.tracing,
                   tls=options.tls, on_retry=options.on_retry)

    @property
    def url(self) -> str:
        return self._address.url

    @property
    def closed(self) -> bool:
        return self._closed

    async def close(self) -> None:
        """Ends all requests; later ones fail."""
        self._abort()
        await asyncio.sleep(0)  # the connections close in the next step of the event loop

    def _abort(self) -> None:
        self._closed = True
        if self._session and not self._session.ended():
            self._session.transport.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                        trace: Optional[TracebackType]) -> None:
        await self.close()

    # ---- producers ----

    async def enqueue(self, queue: str, payload: Any, *, priority: Union[int, str, None] = None,
                      priority_label: Optional[str] = None, delay_ms: Optional[int] = None, run_at: Time = None,
                      unique: Optional[str] = None, unique_mode: Optional[str] = None,
                      max_attempts: Optional[int] = None, max_crashes: Optional[int] = None,
                      lease_ms: Optional[int] = None, timeout_ms: Optional[int] = None,
                      backoff_ms: Optional[Sequence[int]] = None, backoff: Optional[Mapping[str, Any]] = None,
                      expires_at: Time = None, expires_in_ms: Optional[int] = None, group: Optional[str] = None,
                      correlation_id: Optional[str] = None, kind: Optional[str] = None,
                      headers: Optional[Mapping[str, str]] = None, keys_if_undelivered: Optional[Sequence[Any]] = None,
                      idempotency_key: Optional[str] = None, depends_on: Optional[Sequence[str]] = None,
                      on_dependency_failure: Optional[str] = None, retry_for_ms: Optional[float] = None) -> Enqueued:
        """
        Enqueues a job and returns when it is on disk. Calls of one moment become one request; jobs of one queue keep the order
        of the calls.
        """
        job = NewJob(payload, None, priority, priority_label, delay_ms, run_at, unique, unique_mode, max_attempts,
                     max_crashes, lease_ms, timeout_ms, backoff_ms, backoff, expires_at, expires_in_ms, group,
                     correlation_id, kind, headers, keys_if_undelivered, idempotency_key, depends_on,
                     on_dependency_failure)
        return Enqueued(await self._enqueue_batcher(queue).add(self._item(job, retry_for_ms)))

    async def enqueue_many(self, queue: str, jobs: Iterable[NewJob]) -> List[Union[Enqueued, HoldfastError]]:
        """
        Enqueues jobs, up to 1,000 per request, and returns the outcome of each, in order: a refused job has an error in its
        place, and the others do not depend on it. Jobs that refer to each other (``depends_on=["#0"]``) are one request, all or
        nothing.
        """
        jobs = list(jobs)
        if any(job.queue not in (None, queue) for job in jobs):
            raise ValueError(f"a job is for another queue than {queue}")
        jobs = [job if job.queue is None else _without_queue(job) for job in jobs]
        items = [self._item(job, None) for job in jobs]
        if _requests.refers_within(jobs):
            return list(await self._enqueue_together(queue, items))
        batcher = self._enqueue_batcher(queue)
        outcomes = await asyncio.gather(*[batcher.add(item) for item in items], return_exceptions=True)
        results: List[Union[Enqueued, HoldfastError]] = []
        for outcome in outcomes:
            if isinstance(outcome, BaseException) and not isinstance(outcome, HoldfastError):
                raise outcome
            results.append(outcome if isinstance(outcome, HoldfastError) else Enqueued(outcome))
        return results

    async def _enqueue_together(self, queue: str, items: List[Item]) -> List[Enqueued]:
        """All jobs in one commit; refused as a whole."""
        outcomes = await self._send_jobs(queue, items)
        for outcome in outcomes:
            problem = outcome.get("error")
            if isinstance(problem, dict):
                raise problem_error(problem.get("status", 0), problem)
        return [Enqueued(outcome) for outcome in outcomes]

    def _item(self, job: NewJob, retry_for_ms: Optional[float]) -> Item:
        members = _requests.job_members(job, self._tracing)
        retry_for_ms = self.options.retry_for_ms if retry_for_ms is None else retry_for_ms
        if job.idempotency_key is not None or not self.options.idempotency_keys:
            return Item(_json.dumps(members), retry_for_ms, job.idempotency_key is not None)
        plain = _json.dumps(members)

        # The server remembers a limited number of keys; a job is more important than the possibility to repeat it.
        def adapt(item: Item, problem: Problem) -> bool:
            if problem.get("code") != "keys_full":
                return False
            item.text, item.repeatable, item.adapt = plain, False, None
            return True

        # A key of random bits, and not a number: a forked process must not continue the numbers of its parent.
        keyed = f'{plain[:-1]},"idempotency_key":"{secrets.token_hex(16)}"}}'
        return Item(keyed, retry_for_ms, True, adapt)

    def _enqueue_batcher(self, queue: str) -> Batcher:
        session = self._bound()
        batcher = session.enqueues.get(queue)
        if batcher is None:
            # Programs may use any number of queues, one after the other.
            if len(session.enqueues) >= ENQUEUE_BATCHERS_MAX:
                session.enqueues = {name: other for name, other in session.enqueues.items() if not other.idle}
            batcher = Batcher(lambda items: self._send_jobs(queue, items), session.transport.closing)
            session.enqueues[queue] = batcher
        return batcher

    async def _send_jobs(self, queue: str, items: List[Item]) -> List[Outcome]:
        body = f"[{','.join([item.text for item in items])}]"
        reply = await self._request("POST", _requests.queue_path(queue, "jobs"), _call_of(items, body))
        return _outcomes(reply)

    # ---- jobs ----

    async def get(self, id: Union[str, int]) -> Optional[JobView]:
        """The job, or None if there is no job with this id."""
        try:
            reply = await self._request("GET", _requests.job_path(id), Call(repeatable=True))
        except ProblemError as error:
            if error.code == "not_found":
                return None
            raise
        return JobView(reply.json, functools.partial(str, reply.text))

    async def list(self, *, queue: Optional[str] = None, state: Union[str, Sequence[str], None] = None,
                   kind: Optional[str] = None, group: Optional[str] = None, unique: Optional[str] = None,
                   correlation_id: Optional[str] = None, priority_label: Optional[str] = None,
                   priority_min: Optional[int] = None, priority_max: Optional[int] = None, created_from: Time = None,
                   created_to: Time = None, reason: Optional[str] = None, order: Optional[str] = None,
                   limit: Optional[int] = None, cursor: Optional[str] = None,
                   payload: Optional[bool] = None) -> JobList:
        """A page of jobs; ``cursor`` is the ``next_cursor`` of the page before."""
        options = {name: value for name, value in locals().items() if name != "self"}
        reply = await self._request("GET", f"/v1/jobs{_requests.query(options)}", Call(repeatable=True))
        return JobList(reply.json, reply.text)

    async def cancel(self, id: Union[str, int], *, force: Optional[bool] = None) -> Moved:
        """
        Cancels a job. A running job is told to stop: the reply has ``cancel_requested``, unless ``force`` ends its lease at
        once.
        """
        repeated: List[HoldfastError] = []
        body = _json.dumps(_requests.sent({"force": force}))
        call = Call(body=body, repeatable=True, on_retry=repeated.append)
        try:
            return Moved((await self._request("POST", _requests.job_path(id, "cancel"), call)).json)
        except ProblemError as error:
            # An earlier attempt has cancelled it.
            unknown = any(isinstance(one, UnknownOutcomeError) for one in repeated)
            if not unknown or error.problem.get("state") != "cancelled":
                raise
            known = {name: error.problem[name] for name in ("id", "seq") if name in error.problem}
            return Moved({"id": str(id), **known, "state": "cancelled"})

    async def requeue(self, id: Union[str, int], *, delay_ms: Optional[int] = None) -> Moved:
        """
        Makes a dead, cancelled or scheduled job ready. Not repeated if the outcome is unknown: the job may have run and died
        again.
        """
        body = _json.dumps(_requests.sent({"delay_ms": delay_ms}))
        return Moved((await self._request("POST", _requests.job_path(id, "requeue"), Call(body=body))).json)

    # ---- leases ----

    async def claim(self, queues: Union[str, Sequence[str]], *, count: Optional[int] = None,
                    wait_ms: Optional[int] = None, lease_ms: Optional[int] = None,
                    worker: Optional[str] = None) -> List[Job[Any]]:
        """Claims jobs of a queue, or of several: those with the highest priority first."""
        return await self._claim(queues, Call(), count=count, wait_ms=wait_ms, lease_ms=lease_ms, worker=worker)

    async def _claim(self, queues: Union[str, Sequence[str]], call: Call, **options: Any) -> List[Job[Any]]:
        path, members = _requests.claim_target(queues)
        body = _json.dumps({**_requests.sent(options), **members})
        # A claim whose reply is lost may hold jobs until their leases end; repeating it does no further harm.
        call = call._replace(body=body, repeatable=True, wait_ms=options.get("wait_ms") or 0)
        reply = await self._request("POST", path, call)
        return claimed_jobs(reply.json, reply.text)

    async def ack(self, lease: LeaseLike, result: Any = None, *, enqueues: Iterable[NewJob] = (),
                  sets: Iterable[SetKey] = (), deletes: Iterable[Sequence[Any]] = (),
                  retry_for_ms: Optional[float] = None) -> LeaseReply:
        """
        Reports that the job is done. ``result`` None: no result. Jobs are enqueued, and keys set and deleted, in the commit of
        the ack.
        """
        members = _requests.hand_off_members(enqueues, sets, deletes, self._tracing)
        if result is not None:
            members["result"] = result
        return await self._report("ack", lease, members, retry_for_ms)

    async def fail(self, lease: LeaseLike, error: Optional[str] = None, *, error_type: Optional[str] = None,
                   error_kind: Optional[str] = None, stack: Optional[str] = None, retry: Optional[bool] = None,
                   delay_ms: Optional[int] = None, run_at: Time = None, result: Any = None,
                   retry_for_ms: Optional[float] = None) -> LeaseReply:
        """Reports that the attempt failed; the policy of the queue decides about the next one."""
        members = {"error": error, "error_type": error_type, "error_kind": error_kind, "stack": stack, "retry": retry,
                   "delay_ms": delay_ms, "run_at": run_at, "result": result}
        return await self._report("fail", lease, _requests.sent(members), retry_for_ms)

    async def release(self, lease: LeaseLike, *, reason: Optional[str] = None, error_type: Optional[str] = None,
                      delay_ms: Optional[int] = None, run_at: Time = None,
                      retry_for_ms: Optional[float] = None) -> LeaseReply:
        """Gives the job back; the attempt is not counted."""
        members = {"reason": reason, "error_type": error_type, "delay_ms": delay_ms, "run_at": run_at}
        return await self._report("release", lease, _requests.sent(members), retry_for_ms)

    async def extend(self, lease: LeaseLike, *, lease_ms: Optional[int] = None) -> LeaseReply:
        """Extends the lease, by ``lease_ms`` or by its own length."""
        return await self._lease_call("extend", lease, {"lease_ms": lease_ms})

    async def progress(self, lease: LeaseLike, percent: Optional[float] = None, *, message: Optional[str] = None,
                       data: Any = None, lease_ms: Optional[int] = None) -> LeaseReply:
        """Reports the progress; with ``lease_ms`` it also extends the lease."""
        members = {"percent": percent, "message": message, "data": data, "lease_ms": lease_ms}
        return await self._lease_call("progress", lease, members)

    async def log(self, lease: LeaseLike, lines: Iterable[str]) -> LeaseReply:
        """Adds lines to the log of the job. A repetition after an unknown outcome may add them twice."""
        return await self._lease_call("log", lease, {"lines": list(lines)})

    async def store_step(self, lease: LeaseLike, name: str, result: Any) -> LeaseReply:
        """Stores the result of a step: the claims of later attempts contain it in ``steps``."""
        return await self._store_step(lease, name, result, Call())

    async def _store_step(self, lease: LeaseLike, name: str, result: Any, call: Call) -> LeaseReply:
        body = _json.dumps({"token": lease.token, "result": result})
        path = _requests.step_path(lease.id, name)
        return LeaseReply((await self._request("POST", path, call._replace(body=body, repeatable=True))).json)

    async def _lease_call(self, action: str, lease: LeaseLike, members: Dict[str, Any]) -> LeaseReply:
        body = _json.dumps({"token": lease.token, **_requests.sent(members)})
        reply = await self._request("POST", _requests.job_path(lease.id, action), Call(body=body, repeatable=True))
        return LeaseReply(reply.json)

    async def _report(self, word: str, lease: LeaseLike, members: Dict[str, Any],
                      retry_for_ms: Optional[float]) -> LeaseReply:
        """The reports of one moment are one request. The lease token makes them repeatable."""
        retry_for_ms = self.options.retry_for_ms if retry_for_ms is None else retry_for_ms
        text = _json.dumps({"id": lease.id, "token": lease.token, **members})
        return LeaseReply(await self._report_batcher(word).add(Item(text, retry_for_ms, True)))

    def _report_batcher(self, word: str) -> Batcher:
        session = self._bound()
        batcher = session.reports.get(word)
        if batcher is None:

            async def send(items: List[Item]) -> List[Outcome]:
                body = f'{{"jobs":[{",".join([item.text for item in items])}]}}'
                return _outcomes(await self._request("POST", f"/v1/{word}", _call_of(items, body)))

            batcher = session.reports[word] = Batcher(send, session.transport.closing)
        return batcher

    # ---- everything else ----

    async def request(self, method: str, path: str, body: Any = None, *, repeatable: Optional[bool] = None,
                      headers: Optional[Dict[str, str]] = None) -> Dict[str, Any]:
        """
        Any request of the API. ``body`` None: no body. ``repeatable``: it may be sent again if its outcome is unknown (default:
        GET, PUT and DELETE).
        """
        repeatable = method in ("GET", "PUT", "DELETE") if repeatable is None else repeatable
        text = None if body is None else _json.dumps(body)
        return (await self._request(method, path, Call(body=text, headers=headers, repeatable=repeatable))).json

    def _request(self, method: str, path: str, call: Call) -> Awaitable[Reply]:
        return self._bound().transport.request(method, path, call)

    def _bound(self) -> _Session:
        """The session of the running event loop."""
        session = self._session
        if session and session.loop is asyncio.get_running_loop() and session.pid == os.getpid():
            return session
        if self._closed:
            raise AbortedError("the client is closed")
        if session:
            if not session.ended():
                raise RuntimeError("this client is used in another event loop; each event loop needs its own client")
            _inherited.extend([session] if session.pid != os.getpid() else [])
        self._session = _Session(self.options, self._address)
        return self._session


def _without_queue(job: NewJob) -> NewJob:
    members = dict(vars(job))
    members["queue"] = None
    return NewJob(**members)


def _call_of(items: List[Item], body: str) -> Call:
    repeatable = all(item.repeatable for item in items)
    return Call(body=body, repeatable=repeatable, retry_for_ms=max(item.retry_for_ms for item in items))


def _outcomes(reply: Reply) -> List[Outcome]:
    jobs = reply.json.get("jobs")
    if not isinstance(jobs, list):
        raise HoldfastError("the reply has no member jobs")
    return jobs
