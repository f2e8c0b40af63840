"""Raw rows of change tables as Arrow batches: columns are found by name and may be missing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from changeledger.kernels import cast_text, cells, sql_text
from changeledger.kernels.arrow import RECORD, Bools, batch_of, by_name, numbers, valid

# Columns that a raw table has beside those of its source.
OWN = ("window_id", "source_position", "_instance")
# The end of a stored column's name that states its type.
_TYPED = re.compile(r"::[a-z0-9_(),]+\Z")
_INTS = {"tinyint", "smallint", "int"}
_KINDS = {
    pa.bool_(): "boolean",
    pa.int8(): "tinyint",
    pa.int16(): "smallint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.date32(): "date",
    pa.string(): "string",
    pa.binary(): "binary",
}


def kind_of(kind: pa.DataType) -> str:
    """Returns Spark's name for a raw column's type."""
    if pa.types.is_timestamp(kind):
        return "timestamp_ntz" if kind.tz is None else "timestamp"
    return f"decimal({kind.precision},{kind.scale})" if pa.types.is_decimal(kind) else _KINDS[kind]


def stored_names(read: pa.Schema, spark_types: Mapping[str, str]) -> list[str]:
    """Returns the raw table's names for the columns that were read.

    A source column is stored as `<name>::<type>` if the raw table already uses its name, either for a column
    in `OWN` or for one of another type: raw rows stay as they were read. The same holds for a source column
    whose name itself ends in a type like that. `spark_types` has the Spark types of the raw table's columns
    by lower-case name.
    """
    kinds = {**spark_types, **dict.fromkeys(OWN, "")}
    names = []
    for field in read:
        kind = kind_of(field.type)
        # Iceberg has no whole number narrower than int.
        in_lake = "int" if kind in {"tinyint", "smallint"} else kind
        is_free = kinds.get(field.name.lower(), kind) in {kind, in_lake} and not _TYPED.search(field.name)
        names.append(field.name if is_free else f"{field.name}::{in_lake}")
    return names


class Read(NamedTuple):
    """A column as it was read: Spark's name of its type, and its values."""

    kind: str
    values: pa.Array


@dataclass(frozen=True)
class RawRows:
    """n raw rows.

    `reads` maps a source column's lower-case name to the stored columns that have its values. There are
    several if its type changed (`<name>::<type>`); each row has a value in at most one of them.
    """

    size: int
    # By the names in the batch, without those in `OWN`.
    columns: Mapping[str, pa.Array]
    reads: Mapping[str, Sequence[Read]]

    @classmethod
    def of(cls, raw: pa.RecordBatch) -> RawRows:
        columns = {name: values for name, values in by_name(raw).items() if name not in OWN}
        reads: dict[str, list[Read]] = {}
        for stored, values in columns.items():
            kind = kind_of(values.type)
            reads.setdefault(stored.removesuffix(f"::{kind}").lower(), []).append(Read(kind, values))
        return cls(raw.num_rows, columns, reads)

    def without(self, names: Iterable[str]) -> RawRows:
        """Returns the rows with these columns removed from `reads`."""
        others = self.reads.keys() - {name.lower() for name in names}
        return replace(self, reads={name: self.reads[name] for name in others})

    def has(self, name: str) -> bool:
        return name.lower() in self.reads

    def read(self, name: str) -> Sequence[Read]:
        return self.reads.get(name.lower(), ())

    def first(self, name: str, form: Callable[[Read], pa.Array], kind: pa.DataType) -> pa.Array:
        """Applies `form` to the column, and returns NULLs of `kind` if there is no such column."""
        forms = [form(read) for read in self.read(name)]
        return pc.coalesce(*forms) if forms else pa.nulls(self.size, kind)

    def text(self, name: str) -> pa.StringArray:
        """Returns the values as texts, bytes as 0x and hex."""
        return self.first(name, lambda read: cast_text.shown(read.values), pa.string())

    def shown(self, name: str, otherwise: str = "NULL") -> Callable[[int], str]:
        """Returns a function that shows a row's value as text, or `otherwise` if it is NULL or missing."""

        def of_row(row: int) -> str:
            texts = (cast_text.shown(values.slice(row, 1))[0].as_py() for _, values in self.read(name))
            return next((text for text in texts if text is not None), otherwise)

        return of_row

    def whole(self, name: str, otherwise: int = 0) -> tuple[npt.NDArray[np.int64], Bools]:
        """Returns the values as 32-bit integers, and which of them are present but not such integers.

        Rows without an integer get `otherwise`.
        """
        whole_numbers = np.full(self.size, otherwise, np.int64)
        broken = np.zeros(self.size, np.bool_)
        for kind, values in self.read(name):
            is_there = valid(values)
            whole = values if kind in _INTS else _whole(cast_text.as_text(values)).values
            is_known = valid(whole)
            whole_numbers = np.where(is_known, numbers(whole), whole_numbers)
            broken |= is_there & ~is_known
        return whole_numbers, broken


_whole = cells.one_by_one(partial(sql_text.whole, least=-(2**31), most=2**31 - 1), pa.int64())


def records(source: str, place: pa.BinaryArray) -> pa.StructArray:
    """Returns positions of rows in the change table `source`."""
    return batch_of({"source": source, "row": place}, pa.schema(list(RECORD))).to_struct_array()


def trimmed(texts: pa.StringArray) -> pa.StringArray:
    """Trims blanks from both ends; NULL where nothing is left."""
    trimmed_texts = pc.utf8_trim(texts, " ")
    return pc.if_else(pc.equal(trimmed_texts, ""), pa.scalar(None, pa.string()), trimmed_texts)
