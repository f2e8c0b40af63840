"""Notes of what was erased: when, by whom, how many rows."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0012"
down_revision: str | None = "0011"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "erasures",
        sa.Column("id", sa.Integer, nullable=False),
        *(sa.Column(name, sa.String, nullable=False) for name in ("feed", "table", "key_hash", "by")),
        sa.Column("counts", sa.JSON, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_erasures"),
    )


def downgrade() -> None:
    op.drop_table("erasures")
