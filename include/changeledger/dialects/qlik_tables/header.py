"""The header columns of a Qlik change table, found by prefix and name. Any of them may be missing."""

from __future__ import annotations

import hmac
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.feed import Feed
from changeledger.config.sources import QlikTablesSource
from changeledger.dialects.tables import instants
from changeledger.dialects.tables.interface import Hidden
from changeledger.dialects.tables.rows import RawRows, Read, records, trimmed
from changeledger.kernels import json_rows, lsn, masks
from changeledger.kernels.arrow import INSTANT, valid
from changeledger.kernels.cast_text import as_text
from changeledger.kernels.lsn import Lsns
from changeledger.mask_order.mask_evidence import MaskRules
from changeledger.model.contract import Contract

CHANGE_SEQ = "change_seq"
CHANGE_OPER = "change_oper"
CHANGE_MASK = "change_mask"
STREAM_POSITION = "stream_position"
OPERATION = "operation"
TRANSACTION_ID = "transaction_id"
TIMESTAMP = "timestamp"
_NAMES = frozenset({
    CHANGE_SEQ, CHANGE_OPER, CHANGE_MASK, STREAM_POSITION, OPERATION, TRANSACTION_ID, TIMESTAMP,
    "partition_name",
})  # fmt: skip
# Names that are also common in sources.
_USUAL = frozenset({OPERATION, TIMESTAMP, TRANSACTION_ID})

_WORDS = pa.array(["INSERT", "UPDATE", "DELETE", "BEFOREIMAGE", "TRUNCATE"])
_LETTERS = pa.array(["I", "U", "D", "B", "T"])
_NO_TEXT = pa.scalar(None, pa.string())


def header_names(names: Sequence[str], prefix: str, stated: Collection[str]) -> frozenset[str]:
    """Returns which columns of a change table are Qlik's own, by lower-case name.

    `names` are in the table's order. Qlik's own are the columns that its page lists, and others that begin
    with the prefix and come before the source's columns. The first other name that the feed states (`stated`)
    or that lacks the prefix begins the source's columns.

    Without a prefix a listed name belongs to the source if the feed states it, or if it is common in sources
    (`_USUAL`) and comes after the first name that is not listed: the task need not store Qlik's column.
    """
    lower, of_source = [name.lower() for name in names], {name.lower() for name in stated}
    listed = {prefix.lower() + name for name in _NAMES}
    if not prefix:
        begin = next((at for at, name in enumerate(lower) if name not in listed), len(lower))
        listed -= of_source | _USUAL.intersection(lower[begin:])
    headers = listed.intersection(lower)
    for name in lower:
        if name not in listed and (not prefix or name in of_source or not name.startswith(prefix.lower())):
            break
        headers.add(name)
    return frozenset(headers)


def source_of(feed: Feed) -> QlikTablesSource:
    assert isinstance(feed.source, QlikTablesSource), "config binds a dialect to its source"
    return feed.source


