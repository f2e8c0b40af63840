"""Evidence on the byte order of masks. Expected counts are worked out by hand from the rules.

Bits of the tables below: ordinal 1 is the lowest bit of the last byte (big) or of the first one (little).
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from changeledger import calibration, change
from changeledger.calibration import MaskRules
from changeledger.contract import Column, Contract
from changeledger.mask_order import COUNTS, Evidence

FACTS = "mask binary, kind string, differing array<bigint>, known array<bigint>, gaps array<bigint>, n int"


def table(highest: int, first: int = 1) -> Contract:
    """Columns c<ordinal> with ordinals first..highest; the first is the key."""
    columns = tuple(
        Column(name=f"c{o}", type="int", ordinal=o, key_position=int(o == first))
        for o in range(first, highest + 1)
    )
    return Contract(table="dbo.t", columns=columns)


TWELVE = table(12)
QLIK = MaskRules(delete_sets="key")
SQL_SERVER = MaskRules(delete_sets="all")
# Seven header columns are ordinals 1 to 7, five columns of the source 8 to 12.
WITH_HEADERS = table(12, first=8)
HEADERS = MaskRules(delete_sets="key", header_ordinals=tuple(range(1, 8)))
EVERY = frozenset(range(1, 13))


def words(ordinals: frozenset[int] | set[int] | None, count: int) -> list[int] | None:
    if ordinals is None:
        return None
    return [sum(1 << (o - 1) % 60 for o in ordinals if (o - 1) // 60 == word) for word in range(count)]


def said(spark: SparkSession, shape: Contract, rules: MaskRules, *facts: dict[str, Any]) -> Evidence:
    count = (max(c.ordinal for c in shape.columns) + 59) // 60
    rows = [
        (
            None if f["mask"] is None else bytes.fromhex(f["mask"]),
            f["kind"],
            *(words(f.get(name), count) for name in ("differing", "known", "gaps")),
            at,
        )
        for at, f in enumerate(facts)
    ]
    found = calibration.evidence(spark.createDataFrame(rows, FACTS), shape, rules).collect()
    assert len(found) == 1
    assert found[0]["table"] == shape.table
    return calibration.counted(found[0], shape)


def insert(mask: str | None, known: set[int] | frozenset[int] | None, **more: Any) -> dict[str, Any]:
    return {"mask": mask, "kind": change.INSERT, "known": known, **more}


def delete(mask: str) -> dict[str, Any]:
    return {"mask": mask, "kind": change.DELETE}


def update(mask: str, differing: set[int] | None, **more: Any) -> dict[str, Any]:
    return {"mask": mask, "kind": change.UPDATE, "differing": differing, **more}


RECORDS: list[tuple[str, Contract, MaskRules, dict[str, Any], str]] = [
    # 0FFF: big 1..12; little 1..4 and 9..16.
    ("insert in big order", TWELVE, QLIK, insert("0FFF", EVERY), "big"),
    ("insert in little order", TWELVE, QLIK, insert("FF0F", EVERY), "little"),
    # Only 1..4 and 9 are known: big has them, and so has little.
    ("insert of few columns", TWELVE, QLIK, insert("0FFF", {1, 2, 3, 4, 9}), "undecided"),
    ("insert that lacks a column", TWELVE, QLIK, insert("0FFE", EVERY), "neither"),
    ("insert without its bits", TWELVE, QLIK, insert("", EVERY), "neither"),
    # A set bit of a column that is NULL is legal: NULL was inserted.
    ("insert of a NULL", TWELVE, QLIK, insert("0FFF", EVERY - {3}), "big"),
    # Bits beyond the table, as some sources set them, are nothing against an insert.
    ("insert with all bits of its bytes", TWELVE, SQL_SERVER, insert("FFFF", EVERY), "either"),
    ("insert that nothing is known of", TWELVE, QLIK, insert("FFFF", None), "untested"),
    # 0001: big 1; little 9.
    ("delete sets the key", TWELVE, QLIK, delete("0001"), "big"),
    ("delete sets the key, little", TWELVE, QLIK, delete("0100"), "little"),
    ("delete sets the key, trimmed", TWELVE, QLIK, delete("01"), "either"),
    ("delete sets more than the key", TWELVE, QLIK, delete("03"), "neither"),
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
    # The highest ordinal of little is 128: far from the table's one word.
    ("update far beyond the table", TWELVE, QLIK, update("00" * 15 + "80", None), "big"),
    ("update with an empty mask", TWELVE, QLIK, update("00", {1}), "untested"),
    # Nothing is known of column 12, so that 3 alone counts.
    ("update with a gap", TWELVE, QLIK, update("0804", {3}, gaps={12}), "big"),
    # Headers. 0F80: big 8..12; little 1..4 (headers) and 16.
    ("headers, insert in big order", WITH_HEADERS, HEADERS, insert("0F80", {8, 9, 10, 11, 12}), "big"),
    # 800F: little 8 and 9..12.
    ("headers, insert in little order", WITH_HEADERS, HEADERS, insert("800F", {8, 9, 10, 11, 12}), "little"),
    ("headers, delete", WITH_HEADERS, HEADERS, delete("0080"), "big"),
    ("headers, delete trimmed", WITH_HEADERS, HEADERS, delete("80"), "either"),
    # 0200: big 10; little 2, a header.
    ("headers, update without an image", WITH_HEADERS, HEADERS, update("0200", None), "big"),
    # The page's slip: mask 11000 on a table with headers has bits 3 and 4 set. They are header columns.
    ("headers, the slip of the page", WITH_HEADERS, HEADERS, update("18", None), "neither"),
    # Masks that count the columns of the source alone, where the headers should be counted too.
    ("headers not counted by the source", WITH_HEADERS, HEADERS, insert("1F", {8, 9, 10, 11, 12}), "neither"),
    ("another kind of record", TWELVE, QLIK, {"mask": "0804", "kind": change.SNAPSHOT}, "undecided"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "rules"), [(TWELVE, QLIK), (TWELVE, SQL_SERVER), (WITH_HEADERS, HEADERS)])
def test_what_a_record_says(spark: SparkSession, shape: Contract, rules: MaskRules) -> None:
    """All records of a table together: each is counted once."""
    mine = [r for r in RECORDS if r[1] is shape and r[2] is rules]
    expected = {name: [label for label, *_, says in mine if says == name] for name in COUNTS}
    found = said(spark, shape, rules, *(fact for *_, fact, _ in mine))
    assert {name: getattr(found, name) for name in COUNTS} == {n: len(v) for n, v in expected.items()}


@pytest.mark.parametrize(
    ("label", "shape", "rules", "fact", "says"), RECORDS, ids=[label for label, *_ in RECORDS]
)
def test_each_record_alone(
    spark: SparkSession, label: str, shape: Contract, rules: MaskRules, fact: dict[str, Any], says: str
) -> None:
    found = said(spark, shape, rules, fact)
    assert {name: getattr(found, name) for name in COUNTS} == dict.fromkeys(COUNTS, 0) | {says: 1}
    assert set(found.examples) == {says} & {"big", "little", "undecided", "neither"}


def test_records_without_a_mask_are_not_counted(spark: SparkSession) -> None:
    assert said(spark, TWELVE, QLIK, insert(None, EVERY)) == Evidence()
    assert said(spark, TWELVE, QLIK) == Evidence()


def test_examples_are_words_for_people(spark: SparkSession) -> None:
    found = said(spark, TWELVE, QLIK, update("0804", {3, 12}), insert("FF0F", EVERY), update("02", set()))
    assert found.examples == {
        "big": "update with mask 0x0804, the images differ in c3, c12",
        "little": "insert with mask 0xFF0F",
        "neither": "update with mask 0x02, the images differ in no column",
    }


@pytest.mark.parametrize("highest", [9, 60, 61, 64, 65, 100, 1000])
def test_tables_of_any_width(spark: SparkSession, highest: int) -> None:
    """The bits of the first and the last column change: 2^0 and 2^(highest-1)."""
    mask = (1 | 1 << (highest - 1)).to_bytes((highest + 7) // 8, "big")
    changed = {1, highest}
    found = said(
        spark,
        table(highest),
        QLIK,
        update(mask.hex(), changed),
        update(mask[::-1].hex(), changed),
        update(mask.hex(), {*changed, 5}),
    )
    # Of 9 and 65 columns, the mask is the same from both ends: 01..01.
    same = highest % 8 == 1
    assert (found.big, found.little, found.either, found.neither) == (
        (0, 0, 2, 1) if same else (1, 1, 0, 1)
    )  # fmt: skip


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
IMAGE = (
    "struct<id:int,`it's`:string,note:string,scan:binary,total:int,`${a}`:double,```b```:decimal(10,2),"
    "c:boolean,d:int>"
)
DECODED = (
    f"disposition string, operation string, mask string, before {IMAGE}, after {IMAGE}, "
    "before_gaps map<string,string>, after_gaps map<string,string>"
)
ROW: tuple[Any, ...] = (1, "x", "long", b"\x01", None, 1.5, None, True, 7)


def differs(**cells: Any) -> tuple[Any, ...]:
    places = {"id": 0, "name": 1, "note": 2, "scan": 3, "a": 5, "b": 6, "c": 7, "d": 8}
    new = list(ROW)
    for name, value in cells.items():
        new[places[name]] = value
    return tuple(new)


def decoded(spark: SparkSession, *rows: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(rows), DECODED)


def test_facts_of_decoded_records(spark: SparkSession) -> None:
    gap = {"it's": change.UNAVAILABLE}
    frame = decoded(
        spark,
        ("change", "insert", "7FF", None, ROW, None, None),
        ("change", "update", "0x0402", ROW, differs(name="y", d=8), None, None),
        # NULL on one side differs, on both it does not.
        ("change", "update", "20", ROW, differs(a=None), None, gap),
        ("change", "update", "02", None, ROW, None, None),
        ("change", "delete", "0001", ROW, None, gap, None),
        ("change", "update", None, ROW, ROW, None, None),
        ("quarantined", "update", "0001", ROW, ROW, None, None),
        ("paired", "update", "0001", ROW, None, None, None),
    )
    found = [tuple(r) for r in calibration.facts(frame, SHAPE).collect()]
    # Ordinals 1, 2, 3, 4, 6, 8, 11 are known: 0b100_1010_1111.
    known = 0b100_1010_1111
    assert [(bytes(mask).hex(), *rest) for mask, *rest in found] == [
        ("07ff", "insert", None, [known], None),
        ("0402", "update", [0b100_0000_0010], None, None),
        ("20", "update", [0b10_0000], None, [0b10]),
        ("02", "update", None, None, None),
        ("0001", "delete", None, None, [0b10]),
    ]


def test_evidence_of_decoded_records(spark: SparkSession) -> None:
    frame = decoded(
        spark,
        # Both large values and the computed column are left out, whether their bits are set or not.
        ("change", "update", "0402", ROW, differs(name="y", d=8, note="z", scan=b"\x02"), None, None),
        ("change", "update", "041E", ROW, differs(name="y", d=8), None, None),
        # 0402 in little order: 3 and 10, which is no column of the table.
        ("change", "update", "0204", ROW, differs(name="y", d=8), None, None),
        # A gap is not known to differ: `it's` is unavailable in the before image.
        ("change", "update", "0400", differs(name=None), differs(d=8), {"it's": "unavailable"}, None),
    )
    rules = MaskRules(delete_sets="all")
    row = calibration.evidence(calibration.facts(frame, SHAPE), SHAPE, rules).collect()[0]
    found = calibration.counted(row, SHAPE)
    assert {name: getattr(found, name) for name in COUNTS} == dict.fromkeys(COUNTS, 0) | {
        "big": 3, "little": 1,
    }  # fmt: skip


def test_excluded_columns_say_nothing(spark: SparkSession) -> None:
    fact = update("0804", {3})
    assert said(spark, TWELVE, QLIK, fact).neither == 1
    # Without column 12 the big reading is exact; little reads 4 and 11.
    assert said(spark, TWELVE, MaskRules("key", excluded=frozenset({"c12"})), fact).big == 1
