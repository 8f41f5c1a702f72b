#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The Python worker in one process: python3 bench/client_python.py [--jobs N] [--rounds N]. Each round enqueues N jobs in batches and
then processes all of them with one worker whose handler returns at once, as bench/client_js.mjs does; server and client are
processes on this machine, and the server syncs each reply to disk. Prints the median of the rounds in jobs per second, with the range
and the load of the machine. HF_BIN is the server (build/release/holdfast).
"""
import argparse
import asyncio
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(ROOT, "clients/python"))

from holdfast import AsyncClient, Hooks, NewJob, Worker  # noqa: E402

BATCH = 1000


def start(data):
    binary = os.environ.get("HF_BIN") or os.path.join(ROOT, "build/release/holdfast")
    server = subprocess.Popen([binary, "serve", "--listen", "127.0.0.1:0", "--data", data], stdout=subprocess.PIPE,
                              env={**os.environ, "HOLDFAST_LOG_LEVEL": "error"})
    for line in server.stdout:
        found = re.match(rb"listening on (\S+)", line)
        if found:
            return server, found[1].decode()
    raise SystemExit("the server ended before it was ready")


class Done(Hooks):
    def __init__(self, jobs):
        self.open = jobs
        self.ended = asyncio.Event()

    def done(self, job, reply):
        self.open -= 1
        if self.open == 0:
            self.ended.set()


async def in_task(job, ctx):
    return job.payload["n"]


def in_thread(job, ctx):
    return job.payload["n"]


async def measure(url, queue, jobs, handler, options):
    """Enqueues everything, then processes it: jobs per second of both."""
    client = AsyncClient(url)
    begin = time.perf_counter()
    for first in range(0, jobs, BATCH):
        await client.enqueue_many(queue, [NewJob({"n": first + n, "text": "x" * 100}) for n in range(min(BATCH, jobs - first))])
    enqueue = jobs / (time.perf_counter() - begin)
    hooks = Done(jobs)
    worker = Worker(client, hooks=hooks, **options)
    worker.add(queue, handler)
    begin = time.perf_counter()
    async with worker:
        await hooks.ended.wait()
        work = jobs / (time.perf_counter() - begin)
    await client.close()
    return enqueue, work


def figures(values):
    return f"{statistics.median_low(values):>8,.0f} ({min(values):,.0f} to {max(values):,.0f})"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    subjects = {
        "asyncio, concurrency 200, prefetch 800": (in_task, {"concurrency": 200, "prefetch": 800}),
        "asyncio, concurrency 200": (in_task, {"concurrency": 200}),
        "threads, concurrency 10, prefetch 990": (in_thread, {"concurrency": 10, "prefetch": 990}),
        "threads, concurrency 10": (in_thread, {"concurrency": 10}),
    }
    os.makedirs(os.path.join(ROOT, "build"), exist_ok=True)
    data = tempfile.mkdtemp(prefix="client-bench-", dir=os.path.join(ROOT, "build"))
    server, url = start(data)
    try:
        results = {name: [] for name in subjects}
        for n in range(given.rounds):
            for name, (handler, options) in subjects.items():
                results[name].append(asyncio.run(measure(url, f"q{len(results[name])}-{abs(hash(name))}", given.jobs, handler, options)))
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()
        shutil.rmtree(data)
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{given.jobs} jobs, {given.rounds} rounds, jobs per second; load average {load}; Python {sys.version.split()[0]}")
    for name, rounds in results.items():
        enqueue, work = zip(*rounds)
        print(f"{name:<40} enqueue {figures(enqueue):<30} work {figures(work)}")


if __name__ == "__main__":
    main()
