"""`changeledger cutover` on a real control store: verdict, page, JSON and exit code."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from changeledger import exit_codes
from changeledger.cli.main import main
from changeledger.config.settings import Settings
from changeledger.control import ControlStore
from tests.state.pairs import NEW, OLD, TABLE, compare, prove

NOW = datetime.now(UTC)
ASKED = ["cutover", "shop", "--from", OLD, "--to", NEW]


@pytest.fixture
def control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlStore:
    monkeypatch.setenv("CHANGELEDGER_HOME", str(tmp_path))
    for variable in ("feeds", "databases"):
        (tmp_path / variable).mkdir()
        monkeypatch.setenv(f"CHANGELEDGER_{variable.upper()}", str(tmp_path / variable))
    for name in (OLD, NEW):
        described = {"feed": name, "dialect": "sqlserver_cdc", "database": "shop", "connection": "c",
                     "source": {}, "tables": [{"table": TABLE}]}  # fmt: skip
        (tmp_path / "feeds" / f"{name}.yaml").write_text(yaml.safe_dump(described))
    return ControlStore(Settings().control_url)


def test_the_exit_code_is_the_verdict(
    control: ControlStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as waits:
        main(ASKED)
    assert waits.value.code == exit_codes.NOT_YET == 75
    assert "never_compared" in capsys.readouterr().out

    compare(control, 1, 5, NOW - timedelta(days=9), NOW - timedelta(days=3))
    compare(control, 5, 9, NOW - timedelta(days=3), NOW)
    prove(control, NOW)
    page = tmp_path / "page.html"
    main([*ASKED, "--page", str(page), "--json"])
    assert json.loads(capsys.readouterr().out)["verdict"] == "go"
    assert "Decided by" in page.read_text()

    compare(control, 9, 10, NOW, NOW, missing=1)
    with pytest.raises(SystemExit) as lost:
        main(ASKED)
    assert lost.value.code == exit_codes.NO_GO == 1
    assert "NO-GO" in capsys.readouterr().out


@pytest.mark.usefixtures("control")
def test_a_page_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for page, why in ((tmp_path, "Is a directory"), (tmp_path / "no" / "page.html", "No such file")):
        with pytest.raises(SystemExit) as stopped:
            main([*ASKED, "--page", str(page)])
        assert stopped.value.code == 1
        assert f"the page {page} cannot be written: {why}" in capsys.readouterr().err
