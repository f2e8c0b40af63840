"""What the project is made of: the locked Python packages, its own jars, and the jars that pyspark brings."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from changeledger.jars import fetching

PROJECT = Path(__file__).resolve().parent.parent
_LOCKED = re.compile(r"^([\w.\-]+)==([^\s;\\]+)", re.MULTILINE)
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")
# A jar's name where nothing in it says more: the version begins at the first digit after a dash.
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.\-+]*)\.jar\Z")
# Groups of jars that do not say theirs, and read or decode what others have written.
_GROUPS = {
    "bcprov-jdk18on": "org.bouncycastle", "derby": "org.apache.derby", "ivy": "org.apache.ivy",
    "hadoop-client-runtime": "org.apache.hadoop", "jackson-core-asl": "org.codehaus.jackson",
    "jackson-mapper-asl": "org.codehaus.jackson", "libthrift": "org.apache.thrift", "lz4-java": "org.lz4",
    "jackson-module-scala_2.13": "com.fasterxml.jackson.module", "rocksdbjni": "org.rocksdb",
    "scala-library": "org.scala-lang", "snappy-java": "org.xerial.snappy", "xz": "org.tukaani",
    "tink": "com.google.crypto.tink", "zstd-jni": "com.github.luben",
}  # fmt: skip


@dataclass(frozen=True)
class Component:
    """One package or jar. `sha256`: of a Python package those of all its files, of a jar its own."""

    kind: str
    group: str
    name: str
    version: str
    sha256: tuple[str, ...]
    # `python`; the configuration of include/changeledger/jars/ivy.xml; `pyspark`.
    origin: str
    # Of a jar of native code: for which machine.
    classifier: str = ""

    @property
    def purl(self) -> str:
        if self.kind == "pypi":
            return f"pkg:pypi/{re.sub(r'[-_.]+', '-', self.name).lower()}@{self.version}"
        # Without a group nobody can look it up: `generic` says so.
        if not self.group:
            return f"pkg:generic/{self.name}@{self.version}"
        of_machine = f"?classifier={self.classifier}" if self.classifier else ""
        return f"pkg:maven/{self.group}/{self.name}@{self.version}{of_machine}"


def packages(lock: Path = PROJECT / "requirements.txt") -> list[Component]:
    text = lock.read_text("utf-8")
    places = list(_LOCKED.finditer(text))
    ends = [place.start() for place in places[1:]] + [len(text)]
    return [
        Component("pypi", "", p[1], p[2], tuple(_HASH.findall(text, p.end(), end)), "python")
        for p, end in zip(places, ends, strict=True)
    ]


def own_jars() -> list[Component]:
    """Those of ivy.xml, with the checksums that they are compared with when they are fetched."""
    checksums = fetching.checksums()
    return [
        Component("maven", e.attrib["org"], e.attrib["name"], e.attrib["rev"], (checksums[file],), conf)
        for file, e in fetching.modules().items()
        for conf in [file.partition("/")[0]]
    ]


def pyspark_jars(folder: Path | None = None) -> list[Component]:
    """Those in pyspark's wheel, which Spark's class path has beside ours."""
    if folder is None:
        (folder,) = (PROJECT / ".venv").glob("lib/python*/site-packages/pyspark/jars")
    return [_described(jar) for jar in sorted(folder.glob("*.jar"))]


def _described(jar: Path) -> Component:
    digest = fetching.sha256(jar)
    named = _JAR.match(jar.name)
    name, version = (named["name"], named["version"]) if named else (jar.stem, "")
    # A jar of several modules has the properties of all: its own are those that its name is made of.
    for group, artifact, release in _properties(jar):
        if artifact == name or jar.name == f"{artifact}-{release}.jar":
            classifier = jar.stem.removeprefix(f"{artifact}-{release}").removeprefix("-")
            return Component("maven", group, artifact, release, (digest,), "pyspark", classifier)
    return Component("maven", _GROUPS.get(name, ""), name, version, (digest,), "pyspark")


def _properties(jar: Path) -> Iterator[tuple[str, str, str]]:
    with zipfile.ZipFile(jar) as archive:
        for entry in archive.namelist():
            if entry.startswith("META-INF/maven/") and entry.endswith("/pom.properties"):
                lines = archive.read(entry).decode("utf-8", "replace").splitlines()
                properties = dict(line.split("=", 1) for line in lines if "=" in line)
                if {"groupId", "artifactId", "version"} <= properties.keys():
                    yield (
                        properties["groupId"].strip(),
                        properties["artifactId"].strip(),
                        properties["version"].strip(),
                    )


def components() -> list[Component]:
    return [*packages(), *own_jars(), *pyspark_jars()]
