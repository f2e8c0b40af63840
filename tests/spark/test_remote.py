"""A missing Spark Connect server is noticed within seconds.

By itself, its client would retry for ten minutes.
"""

from __future__ import annotations

import socket
import time

import pytest

from changeledger.model.errors import ConfigError, SparkUnavailable
from changeledger.spark.remote import require_answer
from sourcelab.process import free_port


def assert_refused(port: int, waited: int) -> None:
    began = time.monotonic()
    message = rf"no Spark Connect server has answered at 127.0.0.1:{port} for {waited} s"
    with pytest.raises(SparkUnavailable, match=message) as error:
        require_answer(f"sc://127.0.0.1:{port}/;token=s3cret", 4.0)
    assert time.monotonic() - began < waited + 2
    assert "s3cret" not in str(error.value)


def test_nobody_listens() -> None:
    assert_refused(free_port(), 1)


def test_another_program_has_the_port() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert_refused(other.getsockname()[1], 4)


@pytest.mark.parametrize("parameters", ["token=s3cret==", "token=s3;cret", "s3cret"])
def test_an_address_that_cannot_be_read_is_not_told(parameters: str) -> None:
    """Spark's addresses have no `=` and no `;` in values (sql/connect/docs/client-connection-string.md)."""
    address = f"127.0.0.1:1/;{parameters}" if "token" in parameters else f"127.0.0.1:1/{parameters}"
    with pytest.raises(ConfigError, match="`=` is `%3D`") as error:
        require_answer(f"sc://{address}", 4.0)
    assert "cret" not in str(error.value)
