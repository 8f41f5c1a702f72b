# SPDX-License-Identifier: Apache-2.0
"""The parts of the Python client that need no server."""
import asyncio
import contextlib
import copy
import dataclasses
import enum
import json
import pickle
import random
import time
import unittest
import uuid
from datetime import datetime, timezone
from decimal import Decimal
from typing import Any, Dict, List, Literal, Optional, Tuple, Union

import holdfast
from holdfast import _json
from holdfast._http import Address, ReplyError, ReplyParser, Response
from holdfast._requests import hand_off_members, job_members, query
from holdfast._time import Abort, backoff_ms, now_ms, pause
from holdfast._transport import verdict_of
from holdfast.payloads import decoder
from holdfast.testing import duration_ms
from holdfast.trace import context, current, traced_headers
from holdfast.types import Enqueued, Job, NewJob, SetKey
from holdfast.worker._held import RUNNING, Held
from holdfast.worker._lag import LagMonitor
from holdfast.worker._outcome import ending_of


@dataclasses.dataclass
class Inner:
    n: int


class Colour(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Everything:
    text: str
    number: float
    inner: Inner
    many: List[Inner]
    by_name: Dict[str, Inner]
    pair: Tuple[int, str]
    maybe: Optional[Inner] = None
    colour: Colour = Colour.RED
    at: Optional[datetime] = None
    price: Optional[Decimal] = None
    id: Optional[uuid.UUID] = None
    level: Literal["high", "low"] = "low"
    either: Union[int, str, None] = None
    anything: Any = None
    labels: List[str] = dataclasses.field(default_factory=list)


class Json(unittest.TestCase):
    def test_values_that_json_does_not_know(self):
        value = {"raw": [holdfast.RawJson("1.10")], "d": Decimal("0.10"), "at": datetime(1970, 1, 1, tzinfo=timezone.utc), "c": Colour.RED,
                 "id": uuid.UUID(int=1), "inner": Inner(2**70)}
        self.assertEqual(_json.dumps(value), '{"raw":[1.10],"d":0.10,"at":"1970-01-01T00:00:00.000Z","c":"red",'
                         '"id":"00000000-0000-0000-0000-000000000001","inner":{"n":1180591620717411303424}}')
        self.assertEqual(_json.dumps(holdfast.RawJson("[1,  2]")), "[1,  2]")
        self.assertEqual(_json.dumps("ä\u2028"), '"ä\u2028"')

    def test_what_is_not_json_is_refused(self):
        loop = []
        loop.append(loop)
        for value in (float("nan"), Decimal("inf"), loop, b"x", {1, 2}, object(), {(1, 2): 3}):
            with self.assertRaises((TypeError, ValueError), msg=repr(value)):
                _json.dumps(value)
        for text in ("{", "NaN", "", "1 2"):
            with self.assertRaises(ValueError):
                holdfast.RawJson(text)

    def test_a_payload_cannot_contain_the_mark_of_a_raw_text(self):
        text = _json.dumps(["raw-0", holdfast.RawJson("1"), '"raw-00000000000000000000000000000000-0"'])
        self.assertEqual(json.loads(text), ["raw-0", 1, '"raw-00000000000000000000000000000000-0"'])

    def test_numbers_are_exact(self):
        self.assertEqual(_json.loads("[12345678901234567890, 0.10]", Decimal), [12345678901234567890, Decimal("0.10")])
        # Python refuses integers with more than 4300 digits; the others of a reply can still be used.
        huge = "1" * 5000
        value = _json.loads(f'{{"jobs":[{{"id":"a","payload":{huge}}},{{"id":"b","payload":[1]}}]}}')
        if not isinstance(value["jobs"][0]["payload"], int):
            self.assertEqual(value["jobs"][0]["payload"].text, huge)
        self.assertEqual(value["jobs"][1], {"id": "b", "payload": [1]})
        self.assertEqual(holdfast.RawJson(huge).text, huge)

    def test_the_texts_of_members_are_those_of_the_reply(self):
        text = ' { "a" : [1, {"x":"}\\""}] ,"b":"\\\\","c":-1.5e3 , "d":{}, "e":[ ] }'
        self.assertEqual(_json.members(text), {"a": '[1, {"x":"}\\""}]', "b": '"\\\\"', "c": "-1.5e3", "d": "{}", "e": "[ ]"})
        self.assertEqual(_json.elements('[ 1 ,"a]", [2,[3]], {"b":[4]},null]'), ["1", '"a]"', "[2,[3]]", '{"b":[4]}', "null"])
        self.assertEqual(_json.elements("[]"), [])
        self.assertEqual(_json.members('{"a:,":{"b":":"}}'), {"a:,": '{"b":":"}'})

    def test_random_json_is_divided_as_json_loads_does(self):
        rand = random.Random(7)

        def value(depth):
            kind = rand.randrange(4 if depth > 4 else 6)
            if kind == 4:
                return [value(depth + 1) for _ in range(rand.randrange(4))]
            if kind == 5:
                return {f'k{i}"\\': value(depth + 1) for i in range(rand.randrange(4))}
            return [None, rand.random(), "".join(chr(rand.randrange(32, 127)) for _ in range(5)), True][kind]

        for _ in range(300):
            whole = {"a": value(0), "b": value(0)}
            for indent in (None, 2):
                parts = _json.members(json.dumps(whole, indent=indent))
                self.assertEqual({name: json.loads(part) for name, part in parts.items()}, whole)


class Payloads(unittest.TestCase):
    def test_a_dataclass_with_everything(self):
        raw = {"text": "a", "number": 1, "inner": {"n": 1, "unknown": 5}, "many": [{"n": 2}], "by_name": {"x": {"n": 3}}, "pair": [1, "b"],
               "maybe": {"n": 4}, "colour": "red", "at": "2026-01-02T03:04:05Z", "price": "0.10",
               "id": "00000000-0000-0000-0000-000000000001", "level": "high", "either": "x", "anything": [1], "labels": ["l"]}
        value = decoder(Everything)(raw)
        self.assertEqual(value, Everything("a", 1.0, Inner(1), [Inner(2)], {"x": Inner(3)}, (1, "b"), Inner(4), Colour.RED,
                                           datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc), Decimal("0.10"), uuid.UUID(int=1), "high",
                                           "x", [1], ["l"]))
        self.assertEqual(decoder(Everything)(json.loads(_json.dumps(value))), value)

    def test_what_is_wrong_is_said(self):
        good = {"text": "a", "number": 1.5, "inner": {"n": 1}, "many": [], "by_name": {}, "pair": [1, "b"]}
        decode = decoder(Everything)
        for change, message in [({"text": 5}, "payload.text is of the type int; expected: str"), ({"inner": {}}, "payload.inner.n is missing"),
                                ({"many": [{"n": "x"}]}, "payload.many[0].n is of the type str; expected: int"), ({"pair": [1]}, "a list of 2"),
                                ({"colour": "blue"}, "blue"), ({"level": "mid"}, "'mid'; expected: 'high' or 'low'"), ({"at": "soon"}, "payload.at"),
                                ({"inner": {"n": True}}, "payload.inner.n is of the type bool"), ({"maybe": 5}, "payload.maybe is of the type int"),
                                ({"price": "x"}, "payload.price"), ({"number": None}, "payload.number is null")]:
            with self.assertRaises(holdfast.PayloadError) as raised:
                decode({**good, **change})
            self.assertIn(message, str(raised.exception))
        for value in (None, [], "x"):
            with self.assertRaises(holdfast.PayloadError):
                decode(value)

    def test_other_types(self):
        self.assertEqual(decoder(List[int])([1]), [1])
        self.assertEqual(decoder(dict)({"a": 1}), {"a": 1})
        self.assertEqual(decoder(str)("a"), "a")
        with self.assertRaises(TypeError):
            decoder("text")  # type: ignore[arg-type]


