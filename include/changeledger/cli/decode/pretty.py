"""Draws results for people: old and new values side by side, and the mask's bits beside their columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from changeledger.console.terminal import plain
from changeledger.pages.escaping import json_line

_PLACE = ("commit_lsn", "change_lsn", "event_serial_no", "committed_at", "transaction_id")
# How many characters of a value are drawn: a document would fill the terminal many times.
_MOST = 200
_COLOURS = {"insert": "green", "snapshot": "green", "update": "yellow", "delete": "red"}


def drawn(result: dict[str, Any]) -> RenderableType:
    """Draws one result: a change as a table of its cells, anything else as lines that say why."""
    records = ", ".join(map(str, result.get("records") or [result["record"]]))
    if result["disposition"] != "change":
        details = [plain(result[name]) for name in ("reason", "detail") if result.get(name)]
        colour = "red" if result["disposition"] == "quarantined" else "dim"
        title = f"record {records}: {result['disposition']}"
        return _panel(title, details or [Text("nothing to add")], colour)
    title = f"record {records}: {result['operation']} {result['table']}"
    parts: list[RenderableType] = [
        Text.assemble(plain("  ".join(_place(result))), style="dim"),
        _cells(result),
    ]
    if "sort_key" in result:
        parts.insert(1, Text.assemble(plain(f"sort_key {result['sort_key']}"), style="dim"))
    if result.get("flags"):
        parts.append(Text.assemble(plain("flags: " + ", ".join(result["flags"])), style="bold yellow"))
    return _panel(title, parts, _COLOURS.get(result["operation"], "dim"))


def quarantined(row: dict[str, Any]) -> RenderableType:
    """Draws a quarantined record: its position, why it could not be read, and its content."""
    record = row["source_position"]
    where = [str(record[name]) for name in ("source", "partition", "offset") if record[name] is not None]
    parts: list[RenderableType] = [
        plain(row["detail"] or ""),
        Text.assemble(plain(f"read by {row['window_id']}"), style="dim"),
    ]
    if row["raw_key"] is not None:
        parts.append(plain(f"key    {row['raw_key']}"))
    parts.append(plain(f"value  {row['raw_value']}"))
    return _panel(f"{row['reason']}: {row['table'] or 'no table'}, {' '.join(where)}", parts, "red")


def _panel(title: str, parts: Iterable[RenderableType], colour: str) -> Panel:
    return Panel(Group(*parts), title=plain(title), title_align="left", border_style=colour)


def _place(result: dict[str, Any]) -> Iterator[str]:
    yield "key " + json_line(result.get("key", {}))
    if "previous_key" in result:
        yield "was " + json_line(result["previous_key"])
    for name in _PLACE:
        if name in result:
            yield f"{name} {result[name]}"


def _cells(result: dict[str, Any]) -> Table:
    """Draws a row for each column. The bit says whether it changed, by the mask or else by the two images."""
    changed = result.get("changed")
    grid = Table(box=None, pad_edge=False, header_style="bold")
    grid.add_column("bit", justify="right")
    for heading in ("column", "before", "after"):
        grid.add_column(heading, overflow="fold")
    names = list(dict.fromkeys([*(result.get("before") or {}), *(result.get("after") or {})]))
    for name in names:
        is_set = changed is not None and name in changed
        bit = "?" if changed is None else "1" if is_set else "0"
        before, after = (_cell(result, side, name) for side in ("before", "after"))
        grid.add_row(bit, plain(name), before, after, style="bold" if is_set else "")
    if result.get("mask"):
        grid.caption = plain(f"mask {result['mask']}")
        grid.caption_justify = "left"
    return grid


def _cell(result: dict[str, Any], side: str, name: str) -> Text:
    image = result.get(side)
    if image is None:
        return Text("")
    gap = (result.get(f"{side}_unknown_columns") or {}).get(name)
    if gap is not None:
        return Text.assemble(plain(f"({gap})"), style="magenta")
    value = image.get(name)
    if value is None:
        return Text("NULL", style="dim italic")
    text = str(value)
    if len(text) <= _MOST:
        return plain(text)
    return Text.assemble(plain(f"{text[:_MOST]}..."), (f" {len(text)} characters", "dim italic"))
