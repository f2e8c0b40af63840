"""Topics, offsets and messages of a Kafka cluster. Positions are `{topic: {partition: next offset}}`."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, NamedTuple

from confluent_kafka import IsolationLevel, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    ListOffsetsResultInfo,
    OffsetSpec,
    TopicMetadata,
)

from changeledger.config.connection import Connection
from changeledger.kafka import errors as kafka_errors
from changeledger.kafka.errors import Complaints
from changeledger.kafka.messages import MessageScan, Range, in_parts
from changeledger.kafka.records import FirstMessages, first_messages
from changeledger.kafka.schema_registry import PREFIX
from changeledger.kafka.settings import ClientSettings
from changeledger.model.errors import ChangeledgerError, ConfigError, SourceUnavailable

log = logging.getLogger("changeledger")

Offsets = dict[str, dict[str, int]]
# Hashes of records, by topic and partition.
Fingerprints = dict[str, dict[str, str | None]]

_TIMEOUT_SECONDS = 20.0
# How long to wait for a cluster of which no broker accepts a connection.
_REFUSED_SECONDS = 4.0
# How long a scan waits for messages: a broker's restart, or a new leader, takes a while.
_STUCK_SECONDS = 120.0


class Retention(NamedTuple):
    """How a topic removes messages: by key, after `seconds`, beyond `size` bytes; None if not by these."""

    compacts: bool
    seconds: float | None
    size: int | None

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Retention:
        """Returns the retention by a topic's settings, as Kafka names them."""
        policy = settings.get("cleanup.policy", "")
        milliseconds, size = (int(settings.get(f"retention.{unit}", -1)) for unit in ("ms", "bytes"))
        deletes = "delete" in policy
        return cls(
            "compact" in policy,
            milliseconds / 1000 if deletes and milliseconds >= 0 else None,
            size if deletes and size >= 0 else None,
        )


def _refuse_fields(conn_id: str, connection: Connection) -> None:
    """Raises ConfigError for brokers or a login in the connection's own fields, which are not used."""
    if unread := [name for name in ("host", "port", "login", "password") if getattr(connection, name)]:
        raise ConfigError(
            f"nothing reads {', '.join(unread)} of the connection {conn_id!r}",
            "leave them empty, and put bootstrap.servers, sasl.username and sasl.password into its extra",
        )


