"""Checks the fields of a JDBC connection before they are used.

An extra that nothing reads is refused by name, because whoever set it relies on it. No field can add
properties to a JDBC URL, because these can switch off a driver's checks or name a class that it loads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from changeledger.config.connection import Connection
from changeledger.jdbc import logins
from changeledger.model.errors import ConfigError
from changeledger.model.misspelt import meant

# Allowed names of hosts and databases, without characters that end a part of a JDBC URL.
_HOST: Final = re.compile(r"[\w.\-:\[\]\\]+\Z")
_PATH: Final = re.compile(r"[^?#;\x00-\x1f]+\Z")
_NAME: Final = re.compile(r"[^;{}/?&#%\x00-\x1f]+\Z")
_FLAG: Final = ("true", "false")
SSL_MODES: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
# The extras of each type of connection, with their allowed values; any text if none are listed.
_EXTRAS: Final[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
    "mssql": {
        "encrypt": (*_FLAG, "strict"),
        "trustServerCertificate": _FLAG,
        "applicationIntent": ("ReadOnly", "ReadWrite"),
        "multiSubnetFailover": _FLAG,
        "authentication": logins.AUTHENTICATIONS,
        "integratedSecurity": _FLAG,
        "authenticationScheme": (logins.KERBEROS,),
        "realm": (),
        "serverSpn": (),
    },
    "postgres": {"sslmode": SSL_MODES, "sslrootcert": ()},
    "sqlite": {},
}
# Extras of any text that become part of a JDBC URL.
_IN_URL: Final = ("realm", "serverSpn")


def checked(conn_id: str, connection: Connection) -> Mapping[str, str]:
    """Returns the connection's extras, with values spelled as in its driver.

    Raises ConfigError for an unknown extra, and for a field without a usable value.
    """
    kind, is_file = connection.conn_type, connection.conn_type == "sqlite"
    known, extra = _EXTRAS[kind], {n: v for n, v in connection.extra.items() if v is not None}
    likely = {name: meant(name, known) for name in extra if name not in known}
    unread = [f"{n!r} (did you mean {near!r}?)" if near else repr(n) for n, near in likely.items()]
    if unread:
        raise ConfigError(
            f"nothing reads the extra {', '.join(unread)} of the connection {conn_id!r}",
            f"remove it; the extras of {kind} are {', '.join(known) or 'none'}. Put login and password "
            "into the connection's own fields",
        )
    logins.refuse_impossible(conn_id, extra)
    stated = {name: _value(name, known[name], value) for name, value in extra.items()}
    fields = {
        "host": (_PATH if is_file else _HOST).match(connection.host or ""),
        "schema": is_file or _NAME.match(connection.schema_ or ""),
        **{f"extra.{name}": value for name, value in stated.items()},
    }
    wrong = [name for name, value in fields.items() if not value]
    if wrong:
        values = [f", {name} one of {', '.join(values)}" for name, values in known.items() if values]
        raise ConfigError(
            f"the connection {conn_id!r} has no usable {', '.join(wrong)}",
            f"the host must be a name or address, the schema the database's name{''.join(values)}",
        )
    return {name: value for name, value in stated.items() if value is not None}


def _value(name: str, allowed: tuple[str, ...], value: object) -> str | None:
    """Returns the value in the driver's spelling, or None if not allowed or not safe in a URL."""
    if allowed:
        return {choice.lower(): choice for choice in allowed}.get(str(value).lower())
    is_usable = name not in _IN_URL or logins.PLAIN.match(str(value))
    return str(value) if is_usable else None
