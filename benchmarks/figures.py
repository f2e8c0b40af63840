"""The figures of one subject's tries."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from benchmarks.bench import Result
from benchmarks.judge import Wrong


class Figures(NamedTuple):
    """The medians of one subject's tries. Peaks of memory and wrong rows are maxima."""

    results: Sequence[Result]

    def wall(self, *spans: str) -> float:
        return median(result.measured.wall(*spans) for result in self.results)

    def cpu(self, *spans: str) -> float:
        return median(result.measured.cpu(*spans) for result in self.results)

    def cpu_of(self, kind: str) -> float:
        return median(sum(s.cpu.get(kind, 0.0) for s in result.measured.spans) for result in self.results)

    def peak(self, kind: str) -> float:
        return max(result.measured.peaks.get(kind, 0.0) for result in self.results)

    @property
    def spans(self) -> list[str]:
        return list(dict.fromkeys(span.name for span in self.results[0].measured.spans))

    @property
    def wrong(self) -> Wrong | None:
        mismatches = [result.wrong for result in self.results if result.wrong is not None]
        return max(mismatches, key=lambda wrong: wrong.rows + (wrong.versions or 0)) if mismatches else None
