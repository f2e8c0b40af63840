"""Evidence for the byte order of a table's change masks, from what its records say.

One- and two-byte masks often fit both orders, and sources contradict their own pages. So the order is proved,
by rules that hold for every record read in the right order:

* the bits of header columns are 0;
* an INSERT sets the columns that it inserted: at least those that are not NULL;
* a DELETE sets the key and nothing else, or every column, by the dialect (`MaskRules`);
* an UPDATE sets exactly the columns in which its images differ, and none beyond the table.

`counted` counts what records say, and `mask_order.decision` judges. Large values, computed columns and gaps
are left out: images or masks do not say what changed in them. An update whose mask is empty is legal and says
nothing.

Sources: the pages on the dialects' change tables and data messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import images, ledger, masks, octets
from changeledger.kernels.arrow import Bools, equal, flags_of, valid
from changeledger.mask_order.decision import ORDERS, Evidence
from changeledger.model import change
from changeledger.model.contract import ByteOrder, Column, Contract

# The counts that keep an example.
_SHOWN = ("big", "little", "neither", "undecided")


@dataclass(frozen=True)
class MaskRules:
    """The rules that the masks of one table must obey, by its dialect."""

    delete_sets: Literal["key", "all"]
    # Ordinals of columns that the mask counts and never sets.
    header_ordinals: tuple[int, ...] = ()
    # Columns whose bits say nothing, besides large and computed ones.
    excluded: frozenset[str] = frozenset()
    # The order to take if no mask shows it: that of published data, or else of the dialect's page.
    unproved: ByteOrder = "big"


@dataclass(frozen=True)
class Facts:
    """What n records with a mask say. Sets of columns are n x highest flags."""

    mask: pa.BinaryArray
    kind: pa.StringArray
    # For updates with both images: the columns that differ.
    differing: Bools
    has_images: Bools
    # For inserts: the columns that are not NULL.
    known: Bools
    is_known: Bools
    gaps: Bools

    def is_kind(self, operation: str) -> Bools:
        return equal(self.kind, operation)


def facts(decoded: pa.RecordBatch, writer_schema: Contract, rules: MaskRules) -> Facts:
    """Returns the facts of changes that have a mask.

    `decoded` has decoded rows in the writer's columns, with the halves of updates joined.
    """
    is_change = pc.equal(decoded.column("disposition"), change.CHANGE)
    some = decoded.filter(pc.and_(is_change, pc.is_valid(decoded.column("mask"))))
    before, after = (ledger.image(some, side, writer_schema) for side in ("before", "after"))
    ordinals = [column.ordinal for column in writer_schema.columns]
    highest, places = max((*ordinals, *rules.header_ordinals)), [at - 1 for at in ordinals]
    kind = some.column("operation")
    is_update, is_insert = (equal(kind, operation) for operation in (change.UPDATE, change.INSERT))
    differing, known, gaps = (np.zeros((some.num_rows, highest), np.bool_) for _ in range(3))
    for at, (old, new) in enumerate(zip(before.cells, after.cells, strict=True)):
        differing[:, places[at]] = images.differs(old, new)
        known[:, places[at]] = valid(new)
    for image in (before, after):
        if image.states is not None:
            gaps[:, places] |= image.states != 0
    return Facts(
        masks.from_texts(some.column("mask")), kind, differing, is_update & before.present & after.present,
        known, is_insert & after.present, gaps,
    )  # fmt: skip


def counted(mask_facts: Facts, writer_schema: Contract, rules: MaskRules) -> Evidence:
    """Counts the records by what they say about the two orders. Each is in exactly one count."""
    said = dict(_Judged(mask_facts, writer_schema, rules).said())
    examples = {
        name: _first(mask_facts, np.flatnonzero(said[name]), writer_schema)
        for name in _SHOWN
        if said[name].any()
    }
    return Evidence(**{name: int(rows.sum()) for name, rows in said.items()}, examples=examples)


def _first(mask_facts: Facts, rows: npt.NDArray[np.int64], writer_schema: Contract) -> str:
    """Describes the record that sorts first, so that the text does not depend on the batches."""
    at = pa.array(rows)
    kind, mask = mask_facts.kind.take(at), masks.to_hex(mask_facts.mask.take(at))
    table = pa.Table.from_arrays([kind, mask], ["kind", "mask"])
    first = pc.sort_indices(table, sort_keys=[("kind", "ascending"), ("mask", "ascending")])[0].as_py()
    alike = rows[flags_of(pc.and_(pc.equal(kind, kind[first]), pc.equal(mask, mask[first])))]
    text = f"{kind[first]} with mask 0x{mask[first]}"
    # A record without images sorts first.
    if not mask_facts.has_images[alike].all():
        return text
    differing = min((np.flatnonzero(flags) + 1).tolist() for flags in mask_facts.differing[alike])
    differ = [c.name for c in writer_schema.columns if c.ordinal in differing]
    return f"{text}, the images differ in {', '.join(differ) or 'no column'}"


@dataclass(frozen=True)
class _Judged:
    """Applies the rules to facts, in both orders."""

    facts: Facts
    writer_schema: Contract
    rules: MaskRules

    @property
    def highest(self) -> int:
        return int(self.facts.gaps.shape[1])

    def said(self) -> Iterator[tuple[str, Bools]]:
        """Yields each count's name, and which records go into it."""
        big, little = (masks.bits(self.facts.mask, self.highest, order) for order in ORDERS)
        tops = {order: masks.highest_set(self.facts.mask, order) for order in ORDERS}
        obeys = [self._obeys(bits, tops[order]) for bits, order in zip((big, little), ORDERS, strict=True)]
        same, both, either = (big == little).all(axis=1), obeys[0] & obeys[1], obeys[0] | obeys[1]
        tested = self._tested(tops["big"])
        yield "big", obeys[0] & ~obeys[1]
        yield "little", obeys[1] & ~obeys[0]
        yield "neither", ~either
        yield "undecided", both & ~same
        yield "either", both & same & tested
        yield "untested", both & same & ~tested

    def _tested(self, top: npt.NDArray[np.int64]) -> Bools:
        """Returns the records to which a rule applies."""
        mask_facts = self.facts
        if self.rules.header_ordinals:
            return np.ones(len(mask_facts.mask), np.bool_)
        return mask_facts.is_kind(change.DELETE) | mask_facts.is_known | (mask_facts.has_images & (top > 0))

    def _obeys(self, bits: Bools, top: npt.NDArray[np.int64]) -> Bools:
        """Returns which records, read in this order, obey every rule that applies to them."""
        mask_facts, columns = self.facts, self.writer_schema.columns
        excluded = self.rules.excluded
        sure = self._flags([c for c in columns if not (c.name in excluded or c.computed or c.is_large)])
        care = sure & ~mask_facts.gaps
        inserted = ~(mask_facts.known & ~bits & care).any(axis=1)
        within = top <= self.highest
        if self.rules.delete_sets == "all":
            deleted = (bits | ~sure).all(axis=1)
            # A wider mask belongs to a table with more columns than its rows show; SQL Server trims no zeros.
            within |= octets.lengths(mask_facts.mask) > masks.width(self.highest)
        else:
            deleted = (
                self._sets_the_key(bits) & within if self.writer_schema.key else np.ones(len(top), np.bool_)
            )
        differ = ((bits ^ mask_facts.differing) & care).any(axis=1)
        updated = within & (~mask_facts.has_images | (top == 0) | ~differ)
        headers = masks.of(self.rules.header_ordinals, self.highest)
        by_kind = np.select(
            [mask_facts.is_kind(kind) for kind in (change.INSERT, change.DELETE, change.UPDATE)],
            [inserted, deleted, updated],
            default=True,
        )
        obeyed: Bools = ~(bits & headers).any(axis=1) & by_kind
        return obeyed

    def _sets_the_key(self, bits: Bools) -> Bools:
        of_table = bits & self._flags(self.writer_schema.columns)
        sets_key: Bools = (of_table == self._flags(self.writer_schema.key)).all(axis=1)
        return sets_key

    def _flags(self, columns: Sequence[Column]) -> Bools:
        return masks.of([column.ordinal for column in columns], self.highest)
