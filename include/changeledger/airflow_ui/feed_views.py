"""Views of a feed (windows over time, failed rules, quarantine, tables), of a window and of a table."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse

from changeledger.airflow_ui import airflow_runs, charts, filters
from changeledger.airflow_ui.access import MAY_SEE, Control, MayTrigger, TheFeed
from changeledger.airflow_ui.rendering import render, root_of
from changeledger.airflow_ui.row_links import RowPage, by_key
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.model.window import STAGES, times_of
from changeledger.state import overview, quarantine
from changeledger.state.audit_rows import Row, has_data_docs, offending_rows
from changeledger.state.cells import key_texts_of_json
from changeledger.state.reasons import REASONS
from changeledger.state.tables import columns_of, table_states
from changeledger.state.windows import (
    RELEASED,
    WindowState,
    failed_of,
    last_stored,
    stage_seconds,
    window_states,
)

router = APIRouter(prefix="/feeds/{dag_id}", dependencies=[MAY_SEE])

# How many windows the charts show, and how many tables the list.
_WINDOWS = 48
_TABLES = 100
_DISPOSITIONS = {
    change.CHANGE: "c1", change.PAIRED: "c2", change.DUPLICATE: "c3", change.PENDING: "c4",
    change.CONTROL: "c5", change.TOMBSTONE: "c7", change.QUARANTINED: "c6",
}  # fmt: skip
# The column in which the audit's own rules have the key of a change, as JSON.
_KEY = "key"
_STAGES = dict(zip(STAGES, ("c1", "c2", "c3", "c4", "c5"), strict=True))


@router.get("")
def feed_overview(  # noqa: PLR0913, PLR0917 - what the address has
    request: Request,
    feed: TheFeed,
    control: Control,
    may_trigger: MayTrigger,
    tables: str = "",
    run: str = "",
) -> HTMLResponse:
    """Shows a feed. `run`: the Airflow run whose window somebody looks for; it may have none, or none yet."""
    settings, rows = Settings(), control.overview.rows_of(feed.feed, _WINDOWS)
    windows = window_states(rows)
    latest = last_stored(windows)
    failed = failed_of(rows, latest)
    listed = table_states(control, feed, rows.tables, tables, _TABLES)
    root = root_of(request)
    address = f"{root}/feeds/{filters.part(feed.feed)}/windows/"
    return render(
        request,
        "feed.html.j2",
        feed=feed,
        line=overview.line(control, feed, rows),
        windows=windows,
        failure=rows.failure,
        records=_records(windows, address),
        seconds=_seconds(
            windows, control.overview.stage_ends(feed.feed, [state.id for state in windows]), address
        ),
        latest=latest,
        failed=sorted(failed, key=lambda rule: not rule.stops),
        offending={} if latest is None else _offending(control, root, feed.feed, latest.id),
        has_docs=latest is not None and has_data_docs(settings, feed.feed, latest.id),
        quarantine=quarantine.summary(feed, quarantine.MOST),
        tables=listed,
        wanted=tables,
        run=_without_window(control, feed.feed, run),
        may_trigger=may_trigger,
        settings=_settings(feed),
    )


@router.get("/windows/{window_id}")
def window(request: Request, feed: TheFeed, control: Control, window_id: str) -> HTMLResponse:
    row = control.windows.row(feed.feed, window_id)
    failure = control.failures.of_feed(feed.feed)
    is_failure = failure is not None and failure.window_id == window_id
    if row is None and not is_failure:
        raise HTTPException(404, f"{feed.feed} has no window {window_id}")
    state = None if row is None else control.overview.one_window(feed.feed, row)
    shown = None if state is None else last_stored(window_states(state))
    settings = Settings()
    return render(
        request,
        "window.html.j2",
        feed=feed,
        window_id=window_id,
        times=times_of(window_id),
        window=shown,
        failure=failure if is_failure else None,
        stages={}
        if shown is None
        else stage_seconds(shown, control.overview.stage_ends(feed.feed, [window_id]).get(window_id, {})),
        # Incomplete reads first.
        reads=sorted(control.sources.reads(feed.feed, window_id), key=lambda read: read.problem is None),
        failed=sorted(() if state is None else state.failed, key=lambda rule: not rule.stops),
        judged=0 if state is None else state.judged.get(window_id, 0),
        dispositions=() if state is None or not state.releases else state.releases[0].dispositions or (),
        offending={} if shown is None else _offending(control, root_of(request), feed.feed, window_id),
        has_docs=shown is not None and has_data_docs(settings, feed.feed, window_id),
        shades=_DISPOSITIONS,
    )


@router.get("/tables/{table:path}")
def table_page(request: Request, feed: TheFeed, control: Control, table: str) -> HTMLResponse:
    counts = control.overview.rows_of(feed.feed, 1).tables
    states = table_states(control, feed, counts, table, most=None).states
    state = next((state for state in states if state.table == table), None)
    if state is None:
        raise HTTPException(404, f"{feed.feed} has no table {table}")
    return render(
        request,
        "table.html.j2",
        feed=feed,
        table=state,
        columns=columns_of(control, feed, table),
        names=feed.names.get(table),
    )


def _without_window(control: ControlStore, feed: str, run: str) -> airflow_runs.RunState | None:
    """Returns the run that is asked for, or None if it has a window or none is asked for."""
    if not run or control.overview.window_of_run(feed, run) is not None:
        return None
    return airflow_runs.find_run(feed, run)


def _records(windows: Sequence[WindowState], address: str) -> charts.Chart | None:
    columns = []
    for state in reversed(windows):
        outcomes = state.outcomes or {}
        parts = ", ".join(f"{count:,} {name}" for name, count in outcomes.items())
        title = f"{_title(state)}: {parts or state.outcome}"
        columns.append(_column(state, address, title, outcomes))
    return charts.stacked(columns, _DISPOSITIONS)


def _seconds(
    windows: Sequence[WindowState], ends: Mapping[str, Mapping[str, datetime]], address: str
) -> charts.Chart | None:
    columns = []
    for state in reversed(windows):
        # Released windows only: one that waits for a person has taken days.
        seconds = stage_seconds(state, ends.get(state.id, {})) if state.outcome == RELEASED else {}
        parts = ", ".join(f"{stage} {count:.0f} s" for stage, count in seconds.items())
        columns.append(_column(state, address, f"{_title(state)}: {parts or state.outcome}", seconds))
    return charts.stacked(columns, _STAGES)


def _column(state: WindowState, address: str, title: str, values: Mapping[str, float]) -> charts.Column:
    return charts.Column(f"{address}{filters.part(state.id)}", filters.moment(state.start), title, values)


def _title(state: WindowState) -> str:
    return f"{filters.moment(state.start)} to {filters.moment(state.end)} UTC"


def _settings(feed: Feed) -> dict[str, str]:
    """Returns the settings of the feed's file without its tables. Those that the file states come first."""
    everything = feed.model_dump(mode="json", exclude={"tables", "source"}, by_alias=True)
    source = feed.source.model_dump(mode="json", by_alias=True)
    everything |= {f"source.{name}": value for name, value in source.items()}
    stated = feed.model_fields_set
    order = sorted(everything, key=lambda name: name not in stated and not name.startswith("source."))
    return {name: str(everything[name]) for name in order}


