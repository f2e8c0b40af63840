"""Which feeds `verify` takes."""

from __future__ import annotations

from typing import Any

import pytest

from changeledger.config.database import Database
from changeledger.model.errors import ConfigError
from changeledger.stages import verify

NO_SPARK: Any = None


@pytest.mark.parametrize("only", ["", "shop_cdc"])
def test_a_database_without_feeds(only: str) -> None:
    with pytest.raises(ConfigError) as error:
        verify.run(NO_SPARK, Database(database="shop"), {}, only=only)
    assert error.value.message == "the database 'shop' has no feed"
    assert error.value.remedy == "write `database: shop` in the file of a feed"
