"""Logins to SQL Server with Entra and Kerberos: properties for the driver, and extras refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError

from changeledger.config.connection import Connection
from changeledger.jdbc.client import Session
from changeledger.jdbc.database import JdbcDatabase
from changeledger.jdbc.tls import explained
from changeledger.model.errors import ConfigError

DRIVER = "com.microsoft.sqlserver.jdbc.SQLServerDriver"
SECRET = "s3cret-of-the-test"
PRINCIPAL = {"login": "11111111-2222", "password": SECRET}
KERBEROS = {"integratedSecurity": True, "authenticationScheme": "javakerberos"}


def connection(extra: dict[str, Any], **fields: Any) -> Connection:
    stated = {"conn_type": "mssql", "host": "sql.example", "schema": "shop", "extra": extra, **fields}
    return Connection.model_validate(stated)


def database(extra: dict[str, Any], **fields: Any) -> JdbcDatabase:
    return JdbcDatabase("shop_sql", connection(extra, **fields))


@pytest.fixture
def libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of jars with those that Entra needs."""
    for name in ("msal4j-1.23.0.jar", "azure-identity-1.16.1.jar"):
        (tmp_path / name).touch()
    monkeypatch.setenv("CHANGELEDGER_JARS", str(tmp_path))
    return tmp_path


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(
    ("extra", "fields", "told", "properties"),
    [
        (
            {"authentication": "activedirectoryserviceprincipal"},
            PRINCIPAL,
            "authentication=ActiveDirectoryServicePrincipal",
            {"user": "11111111-2222", "password": SECRET},
        ),
        (
            {"authentication": "ActiveDirectoryManagedIdentity"},
            {},
            "authentication=ActiveDirectoryManagedIdentity",
            {},
        ),
        (
            {"authentication": "ActiveDirectoryManagedIdentity", "applicationIntent": "ReadOnly"},
            {"login": "11111111-2222"},
            "applicationIntent=ReadOnly",
            {"user": "11111111-2222", "password": ""},
        ),
        (
            {"authentication": "ActiveDirectoryPassword", "encrypt": "strict"},
            {"login": "ann@example.com", "password": SECRET},
            "authentication=ActiveDirectoryPassword",
            {"user": "ann@example.com", "password": SECRET},
        ),
        (KERBEROS, {}, "integratedSecurity=true;authenticationScheme=JavaKerberos", {}),
        (
            {**KERBEROS, "realm": "EXAMPLE.COM", "serverSpn": "MSSQLSvc/sql.example:1433@EXAMPLE.COM"},
            {"login": "reader@EXAMPLE.COM", "password": SECRET},
            "realm=EXAMPLE.COM;serverSpn=MSSQLSvc/sql.example:1433@EXAMPLE.COM",
            {"user": "reader@EXAMPLE.COM", "password": SECRET},
        ),
    ],
)
def test_what_the_driver_is_told(
    extra: dict[str, Any], fields: dict[str, Any], told: str, properties: dict[str, str]
) -> None:
    of = database(extra, **fields)
    assert told in of._url()
    assert SECRET not in of._url()
    assert of._properties() == properties


@pytest.mark.usefixtures("libraries")
@pytest.mark.parametrize(
    ("extra", "fields", "says"),
    [
        ({"authentication": "ActiveDirectoryInteractive"}, {}, "asks a person in a browser"),
        ({"authentication": "activedirectorydefault"}, {}, "may use another one"),
        ({"authentication": "ActiveDirectoryIntegrated"}, {}, "each machine's operating system"),
        ({"authentication": "ActiveDirectoryMSI"}, {}, "ActiveDirectoryManagedIdentity now"),
        ({**KERBEROS, "authenticationScheme": "NTLM"}, {}, "authenticationScheme=NTLM is not possible"),
        ({"authentication": "bogus"}, {}, "no usable extra.authentication"),
        ({"authentication": "ActiveDirectoryServicePrincipal"}, {"login": "x"}, "client id and secret"),
        ({"authentication": "ActiveDirectoryManagedIdentity"}, PRINCIPAL, "has no password"),
        (
            {"authentication": "ActiveDirectoryPassword", "trustServerCertificate": "true"},
            PRINCIPAL,
            "must prove who it is",
        ),
        (
            {"authentication": "ActiveDirectoryPassword", "encrypt": "false"},
            PRINCIPAL,
            "must prove who it is",
        ),
        ({"integratedSecurity": "true"}, {}, "needs a DLL of Windows"),
        ({"authenticationScheme": "JavaKerberos"}, PRINCIPAL, "ignores authenticationScheme"),
        ({**KERBEROS, "authentication": "SqlPassword"}, {}, "exclude each other"),
        (KERBEROS, {"login": "reader@EXAMPLE.COM"}, "login and password, or neither"),
        ({**KERBEROS, "realm": "A;encrypt=false"}, {}, "no usable extra.realm"),
        ({**KERBEROS, "serverSpn": "x;trustServerCertificate=true"}, {}, "no usable extra.serverSpn"),
    ],
)
def test_what_is_refused(extra: dict[str, Any], fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        database(extra, **fields)
    assert SECRET not in str(refused.value)


def test_a_library_that_the_driver_does_not_bring() -> None:
    with pytest.raises(ConfigError, match=r"needs com\.microsoft\.azure:msal4j"):
        database({"authentication": "ActiveDirectoryServicePrincipal"}, **PRINCIPAL)
    with pytest.raises(ConfigError, match=r"needs com\.azure:azure-identity"):
        database({"authentication": "ActiveDirectoryManagedIdentity"})


@pytest.mark.integration
@pytest.mark.parametrize(
    ("extra", "fields"),
    [
        ({"authentication": "ActiveDirectoryServicePrincipal"}, PRINCIPAL),
        ({"authentication": "ActiveDirectoryManagedIdentity"}, {}),
        ({"authentication": "ActiveDirectoryPassword"}, PRINCIPAL),
        ({"applicationIntent": "ReadOnly", "authentication": "SqlPassword"}, PRINCIPAL),
        ({**KERBEROS, "realm": "EXAMPLE.COM", "serverSpn": "MSSQLSvc/sql.example:1433"}, {}),
    ],
)
def test_the_driver_takes_what_it_is_told(
    libraries: Path, extra: dict[str, Any], fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Microsoft's driver checks these properties before it looks for a server. Here, none exists."""
    assert libraries.is_dir()
    of = database(extra, **fields, host="127.0.0.1", port=1)
    monkeypatch.undo()
    url = f"{of._url()};connectRetryCount=0"
    with pytest.raises(Py4JJavaError, match="TCP/IP connection to the host 127"):
        Session(DRIVER, url, of._properties()).ask("SELECT 1")
    with pytest.raises(Py4JJavaError) as refused:
        Session(DRIVER, f"{url};authentication=Bogus", of._properties()).ask("SELECT 1")
    assert "TCP/IP" not in str(refused.value)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize(
    "said",
    [
        "Failed to authenticate the user x in Active Directory. AADSTS7000222: The secret keys are expired.",
        "javax.security.auth.login.LoginException: Pre-authentication information was invalid (24)",
        "KrbException: Server not found in Kerberos database (7)",
    ],
)
def test_a_login_that_is_refused_is_not_tried_again(said: str) -> None:
    cause = explained("shop_sql", connection({}), said)
    assert cause is not None
    assert "does not accept the login" in cause.message
