"""The environment's proxy is used for other machines only."""

from __future__ import annotations

import os

import pytest

from changeledger.console.process import reach_directly


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [
        (None, None, "127.0.0.1,localhost,::1"),
        ("", " .example.org , localhost", ".example.org,localhost,127.0.0.1,::1"),
        ("10.0.0.0/8", "other", "10.0.0.0/8,127.0.0.1,localhost,::1"),
        ("*", None, "*"),
    ],
)
def test_this_machine_joins_what_is_excepted(
    monkeypatch: pytest.MonkeyPatch, lower: str | None, upper: str | None, expected: str
) -> None:
    for name, value in (("no_proxy", lower), ("NO_PROXY", upper)):
        monkeypatch.setenv(name, value or "")
        if value is None:
            monkeypatch.delenv(name)
    for _ in range(2):
        reach_directly()
        assert (os.environ["no_proxy"], os.environ["NO_PROXY"]) == (expected, expected)
