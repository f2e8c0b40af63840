"""The gate before publishing: judge every rule, and stop the run when one fails."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from changeledger.audit import page, suites
from changeledger.audit.outcomes import RuleOutcome
from changeledger.audit.rules import SAMPLES, Rule, Severity
from changeledger.config.object_path import PagePath
from changeledger.model.errors import AuditFailed
from changeledger.model.window import Window
from changeledger.model.wording import counted

# How many offending rows the error's message prints.
_PRINTED = 3


@dataclass(frozen=True)
class Subject:
    """What is judged together: a source table, or the feed. `addresses`: where to look, as SQL names it."""

    name: str
    addresses: tuple[str, ...]
    rules: tuple[Rule, ...]


@dataclass(frozen=True, kw_only=True)
class RuleResult(RuleOutcome):
    """One rule's result. `tolerated`: a person has tolerated it."""

    table: str
    rule: str
    says: str
    severity: Severity
    tolerated: bool = False

    @property
    def stops(self) -> bool:
        return not self.success and self.severity != "warning" and not self.tolerated

    @property
    def failure(self) -> str:
        """Why the rule did not pass, in words."""
        if self.errored:
            return f"could not be checked ({self.error or 'see Data Docs'})"
        return f"has failed ({counted(self.violations or 0, 'row')})"


def docs_index(data_docs: PagePath, feed: str, window: Window) -> PagePath:
    return data_docs / feed / window.id / page.NAME


def judge(
    judged: suites.Judged, window: Window, subjects: Sequence[Subject], folder: Path
) -> list[RuleResult]:
    """Validates every rule. `folder`: that of the window's Data Docs."""
    rules = {subject.name: subject.rules for subject in subjects}
    outcomes = suites.validate(judged, rules, window.id, folder)
    results = []
    for table, of_table in rules.items():
        for rule in of_table:
            outcome = outcomes[table, rule.name]
            # A rule that could not be checked is never tolerated: it might have failed for any reason.
            may_fail = window.request.tolerate == rule.severity and not outcome.errored
            results.append(
                RuleResult(
                    **vars(outcome),
                    table=table,
                    rule=rule.name,
                    says=rule.says,
                    severity=rule.severity,
                    tolerated=may_fail and not outcome.success,
                )
            )
    # The limit is a sum, without rows. The records that exceed it break `no_quarantined_records`.
    records = [row for r in results if r.rule == "no_quarantined_records" for row in r.samples]
    return [
        replace(r, samples=(*r.samples, *records)[:SAMPLES])
        if r.rule == "quarantine_limit" and not r.success
        else r
        for r in results
    ]


def document(audit: page.Audit, subjects: Sequence[Subject], folder: Path) -> None:
    """Writes the first page of the window's Data Docs."""
    page.write(folder, audit, {subject.name: _queries(subject) for subject in subjects})


def gate(audit: page.Audit, subjects: Sequence[Subject], docs: str) -> None:
    """Raises AuditFailed if a rule stops the run: it failed and is not tolerated, or was not checked.

    `docs`: where people open the results.
    """
    stopping = [v for v in audit.results if v.stops]
    if not stopping:
        return
    failed = [v for v in stopping if not v.errored]
    errored = [v for v in stopping if v.errored]
    unchecked = f" and {len(errored)} that could not be checked" if errored else ""
    said = f"found {counted(len(failed), 'failed rule')}{unchecked}"
    lines = [f"the audit of {audit.feed}, window {audit.window.id}, {said}: {docs}"]
    for result in stopping:
        lines += _lines(result)
    lines.append(f"Nothing was published. The branch {audit.branch} is kept.")
    raise AuditFailed("\n  ".join(lines), _remedy(subjects, stopping))


def _lines(result: RuleResult) -> Iterator[str]:
    name = f"{result.table}: {result.rule}"
    if result.errored:
        yield f"- {name}: could not be checked: {result.error or 'see Data Docs'}"
        return
    yield f"- {name}: {counted(result.violations or 0, 'violation')}. {result.says}"
    for row in result.samples[:_PRINTED]:
        yield f"    {page.shown(row)}"
    more = len(result.samples) - _PRINTED
    if more > 0:
        yield f"    and {more} more in the result"


def _remedy(subjects: Sequence[Subject], stopping: Sequence[RuleResult]) -> str:
    tables = {v.table for v in stopping}
    queries = [query for subject in subjects if subject.name in tables for query in _queries(subject)]
    return (
        "open the Data Docs, look at the offending rows on the branch, correct the cause, "
        "and run the window again (it rebuilds the branch):\n    " + "\n    ".join(queries)
    )


def _queries(subject: Subject) -> list[str]:
    return [f"SELECT * FROM {address}" for address in subject.addresses]  # noqa: S608 - to type
