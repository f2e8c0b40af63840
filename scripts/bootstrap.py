"""Sets up the project with only Python 3.11 and Java: `.venv` from the lock, `.jars` from Ivy.

`make` runs it. It skips what is up to date, and rebuilds what an interrupted run left behind. Everything
stays inside the project folder; the home folder is neither read nor written.
"""
# ruff: noqa: S603, T201 - runs Java, pip and uv with arguments of its own, and talks to the terminal

from __future__ import annotations

import argparse
import compileall
import fcntl
import hashlib
import json
import locale
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT / "include"))

from changeledger.jars.fetching import CONFIGURATIONS, SetupError, ensure, lock  # noqa: E402
from changeledger.jars.java import java  # noqa: E402

CACHE = PROJECT / ".cache"
JARS = PROJECT / ".jars"
UV = "uv==0.13.8"
VENV = PROJECT / ".venv"
STAMP = VENV / "changeledger-setup.json"
LOGS = CACHE / "logs"


def say(text: str) -> None:
    print(f"[set-up] {text}", flush=True)


def require_readable(project: Path, encoding: str) -> None:
    """Raises SetupError if the project's path cannot be read in the locale's encoding.

    Python 3.11 decodes the path of an editable package with it, and Java its arguments.
    """
    if not str(project).isascii() and encoding.lower().replace("-", "") != "utf8":
        raise SetupError(
            f"the locale's encoding is {encoding}, in which the folder {project} cannot be read.\n"
            "  Use a locale of UTF-8 (export LC_ALL=C.UTF-8), here and later, or move the project"
            " to a folder whose path is ASCII."
        )


def run_logged(name: str, command: list[str], hint: str) -> None:
    """Runs a command with output to `.cache/logs/<name>.log`, and prints a sign of life every 20 s.

    Raises SetupError with the end of the log if the command fails.
    """
    log, begun = LOGS / f"{name}.log", time.monotonic()
    # uv's cache is in the project, so an interrupted download of 700 MB resumes where it stopped.
    environment = {"UV_CACHE_DIR": str(CACHE / "uv"), "UV_PYTHON_DOWNLOADS": "never", **os.environ}
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=PROJECT, env=environment)
        try:
            while True:
                try:
                    code = process.wait(timeout=20)
                    break
                except subprocess.TimeoutExpired:
                    say(f"  ... {name}: {time.monotonic() - begun:.0f} s")
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if code:
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:])
        raise SetupError(f"{name} failed:\n{tail}\n  Full log: {log}\n  {hint}")


def wanted_stamp() -> dict[str, str]:
    """Returns what the environment depends on. The folder counts: `.venv/bin` has absolute paths."""
    files = [PROJECT / "requirements.txt", PROJECT / "pyproject.toml"]
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()
    return {"project": str(PROJECT), "lock": digest, "uv": UV}


def stamped() -> dict[str, str]:
    """Returns the stamp of the last successful set-up, empty if there is none or its Python is gone."""
    if not (VENV / "bin" / "python").exists() or not STAMP.exists():
        return {}
    stamp: dict[str, str] = json.loads(STAMP.read_text())
    return stamp if stamp["project"] == str(PROJECT) else {}


def ensure_python() -> None:
    """Installs requirements.txt into `.venv`, and the project itself as an editable package."""
    wanted, present = wanted_stamp(), stamped()
    if present == wanted:
        return
    STAMP.unlink(missing_ok=True)
    begun = time.monotonic()
    retry = "Check the network and run the command again: what was downloaded is kept."
    if not present:
        say("making .venv")
        if VENV.is_symlink():
            # Its target belongs to another tree, and would be emptied.
            VENV.unlink()
        remedy = "If the venv module is missing (Debian and Ubuntu): apt-get install python3.11-venv"
        run_logged("venv", [sys.executable, "-m", "venv", "--clear", str(VENV)], remedy)
    python = str(VENV / "bin" / "python")
    if present.get("uv") != UV:
        run_logged("uv", [python, "-m", "pip", "install", "--no-cache-dir", "--quiet", UV], retry)
    say("installing the locked Python packages (700 MB, so the first time takes minutes) ...")
    uv = [str(VENV / "bin" / "uv"), "pip"]
    # Compiled once, as pip does. On a machine set to write no bytecode, every process would otherwise compile
    # what it imports, which is half of Airflow's start.
    sync = [*uv, "sync", "--python", python, "--require-hashes", "--compile-bytecode", "requirements.txt"]
    run_logged("packages", sync, retry)
    run_logged("project", [*uv, "install", "--python", python, "--no-deps", "--editable", "."], retry)
    # Removes 1.4 GB of unpacked sources and wheels; packages built here stay for the next change of the lock.
    run_logged("cache", [str(VENV / "bin" / "uv"), "cache", "prune", "--ci"], retry)
    STAMP.write_text(json.dumps(wanted))
    say(f"Python packages are there after {time.monotonic() - begun:.0f} s")


