"""Counting offences: all rules of one table in one Spark job, each set of rows read in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from changeledger.audit.rules import Rule


@dataclass(frozen=True)
class Tally:
    """What a rule found: `violations`, or None and the `error` that kept it from being checked.

    `checked` is the number of rows that a row rule was asked of; None for other rules.
    """

    violations: int | None
    checked: int | None = None
    error: str | None = None


def tally(rules: Sequence[Rule]) -> dict[str, Tally]:
    """Violations by rule name.

    A rule whose query fails is told apart from one that is violated. Where every query fails, it is not
    the rules' fault, and the first error is raised.
    """
    known = {rule.name: Tally(rule.counted) for rule in rules if rule.counted is not None}
    asked = [rule for rule in rules if rule.counted is None]
    if not asked:
        return known
    try:
        return known | _counted(asked)
    except PySparkException:
        apart: dict[str, Tally] = {}
        failures = []
        for rule in asked:
            try:
                apart |= _counted([rule])
            except PySparkException as error:
                failures.append(error)
                apart[rule.name] = Tally(None, error=str(error).split("\n", 1)[0])
        if len(failures) == len(asked):
            raise failures[0] from None
        return known | apart


def sample(rule: Rule, limit: int) -> list[dict[str, Any]]:
    """Some offences of a rule, in plain Python values."""
    return [row.asDict(recursive=True) for row in rule.offences.select(*rule.shown).limit(limit).collect()]


def _counted(rules: Sequence[Rule]) -> dict[str, Tally]:
    passes: dict[int, list[Rule]] = {}
    for rule in rules:
        if rule.violated is not None:
            passes.setdefault(id(rule.rows), []).append(rule)
    counts = [_row_pass(group) for group in passes.values()]
    counts += [_set_pass(rule) for rule in rules if rule.violated is None]
    rows = reduce(DataFrame.unionByName, counts).collect()
    return {row["rule"]: Tally(row["violations"], row["checked"]) for row in rows}


def _row_pass(rules: Sequence[Rule]) -> DataFrame:
    """One aggregation over the rows that `rules` share, turned into a row per rule."""
    flags = rules[0].rows.select(*(r.violated.alias(r.name) for r in rules if r.violated is not None))
    counts = flags.agg(F.count(F.lit(1)).alias("checked"), *(F.count_if(r.name).alias(r.name) for r in rules))
    per_rule = F.array(
        *(
            F.struct(F.lit(r.name).alias("rule"), F.col(r.name).alias("violations"), F.col("checked"))
            for r in rules
        )
    )
    return counts.select(F.inline(per_rule))


def _set_pass(rule: Rule) -> DataFrame:
    return rule.rows.agg(F.count(F.lit(1)).alias("violations")).select(
        F.lit(rule.name).alias("rule"), "violations", F.lit(None).cast("bigint").alias("checked")
    )
