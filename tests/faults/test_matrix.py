"""Jobs as real processes on one Spark Connect server, while something breaks.

One part plays ten cells of the fault matrix, all of which `make faults` runs. The other part has a job that
was left behind and its own retry write one window at the same moment: each has its write ready, based on the
lake before the other's. The rows must be there once, and the loser must report its loss. The matrix does this
at every write; here the source is messages, and the end of both processes is checked. Main of raw is shared,
so there the order matters; the other writes go to a branch of each process.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from changeledger import exit_codes
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.lake import catalog, refs
from changeledger.model.window import STAGES, Window
from sourcelab.services import KafkaBroker
from tests.faults.matrix import beside, topics
from tests.faults.matrix.base import Base, base, dumped
from tests.faults.matrix.cells import quick
from tests.faults.matrix.effects import Fault
from tests.faults.matrix.jobs import Job
from tests.faults.matrix.lab import FEED, Lab, State
from tests.faults.matrix.operator import Operator
from tests.faults.matrix.scene import DEFECT, SKIPPED, play

pytestmark = [pytest.mark.integration, pytest.mark.long]

_WINDOW = 2
RAW = f"lake.{FEED}.raw"
# The first write of each stage that adds rows.
_WRITES = {
    "extract": "append raw main",
    "normalize": "append dbo_customers_changes run",
    "reconcile": "append dbo_customers_history run",
}


@pytest.fixture(scope="module")
def lab(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("faults"), own_disk=False, kafka=kafka) as lab:
        yield lab


@pytest.fixture(scope="module")
def undisturbed(lab: Lab) -> Base:
    return base(lab, windows=2)


@pytest.mark.parametrize("number", range(10))
def test_nothing_is_lost_and_nothing_wrong_is_published(lab: Lab, undisturbed: Base, number: int) -> None:
    cell = quick(undisturbed.known)[number]
    played = play(lab, undisturbed, cell)
    assert played.outcome not in {DEFECT, SKIPPED}, f"{cell.id}: {played.detail}"


def test_main_beside_a_snapshot_over_connect(lab: Lab, undisturbed: Base, tmp_path: Path) -> None:
    """The ledger after two windows, and as the first window left it: 23 of 33 changes (`lab.WINDOWS`)."""
    state = undisturbed.states[3, "extract"].copy(tmp_path)
    job = lab.jobs.start(lab.place(state), tmp_path, [beside.__file__])
    assert job.wait() == 0, job.printed
    (counted,) = [line for line in job.printed.splitlines() if line.startswith("counted ")]
    assert json.loads(counted.removeprefix("counted ")) == {"first": 23, "main": 33}


class Released(NamedTuple):
    """A feed whose first window of messages is released.

    `before` has the states before the second window's stages, and `rows` the numbers of rows in each table
    after an undisturbed stage.
    """

    who: Operator
    before: Mapping[str, State]
    rows: Mapping[str, Mapping[str, int]]


@pytest.fixture(scope="module")
def released(lab: Lab) -> Released:
    state, logs = State(lab.disk / "states" / "released"), lab.folder / "logs" / "released"
    for folder in (state.folder, logs):
        folder.mkdir(parents=True)
    who = Operator(lab, state, lab.place(state), logs)
    topics._set_up(who)
    topics._begin(who)
    who.carry(1)
    before, rows = {}, {}
    for stage in _WRITES:
        before[stage] = state.copy(lab.disk / "states" / f"before_{stage}")
        who.carry(_WINDOW, [stage])
        rows[stage] = rows_of(who, stage)
    return Released(who, before, rows)


def before(lab: Lab, released: Released, stage: str, folder: Path) -> Operator:
    """Returns an operator before the stage of the second window."""
    state = released.before[stage].copy(lab.disk / "states" / folder.name)
    return Operator(lab, state, topics._place(released.who, state, lab.kafka.bootstrap), folder)


def rows_of(who: Operator, stage: str) -> dict[str, int]:
    """Counts rows by table: of raw, or of the snapshots that the stage says it has built."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in who.place.environment.items():
            if name.startswith("CHANGELEDGER_"):
                patch.setenv(name, value)
        if stage == "extract":
            return {RAW: catalog.load(RAW).scan().count()}
        start, end = who.lab.windows[_WINDOW - 1]
        built = ControlStore(Settings().control_url).windows.stage(FEED, Window(start=start, end=end), stage)
        assert built is not None
        branches = refs.heads(built.tables, built.branch)
        # A table that the run did not touch has no branch.
        assert {**refs.heads(built.tables, refs.MAIN), **branches} == built.tables
        assert branches
        return {
            table: catalog.load(table).scan(snapshot_id=snapshot).count()
            for table, snapshot in built.tables.items()
        }


def held(who: Operator, stage: str) -> Job:
    """Starts the stage, and holds it when it is about to commit its rows."""
    fault = Fault("hold", 1, label=_WRITES[stage])
    job = who.lab.stage(who.place, who.folder, stage, _WINDOW, fault)
    assert job.await_meeting(), job.printed
    return job


@pytest.mark.parametrize(
    ("stage", "order"),
    [
        ("extract", "retry first"),
        ("extract", "orphan first"),
        ("extract", "at once"),
        ("normalize", "at once"),
        ("reconcile", "at once"),
    ],
)
def test_the_rows_stand_once(lab: Lab, released: Released, tmp_path: Path, stage: str, order: str) -> None:
    who = before(lab, released, stage, tmp_path)
    orphan, retry = held(who, stage), held(who, stage)
    first, second = (retry, orphan) if order == "retry first" else (orphan, retry)
    first.go_on()
    if order != "at once":
        first.wait()
    second.go_on()
    assert orphan.wait() == exit_codes.HELD, orphan.printed
    assert "LeaseLost: this run has lost its lease on the feed 'shop'" in orphan.printed
    if retry.wait() != 0:
        # Only main of raw is shared: the orphan was faster, and the next try succeeds.
        assert (stage, retry.code) == ("extract", exit_codes.RETRY), retry.printed
        assert "another process wrote lake.shop.raw at the same time" in retry.printed
        assert order != "retry first"
        who.carry(_WINDOW, [stage])
    assert rows_of(who, stage) == released.rows[stage]
    if stage == "reconcile":
        # What follows is the same for all stages.
        who.carry(_WINDOW, STAGES[STAGES.index(stage) + 1 :])
        published_once(who)
    assert who.remedies == 0


def published_once(who: Operator) -> None:
    tables = dumped(who.lab, who.place, who.folder, who.folder / "tables.json")
    assert tables["problems"] == []
    sent = [*topics.messages(1), *topics.messages(_WINDOW)]
    assert len(tables["raw"]) == len(sent)
    assert len(tables["dbo_customers_changes"]) == sum(message.value is not None for message in sent)


def test_a_job_that_goes_on_late_leaves_raw_alone(lab: Lab, released: Released, tmp_path: Path) -> None:
    """The job was stopped before it looked at raw, and then finds what its retry has written since."""
    who = before(lab, released, "extract", tmp_path)
    written = held(who, "extract").written()
    who.let_an_hour_pass()
    who.lab.jobs.end_all()
    # The lease is checked between the look and the write.
    orphan = who.lab.stage(who.place, who.folder, "extract", _WINDOW, Fault("meet", len(written) - 1))
    assert orphan.await_meeting(), orphan.printed
    who.carry(_WINDOW, ["extract"])
    orphan.go_on()
    assert orphan.wait() == exit_codes.HELD, orphan.printed
    assert _WRITES["extract"] not in [effect["label"] for effect in orphan.written()]
    assert rows_of(who, "extract") == released.rows["extract"]
