"""Fetches jars into `<target>/<configuration>/`, each checked against `jars.sha256` beside this file.

`ivy.xml` names every jar with one exact revision. Ivy, which ships inside pyspark, fetches missing jars into
a staging folder. A jar is moved to its place by a rename once its checksum is verified, so that running again
repairs an interrupted or damaged download.

Jars that were fetched earlier and are no longer listed are removed: with two revisions of a library on the
class path, chance would decide. Other jars in the folder stay, as somebody needs them for a login
(docs/connections.md).
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

_HERE: Final = Path(__file__).parent
IVY_XML: Final = _HERE / "ivy.xml"
LOCK: Final = _HERE / "jars.sha256"
CONFIGURATIONS: Final = ("spark", "spark-s3", "s3", "rest", "kafka", "debezium", "yarn", "bench")
_CLASSIFIER: Final = "{http://ant.apache.org/ivy/maven}classifier"
# The file in each folder that lists the jars fetched into it.
_OURS: Final = "fetched"
Checksums = dict[str, str]
"""`<configuration>/<file>` → SHA-256 in hex; the format of `sha256sum`, so that it can be checked by hand."""


class SetupError(Exception):
    """Raised if set-up cannot go on. From its second line on, the message says what to do."""

    @property
    def parts(self) -> tuple[str, str]:
        """What is wrong, and the remedy, which is empty if there is none."""
        what, _, remedy = str(self).partition("\n")
        return what, remedy.strip()


def modules() -> dict[str, ElementTree.Element]:
    """Returns the dependency elements by `<configuration>/<file>`. Ivy's `conf` reads `ours->theirs`."""
    elements = {}
    for element in ElementTree.parse(IVY_XML).iter("dependency"):  # noqa: S314
        configuration = element.attrib["conf"].partition("->")[0]
        parts = [element.attrib["name"], element.attrib["rev"]]
        parts += [artifact.attrib[_CLASSIFIER] for artifact in element.iter("artifact")]
        elements[f"{configuration}/{'-'.join(parts)}.jar"] = element
    return elements


def checksums() -> Checksums:
    lines = (line.split() for line in LOCK.read_text().splitlines() if line)
    return {file: digest for digest, file in lines}


def sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def unsound(folder: Path, expected: Checksums) -> list[str]:
    """Returns the expected files that are missing from `folder` or differ from their checksum."""
    return [
        name
        for name, digest in expected.items()
        if not (folder / name).is_file() or sha256(folder / name) != digest
    ]


def accept(staging: Path, target: Path, expected: Checksums) -> None:
    """Moves the expected files from `staging` to `target`.

    Raises SetupError, and moves none, unless all have the right checksum.
    """
    wrong = unsound(staging, expected)
    if wrong:
        raise SetupError(
            "these jars are missing or do not have the checksum in jars.sha256, so none was taken:\n"
            + "".join(f"    {name}\n" for name in wrong)
            + "  Run the command again. If it stays so, something between here and the jar repository\n"
            "  changes files: ask whoever runs the proxy. After a deliberate change of ivy.xml:"
            " `make lock-jars`."
        )
    for name in expected:
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (staging / name).replace(target / name)


def remove_unlisted(target: Path, configuration: str, listed: Checksums) -> list[str]:
    """Removes jars that an earlier call fetched and that are no longer listed. Returns their names."""
    folder = target / configuration
    known = folder / _OURS
    # A folder from before this file was written has only fetched jars.
    ours = known.read_text().split() if known.exists() else [file.name for file in folder.glob("*.jar")]
    gone = [name for name in ours if f"{configuration}/{name}" not in listed and (folder / name).exists()]
    for name in gone:
        (folder / name).unlink()
    return gone


def note_ours(target: Path, configuration: str, listed: Checksums) -> None:
    names = [name.partition("/")[2] for name in listed if name.startswith(f"{configuration}/")]
    known, text = target / configuration / _OURS, "".join(f"{name}\n" for name in names)
    if not known.exists() or known.read_text() != text:
        # A folder that already had all jars may belong to somebody else and not be writable.
        with suppress(OSError):
            known.write_text(text)


@contextmanager
def staging_folder(target: Path) -> Iterator[Path]:
    """Provides an empty folder in the target, so that a rename suffices, and removes it at the end.

    Removes what a killed run has left in it.
    """
    staging = target / ".staging"
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir(parents=True)
    try:
        yield staging
    finally:
        shutil.rmtree(staging)


def download(
    wanted: Sequence[ElementTree.Element], staging: Path, ivy_jar: Path, java: str, log: Path
) -> None:
    """Lets Ivy fetch exactly the wanted modules into `staging/<configuration>/`."""
    root = ElementTree.Element("ivy-module", version="2.0")
    ElementTree.SubElement(root, "info", organisation="changeledger", module="jars")
    configurations = ElementTree.SubElement(root, "configurations")
    for name in CONFIGURATIONS:
        ElementTree.SubElement(configurations, "conf", name=name)
    ElementTree.SubElement(root, "dependencies").extend(wanted)
    ElementTree.ElementTree(root).write(staging / "ivy.xml")
    command = [
        *(java, f"-Divy.default.ivy.user.dir={staging / 'ivy'}", "-jar", str(ivy_jar)),
        *("-settings", str(_HERE / "ivysettings.xml"), "-cache", str(staging / "cache")),
        *("-ivy", str(staging / "ivy.xml"), "-confs", *CONFIGURATIONS),
        *("-retrieve", f"{staging}/[conf]/[artifact]-[revision](-[classifier]).[ext]"),
    ]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as output:
        code = subprocess.run(command, stdout=output, stderr=subprocess.STDOUT, check=False).returncode  # noqa: S603
    if code:
        problems = [line for line in log.read_text().splitlines() if "not found" in line or "WARN" in line]
        raise SetupError(
            "Ivy could not fetch the jars:\n"
            + "\n".join(problems[:15] or log.read_text().splitlines()[-15:])
            + f"\n  Full log: {log}\n  Check the network (behind a proxy, set JAVA_TOOL_OPTIONS to"
            " -Dhttps.proxyHost=... -Dhttps.proxyPort=...) and run the command again."
        )


def ensure(  # noqa: PLR0913, PLR0917 - what to fetch, where to, with what
    configurations: Sequence[str],
    target: Path,
    ivy_jar: Path,
    java: str,
    log: Path,
    say: Callable[[str], None],
) -> None:
    """Makes `<target>/<configuration>/` hold the listed jars, unchanged, and none of an earlier list.

    `log`: the file for Ivy's output. Raises SetupError.
    """
    # Ivy refuses a relative path.
    target = target.absolute()
    listed = checksums()
    expected = {name: digest for name, digest in listed.items() if name.partition("/")[0] in configurations}
    for configuration in configurations:
        for name in remove_unlisted(target, configuration, listed):
            say(f"removed {target / configuration / name}, of another version")
    if missing := unsound(target, expected):
        say(f"fetching {len(missing)} jars for {', '.join(configurations)} (once) ...")
        known = modules()
        with staging_folder(target) as staging:
            download([known[name] for name in missing], staging, ivy_jar, java, log)
            accept(staging, target, {name: expected[name] for name in missing})
    for configuration in configurations:
        note_ours(target, configuration, listed)


def lock(target: Path, ivy_jar: Path, java: str, log: Path) -> None:
    """Writes `jars.sha256` again, after a deliberate change of `ivy.xml`."""
    known = modules()
    with staging_folder(target) as staging:
        download(list(known.values()), staging, ivy_jar, java, log)
        lines = [f"{sha256(staging / name)}  {name}\n" for name in known]
    LOCK.write_text("".join(lines))
