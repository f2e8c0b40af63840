"""Shared parts of the reports: samples from the lake, and writing a page and its Markdown."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from changeledger.config.object_path import PagePath
from changeledger.kernels import display
from changeledger.model.errors import WorkedOn
from changeledger.pages import html
from changeledger.pages.redaction import error_text

log = logging.getLogger("changeledger")

_TEMPLATES = Path(__file__).parent / "templates"


def samples(
    rows: DataFrame, by: Sequence[str], order: Sequence[str], most: int
) -> Mapping[tuple[Any, ...], list[dict[str, Any]]]:
    """Returns the first `most` rows, in `order`, for each value of the columns `by`."""
    first = Window.partitionBy(*by).orderBy(*order)
    numbered = rows.withColumn("n", F.row_number().over(first)).where(F.col("n") <= most)
    rows_by_group: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for row in numbered.orderBy("n").collect():
        rows_by_group[tuple(row[name] for name in by)].append(row.asDict(recursive=True))
    return rows_by_group


@contextmanager
def written(write: Callable[[], None]) -> Iterator[None]:
    """Writes the report when the work has succeeded or failed, and raises the work's error.

    If another process does the work, that process writes the report.
    """
    try:
        yield
    except WorkedOn:
        raise
    except Exception:
        try:
            write()
        except Exception as second:  # noqa: BLE001 - the work's own error is the one to see
            log.warning("the report could not be written: %s", error_text(second))
        raise
    write()


def write(name: str, folder: PagePath, known: Mapping[str, Any], **filters: Callable[..., Any]) -> None:
    """Writes `index.html` and `<name>.md` in the folder, from the templates of that name."""
    for kind, page in (("html", "index.html"), ("md", f"{name}.md")):
        html.write(_TEMPLATES / f"{name}.{kind}.j2", folder / page, known, place=display.place, **filters)
