"""The images of changes that broke a rule, for the page of the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa

from changeledger.audit.gate import RuleResult
from changeledger.audit.rules import IMAGES
from changeledger.kernels.arrow import NAMES, row_type
from changeledger.lake import scans
from changeledger.lake.conditions import is_among
from changeledger.model.contract import Contract

_STATES: Final = pa.map_(pa.string(), pa.string())
_READ: Final = (
    ("change_id", pa.string()), ("operation", pa.string()), ("changed", NAMES),
    ("before_unknown_columns", _STATES), ("after_unknown_columns", _STATES),
)  # fmt: skip


def with_images(
    results: Sequence[RuleResult], contract: Contract, ledger: str, snapshot: int
) -> list[RuleResult]:
    """The results with both images of each change in their samples, from this snapshot of the ledger."""
    ids = sorted({row["change_id"] for result in results for row in result.samples if "change_id" in row})
    if not ids:
        return list(results)
    image = row_type(contract.columns)
    schema = pa.schema([*_READ, ("before", image), ("after", image)])
    rows = scans.read(ledger, is_among("change_id", ids), schema, snapshot)
    images: dict[str, list[dict[str, Any]]] = {}
    for row in rows.to_pylist(maps_as_pydicts="lossy"):
        images.setdefault(row["change_id"], []).append(_image(row))
    return [
        replace(
            result,
            samples=tuple(
                {**row, IMAGES: images.get(row.get("change_id", ""), [])} for row in result.samples
            ),
        )
        for result in results
    ]


def _image(row: Mapping[str, Any]) -> dict[str, Any]:
    """`cells`: of each column both values as the ledger has them, and whether the mask names it."""
    before, after = row["before"], row["after"]
    names = list(before or after or ())
    unknown = [row[f"{side}_unknown_columns"] or {} for side in ("before", "after")]
    cells = [
        {
            "name": name,
            "before": _cell(before, name, unknown[0]),
            "after": _cell(after, name, unknown[1]),
            "differs": before is not None
            and after is not None
            and name not in unknown[0]
            and name not in unknown[1]
            and before[name] != after[name],
            "named": row["changed"] is not None and name in row["changed"],
        }
        for name in names
    ]
    return {"change_id": row["change_id"], "operation": row["operation"], "cells": cells}


def _cell(image: Mapping[str, Any] | None, name: str, unknown: Mapping[str, str]) -> Any:
    if image is None:
        return "no image"
    return f"({unknown[name]})" if name in unknown else image[name]
