"""Catalog and store over TLS with a private authority, and a login by OAuth2.

Python and Spark trust the authority by their environment, and exchange a secret for the catalog's token.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sourcelab.object_store import RestCatalog, S3Server
from tests.certificates import Authority
from tests.conftest import JARS
from tests.integration.line import python

pytestmark = [pytest.mark.integration, pytest.mark.long]

# Python writes, Spark reads and writes, Python reads.
BOTH = """
import pyarrow as pa
from changeledger.lake import catalog
from changeledger.spark.session import spark_session

catalog.create_namespace("shop")
catalog._catalog().create_table("shop.t", pa.schema([("id", pa.int64())])).append(pa.table({"id": [1]}))
spark = spark_session("tls")
spark.sql("INSERT INTO lake.shop.t SELECT id + 1 FROM lake.shop.t")
print("ids", sorted(catalog.load("lake.shop.t").scan().to_arrow()["id"].to_pylist()))
"""
CATALOG = """
from changeledger.lake import catalog
from changeledger.spark.failures import named

with named():
    catalog.namespaces()
"""
STORE = """
from changeledger.config.settings import Settings
from changeledger.pages import html
from changeledger.spark.failures import named

with named():
    html.put(Settings().data_docs / "page.html", "text")
"""


def test_a_private_authority_and_oauth2(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    keystore = authority.keystore()
    with (
        S3Server(JARS.parent, tmp_path, keystore=keystore) as store,
        RestCatalog(JARS.parent, tmp_path, store, oauth2=True) as server,
    ):
        variables = {
            "CHANGELEDGER_HOME": str(tmp_path / "home"),
            "CHANGELEDGER_CATALOG": json.dumps(server.settings),
            "CHANGELEDGER_PAGES": f"{server.settings['warehouse']}/pages",
        }
        # Each client has its own list of authorities.
        trusting = {
            "REQUESTS_CA_BUNDLE": str(authority.path),
            "SSL_CERT_FILE": str(authority.path),
            "JAVA_TOOL_OPTIONS": " ".join(keystore.trusting),
        }
        written = python("-c", BOTH, **variables, **trusting)
        assert "ids [1, 2]" in written.stdout, written.stderr[-3000:]
        for script in (CATALOG, STORE):
            refused = python("-c", script, **variables)
            assert "ConfigError: a server's certificate is not trusted" in refused.stderr
            assert "docs/lake.md" in refused.stderr
        variables["CHANGELEDGER_CATALOG"] = json.dumps({**server.settings, "credential": "lake:another"})
        refused = python("-c", CATALOG, **variables, **trusting)
        assert "ConfigError: the lake's catalog or store refuses the credentials" in refused.stderr
