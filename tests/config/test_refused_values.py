"""Invalid values in a feed's or a database's YAML are refused when it is read, not by a run."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from changeledger.config.database import Database, Tolerance, readable_databases
from changeledger.config.files import load_feed, readable_feeds
from changeledger.model.errors import ConfigError
from changeledger.orchestration.project_dags import refuse_wrong_settings

FEED = """\
feed: shop_cdc
dialect: sqlserver_cdc
database: shop
connection: shop_sqlserver
source: {}
tables:
  - table: dbo.orders
"""
MESSAGES = FEED.replace("sqlserver_cdc", "ces").replace("source: {}", "source: {topics: [t]}")
RANGE = "expect_column_values_to_not_be_null"


def feed_in(folder: Path, text: str) -> Path:
    path = folder / "feeds" / "shop.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # Some would read it as half a minute, others as 30 days.
        ("retention: 30\n", "retention: Value error, write it in ISO 8601, such as PT15M"),
        # YAML reads it as the number 720.
        ("deadline: 12:00\n", "deadline: Value error, write it in ISO 8601"),
        ("deadline: '12:00:00'\n", "deadline: Value error, write it in ISO 8601"),
        ("raw_retention: P3000Y\n", "raw_retention: Value error, is longer than a thousand years"),
        ("schedule: 61 * * * *\n", "schedule: Value error, '61 * * * *' is not a cron expression"),
        ("schedule: hourly\n", "schedule: Value error, 'hourly' is not a cron expression"),
        # 31 February.
        ("schedule: 0 0 31 2 *\n", "schedule: Value error, '0 0 31 2 *' is not a cron expression"),
        # A folder of zones.
        ("time_zone: Europe\n", "time_zone: Value error, 'Europe' is not an IANA time zone"),
        (
            "notify: [{notifier: a.B, on: [drifting]}]\n",
            "notify: Value error, a.B would never report drifting",
        ),
        ("    columns: [{name: id, type: integer}]\n", "'integer' is not a SQL Server type"),
        (
            "    key: [ID]\n    publish: {columns: {id: drop}}\n",
            "tables.0: Value error, `publish:` leaves out ID, a key column: hash it instead",
        ),
        (
            "    columns: [{name: id, type: int}]\n    publish: {columns: {Id: {cast: timestamp}}}\n",
            "`publish:` of id: int cannot be cast to timestamp",
        ),
        (
            f"    expectations: [{{{RANGE}: {{column: Mail}}}}]\n    publish: {{columns: {{mail: drop}}}}\n",
            f"the expectation {RANGE}_Mail is about Mail, which `publish:` leaves out",
        ),
        (
            f"    expectations: [{{{RANGE}: {{column: a}}}}]\n"
            "    publish: {columns: {a: {rename: b}}}\n",
            f"the expectation {RANGE}_a is about a, which `publish:` publishes as b",
        ),
        (
            "  - table: dbo.orders_history\n",
            "two source tables would both be lake.shop_cdc.dbo_orders_history",
        ),
        (
            "  - table: replay.requests\n",
            "would be lake.shop_cdc.replay_requests, a table of the feed itself",
        ),
    ],
)
def test_a_feed_with_a_wrong_value(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load_feed(feed_in(tmp_path, FEED + text))
    assert said in raised.value.message
    assert "shop.yaml" in raised.value.message


@pytest.mark.parametrize(
    "text",
    [
        "retention: P30D\n",
        "deadline: PT90M\n",
        # docs/running.md gives it as a schedule that does not come soon.
        "schedule: '0 0 29 2 *'\n",
        "schedule: '@daily'\n",
        "time_zone: Europe/Berlin\n",
        # A list may serve feeds and databases: a feed reports only its own events.
        "notify: [{notifier: a.B, on: [failed, drifting]}]\n",
        # Two columns swap their names. An expectation is about published names.
        f"    expectations: [{{{RANGE}: {{column: b}}}}]\n"
        "    publish: {columns: {a: {rename: b}, b: {rename: a}}}\n",
        # The changes have columns of their own.
        f"    expectations: [{{{RANGE}: {{column: key}}, on: changes}}]\n"
        "    publish: {columns: {key: drop}}\n",
    ],
)
def test_a_feed_with_the_right_value(tmp_path: Path, text: str) -> None:
    load_feed(feed_in(tmp_path, FEED + text))


def test_a_list_of_notifiers_for_what_a_database_never_tells(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text("database: shop\nnotify: [{notifier: a.B, on: [late]}]\n")
    _, errors = readable_databases(tmp_path, {})
    assert "a.B would never report late: here `on:` can be disagreeing, drifting" in errors["shop"].message


def test_a_tolerated_verdict_tolerates_no_other() -> None:
    """docs/compare.md: nothing is tolerated except what the file names."""
    stated = Tolerance.model_validate({"fail_above": {"missing": 5}, "warn_above": {"order": 1}})
    assert stated.fail_above == {"missing": 5, "extra": 0, "differs": 0, "order": 0}
    assert stated.warn_above == {"representation": 0, "order": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("compare: {fail_above: {missing: -1}}", "compare.fail_above.missing: Input should be greater than"),
        (
            "verify: {cdc_schema: cdc}",
            "verify: Value error, `cdc_schema` belongs to a database at `connection`",
        ),
        ("verify: {lag: 5}", "verify.lag: Value error, write it in ISO 8601"),
        ("verify: {schemas: {dbo: a, DBO: b}}", "names a schema twice: dbo, DBO"),
        ("feeds: [a, b, a]", "feeds: Value error, a is listed twice"),
    ],
)
def test_a_database_with_a_wrong_value(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "shop.yaml").write_text(f"database: shop\n{text}\n")
    _, errors = readable_databases(tmp_path, {})
    assert said in errors["shop"].message


def test_schemas_are_those_of_the_feeds_in_whatever_case() -> None:
    database = Database.model_validate({"database": "shop", "verify": {"schemas": {"DBO": "replica"}}})
    assert database.verify is not None
    assert database.verify.schemas == {"dbo": "replica"}


def test_two_files_of_one_database(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.yaml").write_text("database: shop\n")
    databases, errors = readable_databases(tmp_path, {})
    assert not databases
    assert "two files" in errors["shop"].message
    assert "b.yaml" in errors["shop"].remedy


def of_feeds(folder: Path) -> str:
    feed_in(folder, FEED).rename(folder / "feeds" / "shop.yml")
    _, errors = readable_feeds(folder / "feeds")
    return errors[0].message


def of_databases(folder: Path) -> str:
    (folder / "shop.yml").write_text("database: shop\n")
    databases, errors = readable_databases(folder, {})
    assert not databases
    return errors["shop"].message


@pytest.mark.parametrize("read", [of_feeds, of_databases])
def test_a_file_that_nobody_reads_is_named(tmp_path: Path, read: Callable[[Path], str]) -> None:
    assert "shop.yml is not read: files end in .yaml" in read(tmp_path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("database: shp\n", "no feed has the database 'shp', did you mean 'shop'?"),
        (
            "database: shop\nverify: {schemas: {sales: b}}\n",
            "names sales, but no feed has a table of that schema",
        ),
    ],
)
def test_what_a_database_says_in_vain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    feed_in(tmp_path, FEED)
    databases = tmp_path / "databases"
    databases.mkdir()
    (databases / "shop.yaml").write_text(text)
    monkeypatch.setenv("CHANGELEDGER_FEEDS", str(tmp_path / "feeds"))
    monkeypatch.setenv("CHANGELEDGER_DATABASES", str(databases))
    with pytest.raises(ConfigError, match=said[:20]) as raised:
        refuse_wrong_settings()
    assert said in raised.value.message
    # The feed of that database may be the one whose file is broken.
    feed_in(tmp_path, FEED + "colour: red\n")
    with pytest.raises(ConfigError) as raised:
        refuse_wrong_settings()
    assert said not in raised.value.message


def test_a_reference_beside_the_chosen_feeds_is_compared(tmp_path: Path) -> None:
    loaded = load_feed(feed_in(tmp_path, MESSAGES))
    feeds = {name: loaded.model_copy(update={"feed": name}) for name in ("a", "b")}
    database = Database(database="shop", reference="a", feeds=("b",))
    reference, others = database.compared(feeds)
    assert (reference.feed, [feed.feed for feed in others]) == ("a", ["b"])
    assert database.is_compared(feeds)
    assert not Database(database="shop", reference="a", feeds=("a",)).is_compared(feeds)


def test_two_primary_feeds_need_a_reference(tmp_path: Path) -> None:
    loaded = load_feed(feed_in(tmp_path, FEED + "primary: true\n"))
    feeds = {name: loaded.model_copy(update={"feed": name}) for name in ("a", "b")}
    error = Database(database="shop").unread(feeds)
    assert error is not None
    assert "a and b are both the primary feed of shop" in error.message
    assert Database(database="shop", reference="a").unread(feeds) is None


def test_durations_of_models_are_taken_as_they_are(tmp_path: Path) -> None:
    feed = load_feed(feed_in(tmp_path, FEED))
    assert type(feed).model_validate(feed.model_dump()).retention == timedelta(days=30)
