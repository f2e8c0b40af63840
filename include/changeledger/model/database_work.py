"""By what names the comparison and the proofs of a database are known: those of their DAGs, folders of pages,
failures and leases. No feed's name begins so."""

from __future__ import annotations

from typing import Final

COMPARISONS: Final = "compare_"
PROOFS: Final = "verify_"
BEGINNINGS: Final = (COMPARISONS, PROOFS)


def comparison_of(database: str) -> str:
    return f"{COMPARISONS}{database}"


def verification_of(database: str) -> str:
    return f"{PROOFS}{database}"
