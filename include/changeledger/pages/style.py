"""The one stylesheet: of the pages in Airflow, which link it, and of files, which have it within them."""

from __future__ import annotations

from functools import cache
from pathlib import Path


@cache
def stylesheet() -> str:
    return (Path(__file__).parent / "style.css").read_text("utf-8")
