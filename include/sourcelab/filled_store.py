"""Fills a control store as if after weeks of runs, for screenshots and timings of the pages."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import yaml
from sqlalchemy import create_engine, insert

from changeledger.audit.rules import TABLE_RULES
from changeledger.compare.verdicts import CLASSES, DIFFERS, EQUAL, EXPECTED, NO_OP_UPDATE, VERDICTS
from changeledger.control import ControlStore
from changeledger.control.tables.base import ControlTable, LeaseRow
from changeledger.control.tables.feeds import ASKED, FailureRow, FeedTableRow, ResetRow
from changeledger.control.tables.releases import AuditRow, ReleaseRow
from changeledger.control.tables.results import ComparisonRow, ProofRow
from changeledger.control.tables.sources import ReadRow, SourceStateRow
from changeledger.control.tables.windows import PositionRow, StageRow, WindowRow
from changeledger.kernels.lateness import POINTS, Committed
from changeledger.model.window import STAGES, Window

HOUR: Final = timedelta(hours=1)
_SOURCES: Final[Mapping[str, dict[str, Any]]] = {
    "debezium": {"topics": ["shop.*"]},
    "ces": {"topics": ["shop-ces"]},
    "qlik_messages": {"topics": ["shop-qlik"]},
    "qlik_tables": {},
    "sqlserver_cdc": {},
}
DAY: Final = 24 * HOUR
# Time spans of a comparison.
_SPANS: Final = 24
# From a window's end until its failure, its latest row.
_LONGEST_RUN: Final = HOUR / 9
# A limit, because the rows of releases with 100 tables are large.
_INSERTED_AT_ONCE: Final = 1_000
# Troubles in which a run works on the last window.
_RUNNING: Final = frozenset({"running", "reset"})


@dataclass(frozen=True)
class FilledFeed:
    """A feed and its state.

    - `trouble`: empty, `audit`, `failure`, `late`, `stale`, `lacking`, `differ`, `drift`, `tolerated`,
      `taken back`, `running`, or `reset` (a run of a reset works).
    - `compared_days`: the number of daily proofs, and of daily comparisons with the feed `reference`. The
      reference itself has no comparisons.
    - `detailed`: the number of windows that have their reads, stages and verdicts, as `maintain` leaves them.
    """

    name: str
    dialect: str = "sqlserver_cdc"
    tables: tuple[str, ...] = ("dbo.customers", "sales.orders", "dbo.parts", "dbo.wide")
    windows: int = 28
    detailed: int = 720
    trouble: str = ""
    quarantined: int = 0
    database: str = "shop"
    reference: str = "shop_reference"
    compared_days: int = 1

    def described(self) -> dict[str, Any]:
        """Returns the feed's YAML file as a dictionary."""
        return {
            "feed": self.name, "dialect": self.dialect, "database": self.database,
            "connection": f"{self.name}_source",
            "source": _SOURCES[self.dialect], "tables": [{"table": table} for table in self.tables],
        }  # fmt: skip


def fill(url: str, folder: Path, feeds: Iterable[FilledFeed], now: datetime | None = None) -> None:
    """Writes the feeds' files into the folder and their rows into the control store."""
    folder.mkdir(parents=True, exist_ok=True)
    ControlStore(url)
    engine = create_engine(url)
    # The latest row of a run that has just begun would otherwise be in the future.
    moment = (now or datetime.now(UTC)) - _LONGEST_RUN
    moment = moment.replace(minute=0, second=0, microsecond=0)
    for at, feed in enumerate(feeds):
        (folder / f"{feed.name}.yaml").write_text(yaml.safe_dump(feed.described(), sort_keys=False), "utf-8")
        # A fixed seed, so that the pictures are the same every time.
        history = _History(feed, moment, random.Random(at))
        rows: dict[type[ControlTable], list[dict[str, Any]]] = {}
        with engine.begin() as connection:
            for table, row in history.rows():
                values = rows.setdefault(table, [])
                values.append({"feed": feed.name, **row})
                if len(values) == _INSERTED_AT_ONCE:
                    connection.execute(insert(table), values)
                    values.clear()
            for table, values in rows.items():
                if values:
                    connection.execute(insert(table), values)
    engine.dispose()


