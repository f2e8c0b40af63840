"""What people can do about a failed rule. docs/rules.md says why each rule exists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from changeledger.config.tables import TableConfig
from changeledger.model.errors import ConfigError

# By severity.
TOLERATING: Final[Mapping[str, str]] = {
    "critical": "It is critical, so it cannot be tolerated.",
    "error": (
        "To publish anyway, trigger the DAG with `Tolerate failed rules` set to errors, and a reason: that "
        "run reads this window's records again."
    ),
    "warning": "It does not stop the run.",
}
_OWN_TABLES: Final = (
    "The tables are not as changeledger writes them. Clear the failed task `normalize` with what "
    "follows it; if the rule fails again, report it as a fault of changeledger."
)
_OWN_EXPECTATION: Final = (
    "This is an expectation of the feed's YAML. Either correct the rows below in the source, so that the "
    "next run also reads the correction, or correct the expectation and clear all tasks of the failed run."
)
REMEDIES: Final[Mapping[str, str]] = {
    "mask_agrees_with_images": (
        "Look at the rows in the source: if the images are right, tolerate the rule, with a reason. If they "
        "are wrong, let the source send the rows again, and clear all tasks of the failed run. A column that "
        "the tool itself computes has no bit of its own in the mask: state it with `computed: true` in the "
        "feed's YAML. A column that was added with a DEFAULT has no old value at first: state it with "
        "`nullable: false`."
    ),
    "operation_has_its_images": (
        "Look at the record in its topic or change table: it was cut short or read wrongly. Correct "
        "the connector, and let it send the rows again."
    ),
    "key_not_null": (
        "Let the connector send the key (`key:` of the table in the feed's YAML states it), or leave "
        "the table out."
    ),
    "lsn_width": _OWN_TABLES,
    "one_log": (
        "The database was restored, or failed over with loss: changes that were published no longer exist in "
        "the source. Let the connector take a snapshot into new topics, and load the feed again "
        "(`changeledger reset`). If only the clock of the server was set back, tolerate the rule, with a "
        "reason."
    ),
    "loads_come_first": (
        "The tool has loaded the table again, or sent its first load again. A loaded row has no position: "
        "where its key has changes, those count and the loaded row does not. If the table was loaded because "
        "changes were lost, let the tool load it into new topics (or a new change table), and load the feed "
        "again (`changeledger reset`)."
    ),
    "lsns_stay": (
        "The tool writes `streamPosition` in another form than before, or not at all: it reads another "
        "source, or has another version. A change without a log sequence number counts as older than all "
        "that have one, so rows that have changed do not show it. Let the tool load the table into new "
        "topics, name only these in `topics:`, and load the feed again (`changeledger reset`). If only a few "
        "changes lack the number, tolerate the rule, with a reason, and let the source write their rows "
        "again."
    ),
    "change_id_unique": _OWN_TABLES,
    "order_strict": (
        "Check whether the source has sent one position twice; the view Rows of another feed of the database "
        "shows the order that it has. If the published order does not matter, tolerate the rule, with a "
        "reason."
    ),
    "ledger_keeps_everything": _OWN_TABLES,
    "duplicates_leave_one": _OWN_TABLES,
    "interval_forward": (
        "If the rows say that another change has their position, the window has read published changes "
        "again, and their values now have another text: a column of the change table has changed its length "
        "(`char(5)`, now `char(10)`) or its type. Begin the window after that change. "
        "Otherwise: " + _OWN_TABLES
    ),
    "one_open_interval": _OWN_TABLES,
    "changes_are_applied": _OWN_TABLES,
    "current_equals_open_history": _OWN_TABLES,
    "current_key_unique": _OWN_TABLES,
    "current_key_not_null": _OWN_TABLES,
    "image_chain": (
        "A change is missing, was altered or came twice. The view Rows shows the life of the row, and "
        "whether another feed of the database has the missing change; if so, let the source of this "
        "one send it again."
    ),
    "conservation": "Clear the task `extract` with what follows it; if the rule fails again, report it.",
    "records_are_kept": _OWN_TABLES,
    "quarantine_limit": (
        "When so many records cannot be read, a setting is wrong rather than a record. The rows below give "
        "the reasons: correct the setting in the feed's YAML, and clear all tasks of the failed run (not "
        "only the failed ones)."
    ),
    "no_quarantined_records": (
        "Published rows lack the changes in these records: look at the reasons on the view Quarantine, "
        "correct the cause, and replay there."
    ),
    "shapes_fit_contracts": (
        "A column changed its type, or a key changed. Follow what the rows below say; a new key or "
        "type needs a new feed."
    ),
    "no_unpaired_images": (
        "Look at the change table around the position: one of the two rows of an update is missing. When "
        "both are there, replay the record on the view Quarantine."
    ),
    "source_complete": (
        "Clear the task `extract` with what follows it. Records that compaction has removed do not come back "
        "when the policy changes: let the source send a snapshot into topics with `cleanup.policy=delete`, "
        "and load the feed again (`changeledger reset`). If only the producer's transactions left these "
        "offsets, tolerate the rule, with a reason. If the login may not ask for the policy, grant it "
        "DESCRIBE_CONFIGS on the topics."
    ),
    "source_from_its_beginning": (
        "Records that retention removed before the first read are not in the lake: let the source take a "
        "snapshot."
    ),
    "source_is_read_on": (
        "Check the capture: the job of SQL Server's agent, the connector, or a producer's open transaction."
    ),
    "tables_are_whole": (
        "Load the changes that the table lacks: trigger the DAG with the mode `window` for this table, over "
        "the time that the page of the table names."
    ),
    "reset_reads_everything_again": (
        "The source no longer has all changes: let it take a snapshot, or withdraw the reset. `verify` plans "
        "its repairs again afterwards."
    ),
    "reset_keeps_rows": (
        "Let the source take a snapshot, or withdraw the reset. If the rows are gone for good, tolerate the "
        "rule, with a reason."
    ),
}


def remedy(rule: str) -> str:
    """Returns the remedy of one of changeledger's rules, or of an expectation that a user added."""
    return REMEDIES.get(rule, _OWN_EXPECTATION)


def require_own_names(table: TableConfig) -> None:
    """Raises ConfigError if a user's expectation has a rule's name: it would be shown the rule's remedy."""
    for expectation in table.expectations:
        if expectation.rule in REMEDIES:
            raise ConfigError(
                f"{table.table}: the name {expectation.rule} is already that of a rule of the audit",
                "give the expectation another `name`",
            )
