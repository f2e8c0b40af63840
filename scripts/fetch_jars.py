"""Fetch the project's jars into `.jars/<configuration>/`, each checked against `jars/jars.sha256`.

`jars/ivy.xml` names every jar with one exact revision. Ivy, which ships inside pyspark, fetches those that
are missing into a staging folder; a jar gets its place by a rename after its checksum was found right, so an
interrupted or damaged download is repaired by running again. Jars that are no longer listed are removed: two
revisions of one library on a class path would be a matter of chance.

Standard library only: this runs before anything is known about the environment.
"""
# ruff: noqa: S603, T201 - runs Java, pip and uv with arguments of its own, and talks to the terminal

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

PROJECT = Path(__file__).resolve().parent.parent
CACHE = PROJECT / ".cache"
CONFIGURATIONS = ("spark", "spark-s3", "s3", "rest", "kafka", "debezium", "bench")
_CLASSIFIER = "{http://ant.apache.org/ivy/maven}classifier"
Checksums = dict[str, str]
"""`<configuration>/<file>` → SHA-256 in hex; the format of `sha256sum`, so that it can be checked by hand."""


class SetupError(Exception):
    """Set-up cannot go on; the message says what to do."""


def modules(ivy_xml: Path) -> dict[str, ElementTree.Element]:
    """Dependency elements by `<configuration>/<file>`. Ivy's `conf` reads `ours->theirs`."""
    found = {}
    for element in ElementTree.parse(ivy_xml).iter("dependency"):  # noqa: S314
        configuration = element.attrib["conf"].partition("->")[0]
        parts = [element.attrib["name"], element.attrib["rev"]]
        parts += [artifact.attrib[_CLASSIFIER] for artifact in element.iter("artifact")]
        found[f"{configuration}/{'-'.join(parts)}.jar"] = element
    return found


def checksums(lock: Path) -> Checksums:
    lines = (line.split() for line in lock.read_text().splitlines() if line)
    return {file: digest for digest, file in lines}


def sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def unsound(folder: Path, expected: Checksums) -> list[str]:
    """The expected files that are missing from `folder` or differ from their checksum."""
    return [
        name
        for name, digest in expected.items()
        if not (folder / name).is_file() or sha256(folder / name) != digest
    ]


def accept(staging: Path, target: Path, expected: Checksums) -> None:
    """Move the expected files from `staging` to `target`, none of them unless all are right."""
    wrong = unsound(staging, expected)
    if wrong:
        raise SetupError(
            "these jars are missing or do not have the checksum in jars/jars.sha256, so none was taken:\n"
            + "".join(f"    {name}\n" for name in wrong)
            + "  Run the command again. If it stays so, something between here and the jar repository\n"
            "  changes files: ask whoever runs the proxy. After a deliberate change of jars/ivy.xml:\n"
            "  `make lock-jars`."
        )
    for name in expected:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).replace(target / name)


def remove_unlisted(target: Path, configuration: str, listed: Checksums) -> None:
    for file in (target / configuration).glob("*.jar"):
        if f"{configuration}/{file.name}" not in listed:
            file.unlink()


@contextmanager
def staging_folder() -> Iterator[Path]:
    """An empty folder beside the target, so that a rename suffices; what a killed run left in it is gone."""
    staging = CACHE / "jars-staging"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        yield staging
    finally:
        shutil.rmtree(staging)


def download(wanted: list[ElementTree.Element], staging: Path, ivy_jar: Path, java: str) -> None:
    """Let Ivy fetch exactly the wanted modules into `staging/<configuration>/`."""
    root = ElementTree.Element("ivy-module", version="2.0")
    ElementTree.SubElement(root, "info", organisation="changeledger", module="jars")
    configurations = ElementTree.SubElement(root, "configurations")
    for name in CONFIGURATIONS:
        ElementTree.SubElement(configurations, "conf", name=name)
    ElementTree.SubElement(root, "dependencies").extend(wanted)
    ElementTree.ElementTree(root).write(staging / "ivy.xml")
    command = [
        *(java, f"-Divy.default.ivy.user.dir={staging / 'ivy'}", "-jar", str(ivy_jar)),
        *("-settings", str(PROJECT / "jars" / "ivysettings.xml"), "-cache", str(staging / "cache")),
        *("-ivy", str(staging / "ivy.xml"), "-confs", *CONFIGURATIONS),
        *("-retrieve", f"{staging}/[conf]/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    log = CACHE / "logs" / "ivy.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode
    if code:
        problems = [line for line in log.read_text().splitlines() if "not found" in line or "WARN" in line]
        raise SetupError(
            "Ivy could not fetch the jars:\n"
            + "\n".join(problems[:15] or log.read_text().splitlines()[-15:])
            + f"\n  Full log: {log}\n  Check the network (behind a proxy, set JAVA_TOOL_OPTIONS to"
            " -Dhttps.proxyHost=... -Dhttps.proxyPort=...) and run the command again."
        )


def ensure(configurations: list[str], ivy_jar: Path, java: str) -> None:
    """Afterwards `.jars/<configuration>/` holds the listed jars, unchanged, and no others."""
    target = PROJECT / ".jars"
    listed = checksums(PROJECT / "jars" / "jars.sha256")
    expected = {name: digest for name, digest in listed.items() if name.partition("/")[0] in configurations}
    for configuration in configurations:
        remove_unlisted(target, configuration, listed)
    missing = unsound(target, expected)
    if not missing:
        return
    print(f"[set-up] fetching {len(missing)} jars for {', '.join(configurations)} (once) ...", flush=True)
    known = modules(PROJECT / "jars" / "ivy.xml")
    with staging_folder() as staging:
        download([known[name] for name in missing], staging, ivy_jar, java)
        accept(staging, target, {name: expected[name] for name in missing})


def lock(ivy_jar: Path, java: str) -> None:
    """Write `jars/jars.sha256` again, after a deliberate change of `jars/ivy.xml`."""
    known = modules(PROJECT / "jars" / "ivy.xml")
    with staging_folder() as staging:
        download(list(known.values()), staging, ivy_jar, java)
        lines = [f"{sha256(staging / name)}  {name}\n" for name in known]
    (PROJECT / "jars" / "jars.sha256").write_text("".join(lines))
