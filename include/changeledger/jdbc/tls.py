"""TLS of PostgreSQL sources: the driver's properties, and remedies for refused connections of all databases.

The settings have libpq's names, as in Airflow's PostgreSQL connections. pgjdbc reads them in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from changeledger.config.connection import Connection
from changeledger.model.errors import ConfigError

# Uses the JVM's trust store, in place of a file in the home folder of the user who runs Spark.
_JVM_TRUST: Final = "org.postgresql.ssl.DefaultJavaSSLFactory"
_NOT_TRUSTED: Final = re.compile(
    r"PKIX path|could not be verified by hostnameverifier|No subject alternative|No name matching"
    r"|does not support SSL|Failed to validate the server name"
)
# Entra's codes here: an unknown application or user, a wrong or expired secret, a wrong password.
_NOT_LET_IN: Final = re.compile(
    r"password authentication failed|Login failed for user|no pg_hba.conf entry"
    r"|AADSTS(?:700016|7000215|7000222|50034|50126)\b|Pre-authentication information was invalid"
    r"|(?:Client|Server) not found in Kerberos database|Unable to obtain Principal Name"
)


def postgres_properties(conn_id: str, host: str | None, extra: Mapping[str, str]) -> dict[str, str]:
    """Returns properties for verified TLS, unless the connection states `sslmode` or is to this machine.

    Raises ConfigError if the file `sslrootcert` does not exist.
    """
    mode = extra.get("sslmode") or ("prefer" if _is_loopback(host) else "verify-full")
    root = extra.get("sslrootcert")
    if root is None:
        return {"sslmode": mode} | ({"sslfactory": _JVM_TRUST} if mode.startswith("verify") else {})
    if not Path(root).is_file():
        raise ConfigError(
            f"the connection {conn_id!r}: its sslrootcert {root!r} is not a file",
            "give the path of a PEM file that the job, and Spark's workers, can read",
        )
    return {"sslmode": mode, "sslrootcert": root}


def explained(conn_id: str, connection: Connection, said: str) -> ConfigError | None:
    """Returns the error that a driver's text stands for, or None if trying again may help."""
    if match := _NOT_TRUSTED.search(said):
        postgres = connection.conn_type == "postgres"
        setting = "sslrootcert" if postgres else "trustServerCertificate (if the server signed its own)"
        return ConfigError(
            f"the certificate of the database at {connection.host} is not trusted: {_line(said, match)}",
            f"put the authority that signed it into the extra of the connection {conn_id!r}, as {setting}, "
            "and name the host as its certificate does"
            + ("; `sslmode` states less than verify-full" if postgres else ""),
        )
    if match := _NOT_LET_IN.search(said):
        return ConfigError(
            f"the database at {connection.host} does not accept the login: {_line(said, match)}",
            f"correct login and password of the connection {conn_id!r}, or allow the login on the server",
        )
    return None


def _is_loopback(host: str | None) -> bool:
    try:
        return host == "localhost" or ip_address((host or "").strip("[]")).is_loopback
    except ValueError:
        return False


def _line(said: str, match: re.Match[str]) -> str:
    return said[said.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0].strip(" :")[:300]
