"""What was asked of a window's run, and the release on which its branch was begun."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("windows", sa.Column("asked", sa.JSON, nullable=True))
    op.add_column("windows", sa.Column("built_on", sa.Integer, nullable=True))


def downgrade() -> None:
    op.drop_column("windows", "built_on")
    op.drop_column("windows", "asked")
