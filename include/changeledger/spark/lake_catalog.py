"""The lake's catalog as Spark is told of it: its settings follow from those that pyiceberg takes."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import URL

from changeledger.config.database_url import database_url
from changeledger.config.object_path import S3
from changeledger.model.errors import ConfigError

PREFIX = "spark.sql.catalog.lake"
# Of a URL of PostgreSQL, what its JDBC driver takes by the same name and in the same meaning.
_TLS = {"sslmode", "sslrootcert", "sslcert", "sslkey"}
# How long a process waits for another one that writes the catalog's file.
_BUSY_SECONDS = 30.0


def spark_catalog(catalog: Mapping[str, str]) -> dict[str, str]:
    """`spark.sql.catalog.lake*` of `Settings.catalog`.

    A `sql` catalog is Spark's `jdbc` one; members of other types mean the same to both. Members of the store
    (`s3.*`) keep their names, and those that Iceberg's Java calls otherwise are there by both.
    Raises ConfigError if a `sql` catalog is in no database that the lake can have.
    """
    of_type = _jdbc(catalog) if catalog["type"] == "sql" else catalog
    if is_on_s3(catalog):
        of_type = {**_s3(catalog), **of_type}
    return {
        PREFIX: "org.apache.iceberg.spark.SparkCatalog",
        # A task sees what another process has committed: catalog entries are not kept from query to query.
        f"{PREFIX}.cache-enabled": "false",
        **{f"{PREFIX}.{name}": value for name, value in of_type.items()},
    }


def is_on_s3(catalog: Mapping[str, str]) -> bool:
    """Are data files on S3? Of a warehouse that only the REST catalog's server knows, its members tell."""
    return catalog.get("warehouse", "").startswith(S3) or any(name.startswith("s3.") for name in catalog)


def _s3(catalog: Mapping[str, str]) -> dict[str, str]:
    """What Iceberg's S3FileIO calls otherwise than pyiceberg."""
    members = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    if "s3.region" in catalog:
        members["client.region"] = catalog["s3.region"]
    # Servers of one's own have a bucket in the path; Amazon's has it in the host.
    if "s3.endpoint" in catalog:
        is_in_host = catalog.get("s3.force-virtual-addressing", "false").lower() == "true"
        members["s3.path-style-access"] = str(not is_in_host).lower()
    return members


def is_member(name: str) -> bool:
    """Is this setting of Spark's a member of the catalog?

    Any may be a secret (`credential`, `header.Authorization`, `s3.sse.key`): others on the machine see none.
    """
    return name.startswith(f"{PREFIX}.")


def sql_url(uri: str) -> URL:
    """The URL of a `sql` catalog. Raises ConfigError if the lake can have no such database."""
    url = database_url(uri)
    if url is None or url.get_backend_name() not in {"sqlite", "postgresql"}:
        raise ConfigError(
            "the lake's catalog is in no database that changeledger knows",
            'set `uri` of CHANGELEDGER_CATALOG to "sqlite:////absolute/path/catalog.db" or to '
            '"postgresql+psycopg://user:password@host:port/database"; in the password `@` is `%40`, `%` is '
            "`%25`",
        )
    return url


def _jdbc(catalog: Mapping[str, str]) -> dict[str, str]:
    url = sql_url(catalog["uri"])
    members = {**catalog, "type": "jdbc", "jdbc.schema-version": "V1"}
    if url.get_backend_name() == "sqlite":
        # WAL and the wait let several processes share the file.
        wait = int(1000 * float(str(url.query.get("timeout", _BUSY_SECONDS))))
        return {**members, "uri": f"jdbc:sqlite:{url.database}?journal_mode=WAL&busy_timeout={wait}"}
    query = {name: value for name, value in url.query.items() if name in _TLS}
    place = URL.create("postgresql", host=url.host, port=url.port, database=url.database, query=query)
    login = {"jdbc.user": url.username, "jdbc.password": url.password}
    return {
        **members,
        "uri": f"jdbc:{place.render_as_string(hide_password=False)}",
        **{name: value for name, value in login.items() if value is not None},
    }
