"""Errors about a user's settings name the file and the member, and show no secrets."""

from __future__ import annotations

import traceback
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from pydantic import ValidationError

from changeledger.config.connection import Connection, connection_variable
from changeledger.config.feed import Feed
from changeledger.config.files import load_feed, load_feeds, named_feed, readable_feeds
from changeledger.config.settings import PROJECT, Settings
from changeledger.config.tables import TableConfig
from changeledger.model.errors import ConfigError
from changeledger.model.window import Window

GOOD = """\
feed: shop_cdc
dialect: sqlserver_cdc
database: shop
connection: shop_sqlserver
source: {cdc_schema: cdc}
tables:
  - table: dbo.Orders
"""


def feed_file(folder: Path, text: str, name: str = "shop.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_a_project_has_its_folders_beside_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "JARS"):
        monkeypatch.delenv(f"CHANGELEDGER_{name}", raising=False)
    assert Settings().feeds == PROJECT / "include" / "feeds", "a checkout is its own project"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CHANGELEDGER_PROJECT", "shop")
    settings, project = Settings(), tmp_path / "shop"
    assert (settings.feeds, settings.databases) == (project / "feeds", project / "databases")
    assert (settings.home, settings.jars) == (project / ".changeledger", project / ".jars" / "spark")
    monkeypatch.setenv("CHANGELEDGER_FEEDS", str(tmp_path / "others"))
    assert Settings().feeds == tmp_path / "others"


def test_a_feed_with_its_defaults(tmp_path: Path) -> None:
    feed = load_feed(feed_file(tmp_path, GOOD))
    assert (feed.namespace, feed.time_zone, feed.quarantine_limit, feed.primary) == (
        "shop_cdc",
        "UTC",
        0.1,
        False,
    )
    table = feed.table("DBO.orders")
    assert table is not None
    assert table.table == "dbo.Orders"
    assert feed.table("dbo.Lines") is None


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (GOOD + "colour: red\n", "colour: unknown setting"),
        (GOOD + "Time-Zone: UTC\n", "Time-Zone: unknown setting, did you mean `time_zone`?"),
        (GOOD.replace("database:", "databse:"), "database: Field required; databse: unknown setting, did"),
        (
            GOOD.replace("cdc_schema", "cdcschema"),
            "source.cdcschema: unknown setting, did you mean `cdc_schema`?",
        ),
        (
            GOOD.replace("sqlserver_cdc", "oracle"),
            "dialect: Value error, 'oracle' is not one of ces, debezium",
        ),
        (GOOD + "keep: P1D\n", "keep: `keep` is now `retention`"),
        (GOOD + "late_after: PT1H\n", "late_after: `late_after` is now `deadline`"),
        (
            GOOD.replace("sqlserver_cdc", "debezium").replace("cdc_schema: cdc", "decimals: text"),
            "source.decimals: `decimals` is now `decimal.handling.mode`",
        ),
        # The error does not suggest settings of another dialect.
        (GOOD.replace("cdc_schema", "topics"), "source.topics: unknown setting"),
        (GOOD.replace("sqlserver_cdc", "debezium"), "source.topics: Field required"),
        (GOOD.replace("connection: shop_sqlserver\n", ""), "connection: Field required"),
        (GOOD.replace("dbo.Orders", "Orders"), "tables.0.table: Value error, 'Orders' is not `schema.table`"),
        (
            GOOD.replace("dbo.Orders", "dbo.Orders.Lines")
            .replace("sqlserver_cdc", "debezium")
            .replace("cdc_schema: cdc", "topics: [t]"),
            "dbo.Orders.Lines is not `schema.table`; tables whose names have a dot cannot be read",
        ),
        (GOOD + "  - table: DBO.ORDERS\n", "table listed twice: dbo.Orders, DBO.ORDERS"),
        (GOOD + "    key: [id, line, ID]\n", "tables.0: Value error, key names a column twice: id, ID"),
        (
            GOOD + "    columns: [{name: id, type: int}, {name: Id, type: bigint}]\n",
            "tables.0: Value error, columns names a column twice: id, Id",
        ),
        (GOOD + "    keys: [id]\n", "tables.0.keys: unknown setting, did you mean `key`?"),
        (GOOD.replace("shop_cdc", "Shop-CDC"), "feed: Value error, must be lower-case letters"),
        (
            GOOD + "time_zone: Mars/Olympus\n",
            "time_zone: Value error, 'Mars/Olympus' is not an IANA time zone",
        ),
        (
            GOOD.replace("sqlserver_cdc", "qlik_tables") + "time_zone: Europe/Berlin\n",
            "time_zone: Value error, qlik_tables has no times without a zone except in UTC: leave it out",
        ),
        (GOOD + "quarantine_limit: 2\n", "quarantine_limit: Input should be less than or equal to 1"),
        (
            GOOD.replace("tables:\n  - table: dbo.Orders\n", "tables: []\n"),
            "tables: Tuple should have at least 1",
        ),
        ("", "file: Input should be"),
        ("- a\n- b\n", "file: Input should be"),
    ],
)
def test_a_wrong_feed_file_names_the_member(tmp_path: Path, text: str, complaint: str) -> None:
    path = feed_file(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        load_feed(path)
    assert f"the feed file {path} is not valid" in raised.value.message
    assert complaint in raised.value.message
    assert str(path) in raised.value.remedy
    assert not raised.value.retryable


@pytest.mark.parametrize("text", ["feed: [", "a: b: c", "\tfeed: x", "feed: !!python/object:os.system x"])
def test_bad_yaml_names_the_file(tmp_path: Path, text: str) -> None:
    path = feed_file(tmp_path, text)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_feed(path)


def test_a_member_that_stands_twice_hides_no_rule(tmp_path: Path) -> None:
    """YAML 1.2, 3.2.1.3: keys of a mapping are unique. The first rule for `email` hashed the column."""
    twice = "    publish: {columns: {email: hash, phone: drop, email: {rename: mail}}}\n"
    with pytest.raises(ConfigError, match=r"(?s)cannot be read: 'email' occurs twice.*line 8"):
        load_feed(feed_file(tmp_path, GOOD + twice))
    merged = "    publish: {columns: {email: &mail {hash: true}, phone: {<<: *mail, rename: tel}}}\n"
    (table,) = load_feed(feed_file(tmp_path, GOOD + merged)).tables
    assert table.publish.columns["phone"].words == "hash, rename: tel"


def test_a_missing_feed_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nothing\.yaml cannot be read"):
        load_feed(tmp_path / "nothing.yaml")


def test_two_files_of_one_feed_are_refused(tmp_path: Path) -> None:
    feed_file(tmp_path, GOOD, "a.yaml")
    feed_file(tmp_path, GOOD, "b.yaml")
    with pytest.raises(ConfigError, match="define the feed 'shop_cdc'") as raised:
        load_feeds(tmp_path)
    assert "b.yaml" in raised.value.remedy


def test_a_broken_feed_file_stops_no_other_feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANGELEDGER_FEEDS", str(tmp_path))
    feed_file(tmp_path, GOOD.replace("shop_cdc", "later"), "c.yaml")
    feed_file(tmp_path, GOOD + "colour: red\n", "a.yaml")
    (tmp_path / "b.yaml").write_bytes(b"feed: caf\xe9\n")
    feeds, errors = readable_feeds(tmp_path)
    assert list(feeds) == ["later"]
    invalid, not_utf8 = (str(error) for error in errors)
    assert "a.yaml is not valid: colour" in invalid
    assert "b.yaml cannot be read: 'utf-8' codec" in not_utf8
    with pytest.raises(ConfigError, match=r"a\.yaml"):
        load_feeds(tmp_path)
    assert named_feed("later").feed == "later"
    with pytest.raises(ConfigError, match=r"no feed 'shop_cdc' in .*a\.yaml is not valid: colour.*b\.yaml"):
        named_feed("shop_cdc")


def test_a_misspelt_feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHANGELEDGER_FEEDS", str(tmp_path))
    feed_file(tmp_path, GOOD)
    with pytest.raises(ConfigError, match=r"(?s)no feed 'shopcdc' in .*did you mean 'shop_cdc'"):
        named_feed("shopcdc")
    with pytest.raises(ConfigError, match=r"(?s)no feed 'x' in .*choose from shop_cdc.*CHANGELEDGER_FEEDS"):
        named_feed("x")


def test_feeds_by_name(tmp_path: Path) -> None:
    feed_file(tmp_path, GOOD.replace("shop_cdc", "later"), "b.yaml")
    feed_file(tmp_path, GOOD, "c.yaml")
    assert list(load_feeds(tmp_path)) == ["later", "shop_cdc"]


def test_a_missing_connection_says_how_to_make_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AIRFLOW_CONN_SHOP", raising=False)
    with pytest.raises(ConfigError, match="the connection 'shop' does not exist") as raised:
        Connection.named("shop")
    assert "AIRFLOW_CONN_SHOP" in raised.value.remedy
    assert "airflow connections import" in raised.value.remedy


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("mssql://sa:s3cr3t@host/db", "JSON"),
        ('{"conn_type": "mssql", "password": "s3cr3t"', "JSON"),
        ('{"password": "s3cr3t"}', "conn_type"),
        ('{"conn_type": "mssql", "port": "s3cr3t"}', "port"),
        ('{"conn_type": "mssql", "password": ["s3cr3t"]}', "password"),
        ('{"conn_type": "mssql", "extra": "{s3cr3t"}', "extra"),
        ('{"conn_type": "mssql", "extra": "[\\"s3cr3t\\"]"}', "extra"),
    ],
)
def test_a_wrong_connection_does_not_show_its_password(
    monkeypatch: pytest.MonkeyPatch, text: str, where: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SHOP", text)
    with pytest.raises(ConfigError, match="the connection 'shop' is not valid") as raised:
        Connection.named("shop")
    assert f"({where})" in raised.value.message
    assert "s3cr3t" not in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_connection_as_airflow_writes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        '{"conn_type": "mssql", "host": "db", "port": 1433, "schema": "shop", "login": "sa",'
        ' "password": "s3cr3t", "extra": "{\\"encrypt\\": \\"true\\"}", "description": "x"}'
    )
    monkeypatch.setenv(connection_variable("shop"), text)
    connection = Connection.named("shop")
    assert (connection.schema_, connection.password, connection.extra) == (
        "shop",
        "s3cr3t",
        {"encrypt": "true"},
    )
    assert "s3cr3t" not in repr(connection)


