"""Contracts: SQL Server's types, allowed changes of a table's shape, names in the lake."""

from __future__ import annotations

import re

import pytest

from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError, ContractError
from changeledger.model.sql_type import SqlType
from changeledger.model.table_names import RESERVED, TableNames, distinct_names, snapshot_table


def contract(*columns: tuple[str, str], key: tuple[str, ...] = ("id",)) -> Contract:
    return Contract(
        table="dbo.items",
        columns=tuple(
            Column(
                name=n,
                type=t,
                ordinal=at,
                nullable=n not in key,
                key_position=key.index(n) + 1 if n in key else 0,
            )
            for at, (n, t) in enumerate(columns, 1)
        ),
    )


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        ("bit", "boolean"), ("tinyint", "smallint"), ("smallint", "smallint"), ("int", "int"),
        ("bigint", "bigint"), ("real", "float"), ("float", "double"), ("float(53)", "double"),
        ("money", "decimal(19,4)"), ("smallmoney", "decimal(10,4)"), ("decimal", "decimal(18,0)"),
        ("decimal(38,10)", "decimal(38,10)"), ("NUMERIC(5)", "decimal(5,0)"),
        (" decimal ( 18 , 4 ) ", "decimal(18,4)"),
        ("date", "date"), ("datetime", "timestamp_ntz"), ("smalldatetime", "timestamp_ntz"),
        ("datetime2(0)", "timestamp_ntz"), ("datetime2(6)", "timestamp_ntz"), ("datetime2(7)", "string"),
        ("datetime2", "string"), ("time(7)", "string"), ("datetimeoffset(3)", "string"),
        ("uniqueidentifier", "string"), ("nvarchar(max)", "string"), ("VARCHAR(8000)", "string"),
        ("char(5)", "string"), ("xml", "string"), ("ntext", "string"), ("sysname", "string"),
        ("varbinary(max)", "binary"), ("binary(8)", "binary"), ("rowversion", "binary"),
        ("timestamp", "binary"), ("image", "binary"),
    ],
)  # fmt: skip
def test_the_lake_type_of_every_type(text: str, spark: str) -> None:
    assert SqlType.parse(text).spark == spark


@pytest.mark.parametrize(
    "text",
    [
        "", "integer", "decimal(", "decimal(18,4", "varchar(few)", "int;", "decimal(a,b)", "decimal(0)",
        "decimal(39)", "decimal(5,10)", "decimal(38,39)", "numeric(max)", f"decimal({'9' * 5000},2)",
        "time(8)", "datetime2(max)", "datetimeoffset(99)", "float(0)", "float(54)",
    ],
)  # fmt: skip
def test_what_is_no_type_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ContractError, match="is not a SQL Server type") as raised:
        SqlType.parse(text)
    assert "decimal(18,4)" in raised.value.remedy


@pytest.mark.parametrize(
    ("text", "digits"),
    [
        ("datetime", 3),
        ("smalldatetime", 0),
        ("datetime2", 7),
        ("datetime2(0)", 0),
        ("time(3)", 3),
        ("time", 7),
    ],
)
def test_fraction_digits(text: str, digits: int) -> None:
    assert SqlType.parse(text).fraction_digits == digits


@pytest.mark.parametrize(
    ("text", "is_lob", "is_max"),
    [
        ("text", True, False), ("ntext", True, False), ("image", True, False), ("varchar(max)", False, True),
        ("nvarchar(max)", False, True), ("varbinary(MAX)", False, True), ("nvarchar(4000)", False, False),
        # Without a length, its values may be large.
        ("nvarchar", False, True), ("xml", False, False),
    ],
)  # fmt: skip
def test_large_types(text: str, is_lob: bool, is_max: bool) -> None:
    assert (SqlType.parse(text).is_lob, SqlType.parse(text).is_max) == (is_lob, is_max)


def test_a_large_object_stays_one_whatever_type_is_stated() -> None:
    """A stated type does not change which values the writer omits from updates."""
    (captured,) = contract(("note", "nvarchar(max)")).columns
    stated = captured.stated_as("nvarchar(200)", nullable=True)
    assert (stated.type, stated.is_large, stated.is_lob) == ("nvarchar(200)", True, True)
    assert Column.model_validate(stated.model_dump(mode="json")) == stated, "each window reads it again"
    assert captured.stated_as("varchar(max)", nullable=True).large_object is False, "its type says it"
    assert stated.model_copy(update={"large_object": False}).stated_as("xml", nullable=True).is_large
    assert stated.stated_as("nvarchar(100)", nullable=True).is_large, "stated once more"
    unknown = captured.model_copy(update={"type": "json"})
    assert unknown.stated_as("nvarchar(4000)", nullable=True).is_large, "nobody knows how large it can be"
    # After the source has narrowed the column, older rows are still read.
    narrow = contract(("note", "nvarchar(200)"))
    known = narrow.model_copy(update={"columns": (stated,)})
    assert known.evolved_to(narrow).columns == (stated,)


