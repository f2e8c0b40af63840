"""Row images: from what a message says to a typed row whose cells are known, NULL, or gaps.

An image comes either as JSON members (map<string,string>: the text of each member, exactly as written)
or as the columns of a change table. A cell has one of four states: a value, NULL, unavailable (the
source could not send it), not captured. The last two are gaps: `map<column, state>` beside the image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger.change import NOT_CAPTURED, UNAVAILABLE, literal, quoted
from changeledger.contract import Column as ContractColumn
from changeledger.contract import Contract, SqlType

# What is done to every column of a table is written as SQL text, and given to Spark in one piece: each
# call on a Column costs a message to the JVM, and a wide table has thousands of them.


class Wire(NamedTuple):
    """How a dialect writes cells, as SQL text.

    `form`: of the cell's text, the text as `value` wants it, such as the digits of an encoded number.
    `value`: the typed value of a form; NULL where it does not fit.
    """

    form: Callable[[str, ContractColumn], str]
    value: Callable[[str, ContractColumn], str]


def _names(contract: Contract) -> Column:
    return F.expr(f"array({', '.join(map(literal, contract.names))})")


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


def read_cells(  # noqa: PLR0913, PLR0917 - what a cell is read by
    frame: DataFrame,
    sides: Sequence[str],
    contract: Contract,
    wire: Wire,
    held: Sequence[str],
    encoded: Sequence[str] = (),
) -> DataFrame:
    """Add the typed cells of images as columns `<side>_0`, `<side>_1`, ... from `<side>_texts`.

    Each cell is a column of its own until the image is complete: Spark copies an expression to wherever
    a field of a struct is used, and a wide table would drown in copies. So is a form that is more than
    the text. A placeholder is no value, whatever type its column has: one of `held`, or of `encoded`,
    which in a column of text are text like any other.
    """
    forms, values = [], []
    for side in sides:
        for at, column in enumerate(contract.columns):
            told = f"get({side}_texts, {at})"
            form = wire.form(told, column)
            if form != told:
                forms.append(f"{form} AS {side}_form_{at}")
                form = f"{side}_form_{at}"
            value = in_range(wire.value(form, column), column)
            if column.spark_type in {"string", "binary"}:
                value = f"CASE WHEN NOT {_is_held(told, column, held, encoded)} THEN {value} END"
            values.append(f"{value} AS {side}_{at}")
    before = [quoted(name) for name in frame.columns]
    return frame.selectExpr("*", *forms).selectExpr(*before, *values)


def in_range(value: str, column: ContractColumn) -> str:
    """SQL text: NULL where SQL Server's type has no such value, though the lake's is wide enough.

    A tinyint ends at 255. There is neither NaN nor infinity, which a number too large becomes in Spark.
    """
    if column.sql_type.base == "tinyint":
        return f"CASE WHEN {value} >= 0 AND {value} <= 255 THEN {value} END"
    if column.spark_type in {"float", "double"}:
        # To Spark NaN is the largest number.
        return f"CASE WHEN abs({value}) < {column.spark_type}('Infinity') THEN {value} END"
    return value


# Java would work for minutes on a longer text or a larger exponent, or give up with the whole run.
_LONGEST_DECIMAL = 1000
_EXPONENT = r"[eE]([+-]?0*[0-9]{1,2})\z"
# Before an exponent: the digits behind the point up to the last that counts; with none, the zeros before it.
_ZERO = r"^[+-]?[0.]+[eE][+-]?0*[0-9]{1,2}\z"
_PLACES = "(?:[.]([0-9]*[1-9])0*+|(0*+)(?:[.]0*+)?)[eE]"


def decimal(text: str, sql: SqlType) -> str:
    """SQL text: a decimal from its text; NULL where digits beyond its scale would be rounded away."""
    scale, point = sql.scale_of_decimal, f"instr({text}, '.')"
    # The pattern is tried only where the text has more places than the type.
    beyond = (
        f"{point} > 0 AND length({text}) - {point} > {scale} AND {text} RLIKE '[.][0-9]{{{scale}}}0*[1-9]'"
    )
    whole, zeros = (f"length(regexp_extract({text}, {literal(_PLACES)}, {group}))" for group in (1, 2))
    power = f"try_cast(regexp_extract({text}, {literal(_EXPONENT)}, 1) AS INT)"
    scaled = f"{whole} - {zeros} - {power} <= {scale} OR {text} RLIKE {literal(_ZERO)}"
    has_exponent = f"contains({text}, 'E') OR contains({text}, 'e')"
    fits = f"CASE WHEN {has_exponent} THEN {scaled} ELSE NOT ({beyond}) END"
    number = f"try_cast({text} AS {sql.spark})"
    return f"CASE WHEN length({text}) <= {_LONGEST_DECIMAL} AND {fits} THEN {number} END"


def _is_one_of(told: str, held: Sequence[str]) -> str:
    if not held:
        return "false"
    return f"({told} IN ({', '.join(map(literal, held))}))"


def _is_held(told: str, column: ContractColumn, held: Sequence[str], encoded: Sequence[str]) -> str:
    return _is_one_of(told, held if column.spark_type == "string" else (*held, *encoded))


def cells(side: str, contract: Contract) -> list[str]:
    """The columns that `read_cells` has added."""
    return [f"{side}_{at}" for at, _ in enumerate(contract.columns)]


def image(side: str, contract: Contract) -> Column:
    """The image as a struct in the contract's types; NULL where the message has none."""
    struct = _struct(cells(side, contract), contract.names)
    return F.expr(f"CASE WHEN {side}_texts IS NOT NULL THEN {struct} END")


