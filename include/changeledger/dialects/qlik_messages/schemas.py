"""Finds the writer schema of a Qlik message: by its schema id, else its table's name, else its topic.

Metadata comes before the data of its version, but perhaps on another topic: data whose columns are not known
yet waits. Metadata also holds for later windows, so every writer schema is remembered. So are those of tables
that the feed does not list, by which their data is recognized.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from changeledger.config.feed import Feed
from changeledger.config.tables import TableConfig
from changeledger.dialects.qlik_messages import metadata, versions
from changeledger.dialects.qlik_messages.known_names import KnownNames
from changeledger.dialects.qlik_messages.versions import Mark, Versions
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.model.source_names import TABLES_ALIKE, meant, not_meant
from changeledger.model.stated_key import keyed

# The reasons of messages that belong to no table.
METADATA = "metadata"
MALFORMED_METADATA = "malformed_metadata"
CONTRADICTS = "schema_contradicts"
NOT_IN_FEED = change.TABLE_NOT_IN_FEED
UNKNOWN = "metadata_unknown"

# The names of schemas that are remembered for messages without a schema id: the table, the time of the
# metadata's Kafka message, the time that the metadata states, and its position.
_VERSION = "version of {} since"
_NONE = "none"
_MARK = re.compile(r" (\d{20}|none) (\d{20}|none) (.+) (\d+) (\d+)\Z", re.ASCII)
# Qlik's own tables: "Control tables" and "Apply exceptions" in the help of Qlik Replicate.
_CONTROL_TABLES = "attrep_"


class Label(NamedTuple):
    """What messages say about where they belong; None for what they do not say."""

    topic: str
    schema: str | None
    table: str | None
    schema_id: str | None


class NoSchema(NamedTuple):
    """Why messages have no writer schema."""

    reason: str
    detail: str | None = None


class WriterSchemas:
    """The columns of tables, as known from earlier windows and from this one's metadata."""

    def __init__(self, feed: Feed, contracts: Mapping[str, Contract], known: Mapping[str, Contract]) -> None:
        self._feed = feed
        self._listed = KnownNames(config.table for config in feed.tables)
        self._contracts = {table.lower(): contract for table, contract in contracts.items()}
        self._known = dict(known)
        self._new: dict[str, Contract] = {}
        # By table, as metadata writes it.
        self._metadata: dict[str, dict[Mark, Contract]] = {}
        # The tables that have metadata, those that data names, and those that topics name.
        self._in_metadata = KnownNames(writer_schema.table for writer_schema in known.values())
        self._in_data, self._in_topics = KnownNames(), KnownNames()
        # By topic, in lower case.
        self._names_of_topics: dict[str, set[str]] = {}
        of_contracts = (contract.table for contract in contracts.values())
        self._tables = KnownNames(
            (*(config.table for config in feed.tables), *(w.table for w in known.values()), *of_contracts)
        )
        for name, writer_schema in known.items():
            mark = _mark(name, writer_schema.table)
            if mark is not None:
                self._metadata.setdefault(writer_schema.table, {})[mark] = writer_schema

    @property
    def new_writer_schemas(self) -> Mapping[str, Contract]:
        """The new writer schemas as metadata states them, without the feed's YAML, which can change."""
        telling = {
            _name(mark, of_table[mark].table): of_table[mark]
            for of_table in self._metadata.values()
            for mark in versions.telling(of_table)
        }
        return self._new | {name: schema for name, schema in telling.items() if name not in self._known}

    def learn(self, text: str, mark: Mark) -> NoSchema:
        """Learns a metadata message, and returns its outcome. `mark` lacks the time that the message states.

        A schema id never changes its meaning.
        """
        try:
            schema_id, writer_schema, stated_at = metadata.read(text)
        except ValueError as error:
            return NoSchema(MALFORMED_METADATA, str(error))
        table = writer_schema.table
        if schema_id is not None:
            if self._known.get(schema_id, writer_schema) != writer_schema:
                return NoSchema(CONTRADICTS, f"{schema_id} of {table} came earlier with other columns")
            if schema_id not in self._known:
                self._known[schema_id] = self._new[schema_id] = writer_schema
        self._metadata.setdefault(table, {})[mark._replace(stated_at=stated_at)] = writer_schema
        self._in_metadata.add(table)
        self._tables.add(table)
        return NoSchema(METADATA)

    def see(self, labels: Iterable[Label]) -> None:
        """Notes how the window's data, or else its topics, name its tables."""
        names = [(label, name) for label in labels if (name := self._name_in(label)) is not None]
        self._in_data = KnownNames(name for label, name in names if _is_whole(label))
        in_topics = [(label.topic.lower(), name) for label, name in names if not _is_whole(label)]
        self._in_topics = KnownNames(name for _, name in in_topics)
        self._names_of_topics = {}
        for topic, name in in_topics:
            self._names_of_topics.setdefault(topic, set()).add(name)

    def routes(self, label: Label) -> Versions | NoSchema:
        """Returns the writer schemas of the messages with a label, or why they have none."""
        if label.schema_id is not None and label.schema_id in self._known:
            return self._stated(self._of_id(label.schema_id))
        table = self._table(label)
        config = None if table is None else self._feed.table(table)
        if config is None or table is None:
            elsewhere, unknown = self._elsewhere(label, table), NoSchema(UNKNOWN, _waits_for(label))
            return unknown if elsewhere is None else NoSchema(NOT_IN_FEED, elsewhere)
        known = None if label.schema_id is not None else self._by_name(label, table, config)
        if known is not None:
            return known
        return NoSchema(UNKNOWN, _waits_for(label, config.table))

    def _by_name(self, label: Label, table: str, config: TableConfig) -> Versions | NoSchema | None:
        """Returns the writer schemas of messages without a schema id; None if their table is unknown."""
        meant_name = self._own_name(config)
        if self._is_another(label, table, meant_name):
            name = self._name_in(label) or table
            return NoSchema(TABLES_ALIKE, not_meant(name, config.table, meant_name))
        of_table = self._metadata.get(meant_name or "")
        if of_table:
            return self._stated(versions.versions(of_table))
        contract = metadata.stated(config) or self._contracts.get(config.table.lower())
        if contract is not None and (why := metadata.contradiction(contract, config)) is not None:
            return NoSchema(CONTRADICTS, why)
        if contract is None:
            return None
        return versions.only(keyed(contract, config.key).read_as(meant_name))

    def _of_id(self, schema_id: str) -> Versions:
        writer_schema = self._known[schema_id]
        of_table = self._metadata.get(writer_schema.table, {})
        marks = (mark.moment for mark, schema in of_table.items() if schema == writer_schema)
        return versions.only(writer_schema, min(marks, default=0))

    def _stated(self, table_versions: Versions) -> Versions | NoSchema:
        name = table_versions.versions[0].writer_schema.table
        config = self._feed.table(name)
        if config is None:
            return NoSchema(NOT_IN_FEED, name)
        meant_name = self._own_name(config)
        if name != meant_name:
            return NoSchema(TABLES_ALIKE, not_meant(name, config.table, meant_name))
        for version in table_versions.versions:
            if (why := metadata.contradiction(version.writer_schema, config)) is not None:
                return NoSchema(CONTRADICTS, why)
        return table_versions.with_schemas(lambda writer_schema: metadata.with_stated(writer_schema, config))

    def _own_name(self, config: TableConfig) -> str | None:
        """Returns how metadata, else data, else topics name a feed's table; None if several may be meant."""
        contract = self._contracts.get(config.table.lower())
        known = None if contract is None else contract.source_table
        of_all = self._in_metadata, self._in_data, self._in_topics
        said = (names.same(config.table) for names in of_all)
        written = next(filter(None, said), [config.table])
        return meant(config.table, known, set(written))

    def _is_another(self, label: Label, table: str, meant_name: str | None) -> bool:
        """Returns whether it is another table than the feed's, with a name that differs only in case.

        A topic, or a table's name without a schema, decides if metadata has tables with other cases of the
        name, or nothing else names it. Else a topic may use any case, unless another has the exact name.
        """
        name = self._name_in(label)
        if _is_whole(label):
            return name != meant_name
        names = self._in_metadata.same(table)
        if not names and not self._in_data.same(table) and self._in_topics:
            return name != meant_name
        if names in ([], [meant_name]):
            of_alike = self._names_of_topics.get(label.topic.lower(), ())
            return name != meant_name and meant_name in of_alike
        said = f".{label.table or label.topic}"
        whole = [name for name in names if said.endswith(f".{name}")]
        in_topic = whole or [name for name in names if said.endswith(f".{name.split('.', 1)[1]}")]
        return in_topic != [meant_name]

    def _table(self, label: Label) -> str | None:
        """Returns `schema.table` as the message names it, else the table that the topic is named after.

        The latter is a table of the feed, or one that has metadata. None if neither names a single table.
        """
        if label.table is not None and label.schema is not None:
            return f"{label.schema}.{label.table}"
        name = label.table or label.topic
        tables = self._tables.ending(name) or self._alike(name)
        if len(tables) == 1:
            return tables[0]
        return label.table if self._listed and not tables else None

    def _name_in(self, label: Label) -> str | None:
        """Returns the table as the message writes it, else as its topic does; None if neither names one."""
        if _is_whole(label):
            return f"{label.schema}.{label.table}"
        table, said = self._table(label), f".{label.table or label.topic}"
        schema, _, name = (table or "").partition(".")
        if not name or not said.lower().endswith(f".{name.lower()}"):
            return None
        is_with_schema = said.lower().endswith(f".{schema.lower()}.{name.lower()}")
        return said[-len(f"{schema}.{name}") :] if is_with_schema else f"{schema}.{said[-len(name) :]}"

    def _alike(self, name: str) -> list[str]:
        """The feed's tables that have this name in some schema."""
        return (self._listed or self._tables).ending(name, with_schema=False)

    def _elsewhere(self, label: Label, table: str | None) -> str | None:
        """Returns the table of messages that are certainly of none of the feed's; None if they may be.

        It is certain by the message's own name of the table, by the topic of a control table of Qlik's, or by
        a topic named after a table with metadata or in a schema of the feed's tables. But if the message has
        a schema id, that decides once its metadata is known.
        """
        if label.table is not None or (label.schema_id is None and table is not None):
            return table
        if _is_qliks_own(label.topic):
            return label.topic
        if label.schema_id is not None or self._alike(label.topic):
            return None
        schemas = {config.table.lower().split(".")[0] for config in self._feed.tables}
        parts = label.topic.split(".")[-2:]
        if len(parts) > 1 and parts[0].lower() in schemas:
            return ".".join(parts)
        return next(iter(self._tables.ending(label.topic, with_schema=False)), None)