class Views(unittest.TestCase):
    def test_members_are_attributes(self):
        view = Enqueued({"id": "a", "new_member": 5})
        self.assertEqual((view.id, view.run_at, view.new_member), ("a", None, 5))
        with self.assertRaises(AttributeError):
            view.nothing
        for same in (copy.deepcopy(view), pickle.loads(pickle.dumps(view))):
            self.assertEqual(same, view)

    def test_errors_can_be_pickled(self):
        for error in (holdfast.ProblemError(409, {"code": "duplicate", "title": "T"}), holdfast.LeaseLostError(409, {"code": "lease_lost"}),
                      holdfast.FailJob("no", retry=False), holdfast.WorkerStoppedError(), holdfast.UnknownOutcomeError("x")):
            same = pickle.loads(pickle.dumps(error))
            self.assertEqual((type(same), str(same), same.code, vars(same)), (type(error), str(error), error.code, vars(error)))


class Requests(unittest.TestCase):
    def test_only_given_members_are_sent(self):
        job = NewJob({"a": None}, run_at=datetime(1970, 1, 1, tzinfo=timezone.utc), delay_ms=0)
        self.assertEqual(job_members(job, holdfast.Tracing()), {"payload": {"a": None}, "run_at": "1970-01-01T00:00:00.000Z", "delay_ms": 0})
        self.assertEqual(hand_off_members([NewJob(1, "q")], [SetKey(["a", 1], None)], [["b"]], holdfast.Tracing()),
                         {"enqueues": [{"payload": 1, "queue": "q"}], "sets": [{"value": None, "key": ["a", 1]}], "deletes": [["b"]]})
        self.assertEqual(query({"state": ["ready", "dead"], "payload": False, "queue": "a b&", "limit": None}), "?state=ready%2Cdead&payload=false&queue=a%20b%26")

    def test_the_trace_context_is_added_unless_the_job_has_its_own(self):
        tracing = holdfast.Tracing()
        self.assertIsNone(traced_headers(tracing, None))
        with context({"traceparent": "t", "tracestate": "s", "other": "o"}):
            self.assertEqual(traced_headers(tracing, {"a": "1"}), {"a": "1", "traceparent": "t", "tracestate": "s"})
            self.assertEqual(traced_headers(tracing, {"traceparent": "own"}), {"traceparent": "own"})
            self.assertEqual(current(), "t")
        self.assertIsNone(current())


