"""CONTRIBUTING's map of the rooms agrees with the tree."""

from __future__ import annotations

import re

from changeledger.config.settings import PROJECT

PACKAGE = PROJECT / "include" / "changeledger"


def test_contributing_names_every_room_and_no_other() -> None:
    text = (PROJECT / "CONTRIBUTING.md").read_text("utf-8")
    table = text.partition("| room | contents | Spark |")[2].partition("| what | where |")[0]
    named = {
        name for row in table.splitlines() for name in re.findall(r"`(\w+(?:/|\.py))`", row.split(" | ")[0])
    }
    rooms = {f"{path.parent.name}/" for path in PACKAGE.glob("*/__init__.py")}
    rooms |= {path.name for path in PACKAGE.glob("*.py") if path.name != "__init__.py"}
    assert named == rooms


def test_what_contributing_names_is_there() -> None:
    text = (PROJECT / "CONTRIBUTING.md").read_text("utf-8")
    places = (PROJECT, PROJECT / "tests", PACKAGE, PACKAGE / "stages", PACKAGE / "dialects")
    paths = [path for path in re.findall(r"`([a-z_]+/[\w/.]*)`", text) if "<" not in path]
    missing = [path for path in paths if not any((place / path).exists() for place in places)]
    assert len(paths) > 20
    assert not missing
