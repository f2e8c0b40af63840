"""What `changeledger query` answers: queries, and nothing that changes anything."""

from __future__ import annotations

import re

from pyspark.errors import ParseException
from pyspark.sql import DataFrame, SparkSession

from changeledger.model.errors import ConfigError

# In Spark's grammar all statements that begin so only show something. No comment may stand before the word:
# a comment is Spark's to read, and ours might end elsewhere.
_SHOWS = re.compile(r"[ \t\r\n]*(SHOW|DESC|DESCRIBE|EXPLAIN)\b", re.IGNORECASE)

_REMEDY = (
    "`query` changes nothing: it answers one SELECT, WITH ... SELECT, VALUES or TABLE, and statements that "
    "begin with SHOW, DESCRIBE or EXPLAIN"
)


def asked(spark: SparkSession, sql: str) -> DataFrame:
    """What Spark answers to `sql`. Raises ConfigError if it is no query: Spark's own parser decides.

    In parentheses, for nothing but a query can stand in them: no INSERT after a WITH or a FROM, and no
    second statement.
    """
    text = sql.rstrip("; \t\r\n")
    try:
        answer = spark.sql(text if _SHOWS.match(text) else f"({text}\n)")
        # Over Spark Connect nothing is parsed before it is asked for.
        _ = answer.schema
    except ParseException as error:
        raise ConfigError(error.getMessage() or str(error), _REMEDY) from None
    return answer
