"""The end of the source's log as read so far, and which changes come from another log: a restored database's.

In one log positions and commit times rise together. A database that was restored, or failed over with loss,
reuses positions for new changes: their positions precede the end that was read, and their commit times follow
it. A change that arrives late also precedes that end, but was committed before it, too.

Only the positions of commits show this. Where transactions overlap, the positions of single changes and the
commit times do not rise together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import order
from changeledger.kernels.arrow import Bools, Indices, column, equal, flags_of, holding, numbers, valid
from changeledger.model.change import CLOCK_SUSPECT, REPAIRED, SNAPSHOT

# The clocks of two replicas may differ by this much when one continues the other's log. No database is
# restored in so short a time.
APART: Final = timedelta(minutes=1)
_MICROSECOND: Final = timedelta(microseconds=1)
_NONE: Final = np.iinfo(np.int64).min // 2
# The columns that determine a log's end.
READ: Final = ("operation", "commit_lsn", "change_lsn", "committed_at", "flags")


class LogEnd(NamedTuple):
    """The last commit LSN and the last commit time of the changes that a feed has published."""

    commit_lsn: bytes
    committed_at: datetime

    def as_json(self) -> dict[str, str]:
        return {"commit_lsn": self.commit_lsn.hex(), "committed_at": self.committed_at.isoformat()}

    @classmethod
    def of_json(cls, stored: Mapping[str, str] | None) -> LogEnd | None:
        if stored is None:
            return None
        return cls(bytes.fromhex(stored["commit_lsn"]), datetime.fromisoformat(stored["committed_at"]))


def furthest(ends: Iterable[LogEnd | None]) -> LogEnd | None:
    """Returns the greatest LSN and the greatest commit time of several ends of one log; None without ends."""
    known = [end for end in ends if end is not None]
    if not known:
        return None
    return LogEnd(max(end.commit_lsn for end in known), max(end.committed_at for end in known))


def of_changes(changes: pa.Table) -> LogEnd | None:
    """Returns the end of the log with these changes (columns `READ`), or None if none of them is a commit."""
    rows = changes.filter(pa.array(_is_commit(changes)))
    if not len(rows):
        return None
    last = rows.column("commit_lsn").combine_chunks().sort("descending")[0]
    return LogEnd(last.as_py(), pc.max(rows.column("committed_at")).as_py())


def of_another_log(changes: pa.Table, end: LogEnd | None) -> Bools:
    """Returns which changes contradict what was read before them: the log up to `end`, or their partition.

    `changes`: changes of one window, in the columns `READ` and `source_position`. Rows of a whole table's
    snapshot are judged, but are no evidence against other changes: they are read after the log position that
    they show.
    """
    is_other = _before_and_later(changes, end) | _behind_their_future(changes)
    if not is_other.any():
        return is_other
    return is_other & (_is_commit(changes) | _is_snapshot(changes))


def _before_and_later(changes: pa.Table, end: LogEnd | None) -> Bools:
    if end is None:
        return np.zeros(len(changes), np.bool_)
    is_before = flags_of(pc.less(column(changes, "commit_lsn"), end.commit_lsn))
    is_later = flags_of(pc.greater(column(changes, "committed_at"), pa.scalar(end.committed_at + APART)))
    both: Bools = is_before & is_later
    return both


def _behind_their_future(changes: pa.Table) -> Bools:
    """Returns which changes a partition delivers after one that is later in the log but committed earlier."""
    rows = len(changes)
    source, partition, offset, _ = column(changes, "source_position").flatten()
    of_partition = order.codes([source, partition], rows)
    at = order.by([of_partition, numbers(offset)], rows)
    is_first = order.begins([of_partition[at]], rows)
    lsns = order.words(column(changes, "commit_lsn"))
    is_behind = np.zeros(rows, np.bool_)
    if not _goes_back([words[at] for words in lsns], is_first):
        return is_behind
    places, times = _ranks(lsns, rows)[at], numbers(column(changes, "committed_at"))[at]
    is_evidence = _is_commit(changes)[at]
    furthest_place, latest = (
        _before(np.where(is_evidence, values, _NONE), is_first) for values in (places, times)
    )
    is_behind[at] = (places < furthest_place) & (times > latest + APART // _MICROSECOND)
    return is_behind


def _goes_back(words: list[order.Ranks], is_first: Bools) -> bool:
    """Returns whether any row is smaller than the row before it in its group. Mostly, none is."""
    is_smaller, is_same = np.zeros(len(is_first), np.bool_), ~is_first
    for word in words:
        is_smaller[1:] |= is_same[1:] & (word[1:] < word[:-1])
        is_same[1:] &= word[1:] == word[:-1]
    return bool(is_smaller.any())


def _ranks(words: list[order.Ranks], rows: int) -> Indices:
    ranks, at = np.zeros(rows, np.int64), order.by(words, rows)
    ranks[at] = np.cumsum(order.begins([word[at] for word in words], rows))
    return ranks


def _before(values: Indices, is_first: Bools) -> Indices:
    """Returns, for each row, the greatest value before it in its group."""
    return np.where(is_first, _NONE, np.roll(order.running_max(values, is_first), 1))


def _is_commit(changes: pa.Table) -> Bools:
    """Returns which rows have a commit's LSN and time. Two equal LSNs are a position of another kind."""
    commit_lsn, change_lsn = column(changes, "commit_lsn"), column(changes, "change_lsn")
    is_change = ~equal(column(changes, "operation"), SNAPSHOT)
    has_commits_place = ~flags_of(pc.equal(commit_lsn, change_lsn))
    is_exact = _is_timed(changes) & ~holding(column(changes, "flags"), CLOCK_SUSPECT)
    is_commit: Bools = is_change & has_commits_place & is_exact
    return is_commit


def _is_snapshot(changes: pa.Table) -> Bools:
    """Returns which rows are of a whole table's snapshot.

    A row of an incremental snapshot has the stream's position, which a restarted connector repeats.
    A row with a doubtful clock is judged, too: its time may be hours ahead, so that a run stops without need,
    but else no snapshot of a server east of UTC would reveal a restore.
    """
    is_row = equal(column(changes, "operation"), SNAPSHOT)
    is_whole: Bools = is_row & ~valid(column(changes, "change_lsn")) & _is_timed(changes)
    return is_whole


def _is_timed(changes: pa.Table) -> Bools:
    is_repaired = holding(column(changes, "flags"), REPAIRED)
    has_lsn, has_time = valid(column(changes, "commit_lsn")), valid(column(changes, "committed_at"))
    is_timed: Bools = has_lsn & has_time & ~is_repaired
    return is_timed
