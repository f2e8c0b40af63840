"""Spark's settings of the lake's catalog, derived from those of pyiceberg."""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy import URL

from changeledger.config.database_url import database_url
from changeledger.config.object_path import S3
from changeledger.model.errors import ConfigError

PREFIX = "spark.sql.catalog.lake"
# Parameters of PostgreSQL's URLs that its JDBC driver takes with the same names and meanings.
_TLS = {"sslmode", "sslrootcert", "sslcert", "sslkey"}
# How long a process waits for another one that writes the catalog's SQLite file.
_BUSY_SECONDS = 30.0


def spark_catalog(catalog: Mapping[str, str]) -> dict[str, str]:
    """Returns the settings `spark.sql.catalog.lake*` for `Settings.catalog`.

    A `sql` catalog is Spark's `jdbc` catalog; members of other types mean the same in both. Members of the
    store (`s3.*`) keep their names; those that Iceberg's Java names differently are set under both names.
    Raises ConfigError if a `sql` catalog is in a database that the lake does not support.
    """
    of_type = _jdbc(catalog) if catalog["type"] == "sql" else catalog
    if is_on_s3(catalog):
        of_type = {**_s3(catalog), **of_type}
    return {
        PREFIX: "org.apache.iceberg.spark.SparkCatalog",
        # No caching of catalog entries between queries, so that a task sees commits of other processes.
        f"{PREFIX}.cache-enabled": "false",
        **{f"{PREFIX}.{name}": value for name, value in of_type.items()},
    }


def is_on_s3(catalog: Mapping[str, str]) -> bool:
    """Returns whether data files are on S3.

    If only the REST catalog's server knows the warehouse, `s3.*` members tell.
    """
    return catalog.get("warehouse", "").startswith(S3) or any(name.startswith("s3.") for name in catalog)


def _s3(catalog: Mapping[str, str]) -> dict[str, str]:
    """Returns the members that Iceberg's S3FileIO names differently from pyiceberg."""
    members = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    if "s3.region" in catalog:
        members["client.region"] = catalog["s3.region"]
    # Self-hosted servers have the bucket in the path; Amazon has it in the host name.
    if "s3.endpoint" in catalog:
        is_in_host = catalog.get("s3.force-virtual-addressing", "false").lower() == "true"
        members["s3.path-style-access"] = str(not is_in_host).lower()
    return members


def is_member(name: str) -> bool:
    """Returns whether this Spark setting is a member of the catalog.

    Any member may be a secret (`credential`, `header.Authorization`, `s3.sse.key`), so none is shown to other
    users of the machine.
    """
    return name.startswith(f"{PREFIX}.")


def sql_url(uri: str) -> URL:
    """Returns the URL of a `sql` catalog. Raises ConfigError if the lake does not support the database."""
    url = database_url(uri)
    if url is None or url.get_backend_name() not in {"sqlite", "postgresql"}:
        raise ConfigError(
            "the lake's catalog is not in a database that changeledger supports",
            'set `uri` of CHANGELEDGER_CATALOG to "sqlite:////absolute/path/catalog.db" or to '
            '"postgresql+psycopg://user:password@host:port/database"; in the password `@` is `%40`, `%` is '
            "`%25`",
        )
    if url.get_backend_name() == "sqlite" and "?" in (url.database or ""):
        # The JDBC driver takes what follows for settings, however it is written.
        raise ConfigError(
            f"the path {url.database} of the lake's catalog has a question mark",
            "put it elsewhere: move the project, or set CHANGELEDGER_HOME or CHANGELEDGER_CATALOG",
        )
    return url


def _jdbc(catalog: Mapping[str, str]) -> dict[str, str]:
    url = sql_url(catalog["uri"])
    members = {**catalog, "type": "jdbc", "jdbc.schema-version": "V1"}
    if url.get_backend_name() == "sqlite":
        # WAL and the busy timeout let several processes share the file.
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
