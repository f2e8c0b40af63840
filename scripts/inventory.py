"""Lists the project's components: locked Python packages, its own jars, and the jars in pyspark."""

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
# The name of a jar that contains no metadata: the version begins at the first digit after a dash.
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[\w.\-+]*)\.jar\Z")
# Groups of jars that do not state theirs, and that read or decode data written by others.
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
    """A package or jar. `sha256`: the hashes of all files of a Python package, or that of the jar."""

    kind: str
    group: str
    name: str
    version: str
    sha256: tuple[str, ...]
    # `python`, the configuration of include/changeledger/jars/ivy.xml, or `pyspark`.
    origin: str
    # The platform of a jar with native code.
    classifier: str = ""

    @property
    def purl(self) -> str:
        if self.kind == "pypi":
            return f"pkg:pypi/{re.sub(r'[-_.]+', '-', self.name).lower()}@{self.version}"
        # `generic` says that it cannot be looked up, since its group is unknown.
        if not self.group:
            return f"pkg:generic/{self.name}@{self.version}"
        of_machine = f"?classifier={self.classifier}" if self.classifier else ""
        return f"pkg:maven/{self.group}/{self.name}@{self.version}{of_machine}"


def packages() -> list[Component]:
    text = (PROJECT / "requirements.txt").read_text("utf-8")
    places = list(_LOCKED.finditer(text))
    ends = [place.start() for place in places[1:]] + [len(text)]
    return [
        Component("pypi", "", p[1], p[2], tuple(_HASH.findall(text, p.end(), end)), "python")
        for p, end in zip(places, ends, strict=True)
    ]


def own_jars() -> list[Component]:
    """Returns the jars of ivy.xml, with the checksums that they are verified with when fetched."""
    checksums = fetching.checksums()
    return [
        Component("maven", e.attrib["org"], e.attrib["name"], e.attrib["rev"], (checksums[file],), conf)
        for file, e in fetching.modules().items()
        for conf in [file.partition("/")[0]]
    ]


def pyspark_jars() -> list[Component]:
    """Returns the jars in pyspark's wheel, which are on Spark's class path beside ours."""
    (folder,) = (PROJECT / ".venv").glob("lib/python*/site-packages/pyspark/jars")
    return [_described(jar) for jar in sorted(folder.glob("*.jar"))]


def _described(jar: Path) -> Component:
    digest = fetching.sha256(jar)
    named = _JAR.match(jar.name)
    name, version = (named["name"], named["version"]) if named else (jar.stem, "")
    # A jar of several modules has the properties of all; its own are those that form its file name.
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
