"""What people can do about quarantined records, by reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Remedies with their reasons; the details of records say more. Reasons of pending records
# (`split_incomplete`, `metadata_unknown`) become reasons of quarantine after `pending_timeout`.
_OF_REMEDIES: Final[Mapping[str, str]] = {
    "The record itself is damaged, and no setting makes it readable. Let the source send the row again (a "
    "snapshot of the table, or a change of the row); the next run reads that. The record stays here and "
    "holds nothing back.": (
        "not_json unparseable_json unparseable_data not_utf8 malformed_avro malformed_change_seq "
        "malformed_command_id malformed_counter malformed_envelope malformed_image malformed_lsn "
        "malformed_mask malformed_position malformed_segment malformed_sequence malformed_serial "
        "malformed_time no_commit_time no_position operation_disagrees split_contradictory split_incomplete "
        "unknown_snapshot"
    ),
    "The message does not have the form of the feed's dialect. Correct the tool that writes it, as the "
    "record's detail says, and let the source send its rows again (a snapshot); these records stay here.": (
        "avro_file azure_frame byte_order_mark ces_data_alone ces_event cloudevent debezium_event "
        "eight_byte_id flattened_envelope flattened_event glue_frame hortonworks_frame json_array "
        "json_in_text json_schema_frame no_schema_id other_tool_event protobuf_frame qlik_message "
        "renamed_envelope schema_id_frame schema_id_in_headers single_object_encoding struct_text "
        "unusable_schema wrapped_message"
    ),
    "The message lacks a part that every change of the feed's dialect has: either something else was written "
    "to the topic, or a tool after the capture removes parts of messages. Leave such topics out of "
    "`topics:`, or correct that tool and let the source send its rows again (a snapshot); these records stay "
    "here.": (
        "no_after_image no_before_image no_data no_event_row no_logicalid no_message no_operation no_source "
        "no_table not_an_object unknown_type wrong_magic"
    ),
    "It cannot be determined which row the record is about. Compare it with the rows of the source, and let "
    "the source send these again (a snapshot of the table, or a change of each row); the record stays "
    "here.": ("ambiguous_pair ambiguous_row key_disagrees"),
    "The record does not fit the columns that the feed knows of its table. If they are stated under "
    "`columns:` in the feed's YAML, correct them there; if Qlik's metadata states them, let the task send "
    "the metadata again (stop and resume "
    "the task). Then replay.": "malformed_metadata metadata_unknown no_columns unknown_column",
    "The mask's length does not fit the table's columns: something between the change table and the feed has "
    "cut or lengthened it. If the columns are stated under `columns:` in the feed's YAML, correct them "
    "there, then replay. Otherwise change the row in the source, so that it is sent again; the record stays "
    "here.": "mask_width",
    "The record contradicts a type or a setting of the feed's YAML, or the table's columns as they were "
    "before: correct what the record's detail names, then replay.": "schema_contradicts",
    "The setting `mask_order` of the feed's YAML names the wrong end of the masks: remove it (`auto` finds "
    "the order from the records), or state the order that the record's detail "
    "names.": "mask_order_contradicted",
    "If the messages are Avro of a registry: add `schema.registry.url` to the extra of the Kafka connection, "
    "or correct it, then replay. Otherwise something that is not a message of this feed was written to the "
    "topic: it stays here and holds nothing back.": "unknown_schema",
    "State `key:` of the table in the feed's YAML, then replay.": "no_key",
    "The keys of the table's messages cannot be read: correct the connector's `key.converter` for messages "
    "to come; for these, state `key:` of the table in the feed's YAML, then replay.": "unread_key",
    "The message is empty. It is usually the copy of a tombstone, which adds nothing to the delete before "
    "it. Let the tool that copies messages keep null values, or leave tombstones out; these records stay "
    "here.": "empty_message",
    "A tool between the source and the topic leaves columns out of messages, usually those that are NULL: "
    "let it write every member, including null ones, and let the source send its rows again (a snapshot); "
    "these records stay here.": "incomplete_image",
    "The key is missing, or one of its columns is NULL. Let the connector send the key, or state a `key:` of "
    "the table whose columns are never NULL (SQL Server allows NULL in a unique index), then "
    "replay.": "null_key",
    "A value does not fit the type of its column: correct the type under `columns:` of the table in the "
    "feed's YAML, then replay; if the source's type changed, a new feed is needed.": "value_does_not_fit",
    "The number went through a double and has lost digits: let the tool write decimals as text or exactly "
    "(docs/types.md), and let the source send its rows again (a snapshot); these records "
    "stay here.": "inexact_number",
    "A text of the source has half of a surrogate pair, which UTF-8 cannot encode: correct it in the source; "
    "the next run reads the correction. The record stays here.": "lone_surrogate",
    "One of the two rows of an update is missing: look at the change table around the position, and replay "
    "when both are there.": "before_without_after",
    "The ledger does not apply this operation (such as Debezium's `t`, a TRUNCATE), so published rows do not "
    "follow it. `changeledger verify` finds the rows that differ now; the record stays "
    "here.": "unknown_operation",
    "The change names another table than its topic or its metadata. If that table is to be read, add it to "
    "`tables:` of the feed's YAML, then replay; otherwise correct the tool that writes to "
    "the topic.": "table_mismatch",
    "Neither the message nor its topic names a table: let messages name their table, or give each table a "
    "topic of its own; these records stay here.": "topic_names_no_table",
    "The message is of another database than the feed's. If it is the right one, state `database_name` under "
    "`source:`, then replay; otherwise read that database with a feed of its own.": "database_mismatch",
    "The names of two columns differ in case only, and the lake cannot keep them apart: leave one out of the "
    "capture, or rename it in the source.": "columns_alike",
    "The names of several tables differ in case only: give each table a feed of its own, with another "
    "`database:`, and leave the topics of the other tables out of its `topics:`.": "tables_alike",
    "The rows have none of the header columns: correct `header_prefix` under `source:`, then "
    "replay.": "no_header",
}
REASONS: Final[Mapping[str, str]] = {
    reason: remedy for remedy, reasons in _OF_REMEDIES.items() for reason in reasons.split()
}
