"""Which LSN the positions of a compared feed have turned out to be."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("comparisons", sa.Column("positions", sa.JSON, nullable=True))


def downgrade() -> None:
    op.drop_column("comparisons", "positions")
