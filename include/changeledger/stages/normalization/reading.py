"""Decodes the records of a window by their writer schema into their table's contract.

Uses no lake, no control store and no Spark, so that normalize and the `decode` command decode alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from changeledger.config.feed import Feed
from changeledger.dialects import kernel as kernels
from changeledger.dialects.kernel import MessageKernel, ResolvedSchema
from changeledger.dialects.messages import message_rows
from changeledger.dialects.messages.message_rows import UNCHANGED, Outcome
from changeledger.dialects.plan import TablePlan
from changeledger.dialects.tables import pairs
from changeledger.dialects.tables.interface import TableKernel
from changeledger.dialects.tables.outcomes import decoded_schema, refused
from changeledger.kernels.arrow import MESSAGE
from changeledger.kernels.hashed import by
from changeledger.kernels.in_memory import InMemory
from changeledger.kernels.rows import Part, Rows, as_batch, bucketed, together
from changeledger.mask_order import mask_evidence
from changeledger.mask_order.decision import Evidence
from changeledger.model import change
from changeledger.model.contract import Contract
from changeledger.model.errors import ContractError
from changeledger.stages.normalization.agreeing import agreed, of_silent_records, stated_computed

MaskRules = Callable[[Contract], mask_evidence.MaskRules]
# Sampled records of a window. A proof needs ten; a source that changed its order shows it within hundreds.
_LOOKED_AT = 20_000
_LONGEST = 500
# Number of the message's table in the discovery; NULL if it is of none.
_NUMBER = pa.field("table_number", pa.int32())


class TableKnowledge(NamedTuple):
    """What is known of tables apart from their records."""

    # Each table's contract so far.
    contracts: Mapping[str, Contract]
    # Resolves a writer schema with the byte order of its masks, by a sample of the records.
    resolve: Callable[[Records, Contract], ResolvedSchema]
    # Returns another feed's contract of a table whose records name no columns and that has no contract.
    borrowed: Callable[[str], Contract | None] = lambda _: None
    # Returns a table's columns, in lower case, that other feeds know to be computed.
    computed: Callable[[str], frozenset[str]] = lambda _: frozenset()


@dataclass(frozen=True)
class Records:
    """The records of one table that share a writer schema. None: the schema is that of the contract."""

    feed: Feed
    table: str
    writer_schema: Contract | None
    raw: Sequence[Rows]
    # Returns one row per record: a change, or another disposition.
    decode: Callable[[Rows, ResolvedSchema, Contract], Rows]
    # Returns `UNCHANGED` of records that the contract rules out, with the reason.
    refuse: Callable[[Rows, str], Rows]
    mask_rules: MaskRules | None = None
    # Names of table and database as the source writes them; None if the records do not have them.
    source_table: str | None = None
    source_database: str | None = None

    def decoded(self, resolved: ResolvedSchema, contract: Contract) -> Rows:
        return together([self.decode(raw, resolved, contract) for raw in self.raw])

    def refused(self, why: str) -> Rows:
        return together([self.refuse(raw, why) for raw in self.raw])

    def evidence(self, writer_schema: Contract) -> Evidence:
        """Returns the evidence for the byte order of masks in a sample of the records."""
        assert self.mask_rules is not None, "asked only of records with masks"
        rules = self.mask_rules(writer_schema)
        few = InMemory(self.raw[0].collected(_LOOKED_AT))
        batch = as_batch(self.decode(few, ResolvedSchema(writer_schema), writer_schema).collected())
        if "pair_key" in batch.schema.names:
            batch = pairs.joined(batch, TablePlan(self.feed, writer_schema, writer_schema, "look"))
        facts = mask_evidence.facts(batch, writer_schema, rules)
        return mask_evidence.counted(facts, writer_schema, rules)


@dataclass(frozen=True)
class Input:
    """The decoded records of one table. Without a contract, they became no changes."""

    table: str | None
    contract: Contract | None
    decoded: Rows


@dataclass(frozen=True)
class Discovered:
    """The messages of a window. Each one is in one of `records`, or in `others` (`UNCHANGED`)."""

    records: Sequence[Records]
    others: Sequence[Rows]
    # New writer schemas and Avro schemas, by name, to be kept for later windows.
    writer_schemas: Mapping[str, Contract] = field(default_factory=dict)
    avro_schemas: Mapping[str, str] = field(default_factory=dict)
    # What people should know of the messages, although all can be read.
    warnings: Sequence[str] = ()


def discovered(
    kernel: MessageKernel, raw: Rows, feed: Feed, known: kernels.EarlierWindows, window_id: str
) -> Discovered:
    """Sorts the messages of a window by table and writer schema. `raw`: `arrow.MESSAGE`."""
    facts, schemas = _facts(kernel, raw, known.avro_schemas)
    sources, others = [raw], []
    segments = kernel.segments
    if segments is not None and segments.come_in(facts):
        parts = raw.through(segments.of, segments.keyed_schema)
        outputs = {"events": segments.joined_schema, "left": UNCHANGED}
        joined = bucketed({"parts": Part(parts, by("event"))}, partial(_joined, segments), outputs)
        sources.append(joined["events"])
        others.append(joined["left"])
        facts = kernel.merged([facts, _facts(kernel, joined["events"], schemas)[0]])
    discovery = kernel.discover(facts, feed, known._replace(avro_schemas=schemas))
    of_feed = _OfMessages(kernel, discovery, feed, window_id)
    sources = [source.through(of_feed.routed, source.schema.append(_NUMBER)) for source in sources]
    records = [of_feed.records(number, table, sources) for number, table in enumerate(discovery.tables)]
    others += [source.through(of_feed.decode_other, UNCHANGED) for source in sources]
    new = {name: schema for name, schema in schemas.items() if name not in known.avro_schemas}
    return Discovered(records, others, discovery.new_writer_schemas, new, kernel.warnings(discovery))


def _facts(
    kernel: MessageKernel, raw: Rows, schemas: Mapping[str, str]
) -> tuple[pa.RecordBatch, Mapping[str, str]]:
    """Returns the facts of all messages, and the Avro schemas, including those that messages contain."""
    while True:
        looked = raw.through(partial(_facts_of, kernel, schemas), kernel.facts_schema).collected()
        facts = kernel.merged(looked.to_batches() or [as_batch(looked)])
        new = kernel.schemas_in(facts)
        if new.keys() <= schemas.keys():
            return facts, schemas
        schemas = {**new, **schemas}


def _facts_of(kernel: MessageKernel, schemas: Mapping[str, str], raw: pa.RecordBatch) -> pa.RecordBatch:
    return kernel.facts(_as_messages(raw), schemas)


def _as_messages(raw: pa.RecordBatch) -> pa.RecordBatch:
    """Converts raw messages to the form of the kernels, which joined events already have."""
    return message_rows.as_messages(raw) if raw.num_columns == len(MESSAGE) else raw


def _joined(segments: kernels.Segments, tables: Mapping[str, pa.Table]) -> Mapping[str, pa.Table]:
    joined = segments.joined(as_batch(tables["parts"].select(MESSAGE.names)))
    return {name: pa.Table.from_batches([batch]) for name, batch in joined._asdict().items()}


@dataclass(frozen=True)
class _OfMessages:
    """A dialect's functions, bound to a window's discovery."""

    kernel: MessageKernel
    discovery: Any
    feed: Feed
    window_id: str

    def records(self, number: int, table: kernels.TableRecords, sources: Sequence[Rows]) -> Records:
        raws = [
            rows.through(partial(_of_table, number), rows.schema.remove(len(rows.schema) - 1))
            for rows in sources
        ]

        def decode(raw: Rows, resolved: ResolvedSchema, contract: Contract) -> Rows:
            plan = self.kernel.plan(self.discovery, number, self.feed, resolved, contract, self.window_id)
            return raw.through(partial(self.decode, plan), message_rows.decoded_schema(contract))

        rules, refuse = self.kernel.mask_rules, _refuse_messages
        names = table.source_table, table.source_database
        return Records(self.feed, table.table, table.writer_schema, raws, decode, refuse, rules, *names)

    def routed(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        """Adds to each message its table's number in the discovery, see `MessageKernel.routes`."""
        raw = _as_messages(raw)
        numbers = self.kernel.routes(raw, self.discovery)
        return pa.RecordBatch.from_arrays([*raw.columns, numbers], schema=raw.schema.append(_NUMBER))

    def decode(self, plan: Any, raw: pa.RecordBatch) -> pa.RecordBatch:
        if not raw.num_rows:
            return pa.RecordBatch.from_pylist([], message_rows.decoded_schema(plan.contract))
        return self.kernel.decode(raw, plan)

    def decode_other(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        others = raw.filter(raw.column(_NUMBER.name).is_null())
        return self.kernel.decode_other(others.select(raw.schema.names[:-1]), self.feed, self.discovery)


def _of_table(number: int, raw: pa.RecordBatch) -> pa.RecordBatch:
    is_one = pc.equal(raw.column(_NUMBER.name), number).fill_null(fill_value=False)
    return raw.filter(is_one).select(raw.schema.names[:-1])


def _refuse_messages(raw: Rows, why: str) -> Rows:
    return raw.through(partial(_refused_batch, why), UNCHANGED)


def _refused_batch(why: str, raw: pa.RecordBatch) -> pa.RecordBatch:
    outcome = Outcome(change.QUARANTINED, change.INCOMPATIBLE_SHAPE, why)
    return message_rows.unchanged(raw.select(MESSAGE.names), [outcome] * raw.num_rows)


def of_change_table(  # noqa: PLR0913, PLR0917 - the rows, and what is known of them
    kernel: TableKernel, table: str, writer_schema: Contract, raw: Rows, feed: Feed, window_id: str
) -> Records:
    """Returns the records of a change table. `raw`: its rows as they were read, with `source_position`."""

    def decode(rows: Rows, resolved: ResolvedSchema, contract: Contract) -> Rows:
        written = resolved.writer_schema.as_large_as(contract)
        plan = TablePlan(feed, written, contract, window_id, resolved.masks_unreadable)
        return rows.through(partial(_decoded_rows, kernel, plan), decoded_schema(contract))

    def refuse(rows: Rows, why: str) -> Rows:
        return rows.through(partial(refused, why=why), UNCHANGED)

    rules, source_table = partial(kernel.mask_rules, raw.schema, feed), writer_schema.source_table
    return Records(feed, table, writer_schema, [raw], decode, refuse, rules, source_table)


def _decoded_rows(kernel: TableKernel, plan: TablePlan, raw: pa.RecordBatch) -> pa.RecordBatch:
    return kernel.decode(raw, plan)


# Like `map`; may work on several tables at once.
Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


def inputs(records: Sequence[Records], known: TableKnowledge, each: Each = map) -> list[Input]:
    """Returns one input per table: its records of all writer schemas, decoded into its contract.

    Records of a writer schema that the contract rules out, or of a table whose columns are unknown, are an
    input of their own. They became no changes, and the audit fails because of them.
    """
    by_table: dict[str, list[Records]] = {}
    for schema_records in records:
        by_table.setdefault(schema_records.table, []).append(schema_records)

    def of_table(table: str) -> list[Input]:
        return list(_inputs_of(table, by_table[table], known))

    return [table_input for of in each(of_table, by_table) for table_input in of]


def _inputs_of(table: str, parts: Sequence[Records], known: TableKnowledge) -> Iterator[Input]:
    contract = known.contracts.get(table)
    computed = known.computed(table) | stated_computed(parts[0].feed, table)
    fitting: list[tuple[Records, Contract | None]] = []
    refused_rows: list[Rows] = []
    # Records without a writer schema come last: their columns are those that the others name.
    for part in sorted(parts, key=lambda part: part.writer_schema is None):
        try:
            if part.writer_schema is None:
                contract = of_silent_records(part.feed, table, contract, known.borrowed)
            writer_schema = part.writer_schema and part.writer_schema.with_computed(computed)
            contract = agreed(table, contract, writer_schema).with_computed(computed)
            contract = contract.read_as(part.source_table, part.source_database)
            fitting.append((part, writer_schema))
        except ContractError as error:
            refused_rows.append(part.refused(f"{error.message}; {error.remedy}"[:_LONGEST]))
    if contract is not None and fitting:
        decoded = [
            part.decoded(known.resolve(part, writer_schema or contract), contract)
            for part, writer_schema in fitting
        ]
        yield Input(table, contract, together(decoded))
    if refused_rows:
        yield Input(table, None, together(refused_rows))
