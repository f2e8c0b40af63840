"""What the members of a CES event mean: its position, its time, its two images."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from changeledger import change, images, lsn
from changeledger.contract import Contract
from changeledger.dialects.base import in_calendar
from changeledger.dialects.ces_messages import with_objects
from changeledger.dialects.ces_values import CUT, is_cut, wire

_QUARTER_HOUR = 900_000_000
_FARTHEST_ZONE = 14 * 4 * _QUARTER_HOUR
# `committime` may come from a `datetime`, which counts thirds of 10 ms.
_TICK = 10_000


def positions(raw: DataFrame) -> DataFrame:
    """From `logicalid`, `<guid>:<commit LSN>:<sequence>`; else from the transaction."""
    place = r":([0-9A-Fa-f]{20}):([0-9]{1,20})\z"
    told = {
        "logical_lsn": lsn.from_text(F.regexp_extract("logicalid", place, 1)),
        "logical_number": F.regexp_extract("logicalid", place, 2).try_cast("bigint"),
        "commit_lsn_told": lsn.from_text(F.col("commitlsn")),
        "number_told": F.col("sequencenumber").try_cast("bigint"),
    }
    in_id = F.col("logical_lsn").isNotNull() & F.col("logical_number").isNotNull()
    number = F.when(in_id, F.col("logical_number")).otherwise(F.col("number_told"))
    differs = (F.col("logical_lsn") != F.col("commit_lsn_told")) | (
        F.col("logical_number") != F.col("number_told")
    )
    return raw.withColumns(told).withColumns(
        {
            "commit_lsn": F.when(in_id, F.col("logical_lsn")).otherwise(F.col("commit_lsn_told")),
            "ordinal": F.when(number >= 0, number),
            "position_differs": in_id & differs,
        }
    )


def _instant(text: Column) -> Column:
    """An ISO time; one without a zone is UTC. NULL where it is none, or not of the years 1 to 9999."""
    clock = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?"
    read = F.when(text.rlike(clock + r"(Z|[+-][0-9]{2}:[0-9]{2})?\z"), text.try_cast("timestamp"))
    return in_calendar(read)


def times(placed: DataFrame) -> DataFrame:
    """When the transaction was committed.

    `committime` has a `Z`, but on servers not in UTC it is their local time: the envelope's `time` counts
    where the two are whole quarter hours apart. Where they are not, nothing says which of them is right;
    where only one is told, nothing contradicts it.
    """
    timed = placed.withColumns(
        {"of_event": _instant(F.col("time")), "of_commit": _instant(F.col("committime"))}
    )
    apart = F.abs(F.unix_micros("of_commit") - F.unix_micros("of_event"))
    beyond = F.pmod(apart, F.lit(_QUARTER_HOUR))
    zones_apart = ((beyond <= _TICK) | (beyond >= _QUARTER_HOUR - _TICK)) & (apart <= _FARTHEST_ZONE + _TICK)
    agree = F.col("of_commit").isNull() | F.coalesce(zones_apart, F.lit(False))
    return timed.withColumns(
        {
            "committed_at": F.when(agree, F.col("of_event")).otherwise(F.col("of_commit")),
            "clock_differs": ~agree & F.col("time").isNotNull(),
        }
    )


def members(placed: DataFrame, contract: Contract) -> DataFrame:
    """The images' members by the contract's names: `before_members`, `after_members`, NULL for none.

    `{}` and null mean that an image was not sent. The key of a row is in `pkkey` as well, and stands in
    where an image does not have it; in the old image of an update only beside what that says of the key,
    for `pkkey` may be the new one.
    """
    staged = with_objects(placed, {"old": "old_text", "current": "current_text"}, lower=False).withColumns(
        {
            "has_old": F.coalesce(F.size("old") > 0, F.lit(False)),
            "has_current": F.coalesce(F.size("current") > 0, F.lit(False)),
            "image_fault": F.coalesce(
                *(F.when(_is_no_image(side), F.lit(side)) for side in ("old", "current"))
            ),
            "key_members": F.expr("map_from_entries(arrays_zip(key_names, key_values))"),
        }
    )
    op = F.col("op")
    key = F.array(*(F.lit(c.name.lower()) for c in contract.key))

    def lacking(image: str) -> Column:
        return F.size(F.array_except(key, F.transform(F.map_keys(image), F.lower)))

    def with_key(image: str, where: Column) -> Column:
        return F.when(where, F.map_concat("key_members", image)).otherwise(F.col(image))

    current = with_key("current", lacking("current") > 0)
    in_old = (op == "DEL") & (lacking("old") > 0)
    if len(contract.key) > 1:
        in_old = in_old | ((op == "UPD") & lacking("old").between(1, len(contract.key) - 1))
    told_old = with_key("old", in_old)
    old = F.when(F.col("has_old"), told_old).otherwise(F.when(op == "DEL", F.col("key_members")))
    return staged.withColumns(
        {
            "before_members": F.when(op.isin("UPD", "DEL"), old),
            "after_members": F.when(op.isin("INS", "UPD") & F.col("has_current"), current),
        }
    ).withColumns(
        {f"{side}_members": _by_column(f"{side}_members", contract) for side in ("before", "after")}
    )


def _is_no_image(side: str) -> Column:
    text = f"{side}_text"
    said = F.lower(F.trim(F.col(text), F.lit(" \t\r\n")))
    return F.col(text).isNotNull() & ~said.isin("", "null") & F.col(side).isNull()


def _by_column(members: str, contract: Contract) -> Column:
    """The members with their names in the contract's case; SQL Server compares names without it."""
    lower = [name.lower() for name in contract.names]
    spelled = [n for n, low in zip(contract.names, lower, strict=True) if lower.count(low) == 1]
    pairs = ", ".join(f"{change.literal(n.lower())}, {change.literal(n)}" for n in spelled)
    renamed = F.expr(
        f"transform_keys({members}, (name, told) -> coalesce(element_at(map({pairs}), lower(name)), name))"
    )
    return F.when(images.has_shape(F.col(members), contract), F.col(members)).otherwise(renamed)


