"""Prints the command line's answers, and redirects Spark's output."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from itertools import islice
from typing import Any

from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from changeledger.config.folders import private
from changeledger.config.settings import Settings
from changeledger.model.wording import counted
from changeledger.pages.escaping import escaped, json_line

# How many rows a terminal shows. More rows are for a file.
MOST_ROWS = 100
# The width of a terminal with room for every line.
_WIDEST = 100_000


def text(raw: bytes | None) -> str | None:
    """Returns raw bytes as text if they are UTF-8, else as 0x and hex."""
    if raw is None:
        return None
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError:
        return shown(raw)


def console() -> Console:
    out = Console(highlight=False)
    if not out.is_terminal:
        # Piped lines keep their width instead of being cut to a terminal's 80 columns.
        out.width = _WIDEST
    return out


def print_table(columns: Iterable[str], answer: Iterable[Iterable[object]]) -> None:
    """Prints the first rows of the answer, with whole cells. The cells are in the columns' order."""
    rows = list(islice(answer, MOST_ROWS + 1))
    names, cells = (
        list(map(plain, columns)),
        [[plain(shown(value)) for value in row] for row in rows[:MOST_ROWS]],
    )
    out, grid = console(), _grid(names, cells)
    if Measurement.get(out, out.options.update(max_width=_WIDEST), grid).minimum > out.width:
        grid = _lists(names, cells)
    out.print(grid, markup=False)
    count = counted(len(cells), "row")
    out.print(f"more than {MOST_ROWS} rows; the first {count}" if len(rows) > MOST_ROWS else count)


def _grid(names: Iterable[Text], rows: Iterable[Iterable[Text]]) -> Table:
    grid = Table()
    for name in names:
        grid.add_column(name, overflow="fold")
    for row in rows:
        grid.add_row(*row)
    return grid


def _lists(names: Sequence[Text], rows: Iterable[Iterable[Text]]) -> Table:
    """Draws each row as a list of its cells, for a terminal that is too narrow to show all columns."""
    lists = _grid(map(Text, ("column", "value")), ())
    for row in rows:
        for name, cell in zip(names, row, strict=True):
            lists.add_row(name, cell)
        lists.add_section()
    return lists


def print_rows(columns: Iterable[str], rows: Iterable[Mapping[str, Any]], *, as_json: bool) -> None:
    """Prints rows as JSON lines, or as a table. `columns`: their members, in order."""
    if as_json:
        print_json(rows)
    else:
        print_table(columns, (row.values() for row in rows))


def print_json(answer: Iterable[Mapping[str, Any]]) -> None:
    for row in answer:
        print(json_line(row, default=shown))  # noqa: T201


def plain(said: object) -> Text:
    """Returns the text without markup, and with control characters of the terminal escaped."""
    return Text(escaped(str(said)))


class Lines(logging.Formatter):
    """Formats log lines that may be read on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record))


def shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, dict | list):
        return json_line(value, default=shown)
    if isinstance(value, Decimal):
        # With all digits of its type. `str` writes a zero as 0E-10.
        return format(value, "f")
    return f"0x{value.hex().upper()}" if isinstance(value, bytes | bytearray) else str(value)


@contextmanager
def spark_log(command: str) -> Iterator[None]:
    """Redirects the output of a Spark that starts in the block, for its whole life, to a file in the logs."""
    log = Settings().home / "logs" / f"changeledger-{command}.log"
    try:
        private(log.parent)
        file = log.open("wb")
    except OSError:
        # The home is not writable. Output before the answer is better than no output.
        yield
        return
    sys.stdout.flush()
    ours = [(stream, os.dup(stream)) for stream in (1, 2)]
    with file:
        for stream, _ in ours:
            os.dup2(file.fileno(), stream)
    try:
        yield
    except Exception as error:
        error.add_note(f"What Spark said is in {log}")
        raise
    finally:
        for stream, saved in ours:
            os.dup2(saved, stream)
            os.close(saved)
