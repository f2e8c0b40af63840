"""The rules of cutover, as one function of the facts. docs/cutover.md has them as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from changeledger.compare.verdicts import COMMIT_TIME
from changeledger.control.outcomes import DRIFTED, PROVEN
from changeledger.control.tables.feeds import FailureRow
from changeledger.model.wording import counted, listed
from changeledger.state.cutover import CutoverFacts, FeedFacts

GO: Final = "go"
NOT_YET: Final = "not yet"
NO_GO: Final = "no-go"
# A reason that decides nothing, but that whoever signs must have read.
NOTE: Final = "note"

# Comparisons that ended longer ago say too little, if there were changes since.
STALE: Final = timedelta(days=1)
# The default of the least number of compared events that say enough.
LEAST_EVENTS: Final = 1000
# How many names a sentence lists.
_NAMED: Final = 5


class Reason(NamedTuple):
    """A reason of a verdict.

    `code`: the rule, as in docs/cutover.md. `action`: a command, or what else to do. `feed`: the feed that it
    is about; empty: it is about the pair, or about the successor.
    """

    verdict: str
    code: str
    text: str
    action: str
    feed: str = ""


@dataclass(frozen=True)
class Verdict:
    """A verdict. `until`: when it could change by waiting alone; None: waiting alone does not help."""

    verdict: str
    reasons: Sequence[Reason]
    until: datetime | None = None

    def of(self, verdict: str) -> list[Reason]:
        return [reason for reason in self.reasons if reason.verdict == verdict]


def judge(facts: CutoverFacts, least_events: int) -> Verdict:
    """Judges the facts: no-go if any rule says so, else not yet if any rule says so, else go."""
    reasons = [*_differences(facts), *_successor(facts), *_coverage(facts, least_events), *_proofs(facts),
               *_notes(facts)]  # fmt: skip
    verdict = next((v for v in (NO_GO, NOT_YET) if any(r.verdict == v for r in reasons)), GO)
    waits = [reason.code for reason in reasons if reason.verdict == NOT_YET]
    until = _covered_at(facts) if verdict == NOT_YET and waits == ["not_covered"] else None
    return Verdict(verdict, reasons, until)


def _covered_at(facts: CutoverFacts) -> datetime | None:
    begun = facts.compared.begun
    return None if begun is None else begun + facts.period.length


def _differences(facts: CutoverFacts) -> Iterator[Reason]:
    """Yields reasons about differences between the two feeds."""
    database, old, new = facts.database, facts.old.feed, facts.new.feed
    look = f"look at the findings (page Agreement); repair {new}, then `changeledger compare {database}`"
    known = {name.lower() for name in facts.both}
    tables = [table for name, table in facts.compared.tables.items() if name in known]
    for name, what in (
        ("lost", f"that {old} has and {new} lacks"),
        ("surplus", f"that {new} has and {old} lacks"),
        ("differs", f"that {new} has with another operation or value"),
        ("order", f"that {new} has at another place in the log"),
    ):
        count = sum(getattr(table, name) for table in tables)
        if count:
            wrong = _named(table.table for table in tables if getattr(table, name))
            yield Reason(NO_GO, name, f"{counted(count, 'event')} {what}, in {wrong}", look)
    for table in tables:
        for acceptance in table.accepted:
            text = (
                f"{table.table}: {counted(acceptance.differences, 'difference')} "
                f"accepted by {acceptance.by}: {acceptance.reason}"
            )
            yield Reason(NOTE, "accepted", text, "whoever signs the page also accepts this")


def _successor(facts: CutoverFacts) -> Iterator[Reason]:
    """Yields reasons about what the successor would lose."""
    new = facts.new
    if facts.only_old:
        text = f"{new.feed} does not read {_named(facts.only_old)}, which {facts.old.feed} reads"
        remedy = (
            f"add them to `tables:` of {new.feed}, or take them off {facts.old.feed} if nobody needs them"
        )
        yield Reason(NO_GO, "table_not_read", text, remedy)
    if lost := [f"{of.table}.{name}" for of in facts.columns for name in of.lost]:
        text = f"{new.feed} does not have the columns {_named(lost)}, which {facts.old.feed} has"
        remedy = (
            f"let the tool of {new.feed} capture them; if the source no longer has them, or nobody needs "
            f"them, drop them from what {facts.old.feed} publishes (`publish:`)"
        )
        yield Reason(NO_GO, "column_not_read", text, remedy)
    if new.gaps:
        text = f"{new.feed} lacks records that its source no longer had: {_named(new.gaps)}"
        yield Reason(
            NO_GO, "gap", text, "load the tables again (docs/when-a-run-stops.md), and compare --full"
        )
    if new.lacking:
        text = f"{new.feed} lacks earlier changes of {_named(new.lacking)}"
        yield Reason(NO_GO, "lacking", text, f"see `changeledger tables {new.feed}`")
    if new.share > new.quarantine_limit:
        text = (
            f"{counted(new.in_quarantine, 'record')} of {new.records:,} of {new.feed} are in quarantine: "
            f"more than its limit of {new.quarantine_limit:.1%}"
        )
        yield Reason(
            NO_GO, "quarantine", text, f"see `changeledger quarantine list {new.feed}`, then replay them"
        )


def _coverage(facts: CutoverFacts, least_events: int) -> Iterator[Reason]:
    """Yields reasons about how much of the period was compared."""
    compared, compare = facts.compared, f"run `changeledger compare {facts.database}`"
    if facts.compare_failure is not None:
        text = f"the last comparison failed at {_failed(facts.compare_failure)}"
        yield Reason(NOT_YET, "compare_failed", text, compare)
    if not compared.tables:
        text = f"{facts.old.feed} and {facts.new.feed} were never compared with each other"
        yield Reason(NOT_YET, "never_compared", text, f"{compare}; one of the two must be its `reference:`")
        return
    missing = [table for table in facts.both if table.lower() not in compared.tables]
    if missing:
        yield Reason(NOT_YET, "table_never_compared", f"never compared: {_named(missing)}", compare)
    known = [compared.tables[t.lower()] for t in facts.both if t.lower() in compared.tables]
    behind = [table.table for table in known if not table.is_current]
    if behind:
        yield Reason(NOT_YET, "table_left_behind", f"not in the last comparison: {_named(behind)}", compare)
    short = [table.table for table in known if not table.is_covered]
    if short:
        yield _not_covered(facts, short)
    events = sum(table.in_period for table in known)
    if events < least_events:
        text = f"{counted(events, 'event')} were compared in the period, fewer than {least_events:,}"
        yield Reason(NOT_YET, "too_few_events", text, "wait for more, or ask for a longer period (--days)")
    uncompared = facts.old.uncompared + facts.new.uncompared
    if compared.last_run is not None and uncompared and facts.period.until - compared.last_run > STALE:
        text = f"{uncompared:,} changes were released since the last comparison at {_at(compared.last_run)}"
        yield Reason(NOT_YET, "stale", text, compare)


def _not_covered(facts: CutoverFacts, tables: Sequence[str]) -> Reason:
    at, begun = _covered_at(facts), facts.compared.begun
    if at is None or begun is None or at <= facts.period.until:
        text = f"the comparisons have a hole in the period in {_named(tables)}"
        return Reason(NOT_YET, "hole", text, f"run `changeledger compare {facts.database} --full`")
    text = (
        f"the comparisons begin {_at(begun)}, after the period begins; they cover a whole period on "
        f"{_at(at)}, {said(at - facts.period.until)} from now"
    )
    return Reason(NOT_YET, "not_covered", text, "wait, or ask for a shorter period (--days)")


def _proofs(facts: CutoverFacts) -> Iterator[Reason]:
    """Yields reasons about the proofs: the successor's published rows against those of the source."""
    verify = f"run `changeledger verify {facts.database} --feed {facts.new.feed}`"
    if facts.verify_failure is not None:
        text = f"the last proof failed at {_failed(facts.verify_failure)}"
        yield Reason(NOT_YET, "verify_failed", text, verify)
    if not facts.has_source:
        verify = (
            f"name the source: `verify: {{connection: ...}}` in the YAML of {facts.database}; then {verify}"
        )
    rows = {table: facts.proofs.get(table.lower()) for table in facts.new.tables}
    drifted = [table for table, row in rows.items() if row is not None and row.outcome == DRIFTED]
    if drifted:
        text = f"{facts.new.feed} does not match the source in {_named(drifted)}"
        yield Reason(NO_GO, "drift", text, "look at the page of the proofs, and repair (docs/verify.md)")
    others = {table: row for table, row in rows.items() if table not in drifted}
    absent = [table for table, row in others.items() if row is None]
    if absent:
        yield Reason(NOT_YET, "no_proof", f"never proved against the source: {_named(absent)}", verify)
    waiting = [table for table, row in others.items() if row is not None and row.outcome != PROVEN]
    if waiting:
        text = (
            f"the proof of {_named(waiting)} waits until windows are released that end after the source was "
            "read"
        )
        yield Reason(NOT_YET, "proof_waits", text, f"wait for {facts.new.feed}'s next release, then {verify}")
    old = [
        table
        for table, row in others.items()
        if row is not None and row.outcome == PROVEN and row.until < facts.period.since
    ]
    if old:
        yield Reason(NOT_YET, "old_proof", f"the proof is older than the period: {_named(old)}", verify)