def cells(staged: DataFrame, contract: Contract, binaries: str) -> DataFrame:
    held, both = (CUT,), ("before", "after")
    told = staged.withColumns({f"{s}_texts": images.texts(F.col(f"{s}_members"), contract) for s in both})
    uncut = told.withColumns({f"{s}_texts": _uncut(f"{s}_texts", contract, binaries) for s in both})
    is_cut = F.array_contains("before_texts", CUT) | F.array_contains("after_texts", CUT)
    compared = uncut.withColumns(
        {
            **{f"{s}_gaps": images.gaps(f"{s}_members", s, contract, held) for s in both},
            "unknown": F.coalesce(*(images.unknown_members(F.col(f"{s}_members"), contract) for s in both)),
            "is_cut": F.coalesce(is_cut, F.lit(False)),
        }
    )
    compared = compared.withColumn("before_gaps", _unsent(contract))
    read = images.read_cells(compared, both, contract, wire(binaries), held)
    before, after = (images.cells(side, contract) for side in both)
    own = [f"CASE WHEN op = 'DEL' THEN {b} ELSE {a} END" for b, a in zip(before, after, strict=True)]
    return read.withColumns(
        {
            "key": images.key_of(own, contract),
            "old_key": images.key_of(before, contract),
            "misfits": F.coalesce(*(images.misfits(s, contract, held) for s in both)),
        }
    )


def _unsent(contract: Contract) -> Column:
    """The gaps of the image before: a large value that only this image lacks was there, and not sent."""
    large = [change.literal(c.name) for c in contract.columns if c.sql_type.is_large]
    if not large:
        return F.col("before_gaps")
    not_captured, unavailable = map(change.literal, (change.NOT_CAPTURED, change.UNAVAILABLE))
    is_after = f"NOT element_at(after_gaps, name) <=> {not_captured}"
    unsent = f"has_old AND name IN ({', '.join(large)}) AND {is_after}"
    return F.expr(
        f"transform_values(before_gaps, (name, state) ->"
        f" CASE WHEN {unsent} THEN {unavailable} ELSE state END)"
    )


def _uncut(texts: str, contract: Contract, binaries: str) -> Column:
    """The texts with a mark in place of each value that the producer has cut."""
    mark = change.literal(CUT)
    cases = " ".join(
        f"WHEN {at} THEN CASE WHEN {is_cut('told', c.sql_type, binaries)} THEN {mark} ELSE told END"
        for at, c in enumerate(contract.columns)
        if c.sql_type.is_large
    )
    return (
        F.expr(f"transform({texts}, (told, at) -> CASE at {cases} ELSE told END)") if cases else F.col(texts)
    )
