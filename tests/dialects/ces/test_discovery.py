"""Discovers the tables of a window's messages and assembles their columns."""

from __future__ import annotations

import re
from typing import Any

import pytest

from changeledger.cli.decode.reader import feed_of
from changeledger.config.tables import TableConfig
from changeledger.dialects.ces.columns import Variant, writer_schemas
from changeledger.dialects.ces.dialect import CES
from changeledger.dialects.ces.discovery import Routed, route
from changeledger.dialects.kernel import EarlierWindows
from changeledger.dialects.messages.message_rows import Outcome
from changeledger.model.contract import Column, Contract
from tests.dialects.golden import cases
from tests.dialects.reading import NONE, with_values

KNOWN = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, key_position=1),
        Column(name="n", type="int", ordinal=2),
    ),
)


@pytest.mark.parametrize(
    ("stated", "known", "source_table"),
    [
        # The table with exactly that name is read, else the only one. A feed never switches to another table.
        ("dbo.Purchases", None, "dbo.Purchases"),
        ("dbo.purchases", None, "dbo.purchases"),
        ("DBO.PURCHASES", None, None),
        ("dbo.Purchases", "dbo.purchases", "dbo.purchases"),
        ("dbo.purchases", "dbo.PURCHASES", None),
    ],
)
def test_of_tables_that_differ_in_case_one_is_the_feeds(
    stated: str, known: str | None, source_table: str | None
) -> None:
    messages = next(case for case in cases("ces") if case.folder.name == "page_examples").messages
    values: list[bytes] = messages.column("value").to_pylist()
    values[-1] = values[-1].replace(b"Purchases", b"purchases")
    contracts = {stated: Contract(table=stated, columns=KNOWN.columns, source_table=known)}
    feed = feed_of("ces", []).model_copy(update={"tables": (TableConfig(table=stated),)})
    window_facts = CES.kernel.facts(with_values(messages, values), NONE)
    discovery = CES.kernel.discover(window_facts, feed, EarlierWindows(contracts, {}, {}))
    assert [(table.table, table.source_table) for table in discovery.tables] == (
        [(stated, source_table)] if source_table else []
    )
    refused = {way.table: missing.reason for way, missing in discovery.missing.items()}
    assert refused == dict.fromkeys({"dbo.Purchases", "dbo.purchases"} - {source_table}, "tables_alike")


def test_facts_do_not_depend_on_the_order_of_messages() -> None:
    messages = next(case for case in cases("ces") if case.folder.name == "page_examples").messages
    values: list[bytes] = messages.column("value").to_pylist()
    later = [value.replace(b"0000002C:00000300:017C", b"0000002C:00000300:017D") for value in values]
    later = [value.replace(b"0000002C00000300017C", b"0000002C00000300017D") for value in later]
    assert later != values
    both = [
        CES.kernel.facts(with_values(messages, [a, b, None]), NONE)
        for a, b in zip(values, later, strict=True)
    ]
    turned = [
        CES.kernel.facts(with_values(messages, [b, a, None]), NONE)
        for a, b in zip(values, later, strict=True)
    ]
    assert turned == both
    assert [row["events"] for of in both for row in of.to_pylist()] == [2, 2, 2]


COLS = '[{"name": "id", "type": "int", "index": 0}, {"name": "n", "type": "int", "index": 1}]'
WIDER = COLS.replace('"n", "type": "int"', '"n", "type": "bigint"')
ONLY_N = '[{"NAME": "N", "Type": "INT", "INDEX": 1}]'
OTHER_N = '[{"name": "id", "type": "int", "index": 0}, {"name": "N", "type": "int", "index": 2}]'
BOTH_N = OTHER_N.replace("[", '[{"name": "n", "type": "int", "index": 1}, ')
N_BEHIND = BOTH_N.replace('"n"', '"x"').replace('"N"', '"n"').replace('"x"', '"N"')
WITHOUT_PLACES = re.sub(r', "index": \d', "", BOTH_N)
ONLY_ID = '[{"name": "id", "type": "int", "index": 0}]'


def _schemas(
    *variants: tuple[str | None, tuple[str, ...]], known: Contract | None = None, **stated: Any
) -> Any:
    """Columns of the writer schemas, with the indexes of the variants that they read."""
    table = TableConfig(table="dbo.t", **stated)
    # They come in any order; `first` says theirs.
    numbered = [Variant(f"{at:04}", cols, key) for at, (cols, key) in enumerate(variants)][::-1]
    return [
        (
            [(c.name, c.type, c.ordinal, c.key_position) for c in schema.contract.columns],
            [int(v.first) for v in schema.variants],
        )
        for schema in writer_schemas(table, numbered, known)
    ]


ID, N = ("id", "int", 1, 1), ("n", "int", 2, 0)


