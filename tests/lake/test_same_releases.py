"""Tells which of control store and lake is older, by what each knows of the last release."""

from __future__ import annotations

import pytest

from changeledger.control import ReleaseRow
from changeledger.lake.same_releases import TableReleases, disagreement

COMPLETED = ReleaseRow(feed="shop", id=7, tables={"lake.shop.a": 70, "lake.shop.b": 71})
SAME = {
    "lake.shop.a": TableReleases(is_there=True, tagged=frozenset({3, 5, 7}), snapshot=70, is_behind=False),
    "lake.shop.b": TableReleases(is_there=True, tagged=frozenset({3, 5, 7}), snapshot=71, is_behind=False),
}


def stored() -> set[int]:
    """Returns the releases in the control store."""
    return {3, 5, 7}


def with_b(**known: object) -> dict[str, TableReleases]:
    return {**SAME, "lake.shop.b": SAME["lake.shop.b"]._replace(**known)}


def test_of_one_time() -> None:
    assert disagreement(COMPLETED, 7, SAME, stored) is None
    tagged_in_part = with_b(tagged=frozenset({7, 8}))
    assert disagreement(COMPLETED, 8, tagged_in_part, stored) is None, "a release that is committed"


@pytest.mark.parametrize(
    ("known", "says", "remedy"),
    [
        (
            with_b(tagged=frozenset({7, 9})),
            "the lake has release 9, but the control store ends at 7",
            "rollback shop 7",
        ),
        (with_b(tagged=frozenset({3, 5}), snapshot=None), "lake.shop.b ends at release 5", "rollback shop 5"),
        # Release 4 is from before an older control store was restored.
        (with_b(tagged=frozenset({3, 4}), snapshot=None), "lake.shop.b ends at release 4", "rollback shop 3"),
        (with_b(tagged=frozenset(), snapshot=None), "an older lake was restored", "restore both"),
        (with_b(snapshot=99), "the tag was moved", "rollback shop 7"),
        (with_b(is_there=False), "no table lake.shop.b, which release 7", "restore the catalog"),
        (with_b(is_behind=True), "main of lake.shop.b was moved back", "rollback shop 7"),
    ],
)
def test_of_two_times(known: dict[str, TableReleases], says: str, remedy: str) -> None:
    said = disagreement(COMPLETED, 7, known, stored)
    assert said is not None
    assert says in said[0]
    assert remedy in said[1]
