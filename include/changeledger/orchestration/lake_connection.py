"""Credentials of the lake that an Airflow connection has: jobs get them within `CHANGELEDGER_CATALOG`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from airflow.sdk import Connection


def with_credentials(catalog: Mapping[str, str], connection: Connection) -> dict[str, str]:
    """The catalog with the members of the connection's `extra`.

    Host and password are a REST catalog's address and token; with a login they are a client's id and secret.
    """
    members = dict(catalog)
    if connection.host:
        members["uri"] = connection.host
    if connection.password:
        name = "credential" if connection.login else "token"
        members[name] = ":".join(filter(None, (connection.login, connection.password)))
    extra = connection.extra_dejson
    return members | {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in extra.items()
    }
