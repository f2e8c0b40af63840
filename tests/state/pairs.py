"""Two feeds of one database in a control store, with comparisons and proofs as their stages leave them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from changeledger.compare.verdicts import CLASSES, EQUAL, VERDICTS
from changeledger.config.database import Database
from changeledger.config.feed import Feed
from changeledger.control import ComparisonRow, ControlStore, ProofRow
from changeledger.control.tables.windows import BuiltSnapshots
from changeledger.model.contract import Contract
from changeledger.model.window import Window

OLD, NEW, TABLE = "shop_cdc", "shop_debezium", "dbo.customers"
DATABASE = Database.model_validate({"database": "shop", "verify": {"connection": "source"}})


def feeds(*tables: str, only_old: tuple[str, ...] = ()) -> dict[str, Feed]:
    names = tables or (TABLE,)
    return {
        name: Feed.model_validate({
            "feed": name, "dialect": dialect, "database": "shop", "connection": "c", "source": source,
            "tables": [{"table": table} for table in (*names, *(only_old if name == OLD else ()))],
        })
        for name, dialect, source in ((OLD, "sqlserver_cdc", {}), (NEW, "debezium", {"topics": ["t"]}))
    }  # fmt: skip


def lsn(number: int) -> str:
    return f"{number:020X}"


def compare(
    control: ControlStore, first: int, last: int, since: datetime, until: datetime, *,
    table: str = TABLE, reference: str = OLD, **counts: int,
) -> None:  # fmt: skip
    """Stores a comparison of the log's part `[first, last)`. `counts`: effects by verdict or class."""
    all_counts = {**dict.fromkeys((*VERDICTS, *CLASSES), 0), **(counts or {EQUAL: 5000})}
    faults = sum(all_counts[name] for name in ("missing", "extra", "differs", "order"))
    events = sum(all_counts[verdict] for verdict in VERDICTS)
    feed = NEW if reference == OLD else OLD
    control.comparisons.save(ComparisonRow(
        id=f"{reference}.{feed}.{table}.{first}.{last}", database="shop", table=table, reference=reference,
        feed=feed, from_lsn=lsn(first), to_lsn=lsn(last), from_time=since, to_time=until,
        outcome="differ" if faults else "agree", counts=all_counts, columns={},
        spans=[[0, 0]] * 23 + [[events, events]], positions=None, at=until + timedelta(minutes=5),
    ))  # fmt: skip


def prove(control: ControlStore, until: datetime, outcome: str = "proven", table: str = TABLE) -> None:
    counts: dict[str, Any] = dict.fromkeys(("rows", "equal", "in_flight", "missing", "extra", "differs"), 0)
    control.proofs.save(ProofRow(
        id=f"{NEW}.{table}", against="source", snapshot_id="s", database="shop", table=table, feed=NEW,
        release=1, outcome=outcome, since=until, until=until, since_lsn=None, until_lsn=None, counts=counts,
        at=until,
    ))  # fmt: skip


def release(control: ControlStore, feed: str, window: Window, contract: Contract) -> None:
    """Releases the feed; its table has this contract."""
    built = BuiltSnapshots("branch", {contract.table: 1})
    control.windows.open(feed, window, control.windows.position(feed), {})
    control.windows.begin_stage(feed, window, "normalize")
    control.windows.finish_stage(feed, window, "normalize", built, [contract])
    control.audits.save(feed, window, [], built)
    control.releases.commit(feed, window, built.tables, {}, {})