def _is_whole(label: Label) -> bool:
    """Returns whether the message itself names its schema and table."""
    return None not in {label.schema, label.table}


def _is_qliks_own(name: str) -> bool:
    """Returns whether it is the name of a control table, such as `attrep_status`."""
    return name.lower().rpartition(".")[2].startswith(_CONTROL_TABLES)


def _waits_for(label: Label, table: str | None = None) -> str:
    if label.schema_id is not None:
        return (
            f"no metadata for the schema id {label.schema_id} yet: publish it to a topic of the feed. "
            "If retention has removed it, stop and resume the task, which then writes it again"
        )
    if table is not None:
        return (
            f"no metadata for {table} yet: publish it to a topic of the feed, or state `columns:` and `key:`"
        )
    return (
        f"neither the topic {label.topic} nor its messages name a known table: name the topic schema.table, "
        "have Qlik write the table's names or a schema id, or remove the topic from `topics:`"
    )


def _name(mark: Mark, table: str) -> str:
    times = (_NONE if at is None else f"{at:020}" for at in (mark.written_at, mark.stated_at))
    return " ".join([_VERSION.format(table.lower()), *times, *map(str, mark.place)])


def _mark(name: str, table: str) -> Mark | None:
    """Returns the position and times in a schema's name; None if the name is a schema id."""
    beginning = _VERSION.format(table.lower())
    match = _MARK.match(name, len(beginning)) if name.startswith(beginning) else None
    if match is None:
        return None
    written_at, stated_at, topic, partition, offset = match.groups()
    return Mark(
        (topic, int(partition), int(offset)),
        *(None if at == _NONE else int(at) for at in (written_at, stated_at)),
    )
