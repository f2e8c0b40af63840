"""Numbers that Spark repartitions by, so that each of its partitions gets one."""

from __future__ import annotations

from functools import lru_cache
from itertools import count

_MASK = 0xFFFFFFFF
_SEED = 42


@lru_cache(maxsize=64)
def numbers_of_partitions(partitions: int) -> tuple[int, ...]:
    """For each partition a number that `repartition(partitions, number)` puts there, and nothing else.

    Spark takes the Murmur3 hash of an int column: of numbers that merely count, some partitions would get
    several and others none.
    """
    found: dict[int, int] = {}
    for number in count():
        found.setdefault(_signed(_murmur3(number)) % partitions, number)
        if len(found) == partitions:
            return tuple(found[at] for at in range(partitions))
    raise AssertionError("every remainder is reached")


def _murmur3(number: int) -> int:
    """Murmur3_x86_32.hashInt of Apache Spark, with its seed."""
    mixed = _rotated(number * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK
    found = (_rotated(_SEED ^ mixed, 13) * 5 + 0xE6546B64) & _MASK
    found ^= 4
    found = (found ^ found >> 16) * 0x85EBCA6B & _MASK
    found = (found ^ found >> 13) * 0xC2B2AE35 & _MASK
    return found ^ found >> 16


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _MASK


def _signed(value: int) -> int:
    return value - (1 << 32) if value >> 31 else value
