"""Translates librdkafka's errors about a connection to one error with a remedy.

Sources of the texts: rdkafka_ssl.c, rdkafka_sasl.c and OpenSSL.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError

from changeledger.model.errors import ConfigError

_REASON_CHARACTERS: Final = 300


class _Cause(NamedTuple):
    said: str
    message: str
    remedy: str


# The first match counts, as a refused client certificate is also a failed handshake.
_CAUSES: Final = (
    _Cause(
        r"authorization failed|_AUTHORIZATION_FAILED",
        "the login is not authorized at Kafka at {servers}: {reason}",
        "grant it READ and DESCRIBE on the feed's topics (docs/connections.md, 'Grants')",
    ),
    _Cause(
        r"SASL authentication error|code=_AUTHENTICATION|invalid credentials",
        "Kafka at {servers} does not accept the login: {reason}",
        "correct sasl.username, sasl.password and sasl.mechanism in the extra of the connection {conn_id!r}",
    ),
    _Cause(
        r"alert (bad certificate|certificate required|unknown ca|certificate unknown)",
        "Kafka at {servers} does not accept the client's certificate, or requires one: {reason}",
        "put ssl.certificate.location and ssl.key.location (or both as .pem) into the extra of the "
        "connection {conn_id!r}, with a certificate of an authority that the broker trusts",
    ),
    _Cause(
        r"certificate verify failed",
        "the certificate of Kafka at {servers} is not trusted: {reason}",
        "put the authority that signed it into the extra of the connection {conn_id!r}, as ssl.ca.location "
        "or ssl.ca.pem, and name the broker in bootstrap.servers as its certificate does",
    ),
)


class Complaints:
    """The errors that librdkafka reports in the background, which say why a request timed out."""

    def __init__(self) -> None:
        # librdkafka repeats errors a hundred times a second.
        self.last: deque[KafkaError] = deque(maxlen=20)
        # Whether a connection to every broker has failed.
        self.no_broker = False

    def add(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.no_broker = True
        else:
            self.last.append(error)

    def heard(self, settings: Mapping[str, str]) -> dict[str, Any]:
        """Returns settings for a client that reports errors only here; it would log each failed attempt."""
        return {**settings, "log_level": 0, "error_cb": self.add}


def explained(conn_id: str, servers: str, said: str) -> ConfigError | None:
    """Returns the error that a client's text stands for, or None if trying again may help."""
    for cause in _CAUSES:
        place = re.search(cause.said, said, re.IGNORECASE)
        if place is not None:
            start = said.rfind("\n", 0, place.start()) + 1
            reason = said[start:].partition("\n")[0].strip()
            if len(reason) > _REASON_CHARACTERS:
                reason = f"{reason[:_REASON_CHARACTERS]}..."
            return ConfigError(
                cause.message.format(servers=servers, reason=reason), cause.remedy.format(conn_id=conn_id)
            )
    return None
