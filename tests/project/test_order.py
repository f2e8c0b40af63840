"""The order in which test files start."""

from __future__ import annotations

from tests.conftest import LONGEST, TESTS


def test_the_longest_files_are_there() -> None:
    assert [name for name in LONGEST if not (TESTS / name).is_file()] == []
