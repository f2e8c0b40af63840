"""What people do between two stages: documented commands, a pause, a task that is cleared alone."""

from __future__ import annotations

from changeledger import exit_codes
from changeledger.config.settings import PROJECT
from changeledger.model.window import STAGES
from tests.faults.matrix.cells import Cell
from tests.faults.matrix.lab import FEED
from tests.faults.matrix.operator import Defect, Operator


def play(who: Operator, cell: Cell) -> int:
    """Plays the action before the cell's stage, then the run to its end. Returns the last released window."""
    stages = STAGES[STAGES.index(cell.stage) :]
    last = cell.window
    if cell.fault == "repeated":
        # Runs up to the audit, then the cell's stage again, and publishes at once.
        who.carry(cell.window, stages[:-1])
        who.carry(cell.window, (cell.stage,))
        who.carry(cell.window, ("publish",))
    elif cell.fault == "maintained":
        _maintain(who)
        who.let_an_hour_pass()
        _maintain(who)
        who.carry(cell.window, stages)
    elif cell.fault == "replayed":
        who.let_an_hour_pass()
        job = who.command("quarantine", "replay", FEED)
        if job.code != 0:
            raise Defect(f"`quarantine replay` ends with {job.code}: {who.notes[-1]}")
        who.carry(cell.window, stages)
    else:
        who.let_an_hour_pass()
        last += 1
        who.carry(last)
        who.carry(cell.window, stages)
    return last


def _maintain(who: Operator) -> None:
    job = who.lab.jobs.start(
        who.place, who.folder, [str(PROJECT / "jobs" / "maintain.py"), "--feed", FEED, "--run", "by hand"]
    )
    if job.wait() not in {0, exit_codes.HELD}:
        who._note(job, job.wait())
        raise Defect(f"`maintain` ends with {job.code}: {who.notes[-1]}")
