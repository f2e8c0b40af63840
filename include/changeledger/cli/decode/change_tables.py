"""Assigns rows of change tables to their tables and determines the tables' columns.

A cell that a row does not have is not NULL. So rows with the same columns are read together: the table's
other columns are not captured in them, but have their bits in the masks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from changeledger.cli.decode.records import NO_TABLE, Row, is_bytes
from changeledger.cli.decode.results import WINDOW, Result
from changeledger.config.feed import Feed
from changeledger.config.tables import TableConfig
from changeledger.dialects.interface import TableDialect
from changeledger.dialects.kernel import ResolvedSchema
from changeledger.dialects.tables.rows import stored_names
from changeledger.kernels.arrow import RECORD
from changeledger.kernels.in_memory import InMemory
from changeledger.kernels.rows import Rows, together
from changeledger.model import change
from changeledger.model.contract import Column, Contract
from changeledger.model.source_names import TABLES_ALIKE, meant, not_meant
from changeledger.stages.normalization import reading
from changeledger.stages.normalization.mask_reading import resolved_alone

# A row with its number.
Numbered = tuple[int, Row]


class ChangeTable(NamedTuple):
    """The rows of one change table. Its columns have the case in which they first occur."""

    table: str
    rows: Sequence[Numbered]
    # Names by lower-case name, in the order of the row with the most columns.
    names: Mapping[str, str]
    # The dialect's own columns, in lower case.
    header: frozenset[str]
    # The stated contract of the table, or None.
    contract: Contract | None
    config: TableConfig

    def columns(self, *, counts_header: bool) -> Contract:
        """Returns the contract of the rows' columns and of the key's, with ordinals as in a mask."""
        before = len(self.header) if counts_header else 0
        known = {} if self.contract is None else {c.name.lower(): c for c in self.contract.columns}
        if any(c.ordinal == 1 for c in known.values()):
            known = {n: c.model_copy(update={"ordinal": c.ordinal + before}) for n, c in known.items()}
        last = max((c.ordinal for c in known.values()), default=before)
        others = [name for name in self.names if name not in known and name not in self.header]
        columns = [
            *(column for name, column in known.items() if name in self.names or column.key_position),
            *(self._column(name, at) for at, name in enumerate(others, last + 1)),
        ]
        return Contract(table=self.table, columns=tuple(columns))

    def _column(self, name: str, ordinal: int) -> Column:
        """Returns a column with the type that the feed states, or else as text."""
        types = {c.name.lower(): c.type for c in self.config.stated}
        places = {key.lower(): at for at, key in enumerate(self.config.key, 1)}
        return Column(
            name=self.names[name],
            type=types.get(name, "nvarchar(max)"),
            ordinal=ordinal,
            key_position=places.get(name, 0),
        )

    def groups(self) -> Iterator[tuple[frozenset[str], list[Numbered]]]:
        """Yields the rows grouped by their columns, those with the most columns first."""
        by_columns: dict[frozenset[str], list[Numbered]] = {}
        for numbered in self.rows:
            by_columns.setdefault(frozenset(map(str.lower, numbered[1].cells)), []).append(numbered)
        yield from sorted(by_columns.items(), key=lambda group: -len(group[0]))


def change_tables(
    dialect: TableDialect, feed: Feed, rows: Sequence[Numbered], contracts: Mapping[str, Contract]
) -> tuple[list[ChangeTable], list[Result]]:
    """Returns the change tables of the rows, and the results of rows that belong to no table of the feed."""
    by_name: dict[str, list[Numbered]] = {}
    for n, row in rows:
        by_name.setdefault(row.table, []).append((n, row))
    tables = {name: dialect.source_table(name) for name in by_name}
    row_tables: list[ChangeTable] = []
    others: list[Result] = []
    for name, of_table in by_name.items():
        table = tables[name]
        contract = _contract_of(name, table, contracts, is_alone=len(by_name) == 1)
        config = _config_of(table, feed)
        if contract is None and config is None and feed.tables:
            others += _results(of_table, change.CONTROL, change.TABLE_NOT_IN_FEED, name)
            continue
        listed = config if contract is None else contract
        meant_table = None if listed is None else _own_name(listed.table, tables.values())
        if listed is not None and table != meant_table and _same_table(table, listed.table):
            why = not_meant(table, listed.table, meant_table)
            others += _results(of_table, change.QUARANTINED, TABLES_ALIKE, why)
            continue
        by_width = sorted(of_table, key=lambda numbered: -len(numbered[1].cells))
        names: dict[str, str] = {}
        for _, row in by_width:
            for cell in row.cells:
                names.setdefault(cell.lower(), cell)
        config = config or TableConfig.model_construct(table=table)
        table = config.table if contract is None else contract.table
        stated = [column.name for column in (config.stated if contract is None else contract.columns)]
        header = dialect.header_names(list(names.values()), feed, [*config.key, *stated])
        row_tables.append(ChangeTable(table, of_table, names, header, contract, config))
    return row_tables, others


def _results(rows: Sequence[Numbered], disposition: str, reason: str, detail: str) -> list[Result]:
    return [{"record": n, "disposition": disposition, "reason": reason, "detail": detail} for n, _ in rows]


def _own_name(listed: str, tables: Iterable[str]) -> str | None:
    """Returns which of the rows' tables is the listed one, or None if that is uncertain.

    The name of a capture instance has an underscore for the dot, and possibly further underscores.
    """
    alike = {table for table in tables if _same_table(table, listed)}
    exact = next((table for table in alike if table.replace(".", "_") == listed.replace(".", "_")), listed)
    return meant(exact, None, alike)


def _contract_of(
    name: str, table: str, contracts: Mapping[str, Contract], *, is_alone: bool
) -> Contract | None:
    """Returns the contract of a source table, or None. One of the two names may lack the schema.

    The only contract applies to the only table if the table's name does not tell: people name capture
    instances as they like.
    """
    for same in (_same_table, _same_but_for_the_schema):
        of_table = [contract for known, contract in contracts.items() if same(known, table)]
        if len(of_table) == 1:
            return of_table[0]
    has_no_name = name == NO_TABLE or "." not in name.lower().removeprefix("cdc.")
    return next(iter(contracts.values())) if is_alone and has_no_name and len(contracts) == 1 else None


def _config_of(table: str, feed: Feed) -> TableConfig | None:
    return feed.table(table) or next((c for c in feed.tables if _same_table(c.table, table)), None)


def _same_table(table: str, other: str) -> bool:
    """Returns whether both names are of one table. A capture instance has an underscore for the dot."""
    return table.replace(".", "_").lower() == other.replace(".", "_").lower()


def _same_but_for_the_schema(table: str, other: str) -> bool:
    (schema, _, name), (other_schema, _, other_name) = (x.lower().rpartition(".") for x in (table, other))
    return name == other_name and not (schema and other_schema)


def inputs(dialect: TableDialect, feed: Feed, tables: Sequence[ChangeTable]) -> list[reading.Input]:
    """Decodes the tables' rows. All rows of a table together determine the byte order of its masks."""
    counts = dialect.masks_count_header
    records, resolved, stated = [], {}, {}
    for table in tables:
        schema = table.columns(counts_header=counts)
        groups = [_records(dialect, feed, table, schema, rows, names) for names, rows in table.groups()]
        all_rows = _records(dialect, feed, table, schema, table.rows)
        all_rows = replace(all_rows, decode=partial(_decoded_by_group, groups))
        resolved[table.table] = resolved_alone(all_rows, schema)
        if table.contract is not None:
            stated[table.table] = table.contract
        records += groups
    return reading.inputs(records, reading.TableKnowledge(stated, partial(_resolved, resolved)))


