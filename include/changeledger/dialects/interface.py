"""What a dialect is: its kernel, and what is asked of its source beside the records."""

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
    from sqlalchemy import Select


@dataclass(frozen=True)
class MessageDialect:
    """A dialect on Kafka topics."""

    kernel: MessageKernel
    # Does the source itself say which columns are computed?
    knows_computed: bool = False
    # Are its LSNs those of commits, so that commit times rise with them?
    has_commit_lsns: bool = False
    # Have rows of a full load no position, so that they count as older than every change?
    has_loads_without_position: bool = False
    # A table's columns as text, from the names in messages that have no types (None: there are no names);
    # None if messages always have them.
    named_columns: Callable[[Sequence[Sample], str], Contract | None] | None = None
    # What the cells of messages' keys in JSON are.
    read_key_cell: ReadCell = of_text

    @property
    def name(self) -> str:
        return self.kernel.name


class ChangeTable(NamedTuple):
    """A change table: whose changes it has, and its columns as they are now."""

    table: str
    # Its own name (`dbo_orders`, `dbo.orders__ct`), which no other has. Two capture instances may capture one
    # table.
    instance: str
    writer_schema: Contract


# How far each table is read: its name to the position of the last row, as text that orders as it does.
TablePositions = Mapping[str, str]


class Caution(NamedTuple):
    """What may be wrong or missing in a source's records, though nothing in them shows it."""

    text: str
    remedy: str


class SourceDatabase(Protocol):
    """What a reader of change tables asks of the database."""

    def rows(self, query: Select[Any]) -> list[Mapping[str, Any]]:
        """The rows of a small result."""
        ...

    def columns(self, query: Select[Any]) -> Sequence[str]:
        """The names of a result's columns."""
        ...


class TableReader(Protocol):
    """The change tables of one feed, as the database has them now."""

    @property
    def tables(self) -> Sequence[ChangeTable]:
        """Of one source table in the order in which they follow each other."""
        ...

    def check(self, released: TablePositions) -> None:
        """Raises SourceDataLostError if changes after `released` are gone from the source."""
        ...

    def landmarks(self, positions: TablePositions) -> Mapping[str, str]:
        """By what the source recognises the positions, by table; without those that it does not know.

        A source that was restored from a backup, and has grown since, has others. Raises SourceDataLostError
        if a position is not in the source any more though older ones are.
        """
        ...

    def source_states(self, read: TablePositions, at: datetime) -> Sequence[SourceState]:
        """How far the source reaches now, beside how far its tables are read."""
        ...

    def kept_since(self) -> datetime | None:
        """The time of the oldest change that the source still has; None if it has none, or does not say."""
        ...

    def cautions(self) -> Sequence[Caution]:
        """By what the source says of its tables."""
        ...

    def bounds(self, window: Window, released: TablePositions) -> tuple[TablePositions, TablePositions]:
        """What the window reads of each table: `(from, to]`.

        A table without a `from` is read from its beginning; one without a `to` has nothing to read yet.
        """
        ...

    def queries(self, table: ChangeTable, after: str | None, to: str | None) -> Sequence[Select[Any]]:
        """SELECTs that together give the rows of `(after, to]` once; at least one."""
        ...


class DecisiveSetting(NamedTuple):
    """A setting by which rows are read: its name in the feed's YAML, and its value."""

    name: str
    value_in: Callable[[Feed], str]


@dataclass(frozen=True)
class TableDialect:
    """A dialect in change tables, read over JDBC."""

    kernel: TableKernel
    # Raises ConfigError and ContractError if the feed's tables cannot be read as configured.
    reader: Callable[[Feed, SourceDatabase], TableReader]
    # The source table of a change table, by the latter's name.
    source_table: Callable[[str], str]
    # Which columns of a change table, in its order, are the dialect's own: their lower-case names. The last
    # argument has the source's columns that are stated.
    header_names: Callable[[Sequence[str], Feed, Collection[str]], frozenset[str]]
    # To rows that are all there is of a source, as text: what `reader` would have asked it beside them.
    completed: Callable[[Sequence[Mapping[str, str | None]], Feed], Sequence[Mapping[str, str | None]]] = (
        lambda rows, _: rows
    )
    # Are there rows without a position, which each window reads again?
    has_rows_without_position: bool = False
    # Do masks count the header's columns, before the source's?
    masks_count_header: bool = False
    # Does the source itself say which columns are computed?
    knows_computed: bool = False
    # A setting of the feed that other published rows would have followed from.
    decisive: DecisiveSetting | None = None

    @property
    def name(self) -> str:
        return self.kernel.name


Dialect = MessageDialect | TableDialect
