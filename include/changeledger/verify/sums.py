"""Compares the hashes of many rows at once, to find the buckets in which source and published rows agree."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from changeledger.kernels.arrow import column, flags_of
from changeledger.kernels.hashed import by
from changeledger.verify.versions import BUCKETS, CURRENT, SOURCE, key_codes

ROWS: Final = "rows"
SUMS: Final = "sums"
# The bucket key: the number of the bucket.
KEY: Final = by("bucket")

SCHEMA: Final = pa.schema(
    [
        ("rows", pa.int64()),
        ("equal", pa.int64()),
        ("buckets", pa.int64()),
        ("apart", pa.int64()),
        ("differing", pa.list_(pa.int32())),
        ("looked_at", pa.list_(pa.int32())),
    ]
)


class Sums(NamedTuple):
    """The agreement of source and published rows.

    - `rows`: the number of the source's rows.
    - `equal`: how many of them are in buckets that agree.
    - `buckets`: the number of buckets that have rows.
    - `apart`: the number of keys that hashes of many rows cannot judge: touched keys, which may have several
      versions at the fence, and keys with unknown cells.
    - `differing`: the buckets that differ.
    - `looked_at`: these, and the buckets of the keys apart.
    """

    rows: int
    equal: int
    buckets: int
    apart: int
    differing: list[int]
    looked_at: list[int]


def summed(tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
    """Returns one row of `SCHEMA` for whole buckets of `versions.NARROW`."""
    rows = tables[ROWS]
    part, bucket = (column(rows, name).to_numpy() for name in ("part", "bucket"))
    has_gaps, is_behind = (flags_of(column(rows, name)) for name in ("has_gaps", "is_behind"))
    is_source, is_current = part == SOURCE, part == CURRENT
    keys = key_codes(rows)
    apart = np.zeros(int(keys.max(initial=-1)) + 1, np.bool_)
    apart[keys[is_behind | (is_current & has_gaps)]] = True
    is_apart = apart[keys]
    counted = (is_source | is_current) & ~is_apart
    # Published rows count negatively, so that equal rows cancel each other out.
    sign = np.where(is_source, 1, -1)[counted]
    hashes = column(rows, "row").to_numpy()[counted]
    at = bucket[counted]
    balances = [np.zeros(BUCKETS, np.int64) for _ in range(3)]
    np.add.at(balances[0], at, sign)
    np.bitwise_xor.at(balances[1], at, hashes)
    np.add.at(balances[2], at, sign * (hashes >> 32))
    differs = (balances[0] != 0) | (balances[1] != 0) | (balances[2] != 0)
    ours = np.bincount(bucket[counted & is_source], minlength=BUCKETS)
    holds = np.bincount(at, minlength=BUCKETS) > 0
    looked_at = differs.copy()
    looked_at[bucket[is_apart]] = True
    sums = Sums(
        int(is_source.sum()),
        int(ours[~differs].sum()),
        int(holds.sum()),
        int(apart.sum()),
        np.flatnonzero(differs).tolist(),
        np.flatnonzero(looked_at).tolist(),
    )
    return {SUMS: pa.Table.from_pylist([sums._asdict()], schema=SCHEMA)}


def whole(sums: pa.Table) -> Sums:
    """Merges the sums of all buckets."""
    columns = {name: column(sums, name).to_pylist() for name in SCHEMA.names}
    numbers = [sum(columns[name]) for name in SCHEMA.names[:4]]
    lists = [sorted(at for buckets in columns[name] for at in buckets) for name in SCHEMA.names[4:]]
    return Sums(*numbers, *lists)