class Kafka:
    """One cluster. The connection's extra holds librdkafka's settings, including `bootstrap.servers`.

    Settings of the schema registry in the same extra are ignored here.
    """

    def __init__(self, conn_id: str, connection: Connection) -> None:
        _refuse_fields(conn_id, connection)
        client_settings = {str(k): v for k, v in connection.extra.items() if not str(k).startswith(PREFIX)}
        self._settings = ClientSettings.of(conn_id, client_settings)
        self._complaints = Complaints()
        self._heard = self._complaints.heard(self._settings.stated)
        try:
            self._admin = AdminClient(self._heard)
        except KafkaException as error:
            raise ConfigError(
                f"the connection {conn_id!r} does not make a Kafka client: {error.args[0].str()}",
                "correct librdkafka's settings in its extra",
            ) from None

    def topics(self, patterns: Iterable[str]) -> list[str]:
        """Returns the existing topics that match a name or a pattern with `*`."""
        names = self._asked(lambda: list(self._described))
        wanted = [re.compile(re.escape(p).replace(r"\*", ".*") + r"\Z") for p in patterns]
        return sorted(name for name in names if any(w.match(name) for w in wanted))

    def topics_of(self, feed: str, patterns: Sequence[str]) -> list[str]:
        """Returns the topics of a feed. Raises ConfigError if there are none."""
        topics = self.topics(patterns)
        if not topics:
            raise ConfigError(
                f"no topic of {self._settings.conn_id!r} matches {', '.join(patterns)}",
                f"correct `topics:` of {feed}, or grant its login DESCRIBE and READ on them",
            )
        return topics

    def earliest(self, topics: Iterable[str]) -> Offsets:
        return self._offsets(topics, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def latest(self, topics: Iterable[str], *, committed: bool = True) -> Offsets:
        """Returns the offsets after the last message, or if `committed` before open transactions."""
        return self._offsets(topics, OffsetSpec.latest(), committed=committed)  # type: ignore[no-untyped-call]

    def at(self, topics: Iterable[str], time: datetime) -> Offsets:
        """Returns the first offsets with that time or a later one, or after the last message if none has."""
        topics = list(topics)
        offsets = self._offsets(topics, _from(time))
        end = self.latest(topics)
        return {
            topic: {p: min(o, end[topic][p]) if o >= 0 else end[topic][p] for p, o in partitions.items()}
            for topic, partitions in offsets.items()
        }

    def until(self, topics: Iterable[str], time: datetime) -> Offsets:
        """Returns the offsets at which a window that ends at `time` ends: the first with that time or later.

        If that first message has a time in the future, its time says nothing about the order, and it must not
        keep what follows from being read. The partition's end is then the end of the window.
        """
        topics, now = list(topics), datetime.now(UTC)
        ends, last = self.at(topics, time), self.latest(topics)
        if time > now:
            return ends
        for place, listed_offset in self._listed(topics, _from(time)).items():
            stamp = _moment(listed_offset.timestamp)
            topic, partition = place.topic, str(place.partition)
            if listed_offset.offset >= 0 and stamp is not None and stamp > now:
                log.warning(
                    "%s[%s]: the message at offset %d has the time %s, in the future: its producer's "
                    "clock is ahead; all messages after it are read, too",
                    topic, partition, listed_offset.offset, stamp.isoformat(),
                )  # fmt: skip
                ends[topic][partition] = last[topic][partition]
        return ends

    def times(self, places: Offsets) -> dict[str, dict[str, datetime | None]]:
        """Returns the time of the first message at or after each offset, committed or not; None if none."""
        return {
            topic: {p: None if m is None else _moment(m.timestamp()[1]) for p, m in partitions.items()}
            for topic, partitions in self._first("read_uncommitted", places).items()
        }

    def messages(self, start: Offsets, end: Offsets) -> MessageScan:
        """Returns a scan of the messages of `[start, end)`, with headers and as received."""
        ranges = [
            Range(topic, int(partition), start.get(topic, {}).get(partition, 0), last)
            for topic, partitions in end.items()
            for partition, last in partitions.items()
        ]
        return MessageScan(self._settings, in_parts(ranges), _STUCK_SECONDS)

    def compacted(self, topics: Iterable[str]) -> set[str]:
        """Returns topics whose cleanup.policy removes older messages of a key; none if asking is refused."""
        return {topic for topic, settings in self.retention(topics).items() if settings.compacts}

    def retention(self, topics: Iterable[str]) -> dict[str, Retention]:
        """Returns how each topic removes messages, without topics of which the login may not ask."""
        resources = [ConfigResource(ConfigResource.Type.TOPIC, topic) for topic in topics]
        if not resources:
            return {}
        known = {}
        for resource, future in self._admin.describe_configs(resources).items():
            try:
                settings = {name: str(entry.value) for name, entry in future.result(_TIMEOUT_SECONDS).items()}
            except KafkaException:
                # DESCRIBE_CONFIGS is a right of its own, and some services lack the call.
                continue
            known[resource.name] = Retention.of(settings)
        return known

    def ids(self, topics: Iterable[str]) -> dict[str, str]:
        """Returns each topic's id, which changes when the topic is recreated; empty if unknown."""
        names = list(topics)
        if not names:
            return {}
        futures = self._admin.describe_topics(TopicCollection(names))
        topic_ids = {}
        for topic, future in futures.items():
            try:
                topic_id = str(future.result(_TIMEOUT_SECONDS).topic_id)
            except KafkaException:
                topic_id = ""
            topic_ids[topic] = "" if set(topic_id) <= set("A=") else topic_id
        return topic_ids

    def fingerprints(self, behind: Offsets) -> Fingerprints:
        """Returns a hash of the record before each offset, or None if there is none (a transaction mark)."""
        messages = self._first(
            "read_committed", {t: {p: o - 1 for p, o in ps.items() if o > 0} for t, ps in behind.items()}
        )
        return {
            topic: {
                p: None if message is None or message.offset() != behind[topic][p] - 1 else _hash(message)
                for p, message in ps.items()
            }
            for topic, ps in messages.items()
        }

    def _first(self, isolation: str, places: Offsets) -> FirstMessages:
        messages: FirstMessages = self._asked(
            lambda: first_messages(self._heard, isolation, places, _TIMEOUT_SECONDS)
        )
        return messages

    def _offsets(self, topics: Iterable[str], spec: OffsetSpec, *, committed: bool = True) -> Offsets:
        offsets: Offsets = {}
        for place, found_at in self._listed(topics, spec, committed=committed).items():
            offsets.setdefault(place.topic, {})[str(place.partition)] = found_at.offset
        return offsets

    def _listed(
        self, topics: Iterable[str], spec: OffsetSpec, *, committed: bool = True
    ) -> dict[TopicPartition, ListOffsetsResultInfo]:
        isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

        def ask() -> dict[TopicPartition, ListOffsetsResultInfo]:
            wanted = {
                TopicPartition(topic, partition): spec
                for topic in topics
                for partition in self._described[topic].partitions
            }
            if not wanted:
                return {}
            futures = self._admin.list_offsets(
                wanted, isolation_level=isolation, request_timeout=_TIMEOUT_SECONDS
            )
            return {place: future.result() for place, future in futures.items()}

        listed: dict[TopicPartition, ListOffsetsResultInfo] = self._asked(ask)
        return listed

    @cached_property
    def _described(self) -> dict[str, TopicMetadata]:
        """Metadata of all topics, requested once: all answers have the same partitions for this window."""
        try:
            return dict(self._admin.list_topics(timeout=_REFUSED_SECONDS).topics)
        except KafkaException:
            # Delivers the errors that the client has reported so far.
            self._admin.poll(0)
            if self._complaints.no_broker:
                raise
            return dict(self._admin.list_topics(timeout=_TIMEOUT_SECONDS - _REFUSED_SECONDS).topics)

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except KafkaException as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: KafkaException) -> ChangeledgerError:
        # Delivers the errors that the client has reported so far.
        self._admin.poll(0)
        said = "\n".join((repr(error.args[0]), *map(repr, self._complaints.last)))
        conn_id, servers = self._settings.conn_id, self._settings.servers
        return kafka_errors.explained(conn_id, servers, said) or SourceUnavailable(
            f"Kafka at {servers} does not answer: {error.args[0]}",
            f"check that the broker runs, and the connection {conn_id!r}",
        )


def _from(time: datetime) -> OffsetSpec:
    spec: OffsetSpec = OffsetSpec.for_timestamp(int(time.timestamp() * 1000))
    return spec


def _moment(milliseconds: int) -> datetime | None:
    """Converts a message's time: None if it has none, the latest datetime if it is beyond the calendar."""
    try:
        return None if milliseconds < 0 else datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.max.replace(tzinfo=UTC)


def _hash(message: Message) -> str:
    parts = (message.key(), message.value())
    hashed = hashlib.sha256(b"".join(b"-" if p is None else b"%d:" % len(p) + bytes(p) for p in parts))
    return hashed.hexdigest()[:32]
