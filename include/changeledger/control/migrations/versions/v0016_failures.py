"""The last failure of each feed."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0016"
down_revision: str | None = "0015"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "failures",
        *(sa.Column(name, sa.String, nullable=False) for name in ("feed", "window_id", "stage", "error")),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("feed", name="pk_failures"),
    )


def downgrade() -> None:
    op.drop_table("failures")
