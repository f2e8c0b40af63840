"""What a user configures of a database: how its feeds are compared, and held against the source."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import Field

from changeledger.config import CdcTablesSource, Feed, Settings, read_yaml
from changeledger.errors import ConfigError
from changeledger.strict import Strict

# Verdicts on a change of which there may be too many; `reconcile.compare` says what they mean.
Counted = Literal["missing", "extra", "differs", "order", "representation"]

# Whether verify reads the source: where nothing waits any more to be proved; in any case; or not at all.
NEEDED, NEW, KEPT = TAKES = ("needed", "new", "kept")


class Tolerance(Strict):
    """How many changes of a verdict one comparison of a table may have, before it warns, or fails."""

    fail_above: Mapping[Counted, int] = {"missing": 0, "extra": 0, "differs": 0, "order": 0}
    warn_above: Mapping[Counted, int] = {"representation": 0}


class Verify(Strict):
    """The source itself, from which rows are read to hold what is published against them."""

    # An Airflow connection, to the source or to a copy of it; that of the feed which reads SQL Server's own
    # CDC tables where none is named.
    connection: str | None = None
    # The schema that has lsn_time_mapping; None where the database at that connection has none.
    cdc_schema: str | None = None
    # Where a schema has another name there than in the feeds: {dbo: replica_dbo}.
    schemas: Mapping[str, str] = {}
    # How far the copy may be behind the source.
    lag: timedelta = Field(default=timedelta(0), ge=timedelta(0))
    # How long after the reading a feed's released window must end, before a difference is believed: longer
    # than the slowest capture tool takes.
    settle: timedelta = Field(default=timedelta(minutes=15), ge=timedelta(0))
    # What was read and not proved by then is dropped.
    keep: timedelta = Field(default=timedelta(hours=12), gt=timedelta(0))
    # Rows per Spark partition of one read; a table with more rows is read in parallel.
    partition_rows: int = Field(default=1_000_000, ge=1)


class Database(Strict):
    """A database: how its feeds are compared and verified. Without a file of its own, these defaults."""

    database: str
    # The feed that the others are compared with; the primary one where none is named, else the first.
    reference: str | None = None
    # The feeds to compare; all that tell the database where none is named.
    feeds: tuple[str, ...] = ()
    compare: Tolerance = Tolerance()
    # None: never.
    verify: Verify | None = Verify()
    owner: str = "data-engineering"

    @property
    def comparison(self) -> str:
        """The name of its DAG, and of the folder of the report among the Data Docs, which Airflow serves."""
        return f"compare_{self.database}"

    @property
    def verification(self) -> str:
        """The same of the proofs."""
        return f"verify_{self.database}"

    def report(self, settings: Settings) -> Path:
        """The page of the comparisons."""
        return settings.data_docs / self.comparison / "index.html"

    def proofs(self, settings: Settings) -> Path:
        """The page of the proofs."""
        return settings.data_docs / self.verification / "index.html"

    def compared(self, feeds: Mapping[str, Feed]) -> tuple[Feed, list[Feed]]:
        """The reference, and the feeds that are compared with it. Raises ConfigError."""
        reference, chosen = self._chosen(feeds)
        others = [f for f in chosen if f is not reference]
        if reference is None or not others:
            raise ConfigError(
                f"the database {self.database!r} has {len(chosen)} feed(s): there is nothing to compare",
                "give a second feed's YAML the same `database:`",
            )
        return reference, others

    def verified(self, feeds: Mapping[str, Feed]) -> tuple[Verify | None, list[Feed]]:
        """The source, where a connection to it is known, and the feeds to verify, the reference first."""
        reference, chosen = self._chosen(feeds)
        return self.source(feeds), sorted(chosen, key=lambda feed: feed is not reference)

    def source(self, feeds: Mapping[str, Feed]) -> Verify | None:
        """`verify` with its connection; None where there is none."""
        if self.verify is None or self.verify.connection is not None:
            return self.verify
        of_source = (
            (feed.connection, feed.source.cdc_schema)
            for feed in feeds.values()
            if feed.database == self.database and isinstance(feed.source, CdcTablesSource)
        )
        found = next(of_source, None)
        if found is None:
            return None
        return self.verify.model_copy(update={"connection": found[0], "cdc_schema": found[1]})

    def is_compared(self, feeds: Mapping[str, Feed]) -> bool:
        """Do several feeds tell it?"""
        return len(self._chosen(feeds)[1]) > 1

    def _chosen(self, feeds: Mapping[str, Feed]) -> tuple[Feed | None, list[Feed]]:
        """The reference, and all feeds that are looked at. Raises ConfigError."""
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


def load_databases(folder: Path, feeds: Mapping[str, Feed]) -> dict[str, Database]:
    """The databases of the feeds, by name; `folder` holds their YAML files.

    Raises ConfigError that names the file, the member and what is wrong.
    """
    found = {}
    for path in sorted(folder.glob("*.yaml")):
        database = read_yaml(path, Database, "the file", "docs/compare.md and docs/verify.md")
        found[database.database] = database
    names = {feed.database for feed in feeds.values()} | set(found)
    return {name: found.get(name) or Database(database=name) for name in sorted(names)}


def named_database(settings: Settings, feeds: Mapping[str, Feed], name: str) -> Database:
    """Raises ConfigError where no feed tells a database of that name."""
    known = load_databases(settings.databases, feeds)
    if name not in known:
        raise ConfigError(
            f"there is no feed of a database {name!r}",
            f"name one of {', '.join(known) or 'none: add a feed'}",
        )
    return known[name]
