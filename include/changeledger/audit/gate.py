"""The gate before publishing: judge every rule, and stop the run when one does not hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from changeledger.audit import page, suites
from changeledger.audit.counting import Tally, sample, tally
from changeledger.audit.rules import Rule, Severity
from changeledger.errors import AuditFailed
from changeledger.window import Window

# Offences that a verdict keeps, and how many of them the error's message prints.
SAMPLES = 20
_PRINTED = 3
_SUBJECTS_AT_ONCE = 4


@dataclass(frozen=True)
class Subject:
    """What is judged together: a source table, or the feed. `lake_tables`: where to look on the branch."""

    name: str
    lake_tables: tuple[str, ...]
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Verdict:
    """One rule's verdict. `violations` is None when the rule `errored`: then `error` says why.

    `samples` are offending rows as dictionaries. `tolerated`: a person has let it pass.
    """

    table: str
    rule: str
    says: str
    violations: int | None
    checked: int | None
    success: bool
    errored: bool
    severity: Severity
    tolerated: bool
    error: str | None
    samples: tuple[dict[str, Any], ...]

    @property
    def stops(self) -> bool:
        return not self.success and self.severity != "warning" and not self.tolerated


def docs_index(data_docs: Path, feed: str, window: Window) -> Path:
    return data_docs / feed / window.id / page.NAME


def judge(feed: str, window: Window, subjects: Sequence[Subject], data_docs: Path) -> list[Verdict]:
    """Count, validate and document every rule. Offending rows are read for violated rules alone."""
    with ThreadPoolExecutor(_SUBJECTS_AT_ONCE) as pool:
        # Seconds of importing, while Spark counts.
        loading = pool.submit(suites.load)
        counted = list(pool.map(lambda subject: tally(subject.rules), subjects))
        loading.result()
    tallies = {
        subject.name: [(rule, counts[rule.name]) for rule in subject.rules]
        for subject, counts in zip(subjects, counted, strict=True)
    }
    folder = docs_index(data_docs, feed, window).parent
    outcomes = suites.validate(tallies, window.id, folder)
    verdicts = [
        _verdict(table, rule, count, outcomes[table, rule.name], window.request.tolerate)
        for table, entries in tallies.items()
        for rule, count in entries
    ]
    page.write(folder, feed, window, verdicts, shown)
    return verdicts


def _verdict(table: str, rule: Rule, count: Tally, outcome: suites.Outcome, tolerate: str) -> Verdict:
    return Verdict(
        table,
        rule.name,
        rule.says,
        count.violations,
        count.checked,
        outcome.success,
        outcome.errored,
        rule.severity,
        # A rule that could not be checked may be violated by anything.
        tolerate == rule.severity and not outcome.success and not outcome.errored,
        count.error,
        tuple(sample(rule, SAMPLES)) if count.violations else (),
    )


def gate(
    feed: str, window: Window, subjects: Sequence[Subject], verdicts: Sequence[Verdict], data_docs: Path
) -> None:
    """Raises AuditFailed when a rule stops the run: violated and not let pass, or not to be checked."""
    stopping = [v for v in verdicts if v.stops]
    if not stopping:
        return
    failed = [v for v in stopping if not v.errored]
    errored = [v for v in stopping if v.errored]
    lines = [f"the audit of {feed}, window {window.id}, found {len(failed)} rules violated"]
    if errored:
        lines[0] += f" and {len(errored)} that could not be checked"
    for verdict in stopping:
        lines += _told(verdict)
    lines.append(f"Data Docs: {docs_index(data_docs, feed, window)}")
    lines.append(f"Nothing was published. The branch {window.branch} is kept.")
    raise AuditFailed("\n  ".join(lines), _remedy(window, subjects, stopping))


def _told(verdict: Verdict) -> Iterator[str]:
    name = f"{verdict.table}: {verdict.rule}"
    if verdict.errored:
        yield f"- {name}: could not be checked: {verdict.error or 'see Data Docs'}"
        return
    yield f"- {name}: {verdict.violations:,} violations. {verdict.says}"
    for row in verdict.samples[:_PRINTED]:
        yield f"    {shown(row)}"
    more = len(verdict.samples) - _PRINTED
    if more > 0:
        yield f"    and {more} more in the verdict"


def _remedy(window: Window, subjects: Sequence[Subject], stopping: Sequence[Verdict]) -> str:
    tables = {v.table for v in stopping}
    queries = [
        f"SELECT * FROM {table}.branch_{window.branch}"  # noqa: S608 - for a person to type
        for subject in subjects
        if subject.name in tables
        for table in subject.lake_tables
    ]
    return (
        "open the Data Docs, look at the offending rows on the branch, correct the cause, "
        "and run the window again (it rebuilds the branch):\n    " + "\n    ".join(queries)
    )


def shown(value: Any) -> str:
    """A value of an offending row for people: binary as hexadecimal, without members that are NULL."""
    if isinstance(value, dict):
        return ", ".join(f"{k}={_nested(v)}" for k, v in value.items() if v is not None)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_nested, value)) + "]"
    if isinstance(value, bytes | bytearray):
        return "0x" + value.hex().upper()
    return str(value)


def _nested(value: Any) -> str:
    return f"({shown(value)})" if isinstance(value, dict) else shown(value)
