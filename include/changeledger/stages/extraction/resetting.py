"""Checks of a run that starts over: whether its source still has what the published tables were built from.

They run before anything is read, as far as the source can tell. The audit later compares the tables row by
row.
"""

from __future__ import annotations

from collections.abc import Mapping

from changeledger.dialects.interface import TablePositions, TableReader
from changeledger.kafka.topics import Offsets
from changeledger.lake import catalog, iceberg
from changeledger.model.errors import ConfigError, SourceDataLostError
from changeledger.stages.common.context import StageContext, log


def require_all_tables(ctx: StageContext) -> None:
    """Raises ConfigError if the run would read a past part again while a reset waits."""
    if ctx.reset is not None and ctx.window.request.reads_again:
        raise ConfigError(
            f"{ctx.feed.feed}: {ctx.reset.by} has asked for a reset: the next run reads the source from its "
            "beginning, with all tables",
            "run the feed with the mode `incremental`, or withdraw the reset: "
            f"`changeledger reset {ctx.feed.feed} --withdraw --reason ...`",
        )


def require_records(ctx: StageContext) -> None:
    """Raises SourceDataLostError for a reset. Called if the source has no record up to the window's end."""
    if ctx.starts_over:
        raise SourceDataLostError(
            f"{ctx.feed.feed}: the source has no records to read for a reset; the published tables stay",
            "let the source send a snapshot and run the feed again, or withdraw the reset: "
            f"`changeledger reset {ctx.feed.feed} --withdraw --reason ...`",
        )


def require_offsets(ctx: StageContext, earliest: Offsets) -> None:
    """Raises SourceDataLostError if topics have lost messages that are in the published ledgers."""
    if not ctx.starts_over:
        return
    _refuse(ctx, "topics lack messages that are published", removed(_first_offsets(ctx), earliest))


def removed(published: Mapping[tuple[str, str], int], earliest: Offsets) -> list[str]:
    """Describes what partitions lack. `published`: the first offset of each partition in the ledgers."""
    lost = []
    for (topic, partition), first in sorted(published.items()):
        low = earliest.get(topic, {}).get(partition)
        if low is None:
            lost.append(f"{topic}[{partition}] is gone")
        elif first < low:
            lost.append(f"{topic}[{partition}]: offsets {first} to {low - 1} were removed by retention")
    return lost


def require_rows(ctx: StageContext, reader: TableReader) -> None:
    """Raises SourceDataLostError if change tables begin after what the first window has read of them."""
    if not ctx.starts_over:
        return
    try:
        reader.check(_first_read(ctx))
    except SourceDataLostError as lost:
        _refuse(ctx, "change tables lack rows that are published", [lost.message])


def _first_offsets(ctx: StageContext) -> dict[tuple[str, str], int]:
    """Returns the first offset of a published change by topic and partition."""
    offsets: dict[tuple[str, str], int] = {}
    for names in ctx.names.values():
        if not catalog.exists(names.changes):
            continue
        places = iceberg.read(ctx.spark, names.changes).selectExpr("source_position.*")
        of_messages = places.where("`partition` IS NOT NULL AND `offset` IS NOT NULL")
        for row in of_messages.groupBy("source", "partition").min("offset").collect():
            place = row["source"], str(row["partition"])
            offsets[place] = min(row["min(offset)"], offsets.get(place, row["min(offset)"]))
    return offsets


def _first_read(ctx: StageContext) -> TablePositions:
    """Returns how far the first window of each table has read."""
    positions: dict[str, str] = {}
    for release in ctx.control.releases.of_feed(ctx.feed.feed):
        for table, at in release.positions.items():
            positions[table] = min(at, positions.get(table, at))
    return {table: at for table, at in positions.items() if table in ctx.names}


def _refuse(ctx: StageContext, what: str, lost: list[str]) -> None:
    assert ctx.reset is not None, "asked by a run that starts over"
    if not lost:
        return
    text = f"{ctx.feed.feed}: {what}: {'; '.join(lost)}"
    if ctx.reset.accept_gap:
        log.warning("%s. %s accepts it: %s", text, ctx.reset.by, ctx.reset.reason)
        return
    raise SourceDataLostError(
        f"{text}. A reset would lose them; the published tables stay",
        "let the source send a snapshot of all tables, and then confirm it: `changeledger reset "
        f"{ctx.feed.feed} --accept-gap --reason ...` (the audit still stops a reset that loses rows); "
        f"or keep what is published: `changeledger reset {ctx.feed.feed} --withdraw --reason ...`",
    )
