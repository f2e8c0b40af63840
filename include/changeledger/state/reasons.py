"""What to do about quarantined records, by their reasons: for people who look at them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_DAMAGED: Final = (
    "The record itself is damaged: no setting reads it. Let the source send the row again (a snapshot of the "
    "table, or a change of the row); the next run reads that. The record stays here and holds nothing back."
)
_ANOTHER_FORM: Final = (
    "The message has another form than the feed's dialect. Correct what writes it, as its detail says, and "
    "let the source send its rows again (a snapshot); these records stay here."
)
# By the reason of quarantine; details of records say more.
REASONS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("not_json", "unparseable_json", "not_utf8", "malformed_envelope", "malformed_lsn", "malformed_avro"),
        _DAMAGED,
    ),
    **dict.fromkeys(
        (
            "flattened_event",
            "renamed_envelope",
            "wrapped_message",
            "cloudevent",
            "debezium_event",
            "ces_event",
            "qlik_message",
        ),
        _ANOTHER_FORM,
    ),
    "mask_order_contradicted": (
        "The setting `mask_order` of the feed's YAML names the wrong end of the masks: take it out (`auto` "
        "finds the order from the records), or state the order that the detail has the records for."
    ),
    "unknown_schema": (
        "If the messages are Avro of a registry: add `schema.registry.url` to the extra of the Kafka "
        "connection, or correct it, then replay. Else something that is no message of this feed was "
        "written to the topic: it stays here and holds nothing back."
    ),
    "no_key": "State `key:` of the table in the feed's YAML, then replay.",
    "incomplete_image": (
        "A tool between the source and the topic leaves columns out of messages, mostly those that are NULL: "
        "let it write every member, null ones, too, and let the source send its rows again (a snapshot); "
        "these records stay here."
    ),
    "null_key": "No key came: let the connector send it, or state `key:` of the table, then replay.",
    "value_does_not_fit": (
        "A value does not fit the type of its column: correct the type under `columns:` of the table in the "
        "feed's YAML, then replay; if the source's type changed, a new feed is needed."
    ),
    "before_without_after": (
        "One of the two rows of an update is not there: look at the change table around the position; replay "
        "when both are."
    ),
}