class Http(unittest.TestCase):
    def parse(self, *parts):
        parser = ReplyParser()
        for part in parts:
            response = parser.feed(part)
            if response:
                return response
        return parser.end()

    def test_replies_in_any_pieces(self):
        text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: b\r\n\r\nhello"
        whole = Response(200, {"content-length": "5", "x-a": "b"}, b"hello", True)
        self.assertEqual(self.parse(text), whole)
        self.assertEqual(self.parse(*[text[i:i + 1] for i in range(len(text))]), whole)
        chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nTrailer: x\r\n\r\n"
        for pieces in ([chunked], [chunked[i:i + 1] for i in range(len(chunked))]):
            self.assertEqual(self.parse(*pieces)[2:], (b"hello", True))

    def test_which_connections_are_used_again(self):
        for head, reusable in [("HTTP/1.1 200 OK\r\nContent-Length: 0", True), ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close", False),
                               ("HTTP/1.0 200 OK\r\nContent-Length: 0", False), ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive", True),
                               ("HTTP/1.1 204 No Content", True)]:
            self.assertEqual(self.parse(head.encode() + b"\r\n\r\n").reusable, reusable, head)
        # More than the reply: what follows could be taken for the next one.
        self.assertFalse(self.parse(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1 408").reusable)
        self.assertEqual(self.parse(b"HTTP/1.1 200 OK\r\n\r\nuntil", b" the end")[2:], (b"until the end", False))

    def test_what_is_not_a_reply(self):
        for parts in ([b"SSH-2.0-x\r\n\r\n"], [b"HTTP/1.1 abc\r\n\r\n"], [b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n"], [b"x" * 70_000],
                      [b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"], [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel"],
                      [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"], [b""]):
            with self.assertRaises(ReplyError):
                self.parse(*parts)

    def test_addresses(self):
        self.assertEqual(Address("http://h:1/base/").url, "http://h:1/base")
        self.assertEqual((Address("https://h").port, Address("http://[::1]:80").host, Address("unix:/a").socket), (443, "::1", "/a"))
        for url in ("nonsense", "ftp://x", "http://u:p@h", "http://h/?q", "http://h/#f", "unix:", "http://", "http://h\r\nX: y"):
            with self.assertRaises(ValueError, msg=url) as raised:
                holdfast.Client(url)
            self.assertNotIn("u:p", str(raised.exception))

    def test_what_replies_mean(self):
        problem = b'{"code":"queue_full","title":"Full","retry_after_ms":7}'
        for status, body, headers, kind, after in [
                (200, b"{}", {}, "reply", 0), (200, b"", {}, "reply", 0), (200, b"<html>", {}, "unknown", 0), (200, b"[1]", {}, "unknown", 0),
                (200, b"\xff", {}, "unknown", 0), (429, problem, {}, "nothing_done", 7), (429, b"", {"retry-after": "3600"}, "nothing_done", 3_600_000),
                (503, problem, {}, "nothing_done", 7), (503, b"later", {}, "unknown", 0), (502, b"", {}, "unknown", 0), (500, problem, {}, "refused", 0),
                (504, problem, {}, "unknown", 7), (408, b"", {"retry-after": "nonsense"}, "nothing_done", 0), (302, b"", {}, "refused", 0), (422, b"\xff", {}, "refused", 0)]:
            verdict = verdict_of(Response(status, headers, body, True))
            self.assertEqual((verdict.kind, verdict.after_ms), (kind, after), (status, body))
        date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 3600))
        self.assertGreater(verdict_of(Response(503, {"retry-after": date}, b'{"code":"x"}', True)).after_ms, 3_000_000)


class Times(unittest.IsolatedAsyncioTestCase):
    def test_the_pause_doubles_is_random_and_has_a_limit(self):
        self.assertEqual([backoff_ms(n, 100, 5000, lambda: 1) for n in (0, 1, 2, 200)], [100, 200, 400, 5000])
        self.assertEqual(backoff_ms(0, 100, 5000, lambda: 0), 50)

    def test_durations(self):
        self.assertEqual([duration_ms(text) for text in ("7d", "1h30m", "500ms", "1.5s", 20)], [604_800_000, 5_400_000, 500, 1500, 20])
        for wrong in ("", "7", "d", "1x", "1d x"):
            with self.assertRaises(ValueError, msg=wrong):
                duration_ms(wrong)

    async def test_an_abort_ends_pauses(self):
        abort = Abort()
        waiting = asyncio.ensure_future(pause(None, abort))
        await asyncio.sleep(0)
        abort.abort()
        await waiting
        await pause(3_600_000, abort)
        self.assertEqual(len(abort._listeners), 0)

    async def test_a_blocked_event_loop_is_noticed(self):
        begin = now_ms()
        noticed = asyncio.get_running_loop().create_future()
        monitor = LagMonitor(lambda: 100, lambda ms: noticed.done() or noticed.set_result(ms))
        time.sleep(0.6)
        ms = await noticed
        self.assertGreaterEqual(ms, 200)
        self.assertGreaterEqual(monitor.longest_since(begin), int(ms))
        monitor.close()


class Leases(unittest.TestCase):
    def held(self, **members):
        return Held(Job({"token": "t", "lease_ms": 1000, "id": "a", **members}, None), 5000)

    def test_a_lease_is_measured_from_receipt_and_from_the_sending_of_renewals(self):
        held = self.held()
        self.assertEqual(held.deadline, 6000)
        held.renewed(5500)
        self.assertEqual((held.deadline, held.renewed_at), (6500, 5500))
        held.renewed(5200)  # a reply that was overtaken
        self.assertEqual((held.deadline, held.renewed_at), (6500, 5500))
        limited = self.held(timeout_ms=1200)
        limited.renewed(5900)
        self.assertEqual(limited.deadline, 6200)

    def test_the_handler_is_told_once(self):
        held, seen, errors = self.held(), [], []
        held.phase = RUNNING
        held.on_stop(lambda: seen.append("before"))
        held.on_stop(lambda: 1 / 0)
        self.assertFalse(held.wait(0))
        self.assertTrue(held.stop(holdfast.WorkerStoppedError(), errors.append))
        self.assertFalse(held.stop(holdfast.LeaseLostError(409, {"code": "lease_lost"}), errors.append))
        held.on_stop(lambda: seen.append("after"))
        self.assertEqual((seen, [type(error) for error in errors], held.wait(None)), (["before", "after"], [ZeroDivisionError], True))
        self.assertIsInstance(held.stop_reason, holdfast.WorkerStoppedError)


class PaymentError(Exception):
    pass


class Endings(unittest.TestCase):
    def raised(self, error, cause=None):
        try:
            raise error from cause
        except BaseException as caught:
            return ending_of(caught)

    def test_an_error_fails_with_message_class_and_stack(self):
        word, report = self.raised(PaymentError("no money"), TypeError("inner"))
        self.assertEqual((word, report["error"], report["error_type"]), ("fail", "no money", "PaymentError"))
        self.assertRegex(report["stack"], r"(?s)TypeError: inner.*direct cause.*test_unit\.py.*PaymentError: no money")

    def test_the_limits_are_in_bytes(self):
        report = self.raised(PaymentError("ä" * 20_000)).report
        self.assertLessEqual(len(report["error"].encode()), 8192)
        self.assertLessEqual(len(report["stack"].encode()), 16384)
        self.assertEqual(self.raised(PaymentError("\ud800")).report["error"], "?")
        self.assertLessEqual(len(self.raised(type("X" * 200, (Exception,), {})()).report["error_type"]), 128)

    def test_errors_that_cannot_be_printed(self):
        class Silent(Exception):
            def __str__(self):
                raise RuntimeError

        self.assertEqual(self.raised(Silent()).report["error"], "Silent")
        self.assertEqual(self.raised(PaymentError()).report["error"], "PaymentError")
        self.assertEqual(self.raised(asyncio.CancelledError()).report["error_type"], "CancelledError")

    def test_fail_job_and_release_job_say_what_to_report(self):
        report = self.raised(holdfast.FailJob("no", retry=False, kind="business", delay_ms=5, result={"r": 1}), PaymentError("x")).report
        self.assertEqual({**report, "stack": ""}, {"error": "no", "error_type": "PaymentError", "stack": "", "error_kind": "business", "retry": False,
                                                   "delay_ms": 5, "result": {"r": 1}})
        self.assertEqual(self.raised(holdfast.ReleaseJob("later", delay_ms=5)), ("release", {"reason": "later", "delay_ms": 5}))
        self.assertEqual(self.raised(holdfast.ReleaseJob()), ("release", {}))
        self.assertEqual(self.raised(holdfast.PayloadError("bad")).report["retry"], False)


class Handlers(unittest.TestCase):
    def test_wrong_options_are_refused_at_once(self):
        for options in ({"concurrency": 0}, {"concurrency": 1.5}, {"prefetch": -1}, {"concurrency": 500, "prefetch": 501}):
            with self.assertRaises(ValueError, msg=options):
                holdfast.Worker("http://127.0.0.1:1", **options)
        worker = holdfast.Worker("http://127.0.0.1:1")
        with self.assertRaises(RuntimeError):
            worker.run()
        worker.job("q")(lambda job, ctx: None)
        worker.job("q", kind="k")(lambda job, ctx: None)
        with self.assertRaises(ValueError):
            worker.job("q")(lambda job, ctx: None)

    def test_the_access_token_is_in_no_text(self):
        client = holdfast.Client("http://127.0.0.1:1", token="hf_secret", retry_for_ms=0)
        with self.assertRaises(holdfast.NoConnectionError) as raised, contextlib.closing(client):
            client.get(1)
        self.assertNotIn("secret", repr(client.options) + repr(raised.exception) + repr(client))
        with self.assertRaises(ValueError) as wrong, contextlib.closing(holdfast.Client("http://127.0.0.1:1", token="secret\n")) as client:
            client.get(1)
        self.assertNotIn("secret", str(wrong.exception))
