"""Writes docs/rules.md, the purpose of each audit rule: `.venv/bin/python scripts/rules_page.py`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from changeledger.audit.rules import TABLE_RULES
from changeledger.config.settings import PROJECT

PAGE = PROJECT / "docs" / "rules.md"

_CDC = (
    "https://learn.microsoft.com/sql/relational-databases/system-tables/cdc-capture-instance-ct-transact-sql"
)
_CDC_ABOUT = (
    "https://learn.microsoft.com/sql/relational-databases/track-changes/about-change-data-capture-sql-server"
)
_CDC_JOBS = "https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sys-sp-cdc-help-jobs-transact-sql"
_DEBEZIUM = "https://debezium.io/documentation/reference/stable/connectors/sqlserver.html"
_QLIK = "https://help.qlik.com/en-US/replicate/Content/Replicate/Main/Kafka/Data_Message_Structure.htm"
_FORKS = "https://learn.microsoft.com/previous-versions/sql/sql-server-2008/ms175078(v=sql.100)"
_KEYS = "https://learn.microsoft.com/sql/relational-databases/tables/create-primary-keys"
_KAFKA = "https://kafka.apache.org/documentation/"


class Entry(NamedTuple):
    """A rule's reason and remedy. `source`: an outside source, empty for the program's own tables."""

    why: str
    remedy: str
    source: str = ""


_REPLAY = "[replay](when-a-run-stops.md#quarantine)"
_RESET = "[load a feed again](running.md#load-a-feed-again)"
_OWN_TABLES = (
    "the tables are not as this program writes them: run the window again; if it fails again, report it"
)

BOOK: Final[Mapping[str, Entry]] = {
    "mask_agrees_with_images": Entry(
        "mask and images state the same twice; if they differ, only the source knows which is wrong",
        "[a mask that contradicts its images](when-a-run-stops.md#a-mask-that-contradicts-its-images)",
        f"[`__$update_mask`]({_CDC}), [`changeMask`]({_QLIK})",
    ),
    "operation_has_its_images": Entry(
        "an operation without its images was cut short on its way, or read wrongly",
        "look at the record in the topic or change table; correct the connector",
        f"[`__$operation`]({_CDC}), [`before` and `after`]({_DEBEZIUM})",
    ),
    "key_not_null": Entry(
        "a change without key, position or time belongs to no row and to no place in the history",
        "let the connector send the key (`key:` in the feed's YAML states it), or leave the table out",
        f"[a primary key has no NULL]({_KEYS})",
    ),
    "lsn_width": Entry("shorter or longer positions sort wrongly", _OWN_TABLES, f"[`binary(10)`]({_CDC})"),
    "one_log": Entry(
        "a restored database uses its positions again, so new changes would lose against lost ones; checked "
        "for Debezium and CES",
        "[a gap](when-a-run-stops.md#a-gap)",
        f"[recovery paths]({_FORKS})",
    ),
    "loads_come_first": Entry(
        "a row of a full load has no position and counts as older than every change, so a second load does "
        "not show in rows that have changed; checked for Qlik",
        "[load the table into new topics](feeds.md#qlik-messages), and the feed again",
        f"[REFRESH]({_QLIK})",
    ),
    "lsns_stay": Entry(
        "a change without a log sequence number counts as older than every change that has one, so new "
        "changes would lose against published ones; checked for Qlik's messages",
        "[load the table into new topics](feeds.md#qlik-messages), and the feed again",
        f"[`streamPosition`]({_QLIK})",
    ),
    "change_id_unique": Entry(
        "the same change twice in the ledger would be counted twice by every reader",
        _OWN_TABLES,
        f"[events come at least once]({_DEBEZIUM})",
    ),
    "order_strict": Entry(
        "with two changes in one place, chance would decide which row is published",
        "check whether the source sends one position twice; if another feed has the order, compare",
        f"[`__$start_lsn`, `__$seqval`]({_CDC})",
    ),
    "ledger_keeps_everything": Entry("the ledger is the proof of all that is published", _OWN_TABLES),
    "duplicates_leave_one": Entry(
        "records that repeat each other must count exactly once",
        _OWN_TABLES,
        f"[events come at least once]({_DEBEZIUM})",
    ),
    "interval_forward": Entry(
        "an interval that ends before it begins hides rows from queries by time",
        "[published changes that a window reads again in another text](types.md#what-the-lake-has): begin it "
        f"later; otherwise {_OWN_TABLES}",
    ),
    "one_open_interval": Entry("a row has one present state", _OWN_TABLES),
    "changes_are_applied": Entry("the history is what the changes have made of the rows", _OWN_TABLES),
    "current_equals_open_history": Entry("current rows and history are two views of one state", _OWN_TABLES),
    "current_key_unique": Entry("a join on the key would double rows", _OWN_TABLES),
    "current_key_not_null": Entry("a row without a key can never be found or replaced again", _OWN_TABLES),
    "image_chain": Entry(
        "an old value that no change has left shows that a change is missing, was altered, or came twice",
        "[the image chain](when-a-run-stops.md#the-image-chain)",
        f"[the old values of `__$operation` 3]({_CDC})",
    ),
    "conservation": Entry(
        "a record without an outcome is lost, one with two is counted twice",
        "clear extract and what follows; if it fails again, report it",
    ),
    "records_are_kept": Entry(
        "a record that waits or is in quarantine is read again from there", _OWN_TABLES
    ),
    "quarantine_limit": Entry(
        "when many records cannot be read, a setting is wrong rather than a record",
        f"look at the reasons in `quarantine`; correct the setting and {_REPLAY}",
    ),
    "no_quarantined_records": Entry(
        "published rows lack the changes in quarantined records",
        f"look at the reasons in `quarantine`; correct the cause and {_REPLAY}",
    ),
    "shapes_fit_contracts": Entry(
        "columns that changed their type do not fit what was published",
        "follow the remedy of the reason; a new key or type needs a new feed",
        f"[changes of a captured table]({_CDC_ABOUT})",
    ),
    "no_unpaired_images": Entry(
        "an update has two rows; a missing one was cut off or removed by a clean-up",
        f"look at the change table around its LSN; {_REPLAY} when both are there",
        f"[`__$operation` 3 and 4]({_CDC})",
    ),
    "source_complete": Entry(
        "a record that the source had and raw lacks is lost for good once the position has moved",
        "clear extract and what follows; where a topic was compacted: a snapshot into topics with "
        "`cleanup.policy=delete`, and a reset",
        f"[offsets of transaction markers, compaction]({_KAFKA})",
    ),
    "source_from_its_beginning": Entry(
        "records that retention removed before the first read are not in the lake",
        "[start with a snapshot](when-a-run-stops.md#a-gap)",
        f"[retention]({_KAFKA})",
    ),
    "source_is_read_on": Entry(
        "a capture that stands still looks like a quiet source",
        "[a feed that stands still](when-a-run-stops.md#a-feed-that-stands-still)",
        f"[capture jobs]({_CDC_JOBS}), [read_committed]({_KAFKA})",
    ),
    "tables_are_whole": Entry(
        "a table that joins a feed of messages lacks the changes that came before",
        "[add a table](tables.md)",
    ),
    "reset_reads_everything_again": Entry(
        "the ledger is the proof of all that is published; a source that was cleaned up cannot give it again",
        f"{_RESET}; repairs are planned again by `verify`",
    ),
    "reset_keeps_rows": Entry(
        "a row that the source no longer sends would disappear silently",
        f"let the source send a snapshot, or withdraw the reset; tolerate rows that are gone: {_RESET}",
    ),
}


class Weight(NamedTuple):
    """What a rule of the feed's records checks, and its severity."""

    checks: str
    severity: str


