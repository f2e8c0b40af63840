"""The moments between which a source was read."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.compare.reach import micros, micros_of
from changeledger.kernels.arrow import Bools, flags_of, valid


class Fence(NamedTuple):
    """Everything committed up to `since` is in what was read, and nothing committed after `until` is.

    LSNs say the same by position, if the source has its own. A change counts as committed in between if
    either time or position says so.
    """

    since: datetime
    until: datetime
    since_lsn: bytes | None = None
    until_lsn: bytes | None = None

    def is_behind(self, valid_from: pa.TimestampArray, commit_lsn: pa.BinaryArray) -> Bools:
        """Returns which versions in history begin after the beginning of the fence."""
        return _later(valid_from, self.since) | _beyond(commit_lsn, self.since_lsn)

    def is_begun(self, valid_from: pa.TimestampArray, commit_lsn: pa.BinaryArray) -> Bools:
        """Returns which versions may have begun by the end of the fence."""
        in_time = valid(valid_from) & ~_later(valid_from, self.until)
        if self.until_lsn is None:
            return in_time
        return in_time | (valid(commit_lsn) & ~_beyond(commit_lsn, self.until_lsn))


def _later(times: pa.TimestampArray, at: datetime) -> Bools:
    return flags_of(pc.greater(micros_of(times), micros(at)))


def _beyond(lsns: pa.BinaryArray, lsn: bytes | None) -> Bools:
    return np.zeros(len(lsns), np.bool_) if lsn is None else flags_of(pc.greater(lsns, lsn))
