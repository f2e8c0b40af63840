"""Randomly corrupted messages have one result each and do not change results of other messages."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from sourcelab import ces, ces_avro
from sourcelab.log import simulate
from sourcelab.messages import Message
from tests.corrupting import corrupted
from tests.dialects import accounted
from tests.dialects.ces.decoding import decoded

CORRUPTED = 150


def results(values: Sequence[Message], tables: Sequence[str]) -> dict[int, dict[str, Any]]:
    return accounted.results(decoded, "ces", values, tables)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("in_avro", [False, True])
def test_corrupted_messages_are_accounted_for(seed: int, in_avro: bool) -> None:
    log, rng = simulate(seed, 6), Random(f"ces {seed} {in_avro}")
    good = list(ces.messages(log, from_tx=1))
    good = list(ces_avro.messages(good)) if in_avro else good
    bad = [m._replace(value=corrupted(rng, m.value or b"")) for m in rng.choices(good, k=CORRUPTED)]
    tables = [table.full_name for table in log.tables]
    clean, mixed = results(good, tables), results([*good, *bad], tables)
    assert {row["disposition"] for row in clean.values()} == {"change"}
    assert sorted(mixed) == list(range(len(good) + CORRUPTED)), "each record has exactly one result"
    quarantined = [row for row in mixed.values() if row["disposition"] == "quarantined"]
    assert all(row["reason"] and row["detail"] is not None for row in quarantined)
    assert len({row["reason"] for row in quarantined}) >= 2


@pytest.mark.parametrize("seed", range(3))
def test_avro_says_what_json_says(seed: int) -> None:
    log = simulate(seed, 6)
    tables = [table.full_name for table in log.tables]
    in_json = list(ces.messages(log, from_tx=1))
    assert results(list(ces_avro.messages(in_json)), tables) == results(in_json, tables)
