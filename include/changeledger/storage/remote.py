"""Whether a Spark Connect server answers: its client asks again for ten minutes, in silence."""

from __future__ import annotations

from threading import Event
from typing import Any

from pyspark.sql.connect.client import DefaultChannelBuilder

from changeledger.model.errors import SparkUnavailable


def require_answer(remote: str, seconds: float) -> None:
    """Raises SparkUnavailable unless a server is ready at the address `sc://...` within the time."""
    builder, ready = DefaultChannelBuilder(remote), Event()

    def note(state: Any) -> None:
        # Of grpc.ChannelConnectivity: HTTP/2 has been agreed on. That a port is open says little.
        if state.name == "READY":
            ready.set()

    channel = builder.toChannel()
    try:
        channel.subscribe(note, try_to_connect=True)
        if not ready.wait(seconds):
            # Without the parameters of the address, which may hold a token.
            raise SparkUnavailable(
                f"no Spark Connect server has answered at {builder.endpoint} for {seconds:.0f} s",
                "start it, or correct its address, which is SPARK_REMOTE or the feed's Spark connection",
            )
    finally:
        channel.close()
