"""The interface of a dialect: its kernel, and the queries to its source beside the records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from changeledger.config.feed import Feed
from changeledger.dialects.kernel import MessageKernel
from changeledger.dialects.messages.message_keys import ReadCell, of_text
from changeledger.dialects.messages.samples import Sample
from changeledger.dialects.tables.interface import TableKernel
from changeledger.model.contract import Contract
from changeledger.model.source_state import SourceState
from changeledger.model.window import Window

if TYPE_CHECKING:
    from sqlalchemy import FromClause, Select


@dataclass(frozen=True)
class MessageDialect:
    """A dialect on Kafka topics."""

    kernel: MessageKernel
    # Whether the source itself says which columns are computed.
    knows_computed: bool = False
    # Whether the LSNs are those of commits, so that commit times rise with them.
    has_commit_lsns: bool = False
    # Whether rows of a full load have no position, so that they count as older than every change.
    has_loads_without_position: bool = False
    # Whether a change may lack an LSN, and then sorts before all that have one.
    has_changes_without_lsn: bool = False
    # Returns a table's columns as text, by the names in messages without types, or None if they have no
    # names. The field is None for a dialect whose messages always have types.
    named_columns: Callable[[Sequence[Sample], str], Contract | None] | None = None
    # Reads the cells of messages' keys in JSON.
    read_key_cell: ReadCell = of_text

    @property
    def name(self) -> str:
        return self.kernel.name


class ChangeTable(NamedTuple):
    """A change table: the source table whose changes it has, and its current columns."""

    table: str
    # The unique name of the change table (`dbo_orders`, `dbo.orders__ct`). Two capture instances may capture
    # one table.
    instance: str
    writer_schema: Contract


# How far each table is read: the position of the last row, as text that sorts like the position, by table.
TablePositions = Mapping[str, str]


class Caution(NamedTuple):
    """A warning about what may be wrong or missing in a source's records, though nothing in them shows it."""

    text: str
    remedy: str


class SourceDatabase(Protocol):
    """The queries that a reader of change tables sends to the database."""

    def rows(self, query: Select[Any]) -> Sequence[Mapping[str, Any]]:
        """Returns the rows of a small result."""
        ...

    def columns(self, source: FromClause) -> Sequence[str]:
        """Returns the names of a table's columns."""
        ...


class TableReader(Protocol):
    """The change tables of one feed, as the database has them now."""

    @property
    def tables(self) -> Sequence[ChangeTable]:
        """The change tables; those of one source table in the order in which they succeed each other."""
        ...

    def check(self, released: TablePositions) -> None:
        """Raises SourceDataLostError if changes after `released` are gone from the source."""
        ...

    def landmarks(self, positions: TablePositions) -> Mapping[str, str]:
        """Returns, by table, marks by which the source identifies the positions; unknown ones are left out.

        A source that was restored from a backup and has grown since gives other marks. Raises
        SourceDataLostError if the source no longer has a position although it has older ones.
        """
        ...

    def source_states(self, read: TablePositions, at: datetime) -> Sequence[SourceState]:
        """Returns how far the source reaches now, compared with how far its tables are read."""
        ...

    def kept_since(self) -> datetime | None:
        """Returns the time of the oldest change that the source has; None if it has none or does not say."""
        ...

    def cautions(self) -> Sequence[Caution]:
        """Returns cautions that follow from the source's metadata of its tables."""
        ...

    def bounds(self, window: Window, released: TablePositions) -> tuple[TablePositions, TablePositions]:
        """Returns what the window reads of each table: `(from, to]`.

        A table without a `from` is read from its beginning; one without a `to` has nothing to read yet.
        """
        ...

    def queries(self, table: ChangeTable, after: str | None, to: str | None) -> Sequence[Select[Any]]:
        """Returns one or more SELECTs that together give each row of `(after, to]` once."""
        ...


class DecisiveSetting(NamedTuple):
    """A setting by which rows are read: its name in the feed's YAML, and how to get its value."""

    name: str
    value_in: Callable[[Feed], str]


@dataclass(frozen=True)
class TableDialect:
    """A dialect in change tables, read over JDBC."""

    kernel: TableKernel
    # Raises ConfigError and ContractError if the feed's tables cannot be read as configured.
    reader: Callable[[Feed, SourceDatabase], TableReader]
    # Returns the source table of a change table, by the change table's name.
    source_table: Callable[[str], str]
    # Returns which columns of a change table are the dialect's own, in lower case. Takes the table's columns
    # in their order, the feed, and the source's columns that are stated.
    header_names: Callable[[Sequence[str], Feed, Collection[str]], frozenset[str]]
    # Completes rows given as text, without a source, with what `reader` would have queried beside them.
    completed: Callable[[Sequence[Mapping[str, str | None]], Feed], Sequence[Mapping[str, str | None]]] = (
        lambda rows, _: rows
    )
    # Whether there are rows without a position, which each window reads again.
    has_rows_without_position: bool = False
    # Whether the bits of masks count the header's columns, before the source's.
    masks_count_header: bool = False
    # Whether the source itself says which columns are computed.
    knows_computed: bool = False
    # A setting of the feed; with another value, other rows would have been published.
    decisive: DecisiveSetting | None = None

    @property
    def name(self) -> str:
        return self.kernel.name


Dialect = MessageDialect | TableDialect
