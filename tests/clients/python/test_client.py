# SPDX-License-Identifier: Apache-2.0
"""The clients against peers that misbehave, and against the real server: what the conformance cases cannot say."""
import asyncio
import gc
import json
import os
import shutil
import signal
import ssl
import subprocess
import tempfile
import threading
import unittest
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import holdfast
import holdfast.testing
from holdfast import AbortedError, AsyncClient, Client, NewJob, NoConnectionError, ProblemError, UnknownOutcomeError
from peers import BINARY, Peer, Server, reply, until


class WithPeer(unittest.TestCase):
    def peer(self, *acts, **options):
        peer = Peer(*acts, **options)
        self.addCleanup(peer.close)
        return peer

    def client(self, peer, **options):
        client = Client(peer.url, **{"retry_for_ms": 0, **options})
        self.addCleanup(client.close)
        return client


class Connections(WithPeer):
    def test_a_connection_is_used_again(self):
        peer = self.peer(reply(200), reply(200))
        client = self.client(peer)
        client.request("GET", "/a")
        client.request("POST", "/b?c=d", {"e": "ä"})
        self.assertEqual(peer.connections, 1)
        self.assertEqual(peer.requests[1][1], '{"e":"ä"}'.encode())
        self.assertTrue(peer.requests[1][0].startswith("POST /b?c=d HTTP/1.1\r\n"))

    def test_a_half_closed_connection_is_not_used_again(self):
        peer = self.peer((reply(200), "half"), reply(200))
        client = self.client(peer)
        client.request("POST", "/a")
        until("the client has closed it", lambda: not client._client._session.transport._pool._idle or
              not client._client._session.transport._pool._idle[0].usable)
        client.request("POST", "/b")
        self.assertEqual(peer.connections, 2)

    def test_bytes_that_no_request_asked_for_are_not_taken_for_a_reply(self):
        peer = self.peer(reply(200, '{"n":1}') + reply(200, '{"n":"wrong"}'), reply(200, '{"n":2}'))
        client = self.client(peer)
        self.assertEqual([client.request("POST", "/a")["n"], client.request("POST", "/a")["n"]], [1, 2])

    def test_a_reply_that_breaks_off_is_an_unknown_outcome(self):
        for act in ((reply(200)[:-1], "close"), "close", "reset", (b"", "close"), (b"nonsense\r\n\r\n", "close")):
            with self.subTest(act):
                peer = self.peer(act)
                with self.assertRaises(UnknownOutcomeError):
                    self.client(peer).request("POST", "/a")
                self.assertEqual(len(peer.requests), 1)

    def test_it_is_repeated_if_the_request_is_repeatable(self):
        peer = self.peer("reset", "close", reply(503, '{"code":"unavailable"}'), reply(200, '{"n":1}'))
        seen = []
        client = self.client(peer, retry_for_ms=60_000, on_retry=lambda error: seen.append(error.code))
        self.assertEqual(client.request("GET", "/a"), {"n": 1})
        self.assertEqual(seen, ["unknown", "unknown", "unavailable"])

    def test_an_unknown_outcome_stays_unknown_whatever_follows(self):
        peer = self.peer("close", reply(429, '{"code":"rate_limited"}'), reply(429, '{"code":"rate_limited","retry_after_ms":3600000}'))
        with self.assertRaises(UnknownOutcomeError):
            self.client(peer, retry_for_ms=60_000).request("GET", "/a")

    def test_a_timeout_is_an_unknown_outcome(self):
        peer = self.peer("hang", reply(200))
        client = self.client(peer, timeout_ms=200)
        with self.assertRaisesRegex(UnknownOutcomeError, "nothing came within 200 ms"):
            client.request("POST", "/a")
        client.request("POST", "/b")
        self.assertEqual(peer.connections, 2)

    def test_a_token_that_is_not_available_for_a_time(self):
        peer = self.peer(reply(200, '{"n":1}'))
        tokens = iter([OSError("secret.txt"), "good"])

        def token():
            one = next(tokens)
            if isinstance(one, Exception):
                raise one
            return one

        client = self.client(peer, token=token, retry_for_ms=60_000, on_retry=lambda error: 1 / 0)
        with self.assertLogs("holdfast", "ERROR"):
            self.assertEqual(client.request("POST", "/a"), {"n": 1})

    def test_a_reply_before_the_end_of_the_request(self):
        peer = self.peer()
        peer.early = reply(413, '{"code":"too_large"}')
        client = self.client(peer)
        for _ in range(2):
            with self.assertRaises(ProblemError) as raised:
                client.request("POST", "/a", "x" * 20_000_000)
            self.assertEqual(raised.exception.code, "too_large")
        self.assertEqual(peer.connections, 2)

    def test_a_redirect_is_not_followed(self):
        peer = self.peer(reply(302, "", "Location: http://127.0.0.1:1/\r\n"))
        with self.assertRaises(ProblemError) as raised:
            self.client(peer).request("GET", "/a")
        self.assertEqual(raised.exception.code, "http_302")

    def test_paths_and_headers_cannot_contain_other_requests(self):
        client = self.client(self.peer())
        for path, headers in (("/a b", {}), ("a", {}), ("/a\r\nX: y", {}), ("/ä", {}), ("/a", {"X": "y\r\nZ: z"}), ("/a", {"X y": "z"})):
            with self.assertRaises(ValueError, msg=(path, headers)):
                client.request("GET", path, headers=headers)

    def test_a_base_path_and_the_token(self):
        peer = self.peer(reply(200))
        with Client(f"{peer.url}/base/", token=lambda: "secret") as client:
            client.request("GET", "/v1/server")
        self.assertIn("GET /base/v1/server HTTP/1.1", peer.requests[0][0])
        self.assertIn("Authorization: Bearer secret", peer.requests[0][0])

    def test_a_certificate_that_is_not_valid_is_not_tried_again(self):
        folder = tempfile.mkdtemp(prefix="holdfast-py-")
        self.addCleanup(shutil.rmtree, folder)
        files = [os.path.join(folder, name) for name in ("cert", "key")]
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=x",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-out", files[0], "-keyout", files[1]], check=True, capture_output=True)
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*files)
        peer = self.peer(reply(200, '{"n":1}'), reply(200, '{"n":2}'), tls=tls)
        url = peer.url.replace("http:", "https:")
        with Client(url, tls=ssl.create_default_context(cafile=files[0])) as client:
            self.assertEqual([client.request("GET", "/a")["n"], client.request("GET", "/a")["n"]], [1, 2])
        with Client(url, retry_for_ms=3_600_000) as client, self.assertRaisesRegex(NoConnectionError, "certificate"):
            client.get(1)


