"""Sums up all records of a run, to compare what it has read with what became of it.

Both sides are compared by numbers of records and by sums of hashes, which are the same for the same records
in any order. The records themselves are compared only where these differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.audit.narrow_rows import position_text
from changeledger.audit.rules import SAMPLES
from changeledger.kernels import order
from changeledger.kernels.arrow import NAMES, RECORD, batch_of, column, flags_of, numbers, valid
from changeledger.kernels.hashed import hash_of
from changeledger.kernels.rows import as_batch
from changeledger.model import change

# A record that was read has the disposition READ, and `received` is the source whose window has it. `times`
# is -1 where a row takes back another one.
ENTRIES: Final = pa.schema(
    [
        ("source_position", RECORD),
        ("hash", pa.int64()),
        ("disposition", pa.string()),
        ("received", pa.string()),
        ("times", pa.int64()),
    ]
)
READ: Final = ""
_OF = ("source", "disposition", "received")
SUMS: Final = pa.schema(
    [*((name, pa.string()) for name in _OF), ("n", pa.int64()), ("low", pa.int64()), ("high", pa.int64())]
)
# The input of `faulty`, and its output: the faults of each source.
ENTRY: Final = "entries"
FAULTS: Final = "faults"
FAULT: Final = pa.schema(
    [("source", pa.string()), ("lost", pa.int64()), ("doubled", pa.int64()), ("samples", NAMES)]
)
_NO_SOURCE = "(no source)"
_LOW = 0xFFFFFFFF


class Faulty(NamedTuple):
    """A source's faults. `lost`: read without a disposition. `doubled`: accounted for too often."""

    lost: int
    doubled: int
    samples: tuple[str, ...]


def of_ledger(changes: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `ENTRIES` of ledger rows: their own records, and those that they are paired with."""
    at = pa.array(np.flatnonzero(valid(changes.column("paired_source_position"))))
    paired, size = changes.take(at), len(changes)
    records = [changes.column("source_position"), paired.column("paired_source_position")]
    said = pa.array(np.where(np.arange(size + len(at)) < size, change.CHANGE, change.PAIRED), pa.string())
    return _entries(pa.concat_arrays(records), said)


def of_dispositions(rows: pa.RecordBatch) -> pa.RecordBatch:
    return _entries(rows.column("source_position"), rows.column("disposition").fill_null("(none)"))


def of_messages(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `ENTRIES` of messages that were read, given by topic, partition and offset."""
    topic, partition, offset = rows.columns
    cells = [topic, partition, offset, pa.nulls(len(rows), pa.binary())]
    numbers = pc.cast(partition, pa.string())
    received = pc.binary_join_element_wise(topic, pc.binary_join_element_wise("[", numbers, "]", ""), "")
    return _entries(pa.StructArray.from_arrays(cells, fields=list(RECORD)), READ, received)


def of_rows(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `ENTRIES` of rows of change tables that were read."""
    return _entries(rows.column("source_position"), READ, rows.column("_instance"))


def of_others(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `ENTRIES` of records in no source's window: replayed and pending ones, and planned repairs."""
    return _entries(rows.column("source_position"), READ)


def hashes(records: pa.StructArray) -> pa.Int64Array:
    return pa.array(hash_of([records]).view(np.int64))


def _entries(
    records: pa.StructArray, dispositions: pa.StringArray | str, received: pa.StringArray | None = None
) -> pa.RecordBatch:
    columns = {
        "source_position": records,
        "hash": hashes(records),
        "disposition": dispositions,
        "received": received,
        "times": 1,
    }
    return batch_of(columns, ENTRIES)


def sums(entries: pa.RecordBatch) -> pa.RecordBatch:
    """Returns `SUMS` of a batch."""
    times, hashes = numbers(entries.column("times")), numbers(entries.column("hash"))
    parts = pa.table(
        {
            "source": _sources(entries.column("source_position")),
            "disposition": entries.column("disposition"),
            "received": entries.column("received"),
            "n": pa.array(times),
            # A sum of 64-bit hashes would overflow. Sums of 32-bit halves do not, up to two billion records.
            "low": pa.array((hashes & _LOW) * times),
            "high": pa.array(((hashes >> 32) & _LOW) * times),
        }
    )
    return as_batch(added(parts))


def added(parts: pa.Table) -> pa.Table:
    """Adds up `SUMS` of one or several parts."""
    counted = ("n", "low", "high")
    totals = parts.group_by(list(_OF)).aggregate([(name, "sum") for name in counted])
    named = totals.rename_columns([name.removesuffix("_sum") for name in totals.column_names])
    return named.select(SUMS.names).cast(SUMS)


def _sources(records: pa.StructArray) -> pa.StringArray:
    return records.flatten()[0].fill_null(_NO_SOURCE)


def faulty(tables: Mapping[str, pa.Table], sources: Sequence[str]) -> Mapping[str, pa.Table]:
    """Kernel that finds the records of these sources that were lost, or accounted for too often.

    A bucket must have all entries of a record.
    """
    entries = tables[ENTRY]
    of_records = _sources(column(entries, "source_position"))
    of_sources = pc.is_in(of_records, value_set=pa.array(sources, pa.string()))
    rows = [_faulty(entries.filter(of_sources), source) for source in sources]
    return {FAULTS: pa.Table.from_pylist(rows, FAULT)}


def _faulty(entries: pa.Table, source: str) -> dict[str, Any]:
    records = column(entries, "source_position")
    is_of_source = flags_of(pc.equal(_sources(records), source))
    codes = order.codes(records.flatten(), len(entries))
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    is_read = flags_of(pc.equal(column(entries, "disposition"), READ))
    times = numbers(column(entries, "times"))
    read, accounted = (np.bincount(group, times * side).astype(np.int64) for side in (is_read, ~is_read))
    wrong = np.flatnonzero((read != accounted) & is_of_source[first])
    short = (read - accounted)[wrong]
    some = []
    for at in wrong[:SAMPLES]:
        of_record = (group == at) & ~is_read & (times > 0)
        said = sorted(set(column(entries, "disposition").filter(pa.array(of_record)).to_pylist()))
        place = position_text(records[int(first[at])].as_py())
        some.append(
            f"{place} (read {read[at]}, accounted for {accounted[at]}: {', '.join(said) or 'nothing'})"
        )
    lost, doubled = int(short[short > 0].sum()), int(-short[short < 0].sum())
    return {"source": source, "lost": lost, "doubled": doubled, "samples": some}


def faults(rows: Iterable[dict[str, Any]]) -> dict[str, Faulty]:
    """Merges the faults of all buckets, by source."""
    known: dict[str, Faulty] = {}
    for row in rows:
        faulty = known.get(row["source"], Faulty(0, 0, ()))
        both = (*faulty.samples, *row["samples"])[:SAMPLES]
        known[row["source"]] = Faulty(faulty.lost + row["lost"], faulty.doubled + row["doubled"], both)
    return known
