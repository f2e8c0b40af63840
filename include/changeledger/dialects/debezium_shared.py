"""Topics that tell several tables, as a router leaves them, or several schema blocks of one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from changeledger.config import Feed
from changeledger.dialects.base import Ends, Sample, read_json
from changeledger.dialects.debezium_schema import discover, json_object, payload_of, table_of
from changeledger.plans import sealed

_TABLE = "table_told"
# What follows it is the message's own; what precedes it, the same for all messages of one shape.
_PAYLOAD = b'"payload":'
# The members of `source` that name the table.
_NAMED = re.compile(rb'"schema"\s*:\s*"[^"\\]*"\s*,\s*"table"\s*:\s*"[^"\\]*"')
# By how many bytes what follows those members may be longer than in the samples.
_SLACK = 32
# A connector has one schema block at a time.
_MOST_BLOCKS = 20


def samples_between(messages: DataFrame, ends: Ends, feed: Feed) -> list[Sample]:
    """Messages between the ends of their topics that tell a table, or a schema block, that no end does.

    Only those are parsed that do not say at first sight, by their text, what an end says. `decode`
    takes any table as the feed's: here only those that are listed, as a name could be a broken one.
    """
    if not ends.longer:
        return []
    topics = discover(ends.samples, feed)
    looked_at = [topic for topic in sorted(ends.longer) if len(topics.get(topic, ())) < 2]
    if not looked_at:
        return []
    alike = [
        (F.col("topic") == topic) & _alike([s for s in ends.samples if s.topic == topic], feed)
        for topic in looked_at
        if topic in topics
    ]
    # Heartbeats and the like have no `source`.
    others = ~_any(alike) & F.col("value").contains(F.lit(b'"source"'))
    between = samples_of_each_table(routed(sealed(messages.where(others)), looked_at))
    listed = {config.table for config in feed.tables}
    told = [(one, set(discover([one], feed).get(one.topic, ()))) for one in between]
    return [one for one, tables in told if tables <= listed.union(topics.get(one.topic, tables))]


def _alike(samples: Sequence[Sample], feed: Feed) -> Column:
    """Does a message begin as one of the samples that tell a table, and name its table in the same words?"""
    begins, names, tail = set(), set(), 0
    for sample in samples:
        text = bytes(sample.value or b"")
        if table_of(payload_of(json_object(text)), sample.topic, feed) is None:
            continue
        begins.add(text.partition(_PAYLOAD if _PAYLOAD in text else b":")[0])
        for named in _NAMED.finditer(text):
            names.add(named[0])
            tail = max(tail, len(text) - named.start() + _SLACK)
    value = F.col("value")
    begins_alike = _any(value.startswith(F.lit(begin)) for begin in sorted(begins))
    if not names:
        # Connectors of the 0.x line tell the table by the topic alone.
        return begins_alike
    # To search a whole message takes as long as to read it: `source` is near its end.
    near_end = F.substring(value, -tail, tail)
    return begins_alike & _any(near_end.contains(F.lit(name)) for name in sorted(names))


def _any(conditions: Iterable[Column]) -> Column:
    return reduce(or_, conditions, F.lit(False))


def routed(messages: DataFrame, topics: Collection[str]) -> DataFrame:
    """The messages of these topics, with the table that each tells in lower case; NULL for none."""
    source = "source:struct<schema:string,table:string>"
    read = read_json(F.col("value").cast("string"), f"struct<payload:struct<{source}>,{source}>")
    message = F.get(read, F.lit(0))
    told = F.coalesce(message["payload"]["source"], message["source"])
    table = F.lower(F.concat(told["schema"], F.lit("."), told["table"]))
    return messages.where(F.col("topic").isin(list(topics))).withColumn(_TABLE, table)


def samples_of_each_table(found: DataFrame) -> list[Sample]:
    """The first and the last message of each schema block of every table of every topic, in their order."""
    text, payload = F.col("value").cast("string"), _PAYLOAD.decode()
    block = F.when(text.contains(payload), F.xxhash64(F.substring_index(text, payload, 1)))
    message = F.struct("offset", "partition", "key", "value")
    place = F.struct("offset", "partition")
    blocks = (
        found.where(F.col(_TABLE).isNotNull())
        .groupBy("topic", _TABLE, block.alias("block"))
        .agg(F.min_by(message, place).alias("first"), F.max_by(message, place).alias("last"))
    )
    in_order = Window.partitionBy("topic", _TABLE).orderBy("first.offset", "first.partition")
    some = blocks.withColumn("number", F.row_number().over(in_order)).where(F.col("number") <= _MOST_BLOCKS)
    ends = [(row["topic"], end) for row in some.collect() for end in (row["first"], row["last"])]
    ends.sort(key=lambda end: (end[0], end[1]["offset"], end[1]["partition"]))
    return [Sample(topic, end["key"], end["value"]) for topic, end in ends]


def of_table(found: DataFrame, topic: str, table: str) -> DataFrame:
    return found.where((F.col("topic") == topic) & (F.col(_TABLE) == table.lower())).drop(_TABLE)


def of_no_table(found: DataFrame, tables: Mapping[str, Collection[str]]) -> DataFrame:
    """The messages that tell none of the tables of their topic: control messages and tombstones, mostly."""
    is_told = F.lit(False)
    for topic, names in tables.items():
        is_told |= (F.col("topic") == topic) & F.col(_TABLE).isin([name.lower() for name in names])
    return found.where(~F.coalesce(is_told, F.lit(False))).drop(_TABLE)
