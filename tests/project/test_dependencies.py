"""The audit of dependencies and the bill of materials, from the files that pin them.

A server of this test serves the advisories. Its answers have the form of OSV's API
(https://google.github.io/osv.dev/post-v1-query/ and post-v1-querybatch/). pip-audit itself queries it.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from datetime import date, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from changeledger.config.settings import PROJECT

sys.path.insert(0, str(PROJECT / "scripts"))
try:
    import inventory
    import sbom

    import audit
finally:
    sys.path.pop(0)

TODAY = date(2026, 6, 1)
JINJA = {
    "id": "PYSEC-1", "aliases": ["CVE-1"], "summary": "a hole",
    "affected": [
        {
            "package": {"name": "jinja2", "ecosystem": "PyPI"},
            "ranges": [{"type": "ECOSYSTEM", "events": [{"introduced": "0"}, {"fixed": "99.0"}]}],
        }
    ],
}  # fmt: skip


class Advisories(BaseHTTPRequestHandler):
    """Vulnerabilities of jinja2 and of the benchmarks' kafka-clients only."""

    def do_POST(self) -> None:
        query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/v1/query":
            answer = {"vulns": [JINJA]} if query["package"]["name"] == "jinja2" else {}
        else:
            holes = {"vulns": [{"id": "GHSA-1", "modified": "2026-01-01T00:00:00Z"}]}
            purls = [asked["package"]["purl"] for asked in query["queries"]]
            wrong = "pkg:maven/org.apache.kafka/kafka-clients@3."
            answer = {"results": [holes if purl.startswith(wrong) else {} for purl in purls]}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Advisories)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def entry(component: str, advisory: str, **members: object) -> str:
    reported = {"decided": date.today(), "until": date.today() + timedelta(days=30), **members}
    return f'[[allowed]]\nid = "{advisory}"\ncomponent = "{component}"\nreason = "not reachable"\n' + "".join(
        f"{name} = {value}\n" for name, value in reported.items()
    )


def audited(service: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *entries: str) -> int:
    file = tmp_path / "allowed.toml"
    file.write_text("\n".join(entries), "utf-8")
    monkeypatch.setattr(audit, "ALLOWED", file)
    return audit.main(["--service", service])


def test_holes_of_packages_and_jars(
    service: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: dict[str, list[audit.Finding]] = {}
    usual = audit.python_holes
    monkeypatch.setattr(audit, "python_holes", lambda url: asked.setdefault(url, usual(url)))
    assert audited(service, monkeypatch, tmp_path, entry("jinja2", "CVE-1")) == audit.VULNERABLE
    said = capsys.readouterr().out
    assert "PYSEC-1, CVE-1, fixed in 99.0: allowed: not reachable" in said
    assert "org.apache.kafka:kafka-clients 3." in said
    assert "GHSA-1: NOT ALLOWED" in said
    assert "1 known holes that are not allowed, 1 allowed" in said
    # Reuses pip-audit's answers.
    monkeypatch.setattr(audit, "python_holes", asked.__getitem__)
    both = entry("jinja2", "PYSEC-1"), entry("org.apache.kafka:kafka-clients", "GHSA-1")
    assert audited(service, monkeypatch, tmp_path, *both) == audit.CLEAN


def test_a_service_that_is_not_there_is_said_loudly(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert audited("http://127.0.0.1:9", monkeypatch, tmp_path) == audit.NOT_AUDITED
    assert "NOT AUDITED" in capsys.readouterr().err
    with pytest.raises(audit.NotAudited, match="pip-audit"):
        audit.python_holes("http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("members", "says"),
    [
        ({"until": date(2026, 5, 31)}, "allowed until 2026-05-31"),
        ({"decided": date(2026, 1, 1), "until": date(2026, 7, 1)}, "more than 180 days"),
        ({"until": '"2026-07-01"'}, "it needs id"),
        ({"who": 1}, "it needs id"),
    ],
)
def test_entries_that_do_not_count(members: dict[str, object], says: str) -> None:
    _, wrong = audit.allowed(entry("a", "b", **{"decided": TODAY, "until": TODAY, **members}), TODAY)
    assert len(wrong) == 1
    assert says in wrong[0]


def test_the_list_of_this_project_counts() -> None:
    assert audit.allowed(audit.ALLOWED.read_text("utf-8"), date.today())[1] == []


def test_the_bill_of_materials() -> None:
    components = inventory.components()
    document = sbom.document(components)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(json.dumps(document)) is None
    by_ref = {component["bom-ref"]: component for component in document["components"]}
    assert len(by_ref) == len(components)
    lines = (PROJECT / "include" / "changeledger" / "jars" / "jars.sha256").read_text("utf-8").splitlines()
    pinned = {(file.partition("/")[0], digest) for digest, file in map(str.split, lines)}
    folders = {folder for folder, _ in pinned}
    ours = {
        (ref.partition(":")[0], component["hashes"][0]["content"])
        for ref, component in by_ref.items()
        if ref.partition(":")[0] in folders
    }
    assert ours == pinned
    spark = by_ref["pyspark:pkg:maven/org.apache.spark/spark-core_2.13@4.1.3"]
    assert len(spark["hashes"][0]["content"]) == 64
    (airflow,) = by_ref["python:pkg:pypi/apache-airflow@3.3.2"]["externalReferences"]
    assert airflow["hashes"]
    locked = (PROJECT / "requirements.txt").read_text("utf-8").count("\n    --hash=sha256:")
    packages = [package for package in components if package.kind == "pypi"]
    assert sum(len(package.sha256) for package in packages) == locked


def test_kafka_clients_has_no_hole_that_is_known() -> None:
    """CVE-2025-27817 and -27818 are fixed in 3.9.1 (https://kafka.apache.org/cve-list).

    CVE-2026-35554 is fixed in 3.9.2, 4.0.2 and 4.1.2.
    """
    versions = {
        jar.origin: tuple(map(int, jar.version.split(".")))
        for jar in inventory.own_jars()
        if jar.name == "kafka-clients"
    }
    assert versions["bench"] >= (3, 9, 2)
    assert versions["kafka"] >= (4, 1, 2)
