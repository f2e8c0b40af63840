"""Compares the records that a run has quarantined, or that wait, with those that it keeps as such."""

from __future__ import annotations

from functools import partial

from changeledger.audit import conservation, dispositions, record_sums, repeated_halves
from changeledger.audit.rules import Rule
from changeledger.kernels.rows import Rows
from changeledger.stages.auditing.judged_rows import JudgedRows
from changeledger.stages.auditing.judging import Dispositions


def rule_of(judged: JudgedRows, beside: Dispositions) -> Rule:
    """Returns `records_are_kept`. Asks nothing of a run without such records."""
    sides = {}
    for disposition, kept in judged.kept().items():
        said: Rows = judged.ctx.workers.nothing(record_sums.ENTRIES)
        if any(kind["disposition"] == disposition for kind in beside.kinds):
            of_disposition = partial(dispositions.of_disposition, disposition=disposition)
            records = beside.rows.through(of_disposition, repeated_halves.RECORDS)
            said = records.through(record_sums.of_others, record_sums.ENTRIES)
        of_said, of_kept = (rows.through(record_sums.sums, record_sums.SUMS) for rows in (said, kept))
        sides[disposition] = tuple(part.to_pylist() for part in of_said.collected_with([of_kept]))
    return conservation.kept_records(sides)
