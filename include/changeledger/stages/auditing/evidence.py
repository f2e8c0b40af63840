"""The images of changes that broke a rule, for the page of the audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import In

from changeledger.audit.findings import IMAGES
from changeledger.audit.rules import Rule
from changeledger.kernels.arrow import NAMES, row_type
from changeledger.lake import scans
from changeledger.model.contract import Contract

_STATES: Final = pa.map_(pa.string(), pa.string())
_READ: Final = (
    ("change_id", pa.string()), ("operation", pa.string()), ("changed", NAMES),
    ("before_unknown_columns", _STATES), ("after_unknown_columns", _STATES),
)  # fmt: skip


def with_images(rules: Sequence[Rule], contract: Contract, ledger: str, snapshot: int) -> list[Rule]:
    """The rules with both images of each change that their samples name, from this snapshot of the ledger."""
    ids = sorted({id_ for rule in rules for sample in rule.finding.samples for id_ in _ids(sample)})
    if not ids:
        return list(rules)
    image = row_type(contract.columns)
    schema = pa.schema([*_READ, ("before", image), ("after", image)])
    rows = scans.read(ledger, In("change_id", ids), schema, snapshot)  # type: ignore[call-arg, arg-type]
    images = {row["change_id"]: _image(row) for row in rows.to_pylist(maps_as_pydicts="lossy")}
    return [_shown(rule, images) for rule in rules]


def _ids(sample: Mapping[str, Any]) -> list[str]:
    return [id_ for id_ in (sample.get("change_id"), *sample.get("change_ids", ())) if id_ is not None]


def _shown(rule: Rule, images: Mapping[str, dict[str, Any]]) -> Rule:
    samples = tuple(
        {**sample, IMAGES: [images[id_] for id_ in _ids(sample) if id_ in images]}
        for sample in rule.finding.samples
    )
    return replace(rule, finding=replace(rule.finding, samples=samples))


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
