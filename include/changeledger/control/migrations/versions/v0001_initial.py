"""The control store's tables."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_KINDS: Mapping[str, sa.types.TypeEngine[Any]] = {
    "text": sa.String(),
    "int": sa.Integer(),
    "big": sa.BigInteger(),
    "flag": sa.Boolean(),
    "json": sa.JSON(),
    "position": sa.JSON(none_as_null=True),
    "time": sa.DateTime(timezone=True),
}
# By table: its columns, as `name kind`; a `?` allows NULL, a `*` is of the primary key.
_TABLES = {
    "audits": "feed* text, window_id* text, table* text, rule* text, success flag, violations big, detail "
    "json, at time",
    "avro_schemas": "feed* text, schema_id* text, body text, window_id text, created_at time",
    "comparisons": "id* text, database text, table text, reference text, feed text, from_lsn? text, to_lsn? "
    "text, from_time? time, to_time? time, outcome text, accepted_reason? text, accepted_by? "
    "text, counts json, columns json, spans json, positions? json, at time",
    "contracts": "feed* text, table* text, version* int, body json, window_id text, release int, created_at "
    "time",
    "erasures": "id* int, feed text, table text, key_hash text, by text, counts json, at time",
    "failures": "feed* text, window_id text, stage text, error text, at time",
    "feed_tables": "feed* text, table* text, lacking big, since? time, until? time, declined_reason? text, "
    "declined_by? text",
    "leases": "feed* text, holder text, token int, process text, expires_at time",
    "mask_evidence": "feed* text, table* text, counts json, mask_order? text, why text, first_window text, "
    "last_window text, updated_at time",
    "notices": "subject* text, event* text, since time",
    "positions": "feed* text, position position, window_id text, updated_at time",
    "proofs": "id* text, against text, snapshot_id text, database text, table text, feed text, release int, "
    "outcome text, since time, until time, since_lsn? text, until_lsn? text, counts json, at time",
    "reads": "feed* text, window_id* text, source* text, asked big, received big, before big, problem? text",
    # Small columns first: SQLite reads a row up to the last column that is asked for.
    "releases": "feed* text, id* int, window_id text, status text, created_at time, completed_at? time, "
    "rolled_back_to? int, reason? text, by? text, changes big, committed? json, tables json, counts json, "
    "positions position, read_again? json",
    "resets": "feed* text, id* int, status text, reason text, by text, accept_gap flag, asked_at time, "
    "ended_at? time, release? int, withdrawn_by? text, withdrawn_reason? text",
    "snapshots": "id* text, database text, since time, until time, since_lsn? text, until_lsn? text, tables "
    "json, at time",
    "source_marks": "feed* text, source* text, identity text, place big, fingerprint? text",
    "source_states": "feed* text, source* text, read text, end text, behind? big, since? time, newest? time, "
    "why? text, at time",
    "stages": "feed* text, window_id* text, stage* text, branch text, tables json, contracts? json, at time",
    "windows": "feed* text, window_id* text, start time, end time, from_position? position, to_position "
    "position, status text, opened_at time, asked? json, built_on? int, replay_snapshot? big",
    "writer_schemas": "feed* text, schema_id* text, body json, window_id text, created_at time",
}
# By name: the table, and its columns in order.
_INDEXES: Mapping[str, tuple[str, str]] = {
    "ix_comparisons_newest": ("comparisons", "database reference feed table at id"),
    "ix_comparisons_outcome": ("comparisons", "database outcome"),
    "ix_proofs_newest": ("proofs", "database feed table against at id"),
    "ix_releases_created": ("releases", "feed created_at"),
    "ix_windows_status": ("windows", "feed status"),
}


def upgrade() -> None:
    for table, columns in _TABLES.items():
        named = [column.split() for column in columns.split(", ")]
        key = [name.rstrip("*") for name, _ in named if name.endswith("*")]
        op.create_table(
            table,
            *(
                # A release's number is its feed's; an erasure's is the database's.
                sa.Column(
                    name.rstrip("*?"), _KINDS[kind], nullable="?" in name, autoincrement=table == "erasures"
                )
                for name, kind in named
            ),
            sa.PrimaryKeyConstraint(*key, name=f"pk_{table}"),
        )
    for index, (table, columns) in _INDEXES.items():
        op.create_index(index, table, columns.split())


def downgrade() -> None:
    for table in _TABLES:
        op.drop_table(table)
