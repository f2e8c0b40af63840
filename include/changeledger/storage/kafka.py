"""Kafka: topics, offsets and messages. Positions are `{topic: {partition: next offset}}`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]
from pyspark.sql import DataFrame, SparkSession

from changeledger.config import Connection
from changeledger.errors import ConfigError, GapError, SourceUnavailable
from changeledger.storage.schema_registry import PREFIX

Offsets = dict[str, dict[str, int]]

_TIMEOUT_SECONDS = 20.0
# Records a Spark task reads; a topic of one partition is then still read by every core.
_RECORDS_PER_TASK = 250_000


class Kafka:
    """One cluster. The connection's extra holds librdkafka settings, `bootstrap.servers` among them.

    Those of the schema registry beside them are not Kafka's.
    """

    def __init__(self, conn_id: str, connection: Connection) -> None:
        settings = {k: v for k, v in connection.extra.items() if not str(k).startswith(PREFIX)}
        if "bootstrap.servers" not in settings:
            raise ConfigError(
                f"the connection {conn_id!r} names no bootstrap.servers",
                'put {"bootstrap.servers": "host:port,..."} into its extra',
            )
        self._conn_id = conn_id
        self._settings = {str(k): v for k, v in settings.items()}
        # librdkafka logs each failed attempt; the error that ends the stage says it once.
        self._admin = AdminClient({**self._settings, "log_level": 0})

    def topics(self, patterns: Iterable[str]) -> list[str]:
        """Topics that are there and match a name or a pattern with `*`."""
        names = self._asked(lambda: list(self._admin.list_topics(timeout=_TIMEOUT_SECONDS).topics))
        wanted = [re.compile(re.escape(p).replace(r"\*", ".*") + r"\Z") for p in patterns]
        return sorted(name for name in names if any(w.match(name) for w in wanted))

    def earliest(self, topics: Iterable[str]) -> Offsets:
        return self._offsets(topics, OffsetSpec.earliest())  # type: ignore[no-untyped-call]

    def latest(self, topics: Iterable[str]) -> Offsets:
        """Behind the last message that a reader may see: open transactions are not."""
        return self._offsets(topics, OffsetSpec.latest())  # type: ignore[no-untyped-call]

    def at(self, topics: Iterable[str], time: datetime) -> Offsets:
        """The first offset with that time or a later one; behind the last message where there is none."""
        topics = list(topics)
        found = self._offsets(topics, OffsetSpec.for_timestamp(int(time.timestamp() * 1000)))
        end = self.latest(topics)
        return {
            topic: {p: min(o, end[topic][p]) if o >= 0 else end[topic][p] for p, o in partitions.items()}
            for topic, partitions in found.items()
        }

    def read(self, spark: SparkSession, start: Offsets, end: Offsets) -> DataFrame:
        """Messages of `[start, end)` with their headers, as received. Raises when some are gone."""
        options = {f"kafka.{name}": str(value) for name, value in _java_settings(self._settings).items()}
        wanted = {topic: partitions for topic, partitions in end.items() if partitions}
        first = {t: {p: start.get(t, {}).get(p, 0) for p in partitions} for t, partitions in wanted.items()}
        return (
            spark.read.format("kafka")
            .options(**options)
            .option("kafka.isolation.level", "read_committed")
            .option("assign", json.dumps({t: sorted(map(int, p)) for t, p in wanted.items()}))
            .option("startingOffsets", json.dumps(first))
            .option("endingOffsets", json.dumps(wanted))
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "true")
            .option("maxRecordsPerPartition", str(_RECORDS_PER_TASK))
            .load()
        )

    def _offsets(self, topics: Iterable[str], spec: OffsetSpec) -> Offsets:
        def ask() -> Offsets:
            described = self._admin.list_topics(timeout=_TIMEOUT_SECONDS).topics
            wanted = {
                TopicPartition(topic, partition): spec
                for topic in topics
                for partition in described[topic].partitions
            }
            if not wanted:
                return {}
            futures = self._admin.list_offsets(
                wanted, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_TIMEOUT_SECONDS
            )
            found: Offsets = {}
            for place, future in futures.items():
                found.setdefault(place.topic, {})[str(place.partition)] = future.result().offset
            return found

        offsets: Offsets = self._asked(ask)
        return offsets

    def _asked(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except KafkaException as error:
            raise SourceUnavailable(
                f"Kafka at {self._settings['bootstrap.servers']} does not answer: {error.args[0]}",
                f"check that the broker runs, and the connection {self._conn_id!r}",
            ) from error


def check_continuity(feed: str, wanted: Offsets, earliest: Offsets, latest: Offsets) -> None:
    """Raises GapError where messages behind the last release are gone, naming them."""
    holes = []
    for topic, partitions in wanted.items():
        if topic not in earliest:
            holes.append(f"the topic {topic} is gone")
            continue
        for partition, offset in partitions.items():
            low, high = earliest[topic].get(partition), latest[topic].get(partition)
            if low is None or high is None:
                holes.append(f"{topic}[{partition}] is gone")
            elif low > offset:
                holes.append(f"{topic}[{partition}]: offsets {offset} to {low - 1} were removed by retention")
            elif high < offset:
                holes.append(f"{topic}[{partition}] ends at {high}, {offset} was read: it was made anew")
    if holes:
        raise GapError(
            f"{feed}: the source no longer has what follows the last release: {'; '.join(holes)}",
            "take a new snapshot into the topics and start the feed anew (docs/operate.md, 'A gap')",
        )


def check_retention(feed: str, needed: Offsets, earliest: Offsets, latest: Offsets) -> None:
    """Raises GapError where a window that somebody asked for reaches below what the topics still keep.

    `needed` are offsets at a time: a first offset there, when something before it is gone, may not be the
    first that was there. A partition that holds nothing tells nothing.
    """
    below = [
        f"{topic}[{partition}] begins at offset {low}"
        for topic, partitions in needed.items()
        for partition, offset in partitions.items()
        if offset == (low := earliest[topic][partition]) and 0 < low < latest[topic][partition]
    ]
    if below:
        raise GapError(
            f"{feed}: the window reaches below what the source still keeps: {'; '.join(below)}",
            "choose a later start; what earlier runs have read is in the feed's table raw",
        )


def _java_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """librdkafka's names of a login as those of the Java client that Spark uses."""
    java = {k: v for k, v in settings.items() if not k.startswith("sasl.") or k == "sasl.mechanism"}
    if "sasl.username" in settings:
        mechanism = str(settings.get("sasl.mechanism", "PLAIN"))
        module = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
        user, password = (
            json.dumps(str(settings.get(f"sasl.{name}", ""))) for name in ("username", "password")
        )
        java["sasl.mechanism"] = mechanism
        java["sasl.jaas.config"] = (
            f"org.apache.kafka.common.security.{module} required username={user} password={password};"
        )
    return java
