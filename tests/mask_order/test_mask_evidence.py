"""Counts evidence on the byte order of masks. Expected counts are worked out by hand from the rules.

In the tables below, ordinal 1 is the lowest bit of the last byte (big) or of the first one (little).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from changeledger.dialects.tables.outcomes import decoded_schema
from changeledger.mask_order.decision import COUNTS, Evidence
from changeledger.mask_order.mask_evidence import Facts, MaskRules, counted, facts
from changeledger.model import change
from changeledger.model.contract import Column, Contract


def table(highest: int, first: int = 1, key: int = 1) -> Contract:
    """A table with columns c<ordinal> for the ordinals first..highest. The first one is the key, if any."""
    columns = tuple(
        Column(name=f"c{o}", type="int", ordinal=o, key_position=key * (o == first))
        for o in range(first, highest + 1)
    )
    return Contract(table="dbo.t", columns=columns)


TWELVE = table(12)
QLIK = MaskRules(delete_sets="key")
SQL_SERVER = MaskRules(delete_sets="all")
# Ordinals 1 to 7 are header columns, 8 to 12 are columns of the source.
WITH_HEADERS = table(12, first=8)
HEADERS = MaskRules(delete_sets="key", header_ordinals=tuple(range(1, 8)))
EVERY = frozenset(range(1, 13))


def given(writer_schema: Contract, *records: dict[str, Any]) -> Facts:
    highest = max(c.ordinal for c in writer_schema.columns)

    def flags(name: str) -> np.ndarray:
        matrix = np.zeros((len(records), highest), np.bool_)
        for at, record in enumerate(records):
            matrix[at, [o - 1 for o in record.get(name) or ()]] = True
        return matrix

    def has(name: str) -> np.ndarray:
        return np.array([record.get(name) is not None for record in records], np.bool_)

    return Facts(
        pa.array([bytes.fromhex(record["mask"]) for record in records], pa.binary()),
        pa.array([record["kind"] for record in records], pa.string()),
        flags("differing"), has("differing"), flags("known"), has("known"), flags("gaps"),
    )  # fmt: skip


def said(writer_schema: Contract, rules: MaskRules, *records: dict[str, Any]) -> Evidence:
    return counted(given(writer_schema, *records), writer_schema, rules)


def counts(evidence: Evidence) -> dict[str, int]:
    return {name: getattr(evidence, name) for name in COUNTS}


def insert(mask: str, known: set[int] | frozenset[int] | None, **members: Any) -> dict[str, Any]:
    return {"mask": mask, "kind": change.INSERT, "known": known, **members}


def delete(mask: str) -> dict[str, Any]:
    return {"mask": mask, "kind": change.DELETE}


def update(mask: str, differing: set[int] | None, **members: Any) -> dict[str, Any]:
    return {"mask": mask, "kind": change.UPDATE, "differing": differing, **members}


RECORDS: list[tuple[str, Contract, MaskRules, dict[str, Any], str]] = [
    # 0FFF: big 1..12; little 1..4 and 9..16.
    ("insert in big order", TWELVE, QLIK, insert("0FFF", EVERY), "big"),
    ("insert in little order", TWELVE, QLIK, insert("FF0F", EVERY), "little"),
    # Only 1..4 and 9 are known, and both orders set them.
    ("insert of few columns", TWELVE, QLIK, insert("0FFF", {1, 2, 3, 4, 9}), "undecided"),
    ("insert that lacks a column", TWELVE, QLIK, insert("0FFE", EVERY), "neither"),
    ("insert without its bits", TWELVE, QLIK, insert("", EVERY), "neither"),
    # A set bit of a NULL column is legal: NULL was inserted.
    ("insert of a NULL", TWELVE, QLIK, insert("0FFF", EVERY - {3}), "big"),
    # Some sources set bits beyond the table, which does not count against an insert.
    ("insert with all bits of its bytes", TWELVE, SQL_SERVER, insert("FFFF", EVERY), "either"),
    ("insert that nothing is known of", TWELVE, QLIK, insert("FFFF", None), "untested"),
    # 0001: big 1; little 9.
    ("delete sets the key", TWELVE, QLIK, delete("0001"), "big"),
    ("delete sets the key, wider", TWELVE, QLIK, delete("000001"), "big"),
    ("delete sets the key, little", TWELVE, QLIK, delete("0100"), "little"),
    ("delete sets the key, trimmed", TWELVE, QLIK, delete("01"), "either"),
    ("delete sets more than the key", TWELVE, QLIK, delete("03"), "neither"),
    # 2001: big 1 and 14; little 6 and 9.
    ("delete beyond the table", TWELVE, QLIK, delete("2001"), "neither"),
    ("delete of a table without a key", table(12, key=0), QLIK, delete("0804"), "undecided"),
    ("delete of SQL Server sets all", TWELVE, SQL_SERVER, delete("0FFF"), "big"),
    ("delete of SQL Server sets the key only", TWELVE, SQL_SERVER, delete("0001"), "neither"),
    # 0804: big 3 and 12; little 4 and 11.
    ("update in big order", TWELVE, QLIK, update("0804", {3, 12}), "big"),
    ("update in little order", TWELVE, QLIK, update("0804", {4, 11}), "little"),
    ("update of something else", TWELVE, QLIK, update("0804", {3}), "neither"),
    ("update that reads both ways", TWELVE, QLIK, update("0101", {1, 9}), "either"),
    ("update of one byte", TWELVE, QLIK, update("0B", {1, 2, 4}), "either"),
    ("update without an image", TWELVE, QLIK, update("0804", None), "undecided"),
    ("update of one byte without an image", TWELVE, QLIK, update("0B", None), "untested"),
    # 1000: big 13, of twelve columns; little 5.
    ("update beyond the table", TWELVE, QLIK, update("1000", None), "little"),
    # In little order, the highest ordinal is 128: far beyond the table's one word.
    ("update far beyond the table", TWELVE, QLIK, update("00" * 15 + "80", None), "big"),
    # 8080: in both orders 8 and 16.
    ("update beyond the table in both orders", TWELVE, QLIK, update("8080", None), "neither"),
    # Big 1 and 13, or 1 and 24. SQL Server trims no zeros, so the wider mask is that of a wider table.
    ("update beyond the table, as wide as it", TWELVE, SQL_SERVER, update("1001", {1}), "neither"),
    ("update beyond the table, wider", TWELVE, SQL_SERVER, update("800001", {1}), "big"),
    ("update with an empty mask", TWELVE, QLIK, update("00", {1}), "untested"),
    # Column 12 is unknown, so only 3 counts.
    ("update with a gap", TWELVE, QLIK, update("0804", {3}, gaps={12}), "big"),
    # Headers. 0F80: big 8..12; little 1..4 (headers) and 16.
    ("headers, insert in big order", WITH_HEADERS, HEADERS, insert("0F80", {8, 9, 10, 11, 12}), "big"),
    # 800F: little 8 and 9..12.
    ("headers, insert in little order", WITH_HEADERS, HEADERS, insert("800F", {8, 9, 10, 11, 12}), "little"),
    ("headers, delete", WITH_HEADERS, HEADERS, delete("0080"), "big"),
    ("headers, delete trimmed", WITH_HEADERS, HEADERS, delete("80"), "either"),
    ("headers, update of one byte", WITH_HEADERS, HEADERS, update("80", None), "either"),
    # 0200: big 10; little 2, a header.
    ("headers, update without an image", WITH_HEADERS, HEADERS, update("0200", None), "big"),
    # The page's slip: mask 11000 on a table with headers sets bits 3 and 4, which are header columns.
    ("headers, the slip of the page", WITH_HEADERS, HEADERS, update("18", None), "neither"),
    # A source whose masks do not count the header columns, although they should.
    ("headers not counted by the source", WITH_HEADERS, HEADERS, insert("1F", {8, 9, 10, 11, 12}), "neither"),
    ("another kind of record", TWELVE, QLIK, {"mask": "0804", "kind": change.SNAPSHOT}, "undecided"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("writer_schema", "rules"), [(TWELVE, QLIK), (TWELVE, SQL_SERVER), (WITH_HEADERS, HEADERS)]
)
def test_what_a_record_says(writer_schema: Contract, rules: MaskRules) -> None:
    """Each record counts once, and the examples do not depend on the records' order."""
    mine = [r for r in RECORDS if r[1] is writer_schema and r[2] is rules]
    records = [fact for *_, fact, _ in mine]
    together = said(writer_schema, rules, *records)
    assert counts(together) == {name: [says for *_, says in mine].count(name) for name in COUNTS}
    assert said(writer_schema, rules, *records[::-1]) == together


