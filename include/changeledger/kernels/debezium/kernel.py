"""Debezium's record of functions."""

from __future__ import annotations

from changeledger.kernels.debezium.decode import decode
from changeledger.kernels.debezium.others import decode_other
from changeledger.kernels.debezium.plan import table_plan
from changeledger.kernels.debezium.routing import routes
from changeledger.kernels.debezium.survey import facts, schema_ids, survey
from changeledger.kernels.interface import MessageKernel

DEBEZIUM = MessageKernel("debezium", facts, schema_ids, survey, routes, table_plan, decode, decode_other)
