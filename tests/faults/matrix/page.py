"""Writes `docs/reliability.md` from the outcomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from changeledger.model.window import STAGES
from tests.faults.matrix.cells import Known
from tests.faults.matrix.faults import FAULTS, ON_S3, RETRIES, Fault
from tests.faults.matrix.outcomes import Outcome, Soak

_SIGNS = {"survived": "✓", "stopped": "■", "defect": "✗", "skipped": "○"}
_HEAD = """\
# What happens when something breaks

Written by `make faults`; do not edit. Each cell of the matrix is one run of the five stages over a
small feed, attached to a real Spark Connect server, with real stores, in which one thing breaks at one
place. Then it goes on in one of five ways, and all tables (current, history, changelog, dispositions,
quarantine, breaks, pending) are compared row by row with those of an undisturbed run, raw with the
source, and main, tag, pointer and release row of every table with each other.

The places are found by instrumenting Spark's client and the control store's driver: every command that
writes the lake and every transaction that has written is one effect. The fault sits before the first,
between any two, and behind the last of each stage.

- ✓ *survived*: a retry alone repairs it
- ■ *stopped with a remedy*: an error says what to do, and that was done; at a source that has lost
  changes: nothing was published, and the remedy (a new feed, from a snapshot) was not part of the cell
- ✗ *defect*: rows are lost, wrong or published twice, or there is no way to go on
- ○ not run: this machine could not do it
"""
_HOW = """
## How to go on with it

    make faults                 cells that have no outcome yet, then random ones by seed, until Ctrl-C
    make faults MINUTES=30      for so long
    make faults LAKE=s3         the same on S3 and a REST catalog
    make faults SOAK=1          fifty windows of one feed, with this seed
    make reliability            this page from what was found

Outcomes lie in `.cache/faults/outcomes.jsonl`, the logs and stores of every defect in
`.cache/faults/logs/cells/`. A defect is tried again once the product has changed. `make test-all` runs
ten of the cells: kills at each kind of effect, and one of most other kinds of faults.

What stands for what: *refuses* and *the answer is lost* are errors of the client's driver, raised
instead of the effect, or after it; *locked* is another program's exclusive transaction in SQLite;
*read-only* is the immutable attribute on the tables' folders; a *full disk* is a small file system of
its own without a free byte; the *clocks* are those of the job's process, with SQLite's in it; an hour
goes by when a lease is ended. A run's tables are written one after the other, so that the effects have
one order; in the cells by seed they are written at the same time, as in production.

On S3 a proxy stands before the store (S3Proxy) and another one before the catalog (Iceberg's REST servlet,
over SQLite), for jobs and Spark alike: it refuses connections, delays requests, answers them with 503,
breaks uploads off, or passes a commit on and drops the answer. The fault begins when the effect before is
done.
"""
_S3 = "By stages; each place is a write of the lake:"


def page(known: Known, outcomes: Sequence[Outcome], chosen: int, soak: Soak | None) -> str:
    head = [_HEAD, _figures(outcomes, chosen), _soak(soak)]
    on_disk = [o for o in outcomes if o.cell.lake == "disk"]
    on_s3 = [o for o in outcomes if o.cell.lake == "s3"]
    parts = [*head, _summary("Faults and ways to go on", FAULTS, on_disk), _on_s3(on_s3)]
    parts += [_stage(known, on_disk, window, stage) for window in (1, 2) for stage in STAGES]
    parts += [_others(on_disk), _by_seed(outcomes), _defects(outcomes), _HOW]
    return "\n".join(part for part in parts if part).rstrip() + "\n"


def _figures(outcomes: Sequence[Outcome], chosen: int) -> str:
    of_choice = [o for o in outcomes if not o.cell.seed]
    counted = Counter(o.outcome for o in outcomes)
    days = sorted({o.at[:10] for o in outcomes})
    reported = ", ".join(f"{counted[name]} {name}" for name in _SIGNS if counted[name]) or "none"
    by_seed = len(outcomes) - len(of_choice)
    codes = len({o.code for o in outcomes})
    on_s3 = sum(o.cell.lake == "s3" for o in outcomes)
    return (
        "## Figures\n\n"
        f"{len(of_choice)} of {chosen} chosen cells and {by_seed} random ones were run"
        f"{f', {days[0]} to {days[-1]}' if days else ''}: {reported}. "
        f"The lake was on this disk, with its catalog in SQLite, in {len(outcomes) - on_s3} of them, on S3 "
        f"with a REST catalog in {on_s3}. The product had {codes} states "
        "meanwhile; a cell stands for the one in which it was run last.\n"
    )


def _soak(soak: Soak | None) -> str:
    if soak is None:
        return ""
    names = {fault.name: fault.says for fault in FAULTS}
    met = "; ".join(f"{names[name]} ({number})" for name, number in sorted(soak.met.items()))
    wrong = "; ".join(map(_short, soak.wrong)) or "nothing"
    return (
        "## Soak\n\n"
        f"{soak.windows} windows of one feed one after the other, {soak.at[:10]}, seed {soak.seed}. In each "
        "there is a fault at a place by chance; then the task goes on, or the run, or an earlier window is "
        "cleared first. In the end all tables are compared with those of one undisturbed window over the "
        "whole log, the current rows with the log itself, raw with the source. Remedies followed: "
        f"{soak.remedies}. Wrong, missing or "
        f"double: {wrong}.\n\nFaults that took place: {met}.\n"
    )


def _summary(title: str, faults: Sequence[Fault], outcomes: Sequence[Outcome]) -> str:
    """Returns the table of faults by ways to go on."""
    lines = [f"## {title}", "", *_table(RETRIES)]
    for fault in faults:
        of_fault = [o for o in outcomes if o.cell.fault == fault.name]
        cells = [_counted([o for o in of_fault if o.cell.retry == retry]) for retry in RETRIES]
        lines.append(_row([fault.says, *cells]))
    return "\n".join(lines) + "\n"


def _on_s3(outcomes: Sequence[Outcome]) -> str:
    """Returns the same table for the other lake, and one of faults by stages."""
    if not outcomes:
        return ""
    lines = [_summary("On S3 and a REST catalog", ON_S3, outcomes), _S3, "", *_table({s: s for s in STAGES})]
    for fault in ON_S3:
        of_fault = [o for o in outcomes if o.cell.fault == fault.name]
        cells = [_counted([o for o in of_fault if o.cell.stage == stage]) for stage in STAGES]
        lines.append(_row([fault.says, *cells]))
    stopped = [o for o in outcomes if o.outcome == "stopped"]
    said = [f"- `{o.cell.id}`: {_short(o.detail)}" for o in stopped]
    return "\n".join([*lines, *(["", "Stopped with a remedy:", "", *said] if said else []), ""])


def _table(columns: Mapping[str, str]) -> list[str]:
    """Returns the table's first lines; the first column has no name."""
    return [_row(["", *columns.values()]), _row(["---"] * (len(columns) + 1))]


