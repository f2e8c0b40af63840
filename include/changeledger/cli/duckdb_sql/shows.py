"""What SHOW says of the lake, from its catalog."""

from __future__ import annotations

import re

from changeledger.cli import statement_tables as tables
from changeledger.cli.answers import Answer
from changeledger.cli.lake import require_lake
from changeledger.config.settings import Settings
from changeledger.lake import catalog

_NAME = r'[`"]?(\w+)[`"]?'
_SHOW = re.compile(
    rf"\s*SHOW\s+(?:(NAMESPACES|SCHEMAS|DATABASES)\s+(?:IN|FROM)\s+{catalog.NAME}"
    rf"|TABLES\s+(?:IN|FROM)\s+{catalog.NAME}\.{_NAME})\s*;?\s*",
    re.IGNORECASE,
)


def answer(sql: str) -> Answer | None:
    """None if the statement is no SHOW of the lake. Raises ConfigError for a feed without tables."""
    asked = _SHOW.fullmatch(sql)
    if asked is None:
        return None
    require_lake(Settings())
    if asked[1]:
        return Answer(["namespace"], iter([(name,) for name in catalog.namespaces()]))
    feed = asked[2].lower()
    tables.require_feed(feed)
    names = [name.rpartition(".")[2] for name in catalog.tables(feed)]
    return Answer(["namespace", "tableName", "isTemporary"], iter([(feed, name, False) for name in names]))
