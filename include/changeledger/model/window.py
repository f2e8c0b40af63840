"""What one run covers, and what else was asked of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from pydantic import model_validator

from changeledger.model.base_model import Strict

# The stages of a run, in their order.
STAGES = ("extract", "normalize", "reconcile", "audit", "publish")
# Of a time in a window's id.
_TIME = "%Y%m%dT%H%M%S%fZ"


class Request(Strict):
    """What was asked of a run beside its time; the defaults are what a schedule asks.

    `incremental` and `window` read all tables up to the window's end; a `window` of chosen tables only reads
    again what was released; `replay` reads quarantined records again (ADR 0007); `repair` applies what the
    last proofs have planned (ADR 0013). The last two read nothing new of the source.
    """

    mode: Literal["incremental", "window", "replay", "repair"] = "incremental"
    # Empty: all tables of the feed.
    tables: tuple[str, ...] = ()
    # Everything but publish.
    dry_run: bool = False
    # failed rules up to this severity do not stop the run; critical ones always do.
    tolerate: Literal["nothing", "error"] = "nothing"
    reason: str = ""
    # Who asked: Airflow's id of the run. Empty for a job that was started by hand.
    run: str = ""

    @model_validator(mode="after")
    def _fits_together(self) -> Request:
        if self.tables and self.mode == "incremental":
            raise ValueError(
                "tables are chosen with the mode `window` (a released window is read again), `replay` or "
                "`repair`; "
                "an incremental run accounts for the records of all tables"
            )
        if self.mode == "replay" and self.dry_run:
            raise ValueError(
                "`replay` has no dry run: the next run would read what it puts on the list. "
                "`changeledger decode` shows how a record is read"
            )
        if self.tolerate != "nothing" and not self.reason.strip():
            raise ValueError("`tolerate` needs a `reason`: it is kept with the release")
        if self.tolerate == "nothing" and self.reason.strip():
            raise ValueError("a `reason` is for `tolerate`; choose `error` there, or leave the reason empty")
        return self

    @property
    def reads_nothing_new(self) -> bool:
        """Does it leave the source alone?"""
        return self.mode in {"replay", "repair"}

    @property
    def reads_again(self) -> bool:
        """Is it a run of its own over a time that other runs have covered?"""
        return self.reads_nothing_new or bool(self.tables)

    @property
    def partial(self) -> bool:
        """Does it leave the records of other tables, and what waits, as they are?"""
        return self.mode == "window" and bool(self.tables)

    def argument(self) -> str:
        """As a job's command line has it: JSON of what is not the default."""
        return self.model_dump_json(exclude_defaults=True)


class Window(Strict):
    """What one run covers: `[start, end)` in time; its source positions live in the control store."""

    start: datetime
    end: datetime
    request: Request = Request()

    @model_validator(mode="after")
    def _is_an_interval(self) -> Window:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("window times need a time zone")
        if self.start >= self.end:
            raise ValueError(f"the window is empty or reversed: {self.start} .. {self.end}")
        return self

    @property
    def id(self) -> str:
        """Stable name: the same interval is the same window, whoever asks for it.

        But for what reads again: every such run is a window of its own, which its tasks share.
        """
        times = [t.astimezone(UTC).strftime(_TIME) for t in (self.start, self.end)]
        if self.request.reads_again:
            asked = f"{self.request.mode} {self.request.tables} {self.request.run}"
            times.append(hashlib.sha256(asked.encode()).hexdigest()[:8])
        return "_".join(times)

    @property
    def branch(self) -> str:
        return branch_of(self.id)

    @property
    def holder(self) -> str:
        """Who holds the feed's lease: two runs over one window are two."""
        return f"{self.id} ({self.request.run})" if self.request.run else self.id


def times_of(window_id: str) -> tuple[datetime, datetime] | None:
    """Start and end of the window with that id; None if it is no id of a window."""
    try:
        start, end = (datetime.strptime(text, _TIME).replace(tzinfo=UTC) for text in window_id.split("_")[:2])
    except ValueError:
        return None
    return start, end


def branch_of(window_id: str) -> str:
    """The Iceberg branch on which a window is built."""
    return f"run_{window_id}"


def promised(start: Mapping[str, Any], end: Mapping[str, Any]) -> dict[str, int | None]:
    """What a window reads by the range that is stored of it, by source: `topic[partition]`, or a table.

    The number of a partition's offsets. Of a table None: its source counts the rows. What has nothing between
    its two positions is left out.
    """
    counts: dict[str, int | None] = {}
    for source, last in end.items():
        first = start.get(source)
        if isinstance(last, Mapping):
            offsets = {n: to - (first or {}).get(n, 0) for n, to in last.items()}
            counts |= {partition_name(source, n): count for n, count in offsets.items() if count}
        elif first is None or last > first:
            counts[source] = None
    return counts


def partition_name(topic: str, number: str) -> str:
    """The name of a partition as a source."""
    return f"{topic}[{number}]"


class SourceRead(NamedTuple):
    """One source of a window (`topic[partition]`, a change table): is it in raw as the source has it?"""

    source: str
    # Offsets, or rows that the source counts before they are read.
    asked: int
    # Raw rows.
    received: int
    # Offsets that were removed before the feed has first read the partition.
    before: int = 0
    # Why raw is not what was asked for.
    problem: str | None = None
