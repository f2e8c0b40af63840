"""Errors that a person sees if a service cannot run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sourcelab.process import free_ports
from sourcelab.services import KafkaBroker, ServiceError, java


def _fake_java(home: Path, version: str) -> None:
    program = home / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-14' >&2\n")
    program.chmod(0o755)


def test_no_java_is_an_error_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ServiceError, match=r"no Java(.|\n)*Remedy: install a Java 17"):
        java()


@pytest.mark.parametrize("version", ["1.8.0_242", "11.0.6"])
def test_an_old_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    _fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ServiceError, match=r"not Java 17 or newer: openjdk version"):
        java()


@pytest.mark.parametrize("version", ["17.0.15", "21"])
def test_a_new_java_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    _fake_java(tmp_path, version)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert java() == str(tmp_path / "bin" / "java")


def test_missing_jars_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ServiceError, match="there is no Kafka in"), KafkaBroker(tmp_path, tmp_path):
        pass


def test_ports_that_are_chosen_together_differ() -> None:
    assert all(len(set(free_ports(4))) == 4 for _ in range(20_000))


def test_without_the_loopback_address_the_remedy_is_said() -> None:
    ipv6_only = "ip link set lo up && ip addr del 127.0.0.1/8 dev lo"
    isolated = ["unshare", "--user", "--map-root-user", "--net", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*isolated, ipv6_only], check=False).returncode:
        pytest.skip("this machine makes no network without 127.0.0.1")
    program = "from sourcelab.process import free_port; free_port()"
    command = [*isolated, f"{ipv6_only} && exec {sys.executable} -c '{program}'"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "no port of 127.0.0.1 can be had: Cannot assign requested address" in ended.stderr
    assert "Remedy: give the loopback interface its IPv4 address" in ended.stderr


def test_a_broker_that_cannot_start_says_what_its_program_said(tmp_path: Path) -> None:
    (tmp_path / "kafka_2.13-0.jar").touch()
    with (
        pytest.raises(ServiceError, match=r"(?s)3 attempts: Kafka cannot format .*exit code 1.*StorageTool"),
        KafkaBroker(tmp_path, tmp_path / "home"),
    ):
        pass
