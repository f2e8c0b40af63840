"""An HTTP proxy before one server: it can be away or slow, or treat a request as networks and servers may."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from typing import BinaryIO, NamedTuple

_PATIENCE_SECONDS = 60.0
_SOON_SECONDS = 0.2
_UNAVAILABLE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/xml\r\nConnection: close\r\n"
    b"Content-Length: 46\r\n\r\n<Error><Code>ServiceUnavailable</Code></Error>"
)
_WITHOUT_BODY = (204, 304)


class Deed(Enum):
    """What the proxy does with a request."""

    PASS = "it is passed on, and its answer passed back"
    CUT = "the connection ends before it is passed on"
    HALF = "half of its body is passed on, then both connections end"
    LOSE = "it is passed on, and the connection ends instead of the answer"
    FAIL = "the answer is 503, and it is not passed on"


class Request(NamedTuple):
    method: str
    path: str
    head: bytes
    body: bytes


Decision = Callable[[Request], Deed]


def passed(_request: Request) -> Deed:
    return Deed.PASS


class Proxy:
    """Listens on a port of 127.0.0.1 from `__enter__` to `__exit__`. `decide`: what to do with a request."""

    def __init__(self, server_port: int) -> None:
        self._server_port = server_port
        self.port = 0
        self.decide: Decision = passed
        self.delay_seconds = 0.0
        self._leaving: threading.Timer | None = None
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()

    def __enter__(self) -> Proxy:
        self.come_back()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def calm(self) -> None:
        """Passes everything on again, and stays."""
        if self._leaving is not None:
            self._leaving.cancel()
            self._leaving.join()
        self.decide, self.delay_seconds = passed, 0.0
        self.come_back()

    def leave_soon(self) -> None:
        """Refuses connections soon, after the present request has its answer."""
        self._leaving = threading.Timer(_SOON_SECONDS, self.leave)
        self._leaving.start()

    def leave(self) -> None:
        """Refuses connections, and ends open ones."""
        listener, self._listener = self._listener, None
        if listener is not None:
            # Wakes the thread that waits in `accept`.
            with suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)
            listener.close()
        for connection in [*self._open]:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def come_back(self) -> None:
        """Listens again on the same port."""
        if self._listener is None:
            self._listener = socket.create_server(("127.0.0.1", self.port))
            self.port = self._listener.getsockname()[1]
            threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._open.add(client)
        try:
            with client, client.makefile("rb") as reader, suppress(OSError):
                while self._carry(client, reader):
                    pass
        finally:
            self._open.discard(client)

    def _carry(self, client: socket.socket, reader: BinaryIO) -> bool:
        """Carries one request and its answer. Returns whether another request may follow."""
        request = _request(client, reader)
        if request is None or self._listener is None:
            return False
        time.sleep(self.delay_seconds)
        deed = self.decide(request)
        if deed is Deed.CUT:
            return False
        if deed is Deed.FAIL:
            client.sendall(_UNAVAILABLE)
            return False
        address = ("127.0.0.1", self._server_port)
        with socket.create_connection(address, timeout=_PATIENCE_SECONDS) as server:
            if deed is Deed.HALF:
                server.sendall(request.head + request.body[: len(request.body) // 2])
                return False
            server.sendall(request.head + request.body)
            with server.makefile("rb") as answers:
                answer = _answer(answers, request.method)
        if deed is Deed.LOSE or not answer:
            return False
        client.sendall(answer)
        return b"\r\nconnection: close\r\n" not in answer.partition(b"\r\n\r\n")[0].lower() + b"\r\n"


def _request(client: socket.socket, reader: BinaryIO) -> Request | None:
    head = _head(reader)
    if not head:
        return None
    method, path, _ = head.split(b" ", 2)
    # The server's answer to it is skipped.
    if re.search(rb"\r\nexpect: *100-continue\r\n", head, re.IGNORECASE):
        client.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    return Request(method.decode(), path.decode(), head, _body(reader, head))


def _answer(reader: BinaryIO, method: str) -> bytes:
    """Returns the answer without interim ones; empty if the server has ended the connection."""
    while head := _head(reader):
        status = int(head.split(b" ", 2)[1])
        if status >= 200:
            without = method == "HEAD" or status in _WITHOUT_BODY
            return head if without else head + _body(reader, head)
    return b""


def _head(reader: BinaryIO) -> bytes:
    lines = [reader.readline()]
    while lines[-1] not in {b"\r\n", b""}:
        lines.append(reader.readline())
    return b"".join(lines)


def _body(reader: BinaryIO, head: bytes) -> bytes:
    if re.search(rb"\r\ntransfer-encoding: *chunked\r\n", head, re.IGNORECASE):
        return b"".join(_chunks(reader))
    length = re.search(rb"\r\ncontent-length: *(\d+)\r\n", head, re.IGNORECASE)
    return reader.read(int(length[1])) if length else b""


def _chunks(reader: BinaryIO) -> list[bytes]:
    """Returns the chunks as on the wire, including the last one of size 0 and the trailer."""
    chunks = []
    while True:
        size = reader.readline()
        length = int(size.partition(b";")[0], 16)
        if not length:
            return [*chunks, size, _head(reader)]
        chunks += [size, reader.read(length + 2)]
