"""Rows of change tables as they were told, cell by cell: which table's they are, and its columns.

A cell that a row does not tell is not NULL. So rows that tell the same columns stand in one frame, as if read
from a table that has these alone; what the others of the table tell is not captured in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from changeledger.change import RECORD_TYPE, quoted
from changeledger.config import Feed, TableConfig
from changeledger.contract import Column, Contract
from changeledger.decoding.records import NO_TABLE, Row, is_bytes
from changeledger.dialects.base import TableDialect, Told
from changeledger.dialects.table_rows import stored_names
from changeledger.stages import mask_orders, reading

# Number and cells of a row.
Numbered = tuple[int, Row]


class ChangeTable(NamedTuple):
    """The rows of one change table. Its columns are named as they are first, in whatever case they come."""

    table: str
    rows: Sequence[Numbered]
    # Lower-case name to name, in the order of the row that tells most.
    names: Mapping[str, str]
    # Those of the dialect's own.
    header: frozenset[str]
    # What is stated of the table; None where nothing is.
    contract: Contract | None
    config: TableConfig

    def shape(self, told: frozenset[str], *, counts_header: bool) -> Contract:
        """The columns of rows that tell `told`, and the key's, with their places in a mask."""
        before = len(self.header) if counts_header else 0
        known = {} if self.contract is None else {c.name.lower(): c for c in self.contract.columns}
        if any(c.ordinal == 1 for c in known.values()):
            known = {n: c.model_copy(update={"ordinal": c.ordinal + before}) for n, c in known.items()}
        last = max((c.ordinal for c in known.values()), default=before)
        others = [name for name in self.names if name not in known and name not in self.header]
        found = [
            *(column for name, column in known.items() if name in told or column.key_position),
            *(self._told(name, at) for at, name in enumerate(others, last + 1) if name in told),
        ]
        return Contract(table=self.table, columns=tuple(found))

    def _told(self, name: str, ordinal: int) -> Column:
        """A column as the feed states it, else as text."""
        types = {c.name.lower(): c.type for c in self.config.stated}
        places = {key.lower(): at for at, key in enumerate(self.config.key, 1)}
        return Column(
            name=self.names[name],
            type=types.get(name, "nvarchar(max)"),
            ordinal=ordinal,
            key_position=places.get(name, 0),
        )

    def groups(self) -> Iterator[tuple[frozenset[str], list[Numbered]]]:
        """The rows by the columns that they tell, those that tell most first."""
        by_columns: dict[frozenset[str], list[Numbered]] = {}
        for numbered in self.rows:
            by_columns.setdefault(frozenset(map(str.lower, numbered[1].cells)), []).append(numbered)
        yield from sorted(by_columns.items(), key=lambda group: -len(group[0]))


def change_tables(
    dialect: TableDialect, feed: Feed, rows: Sequence[Numbered], contracts: Mapping[str, Contract]
) -> tuple[list[ChangeTable], list[Numbered]]:
    """The tables of the rows, and the rows of tables that the feed does not list."""
    by_name: dict[str, list[Numbered]] = {}
    for n, row in rows:
        by_name.setdefault(row.table, []).append((n, row))
    found, others = [], []
    for name, of_table in by_name.items():
        table = dialect.source_table(name)
        contract = _contract_of(name, table, contracts, is_alone=len(by_name) == 1)
        config = _config_of(table, feed)
        if contract is None and config is None and feed.tables:
            others += of_table
            continue
        by_width = sorted(of_table, key=lambda numbered: -len(numbered[1].cells))
        names: dict[str, str] = {}
        for _, row in by_width:
            for cell in row.cells:
                names.setdefault(cell.lower(), cell)
        config = config or TableConfig.model_construct(table=table)
        table = config.table if contract is None else contract.table
        header = frozenset(n for n, told in names.items() if dialect.is_header(told, feed))
        found.append(ChangeTable(table, of_table, names, header, contract, config))
    return found, others


