"""A writer's columns are its writer schema, Avro's text an Avro schema, and a source has a state."""

from collections.abc import Sequence

from alembic import op

revision: str = "0013"
down_revision: str | None = "0012"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.rename_table("writer_schemas", "avro_schemas")
    op.rename_table("shapes", "writer_schemas")
    op.alter_column("writer_schemas", "shape_id", new_column_name="schema_id")
    op.rename_table("source_looks", "source_states")


def downgrade() -> None:
    op.rename_table("source_states", "source_looks")
    op.alter_column("writer_schemas", "schema_id", new_column_name="shape_id")
    op.rename_table("writer_schemas", "shapes")
    op.rename_table("avro_schemas", "writer_schemas")
