"""Start a Spark Connect server on this installation's lake. Arguments go to spark-submit.

Extensions and catalogs belong to the server's start. The catalog's password goes into a file of this user
alone: on a command line everybody could read it.
"""

import os
import sys
import tempfile
from pathlib import Path

from changeledger.config.settings import Settings
from changeledger.spark.session import as_properties, jars, spark_conf

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


def main() -> None:
    settings = Settings()
    conf = {**spark_conf(settings), "spark.jars": ",".join(jars(settings)), "spark.app.name": "changeledger"}
    if secret := os.environ.get("SPARK_AUTHENTICATE_SECRET"):
        # A file of properties takes the place of spark-defaults.conf.
        conf |= {"spark.authenticate": "true", "spark.authenticate.secret": secret}
    # Readable by its owner only, as mkstemp makes it.
    handle, name = tempfile.mkstemp(suffix=".properties")
    os.close(handle)
    Path(name).write_text(as_properties(conf), "utf-8")
    command = ["spark-submit", *sys.argv[1:], "--properties-file", name, "--class", SERVER, "spark-internal"]
    os.execvp(command[0], command)  # noqa: S606 - no shell is wanted, and this process' place is


if __name__ == "__main__":
    main()
