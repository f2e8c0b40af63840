"""The proxy of the fault matrix does to a request what it is told, and otherwise nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.faults.matrix.proxy import Deed, Proxy, Request
from tests.faults.matrix.remote import is_commit, trouble

BODY = b"x" * 1000


class Server(ThreadingHTTPServer):
    """Answers with what it received, in chunks if requested. `stored` is what arrived completely."""

    stored: list[tuple[str, bytes]]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if len(body) < int(self.headers.get("Content-Length", 0)):
            self.close_connection = True
            return
        self.server.stored.append((self.command, body))
        self.send_response(200)
        if self.path == "/chunked":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"4\r\nsome\r\n0\r\n\r\n")
            return
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_POST = do_GET = do_HEAD = do_PUT  # noqa: N815 - http.server's names

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(("127.0.0.1", 0), Handler) as server:
        server.stored = []
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    with Proxy(server.server_address[1]) as proxy:
        yield proxy


def sent(proxy: Proxy, method: str = "PUT", path: str = "/", body: bytes = BODY) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    try:
        connection.request(method, path, body, {"Expect": "100-continue"} if method == "PUT" else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_requests_and_answers_pass_as_they_are(proxy: Proxy, server: Server) -> None:
    connection = HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    chunked = ("GET", "/chunked", b"", b"some")
    for method, path, body, answer in (("PUT", "/", BODY, BODY), ("HEAD", "/", b"", b""), chunked):
        connection.request(method, path, body)
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, answer)
    connection.close()
    assert sent(proxy) == (200, BODY)
    assert server.stored[0] == ("PUT", BODY)


@pytest.mark.parametrize(
    ("deed", "arrives"), [(Deed.CUT, False), (Deed.HALF, False), (Deed.LOSE, True), (Deed.FAIL, False)]
)
def test_what_becomes_of_a_request(proxy: Proxy, server: Server, deed: Deed, arrives: bool) -> None:
    proxy.decide = lambda _: deed
    if deed is Deed.FAIL:
        assert sent(proxy)[0] == 503
    else:
        with pytest.raises((OSError, HTTPException)):
            sent(proxy)
    assert server.stored == ([("PUT", BODY)] if arrives else [])
    proxy.calm()
    assert sent(proxy) == (200, BODY)


def test_away_means_refused_and_back_at_the_same_port(proxy: Proxy) -> None:
    held = HTTPConnection("127.0.0.1", proxy.port, timeout=10)
    held.request("GET", "/")
    held.getresponse().read()
    port = proxy.port
    proxy.leave()
    with pytest.raises(ConnectionRefusedError):
        sent(proxy)
    with pytest.raises((OSError, HTTPException)):
        _once_more(held)
    proxy.calm()
    assert proxy.port == port
    assert sent(proxy) == (200, BODY)


def _once_more(held: HTTPConnection) -> None:
    held.request("GET", "/")
    held.getresponse()


def test_the_first_commit_is_lost_and_the_next_one_is_not(proxy: Proxy, server: Server) -> None:
    class Lake:
        rest = store = proxy

    commit = "/a~b/v1/namespaces/shop/tables/orders"
    with trouble(Lake, "rest_lost"):  # type: ignore[arg-type]
        assert sent(proxy, "GET", commit)[0] == 200
        assert sent(proxy, "POST", f"{commit}/metrics")[0] == 200
        with pytest.raises((OSError, HTTPException)):
            sent(proxy, "POST", commit)
        assert sent(proxy, "POST", commit)[0] == 200
    assert [method for method, _ in server.stored] == ["GET", "POST", "POST", "POST"]


def test_halves_are_of_uploads_alone(proxy: Proxy, server: Server) -> None:
    class Lake:
        rest = store = proxy

    with trouble(Lake, "store_half"):  # type: ignore[arg-type]
        for _ in range(2):
            assert sent(proxy, "GET", "/", b"")[0] == 200
            with pytest.raises((OSError, HTTPException)):
                sent(proxy)
        assert sent(proxy) == (200, BODY)
    assert [method for method, _ in server.stored] == ["GET", "GET", "PUT"]


def test_a_tables_creation_is_a_commit_too() -> None:
    def asked(method: str, path: str) -> bool:
        return is_commit(Request(method, path, b"", b""))

    assert asked("POST", "/a/v1/namespaces/shop/tables")
    assert not asked("POST", "/a/v1/namespaces")
    assert not asked("GET", "/a/v1/namespaces/shop/tables/orders")
