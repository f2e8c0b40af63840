"""Conservation: every raw record of the run has exactly one disposition, per topic or capture table.

Also the other rules for the records of a run as a whole.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from changeledger.audit.record_sums import READ, Faulty
from changeledger.audit.rules import Rule, Sum
from changeledger.config.feed import Feed
from changeledger.model import change
from changeledger.model.source_state import SourceState
from changeledger.model.window import SourceRead

# The dispositions of records that can be read, or may be readable later.
_READ = (change.CHANGE, change.PAIRED, change.DUPLICATE, change.PENDING)


@dataclass(frozen=True)
class Balance:
    """A source's records of the run: `raw` were read, `dispositions` counts them by disposition.

    `lost`: read, without a disposition. `doubled`: accounted for more often than read.
    """

    source: str
    raw: int
    dispositions: dict[str, int]
    lost: int = 0
    doubled: int = 0

    def __str__(self) -> str:
        parts = (
            " + ".join(f"{n:,} {name}" for name, n in sorted(self.dispositions.items()))
            or "none accounted for"
        )
        faults = f"; {self.lost:,} lost, {self.doubled:,} doubled" if self.lost or self.doubled else ""
        return f"{self.source}: {self.raw:,} read = {parts}{faults}"


def uneven(sums: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the sources whose two sides differ. `sums`: rows of `record_sums.SUMS`."""
    differences = Counter[tuple[str, str]]()
    for row in sums:
        sign = 1 if row["disposition"] == READ else -1
        for name in ("n", "low", "high"):
            differences[row["source"], name] += sign * row[name]
    return sorted({source for (source, _), difference in differences.items() if difference})


def balances(sums: Sequence[Mapping[str, Any]], faults: Mapping[str, Faulty]) -> list[Balance]:
    """Returns what a run has read and what became of it: one balance per source, sorted by name."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for row in sums:
        counts[row["source"]][row["disposition"]] += row["n"]
    balances = []
    for source, known in sorted(counts.items()):
        raw, fault = known.pop(READ, 0), faults.get(source, Faulty(0, 0, ()))
        dispositions = {name: n for name, n in known.items() if n}
        balances.append(Balance(source, raw, dispositions, fault.lost, fault.doubled))
    return balances


def received(sums: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Counts the window's own raw rows by the source that they were read from (`SourceRead.source`)."""
    counts = Counter[str]()
    for row in sums:
        if row["received"] is not None:
            counts[row["received"]] += row["n"]
    return counts


@dataclass(frozen=True)
class WindowReads:
    """What a window should read (`window.promised`), and what it has read.

    `tables`: the table of each change table. `came`: the number of raw rows by source, as they are now.
    """

    promised: Mapping[str, int | None]
    reads: Sequence[SourceRead]
    tables: Mapping[str, str]
    came: Mapping[str, int]

    def sums(self) -> Iterator[Sum]:
        """Yields a sum for each source: 1 where raw does not have what the source had."""
        for read in self.reads:
            received = self.came.get(read.source, 0)
            is_wrong = bool(read.problem) or received != read.received
            yield _read(read.source, read.asked, received, read.problem or "", wrong=is_wrong)
        asked = {read.source: read.asked for read in self.reads}
        read_tables = {self.tables.get(source) for source in asked}
        for source, offsets in self.promised.items():
            received = self.came.get(source, 0)
            if offsets is None and source not in read_tables:
                yield _read(source, None, received, "the window has this table, but it was not read")
            elif offsets is not None and asked.get(source) != offsets:
                problem = (
                    f"the window has {offsets} offsets of it, but the run asked for {asked.get(source, 0)}"
                )
                yield _read(source, offsets, received, problem)


def _read(source: str, asked: int | None, received: int, problem: str, *, wrong: bool = True) -> Sum:
    wanted = "" if asked is None else f"asked for {asked:,}, "
    return Sum(source, int(wrong), f"{wanted}received {received:,}" + (f": {problem}" if problem else ""))


def source_rules(window: WindowReads, late: Sequence[SourceState]) -> list[Rule]:
    """Returns the rules on what was read of the sources. `late`: those on which the feed cannot read on."""
    reads = window.reads
    asked, in_all = sum(r.asked for r in reads), sum(r.received for r in reads)
    removed = [
        Sum(r.source, int(bool(r.before)), f"{r.before:,} records were removed before the first read")
        for r in reads
    ]
    waiting = [Sum(s.source, 1, f"{s.behind} behind since {s.since}: {s.why}") for s in late]
    sources = f"{len(reads):,} sources, {asked:,} offsets or rows asked for, {in_all:,} records received"
    return [
        Rule(
            "source_complete",
            "source_position",
            "Raw has every record that the source had. Offsets without a record are transaction markers. "
            f"{sources}.",
            "critical",
            tuple(window.sums()),
        ),
        Rule(
            "source_from_its_beginning",
            "source_position",
            "A partition that the feed reads for the first time still has its first record; records that "
            "retention removed earlier are not in the lake.",
            "warning",
            tuple(removed),
        ),
        Rule(
            "source_is_read_on",
            "source_position",
            "Nothing waits at the source for longer than `deadline`: there is no open transaction, and the "
            "capture runs.",
            "warning",
            tuple(waiting),
        ),
    ]