@pytest.mark.parametrize(
    ("variants", "settings", "expected"),
    [
        # Columns of several messages are merged. The latest message decides the case of a name.
        ([(COLS, ("id",)), (ONLY_N, ("ID",))], {}, [([ID, ("N", "int", 2, 0)], [0, 1])]),
        # Two columns whose names differ in case only: in one message, or in two messages by their indexes.
        ([(BOTH_N, ("id",)), (COLS, ("id",)), (ONLY_ID, ("id",))], {}, [([], [0]), ([], [1]), ([ID], [2])]),
        ([(WITHOUT_PLACES, ("id",)), (ONLY_ID, ("id",))], {}, [([], [0]), ([ID], [1])]),
        ([(N_BEHIND, ("id",)), (ONLY_ID, ("id",))], {}, [([], [0]), ([ID], [1])]),
        ([(COLS, ("id",)), (OTHER_N, ("id",))], {}, [([], [0]), ([], [1])]),
        (
            [(COLS, ("id",)), (OTHER_N, ("id",))],
            {"columns": ({"name": "n", "type": "int"},)},
            [([], [0]), ([], [1])],
        ),
        # Two types of one column make two schemas, in the order of the stream.
        (
            [(WIDER, ("id",)), (COLS, ("id",))],
            {},
            [([ID, ("n", "bigint", 2, 0)], [0]), ([ID, N], [1])],
        ),
        # A message without a key takes the key of another message. A stated key precedes both.
        ([(COLS, ()), (COLS, ("n",))], {}, [([("id", "int", 1, 0), ("n", "int", 2, 1)], [0, 1])]),
        ([(COLS, ("id",))], {"key": ("n",)}, [([("id", "int", 1, 0), ("n", "int", 2, 1)], [0])]),
        # It takes the first key of which it has all columns, also from messages with another type.
        (
            [(COLS, ()), (WIDER, ("gone",)), (WIDER, ("id",))],
            {},
            [
                ([ID, N], [0]),
                ([("id", "int", 1, 0), ("n", "bigint", 2, 0)], [1]),
                ([ID, ("n", "bigint", 2, 0)], [2]),
            ],
        ),
        # Two keys make two schemas.
        (
            [(COLS, ("id",)), (COLS, ("id", "n"))],
            {},
            [([ID, N], [0]), ([ID, ("n", "int", 2, 2)], [1])],
        ),
        # A key with an unknown column is ignored.
        ([(COLS, ("id", "gone"))], {}, [([("id", "int", 1, 0), N], [0])]),
        # Without columns, the known contract applies.
        ([(None, ())], {"known": KNOWN}, [([ID, N], [0])]),
        ([("nonsense", ())], {"known": KNOWN}, [([ID, N], [0])]),
        ([(None, ())], {}, [([], [0])]),
        # Stated columns replace those of messages.
        (
            [(WIDER, ("id",))],
            {"columns": ({"name": "id", "type": "int"}, {"name": "n", "type": "varchar(9)"})},
            [([ID, ("n", "varchar(9)", 2, 0)], [0])],
        ),
        # A column that the feed does not state may change its type, as in a feed that states no columns.
        (
            [(COLS, ("id",)), (WIDER, ("id",))],
            {"columns": ({"name": "id", "type": "int"},)},
            [([ID, N], [0]), ([ID, ("n", "bigint", 2, 0)], [1])],
        ),
        # Two keys make two schemas, whatever types the feed states: rows that share the old key would become
        # one row.
        (
            [(COLS, ("id",)), (COLS, ("id", "n"))],
            {"columns": ({"name": "id", "type": "int"}, {"name": "n", "type": "int"})},
            [([ID, N], [0]), ([ID, ("n", "int", 2, 2)], [1])],
        ),
    ],
)
def test_writer_schemas(variants: Any, settings: dict[str, Any], expected: Any) -> None:
    assert _schemas(*variants, **settings) == expected


def test_a_column_that_differs_in_case_from_one_read_before_is_another_in_another_place() -> None:
    stated = ({"name": "id", "type": "int"}, {"name": "n", "type": "int"})
    assert _schemas((OTHER_N, ("id",)), known=KNOWN) == [([], [0])]
    assert _schemas((OTHER_N, ("id",)), (COLS, ("id",)), known=KNOWN) == [([], [0]), ([], [1])]
    assert _schemas((ONLY_N, ("ID",)), known=KNOWN) == [([("N", "int", 2, 0)], [0])]
    # The feed may state a name in another case than the source.
    assert _schemas((OTHER_N, ("id",)), known=KNOWN, columns=stated) == [([ID, N], [0])]


@pytest.mark.parametrize("image", [b'"{}"', b"{}", b'"\xc3\xbc"'])
def test_images_are_passed_over(image: bytes) -> None:
    routed = route(_message(image))
    assert isinstance(routed, Routed)
    assert routed.way.table == "dbo.t"


@pytest.mark.parametrize(
    ("image", "reason"),
    [(b'"\xff"', "not_utf8"), (rb'"\ud800"', "lone_surrogate"), (b"01", "unparseable_json")],
)
def test_images_that_are_passed_over_are_json(image: bytes, reason: str) -> None:
    outcome = route(_message(image))
    assert isinstance(outcome, Outcome)
    assert outcome.reason == reason


def _message(image: bytes) -> bytes:
    source = b'{"schema": "dbo", "tbl": "t", "cols": []}'
    return b'{"data": {"eventsource": %s, "eventrow": {"current": %s}}}' % (source, image)
