"""Row images from members of any order, their gaps, and the numbers in them."""

from __future__ import annotations

import re
from base64 import b64encode
from decimal import Decimal, InvalidOperation, localcontext
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from changeledger import images
from changeledger.config import KafkaSource
from changeledger.contract import Column, Contract, SqlType
from changeledger.dialects.debezium_values import wire

HELD = ("<gone>", "PGdvbmU+")
WIRE = wire(KafkaSource(topics=("t",)))
CONTRACT = Contract(
    table="dbo.t",
    columns=(
        Column(name="id", type="int", ordinal=1, nullable=False, key_position=2),
        Column(name="a.b", type="nvarchar(50)", ordinal=2, key_position=1),
        Column(name="select", type="nvarchar(50)", ordinal=3),
        Column(name="doc", type="varbinary(max)", ordinal=4),
    ),
)
FEW = settings(max_examples=2, deadline=None, phases=(Phase.generate,))


@st.composite
def members(draw: st.DrawFn) -> dict[str, str | None]:
    """Some of the columns, in any order, each with a value, NULL or a placeholder."""
    values: dict[str, Any] = {
        "id": st.integers(-(2**31), 2**31 - 1).map(str),
        "a.b": st.text("abcäß漢 \0", max_size=4),
        "select": st.text("abc", max_size=4),
        "doc": st.binary(max_size=4).map(lambda raw: b64encode(raw).decode()),
    }
    names = draw(
        st.permutations(CONTRACT.names).flatmap(lambda n: st.integers(0, 4).map(lambda k: n[: 4 - k]))
    )
    return {n: draw(st.one_of(st.none(), st.sampled_from(HELD), values[n])) for n in names}


def reference(told: dict[str, str | None]) -> tuple[dict[str, str | None], dict[str, str]]:
    """The texts by column, and the gaps."""
    gaps = {n: "not captured" for n in CONTRACT.names if n not in told}
    gaps |= {n: "unavailable" for n, value in told.items() if value in HELD}
    return {n: told.get(n) for n in CONTRACT.names}, gaps


@FEW
@given(drawn=st.lists(members(), min_size=60, max_size=60))
def test_members_are_bound_by_name(spark: SparkSession, drawn: list[dict[str, str | None]]) -> None:
    rows = spark.createDataFrame([(at, m) for at, m in enumerate(drawn)], "at int, m map<string,string>")
    staged = rows.withColumn("after_texts", images.texts(F.col("m"), CONTRACT))
    found = (
        images.read_cells(staged, ["after"], CONTRACT, WIRE, HELD)
        .select(
            "at",
            "after_texts",
            images.gaps("m", "after", CONTRACT, HELD).alias("gaps"),
            images.image("after", CONTRACT).alias("image"),
            images.misfits("after", CONTRACT, HELD).alias("misfits"),
        )
        .collect()
    )
    assert len(found) == len(drawn)
    for row in found:
        texts, gaps = reference(drawn[row["at"]])
        assert row["after_texts"] == list(texts.values())
        assert (row["gaps"] or {}) == gaps
        # No cell that is a gap has a value, and only those (and NULL ones) have none.
        for name, value in row["image"].asDict().items():
            assert (value is None) == (name in gaps or texts[name] is None)
        assert row["misfits"] is None


def test_a_missing_image_is_null(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(None,)], "m map<string,string>")
    assert rows.select(images.texts(F.col("m"), CONTRACT)).collect()[0][0] is None


def test_members_without_a_column_are_named(spark: SparkSession) -> None:
    known = dict.fromkeys(CONTRACT.names, "1")
    told = [known, dict(reversed(known.items())), {**known, "x": "1", "y": None}, {"ID": "1"}]
    rows = spark.createDataFrame([(at, m) for at, m in enumerate(told)], "at int, m map<string,string>")
    found = rows.select("at", images.unknown_members(F.col("m"), CONTRACT).alias("x")).orderBy("at")
    assert [row["x"] for row in found.collect()] == [None, None, ["x", "y"], ["ID"]]


def shortest(number: int) -> bytes:
    """Two's complement as Java writes it."""
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


TYPES = [(1, 0), (5, 2), (16, 4), (18, 3), (18, 18), (19, 4), (38, 0), (38, 10), (38, 19), (38, 38)]


@FEW
@given(
    payloads=st.lists(
        st.one_of(
            # Up to 8 bytes also with bytes that only repeat the sign; beyond, as short as can be.
            st.binary(min_size=1, max_size=8),
            st.integers(-(2**135), 2**135 - 1).map(shortest),
            st.integers(-(10**38), 10**38).map(shortest),
            st.integers(1, 127).flatmap(
                lambda power: st.sampled_from([2**power, 2**power - 1, -(2**power), 1 - 2**power])
            ).map(shortest),
        ),
        min_size=100,
        max_size=100,
    )
)  # fmt: skip
def test_decimals_are_big_endian_twos_complement(spark: SparkSession, payloads: list[bytes]) -> None:
    rows = spark.createDataFrame(
        [(b64encode(p).decode(), p) for p in payloads], "text string, payload binary"
    )
    columns = [
        Column(name=f"d{p}_{s}", type=f"decimal({p},{s})", ordinal=at) for at, (p, s) in enumerate(TYPES, 1)
    ]
    forms = rows.selectExpr("*", *(f"{WIRE.form('text', c)} AS form_{c.name}" for c in columns))
    values = [f"{WIRE.value(f'form_{c.name}', c)} AS {c.name}" for c in columns]
    for row in forms.selectExpr("payload", *values).collect():
        unscaled = int.from_bytes(row["payload"], "big", signed=True)
        for (precision, scale), column in zip(TYPES, columns, strict=True):
            fits = abs(unscaled) < 10**precision
            # Not by a context's arithmetic, which rounds to 28 digits.
            digits = (int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale)
            assert row[column.name] == (Decimal(digits) if fits else None), (unscaled, precision, scale)


