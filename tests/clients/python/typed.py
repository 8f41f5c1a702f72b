# SPDX-License-Identifier: Apache-2.0
"""What mypy must know about the client. A comment `type: ignore` that is not needed is an error, so each one is a test as well."""
from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional, Union

import holdfast
from holdfast import AsyncClient, Client, Context, Enqueued, HoldfastError, Job, JobView, NewJob, Worker


@dataclass
class Mail:
    to: str


def blocking(client: Client) -> None:
    job: Enqueued = client.enqueue("mail", Mail("ann"), priority="high", delay_ms=5)
    view: Optional[JobView] = client.get(job.id)
    many: List[Union[Enqueued, HoldfastError]] = client.enqueue_many("mail", [NewJob(1), NewJob(2, unique="u")])
    client.enqueue("mail", 1, priorty="high")  # type: ignore[call-arg]
    client.enqueue("mail", 1, delay_ms="5")  # type: ignore[arg-type]
    client.get()  # type: ignore[call-arg]
    print(view, many)


async def asynchronous(client: AsyncClient) -> None:
    job: Enqueued = await client.enqueue("mail", 1)
    text: str = job.nothing  # type: ignore[attr-defined]
    print(text)


worker = Worker("http://127.0.0.1:8000", concurrency=5)


@worker.job("mail", payload=Mail)
def send(job: Job[Mail], ctx: Context) -> str:
    ctx.progress(50)
    paid: int = ctx.step("pay", lambda: 5)
    print(paid)
    return job.payload.to


@worker.job("other", payload=Mail)  # type: ignore[arg-type]
def wrong(job: Job[int], ctx: Context) -> None: ...


@worker.job("any")
async def anything(job: Job[Mail], ctx: Context) -> None: ...


error: Exception = holdfast.FailJob("no", retry=False, kind="business")