class Interruptions(WithPeer):
    def test_keyboard_interrupt_ends_a_call_and_not_the_client(self):
        peer = self.peer("hang", reply(200, '{"n":1}'))
        client = self.client(peer)
        old = signal.signal(signal.SIGALRM, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGALRM, old)
        threading.Thread(target=lambda: (until("it was sent", lambda: peer.requests), signal.pthread_kill(main, signal.SIGALRM))).start()
        main = threading.get_ident()
        with self.assertRaises(KeyboardInterrupt):
            client.request("POST", "/a")
        self.assertEqual(client.request("POST", "/b"), {"n": 1})

    def test_close_ends_calls_of_other_threads(self):
        peer = self.peer("hang", "hang")
        client = self.client(peer)
        with ThreadPoolExecutor() as pool:
            calls = [pool.submit(client.request, "GET", "/a"), pool.submit(client.enqueue, "q", 1)]
            until("both were sent", lambda: len(peer.requests) == 2)
            client.close()
            for call in calls:
                self.assertIsInstance(call.exception(), AbortedError)
        with self.assertRaises(AbortedError):
            client.get(1)
        client.close()

    def test_a_client_that_is_dropped_ends_its_thread(self):
        peer = self.peer(reply(200))
        client = Client(peer.url)
        client.request("GET", "/a")
        thread = client._thread.thread
        del client
        gc.collect()
        thread.join(30)
        self.assertFalse(thread.is_alive())

    def test_a_cancelled_task_ends_its_request(self):
        peer = self.peer("hang", reply(201, '{"jobs":[{"id":"b"}]}'))

        async def main():
            async with AsyncClient(peer.url) as client:
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(client.get(1), 0.1)
                # One that has not been sent is not sent any more.
                first, second = asyncio.ensure_future(client.enqueue("q", 1)), asyncio.ensure_future(client.enqueue("q", 2))
                await asyncio.sleep(0)
                first.cancel()
                self.assertEqual((await second).id, "b")
                self.assertTrue(first.cancelled())

        asyncio.run(main())
        self.assertEqual([job["payload"] for job in json.loads(peer.requests[1][1])], [2])

    def test_one_client_in_one_event_loop_after_the_other(self):
        peer = self.peer(reply(200), reply(200))
        client = AsyncClient(peer.url, retry_for_ms=0)

        async def call():
            await client.request("GET", "/a")
            client._session.transport.close()  # the loop ends with open connections otherwise

        asyncio.run(call())
        asyncio.run(call())

        async def outer():
            client._bound()
            with ThreadPoolExecutor() as pool:
                wrong = await asyncio.get_running_loop().run_in_executor(pool, lambda: asyncio.run(self.bound(client)))
            self.assertIsInstance(wrong, RuntimeError)

        asyncio.run(outer())

    async def bound(self, client):
        try:
            client._bound()
        except RuntimeError as error:
            return error


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.addClassCleanup(cls.server.stop)
        cls.client = Client(cls.server.url)
        cls.addClassCleanup(cls.client.close)

    def test_calls_of_threads_are_batched_and_all_answered(self):
        with ThreadPoolExecutor(50) as pool:
            jobs = list(pool.map(lambda n: self.client.enqueue("threads", n), range(500)))
        self.assertEqual(len({job.id for job in jobs}), 500)
        self.assertEqual(self.client.request("GET", "/v1/queues/threads")["counts"]["ready"], 500)

    def test_many_requests_at_the_same_time(self):
        async def main():
            async with AsyncClient(self.server.url) as client:
                job = await client.enqueue("many", 1)
                views = await asyncio.gather(*(client.get(job.id) for _ in range(500)))
                self.assertEqual({view.id for view in views}, {job.id})

        asyncio.run(main())

    def test_large_payloads(self):
        text = "ä" * 500_000
        job = self.client.enqueue("large", text)
        self.assertEqual(self.client.get(job.id).payload, text)
        [claimed] = self.client.claim("large")
        self.assertEqual(claimed.payload_text, json.dumps(text, ensure_ascii=False))
        with self.assertRaises(ProblemError) as raised:
            self.client.ack(claimed, "x" * 80_000_000)
        self.assertEqual(raised.exception.status, 413)
        self.assertEqual(self.client.ack(claimed).state, "done")

    def test_payloads_that_are_not_json(self):
        for kind, body in (("application/octet-stream", b"\xff\0\1"), ("text/plain", b"no json")):
            request = urllib.request.Request(f"{self.server.url}/v1/queues/bytes/jobs", body, {"Content-Type": kind})
            urllib.request.urlopen(request).close()
        data, text = self.client.claim("bytes", count=2)
        self.assertEqual([(data.payload, data.payload_text), (text.payload, text.payload_text)], [(b"\xff\0\1", None), ("no json", None)])
        self.assertEqual(self.client.get(data.id).payload, b"\xff\0\1")

    def test_payloads_that_utf_8_cannot_hold_are_refused(self):
        with self.assertRaises(ValueError):
            self.client.enqueue("bytes", "\ud800")
        self.assertEqual(self.client.enqueue("surrogates", 1).created, True)

    def test_one_item_that_is_not_valid_does_not_affect_the_others_of_its_request(self):
        deep = json.loads("[" * 200 + "]" * 200)
        outcomes = self.client.enqueue_many("poison", [NewJob(n) for n in range(5)] + [NewJob(deep)] + [NewJob(n) for n in range(5)])
        self.assertEqual([n for n, outcome in enumerate(outcomes) if isinstance(outcome, ProblemError)], [5])
        self.assertEqual(self.client.request("GET", "/v1/queues/poison")["counts"]["ready"], 10)

        async def main():
            async with AsyncClient(self.server.url) as client:
                calls = (client.enqueue("poison", value) for value in ("a", "\ud800", "b", object(), float("nan")))
                return await asyncio.gather(*calls, return_exceptions=True)

        self.assertEqual([isinstance(outcome, Exception) for outcome in asyncio.run(main())], [False, True, False, True, True])

    def test_jobs_that_refer_to_each_other(self):
        first, second = self.client.enqueue_many("depend", [NewJob(1), NewJob(2, depends_on=["#0"])])
        self.assertEqual((first.state, second.state), ("ready", "blocked"))
        with self.assertRaises(ProblemError):
            self.client.enqueue_many("depend", [NewJob(1, max_attempts=-1), NewJob(2, depends_on=["#0"])])

    def test_a_forked_process_has_its_own_connection(self):
        self.client.enqueue("forks", "before")
        read, write = os.pipe()
        children = []
        for n in range(3):
            pid = os.fork()
            if pid == 0:
                try:
                    ids = [self.client.enqueue("forks", [n, i]).created for i in range(5)]
                    os.write(write, b"+" if all(ids) else b"-")
                except BaseException as error:
                    os.write(write, repr(error).encode())
                finally:
                    os._exit(0)
            children.append(pid)
        created = [self.client.enqueue("forks", n).created for n in range(5)]
        for pid in children:
            os.waitpid(pid, 0)
        os.close(write)
        with os.fdopen(read, "rb") as answers:
            self.assertEqual(answers.read(), b"+++")
        self.assertEqual(created, [True] * 5)
        self.assertEqual(self.client.request("GET", "/v1/queues/forks")["counts"]["ready"], 21)

    def test_a_unix_socket(self):
        folder = tempfile.mkdtemp(prefix="holdfast-py-")
        self.addCleanup(os.rmdir, folder)
        other = Server(f"unix:{folder}/socket")
        with Client(f"unix:{folder}/socket", retry_for_ms=0) as client:
            self.assertTrue(client.enqueue("q", 1).created)
            other.stop()
            with self.assertRaises(NoConnectionError):
                client.enqueue("q", 1)

    def test_a_server_that_restarts(self):
        server = Server()
        with Client(server.url) as client:
            job = client.enqueue("q", 1)
            client.cancel(job.id)
            server.kill()
            threading.Timer(0.3, server.start).start()
            self.assertTrue(client.enqueue("q", 2).created)
            server.kill()
            idle = client._client._session.transport._pool._idle
            until("the client has noticed it", lambda: not any(connection.usable for connection in idle))
            server.start()
            # Not repeatable, over a connection that has ended with the first server.
            self.assertEqual(client.requeue(job.id).state, "ready")
        server.stop()


