"""Randomly corrupted messages have one result each and do not change results of other messages."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from sourcelab import qlik_messages, qlik_messages_avro
from sourcelab.log import Log, simulate
from sourcelab.messages import Message
from tests.corrupting import corrupted
from tests.dialects import accounted
from tests.dialects.qlik_messages.decoding import decoded

CORRUPTED = 150


def results(values: Sequence[Message], log: Log) -> dict[int, dict[str, Any]]:
    return accounted.results(decoded, "qlik_messages", values, [table.full_name for table in log.tables])


def changes(values: Sequence[Message], log: Log) -> dict[int, dict[str, Any]]:
    return {at: row for at, row in results(values, log).items() if row["disposition"] == "change"}


def messages(log: Log, *, envelope: bool = True) -> list[Message]:
    return list(qlik_messages.messages(log, envelope=envelope, snapshot=True))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("in_avro", [False, True])
def test_corrupted_messages_are_accounted_for(seed: int, in_avro: bool) -> None:
    log, rng = simulate(seed, 6), Random(f"qlik {seed} {in_avro}")
    good = list(qlik_messages_avro.messages(messages(log))) if in_avro else messages(log)
    data = good[len(log.tables) :]
    bad = [m._replace(value=corrupted(rng, m.value or b"")) for m in rng.choices(data, k=CORRUPTED)]
    clean, mixed = results(good, log), results([*good, *bad], log)
    assert {row["disposition"] for row in clean.values()} == {"change", "control"}
    assert sorted(mixed) == list(range(len(good) + CORRUPTED)), "each record has exactly one result"
    assert {at: mixed[at] for at in clean} == clean
    quarantined = [row for row in mixed.values() if row["disposition"] == "quarantined"]
    assert all(row["reason"] and row["detail"] is not None for row in quarantined)
    assert len({row["reason"] for row in quarantined}) >= 2


@pytest.mark.parametrize("seed", range(3))
def test_avro_and_bare_messages_say_what_the_envelope_says(seed: int) -> None:
    log = simulate(seed, 6)
    expected = changes(messages(log), log)
    assert expected
    assert changes(messages(log, envelope=False), log) == expected
    assert changes(list(qlik_messages_avro.messages(messages(log))), log) == expected
