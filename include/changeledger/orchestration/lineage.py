"""What a stage has written, for OpenLineage, whose provider is an option and not in the lock."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from airflow.providers.openlineage.extractors import OperatorLineage


class Place(NamedTuple):
    """A dataset's name in OpenLineage."""

    namespace: str
    name: str


def written(tables: Iterable[str], warehouse: str) -> OperatorLineage:
    from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415 - an option
    from openlineage.client.event_v2 import Dataset  # noqa: PLC0415

    return OperatorLineage(outputs=[Dataset(*place(table, warehouse)) for table in tables])


def place(table: str, warehouse: str) -> Place:
    """Of `lake.<feed>.<table>` where it lies, as OpenLineage's Spark listener names it: the two meet.

    Source: OpenLineage's naming of datasets on a local file system and in object stores.
    """
    root = urlsplit(warehouse)
    path = "/".join((root.path.rstrip("/"), *table.split(".")[1:]))
    if root.scheme in {"", "file"}:
        return Place("file", path)
    return Place(f"{root.scheme}://{root.netloc}", path.removeprefix("/"))