def _notes(facts: CutoverFacts) -> Iterator[Reason]:
    """Yields notes about what was not checked, and what else to know."""
    quiet = [t.table for t in facts.compared.tables.values() if not t.in_period]
    if quiet:
        text = (
            f"no event of {_named(quiet)} was compared in the period: nothing is known about how they change"
        )
        yield Reason(NOTE, "quiet_table", text, "a proof says only that its rows are right")
    if facts.only_new:
        text = f"only {facts.new.feed} reads {_named(facts.only_new)}: there is nothing to compare it with"
        yield Reason(NOTE, "only_new", text, "only its proof speaks for it")
    unseen = [f"{of.table}.{name} ({why})" for of in facts.columns for name, why in of.not_compared.items()]
    if unseen:
        text = f"not compared: {_named(unseen)}"
        yield Reason(NOTE, "column_not_compared", text, "nothing is known about the successor's values there")
    if shifted := facts.compared.expected.get(COMMIT_TIME, 0):
        text = f"{counted(shifted, 'event')} have commit times that are more than 5 seconds apart"
        action = (
            "find out which clock is right (`time_zone:`, the tool's own): intervals of the history begin at "
            "these times"
        )
        yield Reason(NOTE, "commit_time", text, action)
    for feed in (facts.old, facts.new):
        yield from _notes_of(feed)
    text = "the last transaction that both feeds have is never compared: a part of it may still be missing"
    yield Reason(NOTE, "last_transaction", text, "the next comparison includes it")