@dataclass(frozen=True)
class _Offending:
    """The rows that break a rule.

    `columns`: the columns of all rows. `rows`: each with the address of its row, if it has a key.
    `remedies`: what to do about quarantined records, with the reasons to which it applies.
    """

    columns: Sequence[str]
    rows: Sequence[tuple[Row, str | None]]
    remedies: Mapping[str, Sequence[str]]


def _offending(
    control: ControlStore, root: str, feed: str, window_id: str
) -> dict[tuple[str, str], _Offending]:
    """Returns the rows by table and rule. No row has an address if the installation hides values."""
    settings = Settings()
    rows_of_rules = offending_rows(settings, feed, window_id)
    tables = {table for table, _ in rows_of_rules}
    contracts = {} if settings.redact_values else control.contracts.of_feed(feed, tables)
    published = {table: contract.published for table, contract in contracts.items()}
    return {
        (table, rule): _linked(rows, published.get(table), RowPage(root, feed, table))
        for (table, rule), rows in rows_of_rules.items()
    }


def _linked(rows: Sequence[Row], contract: Contract | None, page: RowPage) -> _Offending:
    linked = []
    for row in rows:
        key = None if contract is None else _key_of(row, contract)
        linked.append((row, None if key is None else by_key(page, key)))
    columns = dict.fromkeys(name for row in rows for name in row)
    words = dict.fromkeys(word for row in rows for word in re.findall(r"[a-z0-9_]+", row.get("why", "")))
    remedies: dict[str, list[str]] = {}
    for word in words:
        if word in REASONS:
            remedies.setdefault(REASONS[word], []).append(word)
    return _Offending(tuple(columns), linked, remedies)


def _key_of(row: Row, contract: Contract) -> Mapping[str, str] | None:
    """Returns the key of a change, or of a row that a user's expectation has found, or None."""
    if _KEY in row:
        try:
            return key_texts_of_json(row[_KEY], contract)
        except ValueError:
            # The text was cut off, or hidden when the audit ran.
            return None
    key = {column.name: row.get(column.name, "") for column in contract.key}
    return key if key and all(key.values()) else None
