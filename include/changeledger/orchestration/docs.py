"""The text that Airflow shows beside a feed's DAG, for the person on call."""

from changeledger.config import Feed


def doc_md(feed: Feed) -> str:
    tables = "\n".join(
        f"- `{t.table}`" + (f" (key {', '.join(t.key)})" if t.key else "") for t in feed.tables
    )
    return f"""\
### {feed.feed}: {feed.dialect} of `{feed.database}`

Publishes the changes of these tables to the lake, namespace `{feed.namespace}`:

{tables}

Nothing is published before the audit has passed, and then all tables or none.

| task | what it does | when it fails |
|---|---|---|
| extract | reads the window's records as they are | the source is away (retried), or no longer has \
the next position: the log names the hole |
| normalize | every record becomes a change or gets another disposition | the contract of a table \
changed in a way that the lake cannot follow |
| reconcile | orders changes, builds current and history rows on the window's branch | see the log |
| audit | proves the branch | a rule failed: the log names rule, count and rows; readers see the last \
release; the branch is kept |
| publish | release row, then all tables | clear the task: it completes what was begun |

Every task can be **cleared and run again**, as often as you like: a window always reads the same records.
A red task that was not retried needs a person: the last lines of its log say what is wrong and the remedy.

For **another window**, trigger the DAG with `start` and `end`; without them a run covers its data interval.

Source: connection `{feed.connection}` · Spark: connection `{feed.spark_connection}` · owner: {feed.owner}
"""
