"""Changes of one row, and the row after them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from changeledger.model import change
from changeledger.state.cells import NO_CELL, Cell


class Position(NamedTuple):
    """A change's place in its source's order. LSNs and sort key are hex."""

    commit_lsn: str | None
    change_lsn: str | None
    sort_key: str
    event_serial_no: int | None


class ChangedCell(NamedTuple):
    """A column's cells before and after a change. `named`: whether the mask names it; None without a mask."""

    column: str
    before: Cell
    after: Cell
    named: bool | None

    @property
    def changes(self) -> bool:
        """Whether both images know the cell, with different values."""
        known = self.before.is_known and self.after.is_known
        return known and self.before[:2] != self.after[:2]


@dataclass(frozen=True)
class RowChange:
    """One change of the row. `moved_from`, `moved_to`: the key that the row had before, or has since."""

    change_id: str
    operation: str
    cells: Sequence[ChangedCell]
    # The columns that the mask names; None: unknown.
    changed: Sequence[str] | None
    mask: str | None
    position: Position
    committed_at: datetime | None
    transaction_id: str | None
    flags: Sequence[str]
    record: str
    paired_record: str | None
    window_id: str
    release: int | None
    moved_from: Mapping[str, str] | None = None
    moved_to: Mapping[str, str] | None = None

    @property
    def ends_the_row(self) -> bool:
        return self.operation in {change.DELETE, change.TRUNCATE} or self.moved_to is not None

    @property
    def puts_a_row(self) -> bool:
        """Whether it puts a row onto the key: a new row, or one moved from another key."""
        return self.operation == change.INSERT or self.moved_from is not None

    def finds(self, cells: Mapping[str, Cell]) -> bool:
        """Returns whether its before image matches these cells, as far as both are known."""
        return all(cell.before[:2] == cells[cell.column][:2] for cell in self.known_with(cells))

    def known_with(self, cells: Mapping[str, Cell]) -> Sequence[ChangedCell]:
        """Returns the cells that its before image knows and that are known in `cells`, too."""
        return [c for c in self.cells if c.before.is_known and cells.get(c.column, NO_CELL).is_known]

    def is_with(self, other: RowChange) -> bool:
        """Returns whether both are in one transaction, by its id or, if the source has none, by its time."""
        if self.transaction_id or other.transaction_id:
            return self.transaction_id == other.transaction_id
        return self.committed_at == other.committed_at


@dataclass(frozen=True)
class RowState:
    """The row as of a time. `cells`: the last known cells; empty if the row does not exist."""

    is_alive: bool
    cells: Mapping[str, Cell]
    # The last change by then; None: no change was known.
    last: RowChange | None


def state_after(changes: Iterable[RowChange], key: Container[str]) -> RowState:
    """Returns the row after changes, which are in the order of their source. `key`: the columns of the key.

    This follows the published tables. A cell that a change does not know keeps its last known value. If rows
    exchange keys in a statement, the covered row leaves first (ADR 0016). So does a row that is deleted after
    another row has covered it.
    """
    cells: Mapping[str, Cell] = {}
    covered: Mapping[str, Cell] | None = None
    last, is_alive, covers = None, False, None
    for row_change in changes:
        if covers is not None and _is_of_covered(row_change, covers, covered, key):
            # The covering row inherits nothing from the row that it has covered.
            cells, covers = {cell.column: cell.after for cell in covers.cells}, None
            continue
        is_free = last is not None and not is_alive
        covers = row_change if row_change.puts_a_row and not is_free else None
        covered = cells if is_alive else None
        if row_change.ends_the_row:
            cells = {}
        elif not is_alive or row_change.moved_from is not None:
            cells = {cell.column: cell.after for cell in row_change.cells}
        else:
            known = {cell.column: cell.after for cell in row_change.cells if cell.after.is_known}
            cells = {**cells, **known}
        last, is_alive = row_change, not row_change.ends_the_row
    return RowState(is_alive, cells, last)


def _is_of_covered(
    row_change: RowChange, covers: RowChange, covered: Mapping[str, Cell] | None, key: Container[str]
) -> bool:
    """Returns whether the change ends the covered row, rather than the row that covers it.

    `covered`: None if nothing was known of the key.
    """
    if not row_change.ends_the_row or not row_change.is_with(covers):
        return False
    has_come = row_change.finds({cell.column: cell.after for cell in covers.cells})
    if covered is None:
        return not has_come
    was_there = row_change.finds(covered)
    if row_change.moved_to is not None:
        return was_there or not has_come
    is_shown = any(cell.column not in key for cell in row_change.known_with(covered))
    return row_change.operation == change.DELETE and was_there and is_shown
