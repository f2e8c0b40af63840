"""The lines that a job prints, as they go into the task's log."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator

# As `changeledger.job` has them: Airflow notes time and level itself.
_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} (DEBUG|INFO|WARNING|ERROR|CRITICAL) (.*)")
_TRACEBACK = "Traceback (most recent call last):"


class JobLines:
    """Each line with its level. The last error is kept: a log ends with it, whatever Spark prints then."""

    def __init__(self) -> None:
        # The lines of the last error, a Python traceback among them.
        self.error: list[str] = []

    def of(self, printed: Iterable[str]) -> Iterator[tuple[int, str]]:
        within = False
        for line in map(str.rstrip, printed):
            own = _LINE.match(line)
            level, text = (logging.getLevelNamesMapping()[own[1]], own[2]) if own else (logging.INFO, line)
            begins = level >= logging.ERROR or line == _TRACEBACK
            if own or begins:
                # The job went on.
                yield from self.kept()
            # An error goes on in lines that begin with blanks, a traceback until the next line of ours.
            goes_on = within and not own and (line[:1].isspace() or self.error[0] == _TRACEBACK)
            within = begins or goes_on
            if within:
                self.error.append(text)
            else:
                yield level, text

    def kept(self) -> Iterator[tuple[int, str]]:
        """What was kept, and is not the end of the log."""
        lines, self.error = self.error, []
        yield from ((logging.ERROR, line) for line in lines)
