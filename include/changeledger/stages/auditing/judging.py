"""The rules of the audit, asked of what is read of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from changeledger.audit import conservation, dispositions, ids, key_rules, record_sums, repeated_halves, rules
from changeledger.audit.conservation import Balance
from changeledger.audit.findings import SAMPLES, Finding, by_rule, plain, together
from changeledger.audit.record_sums import Faulty
from changeledger.audit.rules import Rule
from changeledger.config.feed import Feed
from changeledger.kernels.hashed import by
from changeledger.kernels.rows import Here, Part, Rows, bucketed, count
from changeledger.kernels.rows import together as rows_together
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.stages.auditing.judged_rows import BREAKS, JudgedRows


class Dispositions(NamedTuple):
    """The run's dispositions, how many of which kind (`dispositions.KINDS`), and its breaks, by table."""

    rows: Rows
    kinds: list[dict[str, object]]
    breaks: Rows

    def has(self, table: str, *, named: bool) -> bool:
        """Has the table duplicates that name a change, or some that do not?"""
        return any(
            kind["table"] == table and kind["reason"] == change.DELIVERED_AGAIN and kind["is_named"] == named
            for kind in self.kinds
        )


class OfTable(NamedTuple):
    """The rules of a table, and the entries of its ledger for the sums over the run."""

    rules: list[Rule]
    entries: list[Rows]


class Accounting(NamedTuple):
    """Of the whole run. `received`: its own raw rows by source."""

    balances: list[Balance]
    faults: Mapping[str, Faulty]
    received: Mapping[str, int]


def read_dispositions(judged: JudgedRows) -> Dispositions:
    rows = judged.dispositions()
    kinds = rows.through(dispositions.kinds, dispositions.KINDS).collected()
    return Dispositions(rows, kinds.to_pylist(), judged.breaks())


