"""How far all sources of a feed together are read."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from changeledger.model.source_state import SourceState


class Reach(NamedTuple):
    """How far a source is read: positions as text, records between them, and how long the oldest waits.

    `waits`: there is something to read, although it may be unknown how much and since when.
    """

    read: str
    end: str
    behind: int | None
    late: timedelta | None
    at: datetime
    waits: bool


def reach_of(states: Iterable[SourceState], now: datetime) -> Reach | None:
    """Returns the reach of all sources of a feed together. Adds offsets; of LSNs read, takes the least."""
    states = list(states)
    if not states:
        return None
    behind = [state.behind for state in states if state.behind is not None]
    since = [state.since for state in states if state.since is not None]
    read, end = ([getattr(state, name) for state in states] for name in ("read", "end"))
    if all(text.isdecimal() and len(text) < _LSN for text in (*read, *end)):
        texts = f"{sum(map(int, read)):,}", f"{sum(map(int, end)):,}"
    else:
        texts = _lsn(min(read)), _lsn(max(end))
    return Reach(
        *texts,
        sum(behind) if behind else None,
        now - min(since) if since else None,
        min(state.at for state in states),
        any(state.waits for state in states),
    )


# The number of hex digits of an LSN.
_LSN = 20


def _lsn(text: str) -> str:
    """Formats an LSN as SQL Server does: `00000027:000001c8:0003`."""
    return f"{text[:8]}:{text[8:16]}:{text[16:]}".lower() if len(text) == _LSN else text
