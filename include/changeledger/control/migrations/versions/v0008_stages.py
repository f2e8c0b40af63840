"""What each stage of a window has read and built; tokens that fence off a run that has lost its lease."""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "stages",
        *(sa.Column(name, sa.String, nullable=False) for name in ("feed", "window_id", "stage", "branch")),
        sa.Column("tables", sa.JSON, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.PrimaryKeyConstraint("feed", "window_id", "stage", name="pk_stages"),
    )
    op.create_table(
        "reads",
        *(sa.Column(name, sa.String, nullable=False) for name in ("feed", "window_id", "source")),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in ("asked", "received", "before")),
        sa.Column("problem", sa.String, nullable=True),
        sa.PrimaryKeyConstraint("feed", "window_id", "source", name="pk_reads"),
    )
    op.create_table(
        "source_marks",
        *(sa.Column(name, sa.String, nullable=False) for name in ("feed", "source", "identity")),
        sa.Column("place", sa.BigInteger, nullable=False),
        sa.Column("fingerprint", sa.String, nullable=True),
        sa.PrimaryKeyConstraint("feed", "source", name="pk_source_marks"),
    )
    op.add_column("leases", sa.Column("token", sa.Integer, nullable=False, server_default="0"))
    op.add_column("leases", sa.Column("process", sa.String, nullable=False, server_default=""))
    op.add_column("windows", sa.Column("replay_snapshot", sa.BigInteger, nullable=True))


def downgrade() -> None:
    op.drop_column("windows", "replay_snapshot")
    op.drop_column("leases", "process")
    op.drop_column("leases", "token")
    op.drop_table("source_marks")
    op.drop_table("reads")
    op.drop_table("stages")
