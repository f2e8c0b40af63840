"""Reads single records of topics by offset."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

# By topic and partition; None if there is no message at the offset or after it.
FirstMessages = dict[str, dict[str, Message | None]]

# Errors that mean that an offset has no record: the end of the partition, or offsets that are gone.
_NO_RECORD = frozenset(
    {KafkaError._PARTITION_EOF, KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE}
)


def first_messages(
    settings: Mapping[str, Any], isolation: str, places: Mapping[str, Mapping[str, int]], seconds: float
) -> FirstMessages:
    """Returns the first message at each offset or after it.

    Reads all partitions together, as one after the other costs up to a second each. Raises KafkaException
    if nothing arrives for `seconds`.
    """
    wanted = [TopicPartition(t, int(p), offset) for t, ps in places.items() for p, offset in ps.items()]
    if not wanted:
        return {}
    # Only one record of each partition is wanted, so little is fetched at once.
    few = {"fetch.wait.max.ms": 50, "fetch.message.max.bytes": 64 << 10}
    with closing(consumer(settings, isolation, few)) as reading:
        return _read(reading, wanted, seconds)


def consumer(settings: Mapping[str, Any], isolation: str, more: Mapping[str, Any]) -> Consumer:
    """Returns a consumer that reports partition ends, fails for removed offsets, and commits nothing."""
    return Consumer(
        {
            **settings,
            "group.id": "changeledger",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": isolation,
            "auto.offset.reset": "error",
            **more,
        }
    )


def _read(consumer: Consumer, places: list[TopicPartition], seconds: float) -> FirstMessages:
    messages: FirstMessages = {}
    wanted = {(place.topic, place.partition) for place in places}
    fault, deadline = KafkaError(KafkaError._TIMED_OUT), time.monotonic() + seconds
    consumer.assign(places)
    while wanted:
        message = consumer.poll(1.0)
        error = None if message is None else message.error()
        if message is None or (error is not None and error.code() not in _NO_RECORD):
            fault = error or fault
            # An error without a topic is the connection's: the client retries by itself until the deadline.
            if time.monotonic() > deadline or (message is not None and message.topic() is not None):
                raise KafkaException(fault)
            continue
        deadline = time.monotonic() + seconds
        topic, partition = str(message.topic()), int(message.partition() or 0)
        if (topic, partition) in wanted:
            wanted.remove((topic, partition))
            consumer.pause([TopicPartition(topic, partition)])
            messages.setdefault(topic, {})[str(partition)] = message if error is None else None
    return messages
