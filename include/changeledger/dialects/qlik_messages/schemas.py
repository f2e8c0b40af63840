"""Which writer schema a Qlik message has: by its schema id, else by its table's name, else by its topic.

Metadata comes before the data of its version, but perhaps on another topic: data whose columns are not known
yet waits. What is said once holds for later windows, so every writer schema is remembered, those of tables
that the feed does not list among them: their data is to be known as such.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from changeledger.config.feed import Feed
from changeledger.dialects.qlik_messages import metadata, versions
from changeledger.dialects.qlik_messages.versions import Mark, Versions
from changeledger.model import change
from changeledger.model.contract import Contract

# What becomes of messages that are no table's.
METADATA = "metadata"
MALFORMED_METADATA = "malformed_metadata"
CONTRADICTS = "schema_contradicts"
NOT_IN_FEED = change.TABLE_NOT_IN_FEED
UNKNOWN = "metadata_unknown"

# Under this a schema is remembered for messages that carry no schema id: the table, when Kafka had it, when
# it says that it was written, and where it stands. Older stores have the first two.
_VERSION = "version of {} since "
_MARK = re.compile(r"(\d{20}|none)(?: stated (\d+|none) at (.+) (\d+) (\d+))?\Z", re.ASCII)
# Qlik's own tables: "Control tables" and "Apply exceptions" in the help of Qlik Replicate.
_CONTROL_TABLES = "attrep_"


class Label(NamedTuple):
    """What messages say of where they belong; None for what they do not say."""

    topic: str
    schema: str | None
    table: str | None
    schema_id: str | None


class NoSchema(NamedTuple):
    """Why messages have no writer schema."""

    reason: str
    detail: str | None = None


class WriterSchemas:
    """What is known of the tables' columns: from earlier windows, and from this one's metadata."""

    def __init__(self, feed: Feed, contracts: Mapping[str, Contract], known: Mapping[str, Contract]) -> None:
        self._feed = feed
        self._listed = [config.table for config in feed.tables]
        self._contracts = {table.lower(): contract for table, contract in contracts.items()}
        self._known = dict(known)
        self._new: dict[str, Contract] = {}
        # By table, in lower case.
        self._metadata: dict[str, dict[Mark, Contract]] = {}
        for name, writer_schema in known.items():
            mark = _mark(name, writer_schema.table)
            if mark is not None:
                self._metadata.setdefault(writer_schema.table.lower(), {})[mark] = writer_schema

    @property
    def new_writer_schemas(self) -> Mapping[str, Contract]:
        """The writer schemas that are new, as the metadata has them: the feed's YAML can change."""
        telling = {
            _name(mark, of_table[mark].table): of_table[mark]
            for of_table in self._metadata.values()
            for mark in versions.telling(of_table)
            if mark.place is not None
        }
        return self._new | {name: schema for name, schema in telling.items() if name not in self._known}

    def learn(self, text: str, mark: Mark) -> NoSchema:
        """What becomes of a metadata message. `mark`: without the time that the message states.

        A schema id never changes its meaning.
        """
        try:
            schema_id, writer_schema, stated_at = metadata.read(text)
        except ValueError as error:
            return NoSchema(MALFORMED_METADATA, str(error))
        table = writer_schema.table
        if schema_id is not None:
            if self._known.get(schema_id, writer_schema) != writer_schema:
                return NoSchema(CONTRADICTS, f"{schema_id} of {table} came before with other columns")
            if schema_id not in self._known:
                self._known[schema_id] = self._new[schema_id] = writer_schema
        self._metadata.setdefault(table.lower(), {})[mark._replace(stated_at=stated_at)] = writer_schema
        return NoSchema(METADATA)

    def routes(self, label: Label) -> Versions | NoSchema:
        """The writer schemas of the messages with a label, or why they have none."""
        if label.schema_id is not None and label.schema_id in self._known:
            return self._stated(self._of_id(label.schema_id))
        table = self._table(label)
        config = None if table is None else self._feed.table(table)
        if config is None and self._is_elsewhere(label, table):
            return NoSchema(NOT_IN_FEED)
        if config is not None and label.schema_id is None:
            of_table = self._metadata.get(config.table.lower())
            if of_table:
                return self._stated(versions.versions(of_table))
            contract = metadata.stated(config) or self._contracts.get(config.table.lower())
            if contract is not None:
                return versions.only(contract)
        return NoSchema(NOT_IN_FEED) if _is_qliks_own(label) else NoSchema(UNKNOWN, _waits_for(label, table))

    def _of_id(self, schema_id: str) -> Versions:
        writer_schema = self._known[schema_id]
        of_table = self._metadata.get(writer_schema.table.lower(), {})
        marks = (mark.moment for mark, one in of_table.items() if one == writer_schema)
        return versions.only(writer_schema, min(marks, default=0))

    def _stated(self, found: Versions) -> Versions | NoSchema:
        config = self._feed.table(found.versions[0].writer_schema.table)
        if config is None:
            return NoSchema(NOT_IN_FEED)
        return found.with_schemas(lambda writer_schema: metadata.with_stated(writer_schema, config))

    def _table(self, label: Label) -> str | None:
        """`schema.table` as the message names it; else the table that the topic is named after.

        That is a table of the feed, or one that has metadata. None if neither says one table.
        """
        if label.table is not None and label.schema is not None:
            return f"{label.schema}.{label.table}"
        name = label.table or label.topic
        tables = _ending(name, [*self._listed, *self._known_tables()]) or self._alike(name)
        if len(tables) == 1:
            return tables[0]
        return label.table if self._listed and not tables else None

    def _alike(self, name: str) -> Sequence[str]:
        """The feed's tables that have this name in some schema."""
        return _ending(name, self._listed or self._known_tables(), with_schema=False)

    def _is_elsewhere(self, label: Label, table: str | None) -> bool:
        """Is a message that is of no table of the feed surely of another one?

        Its own name for the table says so. The topic says so with a table that has metadata, or with a schema
        of the feed's tables; but a schema id decides, once its metadata is known.
        """
        if label.table is not None or label.schema_id is not None:
            return label.table is not None and table is not None
        if table is not None or self._alike(label.topic):
            return table is not None
        schemas = {name.lower().split(".")[0] for name in self._listed}
        of_metadata = _ending(label.topic, self._known_tables(), with_schema=False)
        return bool(of_metadata) or not schemas.isdisjoint(label.topic.lower().split(".")[-2:-1])

    def _known_tables(self) -> Sequence[str]:
        of_metadata = (next(iter(one.values())) for one in self._metadata.values())
        tables = (one.table for one in (*self._known.values(), *of_metadata, *self._contracts.values()))
        return list({table.lower(): table for table in tables}.values())


