"""Which shape a Qlik message has: by its schema id, else by its table's name, else by its topic.

Metadata comes before the data of its version, but perhaps on another topic: data whose shape is not known
yet waits. What is told once holds for later windows, so every shape is remembered, those of tables that the
feed does not list among them: their data is to be known as such.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from changeledger.config import Feed
from changeledger.contract import Contract
from changeledger.dialects import base
from changeledger.dialects import qlik_messages_metadata as metadata

# What becomes of messages that are no table's.
METADATA = "metadata"
MALFORMED_METADATA = "malformed_metadata"
CONTRADICTS = "schema_contradicts"
NOT_IN_FEED = "table_not_in_feed"
UNKNOWN = "metadata_unknown"

# Under this, the table and the moment a shape is remembered for messages that carry no schema id.
_VERSION = "version of {} since "
_ALWAYS = 0


class Label(NamedTuple):
    """What messages say of where they belong; None for what they do not say."""

    topic: str
    schema: str | None
    table: str | None
    schema_id: str | None


class Route(NamedTuple):
    """The shape of messages that were written in `[since, until)`: microseconds from 1970, or offsets."""

    shape: Contract
    since: int = _ALWAYS
    until: int | None = None


class Shapes:
    """What is known of the tables' shapes: from earlier windows, and from this one's metadata."""

    def __init__(self, feed: Feed, known: base.Known) -> None:
        self._feed = feed
        self._contracts = {table.lower(): contract for table, contract in known.contracts.items()}
        self._known = dict(known.shapes)
        self._learnt: dict[str, Contract] = {}

    @property
    def learnt(self) -> dict[str, Contract]:
        """The shapes that are new, as the metadata tells them: the feed's YAML can change."""
        return self._learnt

    def learn(self, text: str, told_at: int) -> tuple[str, str | None]:
        """What becomes of a metadata message, and why. A schema id never changes its meaning."""
        try:
            told = metadata.read(text)
        except ValueError as error:
            return MALFORMED_METADATA, str(error)
        shape = told.shape
        if told.schema_id is not None:
            if self._known.get(told.schema_id, shape) != shape:
                return CONTRADICTS, f"{told.schema_id} of {shape.table} was told before with other columns"
            self._remember(told.schema_id, shape)
        self._remember(f"{_VERSION.format(shape.table.lower())}{told_at:020}", shape)
        return METADATA, None

    def _remember(self, name: str, shape: Contract) -> None:
        if name not in self._known:
            self._known[name] = self._learnt[name] = shape

    def routes(self, label: Label) -> Sequence[Route] | str:
        """The shapes of the messages with a label, or why they have none."""
        if label.schema_id is not None and label.schema_id in self._known:
            return self._stated([Route(self._known[label.schema_id])])
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
        return UNKNOWN if contract is None else [Route(contract)]

    def _stated(self, routes: Sequence[Route]) -> Sequence[Route] | str:
        config = self._feed.table(routes[0].shape.table)
        if config is None:
            return NOT_IN_FEED
        return [route._replace(shape=metadata.with_stated(route.shape, config)) for route in routes]

    def _versions(self, table: str) -> list[Route]:
        """The table's shapes one after the other; the first one holds for what came before it, too."""
        prefix = _VERSION.format(table.lower())
        told = [(int(n.removeprefix(prefix)), n) for n in sorted(self._known) if n.startswith(prefix)]
        routes: list[Route] = []
        for since, name in told:
            shape = self._known[name]
            if routes and routes[-1].shape == shape:
                continue
            if routes:
                routes[-1] = routes[-1]._replace(until=since)
            routes.append(Route(shape, since if routes else _ALWAYS))
        return routes

    def _table(self, label: Label) -> str | None:
        """`schema.table` as the message names it; else the feed's table that the topic is named after.

        A feed that lists no tables has all that are known. None where neither tells one table.
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
        told = (contract.table for contract in (*self._known.values(), *self._contracts.values()))
        return list({table.lower(): table for table in told}.values())
