"""The plan by which kernels decode one table's records: small, picklable and without Spark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from changeledger.config.feed import Feed
from changeledger.kernels.arrow import Bools
from changeledger.model.contract import Contract


@dataclass(frozen=True)
class TablePlan:
    """How to decode the records of one table that share a writer schema."""

    feed: Feed
    # The columns as the records write them, with the ordinals of masks and their byte order (`mask_order`,
    # None if unknown).
    writer_schema: Contract
    # The table's contract in the lake. It has all columns of the writer schema, in the same or wider types.
    contract: Contract
    window_id: str
    # Why changes with a mask are quarantined, or None if masks may be read.
    masks_unreadable: str | None = None
    # For messages of Qlik: pairs of name and Avro schema.
    avro_schemas: tuple[tuple[str, str], ...] = ()

    @property
    def is_computed(self) -> Bools:
        """Which columns are computed, so that their values are not used (ADR 0017)."""
        computed = self.contract.computed
        return np.array([name.lower() in computed for name in self.writer_schema.names], np.bool_)

    @property
    def never_null(self) -> list[int]:
        """The numbers of the columns outside the key that the feed states as NOT NULL."""
        config = self.feed.table(self.writer_schema.table)
        stated = () if config is None else config.stated
        names = {column.name.lower() for column in stated if not column.nullable}
        columns = enumerate(self.writer_schema.columns)
        return [at for at, column in columns if column.name.lower() in names and not column.key_position]