@dataclass(frozen=True)
class Header:
    """The header columns of n rows. A column that is not stored reads as NULL."""

    rows: RawRows
    source: QlikTablesSource

    def name(self, header: str) -> str:
        return self.source.header_prefix + header

    def missing(self) -> str | None:
        """Returns an error text if no column tells changes from rows of a full load, else None."""
        names = [self.name(header) for header in (CHANGE_SEQ, CHANGE_OPER, OPERATION)]
        if any(map(self.rows.has, names)):
            return None
        return f"the table has none of the columns {', '.join(names)}: correct `header_prefix`"

    def text(self, header: str) -> pa.StringArray:
        """Returns the column's texts without blanks at either end; NULL where nothing is left."""
        return trimmed(self.rows.text(self.name(header)))

    @cached_property
    def seq(self) -> pa.StringArray:
        return self.text(CHANGE_SEQ)

    @cached_property
    def _oper(self) -> pa.StringArray:
        return pc.utf8_upper(self.text(CHANGE_OPER))

    @cached_property
    def _word(self) -> pa.StringArray:
        return pc.utf8_upper(self.text(OPERATION))

    @cached_property
    def _spoken(self) -> pa.StringArray:
        """The letter for the word in `operation`; NULL if it is another word."""
        return _LETTERS.take(pc.index_in(self._word, value_set=_WORDS))

    @cached_property
    def letter(self) -> pa.StringArray:
        """I, U, D, B or T; empty for a row of the full load, which has no header values.

        Other letters stay as they are. NULL if there is none. The letter T is not documented, so it is NULL
        unless `operation` says TRUNCATE, too.
        """
        is_load = pc.and_(pc.is_null(self.seq), pc.and_(pc.is_null(self._oper), pc.is_null(self._word)))
        said = pc.coalesce(self._oper, self._spoken, pc.if_else(is_load, pa.scalar(""), _NO_TEXT))
        unsaid = pc.and_(pc.equal(said, "T"), pc.is_null(self._spoken))
        return pc.if_else(unsaid, _NO_TEXT, said)

    def disagrees(self) -> pa.BooleanArray:
        """Returns where change_oper and operation contradict each other; nowhere if either is missing."""
        differ = pc.not_equal(self._oper, pc.fill_null(self._spoken, "?"))
        return pc.and_(pc.is_valid(self._word), pc.fill_null(differ, fill_value=False))

    def mask(self) -> pa.BinaryArray:
        """Returns the bytes of the masks; NULL where there is none or it is not hex.

        An empty text sets no bit, unless it stands for NULL.
        """

        def read(column: Read) -> pa.BinaryArray:
            if column.kind == "binary":
                return column.values
            if column.kind != "string":
                # Nothing says whether the digits of a number are hex.
                return pa.nulls(len(column.values), pa.binary())
            digits = pc.utf8_trim(as_text(column.values), " ")
            if self.source.empty_is_null:
                digits = pc.if_else(pc.equal(digits, ""), _NO_TEXT, digits)
            return masks.from_texts(digits)

        return self.rows.first(self.name(CHANGE_MASK), read, pa.binary())

    def commit_lsn(self) -> Lsns:
        return lsn.leading(self.text(STREAM_POSITION))

    def stamp(self) -> pa.TimestampArray:
        """Returns the timestamps, in UTC; NULL where there is none or it is not a point in time."""

        def read(column: Read) -> pa.TimestampArray:
            if column.kind not in {"timestamp", "timestamp_ntz"}:
                text = trimmed(as_text(column.values))
                # Neither a time of day nor a number is a point in time.
                begins = pc.match_substring_regex(text, "^[0-9]{4}-")
                column = Read("string", pc.if_else(begins, text, _NO_TEXT))
            return instants.known(*instants.read(column, in_zone=True))

        return self.rows.first(self.name(TIMESTAMP), read, INSTANT)


def record(raw: pa.RecordBatch, instance: str, feed: Feed, hidden: Hidden) -> pa.StructArray:
    """Returns positions: the change table, and change_seq and operation as text.

    A row without a change_seq is identified by a hash of its contents, as far as they are published. If the
    hash covered a column that is left out, or hashed one without the secret, whoever has all other cells
    could find the value by trying.
    """
    rows = RawRows.of(raw)
    header = Header(rows, source_of(feed))
    place = pc.binary_join_element_wise(header.seq, pc.fill_null(header.letter, "?"), "")
    nowhere = ~valid(place)
    if nowhere.any():
        contents = json_rows.rows(_shown(rows, hidden), rows.size)
        digests = [
            sha256(content.encode()).hexdigest() for content in contents.filter(pa.array(nowhere)).to_pylist()
        ]
        place = pc.replace_with_mask(place, pa.array(nowhere), pa.array(digests, pa.string()))
    return records(instance, place.cast(pa.binary()))


def _shown(rows: RawRows, hidden: Hidden) -> dict[str, pa.Array]:
    """Returns the columns without hidden values. Rules for missing columns and NULLs change nothing."""
    shown = {name: cells for name, cells in rows.columns.items() if name.lower() not in hidden.left_out}
    for name in [name for name in shown if name.lower() in hidden.hashed]:
        texts = json_rows.rows({name: shown[name]}, rows.size).to_pylist()
        hashes = [hmac.digest(hidden.secret.encode(), text.encode(), sha256).hex() for text in texts]
        shown[name] = pa.array(hashes, pa.string(), mask=~valid(shown[name]))
    return shown


def mask_rules(raw: pa.Schema, feed: Feed, writer_schema: Contract) -> MaskRules:
    """Returns the rules of masks. Header columns are those before the first column of the source.

    The unproved byte order: in texts the last digit has the lowest bits, as in published samples; in bytes
    the first byte has them, by Qlik's page.
    """
    first = min((c.ordinal for c in writer_schema.columns), default=1)
    name = (source_of(feed).header_prefix + CHANGE_MASK).lower()
    are_bytes = any(
        pa.types.is_binary(field.type) and field.name.lower().removesuffix("::binary") == name
        for field in raw
    )
    return MaskRules("key", tuple(range(1, first)), unproved="little" if are_bytes else "big")
