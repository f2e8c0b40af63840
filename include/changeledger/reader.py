"""Reads published tables as Arrow for Python programs, without Spark: `changeledger.read` and `.releases`.

It needs access to the lake only. Release ids come from the feed's `releases` table instead of the control
store, so that readers need no access to the pipeline's database. A release appears in that table only once
all of its tables have its tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NoReturn, get_args

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.table import DataScan

from changeledger.config.settings import Settings
from changeledger.lake import catalog, refs
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import choice
from changeledger.model.table_names import FeedTables, TableNames
from changeledger.spark import failures
from changeledger.spark.lake_catalog import sql_url

Kind = Literal["current", "history", "changes"]


def releases(feed: str) -> list[int]:
    """See `changeledger.releases`."""
    with failures.named():
        _require_catalog()
        return sorted(_tags(feed))


def read(  # noqa: PLR0913 - those of `changeledger.read`
    feed: str,
    table: str,
    *,
    kind: Kind = "current",
    columns: Sequence[str] | None = None,
    release: int | None = None,
    as_of: datetime | None = None,
) -> pa.Table:
    """See `changeledger.read`."""
    if kind not in get_args(Kind):
        raise ConfigError(f"{kind!r} is not a kind of table", f"choose from {', '.join(get_args(Kind))}")
    moment = None if as_of is None else _utc(as_of, kind)
    with failures.named():
        _require_catalog()
        tag = _tag(feed, release)
        names = TableNames.of(feed, table)
        scan = _scan(feed, table, getattr(names, kind), tag)
        chosen = _columns(scan, table, columns)
        if moment is None:
            return _arrow(scan, chosen)
        return _rows_at(_scan(feed, table, names.history, tag), chosen, moment, table)


def _utc(as_of: datetime, kind: Kind) -> datetime:
    """Converts the time to UTC. Raises ConfigError if it has no zone, or if `kind` has no rows of a time."""
    if kind != "current":
        raise ConfigError(
            f"as_of returns the rows at a time, not {kind}",
            f'leave out kind="{kind}", or leave out as_of and filter the rows by their own times',
        )
    if not isinstance(as_of, datetime) or as_of.utcoffset() is None:
        raise ConfigError(
            f"as_of={as_of!r} is not a time with a zone",
            "pass a time with a zone, such as datetime(2026, 1, 31, 12, tzinfo=UTC)",
        )
    return as_of.astimezone(UTC)


def _require_catalog() -> None:
    """Raises ConfigError if the catalog is a file that does not exist, because opening it would create it."""
    members = Settings().catalog
    if members["type"] != "sql":
        return
    url = sql_url(members["uri"])
    if url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        raise ConfigError(
            f"there is no lake: its catalog {url.database} does not exist",
            "set CHANGELEDGER_HOME to the folder of the runs (`make up` prints it), or CHANGELEDGER_CATALOG "
            "to the lake's catalog",
        )


def _tags(feed: str) -> dict[int, str]:
    """Returns the tags of the feed's releases by id. Raises ConfigError if the feed has published nothing."""
    pointer = catalog.find(FeedTables.of(feed).releases)
    rows = [] if pointer is None else pointer.scan(selected_fields=("release", "tag")).to_arrow().to_pylist()
    if rows:
        return {row["release"]: row["tag"] for row in rows}
    feeds = [name for name in catalog.namespaces() if catalog.exists(FeedTables.of(name).releases)]
    raise ConfigError(
        f"the lake has no release of a feed {feed!r}",
        choice(feed, [name for name in feeds if name != feed])
        + f". If the name is right: `changeledger status {feed}` shows the state of the feed",
    )


def _tag(feed: str, release: int | None) -> str:
    """Returns the tag of the release (None: the newest). Raises ConfigError if there is no such release."""
    tags = _tags(feed)
    number = max(tags) if release is None else release
    if number in tags:
        return tags[number]
    raise ConfigError(
        f"{feed} has no release {release!r} that can be read",
        f"choose from {', '.join(map(str, sorted(tags)))}; `maintain` removes releases older than the feed's "
        "`retention`, and `erase` removes all but the newest",
    )


def _scan(feed: str, table: str, name: str, tag: str) -> DataScan:
    """Returns a scan of the lake table `name` at the tag of a release.

    Raises ConfigError if the lake has no such table, or if the release does not contain it.
    """
    iceberg_table = catalog.find(name)
    if iceberg_table is None:
        _refuse_table(feed, table)
    ref = iceberg_table.metadata.refs.get(tag)
    if ref is None:
        raise ConfigError(
            f"{tag} of {feed} does not contain {table}",
            _nearest(feed, tag, iceberg_table.metadata.refs, name),
        )
    return iceberg_table.scan(snapshot_id=ref.snapshot_id)


def _nearest(feed: str, tag: str, tags: Iterable[str], name: str) -> str:
    """Returns the remedy for a table that lacks the tag of a release.

    `tags`: the tags that it has; they are of releases whose feed listed the table.
    """
    (asked,) = refs.releases_of([tag])
    known = sorted(_tags(feed).keys() & refs.releases_of(tags))
    later = [number for number in known if number > asked]
    if later:
        return f"read release={later[0]}, the next that contains it: a release has the tables of its feed"
    if known:
        return f"read release={known[-1]}, the last that contains it: the feed no longer lists the table"
    return f"no release that contains it can be read any more: changeledger query 'FROM {name}'"


def _refuse_table(feed: str, table: str) -> NoReturn:
    lake = set(catalog.tables(feed))
    known = [
        name.rpartition(".")[2] for name in sorted(lake) if {f"{name}_history", f"{name}_changes"} <= lake
    ]
    asked = TableNames.of(feed, table).current.rpartition(".")[2]
    raise ConfigError(f"the feed {feed} has published no table {table!r}", choice(asked, known))


def _columns(scan: DataScan, table: str, columns: Sequence[str] | None) -> list[str]:
    """Returns the columns to read. Raises ConfigError for one that the table does not have in the release."""
    known = [field.name for field in scan.projection().fields]
    chosen = known if columns is None else list(columns)
    for name in chosen:
        if name not in known:
            raise ConfigError(f"{table} has no column {name!r}", choice(name, known))
    if not chosen:
        raise ConfigError("columns=[] names no column", "name one, or leave out `columns` for all")
    return chosen


def _rows_at(history: DataScan, columns: list[str], moment: datetime, table: str) -> pa.Table:
    """Returns the rows whose interval contains the time, without keys that were deleted then.

    Raises ConfigError if every interval begins later.
    """
    at = f"'{moment.isoformat(timespec='microseconds')}'"
    then = history.filter(
        f"_valid_from <= {at} and (_valid_to > {at} or _valid_to is null) and _is_deleted = false"
    )
    rows = _arrow(then, columns)
    if not len(rows):
        first = pc.min(_arrow(history, ["_valid_from"]).column(0)).as_py()
        if first is not None and moment < first:
            raise ConfigError(
                f"nothing is known about {table} at {moment}: its history begins at {first}",
                "ask for a later time",
            )
    return rows


def _arrow(scan: DataScan, columns: list[str]) -> pa.Table:
    """Reads these columns in this order and casts them to the table's types: files may have others."""
    chosen = scan.select(*columns)
    schema = schema_to_pyarrow(chosen.projection(), include_field_ids=False)
    ordered = pa.schema([schema.field(name) for name in columns])
    return chosen.to_arrow().select(columns).cast(ordered)
