"""What a user configures: settings of the installation, connections, and feeds (YAML)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import ZoneInfo

import yaml
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from changeledger.errors import ConfigError
from changeledger.misspelt import meant
from changeledger.names import alike
from changeledger.strict import Strict

# Of a change mask: which end of its bytes holds the first columns (see `masks`).
ByteOrder = Literal["big", "little"]

PROJECT = Path(__file__).resolve().parents[2]


class Settings(BaseSettings):
    """The installation. Every member is an environment variable `CHANGELEDGER_<MEMBER>`."""

    model_config = SettingsConfigDict(env_prefix="CHANGELEDGER_", frozen=True, use_attribute_docstrings=True)

    home: Path = PROJECT / ".changeledger"
    """The folder of this installation: catalog, control store and warehouse where they are not set, Data
    Docs and logs."""
    feeds: Path = PROJECT / "include" / "feeds"
    """The folder of the feeds' YAML files."""
    databases: Path = PROJECT / "include" / "databases"
    """The folder of the databases' YAML files."""
    jars: Path = PROJECT / ".jars" / "spark"
    """The folder of the jars that Spark needs beside its own; `make demo` and `make up` fetch them."""
    warehouse: str = ""
    """Where Iceberg keeps data files: a path or URI that all of Spark's machines see. Empty: `warehouse`
    below the home."""
    control_url: str = ""
    """SQLAlchemy URL of the control store, such as `postgresql+psycopg://...`. Empty: an SQLite file below
    the home."""
    catalog_uri: str = ""
    """JDBC URL of Iceberg's catalog, such as `jdbc:postgresql://...`. Empty: an SQLite file below the
    home."""
    catalog_user: str = ""
    """The login of the catalog's database, where it has one."""
    catalog_password: str = Field(default="", repr=False)
    """Its password. It is on no command line."""

    redact_values: bool = False
    """`true`: logs, errors and pages (audit, comparison, proof) show `***` in place of keys and values of
    rows; the lake has them, and commands show them to whoever may read it."""
    alert_url: str = Field(default="", repr=False)
    """A webhook that gets a JSON message for each failed or late run. Empty: none."""
    pages_url: str = ""
    """Where Airflow serves the Data Docs; its tasks set it. With it, logs and errors have links to pages;
    without it, files."""

    @model_validator(mode="after")
    def _embedded_defaults(self) -> Settings:
        """SQLite files below `home` where nothing else is configured."""
        home = self.home.absolute()
        object.__setattr__(self, "home", home)
        for member, value in {
            "warehouse": f"{home}/warehouse",
            "control_url": f"sqlite:///{home}/control.db",
            # WAL and a busy timeout let several Spark processes share the catalog file.
            "catalog_uri": f"jdbc:sqlite:{home}/catalog.db?journal_mode=WAL&busy_timeout=30000",
        }.items():
            if not getattr(self, member):
                object.__setattr__(self, member, value)
        return self

    @property
    def data_docs(self) -> Path:
        return self.home / "data_docs"

    def address(self, page: Path) -> str:
        """Where people open a page of the Data Docs: its link, or its file."""
        if not self.pages_url:
            return str(page)
        return "/".join([self.pages_url.rstrip("/"), *page.relative_to(self.data_docs).parts])


class Connection(BaseModel):
    """A connection, as Airflow writes it in JSON: the environment variable `AIRFLOW_CONN_<ID>`.

    The Airflow operator resolves a connection through Airflow's own secrets backends and hands it to
    the job under that name; outside Airflow the variable is set by hand.
    """

    model_config = ConfigDict(extra="ignore", frozen=True, use_attribute_docstrings=True)

    conn_type: str
    """Of a source `mssql`, `postgres`, `sqlite` or `kafka`; of Spark `spark` or `spark_connect`."""
    host: str | None = None
    """The host; of Spark the master or the `sc://` address; of `sqlite` the file. Kafka has its hosts in
    `extra`."""
    port: int | None = None
    """The port, where it is not the usual one of the type."""
    schema_: str | None = Field(default=None, alias="schema")
    """The name of the database on that server."""
    login: str | None = None
    """The user, where the server asks for one."""
    password: str | None = Field(default=None, repr=False)
    """Its password; of `spark_connect` a token."""
    extra: dict[str, Any] = Field(default_factory=dict, repr=False)
    """`kafka`: librdkafka's settings, `bootstrap.servers` among them, and those of a schema registry behind
    `schema.registry.`. `mssql`: `encrypt` (default `true`) and `trustServerCertificate` (default `false`).
    `postgres`: `sslmode` (default `verify-full`; `prefer` on this machine itself) and `sslrootcert`.
    `spark` and `spark_connect`: see [connections](operate.md#connections)."""

    @field_validator("extra", mode="before")
    @classmethod
    def _extra_may_be_text(cls, value: object) -> object:
        return json.loads(value or "{}") if isinstance(value, str) else value or {}

    @classmethod
    def named(cls, conn_id: str) -> Connection:
        """Raises ConfigError when the connection is not there or is not JSON."""
        variable = connection_variable(conn_id)
        text = os.environ.get(variable)
        remedy = (
            f"create the Airflow connection {conn_id!r} (Admin > Connections, or `airflow connections add`); "
            f"outside Airflow set {variable} to its JSON"
        )
        if not text:
            raise ConfigError(f"the connection {conn_id!r} does not exist", remedy)
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            # Not the error's own text: it quotes the input, which holds the password.
            where = ", ".join(".".join(map(str, e["loc"])) or "JSON" for e in error.errors())
            raise ConfigError(f"the connection {conn_id!r} is not valid ({where})", remedy) from None


