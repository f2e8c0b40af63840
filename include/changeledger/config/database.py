"""A database's configuration: how its feeds are compared with each other and verified with the source."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal

import yaml
from pydantic import Field, ValidationInfo, field_validator, model_validator

from changeledger.config.durations import Duration
from changeledger.config.feed import Feed
from changeledger.config.files import guess, misnamed, read_yaml
from changeledger.config.notify import OF_DATABASES, Notify, telling
from changeledger.config.object_path import PagePath
from changeledger.config.settings import Settings
from changeledger.config.sources import SqlServerCdcSource
from changeledger.model.base_model import Strict
from changeledger.model.column_names import alike
from changeledger.model.database_work import comparison_of, verification_of
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import choice

# Verdicts on changes that are limited in number; `compare.verdicts` explains them.
Counted = Literal["missing", "extra", "differs", "order", "representation"]

# Whether verify reads the source: if no snapshot waits to be proved any more (`auto`), always, or never.
Snapshot = Literal["auto", "fresh", "reuse"]
AUTO: Final = "auto"
FRESH: Final = "fresh"
REUSE: Final = "reuse"
SNAPSHOTS: Final[tuple[Snapshot, ...]] = (AUTO, FRESH, REUSE)


# A number of changes with one verdict.
_Limit = Annotated[int, Field(ge=0)]


class Tolerance(Strict):
    """How many changes of each verdict the comparison of one table may have before it warns or fails."""

    fail_above: Mapping[Counted, _Limit] = {"missing": 0, "extra": 0, "differs": 0, "order": 0}
    """How many changes of each verdict one table may have before its comparison fails. A verdict that is not
    named keeps its default."""
    warn_above: Mapping[Counted, _Limit] = {"representation": 0}
    """The same limit for a warning."""

    @field_validator("fail_above", "warn_above")
    @classmethod
    def _others_keep_their_default(
        cls, limits: Mapping[Counted, int], info: ValidationInfo
    ) -> Mapping[Counted, int]:
        default: Mapping[Counted, int] = cls.model_fields[info.field_name or ""].default
        return {**default, **limits}


class Verify(Strict):
    """How to read rows from the source itself, to compare them with what is published."""

    renamed: ClassVar[Mapping[str, str]] = {"keep": "snapshot_ttl", "settle": "grace_period"}

    connection: str | None = None
    """The Airflow connection to the source or a copy of it. Default: the connection of the feed of SQL
    Server's own CDC tables."""
    cdc_schema: str | None = None
    """The schema of `lsn_time_mapping` at that connection. Without it: the database there has no CDC."""
    schemas: Mapping[str, str] = {}
    """Schemas whose name there differs from the name in the feeds: `{dbo: replica_dbo}`. Names are not
    case-sensitive."""
    lag: Duration = Field(default=timedelta(0), ge=timedelta(0))
    """How far the copy may lag behind the source."""
    grace_period: Duration = Field(default=timedelta(minutes=15), ge=timedelta(0))
    """A difference counts once the feed's released windows end this long after the reading. It must be longer
    than the slowest capture tool takes."""
    snapshot_ttl: Duration = Field(default=timedelta(hours=12), gt=timedelta(0))
    """How long rows that were read are kept. If they are not proved by then, they are dropped."""
    partition_rows: int = Field(default=1_000_000, ge=1)
    """How many rows one Spark task reads. A table with more rows is read in parallel."""

    @field_validator("schemas")
    @classmethod
    def _by_names_in_lower_case(cls, schemas: Mapping[str, str]) -> Mapping[str, str]:
        if twice := alike([*schemas]):
            raise ValueError(f"names a schema twice: {', '.join(twice)}")
        return {name.lower(): place for name, place in schemas.items()}

    @model_validator(mode="after")
    def _schema_is_of_its_connection(self) -> Verify:
        if self.cdc_schema is not None and self.connection is None:
            raise ValueError(
                "`cdc_schema` belongs to a database at `connection`: set `connection`, too, or leave both out"
            )
        return self


