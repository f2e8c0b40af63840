"""docs/rules.md lists every built-in rule with the severity that the audit uses."""

from __future__ import annotations

import re
import sys

from changeledger.audit.conservation import WindowReads, feed_rules, kept_records, source_rules, whole_tables
from changeledger.audit.remedies import REMEDIES
from changeledger.audit.resetting import reset_rules
from changeledger.audit.rules import TABLE_RULES, Rule
from changeledger.config.feed import Feed
from changeledger.config.settings import PROJECT

sys.path.insert(0, str(PROJECT / "scripts"))
import rules_page

sys.path.pop(0)


def of_records() -> list[Rule]:
    feed = Feed.model_validate(
        {
            "feed": "shop", "dialect": "ces", "database": "shop", "connection": "shop",
            "source": {"topics": ["shop"]}, "tables": [{"table": "dbo.t"}],
        }
    )  # fmt: skip
    return [
        *source_rules(WindowReads({}, [], {}, {}), []),
        whole_tables({}),
        *reset_rules([], accepts_gap=False),
        *feed_rules(feed, [], {}, {}),
        kept_records({}),
    ]


def rows() -> dict[str, list[str]]:
    """Returns, by rule, the other cells of its line."""
    lines = re.findall(r"^\| `(\w+)` \| (.*) \|$", rules_page.page(), re.MULTILINE)
    return {name: cells.split(" | ") for name, cells in lines}


def test_the_page_is_up_to_date() -> None:
    written = rules_page.PAGE.read_text("utf-8") if rules_page.PAGE.exists() else ""
    assert written == rules_page.page(), "write it again: .venv/bin/python scripts/rules_page.py"


def test_every_rule_is_there_with_its_severity() -> None:
    severities = {name: rule.severity for name, rule in TABLE_RULES.items() if name != "image_chain"}
    severities |= {rule.name: rule.severity for rule in of_records()}
    documented = {name: severity for name, (_, _, severity, *_) in rows().items()}
    assert documented.pop("image_chain") == "`warning`, or `error` with `image_chain: stop`"
    assert documented.pop("reset_reads_everything_again") == "`error`, or `warning` with `--accept-gap`"
    del severities["reset_reads_everything_again"]
    assert documented == severities


def test_every_rule_has_a_remedy_for_the_page_in_airflow() -> None:
    assert REMEDIES.keys() == rows().keys()


def test_what_the_page_links_to_is_there() -> None:
    for file, section in re.findall(r"\]\((\w[\w-]*\.md)(?:#([\w-]+))?\)", rules_page.page()):
        text = (PROJECT / "docs" / file).read_text("utf-8")
        titles = {line[3:].lower().replace(" ", "-") for line in text.splitlines() if line.startswith("## ")}
        assert not section or section in titles, (file, section)
