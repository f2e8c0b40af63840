"""The steps from two ledgers of a table to counts and findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

import numpy as np

from changeledger.compare import buckets, counts, effects, findings, positions, rematch
from changeledger.compare import log as of_log
from changeledger.compare.columns import Columns
from changeledger.compare.counts import Counts, Span, Totals
from changeledger.compare.positions import Positions
from changeledger.compare.reach import Reach, moment
from changeledger.compare.verdicts import EQUAL, FAULTS
from changeledger.kernels.arrow import column
from changeledger.kernels.hashed import by
from changeledger.kernels.rows import Part, Rows, bucketed, chosen, together, where
from changeledger.model.contract import Contract
from changeledger.model.wording import counted
from changeledger.stages.common.context import log
from changeledger.stages.common.stored import Ledger
from changeledger.stages.comparison.ranges import Translation, log_of


@dataclass(frozen=True)
class Method:
    """How the changes of two feeds are matched: in which part of the log, and by which positions."""

    reach: Reach
    # None if one of the feeds has no LSNs.
    positions: Positions | None = None
    # For a feed whose positions are change LSNs.
    translation: Translation | None = None

    @property
    def by_position(self) -> bool:
        return self.positions is not None and self.is_ordered

    @property
    def is_ordered(self) -> bool:
        """Whether the orders of changes in both feeds are comparable."""
        return self.positions is None or self.positions.lsn != positions.UNKNOWN


class Side(NamedTuple):
    """One feed's ledger of a table. `number`: `effects.REFERENCE` or `effects.OTHER`."""

    number: int
    ledger: Ledger
    contract: Contract
    reach: Reach
    # For a feed whose positions are change LSNs; with the ledger of the feed that has both LSNs.
    translation: tuple[Translation, Ledger] | None

    def times(self) -> list[int]:
        """Returns first and last commit times of the rows in reach, by part, in microseconds since 1970."""
        rows = self._in_reach(self._rows(of_log.NEEDED).through(of_log.as_log, of_log.LOG))
        ends = rows.through(of_log.times, of_log.TIMES).collected()
        return [at for name in of_log.TIMES.names for at in column(ends, name).drop_null().to_pylist()]

    def effects(self, make: effects.MakeEffects, at: Rows | None = None) -> Rows:
        """Returns `effects.SCHEMA` of the rows in reach. `at`: only those at these positions."""
        if at is None:
            rows = self._rows(effects.NEEDED)
        else:
            rows = self.ledger.among(effects.NEEDED, "commit_lsn", at)
        return self._in_reach(rows.through(make, effects.SCHEMA))

    def _rows(self, names: Sequence[str]) -> Rows:
        between = self._between
        return self.ledger.rows(names) if between is None else self.ledger.between(names, between)

    def _in_reach(self, rows: Rows) -> Rows:
        if self.translation is None:
            return rows.through(partial(of_log.in_reach, reach=self.reach), rows.schema)
        translation, known = self.translation
        placed = translation.placed(rows, log_of(known))
        in_reach = partial(of_log.in_reach, reach=self.reach, ends=translation.times)
        return placed.through(in_reach, rows.schema)

    @property
    def _between(self) -> tuple[bytes, bytes] | None:
        """The range of commit LSNs in reach, or None if it cannot be told by commit LSNs alone."""
        since, until = self.reach.since, self.reach.until
        if self.translation is not None or since is None or until is None:
            return None
        return since, until


