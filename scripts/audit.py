"""Runs `make audit`: checks the project's Python packages and jars for known vulnerabilities.

pip-audit checks packages, and jars are looked up by their coordinates, both with the advisories of
https://osv.dev. Accepted advisories are listed in .ci/allowed-advisories.toml, each until a date.
"""
# ruff: noqa: S603, T201 - runs pip-audit with arguments of its own, and talks to the terminal

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from inventory import PROJECT, Component, own_jars, pyspark_jars

ALLOWED = PROJECT / ".ci" / "allowed-advisories.toml"
SERVICE = "https://api.osv.dev"
# Exit codes.
CLEAN, VULNERABLE, WRONG_LIST, NOT_AUDITED = 0, 1, 2, 3
_LONGEST = timedelta(days=180)
_MEMBERS = {"id": str, "component": str, "reason": str, "decided": date, "until": date}
_TIMEOUT_SECONDS = 20
_AT_ONCE = 500


class Finding(NamedTuple):
    """A known vulnerability. `ids`: the advisory's own id and its aliases."""

    component: str
    version: str
    ids: tuple[str, ...]
    fixed_in: str = ""


class NotAudited(Exception):
    """The advisories cannot be queried. The text says why."""


def allowed(text: str, today: date) -> tuple[dict[tuple[str, str], str], list[str]]:
    """Returns the reasons by (component, id), and what is wrong with the list."""
    reasons, wrong = {}, []
    for number, entry in enumerate(tomllib.loads(text).get("allowed", []), 1):
        lacking = [n for n, kind in _MEMBERS.items() if not isinstance(entry.get(n), kind) or not entry[n]]
        if lacking or set(entry) - set(_MEMBERS):
            wrong.append(f"entry {number}: it needs {', '.join(_MEMBERS)}, and nothing else")
            continue
        name = f"{entry['id']} of {entry['component']}"
        if entry["until"] < today:
            wrong.append(f"{name}: allowed until {entry['until']}: repair it, or decide again")
        elif entry["until"] - entry["decided"] > _LONGEST:
            wrong.append(f"{name}: allowed for more than {_LONGEST.days} days")
        reasons[entry["component"], entry["id"]] = entry["reason"]
    return reasons, wrong


def python_holes(service: str) -> list[Finding]:
    """Returns the vulnerabilities of Python packages. Raises NotAudited if pip-audit gives no answer."""
    command = [
        str(Path(sys.executable).with_name("pip-audit")), "--requirement", str(PROJECT / "requirements.txt"),
        "--require-hashes", "--disable-pip", "--vulnerability-service", "osv",
        "--osv-url", f"{service}/v1/query", "--format", "json", "--progress-spinner", "off",
        "--timeout", str(_TIMEOUT_SECONDS), "--cache-dir", str(PROJECT / ".cache" / "pip-audit"),
    ]  # fmt: skip
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        answer = json.loads(ran.stdout)
    except ValueError:
        last = (ran.stderr.strip().splitlines() or ["it said nothing"])[-1]
        raise NotAudited(f"pip-audit: {last}") from None
    return [
        Finding(d["name"], d["version"], (v["id"], *v["aliases"]), ", ".join(v["fix_versions"]))
        for d in answer["dependencies"]
        for v in d.get("vulns", [])
    ]


def jar_holes(jars: Sequence[Component], service: str) -> list[Finding]:
    """Returns the vulnerabilities of jars. Raises NotAudited if the service does not answer."""
    findings = []
    # Advisories apply to all platforms, so the purl is looked up without its classifier.
    known = {jar.purl.partition("?")[0]: jar for jar in jars if jar.group}
    asked = list(known.items())
    for at in range(0, len(asked), _AT_ONCE):
        part = asked[at : at + _AT_ONCE]
        queries = [{"package": {"purl": purl}} for purl, _ in part]
        results = _asked(f"{service}/v1/querybatch", {"queries": queries})["results"]
        for (_, jar), result in zip(part, results, strict=True):
            findings += [
                Finding(f"{jar.group}:{jar.name}", jar.version, (hole["id"],))
                for hole in result.get("vulns", [])
            ]
    return findings


def _asked(address: str, query: Mapping[str, Any]) -> dict[str, Any]:
    request = urllib.request.Request(  # noqa: S310 - the service's address, or a test's
        address, json.dumps(query).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:  # noqa: S310 - as above
            return dict(json.load(answer))
    except (urllib.error.URLError, TimeoutError, ValueError) as error:
        raise NotAudited(f"{address}: {error}") from error


def report(findings: Iterable[Finding], reasons: Mapping[tuple[str, str], str]) -> int:
    """Prints the findings, and returns how many are not allowed."""
    count = 0
    for finding in sorted(findings):
        reason = next(
            (reasons[finding.component, i] for i in finding.ids if (finding.component, i) in reasons), None
        )
        fixed = f", fixed in {finding.fixed_in}" if finding.fixed_in else ""
        said = f"allowed: {reason}" if reason is not None else "NOT ALLOWED"
        print(f"  {finding.component} {finding.version}: {', '.join(finding.ids)}{fixed}: {said}")
        count += reason is None
    return count


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--service", default=SERVICE, help="address of the OSV API")
    arguments = parser.parse_args(argv)
    reasons, wrong = allowed(ALLOWED.read_text("utf-8"), date.today())
    if wrong:
        print(f"{ALLOWED} is wrong:", *wrong, sep="\n  ", file=sys.stderr)
        return WRONG_LIST
    jars = [*own_jars(), *pyspark_jars()]
    unknown = sum(not jar.group for jar in jars)
    try:
        findings = jar_holes(jars, arguments.service) + python_holes(arguments.service)
    except NotAudited as error:
        print(
            f"{'*' * 78}\nNOT AUDITED: the advisories cannot be asked, so known holes are not found.\n"
            f"  {error}\n  Run `make audit` where {arguments.service} can be reached.\n{'*' * 78}",
            file=sys.stderr,
        )
        return NOT_AUDITED
    count = report(findings, reasons)
    print(f"{count} known holes that are not allowed, {len(findings) - count} allowed")
    print(f"{len(jars) - unknown} jars were looked up; {unknown} of pyspark's do not say what they are")
    return VULNERABLE if count else CLEAN


if __name__ == "__main__":
    sys.exit(main())
