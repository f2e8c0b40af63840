"""The verdicts of a proof on a key's rows in the source and as published."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

EQUAL: Final = "equal"
# Right, but the key was changed during the fence or later.
IN_FLIGHT: Final = "in_flight"
# Of these, the keys that the feed knows only from a snapshot row that it read later. Their state at the fence
# is not known.
LOADED_LATER: Final = "loaded_later"
# Only the source has the row; only the published table has it.
MISSING: Final = "missing"
EXTRA: Final = "extra"
# Both have it, with another value in a cell.
DIFFERS: Final = "differs"
DRIFTS: Final = (MISSING, EXTRA, DIFFERS)
VERDICTS: Final = (EQUAL, IN_FLIGHT, *DRIFTS)


def summary(counts: Mapping[str, int]) -> str:
    """Formats the numbers of wrong rows."""
    return ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in DRIFTS if counts[verdict])
