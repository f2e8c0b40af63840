"""A Spark Connect server whose Python workers serve the jobs of all sessions.

Spark's own server keeps the files of each session apart, and therefore starts Python workers for each
session, whose imports take longer than a small job. This server is an application of PySpark, which does not:
its workers use the package as this process has it. It announces that (`changeledger.spark.workers`), so jobs
do not send the package.
"""

from __future__ import annotations

import os
from pathlib import Path

import changeledger
from changeledger.spark.workers import PACKAGE, digest
from sourcelab.connect import SparkConnectServer


class SharedWorkers(SparkConnectServer):
    """Serves only jobs of the same version of the package."""

    application = (
        "--conf",
        "spark.plugins=org.apache.spark.sql.connect.SparkConnectPlugin",
        # Python searches the script's folder first, and nothing else is in it.
        str(Path(__file__).with_name("application.py")),
    )

    @property
    def environment(self) -> dict[str, str]:
        package = str(Path(changeledger.__path__[0]).parent)
        others = os.environ.get("PYTHONPATH")
        return {"PYTHONPATH": os.pathsep.join([package, others] if others else [package])}

    @property
    def more_conf(self) -> dict[str, str]:
        return {PACKAGE: digest()}