def connection_variable(conn_id: str) -> str:
    return f"AIRFLOW_CONN_{conn_id.upper()}"


_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}\Z")
# A feed's name is its DAG's and its namespace's in the lake, where others of this program stand, too.
_RESERVED = ("changeledger", "maintain", "default", "information_schema")
_RESERVED_BEGINNINGS = ("compare_", "verify_")
# Of a table: two parts, nothing that ends a line.
_TABLE = r"^[^.\x00-\x1f\x7f]+\.[^.\x00-\x1f\x7f]+$"


class ColumnConfig(Strict):
    """A column that the user states: `type` is a SQL Server type such as `decimal(18,4)`.

    Of a `computed` column that alone may be stated.
    """

    name: str
    """As the source writes it."""
    type: str = ""
    """A SQL Server type, such as `decimal(18,4)` ([types.md](types.md))."""
    nullable: bool = True
    """Whether the column can be NULL."""
    computed: bool = False
    """Whether SQL Server computes it: then no capture has its values."""

    @model_validator(mode="after")
    def _says_something(self) -> ColumnConfig:
        if not (self.type or self.computed):
            raise ValueError(f"{self.name} needs a type, or `computed: true`")
        return self


class TableConfig(Strict):
    """One source table. Key and columns are given only where the feed does not tell them itself."""

    table: str = Field(pattern=_TABLE)
    """`schema.table`, as the source writes it."""
    key: tuple[str, ...] = ()
    """The columns of the key, where the feed's records do not say which they are."""
    columns: tuple[ColumnConfig, ...] = ()
    """The columns, where the feed's records do not have them or have coarser types."""

    @property
    def stated(self) -> tuple[ColumnConfig, ...]:
        """The columns whose types are stated."""
        return tuple(c for c in self.columns if c.type)

    @model_validator(mode="after")
    def _names_differ(self) -> TableConfig:
        for member, names in (("key", self.key), ("columns", [c.name for c in self.columns])):
            if twice := alike(names):
                raise ValueError(f"{member} names a column twice: {', '.join(twice)}")
        return self


class KafkaTopics(Strict):
    """Topics to read: names, or patterns with `*` for any run of characters."""

    topics: Annotated[tuple[str, ...], Field(min_length=1)]
    """Names of topics, or patterns with `*` for any run of characters."""


class KafkaSource(KafkaTopics):
    """Topics of Debezium, and how the connector is set up."""

    placeholder: str = Field(default="__debezium_unavailable_value", min_length=1)
    """The connector's `unavailable.value.placeholder`: what it writes for a large value that it could not
    read."""
    decimals: Literal["precise", "text"] = "precise"
    """How the connector writes decimals (`decimal.handling.mode`): `precise` is base64 of their bytes,
    `text` is for its modes `string` and `double`."""
    temporal: Literal["adaptive", "connect"] = "adaptive"
    """The unit of times (`time.precision.mode`): `adaptive` goes by the column's precision, and is also for
    `isostring`; `connect` is always milliseconds."""
    binaries: Literal["base64", "hex"] = "base64"
    """How the connector writes bytes (`binary.handling.mode`); `base64` is also for `base64-url-safe`."""


class CesSource(KafkaTopics):
    """The topic of a change event stream group."""

    binaries: Literal["any", "hex", "base64"] = "any"
    """How the server writes bytes, which is not published: `any` reads `0x` and hex digits as hex, all else
    as base64."""


