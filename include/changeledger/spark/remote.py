"""Checks that a Spark Connect server answers: its own client would silently retry for ten minutes."""

from __future__ import annotations

import time
from threading import Event
from typing import Any

from pyspark.errors import PySparkValueError
from pyspark.sql.connect.client import DefaultChannelBuilder

from changeledger.model.errors import ConfigError, SparkUnavailable

_LOOK_SECONDS = 0.05
_REMEDY = "start it, or correct its address (SPARK_REMOTE, or the feed's Spark connection)"
# gRPC does not say why a TLS handshake has failed.
_OVER_TLS = (
    "; if its certificate is signed by a private authority, set GRPC_DEFAULT_SSL_ROOTS_FILE_PATH to "
    "that authority's PEM file; if it does not speak TLS, remove use_ssl and the password from the "
    "connection"
)


def require_answer(remote: str, seconds: float) -> None:
    """Raises SparkUnavailable unless a server is ready at the address `sc://...` within `seconds`.

    If the connection is refused, waits only a quarter of that, for a server that is starting. Raises
    ConfigError if the address is invalid.
    """
    builder, ready, refused = _builder(remote), Event(), Event()

    def note(state: Any) -> None:
        # A grpc.ChannelConnectivity. READY means that HTTP/2 works; an open port alone would say little.
        if state.name == "READY":
            ready.set()
        elif state.name == "TRANSIENT_FAILURE":
            refused.set()

    began, channel = time.monotonic(), builder.toChannel()
    try:
        channel.subscribe(note, try_to_connect=True)
        while not ready.wait(_LOOK_SECONDS):
            waited = time.monotonic() - began
            if waited > (seconds / 4 if refused.is_set() else seconds):
                # Leave out the parameters of the address, which may have a token.
                raise SparkUnavailable(
                    f"no Spark Connect server has answered at {builder.endpoint} for {waited:.0f} s",
                    _REMEDY + (_OVER_TLS if builder.secure else ""),
                )
    finally:
        channel.close()


def _builder(remote: str) -> DefaultChannelBuilder:
    """Parses the address. Raises ConfigError if it is invalid."""
    try:
        return DefaultChannelBuilder(remote)
    except PySparkValueError:
        # The original message is dropped: it quotes the parameters, which may have a token.
        raise ConfigError(
            "the address of Spark's Connect server cannot be read",
            "correct SPARK_REMOTE, or the feed's Spark connection: `sc://host:port/;token=...`; in a token "
            "`=` is `%3D` and `;` is `%3B`",
        ) from None
