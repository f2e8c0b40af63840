"""The control store's first tables."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    moment = sa.DateTime(timezone=True)
    op.create_table(
        "windows",
        sa.Column("feed", sa.String, nullable=False),
        sa.Column("window_id", sa.String, nullable=False),
        sa.Column("start", moment, nullable=False),
        sa.Column("end", moment, nullable=False),
        sa.Column("from_position", sa.JSON, nullable=True),
        sa.Column("to_position", sa.JSON, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("opened_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("feed", "window_id", name="pk_windows"),
    )
    op.create_table(
        "positions",
        sa.Column("feed", sa.String, nullable=False),
        sa.Column("position", sa.JSON, nullable=False),
        sa.Column("window_id", sa.String, nullable=False),
        sa.Column("updated_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("feed", name="pk_positions"),
    )
    op.create_table(
        "contracts",
        sa.Column("feed", sa.String, nullable=False),
        sa.Column("table", sa.String, nullable=False),
        sa.Column("version", sa.Integer, nullable=False, autoincrement=False),
        sa.Column("body", sa.JSON, nullable=False),
        sa.Column("window_id", sa.String, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("feed", "table", "version", name="pk_contracts"),
    )
    op.create_table(
        "releases",
        sa.Column("id", sa.Integer, nullable=False, autoincrement=True),
        sa.Column("feed", sa.String, nullable=False),
        sa.Column("window_id", sa.String, nullable=False),
        sa.Column("status", sa.String, nullable=False),
        sa.Column("tables", sa.JSON, nullable=False),
        sa.Column("counts", sa.JSON, nullable=False),
        sa.Column("positions", sa.JSON, nullable=False),
        sa.Column("created_at", moment, nullable=False),
        sa.Column("completed_at", moment, nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_releases"),
        sa.UniqueConstraint("feed", "window_id", name="uq_releases_feed_window_id"),
    )
    op.create_table(
        "audits",
        sa.Column("feed", sa.String, nullable=False),
        sa.Column("window_id", sa.String, nullable=False),
        sa.Column("table", sa.String, nullable=False),
        sa.Column("rule", sa.String, nullable=False),
        sa.Column("success", sa.Boolean, nullable=False),
        sa.Column("violations", sa.BigInteger, nullable=False),
        sa.Column("detail", sa.JSON, nullable=False),
        sa.Column("at", moment, nullable=False),
        sa.PrimaryKeyConstraint("feed", "window_id", "table", "rule", name="pk_audits"),
    )
    op.create_table(
        "leases",
        sa.Column("feed", sa.String, nullable=False),
        sa.Column("holder", sa.String, nullable=False),
        sa.Column("expires_at", moment, nullable=False),
        sa.PrimaryKeyConstraint("feed", name="pk_leases"),
    )


def downgrade() -> None:
    for table in ("leases", "audits", "releases", "contracts", "positions", "windows"):
        op.drop_table(table)
