"""Which variables of a user's environment reach the demo."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sourcelab import lab


def test_neither_other_settings_nor_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lab, "PROJECT", tmp_path)
    foreign = ("AIRFLOW_HOME", "SPARK_REMOTE", "CHANGELEDGER_FEEDS", "http_proxy", "HTTPS_PROXY", "ALL_PROXY")
    monkeypatch.setattr(os, "environ", dict.fromkeys((*foreign, "LANG"), "socks5://127.0.0.1:9"))
    with lab.own_folder("demo") as (home, settings):
        assert settings.home == home == tmp_path / ".changeledger" / "demo"
        assert [name for name in (*foreign, "LANG") if name in os.environ] == ["LANG"]
