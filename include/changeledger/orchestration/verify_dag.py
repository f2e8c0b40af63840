"""The DAG of a database that compares what its feeds have published with the source: does it match?"""

from __future__ import annotations

from collections.abc import Mapping

from airflow.sdk import DAG, Param

from changeledger.config.database import AUTO, FRESH, REUSE, Database
from changeledger.config.feed import Feed
from changeledger.orchestration import links
from changeledger.orchestration.assets import CURRENT, HISTORY
from changeledger.orchestration.database_dag import Work, database_dag

_DOC = """\
### verify_{database}: does the published data match `{database}`?

Once a day the tables of {feeds} are read from the source and compared with what each feed has published:
hashes of many rows first, single rows where these differ. Changes made meanwhile are no faults. The first
release starts the first reading. Connection: {connection}. Rows that a feed's topic delivers again, by
another snapshot, are compared with what it had published before.
**[The page]({page})** has the last proof of each table.

A difference counts once a feed's windows have ended {grace_period} after the reading. Until then the outcome
is `waiting`, and the run is green: after a feed has published, it continues with what was read.

**When it fails** with `PublishedDrifts`, the published tables stay as they are. The last lines of the log
name feed, table and number of rows; the page shows what each row is, what it should be, since which change,
and which changes would correct it. First check whether the other feeds have the same rows wrong:

| | |
|---|---|
| one feed has | its tool lost or changed something: `compare_{database}` shows where; look into the feed's \
quarantine; let it read that time again |
| all have | the rows were changed where no capture sees it: a restore, a switched partition, a table \
whose capture was off |
| rows are `missing` that nobody has changed for long | the feed began without a snapshot |
| a capture tool lags more than `grace_period:` allows | raise it in the database's YAML |

Then trigger this DAG with *snapshot: fresh*, which reads the source again.
"""

_NO_SOURCE = "none, so the source is not read; name one under `verify:` in the database's YAML"

_SNAPSHOTS = {
    AUTO: "auto: if nothing waits to be proved",
    FRESH: "fresh: now, whatever waits",
    REUSE: "reuse: not at all, only continue with what was read",
}


def verify_dag(database: Database, feeds: Mapping[str, Feed], daily: str = "30 5 * * *") -> DAG:
    source, chosen = database.verified(feeds)
    connection = None if source is None else source.connection
    names = ", ".join(feed.feed for feed in chosen)
    work = Work(
        job="verify",
        dag_id=database.verification,
        description=f"{names} against rows of the source",
        doc_md=_DOC.format(
            database=database.database,
            feeds=names,
            page=links.report(database.verification),
            connection=_NO_SOURCE if connection is None else f"`{connection}`",
            grace_period="-" if source is None else source.grace_period,
        ),
        arguments=[
            "--snapshot",
            "{{ 'reuse' if dag_run.run_type == 'asset_triggered' else params.snapshot }}",
        ],
        params={
            "snapshot": Param(
                AUTO,
                type="string",
                title="Read the source",
                enum=list(_SNAPSHOTS),
                values_display=_SNAPSHOTS,
                description="A run that a feed's release has begun reads it only if nobody has yet.",
            )
        },
        daily=daily,
        page=database.proofs,
        reads=[CURRENT, HISTORY],
        source_connection=connection,
    )
    return database_dag(database, chosen, work)
