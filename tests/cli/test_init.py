"""`changeledger init` writes a project whose files are all valid, and overwrites nothing."""

from __future__ import annotations

import re
import stat
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from changeledger.cli.main import app
from changeledger.cli.project.files import FEEDS, files, write
from changeledger.config.database import readable_databases
from changeledger.config.files import load_feed, readable_feeds
from changeledger.config.sources import SOURCE_MODELS
from changeledger.model.errors import ConfigError


@pytest.mark.parametrize("dialect", sorted(SOURCE_MODELS))
def test_a_project_of_each_dialect_is_valid(tmp_path: Path, dialect: str) -> None:
    project = tmp_path / "a place"
    ended = CliRunner().invoke(app, ["init", str(project), "--dialect", dialect])
    assert ended.exit_code == 0, ended.output
    feeds, errors = readable_feeds(project / "feeds")
    assert [feed.dialect for feed in feeds.values()] == [dialect]
    _, of_databases = readable_databases(project / "databases", feeds)
    assert (errors, of_databases) == ([], {})
    (feed,) = feeds.values()
    assert f"changeledger check {feed.feed}" in (project / "README.md").read_text("utf-8")


def test_what_is_commented_out_of_an_example_is_valid(tmp_path: Path) -> None:
    """A newcomer removes the `#`."""
    write(tmp_path, files(tmp_path, sorted(FEEDS)))
    for file in (tmp_path / "feeds").iterdir():
        settings = re.sub(r"(?m)^( +)# (?= *- \{|[\w.]+:(?: |$))", r"\1", file.read_text("utf-8"))
        file.write_text(settings, "utf-8")
        feed = load_feed(file)
        assert feed.tables[0].key == ("id",)
        assert feed.tables[0].columns or feed.dialect in {"ces", "sqlserver_cdc"}


def test_the_environment_of_a_place_with_a_blank(tmp_path: Path) -> None:
    project = tmp_path / "a place"
    write(project, files(project, ["debezium", "ces"]))
    ended = subprocess.run(
        ["sh", "-ec", 'set -a; . ./.env.example; printenv CHANGELEDGER_PROJECT AIRFLOW_CONN_SHOP_KAFKA'],
        cwd=project, capture_output=True, text=True, check=True,
    )  # fmt: skip
    place, connection = ended.stdout.splitlines()
    assert place == str(project)
    assert connection.startswith('{"conn_type": "kafka"')


def test_nothing_that_exists_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "feeds").mkdir()
    kept = tmp_path / "feeds" / "shop_debezium.yaml"
    kept.write_text("mine", "utf-8")
    with pytest.raises(ConfigError, match=r"has feeds/shop_debezium\.yaml already"):
        write(tmp_path, files(tmp_path, ["debezium"]))
    assert kept.read_text("utf-8") == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["feeds"]


@pytest.mark.skipif("os.geteuid() == 0", reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    with pytest.raises(ConfigError, match="cannot be written"):
        write(tmp_path / "project", files(tmp_path, ["debezium"]))