IMAGE = "struct<id:int,`a.b`:string,`select`:string,doc:binary>"
GAPS = "map<string,string>"
SHAPES = f"before {IMAGE}, after {IMAGE}, before_gaps {GAPS}, after_gaps {GAPS}"


@pytest.mark.parametrize(("precision", "scale"), [(18, 3), (38, 10), (38, 38), (5, 0)])
def test_a_decimal_is_exact_or_none(spark: SparkSession, precision: int, scale: int) -> None:
    digits = ("0", "1", "-1.5", "12.50", "100", "0.001", "1.0005", ".5", "7.", "120.00", "49e0", "9" * 38)
    exponents = ("", "E0", "E3", "e-3", "E-10", "E+37", "E-38", "E-400", "E-002", "E+005")
    told = [d + e for d in digits for e in exponents if not ("e" in d and e)]
    told += ["1.00000000000000000049E0", "1E-1000000000", "1E1000000000", "0E-1000000000", "1E-30000000"]
    told += ["1" * 2000, "0." + "1" * 2000, "1." + "0" * 300, "x", "1E", "E1", ""]
    rows = spark.createDataFrame(list(enumerate(told)), "at int, told string")
    value = images.decimal("told", SqlType("decimal", precision, scale))
    found = {row["told"]: row["value"] for row in rows.select("told", F.expr(value).alias("value")).collect()}
    assert found == {text: exact(text, precision, scale) for text in told}


def exact(text: str, precision: int, scale: int) -> Decimal | None:
    if len(text) > 1000 or re.search("[eE][+-]?[1-9][0-9]{2}", text):
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    with localcontext(prec=500):
        scaled = number.scaleb(scale)
        fits = scaled == scaled.to_integral_value() and abs(scaled) < 10**precision
        return number.quantize(Decimal(1).scaleb(-scale)) if fits else None


def test_what_differs_where_both_sides_are_known(spark: SparkSession) -> None:
    gap = {"select": "unavailable"}
    rows = [
        ((1, "x", "y", b"z"), (1, "x", "y", b"z"), None, None),
        ((1, "x", "y", None), (2, None, "Y", b"z"), None, None),
        ((1, "x", None, None), (1, "X", "y", None), gap, None),
        ((1, None, "y", None), (1, None, None, None), None, gap),
        ((1, "x", None, None), (1, "x", None, b""), gap, gap),
    ]
    numbered = [(at, *row) for at, row in enumerate(rows)]
    frame = spark.createDataFrame(numbered, f"at int, {SHAPES}")
    before, after = (images.fields(side, CONTRACT) for side in ("before", "after"))
    different = images.differing(before, after, CONTRACT.names)
    known = images.without_gaps(different, F.col("before_gaps"), F.col("after_gaps"))
    found = frame.select("at", known.alias("known")).orderBy("at").collect()
    assert [row["known"] for row in found] == [[], ["id", "a.b", "select", "doc"], ["a.b"], [], ["doc"]]


def test_the_key_is_in_its_own_order_and_whole(spark: SparkSession) -> None:
    frame = spark.createDataFrame(
        [(1, "x"), (None, "x"), (1, None), (None, None)], "id int, text string"
    ).select(*(F.col(n) for n in ("id", "text")), F.lit(None).alias("none"))
    key = images.key_of(["id", "text", "none", "none"], CONTRACT)
    found = frame.select(key.alias("key")).select("key", images.key_is_null("key", CONTRACT).alias("gone"))
    assert found.schema["key"].dataType.fieldNames() == ["a.b", "id"]  # type: ignore[attr-defined]
    assert [row["gone"] for row in found.collect()] == [False, True, True, True]


def test_the_id_of_a_change_tells_what_it_says_and_lasts(spark: SparkSession) -> None:
    rows = [
        ((1, "x", None, None), None), ((1, None, "x", None), None), (None, (1, "x", None, None)),
        ((1, "x", None, b""), None), ((1, "x", "", None), None), ((1, "x", None, None), (1, "x", None, None)),
    ]  # fmt: skip
    full = [(before, after, None, None) for before, after in rows]
    frame = spark.createDataFrame(full, SHAPES)
    narrow = images.fingerprint([F.lit("dbo.t")], ["before", "after"], CONTRACT)
    ids = [row[0] for row in frame.select(narrow).collect()]
    assert len(set(ids)) == len(rows)
    assert all(len(i) == 32 for i in ids)
    # A column that was added later, and is empty in this change, does not change its id.
    wider = Contract(table="dbo.t", columns=(*CONTRACT.columns, Column(name="new", type="int", ordinal=5)))
    extended = frame.select(
        *(F.col(s).withField("new", F.lit(None).cast("int")).alias(s) for s in ("before", "after"))
    )
    later = images.fingerprint([F.lit("dbo.t")], ["before", "after"], wider)
    assert [row[0] for row in extended.select(later).collect()] == ids
