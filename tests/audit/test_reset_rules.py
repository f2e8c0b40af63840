"""A reset that would lose something is stopped, with numbers and keys."""

from __future__ import annotations

from changeledger.audit.resetting import Replaced, reset_rules
from changeledger.stages.extraction.resetting import removed

WHOLE = Replaced("dbo.t", changes=9, unread=0, repairs=0, rows=5, gone=0, less_known=0, examples=())


def wrong(table: Replaced, *, accepts_gap: bool = False) -> dict[str, tuple[str, int | None, str]]:
    rules = reset_rules([table], accepts_gap=accepts_gap)
    return {rule.name: (rule.severity, rule.sums[0].wrong, rule.sums[0].why) for rule in rules if rule.sums}


def test_nothing_is_lost() -> None:
    results = wrong(WHOLE)
    assert [(severity, count) for severity, count, _ in results.values()] == [("error", 0), ("error", 0)]


def test_changes_that_are_not_read_again() -> None:
    table = Replaced("dbo.t", 9, 3, 1, 5, 0, 0, ())
    severity, count, why = wrong(table)["reset_reads_everything_again"]
    assert (severity, count) == ("error", 3)
    assert why == "3 of 9 published changes are not read again, 1 of them repairs of `verify`"
    assert wrong(table, accepts_gap=True)["reset_reads_everything_again"][0] == "warning"


def test_rows_stop_it_even_where_a_gap_is_accepted() -> None:
    table = Replaced("dbo.t", 9, 0, 0, 5, 1, 2, ('{"id":7}',))
    severity, count, why = wrong(table, accepts_gap=True)["reset_keeps_rows"]
    assert (severity, count) == ("error", 3)
    assert why == 'of 5 published rows 1 would be gone and 2 would lose a column\'s value: {"id":7}'


def test_what_topics_lack() -> None:
    published = {("shop.t", "0"): 4, ("shop.t", "1"): 7, ("old", "0"): 0}
    assert removed(published, {"shop.t": {"0": 6, "1": 7}, "heartbeat": {"0": 99}}) == [
        "old[0] is gone",
        "shop.t[0]: offsets 4 to 5 were removed by retention",
    ]
    assert removed(published, {"shop.t": {"0": 0, "1": 0}, "old": {"0": 0}}) == []
