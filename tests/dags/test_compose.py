"""docker-compose.yaml: valid for the validator, pinned, on loopback, without secrets."""

import os
import re
import subprocess
import sys
from pathlib import Path

import yaml

from changeledger.config import PROJECT

FILE = PROJECT / "docker-compose.yaml"


def services() -> dict[str, dict[str, object]]:
    return dict(yaml.safe_load(FILE.read_text())["services"])


def complaints(tmp_path: Path, environment: str) -> str:
    """What the validator says. Its exit code is 0 whatever it finds."""
    (tmp_path / "env").write_text(environment)
    command = [
        str(Path(sys.executable).with_name("docker-compose")),
        "--env-file", str(tmp_path / "env"), "-f", str(FILE), "--profile", "*", "config", "-q",
    ]  # fmt: skip
    kept = {"PATH": os.environ["PATH"], "DOCKER_HOST": "unix:///nonexistent"}
    return subprocess.run(command, env=kept, capture_output=True, text=True, check=False).stderr


def test_valid_once_the_example_is_filled_in(tmp_path: Path) -> None:
    example = (PROJECT / ".env.example").read_text()
    assert complaints(tmp_path, re.sub(r"(?m)^(\w+)=$", r"\1=filled", example)) == ""


def test_an_empty_secret_is_refused(tmp_path: Path) -> None:
    assert "see .env.example" in complaints(tmp_path, (PROJECT / ".env.example").read_text())


def test_images_are_pinned() -> None:
    for service in services().values():
        assert re.search(r":v?\d+\.\d+", str(service["image"])), service["image"]


def test_ports_are_on_loopback() -> None:
    ports = [str(port) for service in services().values() for port in service.get("ports", [])]  # type: ignore[attr-defined]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)


def test_what_stays_up_says_whether_it_is_well() -> None:
    assert [name for name, service in services().items() if "healthcheck" not in service] == ["airflow-init"]
