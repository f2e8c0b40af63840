"""A session as one would start it without this project: on the same catalog, with Spark's own JVM options.

Its jars are the project's and those of Spark's Kafka source (`.jars/bench`).
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from changeledger.config.settings import Settings
from changeledger.spark.session import local_conf, spark_conf


def plain_session(name: str) -> SparkSession:
    settings = Settings()
    builder = SparkSession.builder.appName(name).master("local[*]")
    conf = {**local_conf(settings), **spark_conf(settings)}
    conf["spark.jars"] = ",".join(map(str, settings.jars.with_name("bench").glob("*.jar")))
    for key, value in conf.items():
        if key != "spark.driver.extraJavaOptions":
            builder = builder.config(key, value)
    return builder.getOrCreate()