def _struct(values: Sequence[str], names: Sequence[str]) -> str:
    return f"named_struct({', '.join(f'{literal(n)}, {v}' for n, v in zip(names, values, strict=True))})"


def fields(struct: str, contract: Contract) -> list[str]:
    """The cells of an image that is a struct already."""
    return [f"{quoted(struct)}.{quoted(name)}" for name in contract.names]


def misfits(side: str, contract: Contract, held: Sequence[str], encoded: Sequence[str] = ()) -> Column:
    """array<string> of columns whose text did not fit the type; NULL where all did."""
    bad = []
    for at, (value, column) in enumerate(zip(cells(side, contract), contract.columns, strict=True)):
        told = f"get({side}_texts, {at})"
        is_held = _is_held(told, column, held, encoded)
        bad.append(f"({value} IS NULL AND {told} IS NOT NULL AND NOT {is_held})")
    return F.expr(f"CASE WHEN {' OR '.join(bad)} THEN {names_where(bad, contract.names)} END")


def names_where(conditions: Sequence[str], names: Sequence[str]) -> str:
    """array<string> of the names whose condition holds."""
    each = (f"CASE WHEN {c} THEN {literal(n)} END" for c, n in zip(conditions, names, strict=True))
    return f"array_compact(array({', '.join(each)}))"


def gaps(
    members: str, side: str, contract: Contract, held: Sequence[str], encoded: Sequence[str] = ()
) -> Column:
    """map<column, state> of the cells that are not known; NULL where all are.

    A member that holds a placeholder is unavailable; one that is not there was not captured. `members`
    is the name of the map, `<side>_texts` holds its texts.
    """
    names = f"array({', '.join(map(literal, contract.names))})"
    placeheld = " OR ".join(
        _is_held(f"get({side}_texts, {at})", column, held, encoded)
        for at, column in enumerate(contract.columns)
    )
    of_text = ", ".join(literal(c.name) for c in contract.columns if c.spark_type == "string")
    is_held = _is_one_of(f"get({side}_texts, at)", held)
    if encoded:
        in_bytes = f"NOT array_contains(array({of_text}), name)" if of_text else "true"
        is_held = f"({is_held} OR {_is_one_of(f'get({side}_texts, at)', encoded)} AND {in_bytes})"
    states = (
        f"transform({names}, (name, at) -> struct(name, CASE"
        f" WHEN {is_held} THEN {literal(UNAVAILABLE)}"
        f" WHEN NOT array_contains(map_keys({members}), name) THEN {literal(NOT_CAPTURED)} END AS state))"
    )
    found = f"filter({states}, entry -> entry.state IS NOT NULL)"
    suspect = f"NOT (map_keys({members}) <=> {names}) OR coalesce({placeheld}, false)"
    some = f"CASE WHEN size({found}) > 0 THEN map_from_entries({found}) END"
    return F.expr(f"CASE WHEN {members} IS NOT NULL AND ({suspect}) THEN {some} END")


def differing(before: Sequence[str], after: Sequence[str], names: Sequence[str]) -> Column:
    """array<string> of the columns whose cells differ; two NULLs are equal. A gap counts as NULL."""
    different = [f"NOT ({b} <=> {a})" for b, a in zip(before, after, strict=True)]
    return F.expr(names_where(different, names))


