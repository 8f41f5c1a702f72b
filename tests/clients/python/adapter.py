#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""
The adapter of the Python client for tests/clients/conformance, whose README describes commands and events. The handlers are
asynchronous; with --threads they run in threads.
"""
import asyncio
import contextlib
import ctypes
import json
import os
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../clients/python"))

from holdfast import (AsyncClient, FailJob, HoldfastError, Hooks, JobCancelledError, LeaseLostError, Lease, NewJob, RawJson,  # noqa: E402
                      ReleaseJob, Tracing, Worker)

THREADS = "--threads" in sys.argv
_writing = threading.Lock()


def write(message):
    with _writing:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def event(kind, **members):
    write({"event": kind, "at": time.time() * 1000, **members})


def why(reason):
    if isinstance(reason, LeaseLostError):
        return "lease_lost"
    return "cancelled" if isinstance(reason, JobCancelledError) else "worker_stopped"


class AdapterTracing(Tracing):
    traceparent = None
    contexts = {}

    def inject(self, carrier):
        if self.traceparent:
            carrier["traceparent"] = self.traceparent

    def handle(self, carrier, job):
        self.contexts[job.id] = carrier.get("traceparent")
        return contextlib.nullcontext()


class AdapterHooks(Hooks):
    def done(self, job, reply):
        event("ended", job=job.id, how="done")

    def failed(self, job, error, reply):
        event("ended", job=job.id, how="failed")

    def released(self, job, reply):
        event("ended", job=job.id, how="released")

    def cancelled(self, job):
        event("cancelled", job=job.id)

    def lost(self, job, error, late, blocked_ms):
        event("lost", job=job.id, late=late, blocked_ms=blocked_ms)

    def error(self, error, job=None):
        print(type(error).__name__, error, file=sys.stderr)


def block(ms):
    """Keeps the interpreter to itself, so that no other thread runs either."""
    ctypes.PyDLL(None).usleep(int(ms * 1000))


class Stop(Exception):
    """How a handler in a thread ends that was told to stop."""


tracing = AdapterTracing()
holds = {}  # id → lets the handler continue


async def hold_async(job, ctx, ignore_stop, ms):
    resumed = holds[job.id] = asyncio.Event()
    if ms is None:
        event("holding", job=job.id)
    try:
        await asyncio.wait_for(resumed.wait(), None if ms is None else ms / 1000)
    except asyncio.TimeoutError:
        pass
    except asyncio.CancelledError:
        if not ignore_stop:
            raise
    finally:
        holds.pop(job.id, None)


def hold_thread(job, ctx, ignore_stop, ms):
    woken = holds[job.id] = threading.Event()
    ctx.on_stop(woken.set)
    if ms is None:
        event("holding", job=job.id)
    woken.wait(None if ms is None else ms / 1000)
    holds.pop(job.id, None)
    if not ignore_stop:
        ctx.raise_if_stopped()


def throw(name, message):
    raise type(name, (Exception,), {})(message)


def fail(message, options=None):
    options = dict(options or {})
    raise FailJob(message, kind=options.get("error_kind"), retry=options.get("retry"), delay_ms=options.get("delay_ms"))


def release(reason, options=None):
    raise ReleaseJob(reason, delay_ms=(options or {}).get("delay_ms"))


ACTIONS = {
    "note": lambda job, ctx, *words: None,
    "progress": lambda job, ctx, percent, message=None: ctx.progress(percent, message),
    "log": lambda job, ctx, *lines: ctx.log(*lines),
    "block": lambda job, ctx, ms: block(ms),
    "hand_off": lambda job, ctx, queue, payload: ctx.on_ack(enqueues=[NewJob(payload, queue)]),
    "throw": lambda job, ctx, *words: throw(*words),
    "fail": lambda job, ctx, *words: fail(*words),
    "release": lambda job, ctx, *words: release(*words),
}
HOLDS = {"hold": (False, False), "ignore_stop": (True, False), "wait": (False, True)}


def steps(job, ctx):
    """Yields (ignore_stop, ms) of a hold or [name, value] of a step; the value of StopIteration is the result."""
    event("started", job=job.id, attempt=job.attempt, payload_raw=job.payload_text)
    ctx.on_stop(lambda: event("stopped", job=job.id, why=why(ctx.stop_reason)))
    if not isinstance(job.payload, list):
        return job.payload
    result = None
    for name, *words in job.payload:
        if name == "first":
            if job.attempt != 1:
                continue
            name, *words = words
        if name == "return":
            return words[0]
        if name == "trace":
            result = tracing.contexts.get(job.id)
        elif name in HOLDS:
            ignore_stop, timed = HOLDS[name]
            yield ignore_stop, words[0] if timed else None
        elif name == "step":
            result = yield words
        else:
            ACTIONS[name](job, ctx, *words)
    return result


def ran(job, name, value):
    event("step_ran", job=job.id, name=name)
    return value


async def handle_async(job, ctx):
    actions, value = steps(job, ctx), None
    while True:
        try:
            step = actions.send(value)
        except StopIteration as end:
            return end.value
        value = None
        if isinstance(step, tuple):
            await hold_async(job, ctx, *step)
        else:

            async def run():
                return ran(job, *step)

            value = await ctx.step_async(step[0], run)


def handle_thread(job, ctx):
    actions, value = steps(job, ctx), None
    while True:
        try:
            step = actions.send(value)
        except StopIteration as end:
            return end.value
        value = None
        if isinstance(step, tuple):
            hold_thread(job, ctx, *step)
        else:
            value = ctx.step(step[0], lambda: ran(job, *step))


def view(job):
    return job and {**job.raw, "payload_raw": job.payload_text}


def error_of(error):
    return {"code": getattr(error, "code", "none"), "class": type(error).__name__, "message": str(error)}


def outcome(one):
    return {"error": error_of(one)} if isinstance(one, HoldfastError) else one.raw


class Adapter:
    def __init__(self):
        self.client = None
        self.workers = {}

    async def open(self, url, token=None, options=None):
        self.client = AsyncClient(url, token=token, tracing=tracing, on_retry=lambda error: print(error, file=sys.stderr), **(options or {}))

    async def close(self):
        await self.client.close()

    async def enqueue(self, queue, payload=None, payload_raw=None, options=None):
        value = RawJson(payload_raw) if payload_raw is not None else payload
        return (await self.client.enqueue(queue, value, **(options or {}))).raw

    async def enqueue_many(self, queue, jobs):
        return [outcome(one) for one in await self.client.enqueue_many(queue, [NewJob(**job) for job in jobs])]

    async def get(self, id):
        return view(await self.client.get(id))

    async def list(self, **options):
        page = await self.client.list(**options)
        return {"jobs": [view(job) for job in page.jobs], "next_cursor": page.next_cursor}

    async def cancel(self, id, force=None):
        return (await self.client.cancel(id, force=force)).raw

    async def requeue(self, id, delay_ms=None):
        return (await self.client.requeue(id, delay_ms=delay_ms)).raw

    async def claim(self, queue=None, queues=None, **options):
        return [view(job) for job in await self.client.claim(queues or queue, **options)]

    async def report(self, word, id, token, **members):
        return (await getattr(self.client, word)(Lease(id, token), **members)).raw

    async def step(self, id, token, name, result=None):
        return (await self.client.store_step(Lease(id, token), name, result)).raw

    async def worker(self, worker, queue=None, queues=None, options=None):
        made = Worker(self.client, hooks=AdapterHooks(), **(options or {}))
        for name in queues or [queue]:
            made.add(name, handle_thread if THREADS else handle_async)
        self.workers[worker] = made
        await made.__aenter__()

    async def stop(self, worker, timeout_ms=None, drain=False):
        await self.workers[worker].stop_async(timeout_ms=timeout_ms, drain=drain)

    async def resume(self, job):
        holds[job].set()

    async def trace(self, traceparent):
        tracing.traceparent = traceparent

    async def carry_out(self, seq, do, **members):
        reports = ("ack", "fail", "release", "extend", "progress", "log")
        try:
            value = await (self.report(do, **members) if do in reports else getattr(self, do)(**members))
            write({"seq": seq, "ok": value})
        except Exception as error:
            write({"seq": seq, "error": error_of(error)})


async def main():
    adapter = Adapter()
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(unhandled)
    reader = asyncio.StreamReader(limit=2**26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks = set()
    rest = b""
    while True:
        chunk = await reader.read(2**20)
        if not chunk:
            break
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            tasks.add(loop.create_task(adapter.carry_out(**json.loads(line))))
    for worker in adapter.workers.values():
        await worker.stop_async(timeout_ms=0)
    if adapter.client:
        await adapter.client.close()


def unhandled(loop, context):
    """A task whose error no one has seen is an error of the client."""
    loop.default_exception_handler(context)
    os._exit(3)


asyncio.run(main())
