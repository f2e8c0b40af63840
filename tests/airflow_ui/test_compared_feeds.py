"""Two feeds of a database that were really compared: how Row, Agreement and Cutover show a difference."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from random import Random

import pytest
import yaml
from pyspark.sql import SparkSession

from changeledger.config.database import Database
from changeledger.model.errors import FeedsDisagree
from changeledger.stages import compare
from sourcelab import faults
from sourcelab.log import simulate
from tests.airflow_ui.pages import Installation, installation
from tests.published_feeds import TABLES, feed_of, publish

OLD, NEW, DATABASE = "seen_old", "seen_new", "seen"


@pytest.fixture
def pages(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    """The pages, on the lake and the control store that all tests share."""
    pages = installation(tmp_path, monkeypatch)
    monkeypatch.setenv("CHANGELEDGER_HOME", str(home))
    return pages


def address(page: str, pattern: str) -> str:
    """Returns the first link that matches, as a browser would follow it."""
    link = re.search(f'href="([^"]*{pattern}[^"]*)"', page)
    assert link is not None, page
    return unescape(link[1]).partition("#")[0]


def test_a_planted_difference_is_on_all_three_pages(spark: SparkSession, pages: Installation) -> None:
    log = simulate(12, 40)
    reported, changed = faults.change_value(log, 30, Random(1))
    ((transaction, corrupted),) = changed.changes
    table, feeds = corrupted.table, {name: feed_of(name, DATABASE) for name in (OLD, NEW)}
    publish(feeds[OLD], log)
    publish(feeds[NEW], reported)
    for name, feed in feeds.items():
        (pages.folder / f"{name}.yaml").write_text(
            yaml.safe_dump(feed.model_dump(mode="json", exclude_unset=True, by_alias=True))
        )
    pages.user.sees = {OLD, NEW}
    with pytest.raises(FeedsDisagree):
        compare.run(spark, Database(database=DATABASE, reference=OLD), feeds)

    def shown(path: str) -> str:
        answer = pages.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    agreement = shown(f"/agreement/{DATABASE}")
    assert "1 of them unexplained" in agreement
    findings = shown(address(agreement, "verdict=differs"))
    assert f"differs in {table.full_name}" in findings
    assert transaction.commit_lsn.hex().upper() in findings
    of_row = address(findings, f"/feeds/{OLD}/rows")
    row = corrupted.after
    assert row is not None
    for column in table.key:
        assert f"key.{column}={row[column]}" in of_row
    page = shown(of_row)
    marked = re.findall(r'<tr class="marked"><th>(\w+) <span class="badge bad">disagree</span>', page)
    assert marked == [changed.column]
    # The page shows the row as of the commit that disagreed: the next change of the row was right again, or
    # none came.
    assert "as of" in page
    cutover = f"/cutover/{DATABASE}?old={OLD}&new={NEW}&days=3650&events=1"
    page = shown(cutover)
    assert "NO-GO" in page
    said = pages.client.get(f"{cutover}&json=true").json()
    assert (said["verdict"], said["compared"]["unexplained"]) == ("no-go", 1)
    (reason,) = (reason for reason in said["reasons"] if reason["verdict"] == "no-go")
    assert (reason["code"], table.full_name in reason["text"]) == ("differs", True)
    agreeing = next(other.full_name for other in TABLES if other is not table).lower()
    assert said["tables"][agreeing]["differs"] == 0
