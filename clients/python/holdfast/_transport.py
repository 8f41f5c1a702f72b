# SPDX-License-Identifier: Apache-2.0
"""
One request and its repetitions. docs/clients.md has the rules: a refusal is never repeated, "nothing was done" always may be,
and an unknown outcome only if the request cannot take effect twice.
"""
from __future__ import annotations

import asyncio
import logging
import re
import ssl
import time
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Callable, Dict, NamedTuple, Optional, Union

from . import _json
from ._http import Address, Connection, Pool, ReplyError, Response
from ._time import Abort, backoff_ms, now_ms, pause
from .errors import AbortedError, HoldfastError, NoConnectionError, Problem, UnknownOutcomeError, problem_error

ACTIVE_MAX = 100
"""Requests on their way at the same time, without those that the server holds."""

Token = Union[str, Callable[[], str], None]


@dataclass
class Options:
    """What a client was created with. A worker creates its own client from those of another."""

    url: str
    token: Token = field(default=None, repr=False)
    timeout_ms: float = 30_000
    retry_for_ms: float = 30_000
    idempotency_keys: bool = True
    parse_float: Optional[Callable[[str], Any]] = None
    tracing: Any = None
    tls: Optional[ssl.SSLContext] = None
    on_retry: Optional[Callable[[HoldfastError], None]] = None


class Reply(NamedTuple):
    status: int
    text: str
    json: Dict[str, Any]


class Call(NamedTuple):
    """How a request is carried out."""

    body: Optional[str] = None
    headers: Optional[Dict[str, str]] = None
    repeatable: bool = False
    """The request has the same effect once or several times."""
    wait_ms: float = 0
    """The time for which the server may hold the request; it is added to the timeout."""
    timeout_ms: Optional[float] = None
    retry_for_ms: Optional[float] = None
    """The time for which repetitions may start; 0: none."""
    abort: Optional[Abort] = None
    on_retry: Optional[Callable[[HoldfastError], None]] = None


class Verdict(NamedTuple):
    """What a reply means."""

    kind: str
    """reply, refused, nothing_done or unknown"""
    reply: Optional[Reply] = None
    error: Optional[HoldfastError] = None
    after_ms: float = 0