@dataclass(frozen=True)
class Matching:
    """Matches the two sides of a table. `name`: how log messages name it."""

    reference: Side
    other: Side
    columns: Columns
    method: Method
    span: Span
    name: str

    @classmethod
    def of(cls, reference: Side, other: Side, method: Method, name: str) -> Matching:
        """Prepares the matching. Raises ContractError if the feeds do not agree on the table's key."""
        columns = Columns.of(reference.contract, other.contract)
        # First and last commit time of the compared changes.
        times, now = [*reference.times(), *other.times()], datetime.now(UTC)
        span = Span(moment(min(times, default=None)) or now, moment(max(times, default=None)) or now)
        return cls(reference, other, columns, method, span, name)

    def counted(self) -> tuple[Counts, Rows | None]:
        """Returns the counts of all effects, and the mismatches (`rematch.MISMATCH_COLUMNS`), if any."""
        totals, unlike = self._prefiltered() if self.method.by_position else (Totals(), None)
        wrong = None
        if unlike is None or totals[counts.UNLIKE, -1]:
            matched, faulty = self._matched(unlike)
            totals += matched
            if any(matched[fault, -1] for fault in FAULTS):
                again, wrong = self._rematched(faulty)
                totals = Totals({of: n for of, n in totals.items() if of[0] not in FAULTS}) + again
        return counts.counts(totals, self.columns.names), wrong

    def explained(self, wrong: Rows, named: Mapping[str, str]) -> Rows:
        """Turns mismatches into `findings.FINDINGS`, with the rows of both ledgers."""
        column_lists = (self.columns.reference, self.columns.other)
        finding_rows = wrong
        for side, columns, look in zip(
            (self.reference, self.other), column_lists, findings.LOOK_UPS, strict=True
        ):
            ids = chosen(finding_rows, [look.id_column])
            rows = side.ledger.among(findings.NEEDED, "change_id", ids)
            shown = rows.through(findings.Show(columns), findings.SHOWN_COLUMNS)
            parts = {
                rematch.MISMATCHES: Part(finding_rows, look.key),
                findings.SHOWN: Part(shown, by("change_id")),
            }
            finding_rows = bucketed(parts, look, {rematch.MISMATCHES: look.schema})[rematch.MISMATCHES]
        return finding_rows.through(findings.Explain(self.columns.names, named), findings.FINDINGS)

    def _effects(self, at: Rows | None = None) -> list[Rows]:
        effect_rows = []
        for side in (self.reference, self.other):
            make = effects.MakeEffects(side.number, self.columns, self.method.by_position)
            positions = None if at is None else chosen(where(at, "side", side.number), ["position"])
            effect_rows.append(side.effects(make, positions))
        return effect_rows

    def _prefiltered(self) -> tuple[Totals, Rows]:
        narrow = partial(effects.narrow, columns=self.columns)
        says = together([rows.through(narrow, effects.SAID) for rows in self._effects()])
        parts = {buckets.SAYS: Part(says, effects.PLACE)}
        outputs = bucketed(parts, partial(buckets.prefiltered, span=self.span), buckets.PREFILTERED)
        numbers = counts.added([outputs[buckets.COUNTS].collected()])
        alike, unlike = (numbers[what, -1] for what in (EQUAL, counts.UNLIKE))
        log.info("%s: %d alike; %s to match", self.name, alike, counted(unlike, "effect"))
        return numbers, outputs[buckets.UNLIKE]

    def _matched(self, within: Rows | None) -> tuple[Totals, Rows]:
        parts = {buckets.EFFECTS: Part(together(self._effects(within)), effects.KEY)}
        if within is not None:
            parts[buckets.WITHIN] = Part(within, effects.KEY)
        match = partial(buckets.match, columns=self.columns, span=self.span)
        outputs = bucketed(parts, match, buckets.MATCHED)
        return counts.added([outputs[buckets.COUNTS].collected()]), outputs[buckets.FAULTS]

    def _rematched(self, faulty: Rows) -> tuple[Totals, Rows]:
        unknown_columns = partial(rematch.unknown_columns, columns=self.columns)
        unknown = faulty.through(unknown_columns, rematch.UNKNOWN).collected()
        flags = np.array(column(unknown, "columns").to_pylist(), np.bool_).any(axis=0)
        known = np.flatnonzero(~flags).tolist()
        kernel = rematch.Rematch(self.columns, known, self.method.is_ordered, self.method.reach, self.span)
        outputs = bucketed({buckets.FAULTS: Part(faulty, effects.KEY)}, kernel, rematch.OUTPUTS)
        return counts.added([outputs[buckets.COUNTS].collected()]), outputs[rematch.MISMATCHES]
