"""CONTRIBUTING's four steps are all that a new dialect needs: a toy one goes through the whole line.

Its messages are lines of text, `<commit LSN as 20 hex digits>,<I, U or D>,<id>,<name>`.
"""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from changeledger import change, config, images
from changeledger.config import Feed, KafkaTopics
from changeledger.contract import Column, Contract
from changeledger.dialects import base
from changeledger.dialects.registry import DIALECTS
from sourcelab.messages import Message, produce
from sourcelab.services import KafkaBroker
from tests.integration.line import message_feed, rows, run, window

pytestmark = pytest.mark.integration

COLUMNS = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, key_position=1),
        Column(name="name", type="nvarchar(20)", ordinal=2),
    ),
)


class LinesSource(KafkaTopics):
    """Step 1: what a user states of the connection, in `config.py`."""


def survey(raw: DataFrame, feed: Feed, known: base.Known) -> base.Survey:
    has_value = F.col("value").isNotNull()
    return base.Survey([base.Told("dbo.t", COLUMNS, raw.where(has_value))], raw.where(~has_value))


def decode(raw: DataFrame, contract: Contract, feed: Feed) -> DataFrame:
    """Step 2: one row of `base.DECODED` per message, bad ones with reason and detail."""
    parts = F.split(F.col("value").cast("string"), ",")
    staged = raw.withColumns(
        {
            "commit_lsn": F.try_to_binary(F.get(parts, F.lit(0)), F.lit("hex")),
            "letter": F.get(parts, F.lit(1)),
            "image": F.struct(
                F.get(parts, F.lit(2)).try_cast("int").alias("id"), F.get(parts, F.lit(3)).alias("name")
            ),
        }
    ).withColumn("key", images.key_of(images.fields("image", contract), contract))
    found = base.Problems()
    found.add(
        F.coalesce(F.length("commit_lsn"), F.lit(0)) != 10, "malformed_lsn", F.col("value").cast("string")
    )
    found.add(images.key_is_null("key", contract), "null_key", F.col("value").cast("string"))
    deletes = F.col("letter") == "D"
    nothing = {
        "before_gaps": "map<string,string>",
        "after_gaps": "map<string,string>",
        "changed": "array<string>",
    }
    nothing |= {
        "mask": "string",
        "change_lsn": "binary",
        "transaction_id": "string",
        "flags": "array<string>",
    }
    nothing |= {"pair_key": "binary", "ordinal": "bigint", "previous_key": change.key_type(contract)}
    words = {"I": change.INSERT, "U": change.UPDATE, "D": change.DELETE}
    said = F.create_map(*(F.lit(x) for pair in words.items() for x in pair))
    columns = {
        **{name: F.lit(None).cast(kind) for name, kind in nothing.items()},
        "operation": said[F.col("letter")],
        "key": F.col("key"),
        "before": F.when(deletes, F.col("image")),
        "after": F.when(~deletes, F.col("image")),
        "commit_lsn": F.col("commit_lsn"),
        "sort_key": F.col("commit_lsn"),
        "committed_at": F.col("timestamp"),
        "record": base.message_record(),
        "disposition": base.quarantined_if(F.col("reason"), F.lit(change.CHANGE)),
        "reason": F.col("reason"),
        "detail": F.col("detail"),
        "flags": base.flags({change.BEFORE_UNKNOWN: F.col("letter") == "U"}),
        "part": F.lit(base.WHOLE),
        "raw_key": F.col("key_bytes"),
        "raw_value": F.col("value"),
        "raw_headers": F.col("headers"),
    }
    judged = found.told(staged.withColumn("key_bytes", F.lit(None).cast("binary")))
    return judged.select(*(columns[name].alias(name) for name in base.DECODED))


def decode_other(raw: DataFrame, feed: Feed) -> DataFrame:
    nothing = F.lit(None).cast("string")
    return base.without_change(raw, F.lit(change.TOMBSTONE), nothing, nothing)


def test_a_sixth_dialect_goes_through_the_whole_line(
    spark: SparkSession, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(config.SOURCE_MODELS, "lines", LinesSource)
    # Step 3: a line in the registry. Step 4, its cases, is this test.
    monkeypatch.setitem(DIALECTS, "lines", base.MessageDialect("lines", survey, decode, decode_other))
    told = [f"{n:020X},{rest}".encode() for n, rest in enumerate(("I,1,a", "I,2,b", "U,1,c", "D,2,b"), 1)]
    values = [*told, b"12,I,3,x", f"{9:020X},I,,x".encode(), None]
    messages = [Message("lines", b"", value, (), 1_700_000_000_000) for value in values]
    produce(kafka.bootstrap, messages, partitions=1)
    feed = message_feed("lines", "lines", kafka, ["lines"], monkeypatch, tables=[{"table": "dbo.t"}])
    run(spark, feed, window())
    assert [(row["id"], row["name"]) for row in rows(spark, "lake.lines.dbo_t")] == [(1, "c")]
    assert len(rows(spark, "lake.lines.dbo_t_changes")) == 4
    reasons = {row["reason"] for row in rows(spark, "lake.lines.quarantine")}
    assert reasons == {"malformed_lsn", "null_key"}
    assert {row["disposition"] for row in rows(spark, "lake.lines.dispositions")} == {
        "quarantined",
        "tombstone",
    }
