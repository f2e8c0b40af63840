"""What is known of tables: contracts, writer schemas, Avro schemas, mask evidence."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from changeledger.control.base import Part, insert_if_absent, now
from changeledger.control.tables.contracts import AvroSchemaRow, ContractRow, MaskEvidenceRow, WriterSchemaRow
from changeledger.control.tables.releases import ReleaseRow
from changeledger.mask_order.decision import Evidence, MaskDecision
from changeledger.model.contract import Contract
from changeledger.model.window import Window


class Contracts(Part):
    def of_table(self, feed: str, table: str) -> Contract | None:
        """Returns the contract of a table (`schema.table`) at the newest release, or None."""
        return self.of_feed(feed, [table]).get(table)

    def of_feed(
        self, feed: str, tables: Iterable[str] | None = None, release: int | None = None
    ) -> dict[str, Contract]:
        """Returns the contracts of the feed's tables at the newest release.

        `tables`: only these. `release`: at this release instead.
        """
        query = select(ContractRow.table, ContractRow.body).where(ContractRow.feed == feed)
        if tables is not None:
            query = query.where(ContractRow.table.in_(list(tables)))
        if release is not None:
            query = query.where(ContractRow.release <= release)
        bodies = {row.table: row.body for row in self._rows(query.order_by(ContractRow.version))}
        return {table: Contract.model_validate(body) for table, body in bodies.items()}

    def tables(self, feed: str) -> frozenset[str]:
        """Returns all tables that the feed has ever published, by the names that it has listed."""
        query = select(ContractRow.table).where(ContractRow.feed == feed).distinct()
        return frozenset(row.table for row in self._rows(query))

    def writer_schemas(self, feed: str) -> dict[str, Contract]:
        """Returns the feed's writer schemas by id."""
        of = WriterSchemaRow
        query = select(of).where(of.feed == feed).order_by(of.created_at, of.schema_id)
        return {row.schema_id: Contract.model_validate(row.body) for row in self._all(query)}

    def save_writer_schema(self, feed: str, schema_id: str, writer_schema: Contract, window_id: str) -> None:
        """Stores a writer schema, in place of an earlier one with the same id."""
        body = writer_schema.model_dump(mode="json")
        with self._writing(feed) as session:
            known = {"feed": feed, "schema_id": schema_id, "body": body, "window_id": window_id}
            if not insert_if_absent(session, WriterSchemaRow, **known, created_at=now()):
                session.get_one(WriterSchemaRow, (feed, schema_id)).body = body

    def avro_schemas(self, feed: str) -> dict[str, str]:
        """Returns the Avro schemas that the feed's messages have named so far, by id."""
        query = select(AvroSchemaRow).where(AvroSchemaRow.feed == feed)
        return {row.schema_id: row.body for row in self._all(query)}

    def save_avro_schema(self, feed: str, schema_id: str, body: str, window_id: str) -> None:
        """Stores an Avro schema, unless its id is stored already."""
        with self._writing(feed) as session:
            known = {"feed": feed, "schema_id": schema_id, "body": body, "window_id": window_id}
            insert_if_absent(session, AvroSchemaRow, **known, created_at=now())

    def mask_evidence(self, feed: str) -> dict[str, MaskEvidenceRow]:
        """Returns the mask evidence of the feed by table."""
        query = select(MaskEvidenceRow).where(MaskEvidenceRow.feed == feed).order_by(MaskEvidenceRow.table)
        return {row.table: row for row in self._all(query)}

    def save_mask_evidence(
        self, feed: str, table: str, window: Window, evidence: Evidence, decision: MaskDecision
    ) -> None:
        """Adds a window's evidence and stores the decision. No window counts twice.

        The last window's evidence is replaced if that window runs again. A window between the first and the
        last has been counted already, so its evidence is ignored.
        """
        proved = decision.order if decision.is_proved else None
        with self._writing(feed) as session:
            fresh = insert_if_absent(
                session,
                MaskEvidenceRow,
                feed=feed,
                table=table,
                counts=_counts(Evidence(), evidence),
                mask_order=proved,
                why=decision.why,
                first_window=window.id,
                last_window=window.id,
                updated_at=now(),
            )
            row = session.get_one(MaskEvidenceRow, (feed, table), with_for_update=True)
            if fresh or row.first_window <= window.id < row.last_window:
                return
            if window.id < row.first_window:
                row.counts, row.first_window = _counts(evidence + row.earlier, row.last), window.id
            elif window.id == row.last_window:
                row.counts = _counts(row.earlier, evidence)
            else:
                row.counts, row.last_window = _counts(row.total, evidence), window.id
            row.mask_order, row.why, row.updated_at = proved, decision.why, now()


def add_contract(session: Session, release: ReleaseRow, table: str, body: dict[str, Any]) -> None:
    """Adds a new version if the contract differs from the newest one."""
    query = select(ContractRow).where(ContractRow.feed == release.feed, ContractRow.table == table)
    newest = session.scalar(query.order_by(ContractRow.version.desc()).limit(1))
    if newest is not None and newest.body == body:
        return
    session.add(
        ContractRow(
            feed=release.feed,
            table=table,
            version=1 if newest is None else newest.version + 1,
            body=body,
            window_id=release.window_id,
            release=release.id,
            created_at=now(),
        )
    )


def restore_contracts(session: Session, rollback: ReleaseRow) -> None:
    """Adds new versions with the contracts as of the release that the rollback makes main again.

    A table that came later keeps its contract: the table stays, without rows.
    """
    query = select(ContractRow).where(
        ContractRow.feed == rollback.feed, ContractRow.release <= rollback.rolled_back_to
    )
    known = {row.table: row.body for row in session.scalars(query.order_by(ContractRow.version))}
    for table, body in known.items():
        add_contract(session, rollback, table, body)


def _counts(earlier: Evidence, last: Evidence) -> dict[str, Any]:
    return {"earlier": earlier.model_dump(), "last": last.model_dump()}
