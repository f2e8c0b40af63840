"""Shapes: a table's columns as one of its writers has them."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "shapes",
        sa.Column("feed", sa.String, nullable=False),
        sa.Column("shape_id", sa.String, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        sa.Column("window_id", sa.String, nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("feed", "shape_id", name="pk_shapes"),
    )


def downgrade() -> None:
    op.drop_table("shapes")
