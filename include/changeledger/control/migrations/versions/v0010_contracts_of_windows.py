"""Contracts that a window's normalize has found, until a release makes them the feed's."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0010"
down_revision: str | None = "0009"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("stages", sa.Column("contracts", sa.JSON, nullable=True))


def downgrade() -> None:
    op.drop_column("stages", "contracts")
