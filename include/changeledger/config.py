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
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from changeledger.errors import ConfigError
from changeledger.names import alike
from changeledger.strict import Strict

# Of a change mask: which end of its bytes holds the first columns (see `masks`).
ByteOrder = Literal["big", "little"]

PROJECT = Path(__file__).resolve().parents[2]


class Settings(BaseSettings):
    """The installation. Every member is an environment variable `CHANGELEDGER_<MEMBER>`."""

    model_config = SettingsConfigDict(env_prefix="CHANGELEDGER_", frozen=True)

    home: Path = PROJECT / ".changeledger"
    feeds: Path = PROJECT / "include" / "feeds"
    databases: Path = PROJECT / "include" / "databases"
    jars: Path = PROJECT / ".jars" / "spark"
    warehouse: str = ""
    control_url: str = ""
    catalog_uri: str = ""
    catalog_user: str = ""
    catalog_password: str = Field(default="", repr=False)

    # A webhook that is told of failed and late runs.
    alert_url: str = Field(default="", repr=False)

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


class Connection(BaseModel):
    """A connection, as Airflow writes it in JSON: the environment variable `AIRFLOW_CONN_<ID>`.

    The Airflow operator resolves a connection through Airflow's own secrets backends and hands it to
    the job under that name; outside Airflow the variable is set by hand.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    conn_type: str
    host: str | None = None
    port: int | None = None
    schema_: str | None = Field(default=None, alias="schema")
    login: str | None = None
    password: str | None = Field(default=None, repr=False)
    extra: dict[str, Any] = Field(default_factory=dict, repr=False)

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


_NAME = re.compile(r"^[a-z][a-z0-9_]{0,62}$")


class ColumnConfig(Strict):
    """A column that the user states: `type` is a SQL Server type such as `decimal(18,4)`."""

    name: str
    type: str
    nullable: bool = True


class TableConfig(Strict):
    """One source table. Key and columns are given only where the feed does not tell them itself."""

    table: str = Field(pattern=r"^[^.]+\.[^.]+$", description="schema.table, as the source writes it")
    key: tuple[str, ...] = ()
    columns: tuple[ColumnConfig, ...] = ()

    @model_validator(mode="after")
    def _names_differ(self) -> TableConfig:
        for member, names in (("key", self.key), ("columns", [c.name for c in self.columns])):
            if twice := alike(names):
                raise ValueError(f"{member} names a column twice: {', '.join(twice)}")
        return self


class KafkaTopics(Strict):
    """Topics to read: names, or patterns with `*` for any run of characters."""

    topics: Annotated[tuple[str, ...], Field(min_length=1)]


class KafkaSource(KafkaTopics):
    """Topics of Debezium, and how the connector is set up."""

    # What the connector writes for a large value that it could not read (unavailable.value.placeholder).
    placeholder: str = Field(default="__debezium_unavailable_value", min_length=1)
    # How the connector writes decimals (decimal.handling.mode): `precise` is base64 of their bytes,
    # `text` is for its modes string and double. The two cannot be told apart by looking.
    decimals: Literal["precise", "text"] = "precise"
    # In what a count of time is (time.precision.mode): by the column's precision, or milliseconds always.
    # The mode isostring needs no setting: its texts are read in either.
    temporal: Literal["adaptive", "connect"] = "adaptive"
    # How the connector writes bytes (binary.handling.mode); base64 stands for base64-url-safe too.
    binaries: Literal["base64", "hex"] = "base64"


class CesSource(KafkaTopics):
    """The topic of a change event stream group."""

    # How binary values are written is not published: `any` reads `0x` and hex digits, else base64.
    binaries: Literal["any", "hex", "base64"] = "any"


class CdcTablesSource(Strict):
    """SQL Server CDC tables: the schema that holds `change_tables`, `lsn_time_mapping` and `*_CT`."""

    cdc_schema: str = "cdc"
    # Rows per Spark partition of one read; a window with more rows is read in parallel.
    partition_rows: int = Field(default=200_000, ge=1)


class QlikTablesSource(Strict):
    """Qlik change tables `<table>__ct`, in the database that the task writes to."""

    # The schema that holds them, where it is not the source table's own.
    target_schema: str | None = None
    # The prefix of the header columns, as the task's settings have it.
    header_prefix: str = "header__"
    # Targets that know no empty text hold '' where the source has NULL.
    empty_is_null: bool = False
    # Rows per Spark partition of one read; a window with more rows is read in parallel.
    partition_rows: int = Field(default=200_000, ge=1)


class Feed(Strict):
    """One dialect from one connection, for the tables of one database."""

    feed: str
    # A key of SOURCE_MODELS.
    dialect: str
    database: str
    connection: str
    source: KafkaSource | CesSource | KafkaTopics | CdcTablesSource | QlikTablesSource
    tables: Annotated[tuple[TableConfig, ...], Field(min_length=1)]
    primary: bool = False
    # The zone of clock readings that the source writes without one (cdc.lsn_time_mapping).
    time_zone: str = "UTC"
    # The byte order of change masks: found out for each table from what its records say, or stated.
    mask_order: ByteOrder | Literal["auto"] = "auto"
    # Fail the run when a window's quarantined records exceed this share of its records (1 = never).
    quarantine_limit: float = Field(default=1.0, ge=0, le=1)
    # What becomes of a run that finds changes whose before image is not what the change before has left.
    image_chain: Literal["report", "stop"] = "report"
    # A record that waits longer for what it lacks (the rest of a split message, its metadata) is quarantined.
    pending_limit: timedelta = Field(default=timedelta(days=7), gt=timedelta(0))
    spark_connection: str = "changeledger_spark"
    schedule: str = "0 * * * *"
    owner: str = "data-engineering"
    # How far back releases can be read by their tags, and snapshots be gone back to.
    keep: timedelta = Field(default=timedelta(days=30), gt=timedelta(0))
    # A run that has not ended by then, from when it was due, is reported.
    late_after: timedelta = Field(default=timedelta(hours=3), gt=timedelta(0))

    @field_validator("feed", "database")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _NAME.match(value):
            raise ValueError("must be lower-case letters, digits and underscores, beginning with a letter")
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

    @model_validator(mode="before")
    @classmethod
    def _source_of_the_dialect(cls, data: Any) -> Any:
        """Validate `source` with the dialect's own model, so that an error names the right members."""
        if isinstance(data, dict) and isinstance(data.get("source"), dict):
            model = SOURCE_MODELS.get(str(data.get("dialect")))
            if model is not None:
                return {**data, "source": model.model_validate(data["source"])}
        return data

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
    remedy = f"correct {path} ({documented} lists the members)"
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
    return read_yaml(path, Feed, "the feed file", "docs/feeds.md")


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
