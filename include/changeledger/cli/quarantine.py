"""What the commands do with a feed's quarantine: show what is in it, and ask for records to be read again."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.cli.lake import control_store
from changeledger.config.feed import Feed
from changeledger.control import PROCESS_SECONDS, ControlStore, holder_here
from changeledger.kernels.arrow import table_schema
from changeledger.lake import catalog, scans
from changeledger.model import change
from changeledger.model.errors import ConfigError, LeaseHeld
from changeledger.model.misspelt import meant
from changeledger.state import lake_counts
from changeledger.state.quarantine import Chosen
from changeledger.state.reasons import REASONS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WORK: Final = "changeledger quarantine replay"
_LOOK_SECONDS = 2.0
_REPLAY = table_schema(change.REPLAY_COLUMNS)
# The columns of the summary by table and reason.
SUMMARY: Final = ("table", "reason", "records", "first run", "last run", "for example")


def chosen(feed: Feed, table: str | None, reason: str | None, run: str | None) -> Chosen:
    """Returns which records are meant. Raises ConfigError for an unknown name.

    Otherwise a misspelt name would show an empty quarantine, as if all were well.
    """
    records_of = Chosen(table and feed.as_listed(table), reason, run)
    known = {
        "table": [config.table for config in feed.tables],
        "reason": [*REASONS],
        "window_id": control_store().windows.ids(feed.feed),
    }
    for name, value in records_of._asdict().items():
        if value and value not in known[name]:
            _require_quarantined(feed, name, value, known[name])
    return records_of


def _require_quarantined(feed: Feed, name: str, value: str, known: Collection[str]) -> None:
    """Raises ConfigError if no record in the quarantine has the value.

    Records may belong to tables that the feed no longer lists, or have reasons of an earlier version.
    """
    names = pc.unique(lake_counts.columns(feed.lake.quarantine, name).column(name)).drop_null().to_pylist()
    if value not in names:
        what = "run" if name == "window_id" else name
        near = meant(value, [*names, *known])
        raise ConfigError(
            f"no record in the quarantine of {feed.feed} has the {what} {value!r}",
            f"did you mean {near!r}?"
            if near
            else f"`changeledger quarantine list {feed.feed}` shows what is in it",
        )


def records(feed: Feed, chosen: Chosen, *columns: str) -> Iterator[dict[str, Any]]:
    """Yields the chosen published rows of `change.QUARANTINE_COLUMNS`, with some columns or all.

    Raises ConfigError if nothing is published yet, and for a control store of another version.
    """
    control_store()
    table = feed.lake.quarantine
    if not catalog.exists(table):
        raise ConfigError(f"the feed {feed.feed!r} has published nothing yet", "run its DAG first")
    schema = table_schema(
        [column for column in change.QUARANTINE_COLUMNS if not columns or column[0] in columns]
    )
    for batch in scans.batches(table, chosen.condition, schema):
        yield from batch.to_pylist()


def summary(feed: Feed, chosen: Chosen) -> list[dict[str, Any]]:
    """Returns `SUMMARY` for each table and reason, most records first. The example is the least detail."""
    groups: dict[tuple[str | None, str], list[dict[str, Any]]] = {}
    for row in records(feed, chosen, "window_id", "table", "reason", "detail"):
        groups.setdefault((row["table"], row["reason"]), []).append(row)
    by_size = sorted(groups.items(), key=lambda group: (-len(group[1]), *map(str, group[0])))
    lines = []
    for (table, reason), rows in by_size:
        runs = [row["window_id"] for row in rows]
        example = min((row["detail"] for row in rows if row["detail"] is not None), default=None)
        cells = (table, reason, len(rows), min(runs), max(runs), example)
        lines.append(dict(zip(SUMMARY, cells, strict=True)))
    return lines


def replay(spark: SparkSession, feed: Feed, chosen: Chosen, say: Callable[[str], object]) -> int:
    """Asks the next run to read the records again as received. Returns how many are new on its list.

    Waits for a running run of the feed, and says so.
    """
    # Imported here because they take seconds, and looking into the quarantine needs no Spark.
    from changeledger.spark.rows import Workers  # noqa: PLC0415
    from changeledger.stages.extraction.replaying import ask  # noqa: PLC0415

    control, holder = control_store(), holder_here(_WORK)
    _await_lease(control, feed, holder, say)
    try:
        # Only now, because the run that it has waited for may have read some of them again.
        rows = pa.Table.from_pylist(list(records(feed, chosen, *_REPLAY.names)), _REPLAY)
        return ask(spark, feed, Workers(lambda: spark).given(rows).frame)
    finally:
        control.leases.release(feed.feed, holder)


def _await_lease(control: ControlStore, feed: Feed, holder: str, say: Callable[[str], object]) -> None:
    said = ""
    while True:
        try:
            control.leases.acquire(feed.feed, holder, PROCESS_SECONDS)
            return
        except LeaseHeld as held:
            # Its lease is renewed: that is no news.
            taker = held.message.partition(" until ")[0]
            if taker != said:
                say(f"waiting: {held.message} at the latest")
                said = taker
            time.sleep(_LOOK_SECONDS)
