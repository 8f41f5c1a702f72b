# SPDX-License-Identifier: Apache-2.0
"""What tests of the Python client talk to: the real server, and a peer that does what a test says."""
import os
import re
import shutil
import socket
import subprocess
import tempfile
import threading
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../../.."))
BINARY = os.environ.get("HF_BIN") or os.path.join(ROOT, "build/debug/holdfast")


class Server:
    """The real server, on a free port, or on the same one after a restart."""

    def __init__(self, listen="127.0.0.1:0"):
        self.data = tempfile.mkdtemp(prefix="holdfast-py-")
        self.listen = listen
        self.start()

    def start(self):
        env = {**os.environ, "HOLDFAST_TIMEOUTS_LIST_WAIT_MS": "30s", "HOLDFAST_JOURNAL_SEGMENT_BYTES": "1MiB"}
        words = [BINARY, "serve", "--listen", self.listen, "--data", os.path.join(self.data, "store")]
        self.process = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        for line in self.process.stdout:
            found = re.match(rb"listening on (\S+)", line)
            if found:
                self.url = found[1].decode()
                self.listen = self.url.replace("http://", "")
                return
        raise AssertionError("the server ended before it was ready")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()
        shutil.rmtree(self.data)


class Peer:
    """
    A TCP server that treats each request as the next of its `acts` says: bytes are the reply, which is followed by a closed connection
    if the act is a tuple (bytes, "close"); "close" and "reset" end the connection instead, "hang" does nothing.
    """

    def __init__(self, *acts, tls=None):
        self._tls = tls
        self.early = None  # a reply to the first bytes of each request; the rest is not read
        self.acts = list(acts)
        self.requests = []
        self.connections = 0
        self._open = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        data = b""
        if self._tls:
            try:
                connection = self._tls.wrap_socket(connection, server_side=True)
            except OSError:  # the client does not accept the certificate
                return
            self._open.append(connection)
        while True:
            try:
                part = connection.recv(65536)
            except OSError:
                return
            if not part:
                connection.close()
                return
            if self.early:
                connection.sendall(self.early)
                time.sleep(0.1)
                return
            data += part
            head, found, rest = data.partition(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: (\d+)", head)
            size = int(length[1]) if length else 0
            if not found or len(rest) < size:
                continue
            self.requests.append((head.decode(), rest[:size]))
            data = rest[size:]
            if not self._act(connection, self.acts.pop(0) if self.acts else "hang"):
                return

    def _act(self, connection, act):
        if act == "hang":
            return True
        if act == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        elif act != "close":
            reply, end = act if isinstance(act, tuple) else (act, None)
            connection.sendall(reply)
            if end == "half":
                connection.shutdown(socket.SHUT_WR)
                return True
            if end is None:
                return True
        connection.close()
        return False

    def close(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._open:
            connection.close()
        self._thread.join()


def reply(status, body=b"{}", headers=""):
    body = body if isinstance(body, bytes) else body.encode()
    return f"HTTP/1.1 {status} x\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body


def until(what, condition, seconds=60):
    """Waits for a condition; the limit only ends a test that fails."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"never happened: {what}")
        time.sleep(0.01)