@dataclass(frozen=True)
class Judging:
    """`image_chain`: how much a break of it weighs."""

    judged: JudgedRows
    beside: Dispositions
    image_chain: rules.Severity

    def of_table(self, contract: Contract) -> OfTable:
        new = self.judged.changes(contract)
        of_keys = self.judged.of_keys(contract, new)
        parts = {
            key_rules.CHANGES: Part(new, by("key")),
            key_rules.HISTORY: Part(of_keys.history, by("key")),
            key_rules.CURRENT: Part(of_keys.current, by("key")),
        }
        found = bucketed(parts, key_rules.KeyRules(self.judged.ctx.id), key_rules.OUTPUTS)[key_rules.FOUND]
        by_ids = self._by_ids(contract, new, of_keys.published)
        findings = by_rule([found.collected(), by_ids[ids.FOUND].collected()])
        if self.beside.has(contract.table, named=False):
            name = "duplicates_leave_one"
            findings[name] = together(findings[name], self._halves(contract))
        findings |= self._ledger_keeps(contract, findings, by_ids[ids.JOINED])
        findings["image_chain"] = self._breaks(contract)
        return OfTable(
            rules.table_rules(contract, findings, self.image_chain),
            [new.through(record_sums.of_ledger, record_sums.ENTRIES), by_ids[ids.EARLIER]],
        )

    def _by_ids(self, contract: Contract, new: Rows, published: Rows) -> dict[str, Rows]:
        table = contract.table
        duplicates, stayed = Here(ids.DUPLICATE_IDS.empty_table()), Here(ids.IDS.empty_table())
        parts = {
            ids.NEW: new.through(ids.new_ids, ids.NEW_IDS),
            ids.PUBLISHED: published,
            ids.DUPLICATES: duplicates,
            ids.STAYED: stayed,
        }
        if self.beside.has(table, named=True):
            named = self.beside.rows.through(
                partial(dispositions.named_duplicates, table=table), dispositions.ROWS
            )
            parts[ids.DUPLICATES] = named.through(ids.of_duplicates, ids.DUPLICATE_IDS)
            parts[ids.STAYED] = self.judged.stayed(contract, named)
        return bucketed({name: Part(rows, by("id")) for name, rows in parts.items()}, ids.of_ids, ids.OUTPUTS)

    def _halves(self, contract: Contract) -> Finding:
        table, rows = contract.table, self.beside.rows
        halves = rows.through(partial(dispositions.repeated_halves, table=table), dispositions.ROWS)
        others = rows.through(partial(dispositions.others, table=table), repeated_halves.RECORDS)
        there = self.judged.records(contract, halves).and_all([others])
        parts = {
            repeated_halves.HALVES: Part(
                halves.through(repeated_halves.of_halves, repeated_halves.HALF), repeated_halves.key
            ),
            repeated_halves.THERE: Part(there, repeated_halves.key),
        }
        found = bucketed(parts, repeated_halves.of_places, repeated_halves.OUTPUTS)[repeated_halves.FOUND]
        return by_rule([found.collected()])["duplicates_leave_one"]

    def _ledger_keeps(
        self, contract: Contract, found: Mapping[str, Finding], joined: Rows
    ) -> dict[str, Finding]:
        """Nothing before there is something published. Counted from what Iceberg's snapshots say."""
        summary = self.judged.tables[self.judged.ctx.names[contract.table].changes]
        if summary.main is None:
            return {}
        now, before, new = summary.now.live, summary.main.live, found["key_not_null"].checked
        kept = None if now is None or new is None else now - new
        published = None if before is None else before - len(joined.collected())
        return {"ledger_keeps_everything": rules.ledger_keeps(kept, published)}

    def _breaks(self, contract: Contract) -> Finding:
        rows = self.beside.breaks.through(
            partial(dispositions.chosen, column="table", value=contract.table), BREAKS
        )
        return _finding(rows, [name for name in BREAKS.names if name != "table"])

    def of_dispositions(self) -> dict[str, Finding]:
        """What is quarantined, and what has a reason that a rule asks for."""
        asked = {
            change.QUARANTINED: "disposition",
            change.INCOMPATIBLE_SHAPE: "reason",
            change.BEFORE_WITHOUT_AFTER: "reason",
        }
        found = {}
        for value, column in asked.items():
            number = sum(int(str(kind["n"])) for kind in self.beside.kinds if kind[column] == value)
            rows = self.beside.rows.through(
                partial(dispositions.chosen, column=column, value=value), dispositions.ROWS
            )
            shown = ("table", "source_position", "reason", "detail")
            found[value] = Finding(number, samples=_samples(rows, shown) if number else ())
        return found

    def accounting(self, read: Rows, of_tables: Iterable[OfTable]) -> Accounting:
        """Everything that was read, against what became of it."""
        beside = self.beside.rows.through(record_sums.of_dispositions, record_sums.ENTRIES)
        entries = rows_together([read, beside, *(rows for one in of_tables for rows in one.entries)])
        sums = record_sums.added(entries.through(record_sums.sums, record_sums.SUMS).collected()).to_pylist()
        wrong = conservation.uneven(sums)
        found: dict[str, Faulty] = {}
        if wrong:
            parts = {record_sums.ENTRY: Part(entries, by("hash"))}
            made = bucketed(parts, record_sums.Faults(tuple(wrong)), {record_sums.FAULTS: record_sums.FAULT})
            found = record_sums.faults(made[record_sums.FAULTS].collected().to_pylist())
        return Accounting(conservation.balances(sums, found), found, conservation.received(sums))


def feed_rules(feed: Feed, judging: Judging, of_run: Accounting) -> list[Rule]:
    return conservation.feed_rules(feed, of_run.balances, of_run.faults, judging.of_dispositions())


def _finding(rows: Rows, shown: list[str]) -> Finding:
    number = count(rows)
    return Finding(number, samples=_samples(rows, shown) if number else ())


def _samples(rows: Rows, shown: Iterable[str]) -> tuple[dict[str, object], ...]:
    some = rows.collected(SAMPLES).select(list(shown))
    kinds = {field.name: field.type for field in some.schema}
    return tuple({name: plain(v, kinds[name]) for name, v in row.items()} for row in some.to_pylist())