AT = datetime(2026, 8, 7, 16, tzinfo=UTC)


@pytest.mark.parametrize("end", [AT, AT - timedelta(seconds=1), AT.astimezone(timezone(timedelta(hours=2)))])
def test_an_empty_or_reversed_window_is_refused(end: datetime) -> None:
    with pytest.raises(ValidationError, match="empty or reversed"):
        Window(start=AT, end=end)


def test_a_window_needs_a_time_zone() -> None:
    with pytest.raises(ValidationError, match="need a time zone"):
        Window(start=AT.replace(tzinfo=None), end=AT + timedelta(hours=1))


def test_a_window_is_the_same_in_every_zone() -> None:
    kolkata = timezone(timedelta(hours=5, minutes=30))
    end = AT + timedelta(hours=1)
    window = Window(start=AT, end=end)
    assert window.id == "20260807T160000000000Z_20260807T170000000000Z"
    assert Window(start=AT.astimezone(kolkata), end=end.astimezone(kolkata)).id == window.id
    assert window.branch == "run_20260807T160000000000Z_20260807T170000000000Z"


def test_settings_default_below_their_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for member in ("CONTROL_URL", "CATALOG"):
        monkeypatch.delenv(f"CHANGELEDGER_{member}", raising=False)
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    settings = Settings()
    assert settings.warehouse == f"{tmp_path}/warehouse"
    assert settings.control_url == f"sqlite:///{tmp_path}/control.db"
    assert settings.catalog["uri"] == f"sqlite:///{tmp_path}/catalog.db"
    monkeypatch.setenv("CHANGELEDGER_CATALOG", '{"uri": "postgresql://me:s3cr3t@host/lake"}')
    settings = Settings()
    assert settings.warehouse == f"{tmp_path}/warehouse"
    assert "s3cr3t" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("CATALOG", '{"s3.secret-access-key": s3cr3t}', "catalog: it is not a JSON object"),
        ("CATALOG", '{"s3.secret-access-key": ["s3cr3t"]}', "catalog.s3.secret-access-key: Input should be"),
        ("REDACT_VALUES", "s3cr3t", "redact_values: Input should be a valid boolean"),
        ("PAGES", "http://s3cr3t", "pages: Value error, pages can be stored in a folder"),
    ],
)
def test_a_wrong_setting_is_named_and_not_shown(
    name: str, value: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"CHANGELEDGER_{name}", value)
    with pytest.raises(ConfigError) as caught:
        Settings()
    assert f"CHANGELEDGER_{name} is not valid: {why}" in str(caught.value)
    assert f"correct CHANGELEDGER_{name} in the environment" in caught.value.remedy
    shown = "".join(traceback.format_exception(caught.value))
    assert "s3cr3t" not in shown


