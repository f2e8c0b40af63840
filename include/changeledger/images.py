"""Row images: from what a message says to a typed row whose cells are known, NULL, or gaps.

An image comes either as JSON members (map<string,string>: the text of each member, exactly as written)
or as the columns of a change table. A cell has one of four states: a value, NULL, unavailable (the
source could not send it), not captured. The last two are gaps: `map<column, state>` beside the image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger.change import NOT_CAPTURED, UNAVAILABLE
from changeledger.contract import Column as ContractColumn
from changeledger.contract import Contract


class Wire(NamedTuple):
    """How a dialect writes cells.

    `form`: the text as `value` wants it, such as the digits of an encoded number. `value`: the typed
    value of a form; NULL where it does not fit.
    """

    form: Callable[[Column, ContractColumn], Column]
    value: Callable[[Column, ContractColumn], Column]


def _names(contract: Contract) -> Column:
    return F.array(*(F.lit(name) for name in contract.names))


def has_shape(members: Column, contract: Contract) -> Column:
    """Are the members exactly the contract's columns, in its order? Nearly always: tools keep an order.

    One comparison of arrays then takes the place of a search by name for every column of the row.
    """
    return F.map_keys(members) == _names(contract)


def texts(members: Column, contract: Contract) -> Column:
    """array<string>: the members' texts in the order of the contract; NULL for NULL and for absent.

    NULL where there is no image. Of duplicate members the last one counts, as in most JSON readers
    (the session's spark.sql.mapKeyDedupPolicy).
    """
    last = F.map_from_entries(F.map_entries(members))
    by_name = F.transform(_names(contract), lambda name: F.element_at(last, name))
    in_order = F.when(has_shape(members, contract), F.map_values(members)).otherwise(by_name)
    return F.when(members.isNotNull(), in_order)


def unknown_members(members: Column, contract: Contract) -> Column:
    """array<string> of members that the contract has no column for; NULL where there is none."""
    extra = F.array_except(F.map_keys(members), _names(contract))
    return F.when(~has_shape(members, contract) & (F.size(extra) > 0), extra)


def read_cells(frame: DataFrame, side: str, contract: Contract, wire: Wire, held: Sequence[str]) -> DataFrame:
    """Add the typed cells of one image as columns `<side>_0`, `<side>_1`, ... from `<side>_texts`.

    Each cell is a column of its own until the image is complete: Spark copies an expression to wherever
    a field of a struct is used, and a wide table would drown in copies. A placeholder is no value,
    whatever type its column has.
    """
    texts_of = F.col(f"{side}_texts")
    numbered = list(enumerate(contract.columns))
    forms = {f"{side}_form_{at}": wire.form(F.get(texts_of, F.lit(at)), c) for at, c in numbered}
    values = {}
    for at, column in numbered:
        value = wire.value(F.col(f"{side}_form_{at}"), column)
        if column.spark_type in {"string", "binary"}:
            value = F.when(~F.get(texts_of, F.lit(at)).isin(*held), value)
        values[f"{side}_{at}"] = value
    return frame.withColumns(forms).withColumns(values).drop(*forms)


def cells(side: str, contract: Contract) -> list[Column]:
    """The columns that `read_cells` has added."""
    return [F.col(f"{side}_{at}") for at, _ in enumerate(contract.columns)]


def image(side: str, contract: Contract) -> Column:
    """The image as a struct in the contract's types; NULL where the message has none."""
    fields = [c.alias(n) for c, n in zip(cells(side, contract), contract.names, strict=True)]
    return F.when(F.col(f"{side}_texts").isNotNull(), F.struct(*fields))


def fields(struct: Column, contract: Contract) -> list[Column]:
    """The cells of an image that is a struct already."""
    return [struct.getField(name) for name in contract.names]


def misfits(side: str, contract: Contract, held: Sequence[str]) -> Column:
    """array<string> of columns whose text did not fit the type; NULL where all did."""
    texts_of = F.col(f"{side}_texts")
    bad = []
    for at, value in enumerate(cells(side, contract)):
        text = F.get(texts_of, F.lit(at))
        bad.append(value.isNull() & text.isNotNull() & ~text.isin(*held))
    anywhere = reduce(or_, bad)
    names = [F.when(b, F.lit(n)) for b, n in zip(bad, contract.names, strict=True)]
    return F.when(anywhere, F.array_compact(F.array(*names)))


def gaps(members: Column, cells: Column, contract: Contract, placeholders: Sequence[str]) -> Column:
    """map<column, state> of the cells that are not known; NULL where all are.

    A member that holds a placeholder is unavailable; one that is not there was not captured.
    """
    placeheld = F.arrays_overlap(cells, F.array(*(F.lit(p) for p in placeholders)))
    held = F.array(*(F.lit(p) for p in placeholders))
    state = F.transform(
        _names(contract),
        lambda name, at: F.struct(
            name,
            F.when(F.array_contains(held, F.get(cells, at)), F.lit(UNAVAILABLE)).when(
                ~F.array_contains(F.map_keys(members), name), F.lit(NOT_CAPTURED)
            ),
        ),
    )
    known = F.filter(state, lambda entry: entry["col2"].isNotNull())
    some = F.when(F.size(known) > 0, F.map_from_entries(known))
    return F.when(~has_shape(members, contract) | F.coalesce(placeheld, F.lit(False)), some)


def differing(before: Sequence[Column], after: Sequence[Column], names: Sequence[str]) -> Column:
    """array<string> of the columns whose cells differ; two NULLs are equal. A gap counts as NULL."""
    each = zip(before, after, names, strict=True)
    return F.array_compact(F.array(*(F.when(~b.eqNullSafe(a), F.lit(n)) for b, a, n in each)))


def without_gaps(names: Column, before_gaps: Column, after_gaps: Column) -> Column:
    """`names` less those that are a gap on either side."""
    for gap in (before_gaps, after_gaps):
        names = F.when(gap.isNull(), names).otherwise(F.array_except(names, F.map_keys(gap)))
    return names


def key_of(values: Sequence[Column], contract: Contract) -> Column:
    """The key struct, from the cells of an image."""
    by_name = dict(zip(contract.names, values, strict=True))
    return F.struct(*(by_name[c.name].alias(c.name) for c in contract.key))


def key_is_null(key: Column, contract: Contract) -> Column:
    """Is any column of the key NULL?"""
    return reduce(or_, (key.getField(c.name).isNull() for c in contract.key))


def fingerprint(parts: Sequence[Column], images: Sequence[Column], contract: Contract) -> Column:
    """32 hex digits over where a change stands and what it says: the change's stable id.

    Two 64-bit hashes with different beginnings. A NULL leaves Spark's hash as it was, so each value is
    hashed with its column's name: an added, still empty column does not change the id of an old change.
    """
    cells: list[Column] = []
    for number, image in enumerate(images):
        for column in contract.columns:
            value = image.getField(column.name)
            cells += [F.when(value.isNotNull(), F.lit(f"{number}.{column.name}")), value]
    for number, part in enumerate(parts):
        cells += [F.when(part.isNotNull(), F.lit(number)), part]
    halves = [F.lpad(F.hex(F.xxhash64(F.lit(seed), *cells)), 16, "0") for seed in ("a", "b")]
    return F.concat(*halves)
