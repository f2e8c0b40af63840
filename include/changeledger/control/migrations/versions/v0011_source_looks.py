"""What extract has last seen at each source: how far it is read, what waits there, and since when."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "source_looks",
        *(sa.Column(name, sa.String, nullable=False) for name in ("feed", "source", "read", "end")),
        sa.Column("behind", sa.BigInteger, nullable=True),
        *(sa.Column(name, sa.DateTime(timezone=True), nullable=True) for name in ("since", "newest")),
        sa.Column("why", sa.String, nullable=True),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("feed", "source", name="pk_source_looks"),
    )


def downgrade() -> None:
    op.drop_table("source_looks")