def _ending(name: str, tables: Sequence[str], *, with_schema: bool = True) -> list[str]:
    """The tables whose names a name ends with."""
    endings = [(table, table if with_schema else table.split(".", 1)[1]) for table in tables[::-1]]
    fitting = [table for table, ending in endings if f".{name}".lower().endswith(f".{ending}".lower())]
    return list({table.lower(): table for table in fitting}.values())


def _is_qliks_own(label: Label) -> bool:
    """Are messages of a control table of Qlik's (`attrep_status`, `attrep_apply_exceptions`, ...)?"""
    return (label.table or label.topic).lower().rpartition(".")[2].startswith(_CONTROL_TABLES)


def _waits_for(label: Label, table: str | None) -> str:
    if label.schema_id is not None:
        return f"no metadata yet: {label.schema_id}"
    if table is not None:
        return (
            f"no metadata of {table} yet: publish it on a topic of the feed, or state `columns:` and `key:`"
        )
    return (
        f"the topic {label.topic} names no table, nor does the message: name the topic schema.table, add "
        "schema and table to the messages in Qlik's task, or take the topic out of `topics:`"
    )


def _name(mark: Mark, table: str) -> str:
    topic, partition, offset = mark.place or ("", -1, -1)
    written_at, stated_at = (
        "none" if at is None else f"{at:020}" for at in (mark.written_at, mark.stated_at)
    )
    return f"{_VERSION.format(table.lower())}{written_at} stated {stated_at} at {topic} {partition} {offset}"


def _mark(name: str, table: str) -> Mark | None:
    """The place and times in a schema's name; None for the name of a schema id."""
    beginning = _VERSION.format(table.lower())
    found = _MARK.match(name, len(beginning)) if name.startswith(beginning) else None
    if found is None:
        return None
    written_at, stated_at, topic, partition, offset = found.groups()
    times = (None if at in {None, "none"} else int(at) for at in (written_at, stated_at))
    return Mark(None if topic is None else (topic, int(partition), int(offset)), *times)