class Database(Strict):
    """How a database's feeds are compared and verified. A database without a file has these defaults."""

    database: str
    """The database, as in the feeds' YAML."""
    reference: str | None = None
    """The feed that the others are compared with. Default: the primary feed, else the first."""
    feeds: tuple[str, ...] = ()
    """The feeds to compare and verify. Default: all feeds of the database."""
    compare: Tolerance = Tolerance()
    """What a comparison tolerates, see below."""
    verify: Verify | None = Verify()
    """How the published tables are verified, see below. `null`: they are not."""
    notify: tuple[Notify, ...] = ()
    """The notifiers to call when feeds disagree, published tables drift, or a comparison or proof fails or
    recovers."""
    owner: str = "data-engineering"
    """The owner of the DAGs."""

    @field_validator("feeds")
    @classmethod
    def _are_named_once(cls, feeds: tuple[str, ...]) -> tuple[str, ...]:
        if twice := sorted({name for name in feeds if feeds.count(name) > 1}):
            raise ValueError(f"{', '.join(twice)} is listed twice")
        return feeds

    @field_validator("notify")
    @classmethod
    def _can_be_told(cls, notify: tuple[Notify, ...]) -> tuple[Notify, ...]:
        return telling(notify, OF_DATABASES)

    @property
    def comparison(self) -> str:
        """The name of the comparison's DAG, and of its report's folder among the Data Docs."""
        return comparison_of(self.database)

    @property
    def verification(self) -> str:
        """The name of the proofs' DAG and of their page's folder."""
        return verification_of(self.database)

    def report(self, settings: Settings) -> PagePath:
        """Returns the page of the comparisons."""
        return settings.data_docs / self.comparison / "index.html"

    def proofs(self, settings: Settings) -> PagePath:
        """Returns the page of the proofs."""
        return settings.data_docs / self.verification / "index.html"

    def compared(self, feeds: Mapping[str, Feed]) -> tuple[Feed, list[Feed]]:
        """Returns the reference and the feeds to compare with it. Raises ConfigError if there are none."""
        reference, chosen = self.chosen(feeds)
        others = [f for f in chosen if f is not reference]
        if reference is None or not others:
            raise ConfigError(
                f"the database {self.database!r} has {len(chosen)} feed(s): there is nothing to compare",
                "give a second feed's YAML the same `database:`",
            )
        return reference, others

    def verified(self, feeds: Mapping[str, Feed]) -> tuple[Verify | None, list[Feed]]:
        """Returns the source (None without a known connection) and the feeds to verify, reference first."""
        reference, chosen = self.chosen(feeds)
        return self.source(feeds), sorted(chosen, key=lambda feed: feed is not reference)

    def source(self, feeds: Mapping[str, Feed]) -> Verify | None:
        """Returns `verify` with its connection, or None if no connection is known."""
        if self.verify is None or self.verify.connection is not None:
            return self.verify
        for feed in feeds.values():
            if feed.database == self.database and isinstance(feed.source, SqlServerCdcSource):
                place = {"connection": feed.connection, "cdc_schema": feed.source.cdc_schema}
                return self.verify.model_copy(update=place)
        return None

    def is_compared(self, feeds: Mapping[str, Feed]) -> bool:
        """Returns whether there is a feed besides the reference."""
        reference, chosen = self.chosen(feeds)
        return any(feed is not reference for feed in chosen)

    def is_verified(self, feeds: Mapping[str, Feed]) -> bool:
        """Returns whether verifying is enabled and there is a feed to verify."""
        return self.verify is not None and bool(self.chosen(feeds)[1])

    def unread(self, feeds: Mapping[str, Feed]) -> ConfigError | None:
        """Returns an error for settings that have no effect, such as names that no feed has, or None.

        `feeds` must be all feeds.
        """
        of_database = [feed for feed in feeds.values() if feed.database == self.database]
        names = sorted({feed.database for feed in feeds.values()})
        if names and not of_database:
            said = f"no feed has the database {self.database!r}{guess(self.database, names)}"
            return ConfigError(said, f"use a name that feeds have as `database:`: {', '.join(names)}")
        primary = [feed.feed for feed in of_database if feed.primary]
        if len(primary) > 1 and self.reference is None:
            said = f"{' and '.join(primary)} are both the primary feed of {self.database}"
            return ConfigError(
                said, "leave `primary: true` to one, or name the `reference:` in the database's YAML"
            )
        known = {config.table.partition(".")[0].lower() for feed in of_database for config in feed.tables}
        others = sorted(self.verify.schemas.keys() - known) if self.verify else []
        if of_database and others:
            said = (
                f"{self.database}: `verify: schemas:` names {', '.join(others)}, but no feed has a table of "
                "that schema"
            )
            return ConfigError(said, f"name schemas as the feeds do: {', '.join(sorted(known))}")
        return None

    def chosen(self, feeds: Mapping[str, Feed]) -> tuple[Feed | None, list[Feed]]:
        """Returns the reference and all feeds to read. Raises ConfigError if a named one is not known."""
        known = {f.feed: f for f in feeds.values() if f.database == self.database}
        wrong = [name for name in (*self.feeds, *filter(None, [self.reference])) if name not in known]
        if wrong:
            raise ConfigError(
                f"the database {self.database!r} has no feed {wrong[0]!r}",
                f"name feeds with `database: {self.database}`: {', '.join(known) or 'there are none'}",
            )
        chosen = [known[name] for name in self.feeds or known]
        first = next((f for f in chosen if f.primary), chosen[0]) if chosen else None
        return known[self.reference] if self.reference else first, chosen


def readable_databases(
    folder: Path, feeds: Mapping[str, Feed]
) -> tuple[dict[str, Database], dict[str, ConfigError]]:
    """Returns the feeds' databases by name, and the errors of those that are left out.

    `folder` holds the databases' YAML files. A broken file stops no other database.
    """
    databases: dict[str, Database] = {}
    errors = {_named_in(path): error for path, error in misnamed(folder)}
    for path in sorted(folder.glob("*.yaml")):
        try:
            database = read_yaml(path, Database, "the file", "docs/settings.md")
            database.chosen(feeds)
            if database.database in databases:
                said = f"two files of {folder} are for the database {database.database!r}"
                raise ConfigError(said, f"remove one, see {path}")
            databases[database.database] = database
        except ConfigError as error:
            errors[_named_in(path)] = error
    for name in {feed.database for feed in feeds.values()} - databases.keys():
        databases[name] = Database(database=name)
    return {name: databases[name] for name in sorted(databases.keys() - errors.keys())}, errors


def _named_in(path: Path) -> str:
    """Returns the database that a possibly broken file names, or else the file's name."""
    try:
        said = yaml.safe_load(path.read_text("utf-8", "replace"))
    except (OSError, yaml.YAMLError):
        return path.stem
    return str(said.get("database", path.stem)) if isinstance(said, dict) else path.stem


def named_database(settings: Settings, feeds: Mapping[str, Feed], name: str) -> Database:
    """Returns the database of that name. Raises ConfigError if no feed captures it or its file is broken."""
    known, errors = readable_databases(settings.databases, feeds)
    if name in errors:
        raise errors[name]
    if name not in known:
        remedy = choice(name, known) if known else "add a feed"
        raise ConfigError(f"there is no feed of a database {name!r}", remedy)
    return known[name]
