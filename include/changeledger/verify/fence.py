"""Between which moments a source was read."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.compare.reach import micros, micros_of
from changeledger.kernels.arrow import Bools, flags_of, valid


class Fence(NamedTuple):
    """All that was committed up to `since` is in what was read, and nothing that was committed after `until`.

    LSNs say the same by position, where the source has its own; a change counts as committed meanwhile where
    either says so.
    """

    since: datetime
    until: datetime
    since_lsn: bytes | None = None
    until_lsn: bytes | None = None

    def is_behind(self, valid_from: pa.TimestampArray, commit_lsn: pa.BinaryArray) -> Bools:
        """Do versions in history begin after the beginning of the fence?"""
        return _later(valid_from, self.since) | _beyond(commit_lsn, self.since_lsn)

    def is_begun(self, valid_from: pa.TimestampArray, commit_lsn: pa.BinaryArray) -> Bools:
        """May they have begun when the fence ended?"""
        in_time = valid(valid_from) & ~_later(valid_from, self.until)
        if self.until_lsn is None:
            return in_time
        return in_time | (valid(commit_lsn) & ~_beyond(commit_lsn, self.until_lsn))


def _later(times: pa.TimestampArray, at: datetime) -> Bools:
    return flags_of(pc.greater(micros_of(times), micros(at)))


def _beyond(lsns: pa.BinaryArray, lsn: bytes | None) -> Bools:
    return np.zeros(len(lsns), np.bool_) if lsn is None else flags_of(pc.greater(lsns, lsn))
