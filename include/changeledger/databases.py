"""What a user configures of a database that several feeds tell: the reference, and what is tolerated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from changeledger.config import Feed, Settings, read_yaml
from changeledger.errors import ConfigError

# Verdicts on a change of which there may be too many; `reconcile.compare` says what they mean.
Counted = Literal["missing", "extra", "differs", "order", "representation"]


class Tolerance(BaseModel):
    """How many changes of a verdict one comparison of a table may have, before it warns, or fails."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    fail_above: Mapping[Counted, int] = {"missing": 0, "extra": 0, "differs": 0, "order": 0}
    warn_above: Mapping[Counted, int] = {"representation": 0}


class Database(BaseModel):
    """A database, and how its feeds are compared. Without a file of its own it has these defaults."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    database: str
    # The feed that the others are compared with; the primary one where none is named, else the first.
    reference: str | None = None
    # The feeds to compare; all that tell the database where none is named.
    feeds: tuple[str, ...] = ()
    compare: Tolerance = Tolerance()
    owner: str = "data-engineering"

    @property
    def comparison(self) -> str:
        """The name of its DAG, and of the folder of the report among the Data Docs, which Airflow serves."""
        return f"compare_{self.database}"

    def report(self, settings: Settings) -> Path:
        """The page of the comparisons."""
        return settings.data_docs / self.comparison / "index.html"

    def compared(self, feeds: Mapping[str, Feed]) -> tuple[Feed, list[Feed]]:
        """The reference, and the feeds that are compared with it. Raises ConfigError."""
        known = {f.feed: f for f in feeds.values() if f.database == self.database}
        wrong = [name for name in (*self.feeds, *filter(None, [self.reference])) if name not in known]
        if wrong:
            raise ConfigError(
                f"the database {self.database!r} has no feed {wrong[0]!r}",
                f"name feeds with `database: {self.database}`: {', '.join(known) or 'there are none'}",
            )
        chosen = [known[name] for name in self.feeds or known]
        first = next((f for f in chosen if f.primary), chosen[0]) if chosen else None
        reference = known[self.reference] if self.reference else first
        others = [f for f in chosen if f is not reference]
        if reference is None or not others:
            raise ConfigError(
                f"the database {self.database!r} has {len(chosen)} feed(s): there is nothing to compare",
                "give a second feed's YAML the same `database:`",
            )
        return reference, others


def load_databases(folder: Path, feeds: Mapping[str, Feed]) -> dict[str, Database]:
    """The databases of the feeds that more than one of them tells, by name; `folder` holds their YAML files.

    Raises ConfigError that names the file, the member and what is wrong.
    """
    found = {}
    for path in sorted(folder.glob("*.yaml")):
        database = read_yaml(path, Database, "the file", "docs/compare.md")
        found[database.database] = database
    names = [feed.database for feed in feeds.values()]
    several = {name for name in names if names.count(name) > 1}
    return {name: found.get(name) or Database(database=name) for name in sorted(several | set(found))}


def named_database(settings: Settings, feeds: Mapping[str, Feed], name: str) -> Database:
    """Raises ConfigError where no database of that name is told by several feeds."""
    known = load_databases(settings.databases, feeds)
    if name not in known:
        raise ConfigError(
            f"there is no database {name!r} that several feeds tell",
            f"name one of {', '.join(known) or 'none: give two feeds the same `database:`'}",
        )
    return known[name]
