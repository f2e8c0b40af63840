"""All dialects, by name."""

from __future__ import annotations

from changeledger.dialects.ces.dialect import CES
from changeledger.dialects.debezium.dialect import DEBEZIUM
from changeledger.dialects.interface import Dialect
from changeledger.dialects.qlik_messages.dialect import QLIK_MESSAGES
from changeledger.dialects.qlik_tables.dialect import QLIK_TABLES
from changeledger.dialects.sqlserver_cdc.dialect import SQLSERVER_CDC

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (CES, DEBEZIUM, QLIK_MESSAGES, QLIK_TABLES, SQLSERVER_CDC)
}
