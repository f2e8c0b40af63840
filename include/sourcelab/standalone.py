"""A standalone Spark cluster: a master and workers in their own processes, without the project."""

from __future__ import annotations

import json
import os
import urllib.request
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]

from changeledger.config.settings import Settings
from changeledger.spark.session import FOR_MINUTES_JVM, class_archive, class_path
from sourcelab.children import kill_all, tree_of
from sourcelab.connect import pyspark_home
from sourcelab.linked_python import linked_python
from sourcelab.process import Service, free_ports

# Packages that the workers' Python needs (docs/connections.md, "Connections"), with dependencies.
PACKAGES = (
    "pyspark", "py4j", "pyarrow", "numpy", "msgspec", "fastavro", "pydantic", "pydantic-core",
    "pydantic-settings", "PyYAML", "annotated-types", "typing-extensions", "typing-inspection",
    "python-dotenv", "pyiceberg", "mmh3", "strictyaml", "python-dateutil", "six", "pyparsing", "pyroaring",
    "cachetools", "zstandard", "tenacity", "fsspec", "confluent-kafka",
)  # fmt: skip


def python_of_workers(folder: Path) -> Path:
    """Creates a Python environment with only these packages, without the project."""
    return linked_python(folder, PACKAGES)


def _daemons_jvm() -> dict[str, str]:
    """Returns the JVM variables of the daemons, which do little work themselves.

    The class archive belongs to the class path of local Sparks, which contains no folder.
    """
    settings = Settings()
    options = [FOR_MINUTES_JVM, "-XX:+UseSerialGC", *class_archive(settings)]
    return {
        "SPARK_DAEMON_JAVA_OPTS": " ".join(options),
        "SPARK_DAEMON_CLASSPATH": os.pathsep.join(class_path(settings)),
    }


def authenticated(secret: str) -> str:
    """Returns the properties of authentication, which a driver needs, too."""
    return f"spark.authenticate true\nspark.authenticate.secret {secret}\n" if secret else ""


class _Part(Service):
    """A Spark daemon with the workers' Python. No variable of this process leads it to the project."""

    def __init__(self, home: Path, name: str, python: Path, secret: str = "") -> None:
        """`secret`: authenticates Spark's programs to each other; if empty, they do not authenticate."""
        self.name = name
        super().__init__(home)
        self.python, self.secret = python, secret
        self.port, self.web = 0, 0

    def prepare(self) -> None:
        self.port, self.web = free_ports(2)
        self._file.write_text(authenticated(self.secret), "utf-8")

    @property
    def _file(self) -> Path:
        return self.home / f"{self.name}.properties"

    def begin(self, of: str, *arguments: str, ready: str) -> None:
        spark = pyspark_home()
        path = f"{self.python.parent}{os.pathsep}{os.environ['PATH']}"
        kept = {name: os.environ[name] for name in ("HOME", "JAVA_HOME", "LANG") if name in os.environ}
        variables = {**kept, "PATH": path, "SPARK_HOME": str(spark), "SPARK_LOCAL_IP": "127.0.0.1"}
        variables |= _daemons_jvm()
        command = [
            "env", "-i", *(f"{name}={value}" for name, value in variables.items()),
            "SPARK_DAEMON_MEMORY=256m", f"SPARK_WORKER_DIR={self.home}",
            f"SPARK_CONF_DIR={self.home}/no-conf",
            str(spark / "bin" / "spark-class"), f"org.apache.spark.deploy.{of}",
            "--properties-file", str(self._file), *arguments,
        ]  # fmt: skip
        self.launch_until(ready, command)

    def clean(self) -> None:
        """Removes nothing: the folder is removed with the test's."""


class Master(_Part):
    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Additional variables for a process that submits."""
        return {}

    @property
    def defaults(self) -> str:
        """Lines of spark-defaults.conf for submitting programs."""
        return authenticated(self.secret)

    def run(self) -> None:
        at = ("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.web))
        self.begin("master.Master", *at, ready="New state: ALIVE")

    def workers(self) -> list[str]:
        """Returns the state of every worker that has ever registered."""
        return [worker["state"] for worker in asked(f"http://127.0.0.1:{self.web}/json/")["workers"]]


class Worker(_Part):
    def __init__(self, home: Path, name: str, python: Path, master: Master) -> None:
        super().__init__(home, name, python, master.secret)
        self.master = master

    def run(self) -> None:
        at = ("--host", "127.0.0.1", "--port", str(self.port), "--webui-port", str(self.web))
        size = ("--cores", "1", "--memory", "1g")
        self.begin("worker.Worker", *at, *size, self.master.url, ready="Successfully registered")

    def executors(self) -> dict[tuple[str, str], psutil.Process]:
        """Returns its running executors, by application id and executor id."""
        running: dict[tuple[str, str], psutil.Process] = {}
        for process in self._tree():
            options = _command(process)
            if "--executor-id" in options:
                app, own = (options[options.index(name) + 1] for name in ("--app-id", "--executor-id"))
                # A child such as `chmod` briefly has the executor's command line, but comes later.
                running.setdefault((app, own), process)
        return running

    def lose_power(self) -> None:
        kill_all(self._tree())

    def _tree(self) -> list[psutil.Process]:
        assert self._process is not None
        return tree_of(self._process.pid)


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


def asked(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=5) as answer:  # noqa: S310 - a master's page
        return json.load(answer)
