from __future__ import annotations

from pathlib import Path

import pytest

from tests.airflow_ui.pages import Installation, installation


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    return installation(tmp_path, monkeypatch)
