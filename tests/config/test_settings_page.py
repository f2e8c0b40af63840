"""docs/settings.md agrees with the models."""

from __future__ import annotations

import re
import sys

import pytest

from changeledger.config.feed import Feed
from changeledger.config.settings import PROJECT
from changeledger.config.sources import SOURCE_MODELS

sys.path.insert(0, str(PROJECT / "scripts"))
import settings_page

sys.path.pop(0)


def test_the_page_is_up_to_date() -> None:
    written = settings_page.PAGE.read_text("utf-8") if settings_page.PAGE.exists() else ""
    assert written == settings_page.page(), "write it again: .venv/bin/python scripts/settings_page.py"


def rows(section: str) -> dict[str, list[str]]:
    """Returns, by setting, its meaning, values and default from the page."""
    _, _, after_title = settings_page.page().partition(f"\n## {section}\n")
    table = re.findall(
        r"^\| `([\w.]+)` \| (.*) \| (.*) \| (.*) \|$", after_title.partition("\n## ")[0], re.MULTILINE
    )
    return {name: cells for name, *cells in table}


def test_every_setting_has_meaning_values_and_default() -> None:
    feed = rows("Feed")
    assert list(feed) == list(Feed.model_fields)
    assert feed["mask_order"][1:] == ["`big`, `little`, `auto`", "`auto`"]
    assert feed["pending_timeout"][1:] == ["duration", "`P7D`"]
    assert feed["quarantine_limit"][1:] == ["number from 0 to 1", "`0.1`"]
    assert feed["tables"][1:] == ["list: see below", "required"]
    assert rows("Environment")["CHANGELEDGER_HOME"][1:] == ["folder", "`<project>/.changeledger`"]
    assert "schema" in rows("Connection")


@pytest.mark.parametrize("dialect", SOURCE_MODELS)
def test_each_dialect_has_its_source(dialect: str) -> None:
    fields = SOURCE_MODELS[dialect].model_fields
    assert list(rows(f"Feed: `source` of `{dialect}`")) == [field.alias or n for n, field in fields.items()]
