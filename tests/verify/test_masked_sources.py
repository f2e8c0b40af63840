"""A login that sees masks instead of values cannot prove a table: a repair would write the masks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest
from sqlalchemy import Select, TableClause

from changeledger.config.database import Verify
from changeledger.model.contract import Column, Contract
from changeledger.model.errors import ConfigError
from changeledger.stages.verification import snapshot

CONTRACT = Contract(
    table="dbo.customers",
    columns=(
        Column(name="id", type="int", ordinal=1, key_position=1),
        Column(name="email", type="nvarchar(50)", ordinal=2),
    ),
)


class Masked:
    """A SQL Server that masks `email`."""

    is_sql_server = True

    def columns(self, source: TableClause) -> Sequence[str]:
        return ["object_id", "name", "is_masked"] if source.schema == "sys" else ["id", "email"]

    def rows(self, query: Select[Any]) -> list[Mapping[str, Any]]:
        if "has_perms_by_name" in str(query):
            return [{"database": 0, "column_0": 0}]
        return [{"name": "email"}]


def test_a_login_that_reads_masks() -> None:
    """Without UNMASK, a SELECT returns masks and no error (Microsoft's page "Dynamic data masking")."""
    nothing = cast("Any", None)
    reading = snapshot._SnapshotReader(
        nothing, nothing, cast("Any", Masked()), Verify(connection="c"), "shop"
    )
    with pytest.raises(ConfigError, match=r"dbo\.customers: SQL Server shows the login masks.*email"):
        reading.table(CONTRACT)
