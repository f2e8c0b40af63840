"""Decides the byte order of masks: proved, open, or contradicted."""

from __future__ import annotations

import pyarrow as pa
import pytest

from changeledger.config.feed import Feed
from changeledger.dialects.kernel import ResolvedSchema
from changeledger.dialects.qlik_tables.dialect import QLIK_TABLES
from changeledger.kernels.in_memory import InMemory
from changeledger.mask_order.decision import Evidence, MaskDecision, decide
from changeledger.model.contract import ByteOrder, Column, Contract
from changeledger.stages.normalization.mask_reading import resolved_alone
from changeledger.stages.normalization.reading import of_change_table

NOTHING = Evidence()


def auto(evidence: Evidence, stored: Evidence = NOTHING, published: ByteOrder = "big") -> MaskDecision:
    return decide(evidence, stored, "auto", published)


@pytest.mark.parametrize(
    ("evidence", "order", "settled"),
    [
        # Both orders read the same: big, but not proved.
        (Evidence(), "big", False),
        (Evidence(either=9, untested=3), "big", False),
        # One record is enough: a faulty mask rarely obeys every rule in the other order.
        (Evidence(big=1), "big", True),
        (Evidence(little=1), "little", True),
        (Evidence(little=1, either=1_000_000, undecided=5), "little", True),
        # One record for each order: neither order is right.
        (Evidence(big=1, little=1), None, False),
        (Evidence(big=9, little=1), None, False),
        # One contradicting record in ten, or one in a hundred, is tolerated.
        (Evidence(big=10, little=1), "big", True),
        (Evidence(big=1, little=10), "little", True),
        (Evidence(big=148, little=2), None, False),
        (Evidence(big=198, little=2), "big", True),
        (Evidence(big=990, little=10), "big", True),
        (Evidence(big=989, little=11), None, False),
        # Faulty masks become flagged changes while most masks are right.
        (Evidence(neither=1), "big", False),
        (Evidence(big=5, neither=5), "big", True),
        (Evidence(big=1, either=2, undecided=2, neither=5), "big", True),
        # If most masks are wrong, no mask is read.
        (Evidence(neither=2), None, False),
        (Evidence(big=2, either=2, neither=5), None, False),
        # Records that no rule tests are no evidence for an order.
        (Evidence(untested=50, neither=2), None, False),
    ],
)  # fmt: skip
def test_a_first_window(evidence: Evidence, order: ByteOrder | None, settled: bool) -> None:
    assert auto(evidence)[:2] == (order, settled)


def test_undecided_records_are_not_read_by_guess() -> None:
    open_question = Evidence(undecided=3, either=5)
    # SQL Server's own masks are known to be big.
    assert auto(open_question)[:2] == ("big", False)
    assert auto(open_question, published="little")[:2] == ("little", False)
    # An earlier window proved it.
    assert auto(open_question, Evidence(little=4))[:2] == ("little", True)


def test_windows_add_up() -> None:
    assert auto(Evidence(either=3), Evidence(little=7))[:2] == ("little", True)
    assert auto(Evidence(big=1), Evidence(little=1)).order is None
    assert auto(Evidence(little=1), Evidence(big=500))[:2] == ("big", True)
    assert auto(Evidence(big=100), Evidence(big=48, little=2)).order is None


def test_a_long_history_does_not_drown_a_window_that_contradicts_it() -> None:
    history = Evidence(big=1_000_000)
    turned = auto(Evidence(little=2), history)
    assert turned.order is None
    assert "were big before" in turned.why
    assert auto(Evidence(neither=10, either=3), history).order is None
    # As many records obey the rules as obey none.
    assert auto(Evidence(neither=10, either=10), history)[:2] == ("big", True)
    # A few flagged changes in a small window do not indicate a new table.
    assert auto(Evidence(neither=9), history)[:2] == ("big", True)


def test_words_say_why() -> None:
    evidence = Evidence(big=3, little=2, examples={"little": "delete with mask 0x0100"})
    assert auto(evidence).why == (
        "the masks contradict both byte orders: big 3, little 2 (delete with mask 0x0100)"
    )
    assert auto(NOTHING).why == "both byte orders read the same so far: no record with a mask"
    assert auto(Evidence(neither=2, examples={"neither": "insert with mask 0x"})).why == (
        "the masks obey the rules in neither byte order: neither 2 (insert with mask 0x)"
    )


@pytest.mark.parametrize(
    ("evidence", "stored", "order", "settled"),
    [
        (NOTHING, NOTHING, "little", False),
        (Evidence(little=3), NOTHING, "little", True),
        (Evidence(undecided=3), NOTHING, "little", False),
        (Evidence(big=1), NOTHING, None, False),
        (Evidence(big=50, little=1), NOTHING, None, False),
        # One record against a long history is a faulty mask.
        (Evidence(big=1), Evidence(little=500), "little", True),
        (Evidence(big=2), Evidence(little=500), None, False),
        # A window that says nothing takes no proof away.
        (Evidence(either=3), Evidence(little=500), "little", True),
        # The source was set up again, and the feed states the new order.
        (Evidence(little=3), Evidence(big=500), "little", True),
        (Evidence(little=1, undecided=3), Evidence(big=500), "little", True),
        (Evidence(either=3), Evidence(big=500), "little", False),
        # This window has no evidence, and earlier windows contradict the setting.
        (Evidence(undecided=3), Evidence(big=500), None, False),
        (Evidence(neither=2), NOTHING, None, False),
    ],
)
def test_a_stated_order_is_checked(
    evidence: Evidence, stored: Evidence, order: ByteOrder | None, settled: bool
) -> None:
    reading = decide(evidence, stored, "little", "big")
    assert reading[:2] == (order, settled)
    if order is None and not evidence.neither:
        assert reading.why.startswith("the feed states little, but its records contradict that")


def test_evidence_adds_up() -> None:
    left = Evidence(big=1, little=2, either=3, undecided=4, neither=5, untested=6, examples={"big": "new"})
    right = Evidence(big=10, little=20, either=30, undecided=40, neither=50, untested=60)
    old = right.model_copy(update={"examples": {"big": "old", "neither": "kept"}})
    assert left + old == Evidence(
        big=11, little=22, either=33, undecided=44, neither=55, untested=66,
        examples={"big": "new", "neither": "kept"},
    )  # fmt: skip


@pytest.mark.parametrize("columns", [0, 1, 8])
@pytest.mark.parametrize(("setting", "order"), [("auto", "big"), ("big", "big"), ("little", "little")])
def test_a_table_of_one_byte_is_read_as_stated_without_a_look_at_its_records(
    columns: int, setting: str, order: str
) -> None:
    feed = Feed.model_validate(
        {
            "feed": "golden", "dialect": "qlik_tables", "database": "shop", "connection": "shop",
            "source": {}, "tables": [{"table": "dbo.items"}], "mask_order": setting,
        }
    )  # fmt: skip
    captured = tuple(Column(name=f"c{at}", type="int", ordinal=at) for at in range(1, columns + 1))
    writer_schema = Contract(table="dbo.items", columns=captured)
    unreadable = InMemory(pa.table({"nothing": pa.array([1])}))
    records = of_change_table(QLIK_TABLES.kernel, "dbo.items", writer_schema, unreadable, feed, "window")
    assert resolved_alone(records, writer_schema) == ResolvedSchema(
        writer_schema.model_copy(update={"mask_order": order})
    )
