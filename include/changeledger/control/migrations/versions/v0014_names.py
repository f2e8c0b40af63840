"""The version of the lake that the store belongs to; stored names as version 0.2 has them.

Windows in flight are forgotten: what they have built has the old names, and they begin again.
"""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_TABLES = {"replay": "replay_requests", "breaks": "image_chain_breaks", "repairs": "applied_repairs"}
_RELEASES = sa.table("releases", sa.column("id"), sa.column("tables", sa.JSON))
_COMPARISONS = sa.table(
    "comparisons", sa.column("id"), sa.column("counts", sa.JSON), sa.column("columns", sa.JSON)
)
_COMPARED = {
    "legitimate": "expected",
    "not_sent": "not_captured",
    "update_told_as_delete_and_insert": "update_as_delete_and_insert",
}
_PROOFS = sa.table("proofs", sa.column("id"), sa.column("counts", sa.JSON))
_WINDOWS = sa.table("windows", *map(sa.column, ("feed", "window_id", "status", "built_on")))


def upgrade() -> None:
    op.create_table(
        "lake",
        sa.Column("version", sa.Integer, nullable=False, autoincrement=False),
        sa.PrimaryKeyConstraint("version", name="pk_lake"),
    )
    _rename(_RELEASES, "tables", {f".{old}": f".{new}" for old, new in _TABLES.items()})
    _rename(_COMPARISONS, "counts", _COMPARED)
    _rename_by_column(_COMPARED)
    _rename(_PROOFS, "counts", {"surplus": "extra"})
    _forget_windows_in_flight()
    is_fresh = op.get_bind().scalar(sa.select(sa.func.count()).select_from(_WINDOWS)) == 0
    op.execute(sa.insert(sa.table("lake", sa.column("version"))).values(version=2 if is_fresh else 1))


def downgrade() -> None:
    _rename(_PROOFS, "counts", {"extra": "surplus"})
    old = {new: name for name, new in _COMPARED.items()}
    _rename_by_column(old)
    _rename(_COMPARISONS, "counts", old)
    _rename(_RELEASES, "tables", {f".{new}": f".{old}" for old, new in _TABLES.items()})
    op.drop_table("lake")


def _rename(table: sa.TableClause, column: str, names: Mapping[str, str]) -> None:
    """Members of JSON objects; a name with a point in front is the end of theirs."""
    bind = op.get_bind()
    for key, body in bind.execute(sa.select(table.c.id, table.c[column])).all():
        renamed = {_renamed(name, names): value for name, value in body.items()}
        if renamed != body:
            bind.execute(sa.update(table).where(table.c.id == key).values({column: renamed}))


def _rename_by_column(names: Mapping[str, str]) -> None:
    """What a comparison has counted of each column."""
    bind = op.get_bind()
    for key, body in bind.execute(sa.select(_COMPARISONS.c.id, _COMPARISONS.c.columns)).all():
        renamed = {name: {names.get(k, k): n for k, n in counts.items()} for name, counts in body.items()}
        if renamed != body:
            bind.execute(sa.update(_COMPARISONS).where(_COMPARISONS.c.id == key).values(columns=renamed))


def _renamed(name: str, names: Mapping[str, str]) -> str:
    if name in names:
        return names[name]
    head, point, last = name.rpartition(".")
    return head + names.get(point + last, point + last)


def _forget_windows_in_flight() -> None:
    for name in ("stages", "audits"):
        of = sa.table(name, sa.column("feed"), sa.column("window_id"))
        mine = _WINDOWS.c.feed == of.c.feed, _WINDOWS.c.window_id == of.c.window_id
        op.execute(sa.delete(of).where(sa.exists().where(*mine, _WINDOWS.c.status == "open")))
    op.execute(sa.update(_WINDOWS).where(_WINDOWS.c.status == "open").values(built_on=None))
