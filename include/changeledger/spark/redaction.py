"""Hides catalog members, users' secrets, and values of rows from Spark's pages and logs.

Settings that match `spark.redaction.regex` show as `***` on Spark's pages and in its event log. Settings that
the user's own expression hides stay hidden.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from changeledger.spark.lake_catalog import PREFIX

SETTING: Final = "spark.redaction.regex"
# Spark's default.
_USUAL: Final = "secret|password|token|access[.]?key"
_CATALOG: Final = PREFIX.replace(".", "[.]") + "[.]"
# A line of a Java properties file.
_LINE: Final = re.compile(rf"\s*{re.escape(SETTING)}(?:\s*[=:]\s*|\s+)(.*\S)\s*")


def regex() -> str:
    """Returns the regular expression, in Java's syntax, for names of settings whose values are hidden."""
    ours = f"(?i:{_USUAL}|{_CATALOG})"
    theirs = _stated()
    return f"{ours}|(?:{theirs})" if theirs else ours


def silence_clients() -> None:
    """Stops PySpark from logging errors of queries, which it does before it raises them."""
    from pyspark.logger import PySparkLogger  # noqa: PLC0415 - seconds to import

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _stated() -> str | None:
    """Returns the expression of `spark-defaults.conf`, which our setting would replace."""
    try:
        lines = Path(_folder(), "spark-defaults.conf").read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    stated = [line[1] for line in map(_LINE.fullmatch, lines) if line is not None]
    # A backslash escapes the next letter.
    return re.sub(r"\\(.)", r"\1", stated[-1]) if stated else None


def _folder() -> Path:
    """Returns the folder in which Spark's launcher looks for its defaults."""
    stated = os.environ.get("SPARK_CONF_DIR")
    if stated:
        return Path(stated)
    home, package = os.environ.get("SPARK_HOME"), find_spec("pyspark")
    installed = Path(package.origin).parent if package is not None and package.origin else Path()
    return Path(home or installed, "conf")