@pytest.mark.parametrize(
    ("label", "writer_schema", "rules", "fact", "says"), RECORDS, ids=[label for label, *_ in RECORDS]
)
def test_each_record_alone(
    label: str, writer_schema: Contract, rules: MaskRules, fact: dict[str, Any], says: str
) -> None:
    evidence = said(writer_schema, rules, fact)
    assert counts(evidence) == dict.fromkeys(COUNTS, 0) | {says: 1}
    assert set(evidence.examples) == {says} & {"big", "little", "undecided", "neither"}


def test_nothing_says_nothing() -> None:
    assert said(TWELVE, QLIK) == Evidence()


def test_examples_are_words_for_people() -> None:
    of_neither = update("02", {1}), update("02", set())
    evidence = said(TWELVE, QLIK, update("0804", {3, 12}), insert("FF0F", EVERY), *of_neither)
    assert evidence.examples == {
        "big": "update with mask 0x0804, the images differ in c3, c12",
        "little": "insert with mask 0xFF0F",
        "neither": "update with mask 0x02, the images differ in no column",
    }
    of_headers = said(WITH_HEADERS, HEADERS, update("0200", {10}), update("0200", None))
    assert of_headers.examples == {"big": "update with mask 0x0200"}


@pytest.mark.parametrize("highest", [9, 60, 61, 64, 65, 100, 1000])
def test_tables_of_any_width(highest: int) -> None:
    """The first and the last column change: bits 2^0 and 2^(highest-1)."""
    mask = (1 | 1 << (highest - 1)).to_bytes((highest + 7) // 8, "big")
    changed = {1, highest}
    evidence = said(
        table(highest),
        QLIK,
        update(mask.hex(), changed),
        update(mask[::-1].hex(), changed),
        update(mask.hex(), {*changed, 5}),
    )
    # With 9 or 65 columns, the mask reads the same from both ends: 01..01.
    expected = (0, 0, 2, 1) if highest % 8 == 1 else (1, 1, 0, 1)
    assert (evidence.big, evidence.little, evidence.either, evidence.neither) == expected


SHAPE = Contract(
    table="dbo.parts",
    columns=(
        Column(name="id", type="int", ordinal=1, key_position=1),
        Column(name="it's", type="nvarchar(50)", ordinal=2),
        Column(name="note", type="nvarchar(max)", ordinal=3),
        Column(name="scan", type="image", ordinal=4),
        Column(name="total", type="int", ordinal=5, computed=True),
        Column(name="${a}", type="float", ordinal=6),
        Column(name="`b`", type="decimal(10,2)", ordinal=7),
        Column(name="c", type="bit", ordinal=8),
        Column(name="d", type="int", ordinal=11),
    ),
)
ROW = {
    "id": 1,
    "it's": "x",
    "note": "long",
    "scan": b"\x01",
    "total": None,
    "${a}": 1.5,
    "`b`": None,
    "c": True,
    "d": 7,
}


def differs(**cells: Any) -> dict[str, Any]:
    names = {"name": "it's", "a": "${a}"}
    return {**ROW, **{names.get(name, name): value for name, value in cells.items()}}


def decoded(*rows: tuple[Any, ...]) -> pa.RecordBatch:
    names = (
        "disposition",
        "operation",
        "mask",
        "before",
        "after",
        "before_unknown_columns",
        "after_unknown_columns",
    )
    records = [dict(zip(names, row, strict=True)) for row in rows]
    return pa.RecordBatch.from_pylist(records, decoded_schema(SHAPE))


def ordinals(flags: np.ndarray, known: np.ndarray) -> list[list[int] | None]:
    return [(np.flatnonzero(row) + 1).tolist() if is_known else None
            for row, is_known in zip(flags, known, strict=True)]  # fmt: skip


def test_facts_of_decoded_records() -> None:
    gap = [("it's", change.UNAVAILABLE)]
    mask_facts = facts(
        decoded(
            ("change", "insert", "7FF", None, ROW, None, None),
            ("change", "update", "0402", ROW, differs(name="y", d=8), None, None),
            # NULL on one side differs; NULL on both sides does not.
            ("change", "update", "20", ROW, differs(a=None), None, gap),
            ("change", "update", "02", None, ROW, None, None),
            ("change", "delete", "0001", ROW, None, gap, None),
            ("change", "update", None, ROW, ROW, None, None),
            ("quarantined", "update", "0001", ROW, ROW, None, None),
            ("paired", "update", "0001", ROW, None, None, None),
        ),
        SHAPE,
        SQL_SERVER,
    )
    assert [mask.hex() for mask in mask_facts.mask.to_pylist()] == ["07ff", "0402", "20", "02", "0001"]
    assert mask_facts.kind.to_pylist() == ["insert", "update", "update", "update", "delete"]
    assert ordinals(mask_facts.known, mask_facts.is_known) == [[1, 2, 3, 4, 6, 8, 11], None, None, None, None]
    assert ordinals(mask_facts.differing, mask_facts.has_images) == [None, [2, 11], [6], None, None]
    assert [row.tolist() for row in map(np.flatnonzero, mask_facts.gaps)] == [[], [], [1], [], [1]]


def test_evidence_of_decoded_records() -> None:
    frame = decoded(
        # Both large values and the computed column are ignored, whether their bits are set or not.
        ("change", "update", "0402", ROW, differs(name="y", d=8, note="z", scan=b"\x02"), None, None),
        ("change", "update", "041E", ROW, differs(name="y", d=8), None, None),
        # So are they in inserts and deletes. There are no columns 9 and 10.
        ("change", "insert", "04A3", None, ROW, None, None),
        ("change", "delete", "04E3", ROW, None, None, None),
        # In little order, 0402 sets 3 and 10; the table has no column 10.
        ("change", "update", "0204", ROW, differs(name="y", d=8), None, None),
        # A gap is not known to differ: `it's` is unavailable in the before image.
        ("change", "update", "0400", differs(name=None), differs(d=8), [("it's", "unavailable")], None),
    )
    tally = counted(facts(frame, SHAPE, SQL_SERVER), SHAPE, SQL_SERVER)
    assert counts(tally) == dict.fromkeys(COUNTS, 0) | {"big": 5, "little": 1}


def test_excluded_columns_say_nothing() -> None:
    fact = update("0804", {3})
    assert said(TWELVE, QLIK, fact).neither == 1
    # Without column 12, the big reading is exact. Little reads 4 and 11.
    assert said(TWELVE, MaskRules("key", excluded=frozenset({"c12"})), fact).big == 1
