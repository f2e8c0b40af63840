"""librdkafka's settings in a Kafka connection, for clients in this process and in Spark's workers.

Settings that load code or run a command are refused, and so are those that the product sets itself.

Source: librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import meant

# Settings that name a file. The content of the file travels with the settings.
_FILES: Final = frozenset(
    {"ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location"}
)
_ACCEPTED: Final = _FILES | {
    "bootstrap.servers", "client.id", "client.rack", "client.dns.lookup", "broker.address.family",
    "request.timeout.ms", "metadata.max.age.ms", "connections.max.idle.ms", "reconnect.backoff.ms",
    "reconnect.backoff.max.ms", "retry.backoff.ms", "receive.message.max.bytes", "socket.timeout.ms",
    "socket.keepalive.enable",
    "security.protocol", "sasl.mechanism", "sasl.mechanisms", "sasl.username", "sasl.password",
    "sasl.oauthbearer.method", "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.scope", "sasl.oauthbearer.extensions", "sasl.oauthbearer.token.endpoint.url",
    "ssl.ca.pem", "ssl.certificate.pem", "ssl.key.pem", "ssl.key.password", "ssl.keystore.password",
    "ssl.endpoint.identification.algorithm", "ssl.cipher.suites", "ssl.curves.list", "ssl.sigalgs.list",
}  # fmt: skip


@dataclass(frozen=True)
class ClientSettings:
    """librdkafka's settings, and the content of the files that they name, so that workers need no files.

    Both hold secrets. They go to workers pickled, as bytes that Spark's plans and events do not show.
    """

    conn_id: str
    stated: Mapping[str, str] = field(repr=False)
    files: Mapping[str, bytes] = field(repr=False)

    @classmethod
    def of(cls, conn_id: str, extra: Mapping[str, object]) -> ClientSettings:
        """Returns the settings of a connection's extra.

        Raises ConfigError for a setting that is not accepted, and for a file that cannot be read.
        """
        stated = _checked(conn_id, extra)
        files = {name: _content(conn_id, name, stated[name]) for name in sorted(_FILES & stated.keys())}
        return cls(conn_id, stated, files)

    @property
    def servers(self) -> str:
        return self.stated["bootstrap.servers"]

    @contextmanager
    def given(self) -> Iterator[dict[str, str]]:
        """Provides settings from which to make a client inside the block.

        The files exist only in the block; a client reads them when it is made.
        """
        with TemporaryDirectory(prefix="changeledger-") as folder:
            paths = {name: Path(folder, name) for name in self.files}
            for name, path in paths.items():
                path.write_bytes(self.files[name])
            yield {**self.stated, **{name: str(path) for name, path in paths.items()}}


def _checked(conn_id: str, settings: Mapping[str, object]) -> dict[str, str]:
    known = {
        str(name): str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in settings.items()
    }
    for name in known:
        if name not in _ACCEPTED:
            like = meant(name, _ACCEPTED)
            raise ConfigError(
                f"the connection {conn_id!r} has the setting {name!r}, which is not accepted"
                f"{f'; did you mean {like!r}?' if like else ''}",
                f"remove it from the connection's extra; accepted are {', '.join(sorted(_ACCEPTED))}",
            )
    if "bootstrap.servers" not in known:
        raise ConfigError(
            f"the connection {conn_id!r} names no bootstrap.servers",
            'put {"bootstrap.servers": "host:port,..."} into its extra',
        )
    if {"sasl.mechanism", "sasl.mechanisms"} <= known.keys():
        raise ConfigError(
            f"the connection {conn_id!r} has sasl.mechanism and sasl.mechanisms", "leave one out"
        )
    return known


def _content(conn_id: str, name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the connection {conn_id!r}: {name} cannot be read: {error}",
            "give the path of a file that the job can read",
        ) from None
