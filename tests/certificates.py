"""A private certificate authority and its certificates, created for a test as files in PEM."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

from sourcelab.process import Keystore, Tls

_DAYS = timedelta(days=2)


@dataclass(frozen=True)
class Certificate:
    certificate: Path
    key: Path


class Authority:
    """Signs certificates. `path` is its own certificate."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        self._name = _named(f"changeledger test {name}")
        self._key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            _builder(self._name, self._name, self._key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.path = folder / f"{name}.pem"
        self.path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, host: str = "localhost") -> Tls:
        """Returns the identity of a service on 127.0.0.1, which is also reached as `host`."""
        issued = self.issue("server", host)
        identity = self._folder / "identity.pem"
        identity.touch(0o600)
        identity.write_bytes(issued.key.read_bytes() + issued.certificate.read_bytes())
        return Tls(identity, self.path, host)

    def keystore(self) -> Keystore:
        """Returns the identity of a Java service on 127.0.0.1."""
        issued = self.issue("java")
        key = serialization.load_pem_private_key(issued.key.read_bytes(), None)
        certificate = x509.load_pem_x509_certificate(issued.certificate.read_bytes())
        authority = x509.load_pem_x509_certificate(self.path.read_bytes())
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        lock = serialization.BestAvailableEncryption(b"changeit")
        identity, trusted = self._folder / "identity.p12", self._folder / "authority.p12"
        identity.write_bytes(
            pkcs12.serialize_key_and_certificates(b"java", key, certificate, [authority], lock)
        )
        entry = pkcs12.PKCS12Certificate(authority, b"authority")
        trusted.write_bytes(pkcs12.serialize_java_truststore([entry], lock))
        return Keystore(identity, trusted, "changeit")

    def issue(self, name: str, *hosts: str, password: str = "") -> Certificate:
        """Issues a certificate for the subject `CN=<name>`. `password` encrypts the file of its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName(host) for host in hosts]
        address = x509.IPAddress(ip_address("127.0.0.1"))
        signed = (
            _builder(_named(name), self._name, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([*names, address]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        lock: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            lock = serialization.BestAvailableEncryption(password.encode())
        issued = Certificate(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        issued.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        issued.key.touch(0o600)
        issued.key.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, lock)
        )
        return issued


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAYS)
        .not_valid_after(now + _DAYS)
    )
