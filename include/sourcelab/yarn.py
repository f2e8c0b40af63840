"""Hadoop's YARN: a resource manager and a node manager in one process, from their jars."""

from __future__ import annotations

import shutil
from pathlib import Path

from sourcelab.connect import pyspark_home
from sourcelab.process import Service, ServiceError
from sourcelab.services import java

_QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
_JVM = ("-Xmx256m", *_QUICK, "--add-opens=java.base/java.lang=ALL-UNNAMED")


class Yarn(Service):
    """A YARN cluster. Programs submitted to the master `yarn` find it by `HADOOP_CONF_DIR`."""

    name = "yarn"
    url = "yarn"

    def __init__(self, jars: Path, home: Path) -> None:
        """`jars`: the folder of all the project's jars."""
        super().__init__(home)
        self.jars = jars.absolute() / "yarn"
        self.conf = self.home / "conf"

    @property
    def environment(self) -> dict[str, str]:
        return {"HADOOP_CONF_DIR": str(self.conf)}

    @property
    def defaults(self) -> str:
        """Lines of spark-defaults.conf for submitting programs.

        Without them Spark copies all its jars at each start, and an application gets two executors.
        """
        return (
            f"spark.yarn.jars local:{pyspark_home()}/jars/*\nspark.yarn.stagingDir {self.home}/data\n"
            f"spark.yarn.am.extraJavaOptions {' '.join(_QUICK)}\nspark.executor.instances 1\n"
        )

    def prepare(self) -> None:
        if not list(self.jars.glob("*.jar")):
            raise ServiceError(f"there are no jars in {self.jars}", "run `make test`, which fetches them")
        self.clean()
        for folder in (self.conf, self.home / "data"):
            folder.mkdir(exist_ok=True)

    def run(self) -> None:
        classes = f"{self.jars}/*:{pyspark_home()}/jars/*"
        source = Path(__file__).with_name("Yarn.java")
        self.launch_until("YARN started", [java(), *_JVM, "-cp", classes, str(source), str(self.conf)])

    def clean(self) -> None:
        """Removes the cluster's files. `target` is where it keeps the files of its applications."""
        for folder in ("conf", "data", "target"):
            shutil.rmtree(self.home / folder, ignore_errors=True)
