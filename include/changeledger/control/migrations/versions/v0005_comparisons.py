"""What came of comparing two feeds of one database."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "comparisons",
        sa.Column("id", sa.String, nullable=False),
        *(sa.Column(name, sa.String, nullable=False) for name in ("database", "table", "reference", "feed")),
        sa.Column("from_lsn", sa.String, nullable=True),
        sa.Column("to_lsn", sa.String, nullable=True),
        sa.Column("from_time", sa.DateTime(timezone=True), nullable=True),
        sa.Column("to_time", sa.DateTime(timezone=True), nullable=True),
        sa.Column("outcome", sa.String, nullable=False),
        *(sa.Column(name, sa.JSON, nullable=False) for name in ("counts", "columns", "spans")),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_comparisons"),
    )


def downgrade() -> None:
    op.drop_table("comparisons")
