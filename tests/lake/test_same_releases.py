"""Which of control store and lake is of another time, by what each knows of the last release."""

from __future__ import annotations

import pytest

from changeledger.control import ReleaseRow
from changeledger.lake.same_releases import TableReleases, disagreement

COMPLETED = ReleaseRow(feed="shop", id=7, tables={"lake.shop.a": 70, "lake.shop.b": 71})
SAME = {
    "lake.shop.a": TableReleases(is_there=True, newest=7, snapshot=70, is_behind=False),
    "lake.shop.b": TableReleases(is_there=True, newest=7, snapshot=71, is_behind=False),
}


def with_b(**known: object) -> dict[str, TableReleases]:
    return {**SAME, "lake.shop.b": SAME["lake.shop.b"]._replace(**known)}


def test_of_one_time() -> None:
    assert disagreement(COMPLETED, 7, SAME) is None
    assert disagreement(COMPLETED, 8, with_b(newest=8)) is None, "a committed release may be tagged in part"


@pytest.mark.parametrize(
    ("known", "says", "remedy"),
    [
        (with_b(newest=9), "the lake has release 9, and the control store ends at 7", "rollback shop 7"),
        (with_b(newest=5, snapshot=None), "lake.shop.b ends at release 5", "rollback shop 5"),
        (with_b(newest=None, snapshot=None), "an older lake was restored", "restore both"),
        (with_b(snapshot=99), "had the tag moved", "rollback shop 7"),
        (with_b(is_there=False), "no table lake.shop.b, which release 7", "restore the catalog"),
        (with_b(is_behind=True), "main of lake.shop.b was moved back", "rollback shop 7"),
    ],
)
def test_of_two_times(known: dict[str, TableReleases], says: str, remedy: str) -> None:
    said = disagreement(COMPLETED, 7, known)
    assert said is not None
    assert says in said[0]
    assert remedy in said[1]
