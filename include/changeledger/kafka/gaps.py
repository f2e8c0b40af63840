"""Checks that topics still have what a window is to read."""

from __future__ import annotations

from collections.abc import Sequence

from changeledger.kafka.topics import Offsets
from changeledger.model.errors import ConfigError, SourceDataLostError, load_again


def check_named(feed: str, left_out: Sequence[str]) -> None:
    """Raises ConfigError if there are topics that were read and that `topics:` no longer names."""
    if left_out:
        raise ConfigError(
            f"{feed}: `topics:` no longer names {', '.join(left_out)}, whose messages are published",
            "put it back; to drop a table, remove it from `tables:` only (docs/tables.md). If the "
            f"connector now writes to other topics, {load_again(feed)}",
        )


def check_continuity(feed: str, wanted: Offsets, earliest: Offsets, latest: Offsets) -> None:
    """Raises SourceDataLostError if messages after the last release are gone, naming them.

    `wanted`: the next offsets of all partitions that the topics had at that release. A partition that is not
    in it was added later, so all of its messages are new.
    """
    holes = []
    for topic, partitions in wanted.items():
        if topic not in earliest:
            holes.append(f"the topic {topic} is gone, or the feed's login can no longer see it (DESCRIBE)")
            continue
        for partition, offset in {**dict.fromkeys(earliest[topic], 0), **partitions}.items():
            low, high = earliest[topic].get(partition), latest[topic].get(partition)
            if low is None or high is None:
                holes.append(f"{topic}[{partition}] is gone")
            elif low > offset:
                holes.append(f"{topic}[{partition}]: offsets {offset} to {low - 1} were removed by retention")
            elif high < offset:
                holes.append(f"{topic}[{partition}] ends at {high}, but {offset} was read: it was recreated")
    if holes:
        raise SourceDataLostError(
            f"{feed}: the source no longer has what follows the last release: {'; '.join(holes)}",
            load_again(feed),
        )


def check_retention(feed: str, needed: Offsets, earliest: Offsets, latest: Offsets) -> None:
    """Raises SourceDataLostError if a requested window begins before what the topics still keep.

    `needed`: the first offset of a time or later in each partition. If a partition now begins there and its
    earlier messages are gone, some of that time may be gone as well. An empty partition shows nothing.
    """
    below = [
        f"{topic}[{partition}] begins at offset {low}"
        for topic, partitions in needed.items()
        for partition, offset in partitions.items()
        if offset == (low := earliest[topic][partition]) and 0 < low < latest[topic][partition]
    ]
    if below:
        raise SourceDataLostError(
            f"{feed}: the window reaches below what the source still keeps: {'; '.join(below)}",
            "choose a later start; what earlier runs have read is in the feed's table raw",
        )
