"""The tables that a feed reads, and what those lack that it got later."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0017"
down_revision: str | None = "0016"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "feed_tables",
        sa.Column("feed", sa.String, nullable=False),
        sa.Column("table", sa.String, nullable=False),
        sa.Column("lacking", sa.BigInteger, nullable=False),
        *(sa.Column(name, sa.DateTime(timezone=True), nullable=True) for name in ("since", "until")),
        *(sa.Column(name, sa.String, nullable=True) for name in ("declined_reason", "declined_by")),
        sa.PrimaryKeyConstraint("feed", "table", name="pk_feed_tables"),
    )


def downgrade() -> None:
    op.drop_table("feed_tables")
