"""The table that a query prints."""

from __future__ import annotations

import pytest

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