class CdcTablesSource(Strict):
    """SQL Server CDC tables: the schema that holds `change_tables`, `lsn_time_mapping` and `*_CT`."""

    cdc_schema: str = "cdc"
    """The schema that has `change_tables`, `lsn_time_mapping` and the `*_CT` tables."""
    partition_rows: int = Field(default=200_000, ge=1)
    """Rows that one Spark task reads; a window with more rows is read in parallel."""


class QlikTablesSource(Strict):
    """Qlik change tables `<table>__ct`, in the database that the task writes to."""

    target_schema: str | None = None
    """The schema of the change tables, where it is not the source table's own."""
    header_prefix: str = "header__"
    """The prefix of the header columns, as the task's settings have it."""
    empty_is_null: bool = False
    """`true` where the target has no empty text and holds `''` for NULL."""
    partition_rows: int = Field(default=200_000, ge=1)
    """Rows that one Spark task reads; a window with more rows is read in parallel."""


class Feed(Strict):
    """One dialect from one connection, for the tables of one database."""

    feed: str
    """The name of the feed, of its DAG, and of the namespace in the lake (`lake.<feed>.*`)."""
    dialect: str
    """What writes the records: `debezium`, `ces`, `qlik_messages`, `qlik_tables` or `sqlserver_cdc`."""
    database: str
    """The source database. Feeds of one database share the name, and are compared with each other."""
    connection: str
    """The id of the source's Airflow connection."""
    source: KafkaSource | CesSource | KafkaTopics | CdcTablesSource | QlikTablesSource
    """The settings of the dialect, see below."""
    tables: Annotated[tuple[TableConfig, ...], Field(min_length=1)]
    """The tables to read."""
    primary: bool = False
    """The feed that counts when several capture one database."""
    time_zone: str = "UTC"
    """The IANA zone of clock readings that the source writes without a zone (`cdc.lsn_time_mapping`)."""
    mask_order: ByteOrder | Literal["auto"] = "auto"
    """Which end of a change mask holds the first columns. `auto`: found for each table from its records."""
    quarantine_limit: float = Field(default=1.0, ge=0, le=1)
    """The share of a window's records that may be quarantined before the audit stops the run; 1 is never."""
    image_chain: Literal["report", "stop"] = "report"
    """`report` changes that do not follow from the one before, or `stop` the run for them ([the image
    chain](operate.md#the-image-chain))."""
    pending_limit: timedelta = Field(default=timedelta(days=7), gt=timedelta(0))
    """A record that waits longer than this for what it lacks (the rest of a split message, its metadata) is
    quarantined."""
    spark_connection: str = "changeledger_spark"
    """The id of Spark's Airflow connection."""
    schedule: str = "0 * * * *"
    """Cron, in UTC. A run covers the interval that has just ended."""
    owner: str = "data-engineering"
    """The owner of the DAG."""
    keep: timedelta = Field(default=timedelta(days=30), gt=timedelta(0))
    """How long releases can be read by their tags. `maintain` drops older ones."""
    raw_retention: timedelta = Field(default=timedelta(days=90), gt=timedelta(0))
    """How long raw records are kept as they were received. `maintain` removes older ones, but for those in
    quarantine."""
    docs_retention: timedelta = Field(default=timedelta(days=30), gt=timedelta(0))
    """How long the Data Docs of a run are kept, its verdicts in the control store, and the branches of one
    that was not released. `maintain` removes older ones."""
    late_after: timedelta = Field(default=timedelta(hours=3), gt=timedelta(0))
    """A run that has not ended so long after it was due is reported, and so is what waits at the source for
    so long ([a feed that stands still](operate.md#a-feed-that-stands-still))."""
    execution_timeout: timedelta = Field(default=timedelta(hours=2), gt=timedelta(0))
    """A task that has run for longer is ended, and tried again from its stage's beginning ([a long first
    load](operate.md#a-long-first-load))."""

    @field_validator("feed", "database")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _NAME.match(value):
            raise ValueError("must be lower-case letters, digits and underscores, beginning with a letter")
        return value

    @field_validator("feed")
    @classmethod
    def _is_free(cls, value: str) -> str:
        if value in _RESERVED or value.startswith(_RESERVED_BEGINNINGS):
            raise ValueError(
                f"{value!r} may be a DAG or a namespace of this program's own; choose another name: none of "
                f"{', '.join(_RESERVED)}, and none that begins with {' or '.join(_RESERVED_BEGINNINGS)}"
            )
        return value

    @field_validator("dialect")
    @classmethod
    def _is_a_dialect(cls, value: str) -> str:
        if value not in SOURCE_MODELS:
            raise ValueError(f"{value!r} is none of {', '.join(sorted(SOURCE_MODELS))}")
        return value

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (KeyError, ValueError) as error:
            raise ValueError(f"{value!r} is not an IANA time zone") from error
        return value

    @field_validator("source", mode="before")
    @classmethod
    def _source_of_the_dialect(cls, value: Any, info: ValidationInfo) -> Any:
        """Validate `source` with the dialect's own model, so that an error names the right settings."""
        model = SOURCE_MODELS.get(info.data.get("dialect", ""))
        return model.model_validate(value) if model is not None and isinstance(value, dict) else value

    @model_validator(mode="after")
    def _tables_differ(self) -> Feed:
        names = [t.table.lower() for t in self.tables]
        twice = sorted({n for n in names if names.count(n) > 1})
        if twice:
            raise ValueError(f"table listed twice: {', '.join(twice)}")
        return self

    @property
    def namespace(self) -> str:
        """The lake namespace that holds every table of this feed."""
        return self.feed

    def only(self, tables: Sequence[str]) -> Feed:
        """The feed as if it had these tables alone. Raises ConfigError where it lacks one."""
        found = [self.table(name) for name in tables]
        missing = [name for name, config in zip(tables, found, strict=True) if config is None]
        if missing:
            raise ConfigError(
                f"the feed {self.feed!r} has no table {', '.join(missing)}",
                f"choose from {', '.join(t.table for t in self.tables)}",
            )
        return self.model_copy(update={"tables": tuple(t for t in self.tables if t in found)})

    def table(self, name: str) -> TableConfig | None:
        """The configured table of that `schema.table` name; SQL Server compares names without case."""
        return next((t for t in self.tables if t.table.lower() == name.lower()), None)


