"""Images of changes that broke a rule, for the audit's page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import And, BooleanExpression, Or

from changeledger.audit.gate import RuleResult
from changeledger.audit.rules import IMAGES
from changeledger.kernels.arrow import NAMES, row_type
from changeledger.lake import scans
from changeledger.lake.conditions import is_among, is_equal
from changeledger.model.contract import Contract
from changeledger.stages.common.context import StageContext

_STATES: Final = pa.map_(pa.string(), pa.string())
_READ: Final = (
    ("change_id", pa.string()), ("operation", pa.string()), ("changed", NAMES),
    ("before_unknown_columns", _STATES), ("after_unknown_columns", _STATES),
)  # fmt: skip
_PLACE: Final = pa.schema([("sort_key", pa.binary())])


def with_images(ctx: StageContext, results: Sequence[RuleResult], contract: Contract) -> list[RuleResult]:
    """Adds both images of each sampled change to the results, from the ledger as the run has built it.

    Changes that are neither of this run nor at a break of an image chain get none.
    """
    ids = sorted({row["change_id"] for result in results for row in result.samples if "change_id" in row})
    if not ids:
        return list(results)
    image = row_type(contract.columns)
    schema = pa.schema([*_READ, ("before", image), ("after", image)])
    where, ledger = may_have(ctx, contract.table, ids), ctx.names[contract.table].changes
    rows = scans.read(ledger, where, schema, (ctx.snapshots or {})[ledger])
    images: dict[str, list[dict[str, Any]]] = {}
    for row in rows.to_pylist(maps_as_pydicts="lossy"):
        images.setdefault(row["change_id"], []).append(_image(row))

    def shown(row: Mapping[str, Any]) -> dict[str, Any]:
        return {**row, IMAGES: images.get(row.get("change_id", ""), [])}

    return [replace(result, samples=tuple(map(shown, result.samples))) for result in results]


def may_have(ctx: StageContext, table: str, ids: Sequence[str]) -> BooleanExpression:
    """Returns the condition by which the ledger rows of these changes are read.

    A condition on ids alone would skip no file of a ledger that has years of changes, so it also asks for
    the run's window or the places of image chain breaks.
    """
    of_run, breaks = scans.of_window(ctx.id), ctx.lake.image_chain_breaks
    where, snapshot = of_run, (ctx.snapshots or {}).get(breaks)
    if snapshot is not None:
        of_table = And(of_run, And(is_equal("table", table), is_among("change_id", ids)))
        places = pc.unique(scans.read(breaks, of_table, _PLACE, snapshot).column(0)).drop_null().to_pylist()
        # A break that this run is the first to find may be at a change of an earlier run.
        where = Or(of_run, is_among("sort_key", places)) if places else of_run
    return And(where, is_among("change_id", ids))


def _image(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a change for the page. `cells`: both values of each column, and whether the mask names it."""
    before, after = row["before"], row["after"]
    names = list(before or after or ())
    of_before, of_after = (row[f"{side}_unknown_columns"] or {} for side in ("before", "after"))
    known = set(names) - of_before.keys() - of_after.keys() if before and after else set()
    cells = [
        {
            "name": name,
            "before": _cell(before, name, of_before),
            "after": _cell(after, name, of_after),
            "differs": name in known and before[name] != after[name],
            "named": name in (row["changed"] or ()),
        }
        for name in names
    ]
    return {"change_id": row["change_id"], "operation": row["operation"], "cells": cells}


def _cell(image: Mapping[str, Any] | None, name: str, unknown: Mapping[str, str]) -> Any:
    if image is None:
        return "no image"
    return f"({unknown[name]})" if name in unknown else image[name]