@pytest.mark.parametrize("name", ["REDACT_VALUE", "HASHKEY", "Feed", "CONTROL-URL"])
def test_a_misspelt_variable_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A misspelt variable would have no effect: values would get into logs, rows would not be read."""
    monkeypatch.setenv(f"CHANGELEDGER_{name}", "s3cr3t")
    with pytest.raises(
        ConfigError, match=f"CHANGELEDGER_{name} is not a setting, did you mean CHANGELEDGER_"
    ) as raised:
        Settings()
    assert "s3cr3t" not in str(raised.value)


@pytest.mark.parametrize(
    "name", ["IMAGE", "VERSION", "UP_ENV", "CATALOG_SERVICE_HOST", "CONTROL_PORT_80_TCP"]
)
def test_variables_of_others_stay(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kubernetes' page "Service", environment variables: {SVCNAME}_SERVICE_HOST, {SVCNAME}_PORT."""
    monkeypatch.setenv(f"CHANGELEDGER_{name}", "x")
    Settings()


def test_an_empty_variable_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose writes `${CHANGELEDGER_CATALOG:-}` as an empty variable."""
    for member in ("HOME", "CATALOG", "REDACT_VALUES"):
        monkeypatch.setenv(f"CHANGELEDGER_{member}", "")
    settings = Settings()
    assert settings.home == PROJECT / ".changeledger"
    assert (settings.catalog["type"], settings.redact_values) == ("sql", False)


@pytest.mark.parametrize(
    "name", ["maintain", "changeledger", "compare_shop", "verify_shop", "shop\n", "default"]
)
def test_names_that_a_feed_cannot_have(name: str) -> None:
    with pytest.raises(ValidationError, match="feed"):
        Feed.model_validate(
            {
                "feed": name, "dialect": "ces", "database": "shop", "connection": "c",
                "source": {"topics": ["t"]}, "tables": [{"table": "dbo.a"}],
            }
        )  # fmt: skip


@pytest.mark.parametrize("name", ["dbo.a\n", "dbo.a\nb", "\tdbo.a", "dbo", ".a"])
def test_names_that_a_table_cannot_have(name: str) -> None:
    with pytest.raises(ValidationError, match="table"):
        TableConfig.model_validate({"table": name})


def test_a_column_has_a_type_unless_it_is_computed(tmp_path: Path) -> None:
    columns = "    columns: [{name: total, computed: true}, {name: note, type: xml}]\n"
    (table,) = load_feed(feed_file(tmp_path, GOOD + columns)).tables
    assert [c.name for c in table.stated] == ["note"]
    with pytest.raises(ConfigError, match="total needs a type, or `computed: true`"):
        load_feed(feed_file(tmp_path, GOOD + "    columns: [{name: total}]\n", "other.yaml"))


def test_a_page_is_named_by_its_link_where_airflow_serves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    page = tmp_path / "data_docs" / "compare_shop" / "index.html"
    assert Settings().address(page) == str(page)
    monkeypatch.setenv("CHANGELEDGER_PAGES_URL", "https://airflow.example.com/team/data-docs/")
    assert Settings().address(page) == "https://airflow.example.com/team/data-docs/compare_shop/index.html"


def test_the_word_on_is_a_setting(tmp_path: Path) -> None:
    """The key `on` is not read as `true`, as YAML 1.1 does."""
    text = GOOD + "primary: yes\nnotify: [{notifier: a.B, with: {to: x}, on: [failed]}]\n"
    feed = load_feed(feed_file(tmp_path, text))
    assert (feed.primary, feed.notify[0].on, feed.notify[0].arguments) == (True, ("failed",), {"to": "x"})


def test_a_tables_settings_are_a_key_whatever_they_say() -> None:
    """Decoders cache what they derive from a plan, by these settings."""
    said = {"table": "dbo.t", "publish": {"columns": {"email": "hash", "note": "drop"}}}
    assert len({TableConfig.model_validate(said), TableConfig.model_validate(said)}) == 1
