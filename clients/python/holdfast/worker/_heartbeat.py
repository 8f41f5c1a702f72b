# SPDX-License-Identifier: Apache-2.0
"""
The heartbeats of a worker, which are of two kinds. A *renewal* gets its reply at once and moves the deadlines of all leases. A
*watch* is held by the server until one of its jobs must stop; it may be abandoned at any time, because the next request asks
the same again. Most jobs end sooner than a watch could tell anything, so it contains only jobs that the worker has held for
COVER_MS.
"""
from __future__ import annotations

import asyncio
import math
from typing import Any, Dict, List, Optional, Protocol, Set

from .. import _json
from .._requests import heartbeat_path
from .._time import Abort, backoff_ms, now_ms, pause
from .._transport import Call
from ..aio import AsyncClient
from ..errors import HoldfastError
from ._held import REPORTING, Held

COVER_MS = 250
PACE_MS = 250
IDLE_MS = 15_000
WATCH_MS_MAX = 30_000


class Holder(Protocol):
    name: str
    done: int
    failed: int

    def renewable(self) -> List[Held]:
        """The jobs whose leases are to be renewed."""

    def cancel_requested(self, held: Held) -> None: ...

    def lease_lost(self, held: Held, error: Optional[HoldfastError] = None) -> None: ...

    def heartbeat_failed(self, error: BaseException) -> None: ...


def _cover_ms(held: Held) -> float:
    return min(COVER_MS, held.lease_ms / 4)


def _watchable(held: Held, now: float) -> bool:
    return held.phase != REPORTING and not held.stop_reason and now - held.since >= _cover_ms(held)


class Heartbeats:
    def __init__(self, client: AsyncClient, holder: Holder, facts: Dict[str, Any]) -> None:
        self._client = client
        self._holder = holder
        self._facts = facts
        self._ending = Abort()
        self._renewed_at = -math.inf
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def end(self, timeout_ms: float) -> None:
        """Ends the heartbeats and tells the server that the worker has stopped."""
        self._ending.abort()
        await asyncio.wait({self._task})
        try:
            await self._send([], {"stopping": True}, Call(timeout_ms=timeout_ms))
        except HoldfastError:
            pass

    async def _run(self) -> None:
        failures = 0
        while not self._ending.aborted:
            try:
                if self._renewal_due() <= now_ms():
                    await self._renew()
                failures = 0
                await self._watch()
            except Exception as error:
                if self._ending.aborted:
                    return
                self._holder.heartbeat_failed(error)
                await pause(backoff_ms(failures, 50, 1000), self._ending)
                failures += 1

    def _renewal_due(self) -> float:
        """A third of each lease may pass before it is renewed; the rest is for renewals that fail."""
        due = self._renewed_at + IDLE_MS
        for held in self._holder.renewable():
            due = min(due, held.renewed_at + held.lease_ms / 3)
        return due

    async def _renew(self) -> None:
        leases = self._holder.renewable()
        sent = now_ms()
        # A connection that hangs must not use up the whole lease.
        shortest = min([IDLE_MS, *(held.lease_ms for held in leases)])
        reply = await self._send(leases, {}, Call(timeout_ms=max(shortest / 2, 1000), abort=self._ending))
        lost = set(reply.get("lost_tokens") or ())
        for held in leases:
            if held.token not in lost:
                held.renewed(sent)
        self._renewed_at = sent
        self._take(leases, reply)

    async def _watch(self) -> None:
        """Waits until a renewal is due, a job must stop, or other jobs are to be watched."""
        begin = now_ms()
        ms = self._renewal_due() - begin
        leases = [held for held in self._holder.renewable() if _watchable(held, begin)]
        limit = Abort()
        self._ending.add(limit.abort)
        checks = asyncio.get_running_loop().create_task(self._check(set(leases), limit))
        try:
            if not leases:
                await pause(ms, limit, self._ending)
                return
            wait_ms = max(1, round(min(ms, WATCH_MS_MAX)))
            reply = await self._send(leases, {"wait_ms": wait_ms}, Call(wait_ms=wait_ms, abort=limit))
            self._take(leases, reply)
            await pause(begin + PACE_MS - now_ms(), limit)
        except Exception:
            if not limit.aborted:
                raise
        finally:
            self._ending.remove(limit.abort)
            checks.cancel()

    async def _check(self, watched: Set[Held], limit: Abort) -> None:
        """Ends a watch that is not the right one any more."""
        while not limit.aborted:
            await asyncio.sleep(min([COVER_MS, *(_cover_ms(held) for held in self._holder.renewable())]) / 1000)
            now = now_ms()
            others = any(held not in watched and _watchable(held, now) for held in self._holder.renewable())
            if others or self._renewal_due() <= now:
                limit.abort()

    def _take(self, leases: List[Held], reply: Dict[str, Any]) -> None:
        cancelled = set(reply.get("cancel_tokens") or ())
        lost = set(reply.get("lost_tokens") or ())
        for held in leases:
            if held.token in lost:
                self._holder.lease_lost(held)
            elif held.token in cancelled:
                self._holder.cancel_requested(held)

    async def _send(self, leases: List[Held], members: Dict[str, Any], call: Call) -> Dict[str, Any]:
        body = _json.dumps({
            **self._facts, "done": self._holder.done, "failed": self._holder.failed,
            "leases": [{"id": held.job.raw["id"], "token": held.token} for held in leases], **members,
        })
        call = call._replace(body=body, repeatable=True, retry_for_ms=0)
        return (await self._client._request("POST", heartbeat_path(self._holder.name), call)).json