def _counted(outcomes: Sequence[Outcome]) -> str:
    counted = Counter(o.outcome for o in outcomes)
    return " ".join(f"{counted[n]}{sign}" for n, sign in _SIGNS.items() if counted[n])


def _stage(known: Known, outcomes: Sequence[Outcome], window: int, stage: str) -> str:
    here = [
        o
        for o in outcomes
        if (o.cell.window, o.cell.stage) == (window, stage) and o.cell.at and not o.cell.seed
    ]
    if not here:
        return ""
    effects = known[window, stage]
    places = range(1, len(effects) + 2)
    name = "" if window == 2 else " of a feed's first window"
    lines = [f"## {stage}{name}", "", "Before effect number (the last column: behind all):", ""]
    lines += [_row(["", *map(str, places[:-1]), "end"]), _row(["---"] * (len(places) + 1))]
    for fault in FAULTS:
        of_fault = [o for o in here if o.cell.fault == fault.name]
        if of_fault:
            signs = (
                "".join(sorted({_SIGNS[o.outcome] for o in of_fault if o.cell.at == at})) for at in places
            )
            lines.append(_row([fault.says, *signs]))
    reported = [f"{e.at} `{e.label}` ({'lake' if e.kind == 'lake' else 'control store'})" for e in effects]
    return "\n".join([*lines, "", "Effects: " + "; ".join(reported) + ".", ""])


def _others(outcomes: Sequence[Outcome]) -> str:
    """Returns the table of faults between stages and at the source."""
    here = [o for o in outcomes if not o.cell.at]
    if not here:
        return ""
    lines = [
        "## Between stages, and at the source",
        "",
        _row(["", "stage", "outcome", ""]),
        _row(["---"] * 4),
    ]
    for fault in FAULTS:
        for o in here:
            if o.cell.fault == fault.name:
                said = "" if o.outcome == "survived" else _short(o.detail)
                lines.append(_row([fault.says, o.cell.stage, f"{_SIGNS[o.outcome]} {o.outcome}", said]))
    return "\n".join(lines) + "\n"


def _by_seed(outcomes: Sequence[Outcome]) -> str:
    here = [o for o in outcomes if o.cell.seed]
    if not here:
        return ""
    counted = Counter(o.outcome for o in here)
    reported = ", ".join(f"{counted[name]} {name}" for name in _SIGNS if counted[name])
    seeds = [o.cell.seed for o in here]
    return f"## By seed\n\nSeeds {min(seeds)} to {max(seeds)}, {len(seeds)} cells: {reported}.\n"


def _defects(outcomes: Sequence[Outcome]) -> str:
    here = [o for o in outcomes if o.outcome == "defect"]
    if not here:
        return ""
    lines = ["## Defects that stand", ""]
    lines += [f"- `{o.cell.id}`{f' (`{o.label}`)' if o.label else ''}: {_short(o.detail)}" for o in here]
    return "\n".join(lines) + "\n"


def _short(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())[:400]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
