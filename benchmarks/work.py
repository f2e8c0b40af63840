"""What the benchmark runs: sources with a generated log, the line, and what it is compared with."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from changeledger.config import PROJECT, Feed
from changeledger.stages import audit, extract, normalize, publish, reconcile
from changeledger.storage.session import spark_session
from changeledger.window import Window as RunWindow
from sourcelab import sqlserver_cdc
from sourcelab.log import Log, Transaction
from sourcelab.services import KafkaBroker, Postgres
from sourcelab.tables import Column, Table

COLUMNS = """
id int
name nvarchar(50)
n1 int
n2 int
amount decimal(18,2)
d date
ts datetime2(6)
flag bit
city nvarchar(50)
x float
"""

# The same columns as they are on the wire, for the plain ways to read them.
_ROW = (
    "struct<id:int,name:string,n1:int,n2:int,amount:string,d:int,ts:bigint,flag:boolean,city:string,x:double>"
)
ENVELOPE = (
    f"before {_ROW}, after {_ROW}, source struct<connector:string,ts_ms:bigint,snapshot:string,db:string,"
    "`table`:string,change_lsn:string,commit_lsn:string,event_serial_no:bigint>, op string"
)
TOPIC = "bench.dbo.t"
STAGES = (extract, normalize, reconcile, audit, publish)
# Keys: the first changes insert them, the others update them in turn.
KEYS = 0.2


def timed(work: Callable[[], None]) -> float:
    started = time.monotonic()
    work()
    return time.monotonic() - started


class Bench:
    def __init__(self, home: Path, changes: int) -> None:
        self._home = home
        self._changes = changes
        self._keys = int(changes * KEYS)
        self._services = ExitStack()

    def __enter__(self) -> Self:
        self._kafka = self._services.enter_context(KafkaBroker(PROJECT / ".jars" / "kafka", self._home))
        self._postgres = self._services.enter_context(Postgres(self._home))
        self.spark = spark_session("changeledger-bench")
        self.spark.sparkContext.setLogLevel("ERROR")
        self.spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.plain")
        self.feeds = [self._debezium(), self._cdc()]
        self._fill_kafka()
        self._fill_postgres()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._services.close()

    def floor(self) -> float:
        """Seconds from JSON files to Iceberg rows, parsed by Spark with a given schema."""
        messages = self._home / "messages"
        self._messages().select(F.col("value").cast("string")).write.text(str(messages))
        read = self.spark.read.schema(ENVELOPE).json(str(messages))
        return timed(lambda: read.writeTo("lake.plain.floor").using("iceberg").create())

    def by_hand(self) -> None:
        """What one would write without this project."""
        read = (
            self.spark.read.format("kafka")
            .option("kafka.bootstrap.servers", self._kafka.bootstrap)
            .option("subscribe", TOPIC)
            .option("maxRecordsPerPartition", "250000")
            .load()
        )
        typed = read.select(
            "partition", "offset", F.from_json(F.col("value").cast("string"), ENVELOPE).alias("m")
        )
        typed.select("partition", "offset", "m.*").writeTo("lake.plain.changes").using("iceberg").create()
        last = Window.partitionBy("after.id").orderBy(
            F.desc("source.commit_lsn"), F.desc("source.change_lsn"), F.desc("source.event_serial_no")
        )
        newest = (
            self.spark.table("lake.plain.changes")
            .withColumn("n", F.row_number().over(last))
            .where(F.col("n") == 1)
            .select("op", "after.*")
        )
        newest.limit(0).drop("op").writeTo("lake.plain.current").using("iceberg").create()
        newest.createOrReplaceTempView("newest")
        names = [line.split()[0] for line in COLUMNS.strip().splitlines()]
        self.spark.sql(
            "MERGE INTO lake.plain.current t USING newest s ON t.id = s.id WHEN MATCHED AND s.op = 'd' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{n} = s.{n}' for n in names)} WHEN NOT MATCHED THEN "
            f"INSERT ({', '.join(names)}) VALUES ({', '.join(f's.{n}' for n in names)})"
        )

    def line(self, feed: Feed) -> dict[str, float]:
        over = RunWindow(start=datetime(2020, 1, 1, tzinfo=UTC), end=datetime.now(UTC))
        return {
            stage.__name__.rsplit(".", 1)[1]: timed(lambda s=stage: s.run(self.spark, feed, over))  # type: ignore[misc]
            for stage in STAGES
        }

    def _debezium(self) -> Feed:
        columns = [
            dict(zip(("name", "type"), line.split(), strict=True)) for line in COLUMNS.strip().splitlines()
        ]
        connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": self._kafka.bootstrap}}
        os.environ["AIRFLOW_CONN_BENCH_KAFKA"] = json.dumps(connection)
        return Feed.model_validate(
            {
                "feed": "bench_debezium", "dialect": "debezium", "database": "bench", "connection": "bench_kafka",
                "source": {"topics": [TOPIC]}, "tables": [{"table": "dbo.t", "key": ["id"], "columns": columns}],
            }
        )  # fmt: skip

    def _cdc(self) -> Feed:
        os.environ["AIRFLOW_CONN_BENCH_SQL"] = json.dumps(self._postgres.connection)
        return Feed.model_validate(
            {
                "feed": "bench_cdc", "dialect": "sqlserver_cdc", "database": "bench", "connection": "bench_sql",
                "source": {}, "tables": [{"table": "dbo.t"}],
            }
        )  # fmt: skip

    def _numbers(self) -> DataFrame:
        """One change a row: its number, the row it makes, and the row it found."""
        after = self.spark.range(self._changes).withColumnRenamed("id", "i")
        return after.withColumn("lsn", F.lpad(F.hex(F.col("i") + 1), 20, "0"))

    def _row(self, number: str) -> dict[str, str]:
        """SQL for the cells of the row that change `number` makes."""
        return {
            "id": f"cast({number} % {self._keys} as int)",
            "name": f"concat('customer ', {number})",
            "n1": f"cast({number} % 1000003 as int)",
            "n2": f"cast({number} * 7 % 1000003 as int)",
            "amount": f"cast(({number} + 1) * 25 as bigint)",
            "d": f"cast(19000 + {number} % 1000 as int)",
            "ts": f"1700000000000000 + {number}",
            "flag": "true",
            "city": f"concat('city ', {number} % 100)",
            "x": "1.5",
        }

    def _messages(self) -> DataFrame:
        def image(number: str) -> str:
            cells = self._row(number) | {
                "amount": f"base64(unhex(lpad(hex({self._row(number)['amount']}), 16, '0')))"
            }
            quoted = {"name", "amount", "city"}
            parts = [
                f"""'"{n}":{'"' if n in quoted else ""}', {v}, '{'"' if n in quoted else ""}'"""
                for n, v in cells.items()
            ]
            return "concat('{', " + ", ',', ".join(parts) + ", '}')"

        lsn = (
            "concat(substr(lower(lsn), 1, 8), ':', substr(lower(lsn), 9, 8), ':', substr(lower(lsn), 17, 4))"
        )
        source = (
            """concat('{"version":"3.1.0.Final","connector":"sqlserver","name":"bench","ts_ms":', 1700000000000 + i, """
            f"""',"snapshot":"false","db":"bench","sequence":null,"schema":"dbo","table":"t","change_lsn":"', {lsn}, """
            f"""'","commit_lsn":"', {lsn}, '","event_serial_no":', if(i < {self._keys}, 1, 2), '}}')"""
        )
        before = f"if(i < {self._keys}, 'null', {image(f'(i - {self._keys})')})"
        value = (
            f"""concat('{{"before":', {before}, ',"after":', {image("i")}, ',"source":', {source}, ',"op":"', """
            f"""if(i < {self._keys}, 'c', 'u'), '","ts_ms":1700000000001,"transaction":null}}')"""
        )
        return self._numbers().selectExpr(
            f"""concat('{{"id":', i % {self._keys}, '}}') as key""", f"{value} as value"
        )

    def _fill_kafka(self) -> None:
        topic = NewTopic(TOPIC, 2, 1, config={"retention.ms": "-1"})
        admin = AdminClient({"bootstrap.servers": self._kafka.bootstrap})
        admin.create_topics([topic])[TOPIC].result()
        (
            self._messages()
            .write.format("kafka")
            .option("kafka.bootstrap.servers", self._kafka.bootstrap)
            .option("topic", TOPIC)
            .save()
        )

    def _fill_postgres(self) -> None:
        lines = [line.split() for line in COLUMNS.strip().splitlines()]
        table = Table(
            "dbo", "t", tuple(Column(n, k, at, True) for at, (n, k) in enumerate(lines, 1)), ("id",)
        )
        now = datetime(2024, 1, 1, tzinfo=UTC)
        sqlserver_cdc.load(
            self._postgres.url, Log((table,), (Transaction(now, now, bytes(10), bytes(10), ()),)), to_tx=0
        )
        changes, keys = self._numbers(), self._keys
        inserts = changes.where(f"i < {keys}").selectExpr(*self._ct("i", 2, "03FF"))
        updates = changes.where(f"i >= {keys}")
        # Five cells differ: name, n1, n2, amount and ts, ordinals 2, 3, 4, 5 and 7.
        before = updates.selectExpr(*self._ct(f"(i - {keys})", 3, "005E"))
        after = updates.selectExpr(*self._ct("i", 4, "005E"))
        self._write(inserts.unionByName(before).unionByName(after), 'cdc."dbo_t_CT"')
        times = changes.selectExpr(
            "unhex(lsn) as start_lsn", "timestamp_millis(1700000000000 + i) as tran_begin_time",
            "timestamp_millis(1700000000000 + i) as tran_end_time", "unhex('01') as tran_id", "unhex(lsn) as tran_begin_lsn",
        )  # fmt: skip
        self._write(times, "cdc.lsn_time_mapping")

    def _ct(self, number: str, operation: int, mask: str) -> list[str]:
        cells = self._row(number) | {
            "amount": f"cast({self._row(number)['amount']} / 100 as decimal(18,2))",
            "d": f"date_from_unix_date({self._row(number)['d']})",
            "ts": f"timestamp_micros({self._row(number)['ts']})",
            "x": "cast(1.5 as double)",
        }
        return [
            "unhex(lsn) as `__$start_lsn`", "cast(null as binary) as `__$end_lsn`", "unhex(lsn) as `__$seqval`",
            f"{operation} as `__$operation`", f"unhex('{mask}') as `__$update_mask`",
            *(f"{sql} as {name}" for name, sql in cells.items()), "1 as `__$command_id`",
        ]  # fmt: skip

    def _write(self, rows: DataFrame, table: str) -> None:
        place = self._postgres.connection
        (
            rows.write.format("jdbc")
            .option("url", f"jdbc:postgresql://{place['host']}:{place['port']}/{place['schema']}")
            .option("driver", "org.postgresql.Driver")
            .option("user", str(place["login"]))
            .option("password", str(place["password"]))
            .option("dbtable", table)
            .option("batchsize", "10000")
            .mode("append")
            .save()
        )
