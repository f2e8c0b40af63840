"""A session as one starts it without this project: on the same catalog and jars, with Spark's own JVM options."""

from __future__ import annotations

from pyspark.sql import SparkSession

from changeledger.config.settings import Settings
from changeledger.storage.session import local_conf, spark_conf


def plain_session(name: str) -> SparkSession:
    settings = Settings()
    builder = SparkSession.builder.appName(name).master("local[*]")
    for key, value in {**local_conf(settings), **spark_conf(settings)}.items():
        if key != "spark.driver.extraJavaOptions":
            builder = builder.config(key, value)
    return builder.getOrCreate()
