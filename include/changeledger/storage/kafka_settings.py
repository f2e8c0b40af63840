"""What a Kafka connection states, for the two clients that read it: librdkafka, and Java's in Spark.

A connection's extra holds librdkafka's settings. Each one that is accepted means the same to both clients;
what Java's client cannot be given in the same meaning is refused, as is what loads code or runs a command.

Sources: librdkafka's CONFIGURATION.md; Kafka's documentation of consumer configurations; KIP-651 for PEM.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from changeledger.model.errors import ConfigError

_MODULES: Final = "org.apache.kafka.common.security"
# Named alike by both, with one meaning.
_SHARED: Final = frozenset(
    {
        "bootstrap.servers", "client.id", "client.rack", "request.timeout.ms", "metadata.max.age.ms",
        "connections.max.idle.ms", "reconnect.backoff.ms", "reconnect.backoff.max.ms", "retry.backoff.ms",
        "receive.message.max.bytes", "socket.timeout.ms",
    }
)  # fmt: skip
# librdkafka's alone: Java's client does not need them.
_QUIET: Final = frozenset({"receive.message.max.bytes", "socket.timeout.ms", "broker.address.family"})
_TRANSLATED: Final = frozenset(
    {
        "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
        "sasl.oauthbearer.method", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.scope", "sasl.oauthbearer.token.endpoint.url",
        "ssl.ca.location", "ssl.ca.pem", "ssl.certificate.location", "ssl.certificate.pem",
        "ssl.key.location", "ssl.key.pem", "ssl.key.password",
        "ssl.keystore.location", "ssl.keystore.password",
        "ssl.endpoint.identification.algorithm",
    }
)  # fmt: skip
_KNOWN: Final = _SHARED | _QUIET | _TRANSLATED


def checked(conn_id: str, settings: Mapping[str, object]) -> dict[str, str]:
    """librdkafka's settings, as text. Raises ConfigError for one that is not accepted."""
    known = {str(name): _text(value) for name, value in settings.items()}
    if "bootstrap.servers" not in known:
        raise ConfigError(
            f"the connection {conn_id!r} names no bootstrap.servers",
            'put {"bootstrap.servers": "host:port,..."} into its extra',
        )
    for name in known:
        if name not in _KNOWN:
            like = get_close_matches(name, _KNOWN, 1)
            raise ConfigError(
                f"the connection {conn_id!r} has the setting {name!r}, which cannot be given to both Kafka "
                f"clients in one meaning{f'; did you mean {like[0]!r}?' if like else ''}",
                f"take it out of the connection's extra; accepted are {', '.join(sorted(_KNOWN))}",
            )
    if {"sasl.mechanism", "sasl.mechanisms"} <= known.keys():
        raise ConfigError(
            f"the connection {conn_id!r} has sasl.mechanism and sasl.mechanisms", "leave one out"
        )
    return known


def java_settings(conn_id: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The same for Java's client; `settings` are `checked`. Raises ConfigError for a file it cannot read."""
    java = {name: value for name, value in settings.items() if name in _SHARED - _QUIET}
    if "security.protocol" in settings:
        java["security.protocol"] = settings["security.protocol"].upper()
    algorithm = settings.get("ssl.endpoint.identification.algorithm")
    if algorithm is not None:
        # librdkafka's word for no check is Java's empty text.
        java["ssl.endpoint.identification.algorithm"] = "" if algorithm == "none" else algorithm
    return {**java, **_login(settings), **_trust(conn_id, settings), **_identity(conn_id, settings)}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _login(settings: Mapping[str, str]) -> dict[str, str]:
    mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms"))
    if mechanism is None and "sasl.username" not in settings:
        return {}
    mechanism = (mechanism or "PLAIN").upper()
    if mechanism == "OAUTHBEARER":
        return _oauth(settings)
    module = "scram.ScramLoginModule" if mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
    user, password = (_quoted(settings.get(f"sasl.{name}", "")) for name in ("username", "password"))
    jaas = f"{_MODULES}.{module} required username={user} password={password};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}


def _oauth(settings: Mapping[str, str]) -> dict[str, str]:
    """librdkafka's `oidc`: a client's credentials, exchanged for a token."""
    options_of = {
        "clientId": settings.get("sasl.oauthbearer.client.id", ""),
        "clientSecret": settings.get("sasl.oauthbearer.client.secret", ""),
        "scope": settings.get("sasl.oauthbearer.scope", ""),
    }
    options = " ".join(f"{name}={_quoted(value)}" for name, value in options_of.items() if value)
    return {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.login.callback.handler.class": f"{_MODULES}.oauthbearer.OAuthBearerLoginCallbackHandler",
        "sasl.oauthbearer.token.endpoint.url": settings.get("sasl.oauthbearer.token.endpoint.url", ""),
        "sasl.jaas.config": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required {options};",
    }


def _trust(conn_id: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Whose certificates are trusted: librdkafka's are PEM. Their text travels to Spark's workers."""
    authorities = _pem(conn_id, settings, "ssl.ca")
    if authorities is None:
        return {}
    return {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}


def _identity(conn_id: str, settings: Mapping[str, str]) -> dict[str, str]:
    """The client's own certificate and key, which Java's client wants together."""
    if "ssl.keystore.location" in settings:
        found = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": settings["ssl.keystore.location"]}
        password = settings.get("ssl.keystore.password")
        return found if password is None else {**found, "ssl.keystore.password": password}
    certificate, key = (_pem(conn_id, settings, f"ssl.{part}") for part in ("certificate", "key"))
    if certificate is None and key is None:
        return {}
    if certificate is None or key is None:
        raise ConfigError(
            f"the connection {conn_id!r} has a client certificate without its key, or a key alone",
            "state ssl.certificate.location and ssl.key.location, or both as .pem",
        )
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": certificate,
        "ssl.keystore.key": _unlocked(conn_id, key, settings.get("ssl.key.password")),
    }


def _unlocked(conn_id: str, key: str, password: str | None) -> str:
    """As Java's client reads keys: PKCS 8 without a password.

    OpenSSL's other forms, and the ciphers that lock a key today, are unknown to it on Java 17.
    """
    try:
        read = load_pem_private_key(key.encode(), None if password is None else password.encode())
    except (ValueError, TypeError) as error:
        # Not the error's own text alone: it says nothing of where the key is from.
        raise ConfigError(
            f"the connection {conn_id!r}: the client's key cannot be read: {error}",
            "give a private key in PEM as ssl.key.location or ssl.key.pem, and its password, if it has one, "
            "as ssl.key.password",
        ) from None
    return read.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii")


def _pem(conn_id: str, settings: Mapping[str, str], name: str) -> str | None:
    if f"{name}.pem" in settings:
        return settings[f"{name}.pem"]
    path = settings.get(f"{name}.location")
    if path is None:
        return None
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"the connection {conn_id!r}: {name}.location cannot be read: {error}",
            "give the path of a PEM file that the job can read",
        ) from None


def _quoted(text: str) -> str:
    """A value in JAAS: in double quotes; those, backslashes and ends of lines are escaped, other characters
    stand as they are."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'
