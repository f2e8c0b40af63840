"""Row images: from what a message says to a typed row whose cells are known, NULL, or gaps.

An image comes either as JSON members (map<string,string>: the text of each member, exactly as written)
or as the columns of a change table. A cell has one of four states: a value, NULL, unavailable (the
source could not send it), not captured. The last two are gaps: `map<column, state>` beside the image.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F

from changeledger.change import NOT_CAPTURED, UNAVAILABLE
from changeledger.contract import Column as ContractColumn
from changeledger.contract import Contract

# The text of one cell -> its value in the contract's type; NULL where it does not fit.
Cell = Callable[[Column, ContractColumn], Column]


def _names(contract: Contract) -> Column:
    return F.array(*(F.lit(name) for name in contract.names))


def has_shape(members: Column, contract: Contract) -> Column:
    """Are the members exactly the contract's columns, in its order? Nearly always: tools keep an order.

    One comparison of arrays then takes the place of a search by name for every column of the row.
    """
    return F.map_keys(members) == _names(contract)


def texts(members: Column, contract: Contract) -> Column:
    """array<string>: the members' texts in the order of the contract; NULL for NULL and for absent.

    Of duplicate members the last one counts, as in most JSON readers.
    """
    last = F.map_from_entries(F.array_distinct(F.map_entries(members)))
    by_name = F.transform(_names(contract), lambda name: F.element_at(last, name))
    return F.when(has_shape(members, contract), F.map_values(members)).otherwise(by_name)


def unknown_members(members: Column, contract: Contract) -> Column:
    """array<string> of members that the contract has no column for; NULL where there is none."""
    extra = F.array_except(F.map_keys(members), _names(contract))
    return F.when(~has_shape(members, contract) & (F.size(extra) > 0), extra)


def typed(cells: Column, contract: Contract, cell: Cell, placeholders: Sequence[str]) -> Column:
    """struct in the contract's types from array<string>; NULL where `cells` is NULL.

    A placeholder is no value, whatever type its column has.
    """
    fields = []
    for at, column in enumerate(contract.columns):
        text = F.get(cells, F.lit(at))
        value = cell(text, column)
        if column.spark_type in {"string", "binary"}:
            value = F.when(~text.isin(*placeholders), value)
        fields.append(value.alias(column.name))
    return F.when(cells.isNotNull(), F.struct(*fields))


def misfits(cells: Column, image: Column, contract: Contract, placeholders: Sequence[str]) -> Column:
    """array<string> of columns whose text did not fit the type; NULL where all did."""
    bad = [
        F.get(cells, F.lit(at)).isNotNull()
        & image.getField(column.name).isNull()
        & ~F.get(cells, F.lit(at)).isin(*placeholders)
        for at, column in enumerate(contract.columns)
    ]
    anywhere = bad[0]
    for one in bad[1:]:
        anywhere = anywhere | one
    names = [F.when(b, F.lit(c.name)) for b, c in zip(bad, contract.columns, strict=True)]
    return F.when(cells.isNotNull() & anywhere, F.array_compact(F.array(*names)))


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


def differing(before: Column, after: Column, names: Sequence[str]) -> Column:
    """array<string> of the columns whose cells differ; two NULLs are equal. A gap counts as NULL."""
    return F.array_compact(
        F.array(
            *(F.when(~before.getField(n).eqNullSafe(after.getField(n)), F.lit(n)) for n in names),
        )
    )


def known_differing(
    before: Column, after: Column, before_gaps: Column, after_gaps: Column, names: Sequence[str]
) -> Column:
    """array<string> of the columns that differ and are known on both sides."""
    different = differing(before, after, names)
    for gap in (before_gaps, after_gaps):
        different = F.when(gap.isNull(), different).otherwise(F.array_except(different, F.map_keys(gap)))
    return different


def mask_disagrees(change: Mapping[str, Column], names: Sequence[str]) -> Column:
    """Does what the mask says (`changed`) differ from what the images show, where both are known?"""
    shown = known_differing(
        change["before"], change["after"], change["before_gaps"], change["after_gaps"], names
    )
    said = change["changed"]
    for gap in (change["before_gaps"], change["after_gaps"]):
        said = F.when(gap.isNull(), said).otherwise(F.array_except(said, F.map_keys(gap)))
    return shown != said


def key_of(image: Column, contract: Contract) -> Column:
    """The key struct of an image."""
    return F.struct(*(image.getField(c.name).alias(c.name) for c in contract.key))


def key_is_null(key: Column, contract: Contract) -> Column:
    """Is any column of the key NULL?"""
    missing = key.getField(contract.key[0].name).isNull()
    for column in contract.key[1:]:
        missing = missing | key.getField(column.name).isNull()
    return missing


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
