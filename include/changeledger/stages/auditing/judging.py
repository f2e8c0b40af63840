"""The rules of the audit, asked of what is read of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from changeledger.audit import (
    conservation,
    dispositions,
    ids,
    key_rules,
    narrow_rows,
    record_sums,
    repeated_halves,
    rules,
)
from changeledger.audit.conservation import Balance
from changeledger.audit.record_sums import Faulty
from changeledger.audit.rules import Rule
from changeledger.config.feed import Feed
from changeledger.kernels.hashed import by
from changeledger.kernels.rows import Part, Rows, bucketed, counts
from changeledger.kernels.rows import together as rows_together
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.stages.auditing.judged_rows import JudgedRows


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
    """The rules of a table, their narrow rows, and the entries of its ledger for the sums over the run."""

    rules: list[Rule]
    rows: list[Rows]
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
        table, new = contract.table, self.judged.changes(contract)
        of_keys = self.judged.of_keys(contract, new)
        parts = {
            key_rules.CHANGES: Part(new, by("key")),
            key_rules.HISTORY: Part(of_keys.history, by("key")),
            key_rules.CURRENT: Part(of_keys.current, by("key")),
        }
        by_keys = bucketed(parts, key_rules.KeyRules(table, self.judged.ctx.id), key_rules.OUTPUTS)
        by_ids = self._by_ids(contract, new, of_keys.published)
        breaks = self.beside.breaks.through(dispositions.BreakRule(table), narrow_rows.ROWS)
        rows = [by_keys[key_rules.FOUND], by_ids[ids.FOUND], breaks]
        if self.beside.has(table, named=False):
            rows.append(self._halves(contract))
        return OfTable(
            rules.table_rules(
                contract, self._ledger_keeps(contract, new, by_ids[ids.JOINED]), self.image_chain
            ),
            rows,
            [new.through(record_sums.of_ledger, record_sums.ENTRIES), by_ids[ids.EARLIER]],
        )

    def _by_ids(self, contract: Contract, new: Rows, published: Rows) -> dict[str, Rows]:
        table = contract.table
        workers = self.judged.ctx.workers
        duplicates, stayed = workers.nothing(ids.DUPLICATE_IDS), workers.nothing(ids.IDS)
        parts: dict[str, Rows] = {
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
        return bucketed(
            {name: Part(rows, by("id")) for name, rows in parts.items()}, ids.IdRules(table), ids.OUTPUTS
        )

    def _halves(self, contract: Contract) -> Rows:
        table, rows = contract.table, self.beside.rows
        halves = rows.through(partial(dispositions.repeated_halves, table=table), dispositions.ROWS)
        others = rows.through(partial(dispositions.others, table=table), repeated_halves.RECORDS)
        there = self.judged.records(contract, halves).and_all([others])
        parts = {
            repeated_halves.HALVES: Part(
                halves.through(repeated_halves.of_halves, repeated_halves.RECORDS), repeated_halves.key
            ),
            repeated_halves.THERE: Part(there, repeated_halves.key),
        }
        found = bucketed(parts, repeated_halves.PlaceRules(table), repeated_halves.OUTPUTS)
        return found[repeated_halves.FOUND]

    def _ledger_keeps(self, contract: Contract, new: Rows, joined: Rows) -> rules.Sum | None:
        """None where nothing was published before. Counted from what Iceberg's snapshots say."""
        ledger = self.judged.ctx.names[contract.table].changes
        summary = self.judged.tables[ledger]
        if summary.main is None:
            return None
        now, before = summary.now.live, summary.main.live
        own, gone = counts([new, joined])
        kept = None if now is None else now - own
        published = None if before is None else before - gone
        return rules.ledger_keeps(ledger, kept, published)

    def quarantined(self) -> dict[str, int]:
        """How many records are quarantined, by reason."""
        found: dict[str, int] = {}
        for kind in self.beside.kinds:
            if kind["disposition"] == change.QUARANTINED:
                reason = str(kind["reason"])
                found[reason] = found.get(reason, 0) + int(str(kind["n"]))
        return found

    def of_records(self, feed: str, *, redact: bool) -> Rows:
        """The rules that look at one record, asked of the run's dispositions. `feed`: as a subject."""
        return self.beside.rows.through(dispositions.RecordRules(feed, redact), narrow_rows.ROWS)

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
    return conservation.feed_rules(feed, of_run.balances, of_run.faults, judging.quarantined())
