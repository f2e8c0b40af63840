"""A few cells of the fault matrix, of the kinds that have found most; `make faults` runs all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.matrix import beside
from tests.faults.matrix.base import Base, base
from tests.faults.matrix.cells import quick
from tests.faults.matrix.lab import Lab
from tests.faults.matrix.scene import DEFECT, SKIPPED, play

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("faults"), own_disk=False) as lab:
        yield lab


@pytest.fixture(scope="module")
def undisturbed(lab: Lab) -> Base:
    return base(lab)


@pytest.mark.parametrize("number", range(12))
def test_nothing_is_lost_and_nothing_wrong_is_published(lab: Lab, undisturbed: Base, number: int) -> None:
    cell = quick(undisturbed.known)[number]
    found = play(lab, undisturbed, cell)
    assert found.outcome not in {DEFECT, SKIPPED}, f"{cell.id}: {found.detail}"


def test_main_beside_a_snapshot_over_connect(lab: Lab, undisturbed: Base, tmp_path: Path) -> None:
    """The ledger after two windows, and as the first one has left it: 23 of 33 changes (`lab.WINDOWS`)."""
    state = undisturbed.states[3, "extract"].copy(tmp_path)
    job = lab.jobs.start(lab.place(state), tmp_path, [beside.__file__])
    assert job.wait() == 0, job.printed
    (counted,) = [line for line in job.printed.splitlines() if line.startswith("counted ")]
    assert json.loads(counted.removeprefix("counted ")) == {"first": 23, "main": 33}
