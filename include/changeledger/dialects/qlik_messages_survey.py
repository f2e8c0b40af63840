"""Sorts a window's Qlik messages by the shape that they have, before any of them is decoded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from changeledger.config import Feed
from changeledger.dialects import base
from changeledger.dialects import qlik_messages_avro as avro
from changeledger.dialects import qlik_messages_json as messages
from changeledger.dialects.qlik_messages_shapes import METADATA, Label, Route, Shapes

# Columns of `Survey.others`: why a message is no table's, and what there is to say about it.
FATE, FATE_DETAIL = "fate", "fate_detail"

# So many metadata messages of one topic are excluded by their offsets; more of them by looking.
_EXCLUDED_BY_OFFSET = 200


def survey(raw: DataFrame, feed: Feed, known: base.Known) -> base.Survey:
    """One pass over the messages: their labels, and the metadata among them, come to the driver."""
    shapes = Shapes(feed, known)
    in_avro = avro.read(raw, known.schemas, known.keep)
    if in_avro is not None:
        raw = in_avro.messages
    rows = _labels(raw)
    told = [row for row in rows if row["metadata"] is not None]
    fates: dict[str, tuple[str, str | None]] = {}
    for row in sorted(
        told, key=lambda row: (row["metadata"]["told_at"], row["topic"], row["metadata"]["at"])
    ):
        fates[row["metadata"]["place"]] = shapes.learn(row["metadata"]["text"], row["metadata"]["told_at"])
    sorted_out = _Sorted(shapes, rows, messages.text_of(raw))
    others = raw.where(sorted_out.no_tables).withColumns(
        {
            FATE: F.coalesce(
                _looked_up({place: fate for place, (fate, _) in fates.items()}, _place()),
                sorted_out.fate,
            ),
            FATE_DETAIL: _looked_up({p: detail for p, (_, detail) in fates.items() if detail}, _place()),
        }
    )
    parts = [
        base.Told(route.shape.table, route.shape, raw.where(reduce(or_, conditions)))
        for route, conditions in sorted_out.tables.items()
    ]
    return base.Survey(parts, others, shapes.learnt, {} if in_avro is None else in_avro.schemas)


def _labels(raw: DataFrame) -> Sequence[Row]:
    """Rows (topic, label, label_text, metadata): each label once, and each metadata message."""
    metadata = F.struct(
        _told_at().alias("told_at"),
        F.struct("topic", "partition", "offset").alias("at"),
        _place().alias("place"),
        F.make_valid_utf8(messages.text_of(raw).cast("string")).alias("text"),
    )
    return (
        raw.withColumn("label", messages.label(messages.text_of(raw)))
        .withColumn("metadata", F.when(messages.is_metadata(F.col("label")), metadata))
        .groupBy("topic", "label", "metadata")
        .agg(F.count("*").alias("messages"))
        .withColumn("label_text", F.to_json("label"))
        .collect()
    )


def _told_at() -> Column:
    """When a message was written; of one without a time, its offset says what came before it."""
    return F.coalesce(F.unix_micros("timestamp"), F.col("offset"))


def _place() -> Column:
    return F.concat_ws(" ", F.col("partition").cast("string"), F.col("offset").cast("string"), F.col("topic"))


def _looked_up(mapping: Mapping[str, str], key: Column) -> Column:
    """The value of a key in a small mapping; NULL where it has none."""
    if not mapping:
        return F.lit(None).cast("string")
    return F.element_at(F.create_map(*(F.lit(x) for pair in mapping.items() for x in pair)), key)


class _Sorted:
    """The conditions under which a message is of a route, or of no table."""

    def __init__(self, shapes: Shapes, rows: Sequence[Row], text: Column) -> None:
        self._label_text = F.to_json(messages.label(text))
        self.tables: dict[Route, list[Column]] = {}
        self._others: list[Column] = []
        self._fates: dict[str, str] = {}
        for topic in sorted({row["topic"] for row in rows}):
            of_topic = [row for row in rows if row["topic"] == topic]
            self._sort(shapes, topic, of_topic)
        self.tables = dict(sorted(self.tables.items(), key=lambda item: (item[0].shape.table, item[0].since)))

    def _sort(self, shapes: Shapes, topic: str, rows: Sequence[Row]) -> None:
        here = F.col("topic") == topic
        metadata = [row["metadata"] for row in rows if row["metadata"] is not None]
        found: dict[str, Sequence[Route]] = {}
        for row in rows:
            if row["metadata"] is not None:
                continue
            said = row["label"]
            routes = shapes.routes(Label(topic, said["schema"], said["table"], said["schema_id"]))
            if isinstance(routes, str):
                self._fates[f"{topic} {row['label_text']}"] = routes
            else:
                found[row["label_text"]] = routes
        if not found:
            self._others.append(here)
            return
        of_one_table = len({tuple(routes) for routes in found.values()}) == 1
        data = sum(1 for row in rows if row["metadata"] is None)
        if of_one_table and len(found) == data and len(metadata) <= _EXCLUDED_BY_OFFSET:
            # The usual topic, of one table in one shape: nobody has to look into its messages twice.
            is_metadata = _place().isin([told["place"] for told in metadata])
            self._add(next(iter(found.values())), here & ~is_metadata if metadata else here)
            if metadata:
                self._others.append(here & is_metadata)
            return
        for routes in dict.fromkeys(tuple(routes) for routes in found.values()):
            labels = [text for text, its in found.items() if tuple(its) == routes]
            self._add(routes, here & self._label_text.isin(labels))
        self._others.append(here & ~self._label_text.isin(list(found)))

    def _add(self, routes: Sequence[Route], condition: Column) -> None:
        for route in routes:
            during = condition
            if route.since:
                during = during & (_told_at() >= route.since)
            if route.until is not None:
                during = during & (_told_at() < route.until)
            self.tables.setdefault(route, []).append(during)

    @property
    def no_tables(self) -> Column:
        return reduce(or_, self._others, F.lit(False))

    @property
    def fate(self) -> Column:
        """Of data without a shape; by topic alone where all of them share one."""
        kinds = set(self._fates.values())
        if len(kinds) <= 1:
            return F.lit(next(iter(kinds), METADATA))
        return _looked_up(self._fates, F.concat_ws(" ", "topic", self._label_text))
