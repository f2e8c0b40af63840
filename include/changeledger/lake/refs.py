"""Branches and tags of the lake's tables. One commit can change several refs of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from datetime import UTC, datetime

from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, ancestors_of
from pyiceberg.table.update.snapshot import ManageSnapshots
from pyiceberg.types import StructType

from changeledger.lake import catalog
from changeledger.lake.parallel import parallel_map

MAIN = "main"
_RELEASE = "release_"
Tables = Mapping[str, Table]
BRANCH, TAG = SnapshotRefType.BRANCH, SnapshotRefType.TAG
# Operations that remove no row from a table.
_KEEPS_ROWS = (Operation.APPEND, Operation.REPLACE)


def written_at(table: str, snapshot: int) -> datetime | None:
    """Returns when the snapshot of the table was written, or None if it no longer exists."""
    written = catalog.load(table).metadata.snapshot_by_id(snapshot)
    return None if written is None else datetime.fromtimestamp(written.timestamp_ms / 1000, UTC)


def heads(tables: Iterable[str], ref: str) -> dict[str, int]:
    """Returns the snapshot of a branch or tag for each table that has it."""
    return heads_in(catalog.look(tables), ref)


def heads_in(tables: Tables, ref: str) -> dict[str, int]:
    """Like `heads`, for loaded tables."""
    snapshots = {name: head(table, ref) for name, table in tables.items()}
    return {name: snapshot for name, snapshot in snapshots.items() if snapshot is not None}


def snapshot_of(table: str, ref: str = MAIN) -> int | None:
    """Returns the snapshot of a branch or tag; None if the table or the ref does not exist."""
    iceberg_table = catalog.find(table)
    return None if iceberg_table is None else head(iceberg_table, ref)


def head(table: Table, ref: str = MAIN) -> int | None:
    """Like `snapshot_of`, for a loaded table."""
    named = table.metadata.refs.get(ref)
    return None if named is None else named.snapshot_id


def names(tables: Iterable[str], kind: SnapshotRefType) -> dict[str, list[str]]:
    """Returns the branches (except main) or tags, for each table that has some."""
    by_table = {table: names_in(catalog.load(table), kind) for table in tables}
    return {table: ref_names for table, ref_names in by_table.items() if ref_names}


def names_in(table: Table, kind: SnapshotRefType, prefix: str = "") -> list[str]:
    """Returns the branches (except main) or tags of a table with this prefix."""
    return [
        name
        for name, ref in table.metadata.refs.items()
        if ref.snapshot_ref_type == kind and name != MAIN and name.startswith(prefix)
    ]


def release_tag(release_id: int) -> str:
    """Returns the tag of a release, by which readers get several tables of the same release."""
    return f"{_RELEASE}{release_id}"


def releases_of(named: Iterable[str]) -> list[int]:
    """Returns the release ids in these tags; other tags are ignored."""
    numbers = (name.removeprefix(_RELEASE) for name in named if name.startswith(_RELEASE))
    return [int(number) for number in numbers if number.isdecimal()]


def is_released(table: str, snapshot: int) -> bool:
    """Returns whether the snapshot is a release of the table, or one that a release was built on."""
    known = catalog.load(table)
    named = {name: ref.snapshot_id for name, ref in known.metadata.refs.items()}
    tagged = [named[release_tag(number)] for number in releases_of(named)]
    return any(snapshot in _lineage(known, release) for release in tagged)


def lineages(tables: Tables, snapshots: Mapping[str, int]) -> dict[str, set[int]]:
    """Returns for each table its snapshot and those that it was built on, as far as they are kept."""
    return {name: _lineage(tables[name], snapshot) for name, snapshot in snapshots.items() if name in tables}


def is_built_on(table: Table, snapshot: int, earlier: int) -> bool:
    """Returns whether the snapshot was built on the earlier one, as far as its ancestors are kept."""
    return snapshot != earlier and earlier in _lineage(table, snapshot)


def _lineage(table: Table, snapshot: int) -> set[int]:
    metadata = table.metadata
    return {ancestor.snapshot_id for ancestor in ancestors_of(metadata.snapshot_by_id(snapshot), metadata)}


def with_all_rows(table: str) -> list[int]:
    """Returns snapshots that together have every row of all branches and tags.

    Leaves out a snapshot if a later one only added rows to it or rewrote its files.
    """
    metadata = catalog.load(table).metadata
    snapshots = {ref.snapshot_id for ref in metadata.refs.values()}
    contained: set[int | None] = set()
    for snapshot in snapshots:
        for ancestor in ancestors_of(metadata.snapshot_by_id(snapshot), metadata):
            keeps_rows = ancestor.summary is not None and ancestor.summary.operation in _KEEPS_ROWS
            if not keeps_rows or ancestor.parent_snapshot_id in contained:
                break
            contained.add(ancestor.parent_snapshot_id)
    return sorted(snapshots - contained)


def added_since(table: Table, snapshot: int) -> list[tuple[str, ...]]:
    """Returns the paths of columns and struct fields that the table got after the snapshot was written."""
    metadata = table.metadata
    then = metadata.snapshot_by_id(snapshot)
    schema = None if then is None or then.schema_id is None else metadata.schema_by_id(then.schema_id)
    return list(_new(metadata.schema().as_struct(), set() if schema is None else schema.field_ids))


def _new(fields: StructType, known: Set[int]) -> Iterator[tuple[str, ...]]:
    for field in fields.fields:
        if field.field_id not in known:
            yield (field.name,)
        elif isinstance(field.field_type, StructType):
            yield from ((field.name, *path) for path in _new(field.field_type, known))


def set_branch(table: str, branch: str, snapshot: int) -> None:
    """Sets the branch to the snapshot; creates it if needed."""
    _commit(table, lambda iceberg_table: _set(iceberg_table, branch, snapshot, ManageSnapshots.create_branch))


def set_tag(table: str, tag: str, snapshot: int) -> None:
    """Sets the tag to the snapshot; creates it if needed."""
    _commit(table, lambda iceberg_table: _set(iceberg_table, tag, snapshot, ManageSnapshots.create_tag))


class MainMoved(Exception):
    """Main of a table is no longer what a snapshot was built on."""

    def __init__(self, table: str, snapshot: int) -> None:
        super().__init__(f"main of {table} is no longer what the snapshot {snapshot} was built on")
        self.table = table


def forward(table: str, snapshot: int, without: str | None = None) -> None:
    """Moves main forward to a snapshot that was built on it. Raises MainMoved if it was not.

    The same commit drops the branches whose name begins with `without`.
    """

    def moved(iceberg_table: Table) -> ManageSnapshots | None:
        main = iceberg_table.metadata.refs.get(MAIN)
        if main is not None and main.snapshot_id not in _lineage(iceberg_table, snapshot):
            raise MainMoved(table, snapshot)
        manage = _set(iceberg_table, MAIN, snapshot, ManageSnapshots.create_branch)
        gone = [] if without is None else names_in(iceberg_table, BRANCH, without)
        return _without(iceberg_table, gone, manage)

    _commit(table, moved)


def move_back(table: str, snapshot: int, since: int | None) -> None:
    """Moves main to a snapshot that is not built on it. Raises MainMoved if main is no longer at `since`."""

    def moved(iceberg_table: Table) -> ManageSnapshots | None:
        main = iceberg_table.metadata.refs.get(MAIN)
        if main is not None and main.snapshot_id not in {since, snapshot}:
            raise MainMoved(table, snapshot)
        return _set(iceberg_table, MAIN, snapshot, ManageSnapshots.create_branch)

    _commit(table, moved)


def is_rewritten(table: str, snapshot: int, main: int) -> bool:
    """Returns whether main is the snapshot, or differs from it only by rewritten files, as of compaction."""
    metadata = catalog.load(table).metadata
    for ancestor in ancestors_of(metadata.snapshot_by_id(main), metadata):
        if ancestor.snapshot_id == snapshot:
            return True
        if ancestor.summary is None or ancestor.summary.operation != Operation.REPLACE:
            return False
    return False


def drop(table: str, refs: Iterable[str]) -> None:
    """Drops those of the branches and tags that exist."""

    _commit(table, lambda iceberg_table: _without(iceberg_table, refs))


def drop_named(tables: Iterable[str], kind: SnapshotRefType, is_gone: Callable[[str], bool]) -> int:
    """Drops the branches (except main) or tags of these names. Returns how many different names it drops."""
    named = {table: [*filter(is_gone, ref_names)] for table, ref_names in names(tables, kind).items()}
    parallel_map(lambda table_refs: drop(*table_refs), named.items())
    return len({name for ref_names in named.values() for name in ref_names})


def _without(
    iceberg_table: Table, refs: Iterable[str], manage: ManageSnapshots | None = None
) -> ManageSnapshots | None:
    for name in sorted(set(refs) & iceberg_table.metadata.refs.keys()):
        manage = (manage or iceberg_table.manage_snapshots()).remove_branch(name)
    return manage


def _set(
    iceberg_table: Table,
    name: str,
    snapshot: int,
    how: Callable[[ManageSnapshots, int, str], ManageSnapshots],
) -> ManageSnapshots | None:
    named = iceberg_table.metadata.refs.get(name)
    if named is not None and named.snapshot_id == snapshot:
        return None
    return how(iceberg_table.manage_snapshots(), snapshot, name)


def _commit(table: str, change: Callable[[Table], ManageSnapshots | None]) -> None:
    """Commits what `change` returns for the present table; None: nothing to do."""

    def change_refs(iceberg_table: Table) -> Callable[[], None] | None:
        manage = change(iceberg_table)
        return None if manage is None else manage.commit

    catalog.commit(table, change_refs)
