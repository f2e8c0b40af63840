"""Explains errors of Kafka's client, with a remedy. The texts are those of librdkafka 2.16."""

from __future__ import annotations

import time

import pytest

from changeledger.config.connection import Connection
from changeledger.kafka.errors import explained
from changeledger.kafka.topics import Kafka
from changeledger.model.errors import SourceUnavailable
from sourcelab.process import free_port


@pytest.mark.parametrize(
    ("said", "message", "remedy"),
    [
        (
            'KafkaError{code=_SSL,val=-181,str="b:1: SSL handshake failed: error:0A000086:SSL '
            'routines::certificate verify failed: broker certificate could not be verified"}',
            "is not trusted",
            "ssl.ca.location",
        ),
        (
            'KafkaError{code=_TRANSPORT,val=-195,str="b:1: Receive failed: error:0A000412:SSL '
            'routines::ssl/tls alert bad certificate: SSL alert number 42"}',
            "the client's certificate",
            "ssl.certificate.location",
        ),
        (
            'KafkaError{code=TOPIC_AUTHORIZATION_FAILED,val=29,str="Fetch from broker 1 failed: Broker: '
            'Topic authorization failed"}',
            "not authorized",
            "READ and DESCRIBE",
        ),
    ],
)
def test_causes(said: str, message: str, remedy: str) -> None:
    error = explained("shop", "b:1", said)
    assert error is not None
    assert message in error.message
    assert remedy in error.remedy
    assert not error.retryable


@pytest.mark.parametrize(
    "said",
    [
        # A broker that is being restarted also ends handshakes.
        'KafkaError{code=_SSL,val=-181,str="SSL handshake failed: Disconnected: connection reset by peer"}',
        'KafkaError{code=_TRANSPORT,val=-195,str="Connect to ipv4#127.0.0.1:1 failed: Connection refused"}',
    ],
)
def test_what_may_pass(said: str) -> None:
    assert explained("shop", "b:1", said) is None


def test_a_cluster_that_is_not_there_is_noticed() -> None:
    extra = {"bootstrap.servers": f"127.0.0.1:{free_port()},127.0.0.1:{free_port()}"}
    kafka = Kafka("shop", Connection(conn_type="kafka", extra=extra))
    began = time.monotonic()
    with pytest.raises(SourceUnavailable, match=r"does not answer"):
        kafka.latest(["items"])
    assert time.monotonic() - began < 6
