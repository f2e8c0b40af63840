"""Alembic's entry point.

Uses the connection that `changeledger.control.database` hands over. For a developer's
`alembic revision --autogenerate`, it uses the store of CHANGELEDGER_CONTROL_URL.
"""

from alembic import context
from sqlalchemy import Connection

from changeledger.config.settings import Settings
from changeledger.control.database import engine_for
from changeledger.control.store import ControlStore


def run(connection: Connection) -> None:
    context.configure(
        connection=connection, target_metadata=ControlStore.metadata, version_table="changeledger_version"
    )
    with context.begin_transaction():
        context.run_migrations()


handed_over: Connection | None = context.config.attributes.get("connection")
if handed_over is not None:
    # The caller's transaction holds the migration lock and commits.
    run(handed_over)
else:
    with engine_for(Settings().control_url).begin() as own:
        run(own)
