"""Settings of the catalog and of the embedded stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from changeledger.config.settings import Settings
from changeledger.lake import catalog
from changeledger.model.errors import ConfigError
from changeledger.stages.common.context import control_store
from changeledger.state.stores import nothing_has_run


@pytest.mark.parametrize(
    "members",
    ['{"type": "rest"}', '{"type": "glu"}', '{"type": "rest", "uri": "s3cr3t@catalog:8181"}'],
)
def test_no_catalog(members: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address may also come from `CHANGELEDGER_CATALOG_CONNECTION`, which only jobs have."""
    monkeypatch.setenv("CHANGELEDGER_CATALOG", members)
    assert not nothing_has_run(Settings())
    with pytest.raises(
        ConfigError, match="CHANGELEDGER_CATALOG does not name a catalog of the type"
    ) as caught:
        catalog.exists("lake.shop.t")
    assert "correct its `type` and `uri`" in caught.value.remedy
    assert "s3cr3t" not in str(caught.value)


@pytest.mark.parametrize("name", ["a%20b", "feature%2Fx", "a+b", "a b#c"])
def test_embedded_stores_are_in_a_home_of_any_name(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """RFC 3986, 2.1: in a URL `%20` is a blank. Jenkins names folders of branches with `%2F`."""
    home = tmp_path / name
    monkeypatch.setenv("CHANGELEDGER_HOME", str(home))
    monkeypatch.setenv("CHANGELEDGER_CATALOG", "{}")
    assert nothing_has_run(Settings())
    control_store(Settings())
    assert not catalog.exists("lake.shop.customers")
    assert {file.name for file in home.iterdir()} >= {"control.db", "catalog.db"}
    assert [folder.name for folder in tmp_path.iterdir()] == [name]
    assert not nothing_has_run(Settings())
