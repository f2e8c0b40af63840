"""A job that was left behind and its own retry write one window at the same moment: two real processes.

Each has its write ready, on the lake as it was before the other one's. The rows stand once, and the loser
says that it has lost. The matrix does it at every write; here are messages, and how both processes end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from changeledger import exit_codes
from changeledger.model.window import STAGES
from tests.faults.matrix import topics
from tests.faults.matrix.base import dumped
from tests.faults.matrix.effects import Fault
from tests.faults.matrix.jobs import Job
from tests.faults.matrix.lab import Lab, State
from tests.faults.matrix.operator import Operator

pytestmark = pytest.mark.integration

_WINDOW = 2
# The first write of a stage that adds rows.
_WRITES = {
    "extract": "append raw main",
    "normalize": "append dbo_customers_changes run",
    "reconcile": "append dbo_customers_history run",
}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("orphans"), own_disk=False) as lab:
        yield lab


@pytest.fixture(scope="module")
def released(lab: Lab) -> Operator:
    """The first window of messages is released."""
    state, logs = State(lab.disk / "states" / "released"), lab.folder / "logs" / "released"
    for folder in (state.folder, logs):
        folder.mkdir(parents=True)
    who = Operator(lab, state, lab.place(state), logs)
    topics._set_up(who)
    topics._begin(who)
    who.carry(1)
    return who


@pytest.fixture
def who(lab: Lab, released: Operator, tmp_path: Path) -> Operator:
    state = released.state.copy(lab.disk / "states" / tmp_path.name)
    return Operator(lab, state, topics._place(released, state, lab.kafka.bootstrap), tmp_path)


def held(who: Operator, stage: str) -> Job:
    """The stage, about to commit its rows."""
    fault = Fault("hold", 1, label=_WRITES[stage])
    job = who.lab.stage(who.place, who.folder, stage, _WINDOW, fault)
    assert job.await_meeting(), job.printed
    return job


@pytest.mark.parametrize("stage", _WRITES)
@pytest.mark.parametrize("order", ["retry first", "orphan first", "at once"])
def test_the_rows_stand_once(who: Operator, stage: str, order: str) -> None:
    who.carry(_WINDOW, STAGES[: STAGES.index(stage)])
    orphan, retry = held(who, stage), held(who, stage)
    first, second = (retry, orphan) if order == "retry first" else (orphan, retry)
    first.go_on()
    if order != "at once":
        first.wait()
    second.go_on()
    assert orphan.wait() == exit_codes.HELD, orphan.printed
    assert "LeaseLost: this run has lost its lease on the feed 'shop'" in orphan.printed
    if retry.wait() != 0:
        # Only main of raw is everybody's; the orphan was faster, and the next try is right.
        assert (stage, retry.code) == ("extract", exit_codes.RETRY), retry.printed
        assert "another process has written lake.shop.raw while this one was at it" in retry.printed
        assert order != "retry first"
    who.carry(_WINDOW, STAGES[STAGES.index(stage) + (retry.code == 0) :])
    assert who.remedies == 0
    found = dumped(who.lab, who.place, who.folder, who.folder / "tables.json")
    assert found["problems"] == []
    sent = [*topics.messages(1), *topics.messages(_WINDOW)]
    assert len(found["raw"]) == len(sent)
    assert len(found["dbo_customers_changes"]) == sum(message.value is not None for message in sent)


def test_a_job_that_goes_on_late_leaves_raw_alone(who: Operator) -> None:
    """It was stopped before it has looked at raw, and finds there what its retry has written since."""
    written = held(who, "extract").written()
    who.let_an_hour_pass()
    who.lab.jobs.end_all()
    # Its lease is asked for between the look and the write.
    orphan = who.lab.stage(who.place, who.folder, "extract", _WINDOW, Fault("meet", len(written) - 1))
    assert orphan.await_meeting(), orphan.printed
    who.carry(_WINDOW)
    orphan.go_on()
    assert orphan.wait() == exit_codes.HELD, orphan.printed
    assert _WRITES["extract"] not in [effect["label"] for effect in orphan.written()]
