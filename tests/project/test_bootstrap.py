"""The set-up pins and hashes everything, refuses damaged downloads, and names a wrong Java."""

from __future__ import annotations

import hashlib
import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(PROJECT / "scripts"))

import bootstrap  # noqa: E402

from changeledger.jars import fetching as jars  # noqa: E402
from changeledger.jars.java import java, java_version  # noqa: E402

LOCK = (PROJECT / "requirements.txt").read_text()


def locked() -> dict[str, str]:
    return dict(re.findall(r"^([a-z0-9][\w.-]*)(?:\[[^\]]*\])?==(\S+)", LOCK, flags=re.MULTILINE))


def test_every_locked_package_is_pinned_and_hashed() -> None:
    logical = LOCK.replace("\\\n", " ").splitlines()
    requirements = [line for line in logical if line and not line.startswith((" ", "#"))]
    assert len(requirements) > 100
    assert [line for line in requirements if "==" not in line or "--hash=sha256:" not in line] == []


def test_both_spark_packages_are_of_one_version_in_the_lock_and_installed() -> None:
    versions = {locked()[name] for name in ("pyspark", "pyspark-client")}
    versions |= {importlib.metadata.version(name) for name in ("pyspark", "pyspark-client")}
    assert len(versions) == 1


def test_every_jar_is_pinned_not_transitive_and_has_a_checksum() -> None:
    known = jars.modules()
    listed = jars.checksums()
    assert known.keys() == listed.keys()
    assert {name.partition("/")[0] for name in known} == set(jars.CONFIGURATIONS)
    for name, element in known.items():
        assert element.get("transitive") == "false", name
        assert re.fullmatch(r"\d[\w.-]*", element.attrib["rev"]), f"{name}: not one exact revision"
        assert not element.attrib["rev"].endswith("SNAPSHOT"), name
        assert re.fullmatch(r"[0-9a-f]{64}", listed[name]), name


def test_spark_jars_do_not_repeat_what_pyspark_ships() -> None:
    def library(file: str) -> str:
        return re.sub(r"-\d[^/]*\.jar$", "", Path(file).name)

    shipped = {library(jar.name) for jar in (bootstrap.ivy_jar().parent).glob("*.jar")}
    ours = {library(n) for n in jars.modules() if n.startswith("spark/")}
    assert ours & shipped == set()


@pytest.fixture
def staged(tmp_path: Path) -> tuple[Path, Path, jars.Checksums]:
    """A staging folder with two files, an empty target, and the files' true checksums."""
    contents = {"spark/a-1.jar": b"first", "kafka/b-2.jar": b"second"}
    for name, content in contents.items():
        (tmp_path / "staging" / name).parent.mkdir(parents=True)
        (tmp_path / "staging" / name).write_bytes(content)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    return tmp_path / "staging", tmp_path / "target", sums


def test_right_files_are_accepted_and_sound_afterwards(
    staged: tuple[Path, Path, jars.Checksums],
) -> None:
    staging, target, sums = staged
    assert sorted(jars.unsound(target, sums)) == sorted(sums)
    jars.accept(staging, target, sums)
    assert jars.unsound(target, sums) == []


def test_a_changed_file_is_refused_and_nothing_is_taken(staged: tuple[Path, Path, jars.Checksums]) -> None:
    staging, target, sums = staged
    (staging / "kafka/b-2.jar").write_bytes(b"secone")
    with pytest.raises(jars.SetupError, match=r"(?s)kafka/b-2\.jar.*Run the command again") as refusal:
        jars.accept(staging, target, sums)
    assert "a-1.jar" not in str(refusal.value)
    assert not target.exists()


def test_a_jar_damaged_in_its_place_is_found(staged: tuple[Path, Path, jars.Checksums]) -> None:
    staging, target, sums = staged
    jars.accept(staging, target, sums)
    (target / "spark/a-1.jar").write_bytes(b"firs")
    assert jars.unsound(target, sums) == ["spark/a-1.jar"]


def test_a_jar_of_a_former_revision_is_removed(staged: tuple[Path, Path, jars.Checksums]) -> None:
    """A jar that a user has added, as for a login by Entra, stays."""
    staging, target, sums = staged
    jars.accept(staging, target, sums)
    (target / "spark/a-0.9.jar").write_bytes(b"old")
    assert jars.remove_unlisted(target, "spark", sums) == ["a-0.9.jar"]
    jars.note_ours(target, "spark", sums)
    (target / "spark/msal4j-1.jar").write_bytes(b"of the user")
    assert jars.remove_unlisted(target, "spark", sums) == []
    assert jars.remove_unlisted(target, "spark", {}) == ["a-1.jar"]
    assert [file.name for file in (target / "spark").glob("*.jar")] == ["msal4j-1.jar"]
    assert jars.remove_unlisted(target, "spark", {}) == [], "what is gone already"


