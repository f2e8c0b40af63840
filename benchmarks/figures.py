"""What the tries of one subject come to."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.bench import Result
from benchmarks.judge import Wrong


class Figures(NamedTuple):
    """Medians of one subject's tries."""

    results: Sequence[Result]

    def wall(self, *spans: str) -> float:
        return median(one.measured.wall(*spans) for one in self.results)

    def cpu(self, *spans: str) -> float:
        return median(one.measured.cpu(*spans) for one in self.results)

    def cpu_of(self, kind: str) -> float:
        return median(sum(s.cpu.get(kind, 0.0) for s in one.measured.spans) for one in self.results)

    def peak(self, kind: str) -> float:
        return max(one.measured.peaks.get(kind, 0.0) for one in self.results)

    @property
    def spans(self) -> list[str]:
        return list(dict.fromkeys(span.name for span in self.results[0].measured.spans))

    @property
    def wrong(self) -> Wrong | None:
        found = [one.wrong for one in self.results if one.wrong is not None]
        return max(found, key=lambda one: one.rows + (one.versions or 0)) if found else None
