"""The matrix's Spark Connect server: jobs share its Python workers.

Spark's own server keeps the files of each session apart, and for that starts Python workers for each, whose
imports take longer than a stage. Here all import the package from one place (`job._prepare`).
"""

from __future__ import annotations

from pathlib import Path

from sourcelab.connect import SparkConnectServer


class SharedWorkers(SparkConnectServer):
    """Started inside an application of PySpark, which does not keep sessions' files apart."""

    application = (
        "--conf",
        "spark.plugins=org.apache.spark.sql.connect.SparkConnectPlugin",
        # Python finds what is beside it first: here that would be `operator`.
        str(Path(__file__).parents[1] / "connect_server.py"),
    )