class Transport:
    """The requests of one client in one event loop."""

    def __init__(self, options: Options, address: Address) -> None:
        self._options = options
        self._address = address
        self._pool = Pool(address, options.tls)
        self._active = asyncio.Semaphore(ACTIVE_MAX)
        self.closing = Abort()

    def close(self) -> None:
        """Ends all requests; later ones fail."""
        self.closing.abort()
        self._pool.close()

    async def request(self, method: str, path: str, call: Call) -> Reply:
        retry_for_ms = self._options.retry_for_ms if call.retry_for_ms is None else call.retry_for_ms
        until = now_ms() + retry_for_ms
        unknown: Optional[HoldfastError] = None
        n = 0
        while True:
            verdict = await self._once(method, path, call)
            if verdict.reply:
                return verdict.reply
            assert verdict.error
            if verdict.kind == "refused":
                raise verdict.error
            if verdict.kind == "unknown":
                unknown = verdict.error
                if not call.repeatable:
                    raise unknown
            wait = max(backoff_ms(n), verdict.after_ms)
            n += 1
            # An earlier attempt may have taken effect, whatever happened to the last one.
            if now_ms() + wait > until:
                raise unknown or verdict.error
            self._tell(call, verdict.error)
            await pause(wait, self.closing, call.abort)

    def _tell(self, call: Call, error: HoldfastError) -> None:
        for listener in (self._options.on_retry, call.on_retry):
            try:
                if listener:
                    listener(error)
            except Exception:
                logging.getLogger("holdfast").exception("on_retry failed")

    async def _once(self, method: str, path: str, call: Call) -> Verdict:
        self._check_aborted(call)
        if call.wait_ms > 0:
            return await self._attempt(method, path, call)
        async with self._active:
            self._check_aborted(call)
            return await self._attempt(method, path, call)

    async def _attempt(self, method: str, path: str, call: Call) -> Verdict:
        where = f"{method} {path}"
        timeout_ms = (self._options.timeout_ms if call.timeout_ms is None else call.timeout_ms) + call.wait_ms
        try:
            token = self._options.token() if callable(self._options.token) else self._options.token
        except Exception as error:
            text = f"{where}: the access token is not available: {error}"
            return Verdict("nothing_done", error=_caused(NoConnectionError(text), error))
        request = self._request_bytes(method, path, call, token)
        deadline = Deadline(timeout_ms, self.closing, call.abort)
        try:
            connection = self._pool.take_idle() or await deadline.connect(self._pool)
        except (OSError, asyncio.TimeoutError) as error:
            self._check_aborted(call)
            text = f"{where}: no connection to {self._address.url}: {_text_of(error, timeout_ms)}"
            # A certificate does not become better by waiting.
            kind = "refused" if isinstance(error, ssl.SSLCertVerificationError) else "nothing_done"
            return Verdict(kind, error=_caused(NoConnectionError(text), error))
        try:
            response = await deadline.exchange(connection, request)
        except (OSError, ReplyError, asyncio.TimeoutError) as error:
            self._check_aborted(call)
            text = f"{where}: no reply: {_text_of(error, timeout_ms)}"
            return Verdict("unknown", error=_caused(UnknownOutcomeError(text), error))
        self._pool.give_back(connection)
        return verdict_of(response, self._options.parse_float)

    def _check_aborted(self, call: Call) -> None:
        if self.closing.aborted:
            raise AbortedError("the client is closed")
        if call.abort and call.abort.aborted:
            raise AbortedError("the request was aborted")

    def _request_bytes(self, method: str, path: str, call: Call, token: Optional[str]) -> bytes:
        headers = {"Host": self._address.authority, "Accept": "application/json", **(call.headers or {})}
        body = b""
        if call.body is not None:
            body = call.body.encode("utf-8")
            if not any(name.lower() == "content-type" for name in headers):
                headers["Content-Type"] = "application/json"
        if call.body is not None or method != "GET":
            headers["Content-Length"] = str(len(body))
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        for name, value in headers.items():
            # The message does not contain the value, which may be the access token.
            if not re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) or not re.fullmatch(r"[\t\x20-\x7e]*", value):
                raise ValueError(f"the header {name!r} contains characters that HTTP does not allow")
        if not re.fullmatch(r"/[!-~]*", path) or method not in ("GET", "POST", "PUT", "PATCH", "DELETE"):
            raise ValueError(f"not a request of the API: {method} {path!r}; a path begins with / and is percent-encoded")
        lines = [f"{method} {self._address.base}{path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join(lines).encode("ascii") + b"\r\n\r\n" + body


class Deadline:
    """The time of one attempt: it ends with a timeout or when a signal aborts."""

    def __init__(self, timeout_ms: float, *aborts: Optional[Abort]) -> None:
        self._loop = asyncio.get_running_loop()
        self._at = self._loop.time() + timeout_ms / 1000
        self._aborts = [abort for abort in aborts if abort]
        self._over = False

    async def connect(self, pool: Pool) -> Connection:
        task = self._loop.create_task(pool.connect())

        def end() -> None:
            self._over = True
            task.cancel()

        timer = self._begin(end)
        try:
            return await task
        except asyncio.CancelledError:
            if task.done() and not task.cancelled() and not task.exception():
                task.result().abort()
            if self._over:
                raise asyncio.TimeoutError() from None
            raise
        finally:
            self._end(timer, end)

    async def exchange(self, connection: Connection, request: bytes) -> Response:
        def end() -> None:
            self._over = True
            connection.abort()

        timer = self._begin(end)
        try:
            return await connection.exchange(request)
        except OSError:
            if self._over:
                raise asyncio.TimeoutError() from None
            raise
        finally:
            self._end(timer, end)

    def _begin(self, end: Callable[[], None]) -> asyncio.TimerHandle:
        for abort in self._aborts:
            abort.add(end)
        return self._loop.call_at(self._at, end)

    def _end(self, timer: asyncio.TimerHandle, end: Callable[[], None]) -> None:
        timer.cancel()
        for abort in self._aborts:
            abort.remove(end)


def _caused(error: HoldfastError, cause: BaseException) -> HoldfastError:
    error.__cause__ = cause
    return error


def _text_of(error: BaseException, timeout_ms: float) -> str:
    timeout = f"nothing came within {timeout_ms:.0f} ms"
    return str(error) or (timeout if isinstance(error, asyncio.TimeoutError) else type(error).__name__)


def _object_of(text: str, numbers: _json.Numbers) -> Optional[Dict[str, Any]]:
    try:
        value = _json.loads(text, numbers)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _retry_after_ms(headers: Dict[str, str], problem: Optional[Problem]) -> float:
    given = problem.get("retry_after_ms") if problem else None
    if isinstance(given, (int, float)):
        return given
    text = headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", text):
        return int(text) * 1000
    try:
        return max(0.0, (parsedate_to_datetime(text).timestamp() - time.time()) * 1000)
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0


def verdict_of(response: Response, numbers: _json.Numbers = None) -> Verdict:
    """What a reply means."""
    status = response.status
    try:
        text = response.body.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
        json_ = None
    else:
        json_ = {} if text == "" else _object_of(text, numbers)
    if 200 <= status < 300:
        if json_ is not None:
            return Verdict("reply", Reply(status, text, json_))
        return Verdict("unknown", error=UnknownOutcomeError(f"the reply ({status}) is not JSON"))
    own = json_ if json_ and isinstance(json_.get("code"), str) else None
    title = "The server redirects; give its final address" if 300 <= status < 400 else "A reply that is not from Holdfast"
    error = problem_error(status, own or {"code": f"http_{status}", "title": title})
    after_ms = _retry_after_ms(response.headers, own)
    if status in (408, 429) or (status == 503 and own):
        return Verdict("nothing_done", error=error, after_ms=after_ms)
    # Only Holdfast itself promises that nothing was done; a proxy may say 503 after it has passed the request on.
    if status == 504 or (not own and status in (500, 502, 503)):
        return Verdict("unknown", error=_caused(UnknownOutcomeError(str(error)), error), after_ms=after_ms)
    return Verdict("refused", error=error)


def item_verdict(problem: Problem) -> Verdict:
    """What the problem of one job of many means: the same as that of a whole request."""
    status = problem.get("status", 500)
    error = problem_error(status, problem)
    after_ms = problem.get("retry_after_ms", 0)
    if status in (429, 503):
        return Verdict("nothing_done", error=error, after_ms=after_ms)
    if status == 504:
        return Verdict("unknown", error=_caused(UnknownOutcomeError(str(error)), error), after_ms=after_ms)
    return Verdict("refused", error=error, after_ms=after_ms)
