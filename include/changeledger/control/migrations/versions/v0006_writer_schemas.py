"""Avro schemas, kept for the windows that are run again when the registry has lost them."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "writer_schemas",
        sa.Column("feed", sa.String, nullable=False),
        sa.Column("schema_id", sa.String, nullable=False),
        sa.Column("body", sa.String, nullable=False),
        sa.Column("window_id", sa.String, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("feed", "schema_id", name="pk_writer_schemas"),
    )


def downgrade() -> None:
    op.drop_table("writer_schemas")
