"""One connection, two Kafka clients: each setting means the same to both, or is refused.

Java's names and values: Kafka's documentation of consumer configurations and KIP-651 (PEM).
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from changeledger.model.errors import ConfigError
from changeledger.storage.kafka_settings import checked, java_settings

HOST = {"bootstrap.servers": "a:9093"}


def java(**more: object) -> dict[str, str]:
    settings = checked("shop", {**HOST, **{name.replace("__", "."): value for name, value in more.items()}})
    found = java_settings("shop", settings)
    assert found.pop("bootstrap.servers") == "a:9093"
    return found


def test_a_login_with_a_password_of_any_characters() -> None:
    found = java(
        security__protocol="sasl_ssl", sasl__mechanisms="SCRAM-SHA-512", sasl__username="me",
        sasl__password='pä"ss\\w;rd\n',
    )  # fmt: skip
    assert found == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="me" password="pä\\"ss\\\\w;rd\\n";',
    }


def test_without_a_mechanism_a_login_is_plain() -> None:
    found = java(sasl__username="$ConnectionString", sasl__password="Endpoint=sb://x;SharedAccessKey=k")
    assert found["sasl.mechanism"] == "PLAIN"
    assert "plain.PlainLoginModule" in found["sasl.jaas.config"]


def test_a_private_authority(tmp_path: Path) -> None:
    """Its text travels with the job: the workers need no file."""
    file = tmp_path / "ca.pem"
    file.write_text("# Autorität\n-----BEGIN", "utf-8")
    for extra in ({"ssl__ca__location": str(file)}, {"ssl__ca__pem": file.read_text("utf-8")}):
        assert java(**extra) == {
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": "# Autorität\n-----BEGIN",
        }
    with pytest.raises(ConfigError, match=r"ssl\.ca\.location cannot be read"):
        java(ssl__ca__location=str(tmp_path / "none.pem"))


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
@pytest.mark.parametrize("password", [None, "sésame"])
def test_a_client_certificate(tmp_path: Path, form: PrivateFormat, password: str | None) -> None:
    """librdkafka reads a key in each of these forms, Java's client on Java 17 in one: PKCS 8, not locked."""
    private = ec.generate_private_key(ec.SECP256R1())
    lock = NoEncryption() if password is None else BestAvailableEncryption(password.encode())
    (tmp_path / "key").write_bytes(private.private_bytes(Encoding.PEM, form, lock))
    (tmp_path / "certificate").write_text("-----BEGIN certificate")
    found = java(
        ssl__certificate__location=tmp_path / "certificate",
        ssl__key__location=tmp_path / "key",
        **({} if password is None else {"ssl__key__password": password}),
    )
    plain = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    assert found == {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "-----BEGIN certificate",
        "ssl.keystore.key": plain,
    }


def test_a_key_store() -> None:
    assert java(ssl__keystore__location="/k.p12", ssl__keystore__password="p") == {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "/k.p12",
        "ssl.keystore.password": "p",
    }


def test_a_key_that_cannot_be_read() -> None:
    with pytest.raises(ConfigError, match="key cannot be read") as refused:
        java(ssl__certificate__pem="-----BEGIN", ssl__key__pem="secret text")
    assert "secret text" not in str(refused.value)


def test_no_check_of_host_names_is_an_empty_text_in_java() -> None:
    assert java(ssl__endpoint__identification__algorithm="none") == {
        "ssl.endpoint.identification.algorithm": ""
    }


def test_a_token_for_credentials() -> None:
    found = java(
        sasl__mechanism="OAUTHBEARER", sasl__oauthbearer__method="oidc",
        sasl__oauthbearer__client__id="me", sasl__oauthbearer__client__secret="s",
        sasl__oauthbearer__token__endpoint__url="https://login/token",
    )  # fmt: skip
    assert found["sasl.mechanism"] == "OAUTHBEARER"
    assert found["sasl.oauthbearer.token.endpoint.url"] == "https://login/token"
    assert found["sasl.jaas.config"].endswith('required clientId="me" clientSecret="s";')


def test_what_java_does_not_need_is_left_out() -> None:
    assert java(socket__timeout__ms=1000, client__id="x") == {"client.id": "x"}


@pytest.mark.parametrize(
    "name",
    [
        # Loads a library, runs a command, is code of Java's.
        "plugin.library.paths", "ssl.engine.location", "sasl.kerberos.kinit.cmd", "sasl.jaas.config",
        "interceptor.classes",
        # Has no equal in Java's client.
        "enable.ssl.certificate.verification", "ssl.cipher.suites",
    ],
)  # fmt: skip
def test_what_cannot_mean_the_same_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=name.replace(".", r"\.")) as refused:
        checked("shop", {**HOST, name: "secret value"})
    assert "secret value" not in str(refused.value)


def test_a_misspelt_setting() -> None:
    with pytest.raises(ConfigError, match=r"did you mean 'sasl\.password'"):
        checked("shop", {**HOST, "sasl.pasword": "s"})


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {**HOST, "sasl.mechanism": "PLAIN", "sasl.mechanisms": "PLAIN"},
    ],
)
def test_contradictions(settings: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        checked("shop", settings)


def test_half_a_client_certificate(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="without its key"):
        java(ssl__certificate__pem="-----BEGIN")
    with pytest.raises(ConfigError, match="cannot be read"):
        java(ssl__certificate__location=tmp_path / "none", ssl__key__pem="-----BEGIN")
