"""Which writer schema a Qlik message has: by its schema id, else by its table's name, else by its topic.

Metadata comes before the data of its version, but perhaps on another topic: data whose columns are not known
yet waits. What is said once holds for later windows, so every writer schema is remembered, those of tables
that the feed does not list among them: their data is to be known as such.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from changeledger.config.feed import Feed
from changeledger.dialects.qlik_messages import metadata
from changeledger.model import change
from changeledger.model.contract import Contract

# What becomes of messages that are no table's.
METADATA = "metadata"
MALFORMED_METADATA = "malformed_metadata"
CONTRADICTS = "schema_contradicts"
NOT_IN_FEED = change.TABLE_NOT_IN_FEED
UNKNOWN = "metadata_unknown"

# Under this, the table and the moment a schema is remembered for messages that carry no schema id.
_VERSION = "version of {} since "
_ALWAYS = 0


class Label(NamedTuple):
    """What messages say of where they belong; None for what they do not say."""

    topic: str
    schema: str | None
    table: str | None
    schema_id: str | None


class TableRecords(NamedTuple):
    """Messages of one writer schema, written in `[since, until)`: microseconds from 1970, or offsets."""

    writer_schema: Contract
    since: int = _ALWAYS
    until: int | None = None

    @property
    def table(self) -> str:
        return self.writer_schema.table


class WriterSchemas:
    """What is known of the tables' columns: from earlier windows, and from this one's metadata."""

    def __init__(self, feed: Feed, contracts: Mapping[str, Contract], known: Mapping[str, Contract]) -> None:
        self._feed = feed
        self._contracts = {table.lower(): contract for table, contract in contracts.items()}
        self._known = dict(known)
        self._new: dict[str, Contract] = {}

    @property
    def new_writer_schemas(self) -> Mapping[str, Contract]:
        """The writer schemas that are new, as the metadata has them: the feed's YAML can change."""
        return self._new

    def learn(self, text: str, written_at: int) -> tuple[str, str | None]:
        """What becomes of a metadata message, and why. A schema id never changes its meaning."""
        try:
            schema_id, writer_schema = metadata.read(text)
        except ValueError as error:
            return MALFORMED_METADATA, str(error)
        if schema_id is not None:
            if self._known.get(schema_id, writer_schema) != writer_schema:
                return CONTRADICTS, f"{schema_id} of {writer_schema.table} came before with other columns"
            self._remember(schema_id, writer_schema)
        self._remember(f"{_VERSION.format(writer_schema.table.lower())}{written_at:020}", writer_schema)
        return METADATA, None

    def _remember(self, name: str, writer_schema: Contract) -> None:
        if name not in self._known:
            self._known[name] = self._new[name] = writer_schema

    def routes(self, label: Label) -> Sequence[TableRecords] | str:
        """The writer schemas of the messages with a label, or why they have none."""
        if label.schema_id is not None and label.schema_id in self._known:
            return self._stated([TableRecords(self._known[label.schema_id])])
        table = self._table(label)
        config = None if table is None else self._feed.table(table)
        if table is not None and config is None:
            return NOT_IN_FEED
        if label.schema_id is not None or config is None:
            return UNKNOWN
        versions = self._versions(config.table)
        if versions:
            return self._stated(versions)
        contract = metadata.stated(config) or self._contracts.get(config.table.lower())
        return UNKNOWN if contract is None else [TableRecords(contract)]

    def _stated(self, found: Sequence[TableRecords]) -> Sequence[TableRecords] | str:
        config = self._feed.table(found[0].table)
        if config is None:
            return NOT_IN_FEED
        return [one._replace(writer_schema=metadata.with_stated(one.writer_schema, config)) for one in found]

    def _versions(self, table: str) -> list[TableRecords]:
        """The table's columns one after the other; the first ones hold for what came before them, too."""
        prefix = _VERSION.format(table.lower())
        said = [(int(n.removeprefix(prefix)), n) for n in sorted(self._known) if n.startswith(prefix)]
        found: list[TableRecords] = []
        for since, name in said:
            writer_schema = self._known[name]
            if found and found[-1].writer_schema == writer_schema:
                continue
            if found:
                found[-1] = found[-1]._replace(until=since)
            found.append(TableRecords(writer_schema, since if found else _ALWAYS))
        return found

    def _table(self, label: Label) -> str | None:
        """`schema.table` as the message names it; else the feed's table that the topic is named after.

        A feed that lists no tables has all that are known. None if neither says one table.
        """
        tables = [config.table for config in self._feed.tables] or self._known_tables()
        if label.table is not None and label.schema is not None:
            return f"{label.schema}.{label.table}"
        name = f".{label.table or label.topic}".lower()
        whole = [t for t in tables if name.endswith(f".{t.lower()}")]
        short = whole or [t for t in tables if name.endswith(f".{t.lower().split('.', 1)[1]}")]
        if len(short) == 1:
            return short[0]
        return label.table if self._feed.tables and not short else None

    def _known_tables(self) -> Sequence[str]:
        tables = (contract.table for contract in (*self._known.values(), *self._contracts.values()))
        return list({table.lower(): table for table in tables}.values())
