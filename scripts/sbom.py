"""Runs `make sbom`: writes the software bill of materials as CycloneDX JSON to standard output."""
# ruff: noqa: T201 - the output is the product

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Sequence
from typing import Any

from inventory import PROJECT, Component, components

_WHAT = {
    "python": "locked in requirements.txt",
    "spark": "on Spark's class path",
    "kafka": "the broker of demo and tests, never part of an installation",
    "spark-s3": "on Spark's class path where the lake is on S3",
    "s3": "the S3 server of demo and tests, never part of an installation",
    "rest": "the REST catalog of demo and tests, never part of an installation",
    "debezium": "the engine of integration tests, never part of an installation",
    "yarn": "the resource and node manager of integration tests, never part of an installation",
    "bench": "Spark's Kafka source, for the benchmarks, never part of an installation",
    "pyspark": "in pyspark's wheel, on Spark's class path",
}
_FOR_TESTS = {"s3", "rest", "kafka", "debezium", "yarn", "bench"}


def document(dependencies: Sequence[Component]) -> dict[str, Any]:
    """Returns the document, without time and serial number: the same dependencies give the same file."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": project["name"],
                "name": project["name"],
                "version": project["version"],
                "licenses": [{"license": {"id": project["license"]}}],
            }
        },
        "components": [_entry(component) for component in dependencies],
    }


def _entry(component: Component) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "type": "library",
        # A jar may be on two class paths.
        "bom-ref": f"{component.origin}:{component.purl}",
        "name": component.name,
        "version": component.version,
        "purl": component.purl,
        "scope": "excluded" if component.origin in _FOR_TESTS else "required",
        "properties": [{"name": "changeledger:origin", "value": _WHAT[component.origin]}],
    }
    if component.group:
        entry["group"] = component.group
    hashes = [{"alg": "SHA-256", "content": digest} for digest in component.sha256]
    if component.kind == "pypi":
        # A package has several files, any of which may be installed.
        address = f"https://pypi.org/project/{component.name}/{component.version}/"
        entry["externalReferences"] = [{"type": "distribution", "url": address, "hashes": hashes}]
    else:
        entry["hashes"] = hashes
    return entry


def main() -> int:
    json.dump(document(components()), sys.stdout, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
