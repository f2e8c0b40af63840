"""Values as change event streaming writes them: all are text, and NULL is JSON's null."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sourcelab.tables import Column
from sourcelab.values import real_text


def wire_text(column: Column, value: Any) -> str | None:  # noqa: PLR0911 - one return a type
    """Returns SQL Server's text of a value. The format of bit, float and binary is not documented."""
    if value is None:
        return None
    if column.base == "bit":
        return "1" if value else "0"
    if column.base in {"datetime", "datetime2"}:
        return _instant(column, value)
    if column.base == "datetimeoffset":
        # 2018-07-13T12:23:45.456+11:00 becomes 2018-07-13 12:23:45.456 +11:00
        return f"{value[:10]} {value[11:-6]} {value[-6:]}"
    if column.base == "varbinary":
        return f"0x{value.hex().upper()}"
    if column.base == "real":
        return real_text(value)
    if column.base == "float":
        return repr(value)
    if column.decimal is not None:
        return f"{value:f}"
    return str(value)


def _instant(column: Column, value: datetime) -> str:
    digits = column.arguments[0] if column.arguments else 3
    text = value.isoformat(" ", timespec="microseconds")
    return text[: 20 + digits] if digits else text[:19]
