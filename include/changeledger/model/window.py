"""What one run covers, and what else it was asked to do."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from pydantic import model_validator

from changeledger.model.base_model import Strict

# The stages of a run, in their order.
STAGES = ("extract", "normalize", "reconcile", "audit", "publish")
# The format of times in a window's id.
_TIME = "%Y%m%dT%H%M%S%fZ"


class Request(Strict):
    """What a run was asked to do, apart from its times. The defaults are those of a scheduled run.

    - `incremental` and `window` read all tables up to the window's end. A `window` with chosen `tables` reads
      again only what was released.
    - `replay` reads quarantined records again (ADR 0007).
    - `repair` applies what the last proofs have planned (ADR 0013).

    The last two read nothing new from the source.
    """

    mode: Literal["incremental", "window", "replay", "repair"] = "incremental"
    # Empty: all tables of the feed.
    tables: tuple[str, ...] = ()
    # Runs every stage but publish.
    dry_run: bool = False
    # Failed rules up to this severity do not stop the run. Critical ones always do.
    tolerate: Literal["nothing", "error"] = "nothing"
    reason: str = ""
    # Who asked: Airflow's id of the run. Empty for a job that was started by hand.
    run: str = ""

    @model_validator(mode="after")
    def _fits_together(self) -> Request:
        if self.tables and self.mode == "incremental":
            raise ValueError(
                "tables can only be chosen with the mode `window` (a released window is read again), "
                "`replay` or `repair`; an incremental run accounts for the records of all tables"
            )
        if self.mode == "replay" and self.dry_run:
            raise ValueError(
                "`replay` has no dry run: the next run would read the records that it puts on the list. "
                "`changeledger decode` shows how a record is read"
            )
        if self.tolerate != "nothing" and not self.reason.strip():
            raise ValueError("`tolerate` needs a `reason`: it is kept with the release")
        if self.tolerate == "nothing" and self.reason.strip():
            raise ValueError(
                "a `reason` is only for `tolerate`: choose `error` there, or leave the reason empty"
            )
        return self

    @property
    def reads_nothing_new(self) -> bool:
        """Whether the run leaves the source alone."""
        return self.mode in {"replay", "repair"}

    @property
    def reads_again(self) -> bool:
        """Whether the run goes over a time that other runs have covered."""
        return self.reads_nothing_new or bool(self.tables)

    @property
    def partial(self) -> bool:
        """Whether the run ignores the records of other tables, and pending records."""
        return self.mode == "window" and bool(self.tables)

    def argument(self) -> str:
        """Returns the request as an argument of a job: JSON of all fields that differ from their default."""
        return self.model_dump_json(exclude_defaults=True)


class Window(Strict):
    """What one run covers: `[start, end)` in time. Its source positions are in the control store."""

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
        """The stable id: the same interval is the same window, whoever asks for it.

        Runs that read again are an exception: each is a window of its own, which the run's tasks share.
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
        """The name under which the run holds the feed's lease. Two runs over one window differ."""
        return f"{self.id} ({self.request.run})" if self.request.run else self.id


def times_of(window_id: str) -> tuple[datetime, datetime] | None:
    """Returns start and end of the window with that id, or None if it is not the id of a window."""
    try:
        start, end = (datetime.strptime(text, _TIME).replace(tzinfo=UTC) for text in window_id.split("_")[:2])
    except ValueError:
        return None
    return start, end


def branch_of(window_id: str) -> str:
    """Returns the Iceberg branch on which a window is built."""
    return f"run_{window_id}"


def promised(start: Mapping[str, Any], end: Mapping[str, Any]) -> dict[str, int | None]:
    """Returns what a window reads according to its stored range, by source: `topic[partition]`, or a table.

    The value is the number of offsets of a partition, and None for a table, whose rows the source counts.
    Sources with nothing between their two positions are left out.
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
    """Returns the name of a partition as a source."""
    return f"{topic}[{number}]"


class SourceRead(NamedTuple):
    """Whether one source of a window (`topic[partition]`, a change table) is complete in raw."""

    source: str
    # The number of offsets, or of rows as the source counted them before the read.
    asked: int
    # The number of raw rows.
    received: int
    # The number of offsets that were removed before the feed first read the partition.
    before: int = 0
    # Why raw is not complete; None: it is.
    problem: str | None = None
