# SPDX-License-Identifier: Apache-2.0
"""
HTTP/1.1 over asyncio: connections that are kept open, one request at a time on each. A connection whose exchange did not end
as it should is closed and never used again.
"""
from __future__ import annotations

import asyncio
import re
import ssl
from typing import Dict, List, NamedTuple, Optional, Union, cast
from urllib.parse import unquote, urlsplit

from ._time import now_ms

HEAD_MAX = 64 * 1024
IDLE_MS_MAX = 4000
"""A connection that was idle for longer is not used: the server, or what is in between, may just be closing it."""
IDLE_MAX = 16


class Response(NamedTuple):
    status: int
    headers: Dict[str, str]
    """Names in lower case."""
    body: bytes
    reusable: bool


class ReplyError(Exception):
    """The peer does not speak HTTP, or broke off before the end of the reply."""


class ReplyParser:
    """Takes the bytes of one reply. No I/O."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._status = 0
        self._headers: Dict[str, str] = {}
        self._keep = False
        # The bytes of the body: a number; None until the head was read, or if the body lasts until the end of the connection.
        self._length: Optional[int] = None
        self._chunked = False
        self._in_body = False
        self._chunks = bytearray()

    def feed(self, data: bytes) -> Optional[Response]:
        self._buffer += data
        while not self._in_body:
            if not self._read_head():
                return None
        if self._chunked:
            return self._read_chunks()
        if self._length is not None and len(self._buffer) >= self._length:
            return self._response(bytes(self._buffer[:self._length]), len(self._buffer) == self._length)
        return None

    def end(self) -> Response:
        """The connection was closed by the peer."""
        if self._in_body and not self._chunked and self._length is None:
            return self._response(bytes(self._buffer), False)
        raise ReplyError("the connection was closed before the end of the reply")

    def _response(self, body: bytes, clean: bool) -> Response:
        return Response(self._status, self._headers, body, self._keep and clean)

    def _read_head(self) -> bool:
        at = self._buffer.find(b"\r\n\r\n")
        if at < 0:
            if len(self._buffer) > HEAD_MAX:
                raise ReplyError("the head of the reply is too long")
            return False
        lines = self._buffer[:at].decode("latin-1").split("\r\n")
        del self._buffer[:at + 4]
        words = lines[0].split(" ", 2)
        if len(words) < 2 or words[0] not in ("HTTP/1.1", "HTTP/1.0") or not words[1].isdigit() or len(words[1]) != 3:
            raise ReplyError(f"not a reply of HTTP/1.1: {lines[0][:100]!r}")
        self._status = int(words[1])
        if 100 <= self._status < 200:  # an interim reply
            return True
        self._read_headers(lines[1:], words[0] == "HTTP/1.1")
        self._in_body = True
        return True

    def _read_headers(self, lines: List[str], keep: bool) -> None:
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon:
                raise ReplyError(f"not a header: {line[:100]!r}")
            self._headers[name.lower()] = value.strip()
        connection = self._headers.get("connection", "").lower()
        self._keep = "close" not in connection and (keep or "keep-alive" in connection)
        self._chunked = self._headers.get("transfer-encoding", "").lower() == "chunked"
        length = self._headers.get("content-length")
        if self._status in (204, 304):
            self._length = 0
        elif length is not None and not self._chunked:
            if not length.isdigit():
                raise ReplyError(f"not a length: {length[:100]!r}")
            self._length = int(length)

    def _read_chunks(self) -> Optional[Response]:
        while True:
            at = self._buffer.find(b"\r\n")
            if at < 0:
                return None
            try:
                size = int(bytes(self._buffer[:at]).split(b";")[0], 16)
            except ValueError:
                raise ReplyError("not a chunk") from None
            if size == 0:
                # Trailers, up to an empty line.
                last = self._buffer.find(b"\r\n\r\n", at)
                if last < 0:
                    return None
                return self._response(bytes(self._chunks), len(self._buffer) == last + 4)
            if len(self._buffer) < at + 2 + size + 2:
                return None
            self._chunks += self._buffer[at + 2:at + 2 + size]
            del self._buffer[:at + 2 + size + 2]


class Connection(asyncio.Protocol):
    """One connection. ``exchange`` sends a request and returns the reply; errors are OSError or ReplyError."""

    def __init__(self) -> None:
        self._transport: Optional[asyncio.Transport] = None
        self._parser: Optional[ReplyParser] = None
        self._reply: Optional[asyncio.Future[Response]] = None
        self._open = False
        self.used_at = now_ms()

    @property
    def usable(self) -> bool:
        return self._open and now_ms() - self.used_at < IDLE_MS_MAX

    async def exchange(self, request: bytes) -> Response:
        if not self._transport or not self._open:
            raise ConnectionResetError("the connection is closed")
        self._parser = ReplyParser()
        self._reply = asyncio.get_running_loop().create_future()
        try:
            # The size of a request is limited, so it is not necessary to wait until the socket takes more.
            self._transport.write(request)
            response = await self._reply
        except BaseException:
            self.abort()
            raise
        finally:
            self._parser = None
            self._reply = None
        self.used_at = now_ms()
        # A reply that came before the end of the request leaves a connection in which the rest of it follows.
        if not response.reusable or self._transport.get_write_buffer_size() > 0:
            self.abort()
        return response

    def abort(self) -> None:
        """Closes the connection at once; an exchange that waits fails."""
        self._open = False
        if self._transport:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._open = True

    def data_received(self, data: bytes) -> None:
        if not self._parser or not self._reply or self._reply.done():
            self.abort()  # bytes that no request asked for
            return
        try:
            response = self._parser.feed(data)
        except ReplyError as error:
            self._reply.set_exception(error)
            return
        if response:
            self._reply.set_result(response)

    def eof_received(self) -> bool:
        self._open = False
        if self._parser and self._reply and not self._reply.done():
            try:
                self._reply.set_result(self._parser.end())
            except ReplyError as error:
                self._reply.set_exception(error)
        return False  # the transport closes itself

    def connection_lost(self, exc: Optional[Exception]) -> None:
        self._open = False
        if self._reply and not self._reply.done():
            self._reply.set_exception(exc or ConnectionResetError("the connection was closed"))


class Address:
    """Where the server is: ``http://host:port/base``, ``https://…`` or ``unix:/path``."""

    def __init__(self, url: str) -> None:
        self.socket: Optional[str] = None
        self.host, self.port, self.tls, self.base, self.authority = "localhost", 80, False, "", "localhost"
        if url.startswith("unix:"):
            self.socket = url[len("unix:"):]
            if not self.socket:
                raise ValueError("`url` names no socket; it looks like unix:/run/holdfast.sock")
            self.url = url
            return
        self._read(url)

    def _read(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or not re.fullmatch("[!-~]+", url):
            raise ValueError("`url` is not an address; it looks like http://127.0.0.1:8000")
        if parts.username is not None or parts.password is not None:
            raise ValueError("`url` contains a user name or password; pass the access token as `token`")
        if parts.query or parts.fragment:
            raise ValueError("`url` has a query or fragment; give the address of the server alone")
        self.tls = parts.scheme == "https"
        self.host = unquote(parts.hostname)
        self.port = parts.port or (443 if self.tls else 80)
        self.base = parts.path.rstrip("/")
        self.authority = parts.netloc
        self.url = f"{parts.scheme}://{parts.netloc}{self.base}"


class Pool:
    """Connections to one server."""

    def __init__(self, address: Address, tls: Optional[ssl.SSLContext]) -> None:
        self._address = address
        self._tls: Union[ssl.SSLContext, bool, None] = None
        if address.tls:
            self._tls = tls or ssl.create_default_context()
        self._idle: List[Connection] = []
        self._closed = False

    def take_idle(self) -> Optional[Connection]:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.abort()
        return None

    async def connect(self) -> Connection:
        """A new connection; OSError if there is no way to get one."""
        loop = asyncio.get_running_loop()
        if self._address.socket is not None:
            _, connection = await loop.create_unix_connection(Connection, self._address.socket)
        else:
            _, connection = await loop.create_connection(Connection, self._address.host, self._address.port, ssl=self._tls)
        return connection

    def give_back(self, connection: Connection) -> None:
        if self._closed or not connection.usable or len(self._idle) >= IDLE_MAX:
            connection.abort()
        else:
            self._idle.append(connection)

    def close(self) -> None:
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.abort()
