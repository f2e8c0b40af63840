"""Reports records that topics no longer have, and the command that continues after them."""

from __future__ import annotations

import pytest

from changeledger.kafka.gaps import check_continuity, check_named
from changeledger.model.errors import ConfigError, SourceDataLostError


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"t": {"0": 5}}, "offsets 5 to 6 were removed by retention"),
        ({"t": {"0": 99}}, "ends at 9, but 99 was read: it was recreated"),
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


def test_a_topic_that_the_feed_leaves_out_is_not_lost() -> None:
    """The topic still exists, so a reset would be no remedy."""
    check_named("shop", ())
    with pytest.raises(ConfigError, match=r"(?s)`topics:` no longer names shop.dbo.orders,.*put it back"):
        check_named("shop", ["shop.dbo.orders"])