def fitted(decoded: DataFrame, shape: Contract, contract: Contract) -> DataFrame:
    """Changes whose images are in a writer's `shape`, in the contract of the table.

    Columns that the shape lacks are gaps: not captured. So are computed ones, whatever is told of them.
    Narrower types become the contract's. The shape's own columns are all in the contract.
    """
    columns_of = [[(c.name, c.spark_type) for c in one.columns] for one in (shape, contract)]
    if not contract.computed and columns_of[0] == columns_of[1]:
        return decoded
    there = {c.name.lower(): c for c in shape.columns if c.name.lower() not in contract.computed}
    lacking = [c.name for c in contract.columns if c.name.lower() not in there]

    def cast(struct: str, columns: Sequence[ContractColumn]) -> str:
        cells = [
            f"CAST({f'{struct}.{quoted(own.name)}' if (own := there.get(c.name.lower())) else 'NULL'}"
            f" AS {c.spark_type})"
            for c in columns
        ]
        return f"CASE WHEN {struct} IS NOT NULL THEN {_struct(cells, [c.name for c in columns])} END"

    columns = {side: F.expr(cast(side, contract.columns)) for side in ("before", "after")}
    columns |= {name: F.expr(cast(name, contract.key)) for name in ("key", "previous_key")}
    if lacking:
        gone = ", ".join(f"{literal(n)}, {literal(NOT_CAPTURED)}" for n in lacking)
        for side in ("before", "after"):
            known = f"coalesce({side}_gaps, CAST(map() AS MAP<STRING, STRING>))"
            columns[f"{side}_gaps"] = F.expr(
                f"CASE WHEN {side} IS NOT NULL THEN map_concat({known}, map({gone})) END"
            )
    return decoded.withColumns(columns)


def without_gaps(names: Column, before_gaps: Column, after_gaps: Column) -> Column:
    """`names` less those that are a gap on either side."""
    for gap in (before_gaps, after_gaps):
        names = F.when(gap.isNull(), names).otherwise(F.array_except(names, F.map_keys(gap)))
    return names


def key_of(values: Sequence[str], contract: Contract) -> Column:
    """The key struct, from the cells of an image."""
    by_name = dict(zip(contract.names, values, strict=True))
    names = [c.name for c in contract.key]
    return F.expr(_struct([by_name[n] for n in names], names))


def key_is_null(key: str, contract: Contract) -> Column:
    """Is any column of the key NULL? Of a table without a key none is."""
    if not contract.key:
        return F.lit(False)
    return F.expr(" OR ".join(f"{quoted(key)}.{quoted(c.name)} IS NULL" for c in contract.key))


def fingerprint(parts: Sequence[Column], images: Sequence[str], contract: Contract) -> Column:
    """32 hex digits over where a change stands and what it says: the change's stable id.

    It outlives a column that grows: Spark hashes 5 as an int and 5 as a bigint differently, so each value is
    hashed in the widest type of its kind. And one that is added: a NULL leaves Spark's hash as it was, so
    each value is hashed with its column's name. Two 64-bit hashes with different beginnings.
    """
    cells = []
    for number, image in enumerate(images):
        for column, value in zip(contract.columns, fields(image, contract), strict=True):
            label = literal(f"{number}.{column.name}")
            cells.append(f"CASE WHEN {value} IS NOT NULL THEN {label} END, {_widest(value, column)}")
    placed: list[Column] = []
    for number, part in enumerate(parts):
        placed += [F.when(part.isNotNull(), F.lit(number)), part]
    said = [F.expr(f"xxhash64({', '.join((literal(seed), *cells))})") for seed in ("a", "b")]
    return F.concat(*(F.lpad(F.hex(F.xxhash64(half, *placed)), 16, "0") for half in said))


def _widest(value: str, column: ContractColumn) -> str:
    """SQL text of the value in the type to which its column can grow (`contract`)."""
    kind = column.spark_type
    if kind in {"smallint", "int"}:
        return f"CAST({value} AS BIGINT)"
    if kind == "float":
        return f"CAST({value} AS DOUBLE)"
    if kind.startswith("decimal"):
        return f"CAST({value} AS DECIMAL(38,{column.sql_type.scale_of_decimal}))"
    return value
