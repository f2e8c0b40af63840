"""Decides whether several tables may share a record's Avro schema, by its name and the record's table."""

from __future__ import annotations

import pytest

from changeledger.dialects.debezium.avro import by_schema, may_be_of_several
from changeledger.dialects.messages.samples import Sample
from sourcelab import debezium
from sourcelab.avro_converter import AvroConverter
from sourcelab.log import simulate
from sourcelab.schema_registry import SchemaRegistry

NAME, IN_SOURCE = b'"shop.shop.dbo.customers.Envelope"', b'"table":"customers"'


@pytest.mark.parametrize(
    ("schema_name", "in_source", "expected"),
    [
        (NAME, IN_SOURCE, False),
        # Debezium writes an underscore for characters that no Avro name can have
        # (`schema.name.adjustment.mode: avro`).
        (b'"shop.shop.dbo.our_customers.Envelope"', b'"table":"our customers"', False),
        # ByLogicalTableRouter names the schema after the topic.
        (b'"shop.shop.all_shards.Envelope"', IN_SOURCE, True),
    ],
)
def test_a_schema_named_after_its_table_is_of_it_alone(
    schema_name: bytes, in_source: bytes, expected: bool
) -> None:
    log = simulate(1, 5)
    messages = debezium.messages(log, schemas=True, snapshot=False, heartbeats=False, prefix="shop")
    message = next(m for m in messages if m.value and NAME in m.value)
    assert message.value is not None
    assert IN_SOURCE in message.value
    value = message.value.replace(NAME, schema_name).replace(IN_SOURCE, in_source)
    registry = SchemaRegistry()
    (encoded,) = AvroConverter(registry.register).encoded([message._replace(value=value)])
    assert encoded.value is not None
    assert may_be_of_several(encoded.value, encoded.topic, registry.schemas) == expected


def test_the_schemas_of_a_topic_come_as_their_registry_has_counted_them() -> None:
    """Later schemas win, so the ids must be ordered as numbers: 10 follows 9."""
    samples = [Sample("t", None, b"\0" + schema_id.to_bytes(4) + b"x") for schema_id in (10, 9, 100)]
    assert [schema_id for _, schema_id, _ in by_schema(samples, {})] == ["9", "10", "100"]