def ivy_jar() -> Path:
    jars = sorted(VENV.glob("lib/python*/site-packages/pyspark/jars/ivy-*.jar"))
    if not jars:
        raise SetupError(f"pyspark in {VENV} has no Ivy.\n  Remove {VENV} and run the command again.")
    return jars[0]


def class_archive(jars: Path, java_command: str) -> Path:
    """Returns the path of the archive of Spark's classes, named by all that it depends on."""
    folders = jars, jars.with_name("spark-s3"), ivy_jar().parent
    files = sorted(file for folder in folders for file in folder.glob("*.jar"))
    parts = [f"{file} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    banner = subprocess.run([java_command, "-version"], capture_output=True, text=True, check=True).stderr
    return jars / f"classes-{hashlib.sha256(chr(10).join([banner, *parts]).encode()).hexdigest()[:16]}.jsa"


def ensure_class_archive(java_command: str) -> None:
    """Creates the archive of Spark's classes if it is absent.

    It halves Spark's start. If it cannot be created, everything works without it.
    """
    jars = PROJECT / ".jars" / "spark"
    archive = class_archive(jars, java_command)
    if archive.exists():
        return
    for other in jars.glob("classes-*"):
        other.unlink()
    say("making an archive of Spark's classes (once) ...")
    try:
        script = [str(VENV / "bin" / "python"), str(PROJECT / "scripts" / "class_archive.py"), str(archive)]
        run_logged("classes", script, "Spark starts without it, in twice the time.")
    except SetupError as error:
        say(str(error))


@contextmanager
def alone(what: str) -> Iterator[None]:
    """Serializes concurrent calls of make: the second waits for the first, then finds everything in place."""
    with (CACHE / f"{what}.lock").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        yield


def set_up(configurations: list[str], *, renew_lock: bool) -> None:
    if sys.version_info[:2] != (3, 11):
        raise SetupError("Python 3.11 is needed; run this through make, which looks for it.")
    require_readable(PROJECT, locale.getencoding())
    java_command = java() if configurations else ""
    LOGS.mkdir(parents=True, exist_ok=True)
    with alone("packages"):
        ensure_python()
        # Compiled like the packages; only changed files.
        compileall.compile_dir(PROJECT / "include", quiet=1)
    # Callers that need no jars, such as `make lint`, do not wait for them.
    if configurations:
        with alone("jars"):
            if renew_lock:
                lock(JARS, ivy_jar(), java_command, LOGS / "ivy.log")
            ensure(configurations, JARS, ivy_jar(), java_command, LOGS / "ivy.log", say)
            if "spark" in configurations:
                ensure_class_archive(java_command)


def main() -> int:
    parser = argparse.ArgumentParser(description="Set up .venv, and .jars for the configurations named.")
    parser.add_argument("configurations", nargs="*", metavar="CONFIGURATION", help=", ".join(CONFIGURATIONS))
    parser.add_argument("--lock-jars", action="store_true", help="write jars.sha256 again")
    arguments = parser.parse_args()
    if unknown := set(arguments.configurations) - set(CONFIGURATIONS):
        parser.error(f"no such configuration: {', '.join(sorted(unknown))}")
    try:
        set_up(arguments.configurations, renew_lock=arguments.lock_jars)
    except SetupError as error:
        print(f"[set-up] {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\n[set-up] interrupted; run the command again to go on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
