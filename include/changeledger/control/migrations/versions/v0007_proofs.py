"""Tables read of a source, and what came of comparing published rows with them."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "snapshots",
        *_text("id", "database"),
        *_fence(),
        sa.Column("tables", sa.JSON, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_snapshots"),
    )
    op.create_table(
        "proofs",
        *_text("id", "against", "snapshot_id", "database", "table", "feed"),
        sa.Column("release", sa.Integer, nullable=False),
        *_text("outcome"),
        *_fence(),
        sa.Column("counts", sa.JSON, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_proofs"),
    )


def _text(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.String, nullable=False) for name in names]


def _fence() -> list[sa.Column[Any]]:
    return [
        *(sa.Column(name, sa.DateTime(timezone=True), nullable=False) for name in ("since", "until")),
        *(sa.Column(name, sa.String, nullable=True) for name in ("since_lsn", "until_lsn")),
    ]


def downgrade() -> None:
    op.drop_table("proofs")
    op.drop_table("snapshots")
