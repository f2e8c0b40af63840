"""The schema registry's client, with a registry that is absent, refuses requests, or fails."""

from __future__ import annotations

import logging
import time

import pytest

from changeledger.config.connection import Connection
from changeledger.kafka.schema_registry import SchemaRegistry
from changeledger.kernels import avro
from changeledger.kernels.avro_types import OtherSchema
from changeledger.model.errors import ChangeledgerError, ConfigError, SourceUnavailable
from sourcelab.process import free_port
from sourcelab.schema_registry import SchemaRegistry as Server

SCHEMA = '{"type": "record", "name": "r", "fields": []}'
LOGIN = "reader:s3cret:with:colons"


def of(url: str, **members: object) -> SchemaRegistry:
    settings = {"url": url, "max.retries": 0, **members}
    extra = {"bootstrap.servers": "k:9092"} | {f"schema.registry.{k}": v for k, v in settings.items()}
    registry = SchemaRegistry.of("shop", Connection(conn_type="kafka", extra=extra))
    assert registry is not None
    return registry


def test_a_connection_without_a_registry() -> None:
    extra = {"bootstrap.servers": "k:9092"}
    assert SchemaRegistry.of("shop", Connection(conn_type="kafka", extra=extra)) is None


def test_settings_of_a_registry_that_is_not_named() -> None:
    """The client would ignore `URL` in place of `url`, and silently have no registry."""
    extra = {"bootstrap.servers": "k:9092", "schema.registry.URL": "http://s3cret@registry:8081"}
    with pytest.raises(ConfigError, match=r"schema\.registry\.URL without schema\.registry\.url") as error:
        SchemaRegistry.of("shop", Connection(conn_type="kafka", extra=extra))
    reported(error)


def test_a_schema_by_its_id_with_a_login(caplog: pytest.LogCaptureFixture) -> None:
    with Server(LOGIN) as server, caplog.at_level(logging.INFO):
        number = server.register("items-value", SCHEMA)
        for registry in (
            of(server.url, **{"basic.auth.user.info": LOGIN}),
            of(server.url.replace("//", "//reader:s3cret%3Awith%3Acolons@")),
        ):
            assert registry.schema(number) == SCHEMA
            assert registry.schema(number + 1) is None
    assert "s3cret" not in caplog.text


@pytest.mark.parametrize(
    ("kind", "schema"),
    [("JSON", '{"type": "object"}'), ("PROTOBUF", 'syntax = "proto3"; message r { int32 id = 1; }')],
)
def test_a_schema_of_another_type(kind: str, schema: str) -> None:
    with Server() as server:
        number = server.register("items-value", schema, kind)
        kept = of(server.url).schema(number)
    assert kept is not None
    with pytest.raises(OtherSchema, match=f"type is {kind}") as error:
        avro.schema(kept)
    assert error.value.kind == kind


def test_ids_are_asked_for_once_and_not_forever() -> None:
    """Bytes without a frame look like frames with an id each."""
    with Server() as server:
        known = str(server.register("items-value", SCHEMA))
        ids = [known, *map(str, range(1000, 2000))]
        assert dict(of(server.url).schemas(ids)) == {known: SCHEMA}
    assert server.asked == ids[:101]


def reported(error: pytest.ExceptionInfo[ChangeledgerError]) -> str:
    assert "s3cret" not in str(error.value)
    return str(error.value)


def test_a_registry_that_is_down_is_noticed_and_asked_again_later() -> None:
    url = f"http://reader:s3cret@127.0.0.1:{free_port()}"
    extra = {"bootstrap.servers": "k:9092", "schema.registry.url": url}
    registry = SchemaRegistry.of("shop", Connection(conn_type="kafka", extra=extra))
    assert registry is not None
    began = time.monotonic()
    with pytest.raises(SourceUnavailable, match="does not answer: ConnectError") as error:
        registry.schema(1)
    assert time.monotonic() - began < 5
    assert error.value.retryable
    assert "http://127.0.0.1" in reported(error)


def test_a_wrong_login_is_no_unknown_schema() -> None:
    with Server(LOGIN) as server, pytest.raises(ConfigError) as error:
        of(server.url, **{"basic.auth.user.info": "reader:s3cret"}).schema(1)
    assert "401" in reported(error)


def test_what_is_no_registry_knows_no_schemas() -> None:
    with Server() as server, pytest.raises(ConfigError, match="answers 404"):
        of(f"{server.url}/elsewhere").schema(1)


@pytest.mark.parametrize(
    "members",
    [{"no.such.member": "s3cret"}, {"basic.auth.user.info": "s3cret"}, {"ssl.ca.location": "/s3cret.pem"}],
)
def test_settings_that_the_client_refuses(members: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="cannot be used") as error:
        of("http://127.0.0.1:1", **members)
    assert "no.such.member" not in members or "schema.registry.no.such.member" in str(error.value)
    reported(error)