def _decoded_by_group(
    groups: Sequence[reading.Records], _raw: Rows, resolved: ResolvedSchema, contract: Contract
) -> Rows:
    """Returns the decoded rows of all groups, to determine the byte order of their masks.

    A NULL says something of that order, a cell that a row does not have says nothing.
    """
    return together([group.decoded(resolved, contract) for group in groups])


def _resolved(
    resolved: Mapping[str, ResolvedSchema], _records: reading.Records, writer_schema: Contract
) -> ResolvedSchema:
    of_table = resolved[writer_schema.table]
    order = of_table.writer_schema.mask_order
    return of_table._replace(writer_schema=writer_schema.model_copy(update={"mask_order": order}))


def _records(  # noqa: PLR0913, PLR0917 - the rows, and what is known of them
    dialect: TableDialect,
    feed: Feed,
    table: ChangeTable,
    writer_schema: Contract,
    rows: Sequence[Numbered],
    names: frozenset[str] | None = None,
) -> reading.Records:
    """Returns rows with all columns of their table, or with the columns `names`."""
    raw = _batch(table, [name for name in table.names if names is None or name in names], rows)
    return reading.of_change_table(dialect.kernel, table.table, writer_schema, InMemory.of(raw), feed, WINDOW)


def _batch(table: ChangeTable, names: Sequence[str], rows: Sequence[Numbered]) -> pa.RecordBatch:
    """Returns the cells as text, which the contract parses. Header columns with bytes become binary."""
    by_row = [{name.lower(): cell for name, cell in row.cells.items()} for _, row in rows]
    cells = {table.names[name]: _cells(table, name, [row.get(name) for row in by_row]) for name in names}
    stored = stored_names(pa.schema([(name, values.type) for name, values in cells.items()]), {})
    record = [{"source": table.table, "offset": n} for n, _ in rows]
    columns = [pa.array(record, RECORD), *cells.values()]
    return pa.RecordBatch.from_arrays(columns, ["source_position", *stored])


def _cells(table: ChangeTable, name: str, cells: Sequence[str | None]) -> pa.Array:
    known = [cell for cell in cells if cell is not None]
    if name in table.header and known and all(map(is_bytes, known)):
        return pa.array([None if cell is None else bytes.fromhex(cell[2:]) for cell in cells], pa.binary())
    return pa.array(cells, pa.string())
