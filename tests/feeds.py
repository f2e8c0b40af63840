"""Feeds whose sources nobody reads."""

from __future__ import annotations

from typing import Any

from changeledger.config.feed import Feed


def feed_of(name: str, *tables: str | dict[str, Any], **settings: Any) -> Feed:
    """Returns a feed of these tables, named or as a feed's file describes them. `settings`: others of it."""
    described = [{"table": table} if isinstance(table, str) else table for table in tables]
    usual = {"dialect": "ces", "database": "shop", "connection": "none", "source": {"topics": ["t"]}}
    return Feed.model_validate({"feed": name, "tables": described, **usual, **settings})
