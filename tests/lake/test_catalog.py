"""Wrong settings of a catalog that is a server."""

from __future__ import annotations

import pytest

from changeledger.config.settings import Settings
from changeledger.lake import catalog
from changeledger.model.errors import ConfigError
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
