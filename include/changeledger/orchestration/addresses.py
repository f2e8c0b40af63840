"""Addresses of Airflow's pages and of the ledger's pages in it, for messages to people.

None where Airflow does not know its own address (`[api] base_url`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from airflow.configuration import conf


def ledger_page(event: str, told: Mapping[str, Any]) -> str | None:
    """Where people see cause and remedy of what a message tells: of a window, a feed or a database.

    `told`: see `alerts`.
    """
    feed, window, database = (told.get(name) for name in ("feed", "window", "database"))
    if feed and window and event == "quarantined":
        return _in_ledger(f"feeds/{_part(feed)}/quarantine?run={_part(window)}")
    if feed and window and event == "failed":
        return _in_ledger(f"feeds/{_part(feed)}/windows/{_part(window)}")
    if feed:
        return _in_ledger(f"feeds/{_part(feed)}")
    return _in_ledger(f"agreement/{_part(database)}") if database else None


def run_page(feed: str, run: str | None) -> str | None:
    """Of a run of the feed's DAG."""
    base = _base()
    return f"{base}/dags/{_part(feed)}/runs/{_part(run)}" if base and run else None


def _in_ledger(path: str) -> str | None:
    """Airflow's navigation has the address of the frame below its own one for the view."""
    base = _base()
    return f"{base}/plugin/ledger{urlsplit(base).path}/changeledger/{path}" if base else None


def _base() -> str:
    return (conf.get("api", "base_url", fallback="") or "").rstrip("/")


def _part(text: str) -> str:
    return quote(text, safe="")
