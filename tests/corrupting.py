"""Corrupts messages at random, in the ways that readers stumble over."""

from __future__ import annotations

from random import Random

# Pieces that readers stumble over.
BAD = tuple(
    piece.encode("latin-1")
    for piece in (
        *("\0", "\xff", "\xed\xa0\x80", "\xf0\x9f\x98\x80", "\r\n", '"', "\\", "{", "}", "[", "]", ",", ":"),
        *(
            "null",
            "true",
            "1e999",
            "-",
            "9" * 41,
            "NaN",
            "\\ud800",
            "'; DROP TABLE t; --",
            "`",
            '""',
            "{}",
            "0x",
        ),
    )
)


def corrupted(rng: Random, value: bytes) -> bytes:
    at = rng.randrange(len(value))
    end = min(len(value), at + rng.choice((1, 1, 2, 8, 60)))
    kind = rng.randrange(6)
    if kind == 0:
        return value[:at]
    if kind == 1:
        return value[:at] + rng.choice(BAD) + value[at:]
    if kind == 2:
        return value[:at] + rng.choice(BAD) + value[end:]
    if kind == 3:
        return value[:at] + value[end:]
    if kind == 4:
        return value[:at] + value[at:end] * 2 + value[end:]
    return value[:at] + bytes([value[at] ^ (1 << rng.randrange(8))]) + value[at + 1 :]
