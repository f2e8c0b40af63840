"""Change event streaming: what several messages, windows and settings of one log have in common."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.conftest import MESSAGE

from changeledger.config import Feed, TableConfig
from changeledger.contract import Column, Contract
from changeledger.decoding import reader
from changeledger.dialects.base import Known
from changeledger.dialects.ces import CES
from changeledger.dialects.ces_shapes import Variant, shapes
from sourcelab.ces import messages
from sourcelab.log import simulate
from sourcelab.messages import Message

RAW = f"{MESSAGE}, since timestamp"
LOG = simulate(7, 3)
FEED = Feed.model_validate(
    {
        "feed": "golden",
        "dialect": "ces",
        "database": "shop",
        "connection": "shop",
        "source": {"topics": ["shop.changes"]},
        "tables": [{"table": t.full_name} for t in LOG.tables],
    }
)


def _raw(spark: SparkSession, told: Iterable[tuple[int, Message]]) -> DataFrame:
    """The messages by their place in the stream, spread over three partitions."""
    rows = [(m.topic, at % 3, at, None, m.key, m.value, [], None) for at, m in told]
    return spark.createDataFrame(rows, RAW)


def _outcomes(raw: DataFrame) -> dict[int, dict[str, Any]]:
    """By place in the stream: disposition, and of a change what it says."""
    survey = CES.survey(raw, FEED, Known({}, {}))
    frames = [CES.decode(records, shape, FEED) for _, shape, records in survey.told if shape is not None]
    found: dict[int, dict[str, Any]] = {}
    for frame in [*frames, CES.decode_other(survey.others, FEED)]:
        for row in frame.collect():
            said = row.asDict(recursive=True)
            assert said["record"]["offset"] not in found, "a record has one outcome"
            members = ("disposition", "reason", "operation", "key", "before", "after", "sort_key")
            found[said["record"]["offset"]] = {n: said.get(n) for n in members}
    return found


def test_a_split_event_is_joined_over_partitions_and_windows(spark: SparkSession) -> None:
    whole = _outcomes(_raw(spark, enumerate(messages(LOG, from_tx=1))))
    parts = list(enumerate(messages(LOG, from_tx=1, generation="captured", split_at=700)))
    assert len(parts) > 2 * len(whole)
    # The first window ends in the midst of the stream; every other segment comes late.
    early = [one for one in parts if one[0] % 2]
    late = [one for one in parts if not one[0] % 2]
    first = _outcomes(_raw(spark, early))
    assert len(first) == len(early)
    waiting = {at for at, said in first.items() if said["disposition"] == "pending"}
    assert {first[at]["reason"] for at in waiting} == {"split_incomplete"}
    second = _outcomes(_raw(spark, [*late, *(one for one in early if one[0] in waiting)]))
    assert len(second) == len(late) + len(waiting)
    joined = [s for said in (first, second) for s in said.values() if s["disposition"] == "change"]
    by_position = sorted(joined, key=lambda said: bytes(said["sort_key"]))
    assert by_position == sorted(whole.values(), key=lambda said: bytes(said["sort_key"]))
    rest = Counter(s["disposition"] for said in (first, second) for s in said.values())
    assert rest["paired"] + rest["change"] == len(parts)


@pytest.mark.parametrize("known", ["dbo.Purchases", "DBO.PURCHASES", None])
def test_a_table_is_named_as_its_contract_or_the_source_writes_it(
    spark: SparkSession, known: str | None
) -> None:
    case = Path(__file__).parents[1] / "cases" / "ces" / "page_examples"
    told = [json.loads(line)["value"] for line in (case / "input.jsonl").read_text("utf-8").splitlines()]
    # A later message writes it otherwise.
    told[-1] = told[-1].replace("Purchases", "purchases")
    rows = [("t", 0, at, None, None, text.encode(), [], None) for at, text in enumerate(told)]
    contract = Contract(table=known, columns=KNOWN.columns) if known else None
    feed = reader.feed_of("ces", [])
    survey = CES.survey(
        spark.createDataFrame(rows, RAW), feed, Known({known: contract} if known and contract else {}, {})
    )
    assert {one.table for one in survey.told} == {known or "dbo.Purchases"}


COLS = '[{"name": "id", "type": "int", "index": 0}, {"name": "n", "type": "int", "index": 1}]'
WIDER = COLS.replace('"n", "type": "int"', '"n", "type": "bigint"')
ONLY_N = '[{"NAME": "N", "Type": "INT", "INDEX": 1}]'


def _told(*variants: tuple[str | None, tuple[str, ...]], known: Contract | None = None, **stated: Any) -> Any:
    table = TableConfig(table="dbo.t", **stated)
    made = [Variant(at, cols, key, f"{at:04}") for at, (cols, key) in enumerate(variants)]
    return [
        (
            [(c.name, c.type, c.ordinal, c.key_position) for c in shape.contract.columns],
            [v.mark for v in shape.variants],
        )
        for shape in shapes(table, made, known)
    ]


ID, N = ("id", "int", 1, 1), ("n", "int", 2, 0)
KNOWN = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, key_position=1),
        Column(name="n", type="int", ordinal=2),
    ),
)


@pytest.mark.parametrize(
    ("variants", "settings", "expected"),
    [
        # Columns told apart are put together; a later message says how a name is written.
        ([(COLS, ("id",)), (ONLY_N, ("ID",))], {}, [([ID, ("N", "int", 2, 0)], [0, 1])]),
        # Two types of one column are two shapes, in the order of the stream.
        (
            [(WIDER, ("id",)), (COLS, ("id",))],
            {},
            [([ID, ("n", "bigint", 2, 0)], [0]), ([ID, N], [1])],
        ),
        # A key that is not told is the one told elsewhere; a stated one counts before all.
        ([(COLS, ()), (COLS, ("n",))], {}, [([("id", "int", 1, 0), ("n", "int", 2, 1)], [0, 1])]),
        ([(COLS, ("id",))], {"key": ("n",)}, [([("id", "int", 1, 0), ("n", "int", 2, 1)], [0])]),
        # Two keys are two shapes.
        (
            [(COLS, ("id",)), (COLS, ("id", "n"))],
            {},
            [([ID, N], [0]), ([ID, ("n", "int", 2, 2)], [1])],
        ),
        # Half a key is none.
        ([(COLS, ("id", "gone"))], {}, [([("id", "int", 1, 0), N], [0])]),
        # Nothing told: what is known.
        ([(None, ())], {"known": KNOWN}, [([ID, N], [0])]),
        ([("nonsense", ())], {"known": KNOWN}, [([ID, N], [0])]),
        ([(None, ())], {}, [([], [0])]),
        # Stated columns are the columns.
        (
            [(WIDER, ("id",))],
            {"columns": ({"name": "id", "type": "int"}, {"name": "n", "type": "varchar(9)"})},
            [([ID, ("n", "varchar(9)", 2, 0)], [0])],
        ),
    ],
)
def test_shapes(variants: Any, settings: dict[str, Any], expected: Any) -> None:
    assert _told(*variants, **settings) == expected
