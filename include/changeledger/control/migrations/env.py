"""Alembic's entry: migrates on the connection that `changeledger.control.database` hands over."""

from alembic import context

from changeledger.control.tables.base import ControlTable

# The caller's transaction holds the migration lock and commits; nothing is committed here.
context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=ControlTable.metadata,
    version_table="changeledger_version",
)
context.run_migrations()
