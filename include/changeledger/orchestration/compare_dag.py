"""The DAG of a database that several feeds capture: do they agree?"""

from __future__ import annotations

from collections.abc import Mapping

from airflow.sdk import DAG, Param

from changeledger.config.database import Database
from changeledger.config.feed import Feed
from changeledger.orchestration import links
from changeledger.orchestration.assets import CHANGES
from changeledger.orchestration.database_dag import Work, database_dag

_DOC = """\
### compare_{database}: do the feeds of `{database}` agree?

Compares {others} with the reference, {reference}, change by change, up to what all of
them have seen, from where the last comparison ended. It runs daily, and when a feed has published.
**[The report]({report})** says how the last comparison ended; every finding is a row of the lake's table
`lake.changeledger.findings`.

**When it fails** with `FeedsDisagree`, the published tables stay as they are. The last lines of the log
name feed, table and number of changes; the report shows where and since when. Find out which of the two
tools is wrong, and let its feed read again what it missed (trigger its DAG with `start` and `end`). Each run
compares that part of the log again and fails until the feeds agree on it, or until somebody accepts it:
on the page Agreement of **Ledger**, or by `changeledger compare {database} --accept REASON`. `compare:` in
the database's YAML says what may differ.
"""


def compare_dag(database: Database, feeds: Mapping[str, Feed], daily: str = "30 4 * * *") -> DAG:
    reference, others = database.compared(feeds)
    names = ", ".join(feed.feed for feed in others)
    work = Work(
        job="compare",
        dag_id=database.comparison,
        description=f"{names} against {reference.feed}, change by change",
        doc_md=_DOC.format(
            database=database.database,
            others=names,
            reference=reference.feed,
            report=links.report(database.comparison),
        ),
        arguments=["--full", "{{ params.full | lower }}"],
        params={
            "full": Param(
                False, type="boolean", title="Full", description="compare all there is, not only what is new"
            )
        },
        daily=daily,
        page=database.report,
        reads=[CHANGES],
    )
    return database_dag(database, [reference, *others], work)