def test_the_image_names_its_folder_from_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Dockerfile names the folder relatively, but Ivy accepts only absolute paths."""
    program = tmp_path / "java"
    program.write_text('#!/bin/sh\necho "$@"\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(jars.SetupError, match="Ivy could not fetch"):
        jars.ensure(["spark"], Path(".jars"), tmp_path / "ivy.jar", str(program), Path("ivy.log"), print)
    said = (tmp_path / "ivy.log").read_text()
    assert f"-Divy.default.ivy.user.dir={tmp_path}/.jars/.staging/ivy" in said


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_392"', 8),
        ("Unable to locate a Java Runtime.", 0),
    ],
)
def test_java_versions_are_read(banner: str, version: int) -> None:
    assert java_version(banner) == version


@pytest.mark.parametrize("version", ["1.8.0_392", "25.0.1", "17.0.15"])
def test_a_java_out_of_range_is_refused_with_the_remedy(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    if version.startswith("17"):
        assert java() == str(program)
    else:
        with pytest.raises(jars.SetupError, match=r"(?s)needs Java 17 to 21.*Install a Java 17"):
            java()


def test_a_missing_java_is_named_with_its_origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nothing"))
    with pytest.raises(jars.SetupError, match="no Java found through JAVA_HOME"):
        java()


def test_without_python_3_11_the_set_up_says_so(tmp_path: Path) -> None:
    for name in ("python3.11", "python3", "python"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    result = subprocess.run(
        ["/bin/sh", str(PROJECT / "scripts" / "bootstrap")],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert "no Python 3.11 on PATH" in result.stderr


def test_no_stamp_of_another_folder_is_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A moved `.venv` holds scripts whose first line names the former folder."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python").touch()
    stamp = tmp_path / "stamp.json"
    monkeypatch.setattr(bootstrap, "VENV", tmp_path)
    monkeypatch.setattr(bootstrap, "STAMP", stamp)
    assert bootstrap.stamped() == {}
    stamp.write_text('{"project": "/elsewhere", "lock": "1", "uv": "2"}')
    assert bootstrap.stamped() == {}
    stamp.write_text(f'{{"project": "{bootstrap.PROJECT}", "lock": "1", "uv": "2"}}')
    assert bootstrap.stamped()["lock"] == "1"


@pytest.fixture
def archived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one jar, and a Java that prints its version. Returns the Java."""
    (tmp_path / ".jars" / "spark").mkdir(parents=True)
    (tmp_path / "pyspark").mkdir()
    (tmp_path / "pyspark" / "ivy-1.jar").write_text("jar")
    (tmp_path / ".jars" / "spark" / "iceberg-1.jar").write_text("jar")
    java = tmp_path / "java"
    java.write_text("#!/bin/sh\necho 17.0.15 >&2\n")
    java.chmod(0o755)
    monkeypatch.setattr(bootstrap, "PROJECT", tmp_path)
    monkeypatch.setattr(bootstrap, "LOGS", tmp_path)
    monkeypatch.setattr(bootstrap, "ivy_jar", lambda: tmp_path / "pyspark" / "ivy-1.jar")
    return java


def test_the_archive_of_classes_is_named_by_all_that_it_depends_on(archived: Path) -> None:
    jars = archived.parent / ".jars" / "spark"

    def name() -> str:
        return bootstrap.class_archive(jars, str(archived)).name

    names = [name(), name()]
    (jars / "iceberg-1.jar").write_text("another jar")
    names.append(name())
    (archived.parent / "pyspark" / "ivy-1.jar").touch()
    names.append(name())
    archived.write_text("#!/bin/sh\necho 21.0.1 >&2\n")
    names.append(name())
    assert names[0] == names[1]
    assert len(set(names)) == 4


def test_the_archive_of_classes_is_made_once_and_replaces_those_of_other_jars(
    archived: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars, commands = archived.parent / ".jars" / "spark", []

    def run(_: str, command: list[str], __: str) -> None:
        commands.append(command)
        Path(command[-1]).touch()

    monkeypatch.setattr(bootstrap, "run_logged", run)
    (jars / "classes-old.jsa").touch()
    for _ in range(2):
        bootstrap.ensure_class_archive(str(archived))
    assert len(commands) == 1
    assert [file.name for file in jars.glob("*.jsa")] == [Path(commands[0][-1]).name]


def test_without_an_archive_of_classes_the_set_up_goes_on(
    archived: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bootstrap.ensure_class_archive(str(archived))
    assert "Spark starts without it" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("folder", "encoding", "is_readable"),
    [
        ("/home/a b/c", "ANSI_X3.4-1968", True),
        ("/home/Müller/c", "UTF-8", True),
        ("/home/Müller/c", "utf8", True),
        ("/home/Müller/c", "ANSI_X3.4-1968", False),
        ("/home/Müller/c", "ISO-8859-1", False),
    ],
)
def test_a_folder_that_the_locale_lacks_is_refused(folder: str, encoding: str, is_readable: bool) -> None:
    if is_readable:
        bootstrap.require_readable(Path(folder), encoding)
    else:
        with pytest.raises(jars.SetupError, match=r"(?s)Müller.*LC_ALL=C.UTF-8"):
            bootstrap.require_readable(Path(folder), encoding)


def test_the_demos_lake_is_where_it_can_be() -> None:
    """The set-up fetches the jars of the chosen lake before it installs anything."""

    def asked(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["make", "--dry-run", "demo", *arguments]
        return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False)

    assert "scripts/bootstrap spark kafka\n" in asked().stdout
    on_s3 = asked("LAKE=s3").stdout
    assert "scripts/bootstrap spark spark-s3 s3 rest kafka\n" in on_s3
    assert "sourcelab.demo --lake s3\n" in on_s3
    refused = asked("LAKE=gcs")
    assert refused.returncode != 0
    assert 'LAKE is disk or s3, not "gcs"' in refused.stderr
    assert "bootstrap" not in refused.stdout
