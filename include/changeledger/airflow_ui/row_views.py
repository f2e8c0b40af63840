"""Views of a row's life: all of its changes, and the same row in the database's other feeds."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, NamedTuple

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from changeledger.airflow_ui import row_links
from changeledger.airflow_ui.access import FROM_THIS_PAGE, MAY_SEE, Control, TheFeed, VisibleFeeds
from changeledger.airflow_ui.rendering import render, root_of
from changeledger.airflow_ui.row_links import BEFORE, KEY, RowPage
from changeledger.config.feed import Feed
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from changeledger.model import moments
from changeledger.model.errors import ConfigError
from changeledger.state.beside import Beside, beside
from changeledger.state.life import Place, key_of_change, life, placed
from changeledger.state.recent import RecentRow, recent_rows
from changeledger.state.row_changes import RowChange
from changeledger.state.search import search

router = APIRouter(prefix="/feeds/{dag_id}/rows", dependencies=[MAY_SEE])

_HIDDEN = ConfigError(
    "values are hidden here, but an address with a key is kept in logs and histories",
    "enter the key in the form, which keeps it out of the address",
)
_NOT_BY_VALUE = ConfigError("values are hidden here, so rows cannot be found by them", "enter the key")


class _Asked(NamedTuple):
    """What an address or the form asks for. `is_form`: none of it is in an address."""

    table: str
    key: Mapping[str, str]
    value: str = ""
    as_of: str = ""
    is_form: bool = False


class Named(NamedTuple):
    """A row named by one of its changes; see `row_links.by_change`."""

    change: str = ""
    lsn: str = ""
    side: str = ""


class _Viewer(NamedTuple):
    """A feed, and all feeds that the user may see."""

    feed: Feed
    control: ControlStore
    visible: Mapping[str, Feed]


def _viewer(feed: TheFeed, control: Control, visible: VisibleFeeds) -> _Viewer:
    return _Viewer(feed, control, visible)


Viewer = Annotated[_Viewer, Depends(_viewer)]


@router.get("")
def rows(  # noqa: PLR0913, PLR0917 - what an address says
    request: Request,
    viewer: Viewer,
    named: Annotated[Named, Depends()],
    table: str = "",
    value: str = "",
    as_of: str = "",
) -> Response:
    """Shows a row by its key (`key.<column>=...`) or by a change, or the keys of rows that have a value."""
    asked = _Asked(table, _key(request.query_params), value, as_of)
    if not (table and named.change):
        return _page(request, viewer, asked)
    try:
        place = placed(viewer.control, viewer.feed.feed, table)
        key = key_of_change(place, named.change, named.lsn, before=named.side == BEFORE)
    except ConfigError as error:
        return _page(request, viewer, asked, error)
    if not Settings().redact_values:
        # This address can be shared, and remains valid when the change is gone.
        page = RowPage(root_of(request), viewer.feed.feed, table)
        return RedirectResponse(row_links.by_key(page, key, as_of), 303)
    return _page(request, viewer, asked._replace(key=key, is_form=True))


async def _form(request: Request) -> Mapping[str, str]:
    return {name: text for name, text in (await request.form()).items() if isinstance(text, str)}


@router.post("", dependencies=[FROM_THIS_PAGE])
def row_of_form(
    request: Request, viewer: Viewer, form: Annotated[Mapping[str, str], Depends(_form)]
) -> HTMLResponse:
    """Shows a row by its key, which no address contains."""
    asked = _Asked(form.get("table", ""), _key(form), as_of=form.get("as_of", ""), is_form=True)
    return _page(request, viewer, asked)


def _key(asked: Mapping[str, str]) -> dict[str, str]:
    """Returns the key. Parts of it may be empty texts, but a form without any input names no key."""
    key = {name.removeprefix(KEY): text for name, text in asked.items() if name.startswith(KEY)}
    return key if any(key.values()) else {}


def _page(
    request: Request, viewer: _Viewer, asked: _Asked, problem: ConfigError | None = None
) -> HTMLResponse:
    known: dict[str, Any] = {"place": None, "hits": None, "row": None, "as_of": None, "problem": problem,
                             "recent": ()}  # fmt: skip
    redact, feed = Settings().redact_values, viewer.feed
    page = RowPage(root_of(request), feed.feed, asked.table)
    try:
        if asked.table:
            known["place"] = place = placed(viewer.control, feed.feed, asked.table)
            if asked.key and redact and not asked.is_form:
                raise _HIDDEN
            if asked.value and redact:
                raise _NOT_BY_VALUE
            if asked.key:
                known["as_of"] = _moment(asked.as_of)
                known["row"] = _row(viewer, place, asked)
            elif asked.value:
                known["hits"] = search(place, asked.value)
            else:
                known["recent"] = _recent(page, place, redact=redact)
    except ConfigError as error:
        known["problem"] = error

    def by_key(key: Mapping[str, str]) -> str:
        return row_links.by_key(page, key)

    def moved(change: RowChange, side: str) -> str:
        return row_links.moved(page, change, side, redact=redact)

    # Hidden values are not written into the form again.
    shown = asked._replace(key={}, value="") if redact else asked
    tables = [config.table for config in feed.tables]
    return render(
        request, "row.html.j2", feed=feed, tables=tables, asked=shown, by_key=by_key, moved=moved, **known
    )


def _recent(page: RowPage, place: Place, *, redact: bool) -> list[tuple[RecentRow, str]]:
    """Returns recent rows, each with its address."""
    rows = recent_rows(place)
    if redact:
        return [(row, row_links.by_change(page, row.change_id, row.commit_lsn)) for row in rows]
    return [(row, row_links.by_key(page, row.key)) for row in rows]


def _row(viewer: _Viewer, place: Place, asked: _Asked) -> Beside:
    others = [
        other.feed
        for other in viewer.visible.values()
        if other.database == viewer.feed.database
        and other.feed != viewer.feed.feed
        and other.table(asked.table) is not None
    ]
    return beside(viewer.control, life(place, asked.key), others, _moment(asked.as_of))


def _moment(text: str) -> datetime | None:
    """Parses a time; without a zone it is UTC. Returns None for an empty text. Raises ConfigError."""
    if not text:
        return None
    try:
        return moments.in_utc(text)
    except ValueError:
        raise ConfigError(f"{text!r} is not a time", "write it as 2026-01-31T12:00:00, in UTC") from None
