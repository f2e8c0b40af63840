"""Views of quarantined records as received, with how they would be read now, and replaying them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

from airflow.api_fastapi.logging.decorators import action_logging
from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse

from changeledger.airflow_ui import access, actions
from changeledger.airflow_ui.rendering import render, root_of
from changeledger.audit.narrow_rows import position_text
from changeledger.config.feed import Feed
from changeledger.console import terminal
from changeledger.control import ControlStore
from changeledger.model import change
from changeledger.model.errors import ChangeledgerError
from changeledger.state import quarantine
from changeledger.state.reasons import REASONS
from changeledger.state.windows import failed_of, last_stored, window_states

router = APIRouter(prefix="/feeds/{dag_id}", dependencies=[access.MAY_SEE])
# Writes to Airflow's audit log.
LOGGED = action_logging("changeledger_replay")

_ON_A_PAGE = 20
# How many characters of a record a page shows.
_MOST = 4_000
_MOST_OF_A_DETAIL = 120


@router.get("/quarantine")
def records(  # noqa: PLR0913, PLR0917 - what the address has
    request: Request,
    feed: access.TheFeed,
    control: access.Control,
    may_trigger: access.MayTrigger,
    table: str | None = None,
    reason: str | None = None,
    run: str | None = None,
) -> HTMLResponse:
    chosen = quarantine.Chosen(table, reason, run)
    rows = quarantine.records(feed, chosen, _ON_A_PAGE)
    of_last = control.overview.rows_of(feed.feed, 1)
    latest = last_stored(window_states(of_last))
    return render(
        request,
        "quarantine.html.j2",
        feed=feed,
        chosen=chosen,
        quarantine=quarantine.summary(feed, quarantine.MOST),
        records=_shown(feed, control, rows),
        reasons=REASONS,
        latest=latest,
        failed=failed_of(of_last, latest),
        most=_ON_A_PAGE,
        may_trigger=may_trigger,
        waits=control.resets.pending(feed.feed) is not None,
    )


@router.post("/replay", dependencies=[access.FROM_THIS_PAGE, access.MAY_TRIGGER, Depends(LOGGED)])
def replay(
    request: Request,
    feed: access.TheFeed,
    user: access.UserName,
    table: Annotated[list[str] | None, Form()] = None,
) -> RedirectResponse:
    """Triggers the feed's DAG as its form does, and redirects to the run."""
    tables = [config.table for config in feed.only(table or []).tables] if table else None
    run = actions.trigger(feed.feed, {"mode": "replay", "tables": tables}, user)
    return RedirectResponse(f"{root_of(request)}/dags/{feed.feed}/runs/{quote(run, safe='')}", 303)


def _shown(feed: Feed, control: ControlStore, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns the records with their `place` in the source, and how they are read `now`; None: unknown."""
    return [
        {
            **row,
            "place": "" if row["source_position"] is None else position_text(row["source_position"]),
            "key": _text(row["raw_key"]),
            "value": _text(row["raw_value"]),
            "now": now,
            "readable": is_readable,
        }
        for row, (now, is_readable) in zip(rows, _read_now(feed, control, rows), strict=True)
    ]


def _text(raw: bytes | None) -> str | None:
    text = terminal.text(raw)
    return text if text is None or len(text) <= _MOST else f"{text[:_MOST]} ... ({len(raw or b''):,} bytes)"


def _read_now(
    feed: Feed, control: ControlStore, rows: Sequence[Mapping[str, Any]]
) -> list[tuple[str | None, bool]]:
    """Returns, for each record, how it is read now and whether a replay would succeed.

    Each is read alone. This is unknown for rows of change tables, which need other rows to be read.
    """
    if not rows or any(row["source_position"] is None or row["source_position"]["row"] for row in rows):
        return [(None, False)] * len(rows)
    # Imported here because it imports the dialects, which other pages do not need.
    from changeledger.cli.decode.reader import results  # noqa: PLC0415
    from changeledger.cli.decode.records import Message  # noqa: PLC0415

    messages = [
        Message(
            row["source_position"]["source"], row["source_position"]["partition"],
            row["source_position"]["offset"], None, row["raw_key"], row["raw_value"],
            [(header["key"], header["value"]) for header in row["raw_headers"] or ()],
        )
        for row in rows
    ]  # fmt: skip
    stored = control.contracts.avro_schemas(feed.feed)
    known = {row["table"]: None for row in rows if row["table"]}
    contracts = control.contracts.of_feed(feed.feed, known)
    try:
        outcomes = results(
            feed,
            messages,
            contracts,
            lambda ids: {schema_id: stored[schema_id] for schema_id in ids if schema_id in stored},
        )
        by_record = {outcome["record"]: outcome for outcome in outcomes}
    except ChangeledgerError as error:
        return [(error.message, False)] * len(rows)
    return [_outcome(by_record.get(number)) for number in range(1, len(rows) + 1)]


def _outcome(outcome: Mapping[str, Any] | None) -> tuple[str | None, bool]:
    if outcome is None:
        return None, False
    disposition = outcome["disposition"]
    if disposition == change.QUARANTINED:
        detail = outcome.get("detail") or ""
        # Some details contain the record itself, which is shown beside it.
        said = f": {detail}" if detail and len(detail) <= _MOST_OF_A_DETAIL else ""
        return f"{outcome.get('reason')}{said}", False
    if disposition == change.CHANGE:
        return f"{outcome.get('operation')} of {outcome.get('table')}", True
    return f"{disposition} {outcome.get('reason') or ''}".strip(), True
