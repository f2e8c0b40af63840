"""Airflow connections, as jobs and commands get them."""

from __future__ import annotations

import json
import os
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from changeledger.model.errors import ConfigError


class Connection(BaseModel):
    """A connection in Airflow's JSON form, from the environment variable `AIRFLOW_CONN_<ID>`.

    The Airflow operator resolves a connection through Airflow's secrets backends and passes it to the job in
    that variable. Outside Airflow the variable is set by hand.
    """

    model_config = ConfigDict(extra="ignore", frozen=True)

    conn_type: str
    """Source: `mssql`, `postgres`, `sqlite` or `kafka`. Spark: `spark` or `spark_connect`."""
    host: str | None = None
    """The host. Spark: the master or the `sc://` address. `sqlite`: the file. `kafka`: empty, like port,
    login and password, because `extra` has everything."""
    port: int | None = None
    """The port, if it is not the default."""
    schema_: str | None = Field(default=None, alias="schema")
    """The name of the database on the server."""
    login: str | None = None
    """The user."""
    password: str | None = Field(default=None, repr=False)
    """The user's password; for `spark_connect` a token."""
    extra: dict[str, Any] = Field(default_factory=dict, repr=False)
    """`kafka`: librdkafka's settings, including `bootstrap.servers`, and those of a schema registry with the
    prefix `schema.registry.`. `mssql` and `postgres`: see [extras of JDBC
    connections](connections.md#extras-of-jdbc-connections). `spark` and `spark_connect`: see
    [connections](connections.md#connections)."""

    @field_validator("extra", mode="before")
    @classmethod
    def _extra_may_be_text(cls, value: object) -> object:
        return json.loads(value or "{}") if isinstance(value, str) else value or {}

    @classmethod
    def named(cls, conn_id: str) -> Connection:
        """Returns the connection of that id. Raises ConfigError if it does not exist or is not valid."""
        variable = connection_variable(conn_id)
        text = os.environ.get(variable)
        remedy = (
            f"create the Airflow connection {conn_id!r} (Admin > Connections, or `airflow connections "
            f"import`); outside Airflow set {variable} to its JSON"
        )
        if not text:
            raise ConfigError(f"the connection {conn_id!r} does not exist", remedy)
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            # The error's own text quotes the input, which contains the password.
            where = ", ".join(".".join(map(str, e["loc"])) or "JSON" for e in error.errors())
            raise ConfigError(f"the connection {conn_id!r} is not valid ({where})", remedy) from None


def connection_variable(conn_id: str) -> str:
    return f"AIRFLOW_CONN_{conn_id.upper()}"
