"""The dialects that there are."""

from __future__ import annotations

from changeledger.dialects.base import Dialect
from changeledger.dialects.ces import CES
from changeledger.dialects.debezium import DEBEZIUM
from changeledger.dialects.sqlserver_cdc import SQLSERVER_CDC

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialect in (DEBEZIUM, CES, SQLSERVER_CDC)}