def _contract_of(
    name: str, table: str, contracts: Mapping[str, Contract], *, is_alone: bool
) -> Contract | None:
    """The contract of a source table; one of the two names may lack the schema.

    The only contract is that of the only table, where that has a name that says nothing: a capture instance
    is named as people like.
    """
    for same in (_same_table, _same_but_for_the_schema):
        of_table = [contract for known, contract in contracts.items() if same(known, table)]
        if len(of_table) == 1:
            return of_table[0]
    has_no_name = name == NO_TABLE or "." not in name.lower().removeprefix("cdc.")
    return next(iter(contracts.values())) if is_alone and has_no_name and len(contracts) == 1 else None


def _config_of(table: str, feed: Feed) -> TableConfig | None:
    return feed.table(table) or next((c for c in feed.tables if _same_table(c.table, table)), None)


def _same_table(one: str, other: str) -> bool:
    """Do both name one table? A capture instance has an underscore for the dot."""
    return one.replace(".", "_").lower() == other.replace(".", "_").lower()


def _same_but_for_the_schema(one: str, other: str) -> bool:
    (schema, _, name), (other_schema, _, other_name) = (x.lower().rpartition(".") for x in (one, other))
    return name == other_name and not (schema and other_schema)


def inputs(
    spark: SparkSession, dialect: TableDialect, feed: Feed, tables: Sequence[ChangeTable]
) -> list[reading.Input]:
    """The tables' rows decoded. The rows of a table prove the byte order of its masks together."""
    counts = dialect.masks_count_header
    told, settled, stated = [], {}, {}
    for table in tables:
        everything = table.shape(frozenset(table.names), counts_header=counts)
        together = _frame(spark, table, table.names, table.rows)
        settled[table.table] = mask_orders.settled_alone(dialect, feed, everything, together)
        if table.contract is not None:
            stated[table.table] = table.contract
        for columns, rows in table.groups():
            names = {name: table.names[name] for name in table.names if name in columns}
            shape = table.shape(columns, counts_header=counts)
            told.append(Told(table.table, shape, _frame(spark, table, names, rows)))
    return reading.inputs(dialect, feed, told, reading.Known(stated, partial(_settled, settled)))


def _settled(
    settled: Mapping[str, tuple[Contract, str | None]], shape: Contract, _records: DataFrame
) -> tuple[Contract, str | None]:
    of_table, why_not = settled[shape.table]
    return shape.model_copy(update={"mask_order": of_table.mask_order}), why_not


def _frame(
    spark: SparkSession, table: ChangeTable, names: Mapping[str, str], rows: Sequence[Numbered]
) -> DataFrame:
    """Cells as text, for the contract to read; header columns that hold bytes as those."""
    cells = [{name.lower(): cell for name, cell in row.cells.items()} for _, row in rows]

    def is_binary(name: str) -> bool:
        told = [row[name] for row in cells if row.get(name) is not None]
        return name in table.header and bool(told) and all(is_bytes(cell or "") for cell in told)

    binary = {name for name in names if is_binary(name)}
    kinds = [(names[name], "binary" if name in binary else "string") for name in names]
    kept = stored_names(kinds, {})
    fields = [
        T.StructField(name, T.BinaryType() if kind == "binary" else T.StringType())
        for name, (_, kind) in zip(kept, kinds, strict=True)
    ]

    def value(name: str, cell: str | None) -> str | bytes | None:
        return bytes.fromhex(cell[2:]) if cell is not None and name in binary else cell

    data = [
        (n, *(value(name, row.get(name)) for name in names)) for (n, _), row in zip(rows, cells, strict=True)
    ]
    frame = spark.createDataFrame(data, T.StructType([T.StructField("record", T.LongType()), *fields]))
    place = F.struct(
        F.lit(table.table).alias("source"),
        F.lit(None).alias("partition"),
        F.col("record").alias("offset"),
        F.lit(None).alias("row"),
    )
    return frame.select(place.cast(RECORD_TYPE).alias("record"), *(F.col(quoted(name)) for name in kept))
