# SPDX-License-Identifier: Apache-2.0
"""Objects, threads and files of a worker do not grow with the number of jobs. HF_LEAK_JOBS is the number (5,000)."""
import asyncio
import gc
import os
import threading
import unittest

from holdfast import AsyncClient, FailJob, Hooks, NewJob, Worker
from peers import Server

JOBS = int(os.environ.get("HF_LEAK_JOBS", 5000))
NOISE = 1500
"""Objects more that are no leak: caches, and jobs whose reports are just being processed."""


class Count(Hooks):
    ended = 0

    def done(self, job, reply):
        self.ended += 1

    failed = lambda self, job, error, reply: Count.done(self, job, reply)


async def handle_task(job, ctx):
    ctx.on_stop(lambda: None)
    return handle_thread(job, ctx)


def handle_thread(job, ctx):
    if job.payload["n"] % 500 == 0:
        ctx.progress(50)
    if job.payload["n"] % 500 == 1:
        ctx.log("a line")
    if job.payload["n"] % 100 == 2:
        raise FailJob("no", retry=False)
    return job.payload


class Leaks(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.stop)

    async def process(self, client, hooks, count):
        goal = hooks.ended + count
        for start in range(0, count, 1000):
            await client.enqueue_many("leaks", [NewJob({"n": start + n, "text": "x" * 100}) for n in range(1000)])
            while hooks.ended < goal - count + start + 1000:
                await asyncio.sleep(0.01)

    async def state(self):
        for _ in range(3):
            await asyncio.sleep(0.1)
            gc.collect()
        return len(gc.get_objects()), threading.active_count(), len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())

    async def measure(self, handler):
        hooks = Count()
        async with AsyncClient(self.server.url) as client:
            worker = Worker(client, concurrency=20, prefetch=50, hooks=hooks)
            worker.add("leaks", handler)
            async with worker:
                await self.process(client, hooks, min(JOBS, 3000))
                before = await self.state()
                await self.process(client, hooks, JOBS)
                after = await self.state()
        print(f"# objects {before[0]} → {after[0]}, threads {before[1]} → {after[1]}, files {before[2]} → {after[2]}")
        self.assertLess(after[0] - before[0], NOISE)
        for one, more in zip(before[1:], after[1:]):
            self.assertLessEqual(more, one + 2)

    def test_jobs_of_tasks_leave_nothing_behind(self):
        asyncio.run(self.measure(handle_task))

    def test_jobs_of_threads_leave_nothing_behind(self):
        asyncio.run(self.measure(handle_thread))
