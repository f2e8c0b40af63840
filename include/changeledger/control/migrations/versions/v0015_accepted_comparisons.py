"""Disagreements that somebody has accepted: why, and who."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_COLUMNS = ("accepted_reason", "accepted_by")


def upgrade() -> None:
    for name in _COLUMNS:
        op.add_column("comparisons", sa.Column(name, sa.String, nullable=True))


def downgrade() -> None:
    for name in _COLUMNS:
        op.drop_column("comparisons", name)
