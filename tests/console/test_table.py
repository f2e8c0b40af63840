"""The table that a query prints."""

from __future__ import annotations

from decimal import Decimal

import pytest
from rich.console import Console

from changeledger.console import terminal
from changeledger.console.terminal import MOST_ROWS, print_table


@pytest.mark.parametrize(
    ("rows", "end"),
    [
        ([(1, None)], "1 row"),
        ([(b"\x00\xff", "[b]a")] * 2, "2 rows"),
        ([(1, 2)] * (MOST_ROWS + 1), f"more than {MOST_ROWS} rows; the first {MOST_ROWS} rows"),
    ],
)
def test_rows_and_their_number(
    capsys: pytest.CaptureFixture[str], rows: list[tuple[object, ...]], end: str
) -> None:
    print_table(["id", "x"], rows)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == end
    assert lines[3] == {"1 row": "│ 1  │ NULL │", "2 rows": "│ 0x00FF │ [b]a │"}.get(end, "│ 1  │ 2 │")


@pytest.mark.parametrize(
    "row",
    [
        # Columns that do not fit side by side, and a word longer than the terminal's width.
        {f"c{n}": 1_000_003 * n for n in range(40)},
        {"id": 1, "name": "6F9619FF-8B86-D011-B42D-00C04FC964FF" * 2, "words": "one two three " * 5},
    ],
)
def test_a_narrow_terminal_loses_no_cell(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, row: dict[str, object]
) -> None:
    monkeypatch.setattr(terminal, "console", lambda: Console(width=60, highlight=False))
    print_table(row, [row.values()])
    last = ""
    shown = capsys.readouterr().out
    assert "…" not in shown
    values: dict[str, str] = {}
    for line in shown.splitlines():
        if line.startswith("│"):
            _, name, value, _ = (part.strip() for part in line.split("│"))
            last = name or last
            values[last] = values.get(last, "") + value.replace(" ", "")
    assert values == {name: str(value).replace(" ", "") for name, value in row.items()}


def test_decimals_have_all_their_digits() -> None:
    assert [terminal.shown(Decimal(text)) for text in ("0E-10", "-1E-10", "1.50")] == [
        "0.0000000000", "-0.0000000001", "1.50"
    ]  # fmt: skip
    assert terminal.shown([{"a": Decimal("0E-7")}]) == '[{"a": "0.0000000"}]'
