"""The feed that the benchmarks read: Debezium messages of tables like those of the stream."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from benchmarks.shapes import PLAIN, Shape

if TYPE_CHECKING:
    from changeledger.config.feed import Feed


def feed_of(bootstrap: str, topics: Sequence[str], shape: Shape = PLAIN) -> Feed:
    """Returns the feed of these topics (`<server>.dbo.<table>`), and sets its connection variable."""
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": bootstrap}}
    os.environ["AIRFLOW_CONN_BENCH_KAFKA"] = json.dumps(connection)
    from changeledger.config.feed import Feed  # noqa: PLC0415 - it reads the settings

    columns = [{"name": name, "type": column.sql} for name, column in shape.columns.items()]
    tables = [topic.partition(".")[2] for topic in topics]
    return Feed.model_validate(
        {
            "feed": "bench", "dialect": "debezium", "database": "bench", "connection": "bench_kafka",
            "source": {"topics": list(topics), "decimal.handling.mode": "string"},
            "tables": [{"table": table, "key": ["id"], "columns": columns} for table in tables],
        }
    )  # fmt: skip
