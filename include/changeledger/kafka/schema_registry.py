"""Fetches the schemas of messages' writers, by the ids in messages, from a registry of Confluent's kind."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from httpx2 import HTTPError, Timeout

from changeledger.config.connection import Connection
from changeledger.kernels import avro
from changeledger.model.errors import ConfigError, SourceUnavailable

log = logging.getLogger("changeledger")

# Prefix of the registry client's settings in the extra of a Kafka connection.
PREFIX = "schema.registry."
# Connecting to a registry that is down fails after 5 s in all; an answer may take longer.
_PATIENCE: Final[Mapping[str, Any]] = {
    "timeout": Timeout(20.0, connect=2.0),
    "max.retries": 1,
    "retries.wait.ms": 500,
}
_UNKNOWN_SCHEMA = 40403
_TOO_MANY = 429
_MOST_UNKNOWN = 100


class SchemaRegistry:
    """The registry that a Kafka connection names."""

    def __init__(self, conn_id: str, settings: Mapping[str, Any]) -> None:
        # httpx2 logs every request with its address.
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        self._conn_id = conn_id
        known = dict(settings)
        addresses = [urlsplit(address.strip()) for address in str(known.pop("url")).split(",")]
        # Addresses appear in errors, so they are kept without a login.
        self._address = ",".join(f"{a.scheme}://{a.netloc.rpartition('@')[2]}{a.path}" for a in addresses)
        login = addresses[0].netloc.rpartition("@")[0]
        if login:
            known.setdefault("basic.auth.user.info", unquote(login))
        try:
            self._client = SchemaRegistryClient({**_PATIENCE, **known, "url": self._address})
        except (ValueError, TypeError, OSError) as error:
            # The error's own text is left out, as it can quote a login.
            named = ", ".join(PREFIX + name for name in known if name in str(error))
            raise self._wrong(f"cannot be used ({type(error).__name__}{named and f': {named}'})") from None

    @classmethod
    def of(cls, conn_id: str, connection: Connection) -> SchemaRegistry | None:
        """Returns the registry that a connection names, or None.

        Raises ConfigError for wrong settings, and for settings without a URL.
        """
        settings = {
            name.removeprefix(PREFIX): value
            for name, value in connection.extra.items()
            if name.startswith(PREFIX)
        }
        if settings and not settings.get("url"):
            raise ConfigError(
                f"the connection {conn_id!r} has {', '.join(PREFIX + name for name in settings)} without "
                f"{PREFIX}url",
                f"add {PREFIX}url, the registry's address, or remove the others from the connection's extra",
            )
        return cls(conn_id, settings) if settings else None

    def schemas(self, ids: Iterable[str]) -> Iterator[tuple[str, str]]:
        """Yields id and schema (see `schema`) for the ids that the registry knows, with one request per id.

        Stops after `_MOST_UNKNOWN` unknown ids, because bytes of Avro without a frame look like another id in
        each message. Callers therefore pass the most frequent ids first.
        """
        unknown: list[str] = []
        for schema_id in ids:
            if len(unknown) == _MOST_UNKNOWN:
                log.warning("%s: %d ids are unknown, so no others are requested", self._address, len(unknown))
                return
            schema = self.schema(int(schema_id))
            if schema is not None:
                yield schema_id, schema
                continue
            unknown.append(schema_id)
            log.warning("the schema registry at %s does not know the schema %s", self._address, schema_id)

    def schema(self, schema_id: int) -> str | None:
        """Returns the schema in the form of `avro.registered`, or None if the registry does not know the id.

        Raises SourceUnavailable if the registry does not answer, and ConfigError if it refuses the request.
        """
        try:
            schema = self._client.get_schema(schema_id)
        except SchemaRegistryError as error:
            code = error.http_status_code
            if error.error_code == _UNKNOWN_SCHEMA:
                return None
            if code >= 500 or code == _TOO_MANY:
                raise self._unavailable(f"answers {code}") from error
            raise self._wrong(f"answers {code} to the request for the schema {schema_id}") from error
        except HTTPError as error:
            raise self._unavailable(f"does not answer: {type(error).__name__}") from error
        text = schema.schema_str
        return None if text is None else avro.registered(schema.schema_type, text)

    def _unavailable(self, what: str) -> SourceUnavailable:
        return SourceUnavailable(
            f"the schema registry at {self._address} {what}",
            f"check that it runs, and {PREFIX}url in the connection {self._conn_id!r}",
        )

    def _wrong(self, what: str) -> ConfigError:
        return ConfigError(
            f"the schema registry at {self._address} {what}",
            f"correct the fields {PREFIX}* of the connection {self._conn_id!r} (docs/feeds.md, 'Avro')",
        )
