"""What kernels must know to decode one table's records: small, without Spark, and picklable."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from changeledger.config.feed import Feed
from changeledger.kernels.arrow import Bools
from changeledger.model.contract import Contract


@dataclass(frozen=True)
class TablePlan:
    """How the records of one table, which share one writer schema, are decoded."""

    feed: Feed
    # The columns as the records write them, with the ordinals of masks and their byte order (`mask_order`;
    # None: not known).
    writer_schema: Contract
    # The table's contract in the lake; it has all columns of the writer schema, in the same or wider types.
    contract: Contract
    window_id: str
    # Why the masks must not be read: changes with a mask are quarantined for it. None: they may be read.
    masks_unreadable: str | None = None
    # Of messages of Qlik: the Avro schemas that they name, by name.
    avro_schemas: tuple[tuple[str, str], ...] = ()

    @property
    def is_computed(self) -> Bools:
        """Which columns are computed, so that no value of theirs is believed (ADR 0017)."""
        computed = self.contract.computed
        return np.array([name.lower() in computed for name in self.writer_schema.names], np.bool_)

    @property
    def never_null(self) -> list[int]:
        """The columns, by their numbers, of which the feed says that they cannot be NULL; without the key."""
        config = self.feed.table(self.writer_schema.table)
        stated = () if config is None else config.stated
        names = {column.name.lower() for column in stated if not column.nullable}
        columns = enumerate(self.writer_schema.columns)
        return [at for at, column in columns if column.name.lower() in names and not column.key_position]
