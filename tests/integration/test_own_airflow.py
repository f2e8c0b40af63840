"""Follows docs/deploy.md: an Airflow without this checkout gets the wheel, and publishes a feed.

Its environment has only what the wheel requires, as links to the packages of this one.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from email.parser import Parser
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from changeledger.config.settings import PROJECT, Settings
from sourcelab import debezium
from sourcelab.airflow_home import AirflowHome
from sourcelab.connect import SparkConnectServer
from sourcelab.linked_python import link_commands, linked_python
from sourcelab.log import simulate
from sourcelab.messages import produce
from sourcelab.services import KafkaBroker

pytestmark = [pytest.mark.integration, pytest.mark.long]

FEED, TOPICS = "shop_debezium", "own.shop."
PAGE = (PROJECT / "docs" / "deploy.md").read_text("utf-8")
INSTALLED = """
from importlib.metadata import entry_points
from importlib.util import find_spec
(plugin,) = [one for one in entry_points(group="airflow.plugins") if one.name == "changeledger"]
print(plugin.load().name, find_spec("changeledger").origin, find_spec("sourcelab"))
"""


def blocks(heading: str) -> list[str]:
    section = re.search(rf"^## \d+\. {heading}\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
    assert section is not None
    return re.findall(r"^```sh\n(.*?)^```$", section[1], re.MULTILINE | re.DOTALL)


def required(wheel: Path) -> set[str]:
    """Returns the names of all distributions that the wheel needs, as installed here."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        metadata = Parser().parsestr(archive.read(name).decode())
    waiting = [(line, "") for line in metadata.get_all("Requires-Dist", [])]
    known: dict[tuple[str, str], str] = {}
    while waiting:
        line, extra = waiting.pop()
        requirement = Requirement(line)
        if requirement.marker and not requirement.marker.evaluate({"extra": extra}):
            continue
        for wanted in ("", *requirement.extras):
            place = canonicalize_name(requirement.name), wanted
            if place not in known:
                known[place] = requirement.name
                waiting += [(line, wanted) for line in distribution(requirement.name).requires or ()]
    return {name for name, _ in known}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel."""
    folder = tmp_path_factory.mktemp("own")
    # The page's pip does the same in five times the time.
    uv("build", "--wheel", "--out-dir", str(folder), str(PROJECT))
    (wheel,) = folder.glob("changeledger-*.whl")
    of_wheel = linked_python(folder / "airflow", sorted(required(wheel)))
    uv("pip", "install", "--no-deps", "--offline", "--python", str(of_wheel), str(wheel))
    uv("pip", "check", "--python", str(of_wheel))
    link_commands(of_wheel)
    return of_wheel


def uv(*arguments: str) -> None:
    ended = subprocess.run(
        [str(Path(sys.prefix) / "bin" / "uv"), *arguments],
        env={**os.environ, "UV_CACHE_DIR": str(PROJECT / ".cache" / "uv")},
        check=False, capture_output=True, text=True,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr


class Shell:
    """A newcomer's shell, in a folder that may change."""

    def __init__(self, python: Path, folder: Path, **variables: str) -> None:
        self.folder = folder
        kept = {name: os.environ[name] for name in ("JAVA_HOME", "LANG") if name in os.environ}
        self.environment = {
            **kept,
            "PATH": f"{python.parent}:{os.environ['PATH']}",
            "HOME": str(folder),
            **variables,
        }

    def run(self, commands: str) -> str:
        ended = subprocess.run(
            ["sh", "-ec", commands], cwd=self.folder, env=self.environment, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-4000:]
        return ended.stdout


def test_the_page(python: Path, kafka: KafkaBroker, tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    log = simulate(5, 30)
    produce(kafka.bootstrap, debezium.messages(log, schemas=True, snapshot=False, prefix="own"))
    project, airflow = tmp_path / "shop", AirflowHome(tmp_path)
    # `airflow dags test` searches for a deadline, and fails.
    airflow.forbid_retries()
    shell = Shell(
        python, tmp_path, AIRFLOW_HOME=str(airflow.home), AIRFLOW__CORE__LOAD_EXAMPLES="False",
        CHANGELEDGER_JARS=os.environ["CHANGELEDGER_JARS"],
    )  # fmt: skip
    plugin, package, others = shell.run(f"python3 -c '{INSTALLED}'").split()
    assert (plugin, others) == ("changeledger", "None")
    assert Path(package).is_relative_to(python.parents[1])
    written, loaded = blocks("Write a project")
    shell.run(written)
    shell.folder = project
    settings = Settings(home=project / ".changeledger")
    with SparkConnectServer(settings, tmp_path) as spark:
        warm = f'{{"conn_type": "spark_connect", "host": "sc://127.0.0.1", "port": {spark.port}}}'
        for file, was, becomes in (
            (".env", "127.0.0.1:9092", kafka.bootstrap),
            (".env", '{"conn_type": "spark", "host": "local[*]"}', warm),
            (f"feeds/{FEED}.yaml", '"shop.shop.*"', f'"{TOPICS}*"'),
            (f"feeds/{FEED}.yaml", "heartbeat.shop", "heartbeat.own"),
        ):
            text = (project / file).read_text("utf-8")
            assert was in text
            (project / file).write_text(text.replace(was, becomes), "utf-8")
        (checked,) = blocks("Check the feed")
        lines = shell.run(loaded + checked).splitlines()
        assert not [line for line in lines if line.startswith(("failed", "warning"))], lines
        assert any(line.startswith("ok      table dbo.customers: key id int") for line in lines), lines
        prepared, _ = blocks("Run it")
        shell.run(f"{loaded}{prepared}airflow dags test {FEED}")
    (looked,) = blocks("Look")
    answer = shell.run(loaded + looked)
    assert FEED in answer
    assert "5 rows" in answer
