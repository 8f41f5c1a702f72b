# SPDX-License-Identifier: Apache-2.0
"""Workers against the real server: threads, signals, forks, and handlers that do not behave."""
import asyncio
import logging
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from unittest import mock

import holdfast
from holdfast import Client, Hooks, NewJob, Worker
from peers import ROOT, Peer, Server, reply, until


class Recording(Hooks):
    def __init__(self):
        self.calls = []

    def names(self):
        return [name for name, *_ in self.calls]


for _name in ("started", "done", "failed", "released", "cancelled", "lost", "blocked", "ignored", "error"):
    setattr(Recording, _name, lambda self, *args, _name=_name: self.calls.append((_name, *args)))


class Workers(unittest.TestCase):
    queues = 0

    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.stop)
        cls.client = Client(cls.server.url)
        cls.addClassCleanup(cls.client.close)

    def setUp(self):
        Workers.queues += 1
        self.queue = f"q{Workers.queues}"
        self.hooks = Recording()

    def worker(self, handler, **options):
        worker = Worker(self.client, hooks=self.hooks, **options)
        worker.add(self.queue, handler)
        return worker

    def state(self, job, state):
        until(f"{job.id} is {state}", lambda: self.client.get(job.id).state == state)
        return self.client.get(job.id)

    def program(self, source, *words):
        """Starts a Python program; its last argument is the address of the server."""
        env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "clients/python"), "HOLDFAST_SERVER": self.server.url}
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(source), self.queue, *words], env=env, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    # ---- the end of handlers ----

    def test_threads_and_tasks_do_the_same(self):
        async def asynchronous(job, ctx):
            await asyncio.sleep(0)
            return job.payload + 1

        for handler in (lambda job, ctx: job.payload + 1, asynchronous):
            jobs = [self.client.enqueue(self.queue, n) for n in range(30)]
            self.worker(handler, concurrency=5, prefetch=10).run(drain=True)
            self.assertEqual([self.client.get(job.id).result for job in jobs], list(range(1, 31)))

    def test_a_hook_that_raises_affects_nothing_but_the_hook_error(self):
        class Wrong(Hooks):
            seen = []

            def started(self, job):
                raise ValueError("one")

            def done(self, job, reply):
                raise ValueError("two")

            def error(self, error, job=None):
                self.seen.append(str(error))
                raise error

        job = self.client.enqueue(self.queue, 1)
        worker = Worker(self.client, hooks=Wrong())
        worker.add(self.queue, lambda job, ctx: None)
        with self.assertLogs("holdfast", logging.ERROR):
            worker.run(drain=True)
        self.assertEqual((self.client.get(job.id).state, Wrong.seen), ("done", ["one", "two"]))

    def test_what_is_not_an_ordinary_error_fails_the_job_and_nothing_else(self):
        def leave(job, ctx):
            sys.exit(5)

        async def leave_async(job, ctx):
            sys.exit(5)

        async def cancel_itself(job, ctx):
            raise asyncio.CancelledError("why")

        for handler, kind in ((leave, "SystemExit"), (leave_async, "RuntimeError"), (cancel_itself, "CancelledError"),
                              (lambda job, ctx: float("nan"), "ValueError"), (lambda job, ctx: object(), "TypeError"),
                              (lambda job, ctx: leave_async(job, ctx), "TypeError")):
            job = self.client.enqueue(self.queue, 1, max_attempts=1)
            self.worker(handler).run(drain=True)
            view = self.client.get(job.id)
            self.assertEqual((view.state, view.error_type), ("dead", kind))

    def test_a_result_that_is_too_large_fails_the_job(self):
        job = self.client.enqueue(self.queue, 1, max_attempts=1)
        self.worker(lambda job, ctx: "x" * 70_000_000).run(drain=True)
        self.assertEqual(self.client.get(job.id).state, "dead")

    def test_handlers_by_kind(self):
        worker = Worker(self.client, hooks=self.hooks)
        worker.job(self.queue, kind="a")(lambda job, ctx: "a")
        jobs = self.client.enqueue_many(self.queue, [NewJob(1, kind="a"), NewJob(1, kind="b")])
        worker.run(drain=True)
        self.assertEqual([self.client.get(job.id).state for job in jobs], ["done", "scheduled"])
        other = self.worker(lambda job, ctx: job.kind)
        self.assertEqual((other._settings.handler_of(holdfast.Job({"queue": self.queue, "kind": "z"}, 1)).run(holdfast.Job({"kind": "z"}, 1), None)), "z")

    # ---- leases ----

    def test_a_handler_that_blocks_its_thread_keeps_its_lease(self):
        job = self.client.enqueue(self.queue, 1)
        self.worker(lambda job, ctx: time.sleep(6.5), lease_ms=3000).run(drain=True)
        self.assertEqual((self.client.get(job.id).state, self.client.get(job.id).attempts), ("done", 1))

    def test_a_handler_that_blocks_the_event_loop_is_reported(self):
        async def block(job, ctx):
            time.sleep(1.5)

        self.client.enqueue(self.queue, 1)
        self.worker(block).run(drain=True)
        self.assertIn("blocked", self.hooks.names())

    def test_a_cancel_reaches_threads_and_tasks(self):
        def in_thread(job, ctx):
            if ctx.wait(60):
                ctx.raise_if_stopped()

        async def in_task(job, ctx):
            try:
                await asyncio.sleep(60)
            finally:
                reasons.append(type(ctx.stop_reason).__name__)

        for handler in (in_thread, in_task):
            reasons = []
            job = self.client.enqueue(self.queue, 1)
            with self.worker(handler):
                self.state(job, "running")
                self.assertTrue(self.client.cancel(job.id).cancel_requested)
                self.state(job, "cancelled")
        self.assertEqual(reasons, ["JobCancelledError"])

    def test_a_step_does_not_wait_for_a_server_that_is_away_when_the_work_must_stop(self):
        ended = []

        def in_thread(job, ctx):
            try:
                ctx.step("a", lambda: server.kill())
            except holdfast.HoldfastError as error:
                ended.append(type(error).__name__)
                raise

        async def in_task(job, ctx):
            async def kill():
                server.kill()

            try:
                await ctx.step_async("a", kill)
            except (asyncio.CancelledError, holdfast.HoldfastError):
                ended.append(type(ctx.stop_reason).__name__)
                raise

        for handler in (in_thread, in_task):
            server = Server()
            self.addCleanup(server.stop)
            with Client(server.url) as client:
                worker = Worker(client, lease_ms=1000, hooks=self.hooks)
                worker.add("q", handler)
                client.enqueue("q", 1)
                worker.start()
                until("the handler has ended", lambda: ended)
                worker.stop(timeout_ms=0)
            self.assertEqual(ended.pop(), "LeaseLostError")

    # ---- the stop ----

    def test_a_thread_that_ignores_the_stop_does_not_keep_the_worker(self):
        released = threading.Event()
        self.addCleanup(released.set)
        job = self.client.enqueue(self.queue, 1)
        worker = self.worker(lambda job, ctx: released.wait()).start()
        self.state(job, "running")
        until("the handler runs", lambda: "started" in self.hooks.names())
        worker.stop(timeout_ms=0)
        view = self.client.get(job.id)
        self.assertEqual((view.state, view.failures, view.crashes), ("ready", 0, 0))
        [(_, ignored, seconds, where)] = [call for call in self.hooks.calls if call[0] == "ignored"]
        self.assertEqual((ignored.id, seconds), (job.id, 0))
        self.assertIn("released.wait()", where)

    def test_a_task_that_ignores_the_stop_does_not_keep_the_worker(self):
        async def stubborn(job, ctx):
            while True:
                try:
                    await asyncio.sleep(0.1)
                except asyncio.CancelledError:
                    if ctx.stop_reason is None or ended.is_set():
                        raise

        ended = threading.Event()
        job = self.client.enqueue(self.queue, 1)
        worker = self.worker(stubborn).start()
        self.state(job, "running")
        until("the handler runs", lambda: "started" in self.hooks.names())
        threading.Timer(2, ended.set).start()
        worker.stop(timeout_ms=0)
        self.assertEqual(self.client.get(job.id).state, "ready")
        self.assertIn("ignored", self.hooks.names())

    def test_a_handler_that_ignores_a_cancel_is_reported(self):
        released = threading.Event()
        self.addCleanup(released.set)
        job = self.client.enqueue(self.queue, 1)
        with mock.patch("holdfast.worker._engine.IGNORED_S", 0.1), self.worker(lambda job, ctx: released.wait()):
            self.state(job, "running")
            self.client.cancel(job.id)
            until("it is reported twice", lambda: self.hooks.names().count("ignored") >= 2)
            released.set()
            self.state(job, "done")

    def test_forked_processes_start_the_worker_of_their_parent(self):
        names = []
        worker = self.worker(lambda job, ctx: ctx.worker)
        for _ in range(2):
            job = self.client.enqueue(self.queue, 1)
            pid = os.fork()
            if pid == 0:
                try:
                    worker.run(drain=True)
                finally:
                    os._exit(0)
            os.waitpid(pid, 0)
            names.append(self.client.get(job.id).result)
        self.assertEqual(len({worker.name, *names}), 3, names)

    def test_a_worker_whose_claims_do_not_wait_pauses_between_them(self):
        peer = Peer(*[reply(200, '{"jobs":[],"cancel_tokens":[],"lost_tokens":[]}')] * 100)
        self.addCleanup(peer.close)
        with mock.patch("holdfast.worker._engine.EMPTY_MS", 3_600_000):
            worker = Worker(peer.url, wait_ms=0)
            worker.add("q", lambda job, ctx: None)
            with worker:
                until("it has claimed and sent a heartbeat", lambda: len(peer.requests) >= 2)
        claims = [head for head, _ in peer.requests if "/claim " in head]
        self.assertEqual(len(claims), 1)

    def test_a_stop_from_inside(self):
        errors = []

        def handler(job, ctx):
            try:
                worker.stop()
            except RuntimeError as error:
                errors.append(error)
            worker.request_stop()

        self.client.enqueue(self.queue, 1)
        worker = self.worker(handler)
        worker.run()
        self.assertEqual(len(errors), 1)
        worker.stop()  # nothing to do

    def test_a_worker_can_be_started_again(self):
        worker = self.worker(lambda job, ctx: None)
        for _ in range(3):
            job = self.client.enqueue(self.queue, 1)
            with worker:
                self.state(job, "done")
                with self.assertRaises(RuntimeError):
                    worker.start()

    def test_a_cancelled_task_stops_the_worker_at_once(self):
        async def handler(job, ctx):
            await asyncio.sleep(60)

        async def main():
            running = asyncio.ensure_future(self.worker(handler).run_async())
            while self.client.get(job.id).state != "running":
                await asyncio.sleep(0.01)
            running.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await running
            self.assertEqual(self.client.get(job.id).state, "ready")

        job = self.client.enqueue(self.queue, 1)
        asyncio.run(main())

    def test_a_forked_process_does_not_run_the_worker_of_its_parent(self):
        job = self.client.enqueue(self.queue, 1)
        hold = threading.Event()
        with self.worker(lambda job, ctx: hold.wait()) as worker:
            self.state(job, "running")
            pid = os.fork()
            if pid == 0:
                worker.stop()
                worker.request_stop()
                os._exit(7)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)
            self.assertEqual(self.client.get(job.id).state, "running")
            hold.set()
        self.assertEqual(self.client.get(job.id).state, "done")

    SERVICE = """
        import sys, threading, holdfast
        worker = holdfast.Worker()
        @worker.job(sys.argv[1])
        def handler(job, ctx):
            print(job.id, flush=True)
            {body}
        worker.run()
        print("stopped", flush=True)
    """

    def test_a_signal_lets_handlers_finish(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            job = self.client.enqueue(self.queue, 1)
            process = self.program(self.SERVICE.format(body="sys.stdin.read(0); import time; time.sleep(0.5); return 'finished'"))
            process.stdout.readline()
            process.send_signal(number)
            self.assertEqual(process.communicate(timeout=60), ("stopped\n", ""))
            self.assertEqual((process.returncode, self.client.get(job.id).result), (0, "finished"))

    def test_the_second_signal_stops_at_once_and_a_stubborn_thread_does_not_keep_the_process(self):
        job = self.client.enqueue(self.queue, 1)
        process = self.program(self.SERVICE.format(body="threading.Event().wait()"))
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
        self.assertEqual((out, process.returncode), ("stopped\n", 0))
        self.assertIn(f"the handler of job {job.id} continues", errors)
        view = self.client.get(job.id)
        self.assertEqual((view.state, view.failures, view.crashes), ("ready", 0, 0))

    def test_keyboard_interrupt_without_handlers_of_signals_releases_the_jobs(self):
        for run in ("worker.run(signals=())", "import asyncio; asyncio.run(worker.run_async())"):
            job = self.client.enqueue(self.queue, 1)
            process = self.program("""
                import asyncio, sys, holdfast
                worker = holdfast.Worker()
                @worker.job(sys.argv[1])
                async def handler(job, ctx):
                    print(job.id, flush=True)
                    await asyncio.sleep(60)
                %s
            """ % run)
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            out, errors = process.communicate(timeout=60)
            self.assertIn("KeyboardInterrupt", errors)
            self.assertNotIn("never retrieved", errors)
            self.assertEqual(self.client.get(job.id).state, "ready", errors)
            self.client.cancel(job.id)

    def test_calls_that_would_block_the_event_loop_are_refused(self):
        async def handler(job, ctx):
            for call in (lambda: ctx.step("a", lambda: 1), lambda: ctx.wait(0)):
                with self.assertRaisesRegex(RuntimeError, "would block the event loop"):
                    call()
            return "refused"

        job = self.client.enqueue(self.queue, 1)
        self.worker(handler).run(drain=True)
        self.assertEqual(self.client.get(job.id).result, "refused")

    def test_many_long_log_lines(self):
        def handler(job, ctx):
            for n in range(3000):
                ctx.log(f"{n} " + "x" * (2000 if n < 1000 else 0))

        job = self.client.enqueue(self.queue, 1)
        self.worker(handler).run(drain=True)
        lines = self.client.request("GET", f"/v1/jobs/{job.id}/log")["lines"]
        self.assertEqual((lines[-1]["text"], self.hooks.names()), ("2999 ", ["started", "done"]))

    def test_what_cannot_run_says_so(self):
        worker = Worker(self.client)
        with self.assertRaisesRegex(TypeError, "takes the job and its context"):
            worker.job(self.queue)(lambda job: None)
        for call in (worker.run, worker.start):
            with self.assertRaisesRegex(RuntimeError, "no handler"):
                call()
        worker.add(self.queue, lambda job, ctx: None)

        async def nested():
            worker.run()

        with self.assertRaisesRegex(RuntimeError, "run_async"):
            asyncio.run(nested())

    def test_a_program_that_forgets_its_worker_ends(self):
        process = self.program("""
            import sys, holdfast
            client = holdfast.Client()
            worker = holdfast.Worker(client)
            worker.add(sys.argv[1], lambda job, ctx: None)
            worker.start()
            client.enqueue(sys.argv[1], 1)
        """)
        self.assertEqual(process.communicate(timeout=60), ("", ""))
        self.assertEqual(process.returncode, 0)

    # ---- python -m holdfast.worker ----

    def run_module(self, *words, source=None):
        folder = tempfile.TemporaryDirectory(prefix="holdfast-py-")
        self.addCleanup(folder.cleanup)
        with open(os.path.join(folder.name, "tasks.py"), "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(source or ""))
        env = {**os.environ, "PYTHONPATH": os.path.join(ROOT, "clients/python")}
        return subprocess.run([sys.executable, "-m", "holdfast.worker", *words], cwd=folder.name, env=env, capture_output=True, text=True, timeout=60)

    def test_the_module_runs_a_worker(self):
        source = f"""
            import holdfast
            class Deep:
                app = holdfast.Worker("http://127.0.0.1:1", concurrency=1)
            Deep.app.job("{self.queue}")(lambda job, ctx: ctx.worker)
        """
        job = self.client.enqueue(self.queue, 1)
        done = self.run_module("tasks:Deep.app", "--server", self.server.url, "--name", "w-1", "--drain", "--concurrency", "5", source=source)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.client.get(job.id).result, "w-1")

    def test_the_module_says_what_is_wrong(self):
        for words, text in ((["nothing:app"], "nothing"), (["tasks"], "app"), (["tasks:number"], "not a Worker"), (["tasks:app", "--concurrency", "0"], "concurrency"), ([], "usage")):
            done = self.run_module(*words, source="import holdfast\nnumber = 5" if words[:1] != ["tasks:app"] else "import holdfast\napp = holdfast.Worker()")
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertIn(text, done.stderr)
