"""Expectations in a feed's YAML, which are checked when DAG files are parsed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from changeledger.config.expectations import FILE, ExpectationConfig, known
from changeledger.config.files import load_feed, readable_feeds
from changeledger.config.settings import PROJECT
from changeledger.model.errors import ConfigError

BETWEEN = "expect_column_values_to_be_between"
IN_SET = "expect_column_values_to_be_in_set"
UNIQUE = "expect_column_values_to_be_unique"
FEED = """
feed: shop
dialect: debezium
database: shop
connection: shop
source: {topics: ["shop.*"]}
tables:
  - table: dbo.orders
    expectations:
      - expect_column_values_to_be_between: {column: amount, min_value: 0}
        severity: warning
      - {name: paid, sql: SELECT * FROM current WHERE paid < 0}
"""
ORDERS_FILE = """
table: dbo.orders
expectations:
  - expect_table_row_count_to_be_between: {min_value: 1}
    scope: all
"""
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"expect_column_values_to_be_betwen": {"column": "a"}}, f"did you mean `{BETWEEN}`?"),
    ({"expect_nothing_of_the_kind": {}}, "unknown expectation"),
    ({BETWEEN: {"column": "a", "min_valu": 0}}, "has no argument 'min_valu', did you mean `min_value`?"),
    ({BETWEEN: {"min_value": 0}}, f"{BETWEEN} needs column"),
    ({BETWEEN: {"column": "a"}, "severty": "error"}, "did you mean `severity`?"),
    ({BETWEEN: {"column": "a"}, "severity": "fatal"}, "'critical', 'error' or 'warning'"),
    ({BETWEEN: {"column": "a"}, "row_condition": "a"}, "unknown setting"),
    ({BETWEEN: {"column": "a", "row_condition": "reflect()"}}, "has no argument 'row_condition'"),
    ({BETWEEN: {"column": "a"}, "expect_column_to_exist": {"column": "a"}}, "at most 1"),
    (
        {BETWEEN: {"column": "unit.price", "min_value": 0}},
        "cannot name the column 'unit.price' in Spark: use `sql`",
    ),
    ({"expect_compound_columns_to_be_unique": {"column_list": ["a", "b`c"]}}, "the column 'b`c' in Spark"),
    (
        {BETWEEN: {"column": "a", "max_value": 2**53 + 1}},
        "max_value is 9007199254740993, which it cannot compare",
    ),
    (
        {"expect_column_values_to_not_be_in_set": {"column": "a", "value_set": [b"a"]}},
        "value_set has bytes, which it does not compare with a column's: use `sql`",
    ),
    # Spark finds a value neither in a set that has NULL nor out of it.
    ({IN_SET: {"column": "a", "value_set": ["open", None]}}, "value_set has null, and with it Spark takes"),
    # `{open, paid}` in YAML.
    ({IN_SET: {"column": "a", "value_set": {"open": None, "paid": None}}}, "value_set has members"),
    ({IN_SET: {"column": "a", "value_set": None}}, f"{IN_SET} needs value_set"),
    (
        {BETWEEN: {"column": "a", "max_value": 2**53}},
        "max_value is 9007199254740992, which it cannot compare",
    ),
    (
        {BETWEEN: {"column": "a", "max_value": "9007199254740993"}},
        "max_value is 9007199254740993, which it cannot compare",
    ),
    ({BETWEEN: {"column": "a", "min_value": {"$PARAMETER": "least"}}}, "min_value has members"),
    ({BETWEEN: {"column": 2024, "min_value": 0}}, "text, not 2024: write it in quotes"),
    ({"expect_column_to_exist": {"column": None}}, "expect_column_to_exist needs column"),
    ({"expect_column_to_exist": {"column": "a"}, "expect": "b"}, "Input should be a valid dictionary"),
    # These hold for any table.
    (
        {"expect_column_max_to_be_between": {"column": "a", "strict_max": True}},
        "needs min_value or max_value",
    ),
    ({"expect_table_row_count_to_be_between": {"min_value": None}}, "needs min_value or max_value"),
    ({"expect_column_values_to_match_regex": {"column": "a"}}, "it needs regex"),
    ({"expect_column_values_to_be_in_type_list": {"column": "a"}}, "it needs type_list"),
    ({"expect_table_columns_to_match_set": {}}, "it needs column_set"),
    ({}, "either one type of Great Expectations, or `sql`"),
    ({BETWEEN: {"column": "a"}, "sql": "SELECT 1"}, "either one type of Great Expectations, or `sql`"),
    ({"sql": "SELECT * FROM current"}, "`sql` needs a `name`"),
    ({"sql": "SELECT * FROM orders", "name": "a"}, "orders is not a table of the lake"),
    ({"sql": "DELETE FROM current", "name": "a"}, "cannot be checked"),
    ({"sql": "SELECT 1) INSERT INTO lake.a.b (SELECT 1", "name": "a"}, "cannot be checked"),
    ({"sql": "SELECT reflect('a', 'b')", "name": "a"}, "reflect is not among the functions"),
    ({"sql": "SELECT 1", "name": "Not a name"}, "String should match pattern"),
]


@pytest.mark.parametrize(("config", "said"), WRONG)
def test_what_is_wrong_is_said(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match="validation error") as raised:
        ExpectationConfig.model_validate(config)
    assert said in str(raised.value)


def test_an_expectation_is_called_by_its_type_and_columns() -> None:
    assert ExpectationConfig.model_validate({UNIQUE: {"column": "unit price"}}).rule == f"{UNIQUE}_unit_price"
    pair = {"expect_column_pair_values_to_be_equal": {"column_A": "a", "column_B": "b"}}
    assert ExpectationConfig.model_validate(pair).columns == ["a", "b"]
    assert ExpectationConfig.model_validate({UNIQUE: {"column": "a"}, "name": "x"}).rule == "x"


@pytest.mark.parametrize("end", [";", " ;; -- each row is wrong", "\n; /* each row is wrong */"])
def test_sql_may_end_with_a_semicolon(end: str) -> None:
    ExpectationConfig.model_validate({"sql": f"SELECT * FROM current{end}", "name": "a"})


def test_bounds_and_sets_that_are_compared_as_they_are() -> None:
    for arguments in ({"min_value": 2**53 - 1}, {"max_value": "2024-01-01"}, {"min_value": 0.1}):
        ExpectationConfig.model_validate({BETWEEN: {"column": "a", **arguments}})
    ExpectationConfig.model_validate({IN_SET: {"column": "a", "value_set": {"open", "paid"}}})


def written(folder: Path, orders_file: str = ORDERS_FILE) -> Path:
    files = {"feeds/shop.yaml": FEED, "expectations/shop/orders.yaml": orders_file}
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder / "feeds" / "shop.yaml"


def test_files_of_expectations_stand_beside_those_of_feeds(tmp_path: Path) -> None:
    (table,) = load_feed(written(tmp_path)).tables
    assert [
        (expectation.rule, expectation.severity, expectation.scope) for expectation in table.expectations
    ] == [
        (f"{BETWEEN}_amount", "warning", "touched"),
        ("paid", "error", "touched"),
        ("expect_table_row_count_to_be_between", "error", "all"),
    ]


@pytest.mark.parametrize(
    ("orders_file", "said"),
    [
        (ORDERS_FILE.replace("orders", "order"), "did you mean 'dbo.orders'"),
        (ORDERS_FILE.replace("row_count", "row_cout"), "did you mean `expect_table_row_count_to_be_between`"),
        (ORDERS_FILE + "  - {name: paid, sql: SELECT * FROM history}", "two expectations are called paid"),
        ("table: dbo.orders", "expectations: Field required"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, orders_file: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_feed(written(tmp_path, orders_file))
    assert said in raised.value.message
    assert "expectations/shop/orders.yaml" in raised.value.message


def test_a_file_of_another_suffix_is_named(tmp_path: Path) -> None:
    feed = written(tmp_path)
    file = tmp_path / "expectations" / "shop" / "orders.yaml"
    file.rename(file.with_suffix(".yml"))
    with pytest.raises(ConfigError, match=r"orders\.yml is not read: files end in \.yaml"):
        load_feed(feed)


@pytest.mark.parametrize("suffix", [".yaml", ".yml"])
def test_a_folder_of_no_feed_is_named(tmp_path: Path, suffix: str) -> None:
    """Expectations of an unknown feed would never be checked, silently. The feeds are still read."""
    feed = written(tmp_path)
    folder = tmp_path / "expectations"
    file = folder / "shop" / "orders.yaml"
    file.rename(file.with_suffix(suffix))
    (folder / "shop").rename(folder / "shopp")
    feeds, (error,) = readable_feeds(feed.parent)
    assert list(feeds) == ["shop"]
    assert error.message.endswith("shopp are not read: there is no feed 'shopp', did you mean 'shop'?")
    feed.write_text("feed: [")
    _, (error,) = readable_feeds(feed.parent)
    assert "cannot be read" in error.message


def test_a_feed_is_read_without_great_expectations(tmp_path: Path) -> None:
    read = (
        "import sys; from pathlib import Path; from changeledger.config.files import load_feed; "
        f"load_feed(Path({str(written(tmp_path))!r})); "
        "assert not {'great_expectations', 'pyspark', 'pandas'} & set(sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", read], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_the_list_of_types_is_that_of_the_installed_version() -> None:
    sys.path.insert(0, str(PROJECT / "scripts"))
    import expectation_types  # noqa: PLC0415

    sys.path.pop(0)
    assert FILE.read_text("utf-8") == expectation_types.text(), (
        "write it again: .venv/bin/python scripts/expectation_types.py"
    )
    assert BETWEEN in known()


def test_a_file_in_no_folder_is_named(tmp_path: Path) -> None:
    feed = written(tmp_path)
    file = tmp_path / "expectations" / "shop" / "orders.yaml"
    file.rename(file.parents[1] / file.name)
    feeds, (error,) = readable_feeds(feed.parent)
    assert list(feeds) == ["shop"]
    assert error.message.endswith("orders.yaml are not read: the file is not in a feed's folder")