def _notes_of(feed: FeedFacts) -> Iterator[Reason]:
    if feed.uncompared:
        text = f"{counted(feed.uncompared, 'change')} of {feed.feed} were released after the last comparison"
        yield Reason(NOTE, "uncompared", text, "the next comparison includes them", feed.feed)
    waiting = feed.in_quarantine + feed.quarantined_before
    if waiting and feed.share <= feed.quarantine_limit:
        text = (
            f"{counted(waiting, 'record')} of {feed.feed} are in quarantine: not compared, and not published"
        )
        yield Reason(
            NOTE, "in_quarantine", text, f"see `changeledger quarantine list {feed.feed}`", feed.feed
        )
    if feed.masks.unproved:
        text = f"{feed.feed}: the order of change masks is not proved in {_named(feed.masks.unproved)}"
        yield Reason(
            NOTE, "masks", text, "values were compared, but not the columns that the masks name", feed.feed
        )
    if feed.failure is not None:
        text = f"the last run of {feed.feed} failed at {_failed(feed.failure)}"
        yield Reason(NOTE, "run_failed", text, f"see `changeledger status {feed.feed}`", feed.feed)


def _named(names: Iterable[str]) -> str:
    return listed(list(names), _NAMED)


def _at(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def _failed(row: FailureRow) -> str:
    """Returns the time and the error without its remedy, in one line."""
    return f"{_at(row.at)}: {' '.join(row.error.partition(chr(10))[0].split())[:300]}"


def said(span: timedelta) -> str:
    """Formats a span with the precision that people need: `2 days 3 hours`, `4.2 s`."""
    seconds = max(span.total_seconds(), 0)
    for size, unit, smaller, part in ((86_400, "day", 3_600, "hour"), (3_600, "hour", 60, "minute")):
        if seconds >= size:
            whole, seconds_over = divmod(int(seconds), size)
            rest = counted(seconds_over // smaller, part)
            return f"{counted(whole, unit)} {rest}" if seconds_over // smaller else counted(whole, unit)
    return f"{int(seconds // 60)} min {int(seconds % 60)} s" if seconds >= 60 else f"{seconds:.1f} s"