class _History:
    """Generates the rows of one feed."""

    def __init__(self, feed: FilledFeed, now: datetime, chance: random.Random) -> None:
        self._feed, self._chance = feed, chance
        self._now = now - (26 * HOUR if feed.trouble == "stale" else timedelta(0))
        self._rows = {table: chance.randrange(200, 90_000) for table in feed.tables}
        self._release = 0
        self._lsn = 0x2700001C80003

    def rows(self) -> Iterator[tuple[type[ControlTable], dict[str, Any]]]:
        feed = self._feed
        for number in range(feed.windows, 0, -1):
            start = self._now - number * HOUR
            yield from self._window(Window(start=start, end=start + HOUR), number)
        yield from self._ending()
        yield from self._results()

    def _window(self, window: Window, number: int) -> Iterator[tuple[type[ControlTable], dict[str, Any]]]:
        """Yields the rows of a window. `number` is 1 for the last window."""
        is_last, is_detailed = number == 1, number <= self._feed.detailed
        trouble = self._feed.trouble if is_last else ""
        begin, self._lsn = self._lsn, self._lsn + self._chance.randrange(10_000, 90_000)
        is_empty = not is_last and self._chance.random() < 0.12
        is_open = trouble in {"audit", "failure", *_RUNNING}
        yield WindowRow, {
            "window_id": window.id, "start": window.start, "end": window.end,
            "from_position": {"lsn": f"{begin:020X}"}, "to_position": {"lsn": f"{self._lsn:020X}"},
            "status": "open" if is_open else "empty" if is_empty else "released",
            "opened_at": window.end + timedelta(seconds=20), "built_on": self._release,
            "asked": {"run": f"scheduled__{window.end:%Y-%m-%dT%H:%M:%S}+00:00"}, "replay_snapshot": None,
        }  # fmt: skip
        if not is_empty and is_detailed:
            yield from self._stages(window, 2 if trouble in {"failure", *_RUNNING} else 4)
            yield from self._reads(window)
        if not is_empty and trouble not in {"failure", *_RUNNING}:
            if is_detailed:
                yield from self._audits(window, trouble)
            if not is_open:
                yield from self._released(window, trouble)
        if trouble == "failure":
            error = "SourceUnavailable: the broker kafka:9092 does not answer\n  Remedy: start the broker"
            yield (
                FailureRow,
                {"window_id": window.id, "stage": "reconcile", "error": error, "at": window.end + HOUR / 9},
            )
        if trouble == "reset":
            yield ResetRow, {
                "id": 1, "status": ASKED, "reason": "decimals were decoded wrongly until 0.2.1", "by": "ann",
                "accept_gap": False, "asked_at": window.end - HOUR / 4, "ended_at": None, "release": None,
                "withdrawn_by": None, "withdrawn_reason": None,
            }  # fmt: skip
        if trouble in _RUNNING:
            yield LeaseRow, {
                "holder": f"{window.id} (scheduled)", "token": 1, "process": "p",
                "expires_at": datetime.now(UTC) + HOUR,
            }  # fmt: skip

    def _stages(self, window: Window, count: int) -> Iterator[tuple[type[ControlTable], dict[str, Any]]]:
        at = window.end + timedelta(seconds=20)
        for stage in STAGES[:count]:
            at += timedelta(seconds=self._chance.randrange(6, 40))
            yield StageRow, {
                "window_id": window.id, "stage": stage, "branch": window.branch, "tables": {},
                "contracts": None,
                "at": at,
            }  # fmt: skip

    def _reads(self, window: Window) -> Iterator[tuple[type[ControlTable], dict[str, Any]]]:
        for table in self._feed.tables:
            count = self._chance.randrange(10, 900)
            yield ReadRow, {
                "window_id": window.id, "source": f"cdc.{table.replace('.', '_')}_CT", "asked": count,
                "received": count, "before": 0, "problem": None,
            }  # fmt: skip

    def _audits(self, window: Window, trouble: str) -> Iterator[tuple[type[ControlTable], dict[str, Any]]]:
        for at, table in enumerate(self._feed.tables):
            for name, rule in TABLE_RULES.items():
                is_broken = (
                    trouble in {"audit", "tolerated"} and at == 0 and name in {"order_strict", "image_chain"}
                )
                stops = is_broken and trouble == "audit" and name == "order_strict"
                yield AuditRow, {
                    "window_id": window.id, "table": table, "rule": name, "success": not is_broken,
                    "violations": 3 if is_broken else 0, "at": window.end + timedelta(minutes=2),
                    "detail": {
                        "says": rule.says, "severity": rule.severity if name == "order_strict" else "warning",
                        "stops": stops,
                        "tolerated": "known at the source" if trouble == "tolerated" else None,
                        "error": None,
                    },
                }  # fmt: skip

    def _released(self, window: Window, trouble: str) -> Iterator[tuple[type[ControlTable], dict[str, Any]]]:
        self._release += 1
        tables: dict[str, Any] = {}
        for table in self._feed.tables:
            changes = {"insert": self._chance.randrange(0, 90), "update": self._chance.randrange(5, 800)}
            changes["delete"] = self._chance.randrange(0, 1 + changes["insert"])
            self._rows[table] += changes["insert"] - changes["delete"]
            current = self._rows[table]
            tables[table] = {"changes": changes, "current": current, "history": current * 3}
        count = sum(sum(of["changes"].values()) for of in tables.values())
        quarantined = self._feed.quarantined if self._chance.random() < 0.3 else 0
        others: list[list[Any]] = [
            ["paired", None, count // 3],
            ["duplicate", "delivered_again", count // 20],
            ["control", "heartbeat", 60],
        ]
        others += [["quarantined", "not_json", quarantined]] if quarantined else []
        is_tolerated = trouble == "tolerated"
        yield ReleaseRow, {
            "id": self._release, "window_id": window.id, "status": "completed", "changes": count,
            "committed": self._committed(window),
            "tables": {f"lake.{self._feed.name}.{n}": 10**17 + n for n in range(len(tables) * 3)},
            "counts": {
                "tables": tables, "dispositions": others, "records": count + sum(of[2] for of in others),
                "tolerated": [["dbo.customers", "order_strict", 3,
                "known at the source"]] if is_tolerated else [],
            },
            "positions": {"lsn": f"{self._lsn:020X}"}, "created_at": window.end + timedelta(minutes=2,
            seconds=20),
            "completed_at": window.end + timedelta(minutes=2, seconds=27), "read_again": None,
            "rolled_back_to": None, "reason": None, "by": None,
        }  # fmt: skip
        self._last = tables

    def _committed(self, window: Window) -> dict[str, Any]:
        """Returns commit times that are evenly spread over the window."""
        begin, length = window.start.timestamp(), (window.end - window.start).total_seconds()
        times = [int(1e6 * (begin + length * at / POINTS)) for at in range(POINTS)]
        return asdict(Committed(self._chance.randrange(1, 900), times))

    def _ending(self) -> Iterator[tuple[type[ControlTable], dict[str, Any]]]:
        feed, end = self._feed, self._now
        if feed.trouble == "taken back" and self._release > 2:
            yield ReleaseRow, {
                "id": self._release + 1, "window_id": Window(start=end - 3 * HOUR, end=end - 2 * HOUR).id,
                "status": "completed", "changes": 0, "committed": None, "tables": {},
                "positions": {"lsn": f"{self._lsn:020X}"},
                "counts": {"tables": self._last, "dispositions": [], "records": 0, "tolerated": []},
                "created_at": end + HOUR / 10, "completed_at": end + HOUR / 9, "read_again": None,
                "rolled_back_to": self._release - 2, "reason": "a load of test rows was published",
                "by": "ann",
            }  # fmt: skip
        is_late = feed.trouble == "late"
        yield SourceStateRow, {
            "source": "cdc.lsn_time_mapping", "read": f"{self._lsn - (9_000 if is_late else 0):020X}",
            "end": f"{self._lsn:020X}", "behind": None, "newest": end, "at": end + timedelta(seconds=25),
            "since": end - 9 * HOUR if is_late else None,
            "why": "nothing has been captured since: check whether the capture job runs" if is_late else None,
        }  # fmt: skip
        yield PositionRow, {"position": {"lsn": f"{self._lsn:020X}"}, "window_id": "w", "updated_at": end}
        for at, table in enumerate(feed.tables):
            lacks = feed.trouble == "lacking" and at == 0
            yield FeedTableRow, {
                "table": table, "lacking": 433 if lacks else 0, "since": end - 90 * HOUR if lacks else None,
                "until": end - 9 * HOUR if lacks else None, "declined_reason": None, "declined_by": None,
            }  # fmt: skip

    def _results(self) -> Iterator[tuple[type[ControlTable], dict[str, Any]]]:
        for number in range(self._feed.compared_days, 0, -1):
            for table in self._feed.tables:
                if self._feed.name != self._feed.reference:
                    yield ComparisonRow, self._comparison(table, number)
                yield ProofRow, self._proof(table, number)

    def _comparison(self, table: str, number: int) -> dict[str, Any]:
        """Returns the comparison of the day that ended `number - 1` days ago."""
        feed, end = self._feed, self._now - (number - 1) * DAY
        differs = 3 if feed.trouble == "differ" and number == 1 and table == feed.tables[0] else 0
        equal, expected = self._chance.randrange(50, 5_000), self._chance.randrange(0, 90)
        counts = dict.fromkeys((*VERDICTS, *CLASSES), 0)
        counts |= {EQUAL: equal, EXPECTED: expected, NO_OP_UPDATE: expected, DIFFERS: differs}
        begin, until = (f"{0x2700000000000 + day * 0x1000000:020X}" for day in (400 - number, 401 - number))
        return {
            "id": f"{feed.reference}.{feed.name}.{table}.{begin}.{until}", "database": feed.database,
            "table": table, "reference": feed.reference, "from_lsn": begin, "to_lsn": until,
            "from_time": end - DAY, "to_time": end, "outcome": "differ" if differs else "agree",
            "accepted_reason": None, "accepted_by": None, "counts": counts,
            "columns": {"name": {"differs": differs}} if differs else {},
            "spans": [[(equal + expected) // _SPANS, (equal + expected + differs) // _SPANS]] * _SPANS,
            "positions": None, "at": end,
        }  # fmt: skip

    def _proof(self, table: str, number: int) -> dict[str, Any]:
        feed, end = self._feed, self._now - (number - 1) * DAY
        drifts = feed.trouble == "drift" and number == 1 and table == feed.tables[0]
        return {
            "id": f"{feed.name}_{table}_{number}", "against": "source", "snapshot_id": f"s{number}",
            "database": feed.database,
            "table": table, "release": self._release, "outcome": "drift" if drifts else "proven",
            "since": end - HOUR, "until": end, "since_lsn": None, "until_lsn": None, "at": end,
            "counts": {"rows": 900, "equal": 898, "missing": 2 if drifts else 0, "extra": 0, "differs": 0},
        }  # fmt: skip