# On the audit page these sentences contain the run's own numbers.
_OF_RECORDS: Final[Mapping[str, Weight]] = {
    "conservation": Weight("Every record that was read has exactly one disposition.", "critical"),
    "records_are_kept": Weight(
        "Each record that is quarantined or pending is kept as received, and no other.", "critical"
    ),
    "quarantine_limit": Weight("At most `quarantine_limit` of the records are quarantined.", "error"),
    "no_quarantined_records": Weight("Every record of the run can be read.", "warning"),
    "shapes_fit_contracts": Weight(
        "The columns that the feed reports for its tables fit the published contracts.", "error"
    ),
    "no_unpaired_images": Weight("No before row is left without its after row.", "warning"),
    "source_complete": Weight("Raw has every record that the source had.", "critical"),
    "source_from_its_beginning": Weight(
        "A partition that the feed reads for the first time still has its first record.", "warning"
    ),
    "source_is_read_on": Weight("Nothing waits at the source for longer than `deadline`.", "warning"),
    "tables_are_whole": Weight(
        "No table lacks changes that the feed passed over before it listed the table.", "warning"
    ),
    "reset_reads_everything_again": Weight(
        "A reset reads every published change again.", "`error`, or `warning` with `--accept-gap`"
    ),
    "reset_keeps_rows": Weight(
        "After a reset every published row is still known, as a row or as a deleted one, and so is every "
        "column value that was known.",
        "error",
    ),
}
_HEAD = """\
# The rules of the audit

Generated by `.venv/bin/python scripts/rules_page.py`: do not edit this page.

Before a run is published, Great Expectations judges these rules. A `critical` one always stops the run:
records or changes would be lost. An `error` stops it unless a person tolerates it (`tolerate`, with a
reason). A `warning` is reported. The page behind the task's link Data Docs shows the offending rows."""
_COLUMNS = "| rule | checks | why | severity | remedy | outside source |\n|---|---|---|---|---|---|"


def page() -> str:
    """Returns the whole page."""
    tables = {name: Weight(rule.says, rule.severity) for name, rule in TABLE_RULES.items()}
    # The feed's setting decides between the two.
    tables["image_chain"] = Weight(
        tables["image_chain"].checks, "`warning`, or `error` with `image_chain: stop`"
    )
    parts = [_HEAD]
    for title, weights in (("Of each table", tables), ("Of the run's records", _OF_RECORDS)):
        rows = "\n".join(_row(name, weight, BOOK[name]) for name, weight in weights.items())
        parts.append(f"## {title}\n{_COLUMNS}\n{rows}")
    return "\n\n".join(parts) + "\n"


def _row(name: str, weight: Weight, entry: Entry) -> str:
    cells = (f"`{name}`", weight.checks, entry.why, weight.severity, entry.remedy, entry.source or "-")
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
