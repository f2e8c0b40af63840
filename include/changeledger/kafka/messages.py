"""Reads messages of Kafka topics as Arrow batches, in Spark's Python workers.

Not every offset has a record: transactions leave marks, aborted records are not delivered, and compaction
removes records. A range of offsets is therefore complete when the client is past its end: at a later record,
or at the end of the partition. Offsets that were removed raise an error; they are not skipped.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import pyarrow as pa
from confluent_kafka import KafkaError, Message, TopicPartition

from changeledger.kafka import errors as kafka_errors
from changeledger.kafka.errors import Complaints
from changeledger.kafka.records import consumer
from changeledger.kafka.settings import ClientSettings
from changeledger.kernels.arrow import HEADERS, INSTANT, MESSAGE, table_schema
from changeledger.kernels.sql_text import MICROS
from changeledger.model import change
from changeledger.model.errors import ChangeledgerError, SourceDataLostError, SourceUnavailable

# Offsets that one client reads, few enough that every core has a part of a topic with one partition.
_OFFSETS_AT_ONCE: Final = 50_000
# Limits of a batch: records, bytes (about), and seconds to wait for it.
_MOST_ROWS, _MOST_BYTES, _WAIT_SECONDS = 2_000, 64 << 20, 0.2
# Limits of what the client fetches ahead: records past a range's end are fetched in vain. A full queue is
# checked again after 5 ms; by default the client waits a second, and delivers nothing meanwhile.
_AHEAD: Final = {
    "queued.min.messages": 10_000, "queued.max.messages.kbytes": 32 << 10, "fetch.queue.backoff.ms": 5,
    # As Java's clients do by default.
    "check.crcs": True,
}  # fmt: skip
_GONE: Final = frozenset(
    {
        KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION,
        KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION,
    }
)  # fmt: skip
Place = tuple[str, int]
RAW: Final = table_schema(change.RAW_MESSAGE_COLUMNS)


class Range(NamedTuple):
    """Offsets of one partition; `end` is not included."""

    topic: str
    partition: int
    start: int
    end: int


# Ranges of different partitions that one client reads together.
Part = tuple[Range, ...]


def in_parts(ranges: Sequence[Range], most: int = _OFFSETS_AT_ONCE) -> tuple[Part, ...]:
    """Cuts and combines the ranges into parts of about, and at most, `most` offsets."""
    parts: list[list[Range]] = [[]]
    room = most
    for piece in (piece for offset_range in ranges for piece in _pieces(offset_range, most)):
        size = piece.end - piece.start
        if size > room:
            parts.append([])
            room = most
        parts[-1].append(piece)
        room -= size
    return tuple(tuple(part) for part in parts if part)


def _pieces(whole: Range, most: int) -> Iterator[Range]:
    """Cuts a range into pieces of equal size, of which no two fit into one part."""
    size = whole.end - whole.start
    number = -(-size // most)
    cuts = [whole.start + size * at // number for at in range(number + 1)] if size > 0 else []
    for start, end in pairwise(cuts):
        yield whole._replace(start=start, end=end)


@dataclass(frozen=True)
class MessageScan:
    """A scan of ranges of offsets. It fails when no message arrives for `seconds`."""

    settings: ClientSettings
    parts: tuple[Part, ...]
    seconds: float
    schema: ClassVar[pa.Schema] = MESSAGE

    @property
    def weights(self) -> list[int]:
        """The number of offsets of each part."""
        return [sum(offset_range.end - offset_range.start for offset_range in part) for part in self.parts]

    def without_parts(self) -> MessageScan:
        return replace(self, parts=())

    def rows(self, part: Part) -> Iterator[pa.RecordBatch]:
        """Yields the messages of a part, in the order of offsets within each partition.

        Raises SourceDataLostError if messages are gone, SourceUnavailable if no more arrive, and ConfigError
        if the broker refuses the client.
        """
        with closing(_Reading(self, part)) as reading:
            yield from reading.batches()


def of_window(window_id: str, messages: pa.RecordBatch) -> pa.RecordBatch:
    window_ids = pa.repeat(pa.scalar(window_id), len(messages))
    return pa.RecordBatch.from_arrays([window_ids, *messages.columns], schema=RAW)


class _Reading:
    """A client, and how far it has read."""

    def __init__(self, scan: MessageScan, part: Part) -> None:
        self._scan = scan
        ranges = {(offset_range.topic, offset_range.partition): offset_range for offset_range in part}
        # The ends of the ranges that are not complete.
        self._ends: dict[Place, int] = {place: offset_range.end for place, offset_range in ranges.items()}
        # The next offset of each partition.
        self._next: dict[Place, int] = {place: offset_range.start for place, offset_range in ranges.items()}
        # The ends of partitions that end before their range.
        self._short: dict[Place, int] = {}
        self._complaints = Complaints()
        with scan.settings.given() as settings:
            self._consumer = consumer(self._complaints.heard(settings), "read_committed", _AHEAD)
        self._consumer.assign([TopicPartition(*place, offset) for place, offset in self._next.items()])

    def close(self) -> None:
        self._consumer.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        at_once, last = _MOST_ROWS, time.monotonic()
        while self._ends:
            # If asked for more than can come, the client would wait until the timeout.
            records = self._wanted(self._consumer.consume(min(at_once, self._remaining), _WAIT_SECONDS))
            if records:
                batch = _as_batch(records)
                at_once = max(1, min(_MOST_ROWS, _MOST_BYTES * len(records) // max(batch.nbytes, 1)))
                yield batch
                last = time.monotonic()
            elif self._ends and time.monotonic() > last + self._scan.seconds:
                raise self._stuck()

    @property
    def _remaining(self) -> int:
        """The number of records that can still come; at least 1 while a range is not complete."""
        return sum(end - self._next[place] for place, end in self._ends.items())

    def _wanted(self, came: Sequence[Message]) -> Sequence[Message]:
        """Returns the received records that are in the ranges. Notes progress, and handles errors."""
        records = [record for record in came if record.error() is None]
        # Records of one partition come in the order of their offsets.
        last = {(record.topic(), record.partition()): record for record in records}
        reached = {_place(record): int(record.offset() or 0) + 1 for record in last.values()}
        wanted = records
        if any(offset >= self._ends.get(place, 0) for place, offset in reached.items()):
            wanted = [
                record for record in records if int(record.offset() or 0) < self._ends.get(_place(record), 0)
            ]
        self._leave(reached)
        for message in came if len(records) < len(came) else ():
            error = message.error()
            if error is not None:
                self._meet(error, message)
        return wanted

    def _leave(self, reached: Mapping[Place, int]) -> None:
        """Notes the next offset of each partition, and pauses partitions whose range is complete."""
        self._next |= reached
        over = [place for place, offset in reached.items() if offset >= self._ends.get(place, 0)]
        for place in reached:
            self._short.pop(place, None)
        for place in over:
            self._ends.pop(place, None)
        if over:
            self._consumer.pause([TopicPartition(*place) for place in over])

    def _meet(self, error: KafkaError, at: Message) -> None:
        """Handles the end of a partition, or an error.

        An error without a topic is the connection's: it is noted, and the client goes on.
        """
        if at.topic() is None:
            self._complaints.add(error)
        elif _place(at) not in self._ends:
            return
        elif error.code() == KafkaError._PARTITION_EOF:
            self._leave({_place(at): int(at.offset() or 0)})
            if _place(at) in self._ends:
                self._short[_place(at)] = int(at.offset() or 0)
        elif error.code() in _GONE:
            raise _lost(f"{at.topic()}[{at.partition()}]: {error.str()}")
        else:
            said = f"{at.topic()}[{at.partition()}]: {error!r}"
            raise self._refused(said) or self._unavailable(said)

    def _stuck(self) -> ChangeledgerError:
        complaints = self._complaints.last
        refused = self._refused("\n".join(map(repr, complaints)))
        if refused is not None:
            return refused
        gone = [error.str() for error in complaints if error.code() in _GONE]
        if gone:
            return _lost(gone[-1])
        if self._short and not complaints:
            (topic, partition), offset = next(iter(self._short.items()))
            end = self._ends[topic, partition]
            return _lost(f"{topic}[{partition}] ends at offset {offset}, but had messages up to {end}")
        nothing = f"nothing came for {self._scan.seconds:.0f} s"
        return self._unavailable(repr(complaints[-1]) if complaints else nothing)

    def _unavailable(self, what: str) -> SourceUnavailable:
        return SourceUnavailable(
            f"the broker no longer answers: {what}",
            f"check that the broker runs, and the connection {self._scan.settings.conn_id!r}; then clear the "
            "task",
        )

    def _refused(self, said: str) -> ChangeledgerError | None:
        settings = self._scan.settings
        return kafka_errors.explained(settings.conn_id, settings.servers, said)


def _place(message: Message) -> Place:
    return str(message.topic()), int(message.partition() or 0)


def _lost(what: str) -> SourceDataLostError:
    return SourceDataLostError(
        f"messages were removed while they were read: {what}",
        "run the window again: what is gone is then named (docs/when-a-run-stops.md, 'A gap')",
    )


def _as_batch(records: Sequence[Message]) -> pa.RecordBatch:
    # A producer's time can be beyond the calendar, such as microseconds in place of milliseconds.
    millis = [min(record.timestamp()[1], MICROS[1] // 1000) for record in records]
    times = pa.array(millis, pa.timestamp("ms", "UTC"))
    cells = [
        pa.array([record.topic() for record in records], pa.string()),
        pa.array([record.partition() for record in records], pa.int32()),
        pa.array([record.offset() for record in records], pa.int64()),
        times.cast(INSTANT),
        pa.array([record.key() for record in records], pa.binary()),
        pa.array([record.value() for record in records], pa.binary()),
        _headers([record.headers() for record in records]),
    ]
    return pa.RecordBatch.from_arrays(cells, schema=MESSAGE)


def _headers(of: Sequence[Any]) -> pa.Array:
    """Returns the messages' headers, NULL for a message without any."""
    if not any(of):
        return pa.nulls(len(of), HEADERS)
    pairs = [pair for headers in of for pair in headers or ()]
    cells = [pa.array([key for key, _ in pairs], pa.string()), pa.array([v for _, v in pairs], pa.binary())]
    ends = pa.array(np.cumsum([0, *(len(headers or ()) for headers in of)]), pa.int32())
    struct = pa.StructArray.from_arrays(cells, fields=list(HEADERS.value_type))
    return pa.ListArray.from_arrays(
        ends, struct, type=HEADERS, mask=pa.array([not headers for headers in of])
    )