SOURCE_MODELS: dict[str, type[Strict]] = {
    "debezium": KafkaSource,
    "qlik_tables": QlikTablesSource,
    "qlik_messages": KafkaTopics,
    "ces": CesSource,
    "sqlserver_cdc": CdcTablesSource,
}


Model = TypeVar("Model", bound=BaseModel)


def read_yaml(path: Path, model: type[Model], what: str, documented: str) -> Model:
    """The file as a model. Raises ConfigError that names the file, the member and what is wrong."""
    remedy = f"correct {path} ({documented} lists the settings)"
    try:
        return model.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ConfigError(f"{what} {path} cannot be read: {error}", remedy) from error
    except ValidationError as error:
        raise ConfigError(f"{what} {path} is not valid: {invalid_members(error)}", remedy) from error


def invalid_members(error: ValidationError) -> str:
    """The members of a file that are wrong, each with what is wrong."""
    return "; ".join(f"{'.'.join(map(str, e['loc'])) or 'file'}: {e['msg']}" for e in error.errors())


def load_feed(path: Path) -> Feed:
    """Read one feed file. Raises ConfigError that names the file, the member and what is wrong."""
    return read_yaml(path, Feed, "the feed file", "docs/settings.md")


@cache
def load_feeds(folder: Path) -> dict[str, Feed]:
    """All feeds of a folder, by name, in the order of their file names. Raises ConfigError of the first."""
    feeds, errors = readable_feeds(folder)
    if errors:
        raise errors[0]
    return feeds


def readable_feeds(folder: Path) -> tuple[dict[str, Feed], list[ConfigError]]:
    """As `load_feeds`, with what is wrong of the files that are left out: a broken feed stops no other."""
    feeds: dict[str, Feed] = {}
    errors = []
    for path in sorted(folder.glob("*.yaml")):
        try:
            feed = load_feed(path)
        except ConfigError as error:
            errors.append(error)
            continue
        if feed.feed in feeds:
            said = f"two files of {folder} define the feed {feed.feed!r}"
            errors.append(ConfigError(said, f"rename one, see {path}"))
        else:
            feeds[feed.feed] = feed
    return feeds, errors


def named_feed(folder: Path, name: str) -> Feed:
    """The feed of that name; other files may be broken. Raises ConfigError where there is none."""
    feeds, errors = readable_feeds(folder)
    if name in feeds:
        return feeds[name]
    said = f"there is no feed {name!r} in {folder}"
    if errors:
        # Its own file may be one of those that cannot be read.
        raise ConfigError("; ".join([said, *(error.message for error in errors)]), errors[0].remedy)
    near = meant(name, feeds)
    choice = f"did you mean {near!r}?" if near else f"name one of {', '.join(feeds) or 'none'}"
    raise ConfigError(said, f"{choice} (CHANGELEDGER_FEEDS is the folder of the feed files)")
