"""Applies the rules of the audit to what is read of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, cast

import pyarrow as pa

from changeledger.audit import (
    applied,
    changes,
    conservation,
    dispositions,
    ids,
    key_rules,
    narrow_rows,
    record_sums,
    repeated_halves,
    rules,
    suspects,
)
from changeledger.audit.conservation import Balance
from changeledger.audit.record_sums import Faulty
from changeledger.audit.rules import Rule
from changeledger.kernels.hashed import by
from changeledger.kernels.loads import behind_changes, have_lost_lsns
from changeledger.kernels.log_end import LogEnd, of_another_log
from changeledger.kernels.rows import Part, Rows, bucketed, chosen, count, kept, together
from changeledger.kernels.touched import HASHES, Among, Known, known
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.stages.auditing.judged_rows import Around, JudgedRows, Written
from changeledger.stages.common import arrivals


class Dispositions(NamedTuple):
    """The run's dispositions, and their numbers by kind (`dispositions.KINDS`)."""

    rows: Rows
    kinds: list[dict[str, Any]]

    def has(self, table: str, *, named: bool) -> bool:
        """Returns whether the table has duplicates that name a change (`named`) or that do not."""
        return any(
            kind["table"] == table and kind["reason"] == change.DELIVERED_AGAIN and kind["is_named"] == named
            for kind in self.kinds
        )


class OfTable(NamedTuple):
    """The rules of a table and their narrow rows.

    `records`, `sums`: entries of the records that became the run's changes, and their sums.
    `earlier`: entries of records of earlier runs.
    """

    rules: list[Rule]
    rows: list[Rows]
    records: Rows
    sums: pa.Table
    earlier: Rows


class OfFeed(NamedTuple):
    """Entries of all records read and of all dispositions outside the ledgers, and the sums of both."""

    records: Rows
    sums: pa.Table


class Accounting(NamedTuple):
    """The accounting of the whole run. `received`: numbers of its own raw rows by source."""

    balances: list[Balance]
    faults: Mapping[str, Faulty]
    received: Mapping[str, int]


def read_dispositions(judged: JudgedRows) -> Dispositions:
    rows = judged.dispositions()
    kinds = rows.through(dispositions.kinds, dispositions.KINDS).collected()
    return Dispositions(rows, kinds.to_pylist())


