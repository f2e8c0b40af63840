"""Two feeds of one log, and their records in three parts. Runs with version 0.1, too.

Its first two parts are in the lake of `lake-0.1.tar.xz`: what the log gives must not change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pyspark.sql import SparkSession

from changeledger.config.feed import Feed
from changeledger.model.window import Window
from changeledger.stages import audit, extract, normalize, publish, reconcile
from sourcelab import base_tables, ces, sqlserver_cdc
from sourcelab.log import simulate
from sourcelab.messages import Message, produce

LOG = simulate(7, 36)
# The transactions of each part.
PARTS = ((0, 14), (14, 26), (26, len(LOG.transactions)))
TABLES = ("dbo.customers", "dbo.parts")
TOPIC = "old.changes"
STAGES = (extract, normalize, reconcile, audit, publish)
# Nobody can read it.
BROKEN = Message(TOPIC, b"dbo.customers", b"{", (), 1)


def feeds(computed: str = "credit") -> dict[str, Feed]:
    """`computed`: a column of the customers of which the change tables are taken to have no values."""
    stated = [{"table": TABLES[0], "columns": [{"name": computed, "computed": True}]}, {"table": TABLES[1]}]
    common: dict[str, Any] = {"database": "shop", "quarantine_limit": 1.0}
    return {
        "old_ces": Feed.model_validate(
            {
                **common, "feed": "old_ces", "dialect": "ces", "connection": "old_kafka",
                "source": {"topics": [TOPIC]}, "tables": [{"table": name} for name in TABLES],
            }
        ),
        "old_cdc": Feed.model_validate(
            {
                **common, "feed": "old_cdc", "dialect": "sqlserver_cdc", "connection": "old_postgres",
                "source": {}, "tables": stated,
            }
        ),
    }  # fmt: skip


def messages() -> list[list[Message]]:
    """By part. The second ends in the middle of an event, and has a message that is broken; one is lost."""
    found = [list(_of_tables(*part)) for part in PARTS]
    first, second, third = found
    del first[next(at for at, one in enumerate(first) if _is(one, "UPD"))]
    cut = next(at for at in range(len(second) - 1, 0, -1) if not _is(second[at], segmentindex=0))
    return [first, [*second[:cut], BROKEN], [*second[cut:], *third]]


def _of_tables(first: int, last: int) -> Iterator[Message]:
    for one in ces.messages(LOG, split_at=900, topic=TOPIC, from_tx=first, to_tx=last):
        if (one.key or b"").decode() in TABLES:
            yield one


def _is(message: Message, operation: str | None = None, segmentindex: int = 0) -> bool:
    envelope = json.loads(message.value or b"{}")
    return envelope["segmentindex"] == segmentindex and operation in {None, envelope["operation"]}


def send(number: int, bootstrap: str, url: str) -> None:
    """The part's messages, and its rows of the change tables and of the tables themselves."""
    produce(bootstrap, messages()[number], partitions=1)
    first, last = PARTS[number]
    for source in (base_tables, sqlserver_cdc):
        if number:
            source.append(url, LOG, first, last)
        else:
            source.load(url, LOG, last)


def run(spark: SparkSession, feed: Feed, over: Window, stages: int = len(STAGES)) -> None:
    """The first stages of the window."""
    for stage in STAGES[:stages]:
        stage.run(spark, feed, over)
