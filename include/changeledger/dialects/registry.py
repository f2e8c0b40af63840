"""The dialects that there are."""

from __future__ import annotations

from changeledger.dialects.base import Dialect
from changeledger.dialects.ces import CES
from changeledger.dialects.debezium import DEBEZIUM
from changeledger.dialects.qlik_messages import QLIK_MESSAGES
from changeledger.dialects.qlik_tables import QLIK_TABLES
from changeledger.dialects.sqlserver_cdc import SQLSERVER_CDC

DIALECTS: dict[str, Dialect] = {
    dialect.name: dialect for dialect in (CES, DEBEZIUM, QLIK_MESSAGES, QLIK_TABLES, SQLSERVER_CDC)
}
