"""Fills topics of a broker with messages, each with the time of one of several windows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zlib import crc32

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from sourcelab.messages import in_order

PARTITIONS = 2
# The windows are consecutive hours from this time.
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_KEY = re.compile(rb'"id":(\d+)')


def windows(number: int) -> Iterator[tuple[datetime, datetime]]:
    for at in range(number):
        begin = BEGIN + timedelta(hours=at)
        yield begin, begin + timedelta(hours=1)


def fill(bootstrap: str, topic: str, messages: Path, number: int = 1) -> None:
    """Writes the file's lines to a new topic, as `number` windows of equal size."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1, config={"retention.ms": "-1"})])[topic].result()
    producer = in_order(
        {"bootstrap.servers": bootstrap, "linger.ms": 100, "queue.buffering.max.messages": 1_000_000}
    )
    with messages.open("rb") as lines:
        size = sum(1 for _ in lines)
    with messages.open("rb") as lines:
        for at, line in enumerate(lines):
            key = _KEY.search(line)
            assert key is not None, "every message has a row"
            begin = BEGIN + timedelta(hours=at * number // size, seconds=1)
            # Waits until a quarter of the queue is free.
            while len(producer) > 750_000:
                producer.poll(1)
            producer.produce(
                topic, line[:-1], b'{"id":%s}' % key[1], crc32(key[1]) % PARTITIONS,
                timestamp=int(begin.timestamp() * 1000),
            )  # fmt: skip
            if at % 10_000 == 0:
                producer.poll(0)
    producer.flush()
