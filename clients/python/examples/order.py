# SPDX-License-Identifier: Apache-2.0
"""
An order as a saga: reserve, pay, ship. Each step is a job that the ack of the step before enqueues in its own commit, so no step
is lost or started twice. If a step cannot succeed, it enqueues what undoes the steps before it.

    HOLDFAST_SERVER=http://127.0.0.1:8000 python3 order.py
"""
import asyncio
from dataclasses import dataclass, replace
from typing import Dict, List

from holdfast import AsyncClient, Context, Job, NewJob, Worker


@dataclass
class Order:
    number: int
    item: str
    card: str
    reason: str = ""


STOCK: Dict[str, int] = {"book": 2, "lamp": 0}
EVENTS: Dict[int, List[str]] = {1: [], 2: [], 3: []}


def queue(step: str) -> str:
    return f"order-example-{step}"


def follow(ctx: Context, step: str, order: Order) -> None:
    """The next step; its unique key keeps a step of an order from existing twice."""
    ctx.on_ack(enqueues=[NewJob(order, queue(step), unique=str(order.number), correlation_id=f"order-{order.number}")])


async def main() -> None:
    client = AsyncClient()
    worker = Worker(client, concurrency=20)

    @worker.job(queue("reserve"), payload=Order)
    async def reserve(job: Job[Order], ctx: Context) -> None:
        order = job.payload
        if STOCK[order.item] == 0:
            follow(ctx, "reject", replace(order, reason="sold out"))
            return
        STOCK[order.item] -= 1
        EVENTS[order.number].append("reserved")
        follow(ctx, "pay", order)

    @worker.job(queue("pay"), payload=Order)
    async def pay(job: Job[Order], ctx: Context) -> None:
        order = job.payload
        if order.card == "expired":
            follow(ctx, "unreserve", replace(order, reason="the card has expired"))
            return
        if job.attempt == 1:
            raise ConnectionError("the bank does not answer")  # tried again after the back-off of the queue
        EVENTS[order.number].append("paid")
        follow(ctx, "ship", order)

    @worker.job(queue("ship"), payload=Order)
    async def ship(job: Job[Order], ctx: Context) -> None:
        EVENTS[job.payload.number].append("shipped")

    @worker.job(queue("unreserve"), payload=Order)
    async def unreserve(job: Job[Order], ctx: Context) -> None:
        STOCK[job.payload.item] += 1
        EVENTS[job.payload.number].append("unreserved")
        follow(ctx, "reject", job.payload)

    @worker.job(queue("reject"), payload=Order)
    async def reject(job: Job[Order], ctx: Context) -> None:
        EVENTS[job.payload.number].append(f"rejected: {job.payload.reason}")

    await client.request("PUT", f"/v1/queues/{queue('pay')}", {"backoff_ms": [10], "max_attempts": 5})
    orders = [Order(1, "book", "valid"), Order(2, "book", "expired"), Order(3, "lamp", "valid")]
    await client.enqueue_many(queue("reserve"), [NewJob(order, unique=str(order.number)) for order in orders])
    async with worker:
        while not all(events and events[-1].startswith(("shipped", "rejected")) for events in EVENTS.values()):
            await asyncio.sleep(0.05)
    await client.close()
    for number, events in EVENTS.items():
        print(f"order {number}: {', '.join(events)}")
    print("done:", STOCK)


if __name__ == "__main__":
    asyncio.run(main())
