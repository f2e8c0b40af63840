"""A lake that version 0.1 has made, migrated: its next windows are those of a lake made by this version."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from changeledger.config.settings import PROJECT
from changeledger.storage import catalog, refs
from sourcelab.services import KafkaBroker, Postgres
from tests.upgrade import records
from tests.upgrade.make_lake import HOME, connections

pytestmark = pytest.mark.integration
ARCHIVE = Path(__file__).with_name("lake-0.1.tar.xz")
# The migration is killed behind so many tables.
TABLES_BEFORE_THE_KILL = 4


@pytest.fixture
def environment(tmp_path: Path, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Postgres]:
    folder = tmp_path / "feeds"
    folder.mkdir()
    for name, feed in records.feeds().items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(feed.model_dump(mode="json")), "utf-8")
    monkeypatch.setenv("CHANGELEDGER_FEEDS", str(folder))
    with Postgres(tmp_path / "postgres") as postgres, monkeypatch.context() as patch:
        for name, connection in connections(kafka, postgres).items():
            patch.setenv(name, connection)
        yield postgres


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The lake, with a release that a crash has left behind its commit point."""
    shutil.rmtree(HOME, ignore_errors=True)
    subprocess.run(["tar", "-xJf", str(ARCHIVE), "-C", str(HOME.parent)], check=True)
    with sqlite3.connect(HOME / "control.db") as control:
        # The test's broker is not the one that was read.
        control.execute("DELETE FROM source_marks")
        last = control.execute("SELECT max(id), min(id) FROM releases WHERE feed = 'old_ces'").fetchone()
        control.execute(
            "UPDATE releases SET status = 'committed', completed_at = NULL WHERE id = ?", last[:1]
        )
    monkeypatch.setenv("CHANGELEDGER_HOME", str(HOME))
    tables = [one for one in catalog.tables("old_ces") if refs.snapshot_of(one, f"release_{last[1]}")]
    assert len(tables) > 6
    for table, snapshot in refs.heads(tables, f"release_{last[1]}").items():
        refs.set_branch(table, refs.MAIN, snapshot)
        refs.drop(table, [f"release_{last[0]}"])
    yield
    shutil.rmtree(HOME)


@pytest.mark.usefixtures("restored")
def test_a_migrated_lake_goes_on_as_a_fresh_one(
    tmp_path: Path, kafka: KafkaBroker, environment: Postgres
) -> None:
    refused = command("status")
    assert refused.returncode == 1
    assert "run `changeledger migrate`" in refused.stderr

    kill_the_migration()
    assert command("status").returncode == 1
    migrated = command("migrate")
    assert migrated.returncode == 0, migrated.stderr
    assert "nothing to do" in command("migrate").stdout
    assert_new_names()

    fresh = carried(3, tmp_path / "fresh", kafka, environment)
    after = carried(0, HOME, kafka, environment)
    assert after.keys() == fresh.keys()
    repaired = ids_of_repairs(after["old_cdc"])
    for feed, tables in fresh.items():
        for table, rows in tables.items():
            gone = repaired if table.startswith("lake.old_cdc.dbo_customers") else set()
            assert others(after[feed][table], gone) == others(rows, gone), table
    status = command("status")
    assert status.stdout.count("released") == 2, status.stdout


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "changeledger.cli", *arguments]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=300)


def kill_the_migration() -> None:
    line = [sys.executable, "-m", "changeledger.cli", "migrate"]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        done = (said for said in process.stderr if ": table " in said)
        for _ in range(TABLES_BEFORE_THE_KILL):
            assert next(done)
        process.kill()


def assert_new_names() -> None:
    asked = {
        "SELECT count(*) FROM lake.old_ces.image_chain_breaks WHERE window_id IS NOT NULL": "1",
        "SELECT count(*) FROM lake.old_ces.replay_requests WHERE source_position.`offset` > 0": "2",
        "SELECT count(*) FROM lake.old_cdc.applied_repairs": "2",
        "SELECT count(*) FROM lake.old_cdc.dbo_customers "
        "WHERE _unknown_columns['credit'] = 'not_captured' AND _window_id IS NOT NULL": "16",
        "SELECT count(DISTINCT verdict) FROM lake.changeledger.drift WHERE verdict IN ('extra', 'differs')": (
            "2"
        ),
    }
    for query, expected in asked.items():
        answer = command("query", "--json", query)
        assert answer.returncode == 0, answer.stderr
        assert str(next(iter(json.loads(answer.stdout).values()))) == expected, query


def carried(
    parts: int, home: Path, kafka: KafkaBroker, postgres: Postgres
) -> dict[str, dict[str, list[str]]]:
    """What the feeds have published then; see `carry`."""
    out = home / "published.json"
    line = [sys.executable, "-m", "tests.upgrade.carry", str(parts), str(out)]
    home.mkdir(exist_ok=True)
    # As when the lake was made: no feed learns of computed columns from the file of another one.
    environment = {**os.environ, "CHANGELEDGER_HOME": str(home), "CHANGELEDGER_FEEDS": str(home)}
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=PROJECT, env=environment
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for number, _ in enumerate(said for said in process.stdout if said == "send\n"):
            records.send(number, kafka.bootstrap, postgres.url)
            print(file=process.stdin, flush=True)
    assert process.returncode == 0
    found: dict[str, dict[str, list[str]]] = json.loads(out.read_text())
    return found


def ids_of_repairs(tables: Mapping[str, list[str]]) -> set[int]:
    """The keys that were repaired by hand, as no other lake was."""
    ledger = [json.loads(row) for row in tables["lake.old_cdc.dbo_customers_changes"]]
    return {row["key"]["id"] for row in ledger if "repaired" in (row["flags"] or ())}


def others(rows: list[str], gone: set[int]) -> list[Any]:
    found = [json.loads(row) for row in rows]
    return [row for row in found if not gone or row.get("key", row)["id"] not in gone]
