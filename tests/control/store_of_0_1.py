"""A control store of version 0.1: its schema, and rows whose words have changed since."""

from __future__ import annotations

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

from changeledger.control.database import MIGRATIONS, engine_for
from tests.released import DAY

OF_0_1 = "0012"
AT = "2026-01-31 00:00:00"
_WINDOW = {"feed": "shop", "start": AT, "end": AT, "to_position": "{}", "opened_at": AT}
_STAGE = {"feed": "shop", "stage": "extract", "branch": "run", "tables": "{}", "at": AT}
_RELEASED = '{"lake.shop.breaks": 7, "lake.shop.dbo_breaks": 8, "lake.shop.quarantine": 9}'
ROWS: tuple[tuple[str, dict[str, str | int]], ...] = (
    ("windows", {**_WINDOW, "window_id": DAY.id, "status": "released", "built_on": 0}),
    ("windows", {**_WINDOW, "window_id": "flies", "status": "open", "built_on": 1}),
    ("stages", {**_STAGE, "window_id": DAY.id}),
    ("stages", {**_STAGE, "window_id": "flies"}),
    (
        "releases",
        {
            "id": 1, "feed": "shop", "window_id": DAY.id, "status": "completed", "tables": _RELEASED,
            "counts": "{}", "positions": "{}", "created_at": AT,
        },
    ),
    (
        "comparisons",
        {
            "id": "c", "database": "shop", "table": "t", "reference": "a", "feed": "b", "outcome": "warn",
            "counts": '{"legitimate": 3, "extra": 1, "not_sent": 3}',
            "columns": '{"not_sent": {"not_sent": 3}}', "spans": "[]", "at": AT,
        },
    ),
    (
        "proofs",
        {
            "id": "p", "against": "source", "snapshot_id": "s", "database": "shop", "table": "t",
            "feed": "shop", "release": 1, "outcome": "drift", "since": AT, "until": AT,
            "counts": '{"surplus": 2}', "at": AT,
        },
    ),
)  # fmt: skip


def migrated_to(url: str, revision: str) -> None:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine_for(url).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def insert_rows(connection: Connection) -> None:
    for table, row in ROWS:
        names = ", ".join(f'"{name}"' for name in row)
        values = ", ".join(f":{name}" for name in row)
        connection.execute(text(f'INSERT INTO "{table}" ({names}) VALUES ({values})'), row)
