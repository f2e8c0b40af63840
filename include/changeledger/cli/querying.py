"""What Spark answers to a checked statement."""

from __future__ import annotations

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

from changeledger.cli.statement.check import Statement
from changeledger.model.errors import ConfigError


def asked(spark: SparkSession, statement: Statement) -> DataFrame:
    """Raises ConfigError if Spark cannot read it."""
    try:
        answer = spark.sql(statement.text)
        # Over Spark Connect nothing is parsed before it is asked for.
        _ = answer.schema
    except ParseException as error:
        raise ConfigError(error.getMessage() or str(error), "correct the statement") from None
    return answer
