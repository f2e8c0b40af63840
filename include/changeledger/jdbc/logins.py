"""Checks logins to SQL Server by Microsoft Entra and Kerberos.

Microsoft's driver implements them. Jobs run unattended, and Spark's workers log in like the job; therefore
logins that need a person, Windows or the environment of one machine are refused by name. Logins and secrets
are the connection's own fields, which the driver gets as properties and never in a URL.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from changeledger.config.connection import Connection
from changeledger.model.errors import ConfigError

SQL_PASSWORD: Final = "SqlPassword"  # noqa: S105 - the driver's word for a login of the database
SERVICE_PRINCIPAL: Final = "ActiveDirectoryServicePrincipal"
MANAGED_IDENTITY: Final = "ActiveDirectoryManagedIdentity"
ENTRA_PASSWORD: Final = "ActiveDirectoryPassword"  # noqa: S105 - as above
AUTHENTICATIONS: Final = (SQL_PASSWORD, SERVICE_PRINCIPAL, MANAGED_IDENTITY, ENTRA_PASSWORD)
KERBEROS: Final = "JavaKerberos"
_DOCS: Final = "docs/connections.md, 'Logins of SQL Server'"
# Realms, and names of services such as MSSQLSvc/sql.example.com:1433@EXAMPLE.COM.
PLAIN: Final = re.compile(r"[\w.\-/:@]+\Z")

_NOT_POSSIBLE: Final[Mapping[str, Mapping[str, str]]] = {
    "authentication": {
        "ActiveDirectoryInteractive": "it asks a person in a browser",
        "ActiveDirectoryIntegrated": "it logs in as the user of each machine's operating system",
        "ActiveDirectoryDefault": "it searches each machine for a login: Spark's workers may use another one",
        "ActiveDirectoryServicePrincipalCertificate": "its certificate is a file with a password of its own",
        "ActiveDirectoryMSI": f"its name is {MANAGED_IDENTITY} now",
    },
    "authenticationScheme": {
        "NTLM": "what it sends can be replayed, and no realm vouches for the server",
        "NativeAuthentication": "it needs a DLL of Windows",
    },
}


class _Library(NamedTuple):
    """A jar that the driver needs but does not include: how its file begins, and its Maven coordinates."""

    begins: str
    coordinates: str


_MSAL: Final = _Library("msal4j-", "com.microsoft.azure:msal4j")
_LIBRARIES: Final = {
    SERVICE_PRINCIPAL: _MSAL,
    ENTRA_PASSWORD: _MSAL,
    MANAGED_IDENTITY: _Library("azure-identity-", "com.azure:azure-identity"),
}


def refuse_impossible(conn_id: str, extra: Mapping[str, object]) -> None:
    """Raises ConfigError for a way to log in that the driver has but a job cannot use."""
    for name, values in _NOT_POSSIBLE.items():
        why = {value.lower(): reason for value, reason in values.items()}.get(str(extra.get(name)).lower())
        if why is not None:
            raise ConfigError(
                f"the connection {conn_id!r}: {name}={extra[name]} is not possible: {why}",
                f"use {', '.join(AUTHENTICATIONS)}, or Kerberos ({_DOCS})",
            )


def checked_login(
    conn_id: str, connection: Connection, extra: Mapping[str, str], jars: Iterable[str]
) -> None:
    """Raises ConfigError unless login, password and extra state one way to log in that the driver supports.

    `jars`: the names of the jars on the driver's class path.
    """
    authentication, is_integrated = extra.get("authentication"), extra.get("integratedSecurity") == "true"
    wrong = _wrong_kerberos(connection, extra) if is_integrated else _wrong_entra(connection, extra)
    if wrong is None and not is_integrated:
        idle = [name for name in ("authenticationScheme", "realm", "serverSpn") if name in extra]
        wrong = f"the driver ignores {', '.join(idle)} without integratedSecurity=true" if idle else None
    if wrong is not None:
        raise ConfigError(f"the connection {conn_id!r}: {wrong}", f"see {_DOCS}")
    library = _LIBRARIES.get(authentication or "")
    if library is not None and not any(name.startswith(library.begins) for name in jars):
        raise ConfigError(
            f"the connection {conn_id!r}: {authentication} needs {library.coordinates}, which "
            "Microsoft's driver does not include",
            "put it and its dependencies into the folder of CHANGELEDGER_JARS (docs/connections.md)",
        )


def _wrong_kerberos(connection: Connection, extra: Mapping[str, str]) -> str | None:
    if "authentication" in extra:
        return "authentication and integratedSecurity exclude each other"
    if extra.get("authenticationScheme") != KERBEROS:
        return f"integratedSecurity without authenticationScheme={KERBEROS} needs a DLL of Windows"
    if bool(connection.login) != bool(connection.password):
        return "Kerberos takes login and password, or neither to use the ticket of the job's user"
    return None


def _wrong_entra(connection: Connection, extra: Mapping[str, str]) -> str | None:
    authentication = extra.get("authentication")
    if authentication is None or authentication == SQL_PASSWORD:
        return None
    if extra.get("encrypt") == "false" or extra.get("trustServerCertificate") == "true":
        return (
            f"{authentication} hands a token to the server, which must prove who it is (encrypt, a "
            "certificate)"
        )
    if authentication == MANAGED_IDENTITY:
        return (
            "a managed identity has no password; set login to its client id, or leave it empty"
            if connection.password
            else None
        )
    if not connection.login or not connection.password:
        of = "client id and secret" if authentication == SERVICE_PRINCIPAL else "user and password"
        return f"{authentication} needs login and password: {of}"
    return None