@dataclass(frozen=True)
class Judging:
    """Judges one run. `image_chain`: the severity of a break of the image chain."""

    judged: JudgedRows
    beside: Dispositions
    image_chain: rules.Severity

    def of_all(self, contracts: Sequence[Contract]) -> tuple[OfFeed, list[OfTable]]:
        """Judges the feed and its tables together, so that their Spark jobs are batched."""
        asking: list[Callable[[], OfFeed | OfTable]] = [
            partial(self.of_table, contract) for contract in contracts
        ]
        answers = self.judged.ctx.workers.each(lambda ask: ask(), [self.of_feed, *asking])
        return cast("OfFeed", answers[0]), cast("list[OfTable]", answers[1:])

    def of_table(self, contract: Contract) -> OfTable:
        table, judged, new = contract.table, self.judged, self.judged.changes(contract)
        placed, (history, current) = judged.placed(contract), judged.own(contract)
        around = judged.around(contract)
        by_id = self._by_id(contract, new, around.published)
        of_records = placed.through(record_sums.of_ledger, record_sums.ENTRIES)
        written = judged.written(contract)
        sides = _applied(written, contract)
        by_key = {**self._versions(contract, around, written, sides), **_hashes_of(sides)}
        of_keys, of_ids, sums = self._suspects(placed, by_key, by_id, of_records)
        by_keys = self._judged_by_keys(contract, new, around, sides, of_keys)
        by_ids = self._judged_by_ids(table, by_id, of_ids)
        strangers = self._strangers(table)
        rows = [
            new.through(
                partial(changes.of_each, table=table, strangers=strangers), narrow_rows.ROWS
            ),
            history.through(partial(key_rules.of_intervals, table=table), narrow_rows.ROWS),
            current.through(partial(key_rules.of_current, table=table), narrow_rows.ROWS),
            judged.breaks(table).through(partial(dispositions.of_breaks, table=table), narrow_rows.ROWS),
            by_keys, by_ids[narrow_rows.NARROW],
        ]  # fmt: skip
        if self.beside.has(table, named=False):
            rows.append(self._halves(contract))
        keeps = self._ledger_keeps(contract, sums, by_ids[ids.JOINED])
        of_table = rules.table_rules(contract, keeps, self.image_chain, strangers.keys())
        return OfTable(of_table, rows, of_records, sums, by_ids[ids.EARLIER])

    def _strangers(self, table: str) -> dict[str, changes.Strangers]:
        """Returns how to check those of `rules.OF_ARRIVAL` that apply to the feed's source."""
        ctx, checks = self.judged.ctx, dict[str, changes.Strangers]()
        if arrivals.has_log_end(ctx):
            checks[rules.ONE_LOG] = partial(of_another_log, end=self._log_end)
        if arrivals.loads_are_judged(ctx):
            is_streamed = table in self._published[arrivals.STREAMED]
            checks[rules.LOADS_FIRST] = partial(behind_changes, is_streamed=is_streamed)
        if arrivals.lsns_are_judged(ctx):
            had_lsns = table in self._published[arrivals.WITH_LSNS]
            checks[rules.LSNS_STAY] = partial(have_lost_lsns, had_lsns=had_lsns)
        return checks

    @cached_property
    def _log_end(self) -> LogEnd | None:
        return arrivals.log_end(self.judged.ctx)

    @cached_property
    def _published(self) -> dict[str, frozenset[str]]:
        return arrivals.tables(self.judged.ctx)

    def _by_id(self, contract: Contract, new: Rows, published: Rows) -> dict[str, Rows]:
        """Returns the inputs of `ids.of_ids`."""
        workers = self.judged.ctx.workers
        duplicates: Rows = workers.nothing(ids.DUPLICATE_IDS)
        stayed: Rows = workers.nothing(ids.IDS)
        if self.beside.has(contract.table, named=True):
            rows = self.judged.dispositions(contract.table)
            named = rows.through(dispositions.named_duplicates, dispositions.ROWS)
            duplicates = named.through(ids.of_duplicates, ids.DUPLICATE_IDS)
            stayed = self.judged.stayed(contract, named)
        # Kept, since reading them again would read the ledger again; they are few.
        key = by("id")
        known_ids = kept({ids.PUBLISHED: Part(published, key), ids.STAYED: Part(stayed, key)})
        return {
            ids.NEW: new.through(ids.new_ids, ids.NEW_IDS),
            ids.DUPLICATES: duplicates,
            **known_ids,
        }

    def _versions(
        self, contract: Contract, around: Around, written: Written, sides: Mapping[str, Rows]
    ) -> dict[str, Rows]:
        """Returns open intervals and current rows, by hashes, as inputs of `suspects.suspects`."""
        opened, current = self.judged.hashed(contract, around.keys)
        of_run = sides[applied.INTERVALS].through(suspects.opened_by_run, suspects.OPEN)
        now = written.current.through(partial(applied.current, contract=contract), applied.VERSION)
        return {suspects.OPENED: together([of_run, opened]), suspects.CURRENT: together([now, current])}

    def _suspects(
        self, placed: Rows, by_key: Mapping[str, Rows], by_id: Mapping[str, Rows], of_records: Rows
    ) -> tuple[Known, Known, pa.Table]:
        """Returns hashes of the keys and of the ids that the comparing rules have to look at, and
        `record_sums.SUMS` of the run's changes."""
        hashes = partial(suspects.each, key_of=by("id"))
        others = {name: rows.through(hashes, HASHES) for name, rows in by_id.items() if name != ids.NEW}
        parts = {
            suspects.PLACES: placed.through(suspects.places, suspects.PLACE),
            **by_key,
            ids.NEW: placed.through(suspects.ids_of_changes, HASHES),
            **others,
        }
        by_hash = {name: Part(rows, suspects.key) for name, rows in parts.items()}
        outputs = bucketed(by_hash, suspects.suspects, suspects.OUTPUTS)
        keys, sums = outputs[suspects.KEYS], _summed(of_records)
        of_keys, of_ids, summed = keys.collected_with([outputs[suspects.IDS], sums])
        return known(of_keys), known(of_ids), summed

    def _judged_by_keys(
        self, contract: Contract, new: Rows, around: Around, sides: Mapping[str, Rows], keys: Known
    ) -> Rows:
        if not len(keys):
            return self.judged.ctx.workers.nothing(narrow_rows.ROWS)
        history, current = self.judged.of_keys(contract, around.keys)
        parts = {key_rules.CHANGES: new, key_rules.HISTORY: history, key_rules.CURRENT: current, **sides}
        kernel = partial(key_rules.of_keys, table=contract.table)
        return bucketed(_among(parts, "key", keys), kernel, narrow_rows.OUTPUTS)[narrow_rows.NARROW]

    def _judged_by_ids(self, table: str, by_id: Mapping[str, Rows], of_suspects: Known) -> dict[str, Rows]:
        if not len(of_suspects):
            return {name: self.judged.ctx.workers.nothing(schema) for name, schema in ids.OUTPUTS.items()}
        return bucketed(_among(by_id, "id", of_suspects), partial(ids.of_ids, table=table), ids.OUTPUTS)

    def _halves(self, contract: Contract) -> Rows:
        rows = self.judged.dispositions(contract.table)
        halves = rows.through(dispositions.repeated_halves, dispositions.ROWS)
        others = rows.through(dispositions.others, repeated_halves.RECORDS)
        records = self.judged.records(contract, halves).and_all([others])
        parts = {
            repeated_halves.HALVES: Part(chosen(halves, ["source_position"]), repeated_halves.key),
            repeated_halves.ACCOUNTED: Part(records, repeated_halves.key),
        }
        kernel = partial(repeated_halves.of_places, table=contract.table)
        return bucketed(parts, kernel, narrow_rows.OUTPUTS)[narrow_rows.NARROW]

    def _ledger_keeps(self, contract: Contract, sums: pa.Table, joined: Rows) -> rules.Sum | None:
        """Returns the rule that the ledger keeps its published rows, by the counts of Iceberg's snapshots.

        Returns None if nothing was published before.
        """
        ledger = self.judged.ctx.names[contract.table].changes
        summary = self.judged.tables[ledger]
        if not summary.is_published:
            return None
        new_changes = sum(row["n"] for row in sums.to_pylist() if row["disposition"] == change.CHANGE)
        kept = None if summary.now is None else summary.now - new_changes
        published = None if summary.before is None else summary.before - count(joined)
        return rules.ledger_keeps(ledger, kept, published)

    def quarantined(self) -> dict[str, int]:
        """Returns the number of quarantined records by reason."""
        counts = Counter[str]()
        for kind in self.beside.kinds:
            if kind["disposition"] == change.QUARANTINED:
                counts[kind["reason"]] += kind["n"]
        return counts

    def of_records(self, feed: str, *, redact: bool) -> Rows:
        """Applies the rules on single records to the run's dispositions. `feed`: the name of the subject."""
        of_records = partial(dispositions.of_records, feed=feed, redact=redact)
        return self.beside.rows.through(of_records, narrow_rows.ROWS)

    def of_feed(self) -> OfFeed:
        beside = self.beside.rows.through(record_sums.of_dispositions, record_sums.ENTRIES)
        records = together([self.judged.read(), beside])
        return OfFeed(records, _summed(records).collected())

    def accounting(self, of_feed: OfFeed, of_tables: Sequence[OfTable]) -> Accounting:
        """Compares all records that were read with what became of them."""
        nothing = self.judged.ctx.workers.nothing(record_sums.ENTRIES)
        earlier = together([nothing, *(of_table.earlier for of_table in of_tables)])
        parts = [of_feed.sums, *(of_table.sums for of_table in of_tables), _summed(earlier).collected()]
        sums = record_sums.added(pa.concat_tables(parts)).to_pylist()
        wrong = conservation.uneven(sums)
        faulty: dict[str, Faulty] = {}
        if wrong:
            entries = together([of_feed.records, earlier, *(of_table.records for of_table in of_tables)])
            by_record = {record_sums.ENTRY: Part(entries, by("hash"))}
            kernel = partial(record_sums.faulty, sources=wrong)
            outputs = bucketed(by_record, kernel, {record_sums.FAULTS: record_sums.FAULT})
            faulty = record_sums.faults(outputs[record_sums.FAULTS].collected().to_pylist())
        return Accounting(conservation.balances(sums, faulty), faulty, conservation.received(sums))


def _applied(written: Written, contract: Contract) -> dict[str, Rows]:
    """Returns the inputs of `applied`."""
    of_each = (written.changes, applied.effects), (written.history, applied.intervals)
    return {
        side: rows.through(partial(kernel, contract=contract), applied.shown(schema, contract))
        for (side, schema), (rows, kernel) in zip(applied.SIDES.items(), of_each, strict=True)
    }


def _hashes_of(sides: Mapping[str, Rows]) -> dict[str, Rows]:
    return {side: chosen(sides[side], schema.names) for side, schema in applied.SIDES.items()}


def _summed(entries: Rows) -> Rows:
    return entries.through(record_sums.sums, record_sums.SUMS)


def _among(parts: Mapping[str, Rows], name: str, hashes: Known) -> dict[str, Part]:
    """Returns the rows whose column `name` has one of these hashes, bucketed by it."""
    key = by(name)
    return {part: Part(rows.through(Among(key, hashes), rows.schema), key) for part, rows in parts.items()}
