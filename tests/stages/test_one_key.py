"""The conditions that find one key's rows. `tests/integration/test_erase.py` runs them in Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from changeledger.kernels import display
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError
from changeledger.stages.maintenance.one_key import OneKey

ORDERS = Contract(
    table="sales.orders",
    columns=(
        Column(name="Region", type="nvarchar(10)", ordinal=1, key_position=1),
        Column(name="order_no", type="int", ordinal=2, key_position=2),
        Column(name="amount", type="int", ordinal=3),
    ),
)
NUMBERS = Contract(table="t", columns=(Column(name="n", type="binary(2)", ordinal=1, key_position=1),))


def test_each_column_by_its_type_and_no_quote_ends_a_value() -> None:
    key = OneKey.of(ORDERS, {"REGION": "o'ne", "order_no": "7"})
    assert key.columns("key.") == (
        r"try_cast(key.`Region` AS string) = CAST('o\'ne' AS string) AND "
        "try_cast(key.`order_no` AS int) = CAST('7' AS int)"
    )
    assert r"try_cast(from_json(key, 'map<string,string>')['Region'] AS string)" in key.in_json()
    assert key.in_ledger().count(" OR ") == 3


def test_bytes_are_named_in_hex() -> None:
    key = OneKey.of(NUMBERS, {"n": "0x0A0B"})
    assert key.columns() == "try_cast(`n` AS binary) = unhex('0A0B')"
    assert key.in_json() == (
        "coalesce(try_to_binary(from_json(key, 'map<string,string>')['n'], 'base64') = unhex('0A0B'), false)"
    )


def test_bytes_in_json_as_findings_have_them(spark: SparkSession) -> None:
    keys = ['{"n":"Cgs="}', '{"n":"CgsK"}', '{"n":"no base64"}', '{"n":null}', "{}"]
    rows = spark.createDataFrame([(key,) for key in keys], "key string")
    found = rows.where(OneKey.of(NUMBERS, {"n": "0x0A0B"}).in_json()).collect()
    assert [row["key"] for row in found] == keys[:1]
    (written,) = display.keys_as_json({"n": pa.array([b"\n\x0b"])})
    assert written == keys[0]


@pytest.mark.parametrize(
    ("kind", "said", "text"),
    [
        (
            "uniqueidentifier",
            "260384ec-374e-b282-d611-43e6884a462a",
            "260384EC-374E-B282-D611-43E6884A462A",
        ),
        ("char(5)", "ab", "ab   "),
        ("datetimeoffset(7)", "2018-07-13 12:23:45.456 +11:00", "2018-07-13T12:23:45.4560000+11:00"),
        ("datetime", "2024-02-29T01:02:03.500", "2024-02-29 01:02:03.5"),
        ("decimal(10,2)", "77", "77.00"),
        ("varbinary(8)", "0x0a0B", "0x0A0B"),
    ],
)
def test_a_key_is_said_in_any_form_of_its_type(kind: str, said: str, text: str) -> None:
    """docs/types.md has the lake's forms."""
    contract = Contract(table="t", columns=(Column(name="id", type=kind, ordinal=1, key_position=1),))
    assert OneKey.of(contract, {"id": said}).values == {"id": text}
    if "char" not in kind:
        with pytest.raises(ConfigError, match=r"'zz' is not a value of t\.id"):
            OneKey.of(contract, {"id": "zz"})


@pytest.mark.parametrize("reported", [{}, {"Region": "a"}, {"Region": "a", "order_no": "1", "amount": "2"}])
def test_a_key_is_named_whole(reported: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"the key of sales\.orders is Region, order_no"):
        OneKey.of(ORDERS, reported)
