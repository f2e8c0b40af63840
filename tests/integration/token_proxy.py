"""A proxy before a Spark Connect server, like a gateway with a login: TLS, and one token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import grpc

from tests.certificates import Authority

# Calls that are served at once: each job has some that stay open.
_CALLS = 32


class TokenProxy(grpc.GenericRpcHandler):
    """Listens on a port of 127.0.0.1 with a certificate of `authority`, and forwards calls byte for byte."""

    def __init__(self, remote: str, authority: Authority, token: str) -> None:
        """`remote`: the server's own address, without TLS."""
        self._expected = ("authorization", f"Bearer {token}")
        identity = authority.issue("proxy", "localhost")
        shown = grpc.ssl_server_credentials([(identity.key.read_bytes(), identity.certificate.read_bytes())])
        sizes = [(f"grpc.max_{way}_message_length", -1) for way in ("send", "receive")]
        self._behind = grpc.insecure_channel(urlsplit(remote).netloc, options=sizes)
        self._server = grpc.server(ThreadPoolExecutor(_CALLS), [self], options=sizes)
        self.port = self._server.add_secure_port("127.0.0.1:0", shown)
        self.refused = 0

    def __enter__(self) -> TokenProxy:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(None).wait()
        self._behind.close()

    def remote(self, token: str) -> str:
        """Returns the address that Airflow's provider builds with `use_ssl` and a password."""
        return f"sc://127.0.0.1:{self.port}/;token={token};use_ssl=True"

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        passed: Callable[..., Any] = self._behind.stream_stream(call.method)

        def answer(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            sent = context.invocation_metadata()
            if self._expected not in sent:
                self.refused += 1
                context.abort(grpc.StatusCode.UNAUTHENTICATED, "wrong token")
            metadata = [(p.key, p.value) for p in sent if p.key.startswith("x-") or p.key == "user-agent"]
            answers = passed(requests, metadata=metadata)
            context.add_callback(answers.cancel)
            try:
                yield from answers
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata() or ())
                context.abort(error.code(), error.details() or "")

        return grpc.stream_stream_rpc_method_handler(answer)
