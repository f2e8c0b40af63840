"""Many frames with unknown schema ids: each message is quarantined on its own."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from changeledger.dialects.debezium.dialect import DEBEZIUM
from changeledger.dialects.kernel import EarlierWindows
from changeledger.dialects.messages import frames
from changeledger.kernels import avro
from changeledger.kernels.arrow import MESSAGE
from tests.dialects.debezium.decoding import feed
from tests.dialects.debezium.test_cases import ALL
from tests.dialects.reading import read

FEED = feed({"table": "dbo.items"})
IN_HEADER = [{"key": "apicurio.value.globalId", "value": bytes(7) + b"\x08"}]


def messages(values: list[bytes], headers: list[dict[str, Any]]) -> pa.RecordBatch:
    rows = [
        {"topic": "server1.dbo.items", "partition": 0, "offset": at, "value": value, "headers": headers}
        for at, value in enumerate(values)
    ]
    return pa.RecordBatch.from_pylist(rows, MESSAGE)


def reasons(values: list[bytes], headers: list[dict[str, Any]]) -> set[str]:
    (others,) = read(DEBEZIUM.kernel, messages(values, headers), FEED, {})
    assert others.num_rows == len(values)
    return set(others.column("reason").to_pylist())


def test_headers_of_the_key_say_nothing_of_the_value() -> None:
    of_key = [{**IN_HEADER[0], "key": "apicurio.key.globalId"}]
    assert frames.with_id_header(messages([b"a", b"b"], IN_HEADER)) == {0, 1}
    assert frames.with_id_header(messages([b"a", b"b"], of_key)) == set()


def bodies(count: int) -> list[bytes]:
    """Records that begin with a zero byte and then differ. Their schema is named elsewhere."""
    return [b"\0" + (at * 7919 + 1).to_bytes(4, "big") + b"\2\2a" for at in range(count)]


def test_more_unknown_ids_than_a_connector_has_schemas() -> None:
    assert reasons(bodies(200), []) == {"unknown_schema"}
    assert DEBEZIUM.kernel.facts(messages(bodies(200), []), {}).num_rows == 0


def test_a_topic_with_many_schemas_of_a_registry() -> None:
    """For example, a topic to which a router writes a hundred tables."""
    case = next(case for case in ALL if case.folder.name == "avro_two_schemas")
    assert case.stated is not None
    first = case.messages.column("value")[0].as_py()
    ids = range(1, 101)
    schemas = {str(schema_id): case.schemas[avro.schema_id(first)] for schema_id in ids}
    values = [b"\0" + schema_id.to_bytes(4, "big") + first[avro.FRAME_BYTES :] for schema_id in ids]
    raw = messages(values, [])
    parts = [DEBEZIUM.kernel.facts(raw.slice(at, 7), schemas) for at in range(0, len(ids), 7)]
    discovery = DEBEZIUM.kernel.discover(
        DEBEZIUM.kernel.merged(parts), case.feed, EarlierWindows({}, {}, schemas)
    )
    assert {table.schema_id for table in discovery.tables} == schemas.keys()
    _, *rows = read(DEBEZIUM.kernel, raw, case.feed, {case.stated.table: case.stated}, schemas)
    assert [batch.column("disposition").to_pylist() for batch in rows] == [["change"]] * len(ids)


def test_ids_in_headers_are_no_ids_of_frames() -> None:
    assert reasons(bodies(200), IN_HEADER) == {"schema_id_in_headers"}
    assert DEBEZIUM.kernel.facts(messages(bodies(200), IN_HEADER), {}).num_rows == 0


def test_which_ids_a_registry_is_asked_for() -> None:
    frame = bodies(2)[1]
    of_key = [{"key": "apicurio.key.globalId", "value": b""}]
    wanted = str(7920)
    for key, value, headers, asked in (
        (frame, None, [], [wanted]),
        (None, frame, [], [wanted]),
        (None, frame, IN_HEADER, []),
        (None, frame, of_key, [wanted]),
        (frame, None, of_key, []),
        (None, bytes(9), [], []),
        (None, b"\0\xff\xff\xff\xff\0", [], []),
        (None, b"{}", [], []),
    ):
        assert frames.schema_ids([(key, value, headers)]) == asked
    once = bodies(1)[0]
    assert frames.schema_ids([(None, once, []), (frame, frame, [])]) == [wanted, "1"]
