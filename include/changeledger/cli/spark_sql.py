"""Runs a checked statement on Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC
from decimal import Decimal
from typing import Any

from pyspark.errors import AnalysisException, PySparkNotImplementedError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructType, TimestampType

from changeledger.cli.answers import Answer, plain
from changeledger.model.errors import ConfigError
from changeledger.read_only_sql.check import Statement
from changeledger.spark import failures

# Errors for values that Python cannot represent: an interval of months, or a zoned time on its first day.
_OF_PYTHON = (PySparkNotImplementedError, ValueError, OverflowError)
_EXISTING = (
    "correct the statement: changeledger query 'SHOW NAMESPACES IN lake' lists the feeds, "
    "'FROM lake.<feed>.<table>.refs' the branches and tags of a table, and '.snapshots' its snapshots"
)


def answer(spark: SparkSession, statement: Statement, most: int | None = None) -> Answer:
    """Returns the first `most` rows; None: all. Raises ConfigError if Spark cannot run the statement."""
    try:
        frame = spark.sql(statement.text)
        # Spark Connect analyses a statement only when something of it is asked for.
        kinds = [field.dataType for field in frame.schema.fields]
    except AnalysisException as error:
        raise ConfigError(error.getMessage() or str(error), "correct the statement") from None
    except Exception as error:
        said = failures.of_reference(error)
        if said is None:
            raise
        raise ConfigError(said, _EXISTING) from None
    return Answer(frame.columns, _rows(frame if most is None else frame.limit(most), kinds))


def use_utc() -> None:
    """Sets this process' time zone to UTC.

    PySpark returns timestamps as local times of this process without a zone. In a repeated hour two different
    ones would be equal.
    """
    os.environ["TZ"] = "UTC"
    time.tzset()


def _rows(frame: DataFrame, kinds: list[DataType]) -> Iterator[tuple[object, ...]]:
    try:
        for row in frame.toLocalIterator():
            yield tuple(plain(_typed(cell, kind)) for cell, kind in zip(row, kinds, strict=True))
    except _OF_PYTHON as error:
        raise ConfigError(
            f"a value of the answer cannot be shown: {error}", "cast its column: CAST(... AS STRING)"
        ) from None
    except Exception as error:
        said = failures.of_data(error)
        if said is None:
            raise
        raise ConfigError(said, "correct the statement") from None


def _typed(cell: Any, kind: DataType) -> Any:
    """Returns the cell with UTC at its timestamps, and with decimals in the scale of their type."""
    if cell is None:
        return None
    if isinstance(kind, TimestampType | DecimalType):
        return _exact(cell, kind)
    if isinstance(kind, StructType):
        return {
            field.name: _typed(member, field.dataType)
            for field, member in zip(kind.fields, cell, strict=True)
        }
    if isinstance(kind, ArrayType):
        return [_typed(member, kind.elementType) for member in cell]
    if isinstance(kind, MapType):
        return {_typed(key, kind.keyType): _typed(member, kind.valueType) for key, member in cell.items()}
    return cell


def _exact(cell: Any, kind: TimestampType | DecimalType) -> Any:
    if isinstance(kind, DecimalType):
        # PySpark returns 1E-10 of scale 10 as 1.00E-10, of scale 12.
        return Decimal(format(cell, f".{kind.scale}f"))
    return cell.astimezone(UTC)
