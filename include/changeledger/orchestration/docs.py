"""The text that Airflow shows beside a feed's DAG, for the person on call."""

from changeledger.config.feed import Feed

_TEXT = """\
### {feed.feed}: {feed.dialect} of `{feed.database}`

Publishes the changes of these tables to the lake, namespace `{feed.namespace}`:

{tables}

Nothing is published before the audit has passed, and then all tables or none. **Whatever is red here, readers
see the last release, whole.** No record is lost by waiting: the next run begins where the last release ended.

#### A task is red
The last lines of its log say what is wrong and the remedy. A retried task met something that passes
(a source that is away); one that was not retried needs a person.

| task | what it does | when it fails |
|---|---|---|
| extract | reads the window's records as they are | the source is away (retried), or no longer has \
the next position: the log names it |
| normalize | every record becomes a change or gets another disposition | the contract of a table \
changed in a way that the lake cannot follow |
| reconcile | orders changes, builds current and history rows on the window's branch | see the log |
| audit | checks the branch | a rule failed: the log and the task's link **Data Docs** name rule, count \
and rows; the branch is kept |
| publish | release row, then all tables | clear the task: it completes what was begun |

1. Correct what the log names (the feed's YAML, a connection, the source).
2. **Clear** the red task with what follows it: as often as you like, a window always reads the same \
records. If the log asks for it, clear from normalize.
3. The runs after it wait, or have failed for the same reason: clear those, too, in any order.

#### Nothing is red, but
- *up for reschedule*: another run of the feed is running (its lease); the log says which. It retries \
automatically.
- *all but extract skipped*: the window had nothing new, or is released already.
- *scheduled and never queued*: the pool `changeledger` is missing or full: \
`airflow pools set changeledger 2 "Spark jobs at once"`.
- *no new run*: the DAG is paused, or the feed's YAML cannot be read: `settings_errors.py` then has an \
import error, which names file and setting (shown above the list of DAGs).

#### By hand
| wanted | how |
|---|---|
| what is new, now | trigger it as it is |
| a time again, or long ago | mode `window` with start and end |
| some tables again, over what is released | mode `window`, and the tables |
| quarantined records, after a fix | mode `replay` |
| rows that a verification found wrong | read its page, then mode `repair` |
| to see whether it would pass | `dry run` |
| to publish in spite of a failed rule | mode `window` over the same times, `tolerate` and a reason |
| many hours | a backfill, or one wide `window`, which is quicker |

Source: connection `{feed.connection}` · Spark: connection `{feed.spark_connection}` · owner: {feed.owner}
"""


def doc_md(feed: Feed) -> str:
    """Markdown of `_TEXT` for this feed."""
    tables = "\n".join(
        f"- `{t.table}`" + (f" (key {', '.join(t.key)})" if t.key else "") for t in feed.tables
    )
    return _TEXT.format(feed=feed, tables=tables)
