"""Names of a database's comparison and proofs: those of their DAGs, page folders, failures and leases.

No feed's name begins like them.
"""

from __future__ import annotations

from typing import Final

COMPARISONS: Final = "compare_"
PROOFS: Final = "verify_"
BEGINNINGS: Final = (COMPARISONS, PROOFS)


def comparison_of(database: str) -> str:
    return f"{COMPARISONS}{database}"


def verification_of(database: str) -> str:
    return f"{PROOFS}{database}"
