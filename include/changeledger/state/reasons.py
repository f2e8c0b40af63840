"""What people can do about quarantined records, by reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Remedies with their reasons; the details of records say more. Reasons of pending records
# (`split_incomplete`, `metadata_unknown`) become reasons of quarantine after `pending_timeout`.
_OF_REMEDIES: Final[Mapping[str, str]] = {
    "The record itself is damaged: no setting reads it. Let the source send the row again (a snapshot of the "
    "table, or a change of the row); the next run reads that. The record stays here and holds nothing "
    "back.": (
        "not_json unparseable_json unparseable_data not_utf8 malformed_avro malformed_change_seq "
        "malformed_command_id malformed_counter malformed_envelope malformed_image malformed_lsn "
        "malformed_mask malformed_position malformed_segment malformed_sequence malformed_serial "
        "malformed_time no_commit_time no_position operation_disagrees split_contradictory split_incomplete "
        "unknown_snapshot"
    ),
    "The message has another form than the feed's dialect. Correct what writes it, as its detail says, and "
    "let the source send its rows again (a snapshot); these records stay here.": (
        "avro_file azure_frame byte_order_mark ces_data_alone ces_event cloudevent debezium_event "
        "eight_byte_id flattened_envelope flattened_event glue_frame hortonworks_frame json_array "
        "json_in_text json_schema_frame no_schema_id other_tool_event protobuf_frame qlik_message "
        "renamed_envelope schema_id_frame schema_id_in_headers single_object_encoding struct_text "
        "unusable_schema wrapped_message"
    ),
    "The message lacks what makes a change of the feed's dialect: something else was written to the topic, "
    "or a tool behind the capture takes parts out of messages. Leave such topics out of `topics:`, or "
    "correct that tool and let the source send its rows again (a snapshot); these records stay here.": (
        "no_after_image no_before_image no_data no_event_row no_logicalid no_message no_operation no_source "
        "no_table not_an_object unknown_type wrong_magic"
    ),
    "Which row the record is about is open. Compare it with the rows of the source, and let the source send "
    "these again (a snapshot of the table, or a change of each row); the record stays here.": (
        "ambiguous_pair ambiguous_row key_disagrees"
    ),
    "The record does not fit the columns that the feed knows of its table. Correct them under `columns:` in "
    "the feed's YAML, if they are stated there; if metadata of Qlik states them, let the task send it again "
    "(stop and resume it). Then replay.": "malformed_metadata metadata_unknown no_columns unknown_column",
    "The mask is of other columns than the table has: something between the change table and the feed has "
    "cut or lengthened it. Correct the columns under `columns:` in the feed's YAML, if they are stated "
    "there, then replay; else the record stays here: change its row in the source, so that it is sent "
    "again.": "mask_width",
    "The record contradicts a type or a setting of the feed's YAML, or what the table had before: correct "
    "what its detail names, then replay.": "schema_contradicts",
    "The setting `mask_order` of the feed's YAML names the wrong end of the masks: take it out (`auto` "
    "finds the order from the records), or state the order that the detail has the records "
    "for.": "mask_order_contradicted",
    "If the messages are Avro of a registry: add `schema.registry.url` to the extra of the Kafka "
    "connection, or correct it, then replay. Else something that is no message of this feed was "
    "written to the topic: it stays here and holds nothing back.": "unknown_schema",
    "State `key:` of the table in the feed's YAML, then replay.": "no_key",
    "The keys of the table's messages cannot be read: correct `key.converter` of the connector for those "
    "that come, and state `key:` of the table in the feed's YAML for these, then replay.": "unread_key",
    "The message is empty: mostly the copy of a tombstone, which says no more than the delete before it. Let "
    "what copies the messages keep values that are null, or leave tombstones out; these records stay "
    "here.": "empty_message",
    "A tool between the source and the topic leaves columns out of messages, mostly those that are NULL: "
    "let it write every member, null ones, too, and let the source send its rows again (a snapshot); "
    "these records stay here.": "incomplete_image",
    "No key came, or a column of it is NULL. Let the connector send the key, or state a `key:` of the table "
    "whose columns are never NULL (a unique index of SQL Server may have some that are), then "
    "replay.": "null_key",
    "A value does not fit the type of its column: correct the type under `columns:` of the table in the "
    "feed's YAML, then replay; if the source's type changed, a new feed is needed.": "value_does_not_fit",
    "Digits are lost already, in a number that went through a double: let the tool write decimals as text or "
    "exactly (docs/types.md), and the source send its rows again (a snapshot); these records stay "
    "here.": "inexact_number",
    "A text of the source has half of a surrogate pair, which no UTF-8 holds: correct it in the source; the "
    "next run reads the correction. The record stays here.": "lone_surrogate",
    "One of the two rows of an update is not there: look at the change table around the position; replay "
    "when both are.": "before_without_after",
    "The ledger knows no such operation, as Debezium's `t` of a TRUNCATE: published rows do not follow it. "
    "`changeledger verify` finds the rows that differ now; the record stays here.": "unknown_operation",
    "The change is of another table than its topic or its metadata. If that is to be read, add it to "
    "`tables:` of the feed's YAML, then replay; else correct what writes to the topic.": "table_mismatch",
    "The message and its topic name no table: let messages name theirs, or give each table a topic of its "
    "own; these records stay here.": "topic_names_no_table",
    "The message is of another database than the feed's: if it is the right one, state `database_name` under "
    "`source:`, then replay; else read it by a feed of its own.": "database_mismatch",
    "Names of columns differ in case only, which the lake cannot keep apart: leave one out of the capture, "
    "or rename it in the source.": "columns_alike",
    "Names of tables differ in case only: give each table a feed of its own, with another `database:`, and "
    "leave the others' topics out of `topics:`.": "tables_alike",
    "The rows have none of the header's columns: correct `header_prefix` under `source:`, then "
    "replay.": "no_header",
}
REASONS: Final[Mapping[str, str]] = {
    reason: remedy for remedy, reasons in _OF_REMEDIES.items() for reason in reasons.split()
}
