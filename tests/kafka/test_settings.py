"""Which settings a connection may state, and how a client is created on a machine without its files.

Names: librdkafka's CONFIGURATION.md.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from changeledger.config.connection import Connection
from changeledger.kafka.settings import ClientSettings
from changeledger.kafka.topics import Kafka
from changeledger.model.errors import ConfigError

HOST = {"bootstrap.servers": "a:9093"}


def test_settings_go_to_the_client_as_they_are() -> None:
    stated = {
        **HOST,
        "sasl.password": 'pä"ss\\w;rd\n',
        "socket.keepalive.enable": True,
        "socket.timeout.ms": 9,
    }
    with ClientSettings.of("shop", stated).given() as given:
        assert given == {**stated, "socket.keepalive.enable": "true", "socket.timeout.ms": "9"}


def test_files_travel_with_the_settings(tmp_path: Path) -> None:
    stated = dict(HOST)
    for name in ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.keystore.location"):
        file = tmp_path / name
        file.write_bytes(f"content of {name} ".encode() + b"\xff\0")
        stated[name] = str(file)
    sent = pickle.dumps(ClientSettings.of("shop", stated))
    for name in stated.keys() - HOST.keys():
        Path(stated[name]).unlink()
    with pickle.loads(sent).given() as given:
        assert given.keys() == stated.keys()
        paths = {name: Path(given[name]) for name in stated.keys() - HOST.keys()}
        for name, path in paths.items():
            assert path.read_bytes() == f"content of {name} ".encode() + b"\xff\0"
            # No other user can read the folder.
            assert path.parent.stat().st_mode & 0o077 == 0
    assert not any(path.exists() for path in paths.values())


def test_no_secret_is_in_what_it_prints(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret key")
    stated = {**HOST, "sasl.password": "secret word", "ssl.key.location": str(tmp_path / "key")}
    assert "secret" not in repr(ClientSettings.of("shop", stated))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location cannot be read"):
        ClientSettings.of("shop", {**HOST, "ssl.ca.location": str(tmp_path / "none.pem")})


@pytest.mark.parametrize(
    "name",
    [
        # Loads a library or runs a command.
        "plugin.library.paths", "ssl.engine.location", "ssl.providers", "sasl.kerberos.kinit.cmd",
        # Set by the product.
        "group.id", "enable.auto.commit", "isolation.level", "auto.offset.reset", "enable.partition.eof",
        # A setting of Java's client.
        "sasl.jaas.config",
    ],
)  # fmt: skip
def test_what_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")) as refused:
        ClientSettings.of("shop", {**HOST, name: "secret value"})
    assert "secret value" not in str(refused.value)


@pytest.mark.parametrize(
    ("wrong", "like"),
    [
        ("sasl.pasword", "sasl.password"),
        ("Security.Protocol", "security.protocol"),
        ("Bootstrap.Servers", "bootstrap.servers"),
        ("security-protocol", "security.protocol"),
    ],
)
def test_a_misspelt_setting(wrong: str, like: str) -> None:
    servers = {} if like in HOST else HOST
    with pytest.raises(ConfigError, match=f"the setting '{wrong}'.*did you mean '{like}'"):
        ClientSettings.of("shop", {**servers, wrong: "s"})


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {**HOST, "sasl.mechanism": "PLAIN", "sasl.mechanisms": "PLAIN"},
    ],
)
def test_contradictions(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        ClientSettings.of("shop", settings)


@pytest.mark.parametrize(
    "wrong",
    [
        {"security.protocol": "ssl", "ssl.key.pem": "secret text"},
        {"security.protocol": "tls"},
    ],
)
def test_settings_that_make_no_client(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"does not make a Kafka client: .+") as refused:
        Kafka("shop", Connection(conn_type="kafka", extra={**HOST, **wrong}))
    assert "secret text" not in str(refused.value)


@pytest.mark.parametrize("field", ["host", "port", "login", "password"])
def test_fields_that_nobody_reads_are_refused(field: str) -> None:
    """Airflow's form has these fields for every connection, but a login there would have no effect."""
    stated = Connection.model_validate({"conn_type": "kafka", "extra": HOST, field: "9093"})
    with pytest.raises(ConfigError, match=f"nothing reads {field} of the connection 'shop'") as raised:
        Kafka("shop", stated)
    assert "9093" not in str(raised.value)
