"""Topics that tell several tables, as a router of topics leaves them: `source` says which."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger.dialects.base import Sample

_TABLE = "table_told"


def routed(messages: DataFrame, topics: Collection[str]) -> DataFrame:
    """The messages of these topics, with the table that each tells in lower case; NULL for none."""
    text = F.concat(F.lit("["), F.col("value").cast("string"), F.lit("]"))
    source = "source:struct<schema:string,table:string>"
    message = F.get(F.from_json(text, f"array<struct<payload:struct<{source}>,{source}>>"), F.lit(0))
    told = F.coalesce(message["payload"]["source"], message["source"])
    table = F.lower(F.concat(told["schema"], F.lit("."), told["table"]))
    return messages.where(F.col("topic").isin(list(topics))).withColumn(_TABLE, table)


def samples_of_each_table(found: DataFrame) -> list[Sample]:
    """The first and the last message of every table of every topic."""
    place, message = F.struct("offset", "partition"), F.struct("topic", "key", "value")
    ends = F.array(F.min_by(message, place), F.max_by(message, place)).alias("ends")
    rows = found.where(F.col(_TABLE).isNotNull()).groupBy("topic", _TABLE).agg(ends).collect()
    rows.sort(key=lambda row: (row["topic"], row[_TABLE]))
    return [Sample(*end) for row in rows for end in row["ends"]]


def of_table(found: DataFrame, topic: str, table: str) -> DataFrame:
    return found.where((F.col("topic") == topic) & (F.col(_TABLE) == table.lower())).drop(_TABLE)


def of_no_table(found: DataFrame, tables: Mapping[str, Collection[str]]) -> DataFrame:
    """The messages that tell none of the tables of their topic: control messages and tombstones, mostly."""
    is_told = F.lit(False)
    for topic, names in tables.items():
        is_told |= (F.col("topic") == topic) & F.col(_TABLE).isin([name.lower() for name in names])
    return found.where(~F.coalesce(is_told, F.lit(False))).drop(_TABLE)
