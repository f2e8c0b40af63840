"""How the command line shows answers, and where it puts what Spark says beside."""

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

# More than this is for a file, not for a terminal.
MOST_ROWS = 100
# Columns of a terminal that has room for every line.
_WIDEST = 100_000


def text(raw: bytes | None) -> str | None:
    """Raw bytes as text where they are text, else as 0x and hex."""
    if raw is None:
        return None
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError:
        return shown(raw)


def console() -> Console:
    out = Console(highlight=False)
    if not out.is_terminal:
        # Piped: lines as wide as they are, instead of cut to a terminal's 80 columns.
        out.width = _WIDEST
    return out


def print_table(columns: Iterable[str], answer: Iterable[Iterable[object]]) -> None:
    """The first rows of the answer, whose cells are in the columns' order; each cell whole."""
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
    """Each row as a list of its cells: a terminal that is too narrow for the columns would lose some."""
    lists = _grid(map(Text, ("column", "value")), ())
    for row in rows:
        for name, cell in zip(names, row, strict=True):
            lists.add_row(name, cell)
        lists.add_section()
    return lists


def print_json(answer: Iterable[Mapping[str, Any]]) -> None:
    for row in answer:
        print(json_line(row, default=shown))  # noqa: T201


def plain(said: object) -> Text:
    """What is said, as it is: no markup, and nothing that the terminal would obey."""
    return Text(escaped(str(said)))


class Lines(logging.Formatter):
    """Log lines that may be read on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return escaped(super().format(record))


def shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, dict | list):
        return json_line(value, default=shown)
    if isinstance(value, Decimal):
        # With all the digits of its type: `str` writes 0E-10 for a zero.
        return format(value, "f")
    return f"0x{value.hex().upper()}" if isinstance(value, bytes | bytearray) else str(value)


@contextmanager
def spark_log(command: str) -> Iterator[None]:
    """What a Spark that is started meanwhile prints, as long as it lives, is in a file of the home's logs."""
    log = Settings().home / "logs" / f"changeledger-{command}.log"
    try:
        private(log.parent)
        file = log.open("wb")
    except OSError:
        # A home that cannot be written: before the answer is better than nowhere.
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
