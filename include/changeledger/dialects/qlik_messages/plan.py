"""What the kernel must know to decode one table's messages."""

from __future__ import annotations

from dataclasses import dataclass

from changeledger.dialects import plan


@dataclass(frozen=True)
class TablePlan(plan.TablePlan):
    """`avro_schemas`: the Avro schemas that messages name (`avro.Schemas`)."""

    avro_schemas: tuple[tuple[str, str], ...] = ()