def test_an_added_column_is_there_and_nullable() -> None:
    old = contract(("id", "int"), ("name", "nvarchar(50)"))
    added = Column(name="note", type="nvarchar(max)", ordinal=3, nullable=False)
    newer = Contract(table=old.table, columns=(*old.columns, added))
    assert old.evolved_to(newer).columns == (*old.columns, added.model_copy(update={"nullable": True}))


def test_a_column_that_is_gone_stays() -> None:
    old = contract(("id", "int"), ("name", "nvarchar(50)"))
    assert old.evolved_to(contract(("id", "int"))).names == ("id", "name")


def test_a_wider_text_is_no_other_lake_type() -> None:
    newer = contract(("id", "int"), ("name", "nvarchar(100)"))
    assert contract(("id", "int"), ("name", "nvarchar(50)")).evolved_to(newer) == newer


def test_a_changed_type_names_column_old_and_new() -> None:
    with pytest.raises(
        ContractError, match=r"dbo\.items\.qty changed its type from int to nvarchar\(10\)"
    ) as raised:
        contract(("id", "int"), ("qty", "int")).evolved_to(contract(("id", "int"), ("qty", "nvarchar(10)")))
    assert "new feed" in raised.value.remedy


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("datetime2(7)", "datetimeoffset(7)"),
        ("datetimeoffset(3)", "datetime2(7)"),
        ("time(7)", "datetime2"),
        ("datetime2", "time(3)"),
        ("time(3)", "datetimeoffset"),
    ],
)
def test_times_that_become_another_kind_of_time_are_refused(old: str, new: str) -> None:
    """A time that becomes another kind of time would silently change the form of its values.

    These types are texts of different forms in the lake, and SQL Server's own rows have the new form without
    notice.
    """
    with pytest.raises(ContractError, match=r"dbo\.items\.at changed its type from"):
        contract(("id", "int"), ("at", old)).evolved_to(contract(("id", "int"), ("at", new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("time(7)", "time(3)"),
        ("varchar(40)", "datetimeoffset(7)"),
        ("char(8)", "time(0)"),
        ("time(0)", "char(8)"),
    ],
)
def test_text_may_become_a_time_and_a_time_text(old: str, new: str) -> None:
    evolved = contract(("id", "int"), ("at", old)).evolved_to(contract(("id", "int"), ("at", new)))
    assert evolved.columns[1].type == new


def test_a_new_name_that_is_an_old_one_to_spark_is_refused() -> None:
    with pytest.raises(ContractError, match="differ in case only"):
        contract(("id", "int")).evolved_to(contract(("id", "int"), ("\u0130d", "int")))


def test_a_changed_key_is_refused() -> None:
    columns = (("id", "int"), ("line", "int"))
    with pytest.raises(ContractError, match=r"changed its key from \['id'\] to \['id', 'line'\]"):
        contract(*columns).evolved_to(contract(*columns, key=("id", "line")))


@pytest.mark.parametrize(
    ("old", "new"),
    [("char(5)", "char(10)"), ("nchar(5)", "char(6)"), ("time(3)", "time"),
     ("datetimeoffset(0)", "datetimeoffset(7)"), ("varchar(5)", "char(5)"), ("nvarchar(5)", "nchar(5)"),
     ("nvarchar(36)", "uniqueidentifier"), ("varchar(40)", "datetimeoffset(7)"),
     ("varchar(30)", "datetime2(7)"), ("varchar(16)", "time(7)"), ("datetimeoffset(7)", "varchar(40)")],
)  # fmt: skip
def test_a_key_whose_values_get_another_text_is_refused(old: str, new: str) -> None:
    """A key value with a new text would be published as a second row.

    `abc  ` of a `char(5)` is `abc       ` in a `char(10)`: a char is padded to its column's length
    (Microsoft's page "char and varchar"). Values that become GUIDs or times get these types' own text ("CAST
    and CONVERT").
    """
    with pytest.raises(ContractError, match=r"dbo\.items\.id, a key column, changed its type") as raised:
        contract(("id", old)).evolved_to(contract(("id", new)))
    assert "new feed" in raised.value.remedy
    # Outside the key, both texts compare as equal.
    columns = ("id", "int"), ("code", new)
    assert contract(("id", "int"), ("code", old)).evolved_to(contract(*columns)) == contract(*columns)


@pytest.mark.parametrize(
    ("old", "new"),
    [("char(5)", "nchar(5)"), ("varchar(5)", "varchar(9)"), ("nvarchar(max)", "char(5)"),
     ("char(5)", "varchar(5)"), ("datetime2(3)", "datetime2(6)"), ("int", "bigint"),
     ("uniqueidentifier", "nvarchar(36)"), ("nvarchar(max)", "uniqueidentifier"), ("nvarchar", "nchar(5)"),
     ("time(3)", "varchar(16)"), ("datetime2", "datetime2(7)")],
)  # fmt: skip
def test_a_key_whose_values_keep_their_text_may_change_its_type(old: str, new: str) -> None:
    assert contract(("id", old)).evolved_to(contract(("id", new))).names == ("id",)


def test_key_is_in_its_own_order() -> None:
    assert [c.name for c in contract(("line", "int"), ("id", "int"), key=("id", "line")).key] == [
        "id",
        "line",
    ]


def test_a_table_without_key_cannot_be_published() -> None:
    with pytest.raises(ContractError, match=r"dbo\.items has no key") as raised:
        contract(("name", "int"), key=()).checked()
    assert "`key:`" in raised.value.remedy


@pytest.mark.parametrize("name", [*sorted(RESERVED), "_CHANGE_ID", "ID", "\u0130d", "\u0131D"])
def test_reserved_and_doubled_names_are_refused(name: str) -> None:
    with pytest.raises(ContractError, match="occurs twice or has a name that the ledger itself uses"):
        contract(("id", "int"), (name, "int")).checked()


def test_a_column_of_an_unknown_type_is_refused() -> None:
    with pytest.raises(ContractError, match=r"dbo\.items\.c has the type cursor"):
        contract(("id", "int"), ("c", "cursor")).checked()


def test_names_in_the_lake() -> None:
    assert TableNames.of("shop", "dbo.Order Lines]") == (
        "lake.shop.dbo_order_lines_",
        "lake.shop.dbo_order_lines__history",
        "lake.shop.dbo_order_lines__changes",
    )


def test_the_longest_names_are_names_of_folders() -> None:
    """Names stay within the limits of folders and catalogs.

    A `sysname` has 128 characters (Microsoft's page "Database identifiers"). The name of a folder has 255
    bytes, and so has that of a table in a catalog on SQL (pyiceberg's `iceberg_tables`).
    """
    schema, table = "s" * 128, "t" * 127
    names = distinct_names("shop", [f"{schema}.{table}{letter}" for letter in "ab"])
    short = [name.rpartition(".")[2] for group in names.values() for name in (group.raw, *group)]
    assert len({*short}) == len(short) == 8
    assert max(map(len, short)) <= 255
    assert len(snapshot_table("d" * 128, f"{schema}.{table}").rpartition(".")[2]) <= 255
    assert TableNames.of("shop", f"dbo.{table}").current == f"lake.shop.dbo_{table}"


def test_names_of_other_letters_stay_apart() -> None:
    """An identifier may contain letters of any script (Microsoft's page "Database identifiers")."""
    tables = ["dbo.注文", "dbo.顧客", "dbo.größe", "dbo.grüße", "dbo.gr_e", "dbo.😀", "dbo.😁"]
    currents = [names.current for names in distinct_names("shop", tables).values()]
    assert len({*currents}) == len(tables)
    assert all(re.fullmatch(r"lake\.shop\.dbo(_gr_e)?(_[0-9a-f]{16})?", name) for name in currents)
    assert TableNames.of("shop", "dbo.GRÖSSE") == TableNames.of("shop", "dbo.grösse")


@pytest.mark.parametrize("tables", [["dbo.a b", "dbo.a-b"], ["dbo.a", "dbo.a_history"]])
def test_two_tables_of_one_lake_name_are_refused(tables: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"two source tables would both be lake\.shop\.dbo_a"):
        distinct_names("shop", tables)


def test_a_table_that_would_be_the_raw_table_of_another() -> None:
    """`raw_dbo_orders` holds the raw rows of `dbo.orders` if the feed reads change tables."""
    with pytest.raises(ConfigError, match="raw_dbo_orders"):
        distinct_names("shop", ["dbo.orders", "raw.dbo_orders"])
    assert len(distinct_names("shop", ["dbo.orders", "raw.others"])) == 2


def test_what_verify_reads_of_tables_that_feeds_keep_apart_is_apart() -> None:
    sources = [("shop", "dbo.a b"), ("shop", "dbo.a_b"), ("shop", "dbo_a.b"), ("shop__dbo", "a.b")]
    assert len({snapshot_table(*source) for source in sources}) == len(sources)
    assert snapshot_table("shop", "dbo.Orders") == "lake.changeledger.snapshot_shop__dbo_orders"


@pytest.mark.parametrize(
    ("first", "second", "wider"),
    [
        ("int", "bigint", "bigint"),
        ("bigint", "int", "bigint"),
        ("tinyint", "smallint", "smallint"),
        ("smallint", "tinyint", "smallint"),
        ("decimal(10,2)", "decimal(18,2)", "decimal(18,2)"),
        # The values differ between the types, or have another meaning.
        ("decimal(10,2)", "decimal(10,3)", "decimal(10,2)"),
        ("real", "float", "real"),
        ("nvarchar(50)", "nvarchar(max)", "nvarchar(50)"),
    ],
)
def test_the_wider_types_of_two_contracts_read_both(first: str, second: str, wider: str) -> None:
    both = contract(("id", "int"), ("x", first)), contract(("id", "int"), ("x", second))
    assert both[0].in_wider_types(both[1]).columns[1].type == wider


def test_contracts_with_other_columns_have_no_wider_types() -> None:
    narrow = contract(("id", "int"), ("x", "int"))
    for other in (contract(("id", "bigint")), contract(("id", "int"), ("y", "bigint"))):
        assert narrow.in_wider_types(other) == narrow
