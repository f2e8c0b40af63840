"""A feed, as its YAML file describes it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal, Protocol, TypeVar
from zoneinfo import ZoneInfo

from pydantic import Field, SerializeAsAny, ValidationInfo, field_validator, model_validator

from changeledger.config.durations import Duration
from changeledger.config.notify import OF_FEEDS, Notify, telling
from changeledger.config.sources import SOURCE_MODELS
from changeledger.config.tables import TableConfig
from changeledger.model.base_model import Strict
from changeledger.model.contract import ByteOrder
from changeledger.model.database_work import BEGINNINGS
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import choice
from changeledger.model.table_names import FeedTables, TableNames, distinct_names

_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}\Z")
# Not allowed, because a feed's name is also that of its DAG and of its namespace in the lake.
_RESERVED = ("changeledger", "maintain", "default", "information_schema")
_ANY_DAY = datetime(2020, 1, 1)
# Sources that give schema and table separately; topics join the two with a dot.
_READS_DOTTED_NAMES = ("sqlserver_cdc", "qlik_tables")


class _HasTable(Protocol):
    @property
    def table(self) -> str: ...


_OfTable = TypeVar("_OfTable", bound=_HasTable)


class Feed(Strict):
    """One dialect from one connection, for the tables of one database."""

    renamed: ClassVar[Mapping[str, str]] = {
        "keep": "retention", "pending_limit": "pending_timeout", "late_after": "deadline",
    }  # fmt: skip

    feed: str
    """The name of the feed, of its DAG, and of the namespace in the lake (`lake.<feed>.*`)."""
    dialect: str
    """What writes the records: `debezium`, `ces`, `qlik_messages`, `qlik_tables` or `sqlserver_cdc`."""
    database: str
    """The source database. Feeds with the same name are compared with each other."""
    connection: str
    """The Airflow connection of the source."""
    source: SerializeAsAny[Strict]
    """The dialect's settings, see below."""
    tables: Annotated[tuple[TableConfig, ...], Field(min_length=1)]
    """The tables to read."""
    primary: bool = False
    """`true`: this feed is the reference when several feeds capture one database."""
    time_zone: str = "UTC"
    """The IANA time zone of times that `sqlserver_cdc` writes without a zone (`cdc.lsn_time_mapping`); other
    dialects write UTC. It cannot change while rows are published."""
    mask_order: ByteOrder | Literal["auto"] = "auto"
    """The byte order of change masks: which end holds the first columns. `auto`: detected for each table from
    its records."""
    quarantine_limit: float = Field(default=0.1, ge=0, le=1)
    """The share of a window's records that may be quarantined before the audit stops the run; 1: no limit.
    Below the limit each quarantined record is a warning."""
    image_chain: Literal["report", "stop"] = "report"
    """What a break of [the image chain](when-a-run-stops.md#the-image-chain) does: `report` warns, `stop`
    stops the run."""
    pending_timeout: Duration = Field(default=timedelta(days=7), gt=timedelta(0))
    """How long a record may wait for the rest of a split message or for its metadata. Then it is
    quarantined."""
    spark_connection: str = "changeledger_spark"
    """The Airflow connection of Spark."""
    schedule: str = "0 * * * *"
    """Cron, in UTC. A run covers the interval that has just ended."""
    owner: str = "data-engineering"
    """The owner of the DAG."""
    retention: Duration = Field(default=timedelta(days=30), gt=timedelta(0))
    """How long releases can be read by tag."""
    raw_retention: Duration = Field(default=timedelta(days=90), gt=timedelta(0))
    """How long raw records are kept as received; quarantined and pending records stay longer."""
    docs_retention: Duration = Field(default=timedelta(days=30), gt=timedelta(0))
    """How long Data Docs, verdicts and unreleased branches are kept."""
    deadline: Duration = Field(default=timedelta(hours=3), gt=timedelta(0))
    """How late a run may end, and how long records may wait at the source, before it is reported ([a feed
    that stands still](when-a-run-stops.md#a-feed-that-stands-still))."""
    notify: tuple[Notify, ...] = ()
    """The notifiers to call when the feed fails, is late, quarantines records or recovers, see below."""
    execution_timeout: Duration = Field(default=timedelta(hours=2), gt=timedelta(0))
    """How long a task may run. Then it is stopped and retried from the beginning of its stage ([a long first
    load](running.md#a-long-first-load))."""

    @field_validator("feed", "database")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _NAME.match(value):
            raise ValueError("must be lower-case letters, digits and underscores, beginning with a letter")
        return value

    @field_validator("feed")
    @classmethod
    def _is_free(cls, value: str) -> str:
        if value in _RESERVED or value.startswith(BEGINNINGS):
            raise ValueError(
                f"{value!r} may be a DAG or a namespace of this program's own; choose another name: not "
                f"{', '.join(_RESERVED)}, and none that begins with {' or '.join(BEGINNINGS)}"
            )
        return value

    @field_validator("dialect")
    @classmethod
    def _is_a_dialect(cls, value: str) -> str:
        if value not in SOURCE_MODELS:
            raise ValueError(f"{value!r} is not one of {', '.join(sorted(SOURCE_MODELS))}")
        return value

    @field_validator("time_zone")
    @classmethod
    def _is_a_zone(cls, value: str, info: ValidationInfo) -> str:
        try:
            ZoneInfo(value)
        # A folder of zones, such as `Europe`, raises an OSError.
        except (KeyError, ValueError, OSError) as error:
            raise ValueError(f"{value!r} is not an IANA time zone") from error
        dialect = info.data.get("dialect")
        if value != "UTC" and dialect in SOURCE_MODELS and dialect != "sqlserver_cdc":
            raise ValueError(f"{dialect} has no times without a zone except in UTC: leave it out")
        return value

    @field_validator("notify")
    @classmethod
    def _can_be_told(cls, notify: tuple[Notify, ...]) -> tuple[Notify, ...]:
        return telling(notify, OF_FEEDS)

    @field_validator("schedule")
    @classmethod
    def _is_a_cron_expression(cls, value: str) -> str:
        # Imported here because Spark's workers lack the package; they read no YAML.
        from croniter import CroniterError, croniter  # noqa: PLC0415

        try:
            # Only this finds a date that never comes, such as 31 February.
            croniter(value, _ANY_DAY).get_next()
        except CroniterError as error:
            raise ValueError(
                f"{value!r} is not a cron expression: {error}; write for example '0 * * * *'"
            ) from None
        return value

    @field_validator("source", mode="before")
    @classmethod
    def _source_of_the_dialect(cls, value: Any, info: ValidationInfo) -> Any:
        """Validates `source` with the dialect's own model, so that errors name the right settings."""
        if not isinstance(value, dict):
            return value
        model = SOURCE_MODELS.get(info.data.get("dialect", ""))
        # The source of an unknown dialect cannot be validated.
        return Strict() if model is None else model.model_validate(value)

    @model_validator(mode="after")
    def _tables_can_be_told_apart(self) -> Feed:
        names = [t.table.lower() for t in self.tables]
        twice = [t.table for t in self.tables if names.count(t.table.lower()) > 1]
        if twice:
            raise ValueError(
                f"table listed twice: {', '.join(twice)}; tables whose names differ in case only need a feed "
                "each, every feed with another `database:`"
            )
        dotted = [t.table for t in self.tables if t.table.count(".") > 1]
        if dotted and self.dialect not in _READS_DOTTED_NAMES:
            raise ValueError(
                f"{', '.join(dotted)} is not `schema.table`; tables whose names have a dot cannot be read "
                "from messages"
            )
        try:
            self.names  # noqa: B018 - raises if two names in the lake are the same
        except ConfigError as error:
            raise ValueError(f"{error.message}: {error.remedy}") from None
        return self

    def __hash__(self) -> int:
        """Hashes the name: expectations and arguments of notifiers are mappings, which are not hashable."""
        return hash(self.feed)

    @property
    def namespace(self) -> str:
        """The lake namespace that holds every table of this feed."""
        return self.feed

    @property
    def lake(self) -> FeedTables:
        """The feed's tables in the lake that belong to no source table."""
        return FeedTables.of(self.namespace)

    @property
    def names(self) -> Mapping[str, TableNames]:
        """The names in the lake of each source table."""
        return distinct_names(self.namespace, (t.table for t in self.tables))

    def only(self, tables: Sequence[str]) -> Feed:
        """Returns the feed with these tables only. Raises ConfigError if it lacks one."""
        configs = [self.table(name) for name in tables]
        missing = [name for name, config in zip(tables, configs, strict=True) if config is None]
        if missing:
            raise ConfigError(
                f"the feed {self.feed!r} has no table {', '.join(missing)}",
                choice(missing[0], (t.table for t in self.tables)),
            )
        return self.model_copy(update={"tables": tuple(t for t in self.tables if t in configs)})

    def table(self, name: str) -> TableConfig | None:
        """Returns the configured table of that `schema.table` name in any case; see `source_names.meant`."""
        return next((t for t in self.tables if t.table.lower() == name.lower()), None)

    def as_listed(self, name: str) -> str:
        """Returns the table's name as the feed writes it, or `name` if the feed does not list the table."""
        config = self.table(name)
        return name if config is None else config.table

    def listed(self, rows: Iterable[_OfTable]) -> list[_OfTable]:
        """Returns the rows of tables that the feed lists. Others stay stored: they may be listed again."""
        return [row for row in rows if self.table(row.table) is not None]
