"""What a user configures: settings of the installation, connections, and feeds (YAML)."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from zoneinfo import ZoneInfo

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from changeledger.errors import ConfigError

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


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ColumnConfig(_Strict):
    """A column that the user states: `type` is a SQL Server type such as `decimal(18,4)`."""

    name: str
    type: str
    nullable: bool = True


class TableConfig(_Strict):
    """One source table. Key and columns are given only where the feed does not tell them itself."""

    table: str = Field(pattern=r"^[^.]+\.[^.]+$", description="schema.table, as the source writes it")
    key: tuple[str, ...] = ()
    columns: tuple[ColumnConfig, ...] = ()


class KafkaTopics(_Strict):
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


class CdcTablesSource(_Strict):
    """SQL Server CDC tables: the schema that holds `change_tables`, `lsn_time_mapping` and `*_CT`."""

    cdc_schema: str = "cdc"
    # Rows per Spark partition of one read; a window with more rows is read in parallel.
    partition_rows: int = Field(default=200_000, ge=1)


class QlikTablesSource(_Strict):
    """Qlik change tables `<table>__ct`, in the database that the task writes to."""

    # The schema that holds them, where it is not the source table's own.
    target_schema: str | None = None
    # The prefix of the header columns, as the task's settings have it.
    header_prefix: str = "header__"
    # Targets that know no empty text hold '' where the source has NULL.
    empty_is_null: bool = False
    # Rows per Spark partition of one read; a window with more rows is read in parallel.
    partition_rows: int = Field(default=200_000, ge=1)


class Feed(_Strict):
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


SOURCE_MODELS: dict[str, type[_Strict]] = {
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


class Request(_Strict):
    """What was asked of a run beside its time; the defaults are what a schedule asks.

    `incremental` and `window` read all tables up to the window's end; a `window` of chosen tables only reads
    again what was released; `replay` reads quarantined records again (ADR 0007).
    """

    mode: Literal["incremental", "window", "replay"] = "incremental"
    # Empty: all tables of the feed.
    tables: tuple[str, ...] = ()
    # Everything but publish.
    dry_run: bool = False
    # Violated rules up to this severity do not stop the run; critical ones always do.
    tolerate: Literal["nothing", "error"] = "nothing"
    reason: str = ""
    # Who asked: Airflow's id of the run. Empty for a job that was started by hand.
    run: str = ""

    @model_validator(mode="after")
    def _fits_together(self) -> Request:
        if self.tables and self.mode == "incremental":
            raise ValueError(
                "tables are chosen with the mode `window` (a released window is read again) or `replay`; "
                "an incremental run accounts for the records of all tables"
            )
        if self.mode == "replay" and self.dry_run:
            raise ValueError(
                "`replay` has no dry run: the next run would read what it puts on the list. "
                "`changeledger decode` shows how a record is read"
            )
        if self.tolerate != "nothing" and not self.reason.strip():
            raise ValueError("`tolerate` needs a `reason`: it is kept with the release")
        if self.tolerate == "nothing" and self.reason.strip():
            raise ValueError("a `reason` is for `tolerate`; choose `error` there, or leave the reason empty")
        return self

    @property
    def reads_again(self) -> bool:
        """Is it a run of its own over a time that other runs have covered?"""
        return self.mode == "replay" or bool(self.tables)

    @property
    def partial(self) -> bool:
        """Does it leave the records of other tables, and what waits, as they are?"""
        return self.mode == "window" and bool(self.tables)

    def argument(self) -> str:
        """As a job's command line has it: JSON of what is not the default."""
        return self.model_dump_json(exclude_defaults=True)


class Window(_Strict):
    """What one run covers: `[start, end)` in time; its source positions live in the control store."""

    start: datetime
    end: datetime
    request: Request = Request()

    @model_validator(mode="after")
    def _is_an_interval(self) -> Window:
        if self.start.tzinfo is None or self.end.tzinfo is None:
            raise ValueError("window times need a time zone")
        if self.start >= self.end:
            raise ValueError(f"the window is empty or reversed: {self.start} .. {self.end}")
        return self

    @property
    def id(self) -> str:
        """Stable name: the same interval is the same window, whoever asks for it.

        But for what reads again: every such run is a window of its own, which its tasks share.
        """
        times = [t.astimezone(UTC).strftime("%Y%m%dT%H%M%S%fZ") for t in (self.start, self.end)]
        if self.request.reads_again:
            asked = f"{self.request.mode} {self.request.tables} {self.request.run}"
            times.append(hashlib.sha256(asked.encode()).hexdigest()[:8])
        return "_".join(times)

    @property
    def branch(self) -> str:
        return branch_of(self.id)

    @property
    def holder(self) -> str:
        """Who holds the feed's lease: two runs over one window are two."""
        return f"{self.id} ({self.request.run})" if self.request.run else self.id


def branch_of(window_id: str) -> str:
    """The Iceberg branch on which a window is built."""
    return f"run_{window_id}"
