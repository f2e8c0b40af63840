"""What a run learns about masks is stored for its table, across the writer schemas of its records."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from changeledger.control import ControlStore
from changeledger.mask_order.decision import Evidence
from changeledger.mask_order.mask_evidence import MaskRules
from changeledger.model.contract import Column, Contract
from changeledger.stages.normalization.mask_orders import MaskOrders
from tests.control.test_control import hour

TABLE = "dbo.parts"
WIDE = Contract(
    table=TABLE, columns=tuple(Column(name=f"c{at}", type="int", ordinal=at) for at in range(1, 10))
)
FEED = SimpleNamespace(feed="masked", mask_order="auto")


def records(evidence: Evidence) -> Any:
    """Stands for the records of one writer schema whose masks give this evidence."""
    rules = MaskRules("all")
    return SimpleNamespace(table=TABLE, feed=FEED, mask_rules=lambda _: rules, evidence=lambda _: evidence)


def test_writer_schemas_of_one_run_add_up(tmp_path: Path) -> None:
    """Two versions of a table, or two capture instances, add up; a second try counts neither twice."""
    control = ControlStore(f"sqlite:///{tmp_path}/control.db")
    evidence = Evidence(either=3), Evidence(either=2, untested=1)
    ctx: Any = SimpleNamespace(feed=FEED, window=hour(0), control=control)
    for _ in range(2):
        orders = MaskOrders(ctx)
        for part in evidence:
            assert orders.resolved(records(part), WIDE).writer_schema.mask_order == "big"
        assert control.contracts.mask_evidence("masked")[TABLE].total == Evidence(either=5, untested=1)
    # The second writer schema is read by what the first one proves.
    ctx.window = hour(1)
    orders = MaskOrders(ctx)
    assert orders.resolved(records(Evidence(little=3)), WIDE).writer_schema.mask_order == "little"
    assert orders.resolved(records(Evidence(undecided=4)), WIDE).writer_schema.mask_order == "little"