def whole_tables(joined: Mapping[str, int]) -> Rule:
    """Returns `tables_are_whole`. `joined`: how many earlier changes each recently listed table lacks."""
    lacking = [
        Sum(table, 1, f"{count:,} earlier changes have not been read") for table, count in joined.items()
    ]
    return Rule(
        "tables_are_whole",
        "source_position",
        "No table lacks changes that the feed passed over before it listed the table. To read them, trigger "
        "the DAG with the mode `window` for the table; `changeledger status` names the times.",
        "warning",
        tuple(lacking),
    )


def feed_rules(
    feed: Feed,
    balances: Sequence[Balance],
    faults: Mapping[str, Faulty],
    quarantined: Mapping[str, int],
    *,
    is_replay: bool = False,
) -> list[Rule]:
    """Returns the rules for the run's records as a whole. `quarantined`: the number of records by reason.

    `is_replay`: the records were in quarantine before, so those that stay there must not hold back the
    others.
    """
    return [
        Rule(
            "conservation",
            "source_position",
            "Every record that was read has exactly one disposition. " + "; ".join(map(str, balances)) + ".",
            "critical",
            tuple(_balanced(balance, faults.get(balance.source)) for balance in balances),
        ),
        *_quarantine_rules(feed, balances, quarantined, is_replay),
        Rule(
            "shapes_fit_contracts",
            "reason",
            "The columns that the feed reports for its tables fit the published contracts.",
        ),
        Rule(
            "no_unpaired_images",
            "reason",
            "No before row is left without its after row.",
            # Such a record is in quarantine with its reason, and does not hold back the rest of the run.
            "warning",
        ),
    ]


def _balanced(balance: Balance, faulty: Faulty | None) -> Sum:
    records = "" if faulty is None else ": " + "; ".join(faulty.samples)
    unknown = sum(n for name, n in balance.dispositions.items() if name not in change.DISPOSITIONS)
    wrong = balance.lost + balance.doubled + unknown
    return Sum(balance.source, wrong, str(balance).split(": ", 1)[1] + records)


def kept_records(kept: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]]) -> Rule:
    """Returns `records_are_kept`.

    `kept`: by disposition, `record_sums.SUMS` of the records that have it, and of those that are kept so.
    """
    return Rule(
        "records_are_kept",
        "source_position",
        "Each record that is quarantined or pending is kept as received, and no other.",
        "critical",
        tuple(_kept(disposition, sides) for disposition, sides in kept.items()),
    )


def _kept(disposition: str, sides: Sequence[Sequence[Mapping[str, Any]]]) -> Sum:
    said, rows = ([sum(row[name] for row in side) for name in ("n", "low", "high")] for side in sides)
    count, kept = said[0], rows[0]
    wrong = max(abs(count - kept), int(said != rows))
    return Sum(disposition, wrong, f"{count:,} records are {disposition}, {kept:,} are kept as such")


def _quarantine_rules(
    feed: Feed, balances: Sequence[Balance], quarantined: Mapping[str, int], is_replay: bool
) -> list[Rule]:
    records = sum(b.raw for b in balances)
    count = sum(quarantined.values())
    # As written in the feed file: 0.29 of 100 is 29, which floating point misses.
    allowed = records if is_replay else int(Fraction(str(feed.quarantine_limit)) * records)
    limit = "no limit in a replay" if is_replay else f"limit {feed.quarantine_limit:g}"
    nothing_read = _nothing_read(balances, quarantined)
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in sorted(quarantined.items()))
    return [
        Rule(
            "quarantine_limit",
            "disposition",
            f"At most {allowed:,} of {records:,} records are quarantined ({limit}); "
            f"{count:,} are.{nothing_read}",
            sums=(Sum(feed.feed, max(0, count - allowed), reasons or "no record is quarantined"),),
        ),
        Rule(
            "no_quarantined_records",
            "disposition",
            "Every record of the run can be read. Published rows lack the changes of records that "
            f"cannot.{nothing_read}",
            "warning",
        ),
    ]


def _nothing_read(balances: Sequence[Balance], quarantined: Mapping[str, int]) -> str:
    """Returns a remark on a run of which nothing could be read, which a converter or transform can cause."""
    read = sum(b.dispositions.get(name, 0) for b in balances for name in _READ)
    if read or not quarantined:
        return ""
    return f" Nothing of the run could be read: {', '.join(sorted(quarantined))}."