class TestServer(unittest.TestCase):
    def test_its_clock_moves_only_on_request_and_nothing_stays_behind(self):
        with holdfast.testing.server(binary=BINARY) as server:
            begin = server.now()
            client = server.client()
            job = client.enqueue("later", 1, delay_ms=90_000)
            self.assertEqual((server.advance("1m") - begin).total_seconds(), 60)
            self.assertEqual(client.get(job.id).state, "scheduled")
            server.advance("30s")
            self.assertEqual(client.get(job.id).state, "ready")
        with Client(server.url, retry_for_ms=0) as client, self.assertRaises(NoConnectionError):
            client.get(1)
        with self.assertRaises(AbortedError):
            server.advance(1)

    def test_a_forked_process_does_not_end_it(self):
        with holdfast.testing.server(binary=BINARY) as server:
            pid = os.fork()
            if pid == 0:
                server._end()
                os._exit(0)
            os.waitpid(pid, 0)
            server.now()

    def test_a_program_that_is_missing_or_fails_is_an_error_with_a_reason(self):
        with self.assertRaisesRegex(RuntimeError, "cannot be started"):
            holdfast.testing.server(binary="/nonexistent/holdfast")
        with self.assertRaisesRegex(RuntimeError, "(?s)ended before it was ready.*no-such-option"):
            holdfast.testing.server(binary=BINARY, args=["--no-such-option"])
