"""What tables' records say of the byte order of their change masks."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "mask_evidence",
        sa.Column("feed", sa.String, nullable=False),
        sa.Column("table", sa.String, nullable=False),
        sa.Column("counts", sa.JSON, nullable=False),
        sa.Column("mask_order", sa.String, nullable=True),
        sa.Column("why", sa.String, nullable=False),
        sa.Column("first_window", sa.String, nullable=False),
        sa.Column("last_window", sa.String, nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("feed", "table", name="pk_mask_evidence"),
    )


def downgrade() -> None:
    op.drop_table("mask_evidence")
