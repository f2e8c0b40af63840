"""The report of a database's comparisons, as a page and as Markdown.

It is for the person who must sign the switch from one capture tool to another: first the verdict, then the
agreement over time, then the differences with samples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from changeledger.compare import verdicts
from changeledger.compare.positions import said
from changeledger.config.database import Database
from changeledger.config.feed import Feed
from changeledger.config.object_path import PagePath
from changeledger.config.settings import Settings
from changeledger.control import ComparisonRow, ControlStore
from changeledger.control.outcomes import worst_comparison
from changeledger.control.tables.results import ACCEPTED
from changeledger.lake import catalog, iceberg
from changeledger.model.table_names import FINDINGS
from changeledger.reports import page
from changeledger.stages import compare

# How many samples the report shows of each verdict in a table.
_SAMPLES = 5
# How far back the report goes, except for open disagreements. Comparisons are kept for years.
_PERIOD = timedelta(days=92)
# The number of parts of the picture's time axis.
_TICKS = 4

_CLASSES = {
    verdicts.NOT_CAPTURED: "one of the tools does not send a cell or an image that the other has",
    verdicts.NO_OP_UPDATE: "an update that changed nothing, which some tools do not write",
    verdicts.SPLIT_UPDATE: "one feed has an update, the other a delete and an insert",
    verdicts.ORDER_UNKNOWN: "both have the change; the positions of the two feeds cannot be compared",
    verdicts.COMMIT_TIME: "both have the change; its commit times are more than 5 seconds apart",
}
_VERDICTS = {
    verdicts.EQUAL: "both have the same",
    verdicts.MISSING: "the reference has it, the feed does not",
    verdicts.EXTRA: "the feed has it, the reference does not",
    verdicts.DIFFERS: "both have it, with different operations or values",
    verdicts.ORDER: "both have it, at different places in the log",
    verdicts.REPRESENTATION: "the same value, written differently",
    verdicts.EXPECTED: "a difference that follows from how the tools work",
}


class Span(NamedTuple):
    """A bar of the picture. `left`, `width`: in thousandths of the time shown. `agreeing`: in percent."""

    left: float
    width: float
    agreeing: float
    title: str


class Wrong(NamedTuple):
    """All findings of one verdict in one table. LSNs are hex."""

    table: str
    verdict: str
    findings: int
    first: str | None
    last: str | None
    since: datetime
    until: datetime
    samples: Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Pair:
    """The reference and one feed.

    `rows`: the last comparison of each table, and open disagreements. `all_rows`: these and all comparisons
    of the period.
    """

    feed: str
    outcome: str
    rows: Sequence[ComparisonRow]
    all_rows: Sequence[ComparisonRow]
    spans: Sequence[Span]
    since: datetime | None
    until: datetime | None
    wrong: Sequence[Wrong]
    # Tables of either feed that were never compared.
    left_out: Sequence[str]

    @property
    def compared(self) -> int:
        return sum(row.counts[verdict] for row in self.rows for verdict in verdicts.VERDICTS)

    @property
    def ticks(self) -> Sequence[tuple[int, str]]:
        """Times below the picture: their places in percent of the time shown, and their texts."""
        if self.since is None or self.until is None:
            return []
        step = (self.until - self.since) / _TICKS
        return [(100 * n // _TICKS, f"{self.since + n * step:%Y-%m-%d\n%H:%M:%S}") for n in range(_TICKS + 1)]

    @property
    def accepted(self) -> Sequence[ComparisonRow]:
        """The disagreements of the period that somebody has accepted."""
        return [row for row in self.all_rows if row.outcome == ACCEPTED]

    @property
    def faults(self) -> int:
        return sum(row.counts[verdict] for row in self.rows for verdict in verdicts.FAULTS)

    @property
    def positions(self) -> Sequence[str]:
        """Sentences on how the changes of the two feeds were matched; empty if one feed knows no LSN."""
        return sorted({said(row.positions) for row in self.rows if row.positions is not None})

    @property
    def says(self) -> str:
        """The verdict as a sentence."""
        if not self.faults:
            return f"{self.feed} agrees with the reference in all {self.compared:,} effects."
        counts = {verdict: sum(row.counts[verdict] for row in self.rows) for verdict in verdicts.FAULTS}
        first = min((wrong.since for wrong in self.wrong), default=None)
        since = f", since {first:%Y-%m-%d %H:%M:%S} UTC" if first else ""
        tables = ", ".join(row.table for row in self.rows if any(row.counts[v] for v in verdicts.FAULTS))
        text = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items() if count)
        verdict = "does not agree, which was accepted" if self.outcome == ACCEPTED else "does not agree"
        return f"{self.feed} {verdict}: {text} of {self.compared:,} effects, in {tables}{since}."


@dataclass(frozen=True)
class Report:
    """The content of the page."""

    database: str
    reference: str
    written: datetime
    pairs: Sequence[Pair]
    # Feeds that have not been compared.
    missing: Sequence[str] = ()


def compare_and_report(
    spark: SparkSession, database: Database, feeds: Mapping[str, Feed], full: bool = False
) -> None:
    """Compares the feeds and writes the report, for the job and the command.

    Raises FeedsDisagree after writing the report.
    """
    settings = Settings()
    folder = database.report(settings).parent
    with page.written(
        lambda: write(gather(spark, ControlStore(settings.control_url), database, feeds), folder)
    ):
        compare.run(spark, database, feeds, full)


def gather(
    spark: SparkSession, control: ControlStore, database: Database, feeds: Mapping[str, Feed]
) -> Report:
    """Gathers the report from the control store and the findings in the lake. Raises ConfigError."""
    reference, others = database.compared(feeds)
    now = datetime.now(UTC).replace(microsecond=0)
    since = now - _PERIOD
    rows = control.comparisons.of_database(database.database, since)
    last = control.comparisons.last(database.database)
    pairs, missing = [], []
    for other in others:
        pair = (reference.feed, other.feed)
        if pair in last:
            older = [row for row in last[pair] if row.at < since]
            of_pair = [row for row in rows if (row.reference, row.feed) == pair]
            left_out = _never_compared((reference, other), last[pair])
            pairs.append(_pair(spark, other.feed, last[pair], older + of_pair, left_out))
        else:
            missing.append(other.feed)
    return Report(database.database, reference.feed, now, pairs, missing)


def _never_compared(feeds: tuple[Feed, Feed], last: Sequence[ComparisonRow]) -> list[str]:
    compared = {row.table.lower() for row in last}
    listed = {table.table.lower(): table.table for feed in feeds for table in feed.tables}
    return [table for name, table in sorted(listed.items()) if name not in compared]


def _pair(
    spark: SparkSession,
    feed: str,
    last: Sequence[ComparisonRow],
    all_rows: Sequence[ComparisonRow],
    left_out: Sequence[str],
) -> Pair:
    """Returns the report of a pair. `last`: its `rows`."""
    wrong = _wrong(spark, [row.id for row in all_rows if any(row.counts[v] for v in verdicts.FAULTS)])
    times = [t for row in all_rows for t in (row.from_time, row.to_time) if t is not None]
    outcome, spans = worst_comparison(row.outcome for row in last), _picture(all_rows)
    since, until = min(times, default=None), max(times, default=None)
    return Pair(feed, outcome, last, all_rows, spans, since, until, wrong, left_out)


def _picture(all_rows: Sequence[ComparisonRow]) -> list[Span]:
    """Returns bars over the whole compared time, for all tables together."""
    parts: dict[tuple[datetime, datetime], list[int]] = {}
    for row in all_rows:
        if row.from_time is None or row.to_time is None:
            continue
        width = (row.to_time - row.from_time) / max(len(row.spans), 1)
        for number, (agreeing, everything) in enumerate(row.spans):
            begin = row.from_time + number * width
            at = parts.setdefault((begin, begin + width), [0, 0])
            at[0] += agreeing
            at[1] += everything
    if not parts:
        return []
    first, last = min(begin for begin, _ in parts), max(end for _, end in parts)
    whole = max(last - first, timedelta(milliseconds=1))
    return [
        Span(
            1000 * ((begin - first) / whole),
            max(1000 * ((end - begin) / whole), 2),
            100 * agreeing / everything,
            f"{begin:%Y-%m-%d %H:%M:%S}: {agreeing:,} of {everything:,} agree",
        )
        for (begin, end), (agreeing, everything) in sorted(parts.items())
        if everything
    ]


def _wrong(spark: SparkSession, comparisons: Sequence[str]) -> list[Wrong]:
    if not comparisons or not catalog.exists(FINDINGS):
        return []
    findings = iceberg.read(spark, FINDINGS).where(F.col("comparison_id").isin(list(comparisons)))
    by = ["table", "verdict"]
    micros = F.unix_micros("committed_at")
    groups = (
        findings.groupBy(*by)
        .agg(
            F.count(F.lit(1)).alias("count"),
            F.hex(F.min("commit_lsn")).alias("first"),
            F.hex(F.max("commit_lsn")).alias("last"),
            F.min(micros).alias("since"),
            F.max(micros).alias("until"),
        )
        .orderBy(*by)
        .collect()
    )
    samples = page.samples(findings, by, ["commit_lsn", "key"], _SAMPLES)
    times = [[datetime.fromtimestamp(row[name] / 1e6, UTC) for name in ("since", "until")] for row in groups]
    return [
        Wrong(table, verdict, count, first, last, since, until, samples[table, verdict])
        for (table, verdict, count, first, last, *_), (since, until) in zip(groups, times, strict=True)
    ]


def write(report: Report, folder: PagePath) -> None:
    """Writes `index.html` and `comparison.md` in the folder."""
    known = {"report": report, "verdicts": _VERDICTS, "classes": _CLASSES, "faults": verdicts.FAULTS}
    page.write("comparison", folder, known)
