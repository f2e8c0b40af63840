"""What the rows of a key may be, in a source and as they are published, and how many are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EQUAL: Final = "equal"
# Right, of a key that was changed at the time of the fence or later.
IN_FLIGHT: Final = "in_flight"
# Of these, keys that the feed knows by a snapshot's row alone, which it has read later: what they were at the
# fence nobody says.
LOADED_LATER: Final = "loaded_later"
# The source has the row and the published table does not; or the other way round.
MISSING: Final = "missing"
EXTRA: Final = "extra"
# Both have it, with another value in a cell.
DIFFERS: Final = "differs"
DRIFTS: Final = (MISSING, EXTRA, DIFFERS)
VERDICTS: Final = (EQUAL, IN_FLIGHT, *DRIFTS)


def summary(counts: Mapping[str, int]) -> str:
    """The rows that are wrong, in words."""
    return ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in DRIFTS if counts[verdict])
