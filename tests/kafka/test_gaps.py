"""Reports records that topics no longer have, and the command that continues after them."""

from __future__ import annotations

import pytest

from changeledger.kafka.gaps import check_continuity, check_named, check_retention
from changeledger.kafka.topics import Retention
from changeledger.model.errors import ConfigError, SourceDataLostError


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"t": {"0": 5}}, "offsets 5 to 6 were removed by retention"),
        ({"t": {"0": 6}}, "offsets 6 to 6 were removed by retention"),
        ({"t": {"0": 10}}, "ends at 9, but 10 was read: it was recreated"),
        ({"t": {"1": 5}}, r"t\[1\] is gone"),
        ({"t": {}}, r"t\[0\]: offsets 0 to 6 were removed by retention"),
        ({"gone": {"0": 5}}, "the topic gone is gone, or the feed's login can no longer see it"),
    ],
)
def test_a_gap_names_the_command(wanted: dict[str, dict[str, int]], said: str) -> None:
    with pytest.raises(SourceDataLostError, match=said) as raised:
        check_continuity("shop", wanted, {"t": {"0": 7}}, {"t": {"0": 9}})
    assert "`changeledger reset shop --accept-gap --reason ...`" in raised.value.remedy
    assert "'A gap'" in raised.value.remedy


@pytest.mark.parametrize("offset", [7, 9])
def test_what_follows_is_still_there(offset: int) -> None:
    check_continuity("shop", {"t": {"0": offset}}, {"t": {"0": 7}}, {"t": {"0": 9}})


@pytest.mark.parametrize(
    ("needed", "low", "high", "is_below"),
    [
        (3, 3, 9, True),
        (4, 3, 9, False),
        # The partition has all of its messages.
        (0, 0, 9, False),
        # It has none.
        (3, 3, 3, False),
        (1, 1, 2, True),
    ],
)
def test_a_window_begins_where_retention_may_have_removed_messages(
    needed: int, low: int, high: int, is_below: bool
) -> None:
    offsets = ({"t": {"0": offset}} for offset in (needed, low, high))
    if not is_below:
        check_retention("shop", *offsets)
        return
    with pytest.raises(SourceDataLostError, match=rf"t\[0\] begins at offset {low}"):
        check_retention("shop", *offsets)


@pytest.mark.parametrize(
    ("policy", "milliseconds", "size", "expected"),
    [
        # Kafka's page "Topic Configs": -1 is no limit, and `compact` alone ignores both limits.
        ("delete", "604800000", "-1", Retention(False, 604_800.0, None)),
        ("delete", "0", "0", Retention(False, 0.0, 0)),
        ("delete", "-1", "1024", Retention(False, None, 1024)),
        ("compact", "604800000", "1024", Retention(True, None, None)),
        ("compact,delete", "500", "1024", Retention(True, 0.5, 1024)),
    ],
)
def test_retention_is_that_of_the_topics_policy(
    policy: str, milliseconds: str, size: str, expected: Retention
) -> None:
    settings = {"cleanup.policy": policy, "retention.ms": milliseconds, "retention.bytes": size}
    assert Retention.of(settings) == expected


def test_a_topic_that_the_feed_leaves_out_is_not_lost() -> None:
    """The topic still exists, so a reset would be no remedy."""
    check_named("shop", ())
    with pytest.raises(ConfigError, match=r"(?s)`topics:` no longer names shop.dbo.orders,.*put it back"):
        check_named("shop", ["shop.dbo.orders"])
