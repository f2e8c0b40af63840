"""Kafka messages, and writing them to a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

_TIMEOUT_SECONDS = 60


class NotWritten(Exception):
    """The broker did not accept all messages."""


class Message(NamedTuple):
    """One Kafka record. A value of None is a tombstone."""

    topic: str
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    timestamp_ms: int


def lsn_text(lsn: bytes) -> str:
    """Formats an LSN as log file, block and slot: `00000027:00000758:0003`."""
    return f"{lsn[:4].hex()}:{lsn[4:8].hex()}:{lsn[8:].hex()}"


def milliseconds(instant: datetime) -> int:
    """Converts to milliseconds since 1970."""
    return int(instant.timestamp()) * 1000 + instant.microsecond // 1000


def produce(bootstrap: str, messages: Iterable[Message], partitions: int = 2) -> int:
    """Writes the messages, creates their topics, and returns the number of messages.

    The messages of a key stay in one partition, in order, as with Java's default partitioner. Raises
    NotWritten if the broker does not accept all of them.
    """
    # librdkafka would log a thousand lines about an unreachable broker.
    client: dict[str, Any] = {"bootstrap.servers": bootstrap, "log_level": 0, "error_cb": lambda _: None}
    admin = AdminClient(client)
    producer = in_order(
        {**client, "enable.idempotence": True, "partitioner": "murmur2_random", "linger.ms": 20}
    )
    failed: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: object) -> None:
        if error is not None:
            failed.append(error)

    count = 0
    topics: set[str] = set()
    for message in messages:
        if message.topic not in topics:
            _make_topic(admin, message.topic, partitions)
            topics.add(message.topic)
        record = message._asdict() | {"timestamp": message.timestamp_ms, "headers": list(message.headers)}
        del record["timestamp_ms"]
        _send(producer, record, delivered)
        count += 1
    left = producer.flush(_TIMEOUT_SECONDS)
    if failed or left:
        raise NotWritten(f"{len(failed)} of {count} messages failed, {left} are unsent: {failed[:3]}")
    return count


def in_order(settings: Mapping[str, Any]) -> Producer:
    """Returns a producer that has one request to a broker in flight at a time.

    A broker that has just created a topic may refuse a request for it and accept the next one. The records of
    the first then arrive later, or are lost although they are acknowledged (KAFKA-15591).
    """
    return Producer({**settings, "max.in.flight.requests.per.connection": 1})


def _send(producer: Producer, record: dict[str, Any], delivered: Callable[..., None]) -> None:
    """Sends a record; waits while the producer's queue is full."""
    while True:
        try:
            producer.produce(**record, on_delivery=delivered)
            break
        except BufferError:
            producer.poll(0.1)
    producer.poll(0)


# The log is of the past: the broker's default retention would delete its messages at once.
_KEPT = {"retention.ms": "-1"}


def _make_topic(admin: AdminClient, name: str, partitions: int) -> None:
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=_KEPT)
    futures = admin.create_topics([topic])
    try:
        error = futures[name].exception(_TIMEOUT_SECONDS)
    except TimeoutError:
        raise NotWritten(f"the broker does not make the topic {name}") from None
    if error is not None and error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
        raise NotWritten(f"the broker does not make the topic {name}: {error}") from error
