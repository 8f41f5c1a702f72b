# SPDX-License-Identifier: Apache-2.0
"""
A server for tests: in memory, on a free port, with a clock that moves only when the test says so.

    with holdfast.testing.server() as server:
        client = server.client()
        server.advance("7d")
"""
from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import tempfile
import threading
import time
import weakref
from datetime import datetime
from types import TracebackType
from typing import Any, Dict, List, Optional, Sequence, Type, Union

from .client import Client

_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


def duration_ms(duration: Union[str, float]) -> int:
    """ "90s", "1h30m", "7d" or milliseconds, in milliseconds."""
    if not isinstance(duration, str):
        return round(duration)
    parts = re.findall(r"(\d+(?:\.\d+)?)(ms|[smhdw])", duration)
    if not parts or "".join(number + unit for number, unit in parts) != duration.strip():
        raise ValueError(f"'{duration}' is not a duration; it looks like 500ms, 90s, 1h30m or 7d")
    return round(sum(float(number) * _UNITS[unit] for number, unit in parts))


class Server:
    """Use ``server()``. ``url`` is the address."""

    def __init__(self, url: str, process: _Process) -> None:
        self.url = url
        self._end = weakref.finalize(self, process.end)
        self._clients: List[Client] = []
        self._own = Client(url)

    def client(self, **options: Any) -> Client:
        """A client of this server; it is closed with the server. The options are those of Client."""
        client = Client(self.url, **options)
        self._clients.append(client)
        return client

    def advance(self, duration: Union[str, float]) -> datetime:
        """Moves the clock ("7d", "90s", milliseconds). Returns when everything that became due has happened."""
        return _time_of(self._own.request("POST", "/v1/test/clock", {"advance_ms": duration_ms(duration)}))

    def now(self) -> datetime:
        """The time of the server."""
        return _time_of(self._own.request("GET", "/v1/test/clock"))

    def stop(self) -> None:
        """Closes the clients and ends the server."""
        for client in [*self._clients, self._own]:
            client.close()
        self._end()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.stop()


class _Process:
    """The process, its directory and what it writes."""

    def __init__(self, binary: str, args: Sequence[str]) -> None:
        self._pid = os.getpid()
        self.data = tempfile.mkdtemp(prefix="holdfast-test-")
        self._errors = os.path.join(self.data, "stderr")
        words = [binary, "serve", "--listen", "127.0.0.1:0", "--data", self.data, "--backend", "memory:", "--test-clock"]
        # The settings of the shell belong to another server.
        env = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        try:
            with open(self._errors, "wb") as errors:
                self._process = subprocess.Popen([*words, *args], env=env, stdin=subprocess.DEVNULL,
                                                 stdout=subprocess.PIPE, stderr=errors)
        except OSError as error:
            shutil.rmtree(self.data, ignore_errors=True)
            raise RuntimeError(f"{binary} cannot be started: {error}; set HOLDFAST_BINARY or `binary`") from error
        self._lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._reader = threading.Thread(target=self._read, name="holdfast-server", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.put(line.decode("utf-8", "replace"))
        self._lines.put("")

    def url(self, timeout: float) -> str:
        """The address that the server prints when it is ready."""
        end = time.monotonic() + timeout
        while True:
            try:
                line = self._lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                raise RuntimeError(f"holdfast did not start within {timeout} s\n{self._said()}") from None
            if not line:
                raise RuntimeError(f"holdfast ended before it was ready\n{self._said()}")
            found = re.match(r"listening on (https?:\S+)", line)
            if found:
                return found[1]

    def _said(self) -> str:
        with open(self._errors, encoding="utf-8", errors="replace") as errors:
            return errors.read()[-10_000:]

    def end(self) -> None:
        if os.getpid() != self._pid:  # a forked process ends; its parent still uses the server
            return
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        if self._process.stdout:
            self._process.stdout.close()
        shutil.rmtree(self.data, ignore_errors=True)


def server(*, binary: Optional[str] = None, args: Sequence[str] = (), timeout: float = 30) -> Server:
    """
    Starts a server in memory with the test clock. ``binary``: the program; default: HOLDFAST_BINARY, or ``holdfast`` in PATH.
    ``args``: more arguments of ``holdfast serve``. ``timeout``: how long to wait for the start, in seconds. The server ends with
    this program at the latest.
    """
    process = _Process(binary or os.environ.get("HOLDFAST_BINARY") or "holdfast", args)
    try:
        return Server(process.url(timeout), process)
    except BaseException:
        process.end()
        raise


def _time_of(reply: Dict[str, Any]) -> datetime:
    return datetime.fromisoformat(str(reply["now"]).replace("Z", "+00:00"))
